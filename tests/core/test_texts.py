"""Text that is run never holds what a user's object says of itself: core/texts.py."""

from __future__ import annotations

import builtins
import contextlib
import enum
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.toolchain import discovery

F = ad.nn.functional
WORDS = 'a"""\n*/ evil();\n"""+str(evil())+"""\'\'\'+evil()#\\'


def _evil(kind: type) -> Any:
    """A subclass of a plain class that says other things of itself."""
    says = lambda self, *_: f"evil({kind.__name__!r})"
    return type(kind.__name__, (kind,), dict.fromkeys(("__repr__", "__str__", "__format__"), says))


Str, Int, Float, Complex = map(_evil, (str, int, float, complex))


class Colour(str, enum.Enum):  # noqa: UP042 - whose repr is no literal
    RED = "red"


def _named(x: Any) -> Any:
    return x * 2


_named.__name__ = WORDS
_space: dict[str, Any] = {}
exec(compile("def elsewhere(x): return x.sin() * 2", 'file\nevil()\n"""*/evil()', "exec"), _space)

KEYS = {"words": WORDS, "str": Str("k"), "enum": Colour.RED, "np.str_": np.str_("k"), "int": Int(1)}
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{f"key: {n}": (lambda d: {k: v * 2 for k, v in d.items()}, (k,)) for n, k in KEYS.items()},
    "factor": (lambda x: x * Float(2) + Int(3), ()),
    "complex": (lambda x: (x * Complex(2j)).real, ()),
    "dimension": (lambda x: x.sum(Int(0)).cumsum(-Int(1)) + x.softmax(Int(0)), ()),
    "einsum": (lambda x: ad.einsum(Str("ij->i"), x), ()),
    "mode": (lambda x: ad.div(x, 2 * x, rounding_mode=Str("floor")), ()),
    "approximate": (lambda x: F.gelu(x, approximate=Str("tanh")), ()),
    "shape": (lambda x: x.reshape(Int(1), -1).expand(Int(2), -1).roll(Int(1), Int(0)), ()),
    "full": (lambda x: ad.full((Int(3),), Float(2)) + x[:, :3], ()),
    "slice": (lambda x: x[Int(0) : Int(2) : Int(1)], ()),
    "clamp": (lambda x: x.clamp(Float(0), Float(1)) ** Float(2.5), ()),
    "logit": (lambda x: ad.logit(x, eps=Float(0.25)), ()),
    "elu": (lambda x: F.elu(x, Float(2)) + F.threshold(x, Float(0.5), Float(7)), ()),
    "polygamma": (lambda x: ad.polygamma(Int(2), x + 2), ()),
    "scan": (lambda x: ad.scan(lambda c, s: (c * Float(2) + s, c), x[0], x)[0], ()),
    "static number": (lambda x, n: x * n, (Int(2),)),
    "static real": (lambda x, n: x * n, (Float(2),)),
    "static word": (lambda x, n: x * len(n), (Str("word"),)),
    "static words": (lambda x, n: x * len(n), (WORDS,)),
    "results": (lambda x: (x * 2, {Str("a"): x}, Float(2), Int(3), Str("b"), WORDS), ()),
    "name": (_named, ()),
    "file": (_space["elsewhere"], ()),
}


def _arguments(case: str, x: Any) -> tuple[Any, ...]:
    more = CASES[case][1]
    return ({more[0]: x},) if case.startswith("key") else (x, *more)


def _of_graph(function: Any, args: Any, folder: Path) -> None:
    graph = ad.trace(function, *args)
    text = str(graph)
    exec(text, {"constants": graph.constants})
    again = ad.graph.parse(text, graph.constants)
    exec(str(again), {"constants": again.constants})


def _of_numpy(function: Any, args: Any, folder: Path) -> None:
    graph = ad.trace(function, *args)
    with contextlib.suppress(NotImplementedError):  # some kernels need more than NumPy
        exec(ad.export.python(graph), {})


def _of_c(function: Any, args: Any, folder: Path) -> None:
    if isinstance(pytreed := function(*args), tuple):
        function = lambda *a: pytreed[0]  # results that are numbers are refused
    try:
        source, _ = ad.export.c(function, *args, path=folder / "made.c")
    except ad.graph.GraphError:  # there is no C for it
        return
    tools = discovery.toolchain()
    assert tools is not None
    command = [*tools.command, "-c", str(source), "-o", str(folder / "made.o")]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0


def _compiled(function: Any, args: Any, folder: Path) -> None:
    wanted = ad.tree.leaves(function(*args))
    compiled = ad.compile(function)
    for _ in range(4):
        found = ad.tree.leaves(compiled(*args))
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-6) if hasattr(theirs, "shape") else None
            assert type(mine) is type(theirs)


def _gradient(function: Any, args: Any, folder: Path) -> None:
    tensors = lambda *a: [t for t in ad.tree.leaves(function(*a)) if isinstance(t, ad.Tensor)]
    total = lambda *a: ad.stack([t.sum() for t in tensors(*a)]).sum()
    _compiled(ad.grad(total), args, folder)


WAYS = {"graph": _of_graph, "NumPy": _of_numpy, "C": _of_c, "compiled": _compiled}
WAYS["gradient"] = _gradient


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    found: list[Any] = []
    monkeypatch.setattr(builtins, "evil", lambda *a: found.append(a) or 0, raising=False)
    yield found
    assert found == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_text_that_is_run_holds_nothing_that_objects_say(
    case: str, way: str, calls: list[Any], tmp_path: Path
) -> None:
    x = ad.linspace(0.25, 0.75, 12, dtype=ad.float64).reshape(3, 4)
    WAYS[way](CASES[case][0], _arguments(case, x), tmp_path)


@pytest.mark.parametrize("case", ["factor", "clamp", "logit", "elu", "polygamma", "mode"])
def test_native_kernels_of_large_arrays_hold_nothing_that_objects_say(
    case: str, calls: list[Any]
) -> None:
    x = ad.linspace(0.25, 0.75, 1 << 15, dtype=ad.float64).reshape(2, -1)
    large, few = (CASES[case][0](v)[0, :9] for v in (x, x[:, :9]))
    np.testing.assert_allclose(large, few, 1e-12)


def test_words_that_are_no_names_are_keywords(calls: list[Any]) -> None:
    graph = ad.trace(lambda **k: k[WORDS] * 2 + k["x"], **{WORDS: ad.ones(2), "x": ad.ones(2)})
    exec(str(graph), {})
    again = ad.graph.parse(str(graph))
    assert again(**{WORDS: ad.ones(2), "x": ad.ones(2)}).tolist() == [3.0, 3.0]


def test_dictionaries_of_a_known_signature_go_the_short_way(calls: list[Any]) -> None:
    for key in KEYS.values():
        compiled = ad.compile(lambda d, key=key: d[key] * 2)
        for _ in range(3):
            compiled({key: ad.ones(2)})
        short, _, _ = compiled.entry
        assert short({key: ad.ones(2)}).tolist() == [2.0, 2.0]

"""Rows from outside, mutated and made up: `ad.library` gives working rows or raises `TableError`.

Reading a row does nothing but open its file, and ends. A row that was accepted is called, and
differentiated in every mode; it computes or raises a documented error.

    python -m tests.campaigns.hostile_rows --seconds 60 --seed 0
"""

from __future__ import annotations

import atexit
import functools
import random
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError, TableError
from adjoint.expressions.special_functions import called
from adjoint.table import TABLE
from tests import tables
from tests.campaigns import campaign
from tests.watching import limited, watched

FAMILY = "hostile"
# What a kernel of a user's own may raise when it is called with what does not suit it.
OF_KERNELS = (TypeError, ValueError, AttributeError, ArithmeticError, IndexError, MemoryError)

ATOMS = (
    "self", "other", "grad", "result", "dim", "mode", "self_t", "self_p", "other_t", "grads", "xp",
    "linalg", "loss", "shape", "hostile", "len", "range", "None", "True", "0", "1", "2.5", "1j",
    "'a'", "...", "10**9", "9" * 25, "_frame", "_Tensor", "__builtins__", "_op__sum", "os", "type",
    "sum", "where", "zeros_like", "matmul", "result0", "grad_input_mask", "retain_variables",
    "self__shape", "x", "open", "eval", "isinstance", "list", "float",
)  # fmt: skip
ATTRIBUTES = (
    "shape", "dtype", "ndim", "T", "mT", "real", "sum", "conj", "value", "edge", "interpreter",
    "numpy", "array", "data", "__class__", "__globals__", "dtypes", "np", "testing", "os", "system",
    "format", "tofile", "at", "reduce", "char", "astype", "copy", "backward", "numel", "size",
    "add_", "to", "solve_vjp", "sin", "load", "einsum", "np_", "ctypes", "base", "tolist", "item",
)  # fmt: skip
TEMPLATES = (
    "{}.{a}", "{}.{a}({})", "{}({})", "{}({}, {})", "{} + {}", "{} * {}", "-{}", "{}[{}]", "{}[0]",
    "({}, {})", "[{}, {}]", "[{} for x in {}]", "all({} for x in {})", "{} if {} else {}",
    "{} ** {}", "{} == {}", "{} is None", "{} and {}", "wrap_opt_if({}, {})", "{}.{a}({}, dim={})",
    "{}.{a}.{b}", "{}.{a}.{b}({})", "where({}, {}, {})", "lambda: {}", "*{}", "{} @ {}",
    "({} := {})", "{{{}: {}}}", "xp.{a}({})", "linalg.{a}({})", "hostile.{a}", "{} << {}", "~{}",
    "{}({a}={})", "{}(**{})", "[{} for {} in {}]", "{}[{}:{}]", "not {}", "{} in {}", "yield {}",
)  # fmt: skip
SCHEMAS = (
    "{n}(Tensor self) -> Tensor",
    "{n}(Tensor self, Tensor other, int dim=0, str mode='a') -> Tensor",
    "{n}.s(Tensor self, Scalar other=1, *, ScalarType? dtype=None) -> Tensor",
    "{n}(Tensor[] tensors, int dim=0) -> Tensor",
    "{n}(Tensor self) -> (Tensor values, Tensor indices)",
    "{n}(Tensor(a) self, int[2] size=[1,1]) -> Tensor(a)",
    "{n}_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "{n}(Tensor? self=None, bool[3] other=True) -> Tensor[]",
    "{n}(int dim, float? other=None) -> Tensor",
    "{n}(Tensor self, Tensor import) -> Tensor",
    "{n}(Tensor self, Tensor type) -> ()",
    "_foreach_{n}(Tensor[] self) -> Tensor[]",
    "_foreach_sin(Tensor[] self) -> Tensor[]",
    "_foreach_{n}(Tensor[] self, Tensor[] other) -> Tensor[] self_out",
    "{n}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
)
COLUMNS = (
    "kernel", "decompose", "self", "other", "result", "shape", "batch", "kink", "fan",
    "like", "promote", "numbers", "order", "domain", "inplace", "output_differentiability",
    "doc", "self, other", "tensors", "values", "dispatch", "nonsense", "result0", "element", "c",
    "moves", "fills", "reduces", "accumulates", "product", "overwrites", "identity", "linear",
    "undoes", "random", "numpy", "reads", "dtypes",
)  # fmt: skip
ELEMENTS = ("exp@(self)", "{all: self}", "{real: self * other, whole: 3}", "self / dim", "*self")
VALUES: dict[str, tuple[str, ...]] = {
    "kernel": ("xp.sin", "xp.add", "hostile.twice", "hostile.os", "xp.testing", "self * 2"),
    "decompose": ("self.sin()", "hostile.twice", "self * other", "foreach.add", "shape.flatten"),
    "self": ("grad", "zero", "non_differentiable", "grad * self", "not_implemented('x')"),
    "result": (
        "self_t",
        "auto_linear",
        "auto_element_wise",
        "auto_multilinear",
        "auto_gather",
        "self_t * other_p + other_t",
    ),
    "shape": ("shape.same", "hostile.twice", "pointwise.square"),
    "batch": (
        "same",
        "shifted",
        "cut",
        "broadcast",
        "hostile.twice",
        "linalg.pinv",
        "common.whole",
    ),
    "kink": ("True", "dim == 2", "mode"),
    "fan": ("_linalg_eigh_fan", "sin"),
    "like": (
        "pointwise",
        "pointwise_float",
        "comparison",
        "reduction",
        "view",
        "creation",
        "foreach",
        "[x]",
    ),
    "promote": ("[self]", "[]", "sum", "float", "[x, y]"),
    "numbers": ("wrap", "checked", "powers"),
    "order": ("needed",),
    "dtypes": ("real", "bool whole", "float32", ""),
    "domain": ("positive", "own"),
    "inplace": ("True", "False", "maybe"),
    "output_differentiability": ("[True]", "[False]", "[True, False]", "3", "{a: b}"),
    "dispatch": ("{Default: {self: grad}}", "[x]", "{Default: 3}"),
    "moves": ("nothing", "ones", "shape", "elements", "[x]"),
    "fills": ("0", "dim", "other", "-1"),
    "reduces": ("sum", "amax", "all"),
    "accumulates": ("sum", "prod"),
    "product": ("self @ other", "self @ self.mT", "self.conj() @ other", "self @"),
    "overwrites": ("slice.Tensor", "select.int", "diagonal.default", "sin", "slice"),
    "identity": ("other=1", "self=-0.0, other=0", "other", "other=1e9", "=1"),
    "linear": ("self", "self, other", "dim", "self,"),
    "undoes": ("itself", "other"),
    "random": ("True", "False", "maybe"),
    "numpy": ("xp.sin", "self * 2", "result.shape", "self.reshape(result.shape)", "renderers.cat"),
    "element": ELEMENTS,
    "c": ELEMENTS,  # as the column was called
}
BYTES = (
    *"()[]{},.:=#'\"-+*_&!|>%@` \n\t0123456789abfgxyé\0\\",
    "",
    "\n- name: ",
    "  ",
    "*a",
    "&a ",
)
STARTS = (
    "kernel: xp.sin",
    "kernel: xp.add(self, 1)",
    "decompose: self * 2",
    "kernel: hostile.twice",
)


def twice(self: Any, *_: Any) -> Any:
    return 2 * self


KERNELS = SimpleNamespace(twice=twice, _hidden=twice, os=__import__("os"), value=3)


@functools.cache
def _blocks() -> list[str]:
    """Our own rows, as text."""
    return [s.text for n in TABLE.names() for s in TABLE._sources[n].values()]


@functools.cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


def check(seed: int) -> int:
    """Read one file, and use what was accepted."""
    random_ = random.Random(seed)
    text = random_.choice((_mutated, _made_up, _made_up, _mutated_made_up))(random_)
    path = _folder() / f"{FAMILY}.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    before = set(TABLE.names())
    called()  # our own C functions, which are looked up where a text names an unknown one
    try:
        with limited(10), warnings.catch_warnings(), watched() as events:
            warnings.simplefilter("ignore")  # one that is shown reads the line that it names
            operators = _read(path, text)
        assert [e for e in events if e != f"open {path}"] == [], (events, text)
        if not operators:
            assert set(TABLE.names()) == before, text
        checks = 1 + sum(_use(op, text) for packet in operators for op in packet.operators)
    finally:
        tables.forget(set(TABLE.names()) - before)
    return checks


def _read(path: Path, text: str) -> list[Any]:
    try:
        return ad.library(path, KERNELS)
    except TableError as error:
        if str(error).startswith(f"{path}:"):
            return []
        raise AssertionError(f"no place: {error}\n{text}") from error
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error


# -- use of what was accepted -----------------------------------------------------------------


def _use(op: Any, text: str) -> int:
    checks = 0
    for call in _calls(op):
        checks += 1
        try:
            with limited(20), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except (AdjointError, *OF_KERNELS):
            continue
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
    return checks


def _calls(op: Any) -> Iterator[Callable[[], Any]]:
    values = [_argument(a) for a in op.schema.arguments]
    places = [i for i, v in enumerate(values) if isinstance(v, ad.Tensor)]

    def run(*tensors: Any) -> Any:
        given = [v.clone() if isinstance(v, ad.Tensor) else v for v in values]
        for i, tensor in zip(places, tensors, strict=False):
            given[i] = tensor * 1
        return _total(op.call(given))

    points = [values[i] for i in places]
    yield lambda: op.call(values)
    if not points:
        return
    yield lambda: ad.grad(run)(*points)
    yield lambda: ad.jvp(run, tuple(points), tuple(points))
    yield lambda: ad.vmap(run)(*[ad.stack([p, p]) for p in points])
    yield lambda: ad.hessian(run)(*points)
    yield lambda: ad.trace(run, *points)


def _total(results: Any) -> Any:
    flat = list(results) if isinstance(results, (tuple, list)) else [results]
    total: Any = ad.zeros((), dtype=ad.float64)
    for r in flat:
        if not isinstance(r, ad.Tensor):
            raise TypeError(f"a result that is no tensor: {r!r}")
        if r.is_floating_point():
            total = total + r.to(ad.float64).sum()
    return total


def _argument(argument: Any) -> Any:
    kind = argument.type
    if kind.is_tensor:
        tensor = ad.tensor([[0.5, 1.5], [2.5, 0.25]], dtype=ad.float64)
        return [tensor, tensor + 1] if kind.is_list else tensor
    if argument.has_default or kind.is_optional:
        from adjoint.ops import arguments

        return arguments.convert("", argument, argument.default) if argument.has_default else None
    single = {"int": 1, "float": 0.5, "Scalar": 2, "bool": True, "str": "mean"}.get(kind.base)
    return (single,) * (kind.length or 2) if kind.is_list else single


# -- texts -------------------------------------------------------------------------------------


def _renamed(block: str) -> str:
    """A row of ours under another name."""
    return re.sub(r"^(- name:\s*[\"']?)(\w+)", r"\1hostile_\2", block)


def _mutated(random_: random.Random) -> str:
    text = _renamed(random_.choice(_blocks()))
    for _ in range(random_.choice((0, 1, 1, 2, 4))):
        text = random_.choice((_characters, _characters, _tokens, _lines))(random_, text)
    return text


def _mutated_made_up(random_: random.Random) -> str:
    text = _made_up(random_)
    for _ in range(random_.choice((1, 2, 4))):
        text = random_.choice((_characters, _tokens, _lines))(random_, text)
    return text


def _characters(random_: random.Random, text: str) -> str:
    at = random_.randrange(len(text) + 1)
    return text[:at] + random_.choice(BYTES) + text[at + random_.choice((0, 0, 1, 1, 3)) :]


def _tokens(random_: random.Random, text: str) -> str:
    tokens = re.findall(r"\w+|[^\w\s]|\s+", text) or [""]
    at = random_.randrange(len(tokens))
    tokens[at] = random_.choice((*ATOMS, *ATTRIBUTES, *tokens))
    return "".join(tokens)


def _lines(random_: random.Random, text: str) -> str:
    lines = text.split("\n")
    other = random_.choice(_blocks()).split("\n")
    at = random_.randrange(len(lines))
    lines[at : at + random_.choice((0, 1))] = [random_.choice((*lines, *other))]
    return "\n".join(lines)


def _made_up(random_: random.Random) -> str:
    rows = []
    for number in range(random_.choice((1, 1, 1, 2, 3))):
        schema = random_.choice(SCHEMAS).format(n=f"hostile_{number}")
        lines = [f"- name: {schema}"]
        if random_.random() < 0.8:
            lines.append("  " + random_.choice(STARTS))
        if random_.random() < 0.7:
            lines.append(f"  self: {random_.choice(('grad', 'zero', 'non_differentiable'))}")
        if random_.random() < 0.5 and "other" in schema:
            lines.append("  other: zero")
        for _ in range(random_.choice((0, 1, 1, 2, 3))):
            column = random_.choice(COLUMNS)
            lines = [line for line in lines if not line.startswith(f"  {column}:")]
            lines.append(f"  {column}: {_value(random_, column)}")
        rows.append("\n".join(lines) + "\n")
    return "\n".join(rows)


def _value(random_: random.Random, column: str) -> str:
    if random_.random() < 0.3 and column in VALUES:
        return random_.choice(VALUES[column])
    formula = _formula(random_, random_.choice((1, 2, 2, 3, 4)))
    return formula if random_.random() < 0.5 else '"' + formula.replace('"', "'") + '"'


def _formula(random_: random.Random, depth: int) -> str:
    if depth == 0 or random_.random() < 0.2:
        return random_.choice(ATOMS)
    template = random_.choice(TEMPLATES)
    template = template.replace("{a}", random_.choice(ATTRIBUTES)).replace(
        "{b}", random_.choice(ATTRIBUTES)
    )
    return re.sub(r"\{\}", lambda _: _formula(random_, depth - 1), template)


if __name__ == "__main__":
    np.seterr(all="ignore")
    campaign.main(check)

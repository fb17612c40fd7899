"""Which function of adjoint an OpInfo means.

PyTorch's own functions are found by name (`linalg.qr` is `ad.linalg.qr`, or the operator
`linalg_qr`). Functions that OpInfo wraps in a lambda are run as they are, with the name `torch`
inside them meaning adjoint.
"""

from __future__ import annotations

import fnmatch
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import adjoint as ad
from tests.oracle import sampling

sampling.keep_no_books()

INFOS: list[Any] = [
    info
    for info in op_db
    if not info.name.startswith("jiterator") and "triton" not in info.variant_test_name
]

# Functions whose namesake here is another one: `ad.trace` makes graphs.
HOMONYMS = frozenset(("trace",))


class Missing(Exception):
    """adjoint has nothing of that name."""


def title(info: Any) -> str:
    """Return the name of an OpInfo with its variant: "std.unbiased"."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def find(pattern: str) -> list[Any]:
    """Return the OpInfos that a user means by `pattern`, which may be a glob or our own name."""

    def spellings(info: Any) -> set[str]:
        name = info.name.removeprefix("torch.ops.aten.").removesuffix(".default")
        short = name.rsplit(".", 1)[-1]
        return {title(info), name, short, name.replace(".", "_"), info.aten_name or name}

    wanted = pattern.split(".")[0] if pattern not in {title(i) for i in INFOS} else pattern
    exact = [i for i in INFOS if title(i) == pattern] or [
        i for i in INFOS if pattern in spellings(i)
    ]
    return (
        exact
        or [i for i in INFOS if any(fnmatch.fnmatchcase(s, pattern) for s in spellings(i))]
        or [i for i in INFOS if wanted in spellings(i)]
    )


def look_up(path: str) -> Any:
    """Return what adjoint calls `path`, a dotted name below `torch`."""
    path = path.removeprefix("torch.")
    for attempt in _spellings(path.removeprefix("ops.aten.").removesuffix(".default")):
        found: Any = ad
        for part in attempt.split("."):
            found = getattr(found, part, None)
            if found is None:
                break
        if found is not None:
            return found
    home, _, name = path.rpartition(".")
    if home in ("", "Tensor", "ops.aten") or (home == "nn.functional" and path not in HOMONYMS):
        return method(name.removesuffix(".default"))
    raise Missing(path)


def _spellings(path: str) -> Iterator[str]:
    if path.startswith("Tensor."):
        return
    if path not in HOMONYMS:
        yield path
    if path.startswith(("linalg.", "special.", "fft.")):
        yield "ops." + path.replace(".", "_")
    elif "." not in path or (
        path.startswith(("nn.functional.", "_C.", "_VF.")) and path not in HOMONYMS
    ):
        yield "ops." + path.rsplit(".", 1)[-1]


def method(name: str) -> Callable[..., Any]:
    """Return a function that calls the method `name`; operators become methods on first use."""
    name = {"__rdiv__": "__rtruediv__"}.get(name, name)
    if name.startswith("is_") or not callable(getattr(ad.ones(()), name, None)):
        raise Missing(f"Tensor.{name}")

    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(tensor, ad.Tensor):
            raise TypeError(f"{name} is a method of tensors")
        return getattr(tensor, name)(*args, **kwargs)

    return call


class Stand:
    """Stands for the module `torch` (or a module in it) inside a borrowed lambda."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}".lstrip(".")
        theirs = functools.reduce(getattr, path.split("."), torch)
        if isinstance(theirs, types.ModuleType) or type(theirs).__name__ in (
            "_Ops",
            "_OpNamespace",
        ):
            return Stand(path)
        if self._path == "ops.aten":  # a packet, which has overloads as attributes
            return getattr(ad.ops, name, None) or look_up(path)
        return look_up(path)


def borrow(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with adjoint in place of `torch` among its globals."""
    if isinstance(function, functools.partial):
        return functools.partial(borrow(function.func), *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType):
        return ours_of(function)
    replaced = dict(function.__globals__)
    replaced.update(torch=Stand(), F=Stand("nn.functional"), wrapper_set_seed=_without_seed)
    for name in replaced:  # PyTorch's function is to run as it is, and not to ask our class
        if name.startswith("has_torch_function"):
            replaced[name] = lambda *_: False
    borrowed = types.FunctionType(
        function.__code__, replaced, function.__name__, function.__defaults__, _closure(function)
    )
    borrowed.__kwdefaults__ = function.__kwdefaults__
    return borrowed


def _closure(function: types.FunctionType) -> tuple[types.CellType, ...] | None:
    if function.__closure__ is None:
        return None
    return tuple(types.CellType(_our_cell(cell.cell_contents)) for cell in function.__closure__)


def _our_cell(value: Any) -> Any:
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType) and "torch.testing" in module:
        return borrow(value)
    if callable(value) and module.startswith("torch") and hasattr(value, "__name__"):
        return ours_of(value)
    return value


def _without_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def ours_of(function: Any) -> Any:
    """Return adjoint's counterpart of a function of PyTorch."""
    name = function.__name__
    module = (getattr(function, "__module__", None) or "").removeprefix("torch")
    path = module.replace("._C._", ".").replace(".functional", ".nn.functional", 1)
    if "nn" in module:
        path = "nn.functional"
    elif module in ("", ".functional", "._C", "._tensor", "._VF"):
        path = ""
    return look_up(f"{path}.{name}".strip("."))


def ours(info: Any) -> Callable[..., Any]:
    """Return the function of adjoint that computes what `info.op` does; `Missing` if none."""
    function = info.op
    if isinstance(function, types.FunctionType) and "testing" in function.__code__.co_filename:
        return borrow(function)
    if getattr(function, "__objclass__", None) is not None:  # a method of torch.Tensor
        return method(function.__name__)
    if info.name.startswith("__"):
        return method(info.name)
    return look_up(info.name.removeprefix("torch."))


def ours_method(info: Any, *, inplace: bool) -> Callable[..., Any] | None:
    """Return adjoint's method, or in-place method, or None where PyTorch has none either."""
    theirs = info.inplace_variant if inplace else info.method_variant
    if theirs is None:
        return None
    if isinstance(theirs, functools.partial):  # relu(x, inplace=True)
        own = getattr(ad, "nn", None)
        return borrow(theirs) if own is not None else method(f"{theirs.func.__name__}_")
    if isinstance(theirs, types.FunctionType) and "testing" in theirs.__code__.co_filename:
        return borrow(theirs)
    return method(theirs.__name__)


def probe(info: Any) -> str | None:
    """Say what is missing in adjoint for `info` to be compared, or None."""
    try:
        function = ours(info)
    except Missing as missing:
        return str(missing)
    if isinstance(function, types.FunctionType) and isinstance(
        function.__globals__.get("torch"), Stand
    ):
        return _missing_name(info, function)
    return None


def _missing_name(info: Any, function: types.FunctionType) -> str | None:
    """A borrowed lambda shows what it needs only by its names."""
    own = info.name.rsplit(".", 1)[-1]
    names = _names_in(function.__code__) - {"torch", "nn", "functional", "ops", "linalg", "special"}
    for name in names or {own}:
        homes = [h for h in HOMES if hasattr(functools.reduce(getattr, h, torch), name)]
        if homes and not hasattr(ad.ones(()), name):
            missing = [
                probe_name(".".join((*home, name)).removeprefix("Tensor.")) for home in homes
            ]
            if all(missing):
                return missing[0]
    return None


HOMES = ((), ("Tensor",), ("nn", "functional"), ("linalg",), ("special",))


def _names_in(code: types.CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def probe_name(path: str) -> str | None:
    """Return `path` if adjoint has nothing of that name."""
    try:
        look_up(path)
    except Missing:
        return path
    return None


def missing() -> dict[str, str]:
    """Return what of PyTorch's OpInfos and their aliases adjoint has nothing for."""
    found: dict[str, str] = {}
    for info in INFOS:
        if reason := probe(info):
            found[title(info)] = reason
            continue
        for alias in info.aliases:
            if probe_name(alias.name):
                found[alias.name] = alias.name
    return found

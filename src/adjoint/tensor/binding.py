"""Binding formulas: to tensors, where names are operators, and to raw arrays, where they are
kernels.

The same formula text serves both. On arrays, arithmetic is NumPy's own; a call of a simple
pointwise operator goes straight to its ufunc; any other operator or formula function is *lifted*:
its
array arguments are wrapped as tensors, and its results unwrapped.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.choosing import MANY, choose
from adjoint.core.dtypes import OF, DType
from adjoint.core.errors import TableError
from adjoint.core.storage import storage_of, strides_in_elements
from adjoint.ops import arguments
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.table import formula as language
from adjoint.table.formula import BUILTINS, MODULES, Formula, Location, methods_used
from adjoint.table.rows import Row, is_reference
from adjoint.tensor.tensor import Tensor, make

ndarray = np.ndarray
_REAL = (bool, int, float)


class Family:
    """The functions of `formulas/<family>.py`, lifted to arrays if asked."""

    def __init__(self, name: str, lifted: bool) -> None:
        self.module = importlib.import_module(f"adjoint.formulas.{name}")
        self.lifted = lifted

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)
        if self.lifted:
            function = lift(function)
        setattr(self, name, function)
        return function


def lift(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which works on tensors, as one that works on arrays."""

    def lifted(*args: Any, **keywords: Any) -> Any:
        return _lower(
            function(*[_raise(a) for a in args], **{k: _raise(v) for k, v in keywords.items()})
        )

    lifted.__name__ = getattr(function, "__name__", "lifted")
    return lifted


def _raise(value: Any) -> Any:
    if type(value) is ndarray:
        return make(value)
    if isinstance(value, np.generic):
        return make(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_raise(v) for v in value)
    return value


def _lower(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.value
    if isinstance(value, (list, tuple)):
        return type(value)(_lower(v) for v in value)
    return value


def _conj(value: Any) -> Any:
    return value.conj() if value.dtype.kind == "c" else value


def _where(mask: Any, one: Any, other: Any) -> Any:
    """NumPy's `where`, for many elements without its branches."""
    if type(mask) is not ndarray or mask.size < MANY:
        return np.where(mask, one, other)
    if type(one) in _REAL and type(other) is ndarray and other.dtype.kind in "fc":
        one = np.asarray(one, other.dtype)
    elif type(other) in _REAL and type(one) is ndarray and one.dtype.kind in "fc":
        other = np.asarray(other, one.dtype)
    if type(one) is type(other) is ndarray and one.dtype == other.dtype:
        return choose(mask, one, other)
    return np.where(mask, one, other)


_ARRAY_METHODS: dict[str, Callable[..., Any]] = {
    "conj": _conj,
    "numel": lambda x: x.size,
    "dim": lambda x: x.ndim,
    "size": lambda x, d=None: x.shape if d is None else x.shape[d],
    "stride": lambda x: strides_in_elements(x),
    "storage_offset": lambda x: storage_of(x)[1],
    "is_complex": lambda x: x.dtype.kind == "c",
    "is_floating_point": lambda x: OF[x.dtype].is_floating_point,
    "dtype_of": lambda x: x if isinstance(x, DType) else OF[x.dtype],
    "t": lambda x: x.T,  # views of matrices: in every backward of a product
    "where": _where,  # choices: in every backward of a maximum, a limit, a rectifier
    "masked_fill": lambda x, mask, value: _where(mask, value, x),
    "mT": lambda x: x.mT,
    "mH": lambda x: _conj(x.mT),
}


def raw_operator(name: str) -> Callable[..., Any]:
    """Return an operator as a function of arrays."""
    if name in _ARRAY_METHODS:
        return _ARRAY_METHODS[name]
    if not operators.exists(name):
        raise TableError(f"there is no operator {name!r}")
    overloads = TABLE.overloads(name) if name in TABLE else []
    if len(overloads) == 1:
        row = TABLE.row(name, overloads[0])
        if len(row.schema.arguments) == 1 and row.archetype.promotes and is_reference(row.kernel):
            family, _, function = row.kernel.partition(".")
            if family == "xp" and isinstance(ufunc := getattr(np, function, None), np.ufunc):
                return ufunc
        if _takes_arrays_alone(row):
            return reference(row.kernel, "kernels", row, "kernel")
    return _straight(operators.packet(name))


def _straight(packet: operators.Packet) -> Callable[..., Any]:
    """Return an operator on arrays that calls its kernel where that takes them as they are, else
    lifts.
    """
    lifted = lift(packet.function)
    chosen: dict[Any, Callable[..., Any] | None] = {}

    def straight(*args: Any, **keywords: Any) -> Any:
        key = (*map(type, args), *keywords)
        try:
            function = chosen[key]
        except KeyError:
            function = chosen[key] = _kernel_on_arrays(packet, args, keywords)
        return lifted(*args, **keywords) if function is None else function(*args, **keywords)

    straight.__name__ = packet.name
    return straight


def _kernel_on_arrays(
    packet: operators.Packet, args: Any, keywords: Any
) -> Callable[..., Any] | None:
    """Return the kernel of the overload that the arguments fit, as a function of all ways to pass
    them.
    """
    op = next(
        (o for o in packet.operators if arguments.match(o.schema, args, keywords, lenient=False)),
        None,
    )
    if op is None or op.row.archetype.promotes or op.schema.mutates or len(args) > op.positional:
        return None
    if not op.row.kernel or not is_reference(op.row.kernel):
        return None
    kernel = reference(op.row.kernel, "kernels", op.row, "kernel")
    schema = op.schema.arguments
    defaults = [arguments.convert("", a, a.default) if a.has_default else None for a in schema]
    places = {a.name: i for i, a in enumerate(schema)}
    integers = [i for i, a in enumerate(schema) if a.type.is_list and a.type.base == "int"]

    def call(*args: Any, **keywords: Any) -> Any:
        values = [*args, *defaults[len(args) :]]
        for name, value in keywords.items():
            values[places[name]] = value
        for i in integers:
            value = values[i]
            if value is not None and type(value) is not tuple:
                values[i] = arguments.to_ints("", "", value, schema[i].type.length)
        result = kernel(*values)
        if type(result) is ndarray:
            return result
        return (
            [np.asarray(r) for r in result] if type(result) in (list, tuple) else np.asarray(result)
        )

    return call


def _takes_arrays_alone(row: Row) -> bool:
    """Whether a kernel can be called on arrays as it is: nothing to promote, convert or fill in."""
    plain = all(
        a.type.base == "Tensor" and not a.type.is_list and not a.type.is_optional and not a.alias
        for a in row.schema.arguments
    )
    return plain and is_reference(row.kernel) and not row.archetype.promotes and not row.decompose


def scope_of(formula: Formula, parameters: tuple[str, ...], *, raw: bool) -> dict[str, Any]:
    """Resolve the names of a formula that are not its parameters."""
    scope: dict[str, Any] = {"__name__": "adjoint.formula", "__builtins__": BUILTINS}
    for name in formula.names - set(parameters):
        if name in MODULES:
            scope[name] = Family(name, lifted=raw)
        elif name in BUILTINS:
            continue
        elif operators.exists(name):
            scope[name] = raw_operator(name) if raw else operators.packet(name).function
        else:
            raise TableError(f"{formula.where}: unknown name {name!r} in {formula.text!r}")
    if raw:
        scope["op_dtype_of"] = _ARRAY_METHODS["dtype_of"]
        for name in methods_used(formula.tree):
            scope[f"op_{name}"] = raw_operator(name)
        for name in ("numpy_T", "mT", "mH", "matrix_H", "real", "imag"):
            if operators.exists(name):
                scope[f"op_{name}"] = raw_operator(name)
    return scope


def bind(
    formula: Formula, symbol: str, parameters: tuple[str, ...], *, raw: bool
) -> Callable[..., Any]:
    """Compile a formula for tensors or for arrays."""
    return formula.compile(symbol, parameters, scope_of(formula, parameters, raw=raw), raw=raw)


_EXTRA_MODULES: dict[str, Any] = {}  # users' kernels and decompositions, by family: see library.py


def add_module(family: str, module: Any) -> None:
    """Make a user's module known as the kernels and decompositions of `family`."""
    _EXTRA_MODULES[family] = module


def reference(text: str, layer: str, row: Row, column: str) -> Any:
    """Return what a dotted name in a column refers to: `linalg.qr` in kernels/, shapes/, …"""
    family, _, name = text.partition(".")
    if family == "xp":
        return getattr(np, name)
    module = _EXTRA_MODULES.get(row.family) if family == row.family else None
    if module is None:
        try:
            module = importlib.import_module(f"adjoint.{layer}.{family}")
        except ImportError as error:
            raise TableError(f"{row.where}: {column}: {text!r}: {error}") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise TableError(
            f"{row.where}: {column}: there is no {name} in {layer}/{family}.py"
        ) from None


def decomposition(row: Row) -> Callable[..., Any]:
    """Return the decomposition of a row as a function of all its arguments; it is kept on the
    row.
    """
    known = row.__dict__.get("_decomposition")
    if known is None:
        known = row.__dict__["_decomposition"] = _decomposition(row)
    return known


def _decomposition(row: Row) -> Callable[..., Any]:
    text = row.decompose
    if is_reference(text, tuple(a.name for a in row.schema.tensors)):
        return reference(text, "decompositions", row, "decompose")
    where = Location(row.where.path, row.lines.get("decompose", row.where.line))
    formula = language.parse(text, where, ())
    return bind(formula, f"{row.schema.symbol}_decomposed", row.schema.names, raw=False)


def known_names() -> frozenset[str]:
    """Every name that a formula may use beside its own row's: operators, families, a few of
    Python's.
    """
    return frozenset(TABLE.names()) | frozenset(MODULES) | frozenset(BUILTINS)

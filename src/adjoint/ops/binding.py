"""Binding formulas: to tensors, where names are operators, and to arrays, where they are kernels.

This is the one place where a name in the table becomes a value: `resolve` for names with a dot,
`_in_scope` for the others. Both return listed values only: Note [Rows from outside] in
table/formula.py.

The same formula text serves tensors and arrays. On arrays, arithmetic is NumPy's own; a call of a
simple pointwise operator goes straight to its ufunc; any other operator or formula function is
*lifted*: its array arguments are wrapped as tensors, and its results unwrapped.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from adjoint.core.choosing import MANY, choose
from adjoint.core.dtypes import HALVES, INEXACT, OF, REDUCED, DType, float32
from adjoint.core.errors import AdjointError, TableError, did_you_mean
from adjoint.core.float_warnings import NO_MODULE, hush_modules
from adjoint.core.importing import imported
from adjoint.core.remembering import remembered
from adjoint.core.storage import storage_of, strides_in_elements
from adjoint.ops import arguments, runtime
from adjoint.ops import operator as operators
from adjoint.table import FAMILIES, TABLE, modules_in
from adjoint.table import formula as language
from adjoint.table.formula import (
    ARRAY_ATTRIBUTES,
    ARRAY_METHODS,
    BUILTINS,
    FACT_METHODS,
    FACTS,
    MODULES,
    PROPERTIES,
    Formula,
    Location,
    bound_function,
    bound_operator,
    function_bound,
    functions_used,
    methods_used,
    names_used,
    operator_bound,
    properties_used,
)
from adjoint.table.prepared import PREPARED
from adjoint.table.reading import Mistakes
from adjoint.table.rows import Row, is_reference

ndarray = np.ndarray
_REAL = (bool, int, float)
METHODS = frozenset(("to",))  # methods of tensors that formulas may call and that no row describes
# NumPy's functions and constants that kernels may name besides ufuncs: they only compute.
_COMPUTING = frozenset((
    "all", "amax", "amin", "angle", "any", "append", "argmax", "argmin", "argpartition",
    "argsort", "array", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "bincount",
    "broadcast_to", "clip", "column_stack", "compress", "concatenate", "convolve", "copy",
    "correlate", "count_nonzero", "cov", "cross", "cumprod", "cumsum", "diag", "diagonal",
    "diff", "digitize", "dot", "dstack", "ediff1d", "einsum", "expand_dims", "eye", "fix",
    "flip", "fliplr", "flipud", "full", "full_like", "gradient", "heaviside", "histogram",
    "hstack", "i0", "identity", "imag", "inner", "interp", "isclose", "isin", "isreal",
    "iscomplex", "kron", "linspace", "lexsort", "max", "mean", "median", "meshgrid", "min",
    "moveaxis", "nan_to_num", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin",
    "nanprod", "nanstd", "nansum", "nanvar", "ones", "ones_like", "outer", "pad", "partition",
    "percentile", "prod", "ptp", "quantile", "ravel", "real", "real_if_close", "repeat",
    "reshape", "resize", "roll", "rollaxis", "rot90", "round", "searchsorted", "shape", "sinc",
    "size", "sort", "split", "squeeze", "stack", "std", "sum", "swapaxes", "take",
    "take_along_axis", "tensordot", "tile", "trace", "transpose", "trapezoid", "tri", "tril",
    "triu", "unique", "unwrap", "vander", "var", "vdot", "vstack", "where", "zeros",
    "zeros_like", "e", "euler_gamma", "inf", "nan", "newaxis", "pi", "bool_", "complex64",
    "complex128", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64",
))  # fmt: skip
NUMPY = _COMPUTING | {n for n, v in vars(np).items() if isinstance(v, np.ufunc)}


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
        return runtime.make(value)
    if isinstance(value, np.generic):
        return runtime.make(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_raise(v) for v in value)
    return value


def _lower(value: Any) -> Any:
    if type(value) is runtime.Tensor:
        return value.value
    if isinstance(value, (list, tuple)):
        return type(value)(_lower(v) for v in value)
    return value


def _conj(value: Any) -> Any:
    return value.conj() if value.dtype.kind == "c" else value


def _where(mask: Any, one: Any, other: Any) -> Any:
    """NumPy's `where`; branch-free for many elements."""
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
    "t": lambda x: x.T,  # a view of a matrix: used in every backward of a product
    "where": _where,  # used in every backward of a maximum, a clamp, a rectifier
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
        if len(row.schema.arguments) == 1 and row.archetype.promotes and row.names_kernel:
            kernel = kernel_of(row)
            if isinstance(kernel, np.ufunc):
                return kernel
            single = row.family in FAMILIES and len(row.schema.returns) == 1
            if single and row.texts.keys().isdisjoint(("kink", "order")):
                return _on_few(kernel, lift(operators.packet(name).function))
        if _takes_arrays_alone(row):
            return kernel_of(row)
    return _straight(operators.packet(name))


def _on_few(kernel: Callable[..., Any], lifted: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pointwise operator on arrays: its kernel where nothing is promoted and no loop in C
    would be quicker, else lifted.
    """

    def computed(x: Any) -> Any:
        if type(x) is ndarray and x.size < MANY and x.dtype in INEXACT:
            return np.asarray(kernel(x))
        return lifted(x)

    return computed


def _straight(packet: operators.Packet) -> Callable[..., Any]:
    """Return an operator on arrays: its kernel if that takes them unchanged, else lifted."""
    lifted = lift(packet.function)
    chosen: dict[Any, Callable[..., Any] | None] = {}

    def straight(*args: Any, **keywords: Any) -> Any:
        key = (*map(type, args), *keywords)
        try:
            function = chosen[key]
        except KeyError:
            function = chosen[key] = _kernel_on_arrays(packet, args, keywords)
        if function is None:
            return lifted(*args, **keywords)
        try:
            result = function(*args, **keywords)
        except AdjointError:
            raise
        except Exception:  # a kernel's: the call on tensors raises it with its name
            return lifted(*args, **keywords)
        if type(result) in (list, tuple):
            return [np.asarray(r) for r in result]
        return result if type(result) is ndarray else np.asarray(result)

    straight.__name__ = packet.name
    return straight


def _kernel_on_arrays(
    packet: operators.Packet, args: Any, keywords: Any
) -> Callable[..., Any] | None:
    """Return the kernel of the overload that fits, as a function of all ways to pass arguments.

    Arithmetic of arrays without dimensions gives NumPy's numbers, which are arrays here.
    """
    numbers = [i for i, a in enumerate(args) if isinstance(a, np.generic)]
    args = [np.asarray(a) if i in numbers else a for i, a in enumerate(args)]
    op = next(
        (
            o
            for o in packet.operators
            if arguments.match(o.schema, args, keywords, lenient=arguments.EXACTLY)
        ),
        None,
    )
    if op is None or op.row.archetype.promotes or op.schema.mutates or len(args) > op.positional:
        return None
    if not op.row.names_kernel or op.row.family not in FAMILIES:  # a user's kernel is checked
        return None
    kernel = kernel_of(op.row)
    schema = op.schema.arguments
    defaults = [arguments.convert("", a, a.default) if a.has_default else None for a in schema]
    places = {a.name: i for i, a in enumerate(schema)}
    integers = [i for i, a in enumerate(schema) if a.type.is_list and a.type.base == "int"]
    complete = len(args) == len(schema) and not numbers
    if complete and all(type(args[i]) in (tuple, NoneType) for i in integers):
        return kernel

    def call(*args: Any, **keywords: Any) -> Any:
        values = [*args, *defaults[len(args) :]]
        for name, value in keywords.items():
            values[places[name]] = value
        for i in numbers:
            values[i] = np.asarray(values[i])
        for i in integers:
            value = values[i]
            if value is not None and type(value) is not tuple:
                values[i] = arguments.to_ints("", "", value, schema[i].type.length)
        return kernel(*values)

    return call


def _takes_arrays_alone(row: Row) -> bool:
    """Whether a kernel can be called on arrays directly: nothing to promote, convert or fill in."""
    plain = all(
        a.type.base == "Tensor" and not a.type.is_list and not a.type.is_optional and not a.alias
        for a in row.schema.arguments
    )
    known = row.names_kernel and row.family in FAMILIES
    return plain and known and not row.archetype.promotes and not row.decompose


def _scope_names(formula: Formula, parameters: tuple[str, ...], *, raw: bool) -> tuple[str, ...]:
    """The names that a formula's code needs in its scope, besides those in every scope."""
    check(formula, parameters)
    names = {n for n in names_used(formula.tree, parameters) if n not in BUILTINS}
    names |= {bound_function(*pair) for pair in functions_used(formula.tree, parameters)}
    if raw:
        methods = methods_used(formula.tree, parameters)
        properties = (PROPERTIES.get(p) for p in properties_used(formula.tree, parameters))
        names |= {bound_operator(n) for n in ("dtype_of", *methods, *filter(None, properties))}
    return tuple(sorted(names))


def _in_scope(name: str, where: Location, *, raw: bool) -> Any:
    """The value of a name in the scope of a formula."""
    if function := function_bound(name):
        found = resolve(function, "formulas", where)
        return lift(found) if raw else found
    if raw:
        return raw_operator(operator_bound(name) or name)
    return operators.packet(name).function


def check(formula: Formula, parameters: Iterable[str]) -> None:
    """Raise `TableError` for unknown names, methods and functions in a formula."""
    parameters = frozenset(parameters)
    where, tree, text = formula.where, formula.tree, formula.text
    mistakes = Mistakes()
    for name in sorted(language.loop_names(tree) & parameters):
        mistakes.found.append(f"{where.of(name)}: {name!r} has a meaning already: {text!r}")
    for name in sorted(names_used(tree, parameters) - BUILTINS.keys()):
        with mistakes.gathered():
            _check_operator(name, "name", {*parameters, *BUILTINS, *MODULES}, formula)
    for name in sorted(methods_used(tree, parameters) - FACT_METHODS - METHODS):
        with mistakes.gathered():
            _check_operator(name, "method", FACT_METHODS | METHODS, formula)
    known = FACTS | PROPERTIES.keys()
    for name in sorted(properties_used(tree, parameters) - known):
        hint = did_you_mean(name, known)
        mistakes.found.append(
            f"{where.of(name)}: a tensor in a formula has no attribute {name!r}{hint}: {text!r}"
        )
    for family, name in sorted(functions_used(tree, parameters)):
        with mistakes.gathered():
            resolve(f"{family}.{name}", "formulas", where)
    mistakes.told()


def _check_operator(name: str, what: str, others: Iterable[str], formula: Formula) -> None:
    """Raise unless a name or a method is an operator that writes to none of its arguments."""
    where = formula.where.of(name)
    if not operators.exists(name):
        hint = did_you_mean(name, {*others, *TABLE.names()})
        raise TableError(f"{where}: unknown {what} {name!r}{hint}: {formula.text!r}")
    if name.endswith("_") and operators.packet(name).operators[0].schema.mutates:
        raise TableError(f"{where}: {name} writes to its argument, a formula may not")


def bind(
    formula: Formula, symbol: str, parameters: tuple[str, ...], *, raw: bool, key: str = ""
) -> Callable[..., Any]:
    """Compile a formula for tensors or for arrays; its code is prepared under `key`."""

    def write() -> tuple[tuple[str, ...], CodeType]:
        names = _scope_names(formula, parameters, raw=raw)
        return names, formula.code(symbol, parameters, raw=raw)

    names, code = PREPARED.once(key, write)
    scope = {"__name__": NO_MODULE, "__builtins__": BUILTINS, language.TENSOR: runtime.Tensor}
    scope |= {name: _in_scope(name, formula.where, raw=raw) for name in names}
    local: dict[str, Any] = {}
    exec(code, scope, local)
    return local[symbol]


def reference(text: str, layer: str, row: Row, column: str) -> Any:
    """Return the function that a dotted name in a column refers to: `linalg.qr` in kernels/, …"""
    return resolve(text, layer, row.place(column), row)


def batching(row: Row) -> Any:
    """Return the batching rule that a row names, a word (batching/words.py) or a function; or
    None.
    """
    named = row.texts.get("batch", "")
    word = f"words.{named}" if named.isidentifier() else named
    return reference(word, "batching", row, "batch") if named else None


def resolve(text: str, layer: str, where: Location, row: Row | None = None) -> Any:
    """Return the function that a dotted name stands for.

    It is a listed one (`xp.tanh`), a public function defined in one of our layers (`linalg.qr` in
    kernels/), or a function of the user's own module (`<file name>.function`).
    """
    if not is_reference(text) or not text.isascii():
        raise TableError(f"{where}: {text[:80]!r} is not the name of a function: family.function")
    family, _, name = text.partition(".")
    if family == "xp" and layer == "kernels":
        return _of_numpy(name, where)
    if row is not None and row.module is not None and family == row.family:
        return _of_user(row.module, family, name, where)
    known = _families(layer)
    if family not in known:
        own = f"; {family} has no module: pass ad.library(…, kernels=module)"
        near = {*known, *(row.schema.names if row is not None else ())}
        mine = own if row is not None and family == row.family else did_you_mean(family, near)
        raise TableError(f"{where.of(text)}: {text!r}: there is no {layer}/{family}.py{mine}")
    found = rule(layer, family, name)
    if found is None:
        home, files = f"adjoint.{layer}.{family}", _files(layer, family)
        names = (n for m in files for n, v in vars(m).items() if _is_rule(v, n, home))
        hint = did_you_mean(name, names)
        raise TableError(
            f"{where.of(text)}: {text!r}: there is no {name} in {layer}/{family}.py{hint}"
        )
    return found


def rule(layer: str, family: str, name: str) -> Callable[..., Any] | None:
    """The public function of a family in one of our layers; None if there is none of this name."""
    home = f"adjoint.{layer}.{family}"
    found = (getattr(module, name, None) for module in _files(layer, family))
    return next((f for f in found if _is_rule(f, name, home)), None)


def _is_rule(value: Any, name: str, home: str) -> bool:
    """Whether a value is a public function defined in a family, but not in its `common.py`, which
    holds what the family's files share.
    """
    if name.startswith("_") or type(value) is not FunctionType:
        return False
    place = f"{value.__module__}."
    return place.startswith(f"{home}.") and not place.startswith(f"{home}.common.")


def _of_numpy(name: str, where: Location) -> Any:
    if name not in NUMPY:
        raise TableError(
            f"{where.of(f'xp.{name}')}: 'xp.{name}' is not among NumPy's functions for kernels"
            f"{did_you_mean(name, NUMPY)}"
        )
    return getattr(np, name)


def _of_user(module: Any, family: str, name: str, where: Location) -> Any:
    """A function of the module or object that was passed to `ad.library`."""
    found = None if name.startswith("_") else getattr(module, name, None)
    if isinstance(module, ModuleType):
        listed = name in getattr(module, "__all__", ())
        own = getattr(found, "__module__", None) == module.__name__
        found = found if listed or own else None
    if not callable(found) or isinstance(found, type):
        hint = did_you_mean(name, (n for n in vars(type(module)) | _vars(module) if n[0] != "_"))
        text = f"{family}.{name}"
        raise TableError(
            f"{where.of(text)}: {text!r} is no function defined in the given kernels{hint}"
        )
    return found


def _vars(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", {})


@functools.cache
def _files(layer: str, family: str) -> list[ModuleType]:
    """The modules of a family: its file, or the files in its folder."""
    modules = [imported(f"adjoint.{layer}.{family}")]
    if hasattr(modules[0], "__path__"):
        files = sorted(modules_in(f"{layer}/{family}"))
        modules += [imported(f"adjoint.{layer}.{family}.{name}") for name in files]
    if layer == "kernels":
        hush_modules("adjoint.kernels")
    return modules


@functools.cache
def _families(layer: str) -> frozenset[str]:
    """The modules of a layer; found by their files, nothing is imported."""
    return modules_in(layer)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments by position, none of which it writes
    to; True if that cannot be told.
    """
    if isinstance(function, np.ufunc):
        return count == function.nin
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C have none
        return True
    try:
        bound = signature.bind(*range(count))
    except TypeError:
        return False
    return "out" not in bound.arguments


def takes_operator(name: str, count: int) -> bool:
    """Whether an overload of an operator takes so many arguments by position."""
    return any(o.positional >= count for o in operators.packet(name).operators)


@remembered
def kernel_of(row: Row) -> Callable[..., Any]:
    """Return the kernel that a row names, as a function of arrays."""
    found = reference(row.kernel, "kernels", row, "kernel")
    if not row.computes_wide:
        return found
    return functools.partial(reference("halves.in_float32", "kernels", row, "kernel"), found)


@remembered
def decomposition(row: Row) -> Callable[..., Any]:
    """Return the decomposition of a row as a function of all its arguments."""
    return _promoting(row, _decomposition(row))


def _widening(row: Row, decomposed: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition of a row, computed in float32 if its tensors are narrow and rounded at the
    end: Note [Narrow derivatives] in tape/narrow.py.
    """
    names = row.schema.names
    places = [names.index(a.name) for a in row.schema.tensors if not a.type.is_list]
    asked = names.index("dtype") if "dtype" in names else None

    def widened(*values: Any) -> Any:
        given = {values[i].dtype for i in places if values[i] is not None}
        halves = [d for d in given if d.np in REDUCED]
        if not halves:
            return decomposed(*values)
        wide = (v.to(float32) if i in places and v is not None and v.dtype.np in REDUCED else v
                for i, v in enumerate(values))  # fmt: skip
        result = decomposed(*wide)
        if asked is not None and values[asked] is not None:
            return result
        narrow = result.dtype is float32 and float32 not in given and len(halves) == 1
        return result.to(halves[0]) if narrow else result

    return widened


def _promoting(row: Row, decomposed: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition of an elementwise row, after promoting its tensors to one dtype as for its
    kernel.

    Otherwise a product inside could be computed in another dtype than the operator.
    """
    names = row.schema.names
    places = [names.index(a.name) for a in row.promoted if a.type.is_tensor]
    if _rounds_often(row):
        decomposed = _widening(row, decomposed)
    if len(places) < 2:
        return decomposed

    def promoted(*values: Any) -> Any:
        given = [values[i].dtype for i in places if values[i] is not None]
        if any(d is not given[0] for d in given):
            common = row.computes_in(dict(zip(names, values, strict=True)))
            tensors = [values[i] for i in places if values[i] is not None]
            wide = row.has_wide_numbers and common in HALVES and any(t.ndim for t in tensors)
            values = tuple(
                v
                if i not in places or v is None
                else v.to(float32 if wide and not v.ndim else common)
                for i, v in enumerate(values)
            )
            if wide:  # numbers that stayed in float32 do not decide the dtype
                result = decomposed(*values)
                return result.to(common) if result.dtype is float32 else result
        return decomposed(*values)

    return promoted


def _rounds_often(row: Row) -> bool:
    """Whether a row's decomposition may round more than once."""
    if not row.widens:
        return False
    if row.names_decomposition:
        return True
    return language.roundings(language.expression(row.decompose, row.place("decompose"))) > 1


def _decomposition(row: Row) -> Callable[..., Any]:
    text = row.decompose
    if row.names_decomposition:
        return reference(text, "decompositions", row, "decompose")
    formula = Formula(text, row.place("decompose"))
    symbol = f"{row.schema.symbol}_decomposed"
    return bind(formula, symbol, row.schema.names, raw=False, key=row.prepared_key(symbol))


def kernel_expression(row: Row, column: str = "kernel") -> tuple[ast.Expression, dict[str, Any]]:
    """The tree of a kernel expression, with arrays `_v_self` for tensors, and the functions it
    uses.

    The column `numpy` has the same language, and may use `result`.
    """
    tree = language.expression(row.texts[column], row.place(column))
    namer = _KernelExpression(row, column)
    tree = namer.visit(tree)
    known = {*BUILTINS, *namer.functions, *namer.arrays.values(), *row.schema.names}
    for name in sorted(language.free_names(tree) - known):
        hint = did_you_mean(name, (*row.schema.names, *BUILTINS))
        namer.refuse(name, f"unknown name {name!r}{hint}")
    namer.mistakes.told()
    return tree, namer.functions


class _KernelExpression(ast.NodeTransformer):
    """Checks a kernel expression: tensor arguments become their arrays, `xp` means NumPy, families
    mean modules of kernels/; of other values only listed attributes are read.
    """

    def __init__(self, row: Row, column: str) -> None:
        self.row, self.column = row, column
        self.arrays = {a.name: f"_v_{a.name}" for a in row.schema.tensors}
        if column == "numpy":
            self.arrays["result"] = "_v_result"
        self.functions: dict[str, Any] = {}
        self.mistakes = Mistakes()

    def refuse(self, word: str, why: str) -> None:
        where = self.row.place(self.column).of(word)
        self.mistakes.found.append(f"{where}: {why}: {self.row.texts[self.column]!r}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.arrays.get(node.id, node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        for word in node.keywords:
            if word.arg == "out":
                self.refuse("out", "a kernel writes to no argument")
        if isinstance(node.func, ast.Attribute) and not self._owner(node.func):
            self._check(node.func, ARRAY_METHODS)
            method = ast.Attribute(self.visit(node.func.value), node.func.attr, ast.Load())
            return ast.Call(
                method, [self.visit(a) for a in node.args], [self.visit(k) for k in node.keywords]
            )
        made: Any = self.generic_visit(node)
        function = self.functions.get(getattr(made.func, "id", ""))
        if function is not None and not node.keywords and not takes(function, len(node.args)):
            named = ast.unparse(node.func)
            self.refuse(named, f"{named} does not take {len(node.args)} arguments")
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = self._owner(node)
        if not owner:
            self._check(node, ARRAY_ATTRIBUTES)
            return self.generic_visit(node)
        name = bound_function(owner, node.attr)
        where = self.row.place(self.column)
        self.functions[name] = None
        with self.mistakes.gathered():
            self.functions[name] = resolve(f"{owner}.{node.attr}", "kernels", where, self.row)
        return ast.Name(name, ast.Load())

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        for name in sorted(language.loop_names(node.target) & set(self.row.schema.names)):
            self.refuse(name, f"{name!r} has a meaning already")
        return self.generic_visit(node)

    def _owner(self, node: ast.Attribute) -> str:
        """The module in `xp.tanh`; empty for an attribute of a value."""
        named = {*self.row.schema.names, *self.arrays}
        plain = isinstance(node.value, ast.Name) and node.value.id not in named
        return node.value.id if plain else ""  # type: ignore[attr-defined]

    def _check(self, node: ast.Attribute, known: frozenset[str]) -> None:
        if node.attr not in known:
            hint = did_you_mean(node.attr, known)
            self.refuse(node.attr, f"an array in a kernel has no {node.attr!r}{hint}")

"""Functions of the rows of `names.txt`, built when first asked for. doors/rows.py reads the rows.

NumPy's door adds three things to the dialect. The annotation of a parameter converts the argument
(conversion.py); a parameter `out` is written to; and the type of the result may be one of the words
of dressing.py. A name in an expression is a word (words.py), a function of the section's file in
functions/, or another row: the expressions of this table say `ad.name` for operators.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import doors
from adjoint.absent import absent
from adjoint.core.errors import TableError
from adjoint.core.importing import imported
from adjoint.doors.numpy import conversion, dressing, words
from adjoint.doors.numpy.conversion import array_or_refuse
from adjoint.doors.numpy.ufuncs import Ufunc
from adjoint.doors.rows import DoorRow
from adjoint.homes.arrays import array_of
from adjoint.ops.operator import packet
from adjoint.tensor.tensor import Tensor

_FILE = os.path.join(os.path.dirname(__file__), "names.txt")
# Arguments about memory or the way of computing, which have no effect here.
_IGNORED = frozenset(
    ("casting", "check_finite", "device", "kind", "like", "order", "out", "overwrite_a",
     "overwrite_b", "overwrite_input", "subok", "writeable")
)  # fmt: skip
_OFTEN = ("Array", "Number")  # types of arguments that are mostly tensors already
# The public module of each section; all other sections belong to "".
_HOMES = {
    "": "adjoint.numpy",
    "fft": "adjoint.numpy.fft",
    "linalg": "adjoint.numpy.linalg",
    "methods": "adjoint.numpy",
    "scipy_linalg": "adjoint.scipy.linalg",
    "special": "adjoint.numpy.special",
    "stride_tricks": "adjoint.numpy",
}


def _tables() -> dict[str, dict[str, DoorRow]]:
    """The rows of each module ("" is adjoint.numpy) by name."""
    tables: dict[str, dict[str, DoorRow]] = {module: {} for module in _HOMES}
    for section, rows in doors.read(_FILE).items():
        module = section.partition(".")[0]
        table = tables[module if module in _HOMES else ""]
        if twice := table.keys() & rows:
            raise TableError(f"names.txt: {', '.join(twice)} stands in two sections")
        table |= rows
    return tables


TABLES = _tables()
METHODS = TABLES.pop("methods")  # of arrays: no module has these names


def door(
    module: dict[str, Any], section: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module whose functions are the rows of a section."""

    def find(name: str) -> Any:
        if name not in TABLES[section]:
            raise absent(module["__name__"], name, TABLES[section])
        found = module[name] = function(section, name)
        return found

    return find, lambda: sorted(TABLES[section])


def is_ufunc(row: DoorRow) -> bool:
    """Whether a row's function is a ufunc in NumPy or SciPy."""
    return row.section.endswith("ufunc")


@functools.cache
def function(module: str, name: str) -> Any:
    """The function of a row, of arrays and of tensors; KeyError if there is none of that name."""
    return _dressed(TABLES[module][name], of_tensors(module, name))


@functools.cache
def of_tensors(module: str, name: str) -> Any:
    """The function of a row, of tensors alone."""
    return _build(module, TABLES[module][name])


def _dressed(row: DoorRow, built: Any) -> Any:
    if is_ufunc(row) or row.section in ("same", "theirs", "mapping"):
        return built  # which look at their arguments themselves
    if row.returns == "None":
        return dressing.on_writable(built)
    if dressing.MIRROR in row.returns:
        return built
    words = (dressing.VIEW, dressing.MADE, dressing.CONVERSION)
    gives = next((word for word in words if word in row.returns), dressing.FRESH)
    return dressing.on_arrays(built, gives)


def _build(module: str, row: DoorRow) -> Any:
    if is_ufunc(row):
        composed = row.signature is not None
        return Ufunc(
            their_ufunc(module, row.name),
            _elements(module, row),
            tensors_only=composed,
            wide=composed and module == "special",  # SciPy computes float32 in double precision
        )
    if row.section == "same":
        return getattr(np, row.name)
    if row.section == "theirs":
        return _on_values(row.name)
    built = _compiled(module, row, _typed(row))
    built.__annotations__ = {"return": _returned(row)}
    said = f"\n\n{doors.in_operators(row.expression)}" if row.expression else ""
    built.__doc__ = f"NumPy's `{row.name}`, of tensors.{said}"
    return built


def method(name: str) -> Any:
    """A method of arrays, made of functions of arrays."""
    row = METHODS[name]
    if row.signature is None:
        return function("", name)
    return _compiled("methods", row, _untyped(row))


def their_ufunc(module: str, name: str) -> np.ufunc:
    """NumPy's or SciPy's ufunc; under SCIPY_ARRAY_API SciPy wraps its own."""
    found = getattr(np if module == "" else imported("scipy.special"), name)
    return getattr(found, "__wrapped__", found)


def _elements(module: str, row: DoorRow) -> Callable[..., Any]:
    """The function that a ufunc applies to tensors: an operator, or an expression."""
    if row.signature is None:
        return packet(row.expression).function
    return _compiled(module, row, _untyped(row))


def _untyped(row: DoorRow) -> str:
    return f"def {row.name}({row.signature}): return {row.expression or row.call(_IGNORED)}"


def _on_values(name: str) -> Callable[..., Any]:
    """A function of NumPy's that needs the values: it prints or saves them."""
    theirs = getattr(np, name)

    def on_values(*args: Any, **keywords: Any) -> Any:
        plain = [array_or_refuse(name, a) for a in args]
        found = theirs(*plain, **{k: array_or_refuse(name, v) for k, v in keywords.items()})
        return array_of(conversion.Array(found)) if isinstance(found, np.ndarray) else found

    on_values.__name__ = on_values.__qualname__ = name
    on_values.__doc__ = f"NumPy's `{name}` of the values of tensors."
    return doors.with_signature(on_values, theirs)


def _typed(row: DoorRow) -> str:
    """The Python text of a row's function, on one line, which tracebacks show as the row's."""
    given = row.parameters()
    plain = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    steps = []
    for argument in plain:
        kind = ast.unparse(argument.annotation) if argument.annotation else None
        if kind is not None:
            name = argument.arg
            short = f"{name} if type({name}) is Tensor else " if kind in _OFTEN else ""
            steps.append(f"{name} = {short}{kind}({name})")
        argument.annotation = None
    expression = row.expression or row.call(_IGNORED)
    if any(a.arg == "out" for a in plain):
        steps.append(f"result = {expression}")
        steps.append(f"return result if out is None else written({row.name!r}, result, out)")
    else:
        steps.append(f"return {expression}")
    return f"def {row.name}({ast.unparse(given)}): {'; '.join(steps)}"


def _compiled(module: str, row: DoorRow, text: str) -> Callable[..., Any]:
    found = functools.partial(_found, module, row)
    return doors.compiled(text, row.where, _HOMES[module], found)


def _returned(row: DoorRow) -> Any:
    """The annotation of a function's result."""
    if row.returns == "Tensor":
        return Tensor
    # atleast_1d returns one or several views; where() an array, or places
    names = {"Any": Any, "Views": Any, "MadeOrPlaces": Any, **dict.fromkeys(dressing.WORDS, Tensor)}
    return eval(row.returns, {**vars(_file(row.section) or words), **names})


def _found(module: str, row: DoorRow, name: str) -> Any:
    """The object that a name in a row's text means."""
    for place in (words, conversion, _file(row.section)):
        if place is not None and name in vars(place):
            return getattr(place, name)
    if module == "methods":  # also the function of the method's own name
        return function("", name) if name in TABLES[""] else row.found(name, {})
    for table in (module, ""):
        if name != row.name and name in TABLES[table] and not _shadows(name, table, module):
            return of_tensors(table, name)
    return row.found(name, {})


def _shadows(name: str, table: str, module: str) -> bool:
    """Whether a name of adjoint.numpy would hide a builtin in another module."""
    return table != module and hasattr(builtins, name)


def _file(section: str) -> Any:
    """The file of a section, if it has one."""
    name = section.partition(".")[0]
    if not os.path.exists(os.path.join(os.path.dirname(_FILE), "functions", f"{name}.py")):
        return None
    return imported(f"adjoint.doors.numpy.functions.{name}")

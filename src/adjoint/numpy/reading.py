"""The table of names, read: a function for each row of `names.txt`, built when first asked for.

The text of a row is a signature with types, and an expression. Its function has that signature; it
converts the arguments as their types say (conversion.py), computes the expression, and writes the
result to `out` if there is one. What it returns is an annotation: one tensor unless the row says
otherwise. A row without an expression calls the function of that name in the file of its section,
in functions/. Names of an expression are, in this order: words (words.py), functions of the
section's file, other rows, Python's builtins.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint import doors
from adjoint.core.errors import TableError
from adjoint.core.importing import imported
from adjoint.homes.arrays import array_of
from adjoint.numpy import conversion, dressing, words
from adjoint.numpy.conversion import array_or_refuse
from adjoint.numpy.ufuncs import Ufunc
from adjoint.ops.operator import packet
from adjoint.tensor.tensor import Tensor

_FILE = os.path.join(os.path.dirname(__file__), "names.txt")
# Arguments that say how to compute or to store, not what: taken, and without effect.
_IGNORED = frozenset(
    ("casting", "check_finite", "device", "kind", "like", "order", "out", "overwrite_a",
     "overwrite_b", "overwrite_input", "subok", "writeable")
)  # fmt: skip
_OFTEN = ("Array", "Number")  # types of arguments that are mostly tensors already
# The module of a section's names, where it is not adjoint.numpy itself.
_MODULES = {
    "linalg": "linalg",
    "scipy_linalg": "scipy_linalg",
    "fft": "fft",
    "special": "special",
    "special.ufunc": "special",
    "stride_tricks": "stride_tricks",
    "methods": "methods",
}
# Where users find the functions, where it is not the module of that name in adjoint.numpy.
_HOMES = {
    "": "adjoint.numpy",
    "scipy_linalg": "adjoint.scipy.linalg",
    "stride_tricks": "adjoint.numpy",
    "methods": "adjoint.numpy",
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str  # "sum"
    section: str  # "reductions"
    signature: str  # "a: Array, axis=None, …"; "" of a ufunc that is an operator
    returns: str  # "Tensor"
    expression: str  # "reduced(…)"; an operator's name for a ufunc; "" for a function of the file
    line: int

    @property
    def is_ufunc(self) -> bool:
        return self.section.endswith("ufunc")


def read() -> dict[str, dict[str, Row]]:
    """The rows of each module ("" is adjoint.numpy) by name."""
    tables: dict[str, dict[str, Row]] = {name: {} for name in ("", *_MODULES.values())}
    section = ""
    for number, line in doors.lines(_FILE):
        if line.startswith("["):
            section = line[1:-1]
            continue
        rows = tables[_MODULES.get(section, "")]
        for row in _rows(section, number, line):
            if row.name in rows:
                raise TableError(f"names.txt:{number}: {row.name} stands twice in the table")
            rows[row.name] = row
    return tables


def _rows(section: str, number: int, line: str) -> list[Row]:
    left, _, expression = line.partition(" = ")
    left, _, returns = left.partition(" -> ")
    names, bracket, signature = left.partition("(")
    signature = signature.rpartition(")")[0] if bracket else ""
    return [
        Row(name.strip(), section, signature, returns or "Tensor", expression.strip(), number)
        for name in names.split(",")
    ]


TABLES = read()
METHODS = TABLES.pop("methods")  # of arrays: no module has these names


def function(module: str, name: str) -> Any:
    """The function of a row, of arrays and of tensors; KeyError if there is none of that name."""
    key = (module, name)
    if key not in _DRESSED:
        row = TABLES[module][name]
        _DRESSED[key] = _dressed(row, of_tensors(module, name))
    return _DRESSED[key]


def of_tensors(module: str, name: str) -> Any:
    """The function of a row, of tensors alone."""
    key = (module, name)
    if key not in _BUILT:
        _BUILT[key] = _build(module, TABLES[module][name])
    return _BUILT[key]


_BUILT: dict[tuple[str, str], Any] = {}
_DRESSED: dict[tuple[str, str], Any] = {}


def _dressed(row: Row, built: Any) -> Any:
    if row.is_ufunc or row.section in ("same", "theirs", "mapping"):
        return built  # which look at their arguments themselves
    if row.returns == "None":
        return dressing.on_writable(built)
    if dressing.MIRROR in row.returns:
        return built
    words = (dressing.VIEW, dressing.MADE, dressing.CONVERSION)
    gives = next((word for word in words if word in row.returns), dressing.FRESH)
    return dressing.on_arrays(built, gives)


def _build(module: str, row: Row) -> Any:
    if row.is_ufunc:
        composed = bool(row.signature)  # SciPy's own loops for float32 compute in double precision
        return Ufunc(
            their_ufunc(module, row.name),
            _elements(module, row),
            tensors_only=composed,
            wide=composed and module == "special",
        )
    if row.section == "same":
        return getattr(np, row.name)
    if row.section == "theirs":
        return _on_values(row.name)
    return _compiled(module, row, _text(row), typed=True)


def method(name: str) -> Any:
    """A method of arrays, made of functions of arrays."""
    row = METHODS[name]
    if not row.signature:
        return function("", row.name)
    text = f"def {row.name}({row.signature}): return {row.expression or _own_call(row)}"
    return _compiled("methods", row, text, typed=False)


def _own_call(row: Row) -> str:
    tree = ast.parse(f"def {row.name}({row.signature}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    return _call(row.name, tree.args)


def their_ufunc(module: str, name: str) -> np.ufunc:
    """NumPy's or SciPy's ufunc; under SCIPY_ARRAY_API SciPy wraps its own."""
    found = getattr(np if module == "" else imported("scipy.special"), name)
    return getattr(found, "__wrapped__", found)


def _elements(module: str, row: Row) -> Callable[..., Any]:
    """What a ufunc does to tensors: an operator, or an expression."""
    if not row.signature:
        return packet(row.expression).function
    text = f"def {row.name}({row.signature}): return {row.expression}"
    return _compiled(module, row, text, typed=False)


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


def _text(row: Row) -> str:
    """The Python text of a row's function, on one line, which tracebacks show as the row's."""
    tree = ast.parse(f"def {row.name}({row.signature}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    given = tree.args
    plain = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    steps = []
    for argument in plain:
        kind = ast.unparse(argument.annotation) if argument.annotation else None
        if kind is not None:
            name = argument.arg
            short = f"{name} if type({name}) is Tensor else " if kind in _OFTEN else ""
            steps.append(f"{name} = {short}{kind}({name})")
        argument.annotation = None
    expression = row.expression or _call(row.name, given)
    if any(a.arg == "out" for a in plain):
        steps.append(f"result = {expression}")
        steps.append(f"return result if out is None else written({row.name!r}, result, out)")
    else:
        steps.append(f"return {expression}")
    return f"def {row.name}({ast.unparse(given)}): {'; '.join(steps)}"


def _call(name: str, given: ast.arguments) -> str:
    """The call of a section's function with a row's arguments."""
    parts = [a.arg for a in (*given.posonlyargs, *given.args) if a.arg not in _IGNORED]
    parts += [f"*{given.vararg.arg}"] if given.vararg else []
    parts += [f"{a.arg}={a.arg}" for a in given.kwonlyargs if a.arg not in _IGNORED]
    parts += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return f"_own({', '.join(parts)})"


def _compiled(module: str, row: Row, text: str, *, typed: bool) -> Callable[..., Any]:
    home = _HOMES.get(module, f"adjoint.numpy.{module}")
    built = doors.compiled(text, f"{_FILE}:{row.line}", home, lambda n: _found(n, module, row))
    if typed:
        built.__annotations__ = {"return": _returned(row)}
        said = f"\n\n{doors.in_operators(row.expression)}" if row.expression else ""
        built.__doc__ = f"NumPy's `{row.name}`, of tensors.{said}"
    return built


def _returned(row: Row) -> Any:
    """What a function returns, as an annotation."""
    if row.returns == "Tensor":
        return Tensor
    # atleast_1d returns one or several views; where() an array, or places
    names = {"Any": Any, "Views": Any, "MadeOrPlaces": Any, **dict.fromkeys(dressing.WORDS, Tensor)}
    return eval(row.returns, {**vars(_file(row.section) or words), **names})


def _found(name: str, module: str, row: Row) -> Any:
    """What a name in a row's text stands for."""
    own = _file(row.section)
    if name == "_own":
        return getattr(own, row.name)
    for place in (words, conversion, own):
        if place is not None and name in vars(place):
            return getattr(place, name)
    for table in (module, ""):
        if module == "methods":
            break
        if name != row.name and name in TABLES[table] and not _shadows(name, table, module):
            return of_tensors(table, name)
    if module == "methods" and name in TABLES[""]:  # also the function of the method's own name
        return function("", name)
    return getattr(builtins, name, None)  # None is a variable of the text itself


def _shadows(name: str, table: str, module: str) -> bool:
    """Whether a name of adjoint.numpy would hide a builtin in another module."""
    return table != module and hasattr(builtins, name)


def _file(section: str) -> Any:
    """The file of a section, if it has one."""
    name = section.partition(".")[0]
    if not os.path.exists(os.path.join(os.path.dirname(_FILE), "functions", f"{name}.py")):
        return None
    return imported(f"adjoint.numpy.functions.{name}")

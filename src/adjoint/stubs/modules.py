"""Stubs of modules: their source without the bodies, and the names that they find when asked.

A module of ours with a `__getattr__` has every name, to a type checker. Its stub has those that are
there: what its source defines and imports, and what it finds at run time (functions of operators,
names of modules that are loaded late), by where that is defined.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, GenericAlias, MethodType, ModuleType, UnionType
from typing import Any

from adjoint.core.importing import imported
from adjoint.core.records import structure
from adjoint.doors import classes
from adjoint.doors.numpy.ufuncs import Ufunc
from adjoint.doors.rows import DoorRow
from adjoint.ops.operator import Operator, Packet, exists, packet
from adjoint.ops.signatures import MAY_BE_LEFT_OUT, Annotation
from adjoint.stubs import operators
from adjoint.stubs.operators import BUILTINS

_HIDDEN = ("__getattr__", "__dir__", "__all__", "annotations")
_OURS = re.compile(r"\b(adjoint[\w.]*)\.(\w+)")
_CHECKS = "# pyright: reportOverlappingOverload=false, reportIncompatibleMethodOverride=false"


def has_late_names(path: Path) -> bool:
    """Whether the module in a file finds names when they are asked for."""
    text = path.read_text(encoding="utf-8")
    return "__getattr__" in text and any(
        "__getattr__" in names_bound(node) for node in ast.parse(text).body
    )


@structure
class Text:
    """Lines of a stub, and the imports that they need, by the name that each binds."""

    lines: list[str]
    imports: dict[str, str]  # {"Any": "from typing import Any"}

    def add_function(self, name: str, value: FunctionType | MethodType, indent: str = "") -> None:
        """Add a function by its source, under another name perhaps; of a method, without self."""
        function = value.__func__ if isinstance(value, MethodType) else value
        assert isinstance(function, FunctionType)
        function = inspect.unwrap(function)  # a context manager, say
        node = _source(function)
        if node is None:
            self._add_written(name, function)
            return
        node.name = name
        first = [*node.args.posonlyargs, *node.args.args][:1]
        if isinstance(value, MethodType):
            del node.args.args[0]
        elif indent and first:
            first[0].arg, first[0].annotation = "self", None
        elif indent:  # all by *args
            node.args.args.insert(0, ast.arg("self"))
        for used in _names_in_annotations(node):
            for line in _import_of(used, sys.modules[function.__module__]):
                self.imports.setdefault(used, line)
        self.lines += definition(node, indent)

    def _add_written(self, name: str, function: FunctionType) -> None:
        """Add a function that was written at run time; it takes anything where it has no type."""
        self.imports.setdefault("Any", "from typing import Any")
        given = inspect.signature(function)
        kind = lambda annotation: Annotation(self._type(annotation, function))
        text = given.replace(
            parameters=[
                p.replace(annotation=kind(p.annotation), default=_left_out(p.default))
                for p in given.parameters.values()
            ],
            return_annotation=kind(given.return_annotation),
        )
        self.lines.append(f"def {name}{text}: ...")

    def _type(self, annotation: Any, function: FunctionType) -> str:
        """The text of an annotation of a written function: "list[Tensor]"."""
        if annotation is inspect.Signature.empty:
            return "Any"
        if isinstance(annotation, str):
            for name in set(re.findall(r"\w+", annotation)) - vars(builtins).keys():
                for line in _import_of(name, sys.modules[function.__module__]):
                    self.imports.setdefault(name, line)
            return operators.qualified(annotation)
        text = inspect.formatannotation(annotation)  # "list[adjoint.tensor.tensor.Tensor]"
        for module, name in _OURS.findall(text):
            self.imports.setdefault(name, _from(module, name, name))
        return operators.qualified(_OURS.sub(r"\2", text))


def _source(function: FunctionType) -> ast.FunctionDef | None:
    """The definition of a function in a file; None of one that was written at run time."""
    if not function.__code__.co_filename.endswith(".py"):
        return None
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return body[0] if body and isinstance(body[0], ast.FunctionDef) else None


def _left_out(default: Any) -> Any:
    """A default that is a literal, or `...`."""
    literal = default is None or isinstance(default, (bool, int, str))
    literal = literal or (isinstance(default, float) and math.isfinite(default))
    return default if literal or default is inspect.Parameter.empty else MAY_BE_LEFT_OUT


def stub(module: ModuleType, replaced: dict[str, Text] | None = None) -> str:
    """The stub of a module; `replaced` has other bodies of some classes, and other functions."""
    assert module.__file__ is not None
    writer = _Writer(module, replaced or {})
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        writer.add(node)
    writer.add_late_names()
    return writer.text()


class _Writer:
    """A stub that is being written."""

    def __init__(self, module: ModuleType, replaced: dict[str, Text]) -> None:
        self.module, self.replaced = module, replaced
        self.made = Text([], {"builtins": operators.IMPORTS["builtins"]})
        self.bound: set[str] = set(_HIDDEN)
        self.offered: set[str] = set()
        shown = dir(module) if "__dir__" in vars(module) else ()
        self.listed = {*shown, *getattr(module, "__all__", ())}  # names that it says are public

    def text(self) -> str:
        """The whole stub. What `__all__` names is offered, what else is imported is not."""
        title = f'"""{self.module.__name__} for type checkers; written by `adjoint stubs`."""'
        names = ", ".join(repr(name) for name in sorted(self.offered))
        lines = "\n".join([f"__all__ = [{names}]", "", *self.made.lines, ""])
        used = self.offered.union(re.findall(r"\w+", lines))
        imports = dict.fromkeys(line for n, line in self.made.imports.items() if n in used and line)
        return "\n".join([title, _CHECKS, *imports, "", lines])

    def _bind(self, name: str) -> None:
        self.bound.add(name)
        if not name.startswith("_"):
            self.offered.add(name)

    # -- what the source says --------------------------------------------------------------------

    def add(self, node: ast.stmt) -> None:
        """Add a statement of the module."""
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                self.add(inner)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if node.name not in _HIDDEN:
                self._define(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in sorted(names_bound(node) - self.bound):
                self._assign(name, node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """An import; a public name of ours is one that the module offers."""
        origin = node.module if isinstance(node, ast.ImportFrom) else None
        for alias in node.names:
            name = alias.asname or alias.name
            if name in self.bound or name == "*":
                continue
            line = (
                f"import {alias.name}" if origin is None else f"from {origin} import {alias.name}"
            )
            self.made.imports[name] = line + (f" as {alias.asname}" if alias.asname else "")
            self.bound.add(name)
            ours = (origin or "").split(".")[0] == "adjoint" and not name.startswith("_")
            if ours and (name in self.listed or not self.listed):
                self.offered.add(name)

    def _define(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._bind(node.name)
        other = self.replaced.get(node.name)
        if other is None:
            self.made.lines += definition(node)
            return
        self.made.imports |= {n: i for n, i in other.imports.items() if n not in self.bound}
        is_class = isinstance(node, ast.ClassDef)
        self.made.lines += [*class_(node, other.lines), ""] if is_class else other.lines

    def _assign(self, name: str, node: ast.Assign | ast.AnnAssign) -> None:
        value = getattr(self.module, name, None)
        if isinstance(node, ast.AnnAssign):
            self._bind(name)
            alias = "TypeAlias" in ast.unparse(node.annotation) and node.value is not None
            end = f" = {_renamed(node.value)}" if alias and node.value is not None else ""
            self.made.lines.append(f"{name}: {_renamed(node.annotation)}{end}")
        elif isinstance(value, (GenericAlias, UnionType)) and len(node.targets) == 1:
            self._bind(name)
            self.made.imports[name] = ""  # the stub itself has it
            self.made.lines.append(f"{name} = {_renamed(node.value)}")
        else:
            self._value(name, value)

    # -- what it finds at run time -----------------------------------------------------------------

    def add_late_names(self) -> None:
        """Add the names of the module that its source does not bind."""
        chosen = "__dir__" in vars(self.module)  # it says itself what there is
        for name in sorted({*dir(self.module), *getattr(self.module, "__all__", ())}):
            if name in self.bound or name.startswith("__") or (name[0] == "_" and not chosen):
                continue
            value = getattr(self.module, name)
            if chosen or not isinstance(value, ModuleType):  # which something else has imported
                self._value(name, value)
                self._in_place(name, operator_of(value))

    def _in_place(self, name: str, operator: Packet | None) -> None:
        """Add the variant of an operator that writes in place, which `dir` leaves out."""
        written = f"{name}_"
        if operator is None or written in self.bound or not exists(f"{operator.name}_"):
            return
        if hasattr(self.module, written):
            self._value(written, getattr(self.module, written))

    def _value(self, name: str, value: Any) -> None:
        """Add a name by what it stands for."""
        made = self.made
        self._bind(name)
        if (other := self.replaced.get(name)) is not None:
            made.imports |= {n: i for n, i in other.imports.items() if n not in self.bound}
            made.lines += other.lines
        elif isinstance(value, Packet):
            made.imports["Packet"] = "from adjoint.ops.operator import Packet"
            made.lines.append(f"{name}: Packet")
        elif (operator := operator_of(value)) is not None:
            made.imports |= {n: i for n, i in operators.IMPORTS.items() if n not in self.bound}
            made.lines += operators.functions(operator, name)
        elif isinstance(value, ModuleType):
            if value.__name__.startswith("adjoint."):
                parent, _, leaf = value.__name__.rpartition(".")
                made.imports[name] = _from(parent, leaf, name)
            else:
                self.offered.discard(name)
        elif (place := place_of(value)) and place[0] != self.module.__name__:
            made.imports[name] = _from(*place, name)
        elif isinstance(value, FunctionType) and value.__qualname__.split(".")[:-1] == ["Tensor"]:
            made.lines.append(f"{name} = {value.__qualname__}")  # Tensor.is_complex
        elif isinstance(value, (FunctionType, MethodType)) and _is_ours(value):
            made.add_function(name, value)
        elif isinstance(value, type) and (row := classes.table_of(value)) is not None:
            self._made_class(value, *row)
        elif callable(value) and not isinstance(value, type) and not _is_ours(value):
            made.imports["Any"] = "from typing import Any"
            made.imports["Callable"] = "from collections.abc import Callable"
            made.lines.append(f"{name}: Callable[..., Any]")
        else:
            made.lines.append(f"{name}: {self._type_of(value)}")

    def _made_class(self, value: type, table: classes.Classes, row: DoorRow) -> None:
        """Add a class that was made from a row of a table, after its bases."""
        for base in value.__bases__:
            if base.__module__ != value.__module__:
                self.made.imports[base.__name__] = _from(
                    base.__module__, base.__name__, base.__name__
                )
            elif base.__name__ not in self.bound:
                self._value(base.__name__, base)
        node = table.definition(row, vars(self.module))
        for used in _names_in_annotations(node):
            for line in _import_of(used, self.module):
                here = f"from {self.module.__name__} import"  # an alias, a word of all files
                line = line.replace(here, f"from {table.module} import")
                self.made.imports.setdefault(used, line)
        self.made.lines += [*definition(node), ""]

    def _type_of(self, value: Any) -> str:
        kind = type(value)
        name = kind.__qualname__
        if value is None or not hasattr(sys.modules.get(kind.__module__), name):
            return "None" if value is None else "object"
        if kind.__module__ == "builtins":
            return f"builtins.{name}"
        self.made.imports.setdefault(f"_{name}", _from(kind.__module__, name, f"_{name}"))
        return f"_{name}[{self._returned(value)}]" if isinstance(value, Ufunc) else f"_{name}"

    def _returned(self, function: Ufunc[Any]) -> str:
        self.made.imports.setdefault("Tensor", operators.IMPORTS["Tensor"])
        tensors = ", ".join(["Tensor"] * function.nout)
        return tensors if function.nout == 1 else f"builtins.tuple[{tensors}]"


def _from(module: str, name: str, bound: str) -> str:
    return f"from {module} import {name}" + (f" as {bound}" if bound != name else "")


def _is_ours(value: Any) -> bool:
    return str(getattr(inspect.unwrap(value), "__module__", "")).startswith("adjoint")


def operator_of(value: Any) -> Packet | None:
    """The packet of an operator: of its function, or itself."""
    if isinstance(value, Packet):
        return value
    wrapped = vars(value).get("__wrapped__") if isinstance(value, FunctionType) else None
    if isinstance(wrapped, Operator):
        return packet(wrapped.name)
    return wrapped if isinstance(wrapped, Packet) else None


def place_of(value: Any) -> tuple[str, str] | None:
    """(module, name) of a class or function that its own module has under its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module is None or name is None or not callable(value):
        return None
    home = sys.modules.get(module) or imported(module)
    return (module, name) if vars(home).get(name) is value else None


# -- texts -----------------------------------------------------------------------------------------


def names_bound(node: ast.stmt) -> set[str]:
    """The names that a statement defines or assigns to."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


class _Renaming(ast.NodeTransformer):
    """Builtin types under the names that no function of the stub has."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        qualified = ast.Attribute(ast.Name("builtins"), node.id)
        return qualified if node.id in BUILTINS else node


def _renamed(node: ast.expr) -> str:
    return ast.unparse(_Renaming().visit(node))


def definition(node: ast.FunctionDef | ast.ClassDef, indent: str = "") -> Iterator[str]:
    """A function or class without bodies."""
    if isinstance(node, ast.ClassDef):
        yield from class_(node, list(members(node)))
        return
    for decorator in node.decorator_list:
        yield f"{indent}@{ast.unparse(decorator)}"
    arguments = node.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg) and argument.annotation is not None:
            argument.annotation = _Renaming().visit(argument.annotation)
    arguments.defaults = [_short(d) for d in arguments.defaults]
    arguments.kw_defaults = [None if d is None else _short(d) for d in arguments.kw_defaults]
    returns = f" -> {_renamed(node.returns)}" if node.returns is not None else ""
    yield f"{indent}def {node.name}({ast.unparse(arguments)}){returns}: ..."


def _short(default: ast.expr) -> ast.expr:
    """A default that is a literal, or `...`."""
    number = default.operand if isinstance(default, ast.UnaryOp) else default
    return default if isinstance(number, ast.Constant) else ast.Constant(...)


def class_(node: ast.ClassDef, body: list[str]) -> Iterator[str]:
    """A class with these members."""
    for decorator in node.decorator_list:
        yield f"@{ast.unparse(decorator)}"
    bases = ", ".join([*map(ast.unparse, node.bases), *map(ast.unparse, node.keywords)])
    yield f"class {node.name}{f'({bases})' if bases else ''}:"
    yield from body or ["    ..."]


def members(node: ast.ClassDef, value: Callable[[str], Any] = lambda name: None) -> Iterator[str]:
    """The members of a class that its source names; `value` knows the constants among them."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef):
            yield from definition(member, "    ")
            if member.name == "__init__":
                yield from _attributes(member)
        elif isinstance(member, ast.If) and ast.unparse(member.test) == "TYPE_CHECKING":
            yield from (_annotated(m) for m in member.body if isinstance(m, ast.AnnAssign))
        elif isinstance(member, ast.AnnAssign):
            yield _annotated(member)
        elif isinstance(member, ast.Assign):
            yield from _constants(member, value)


def _annotated(member: ast.AnnAssign) -> str:
    return f"    {ast.unparse(member.target)}: {_renamed(member.annotation)}"


def _constants(member: ast.Assign, value: Callable[[str], Any]) -> Iterator[str]:
    for name in sorted(names_bound(member)):
        if name == "__slots__":
            yield "    __slots__: builtins.tuple[builtins.str, ...]"
        elif isinstance(value(name), (bool, int, str)):
            yield f"    {name}: builtins.{type(value(name)).__name__}"
        else:
            yield f"    {name} = {ast.unparse(member.value)}"


def _attributes(function: ast.FunctionDef) -> Iterator[str]:
    """What a constructor puts on the object, with the types that it says."""
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target).startswith("self."):
            yield f"    {ast.unparse(node.target)[5:]}: {_renamed(node.annotation)}"
        elif isinstance(node, ast.Assign):
            for target in (ast.unparse(t) for each in node.targets for t in _leaves(each)):
                if target.startswith("self.") and "[" not in target:
                    kind = "builtins.bool" if _is_truth(node.value) else "Any"
                    yield f"    {target[5:]}: {kind}"


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _leaves(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _names_in_annotations(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """The names that a function, or a class of functions, needs where it has no bodies."""
    found = [a.annotation for a in ast.walk(node) if isinstance(a, (ast.arg, ast.AnnAssign))]
    for function in (n for n in ast.walk(node) if isinstance(n, ast.FunctionDef)):
        found += [function.returns, *function.decorator_list]
    return {
        n.id
        for a in found
        if a is not None
        for n in ast.walk(a)
        if isinstance(n, ast.Name) and not hasattr(builtins, n.id)
    }


def _import_of(name: str, user: ModuleType) -> Iterator[str]:
    """The import of a name that annotations in a module use."""
    value = vars(user).get(name)
    if isinstance(value, ModuleType):
        yield f"import {value.__name__} as {name}"
    elif name == "Any":
        yield "from typing import Any"
    elif place := place_of(value):
        yield _from(*place, name)
    elif value is not None:
        yield f"from {user.__name__} import {name}"

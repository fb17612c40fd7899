"""The outside values that a function reads: globals, cells, attributes, items, defaults, functions.

A program holds for the values that the function would find. They are found from the function on:
its code tells which globals and attributes it loads, and each function, object or container found
is searched in turn. An attribute counts by name, on every user object reached: so more is noted
than one call reads, and less only if names are computed. Numbers are compared by type and value,
containers and objects by their contents, and objects of libraries by identity.

`Reads.key` says what was found. `Reads.hold` says, in some nanoseconds per value, whether the
identical objects are still there; if not, another look decides, as equal values have equal keys.
"""

from __future__ import annotations

import array
import collections
import contextvars
import dis
import enum
import functools
import hashlib
import operator
import os
import pickle
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.compiler.attributes import Same, plain_key
from adjoint.core.remembering import cached_property
from adjoint.tensor.tensor import Tensor, is_plain

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# libraries, whose own values are constant
_LIBRARIES = frozenset((*sys.stdlib_module_names, "adjoint", "numpy", "scipy")) - {"__main__"}
_ENTERED = ("adjoint.nn.", "adjoint.transforms.", "adjoint.distributions.")  # hold users' values
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_NAMESPACES = (types.SimpleNamespace, collections.ChainMap, collections.UserDict,
               collections.UserList, threading.local)  # fmt: skip
_MISSING = object()
_EVERY = "*"  # stands for names that are computed
_SCOPES = {"globals", "eval", "exec"}  # functions that read all globals
_ENVIRONMENT = {"environ", "getenv"}
_SMALL = 4096  # bytes up to which a tensor's values are compared, not its writes counted
_WRITTEN_OUT = 256  # tests in one generated function
_MEMBERS = ("_parameters", "_buffers")  # of a module, when these tensors are arguments
_ALWAYS = ("_modules", "_hooks", "training", *_MEMBERS)  # read by every call of a module


class Reads:
    """The values that were found, and tests that they are unchanged."""

    def __init__(self, looks: _Looks) -> None:
        self.key, self.tests, self.items = tuple(looks.key), looks.tests, looks.items
        self.states = [(s, _state(s)) for s in (*_drawn(), *looks.sources)]

    @cached_property
    def hold(self) -> Callable[[], bool] | None:
        """A function that tests whether the identical objects are there; None without tests."""
        tests = [*self.tests, *self.items]
        return _written(tests) if tests else None

    def still_hold(self) -> bool:
        """Whether the identical objects are there."""
        return self.hold is None or self.hold()

    def hold_but_for_items(self) -> bool:
        """Whether the identical objects are there, ignoring the items of mutable containers."""
        return _written(self.tests)()

    def moved(self) -> Any:
        """A source of numbers that has advanced, so that calls draw other numbers; or None."""
        return next((source for source, state in self.states if _state(source) != state), None)


def _drawn() -> list[Any]:
    """The global generators of Python and NumPy."""
    of_python, of_numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    found = [] if of_python is None else [of_python.random.__self__]
    return found if of_numpy is None else [*found, of_numpy.get_state.__self__]


def _state(source: Any) -> Any:
    """The current position of a source of numbers."""
    if isinstance(source, types.GeneratorType):
        return None if source.gi_frame is None else source.gi_frame.f_lasti
    if hasattr(source, "__next__"):
        return operator.length_hint(source, -1), repr(source)
    if hasattr(source, "getstate"):
        return source.getstate()
    return pickle.dumps(getattr(source, "bit_generator", source))


def _is_source(value: Any) -> bool:
    """Whether a value is a generator or iterator, which gives something else each time."""
    kind = type(value)
    if _module_of(kind).startswith(("numpy.random", "random")) and hasattr(kind, "random"):
        return True
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__")


def _base(container: Any) -> Any:
    return next(b for b in _SEQUENCES if isinstance(container, b))


def look(function: Any, arguments: Sequence[Any] = (), *, members: bool = True) -> Reads:
    """Collect what a function reads.

    Plain attributes of objects among the arguments are left out, as the signature has them. Without
    `members` so are parameters and buffers of modules.
    """
    names: frozenset[str] = frozenset()
    while True:
        looks = _Looks(names, arguments, members)
        looks.run([function, *arguments])
        if looks.names <= names:
            return Reads(looks)
        names |= looks.names


# --- tests ----------------------------------------------------------------------------------------

_Test = tuple[str, tuple[Any, ...]]  # an expression with {0}, {1}, …, and the values of these
_SCOPE = {"M": _MISSING, "is_": operator.is_, "all": all, "map": map, "len": len}


def _written(tests: list[_Test]) -> Callable[[], bool]:
    """One generated function for all tests. The texts are ours and contain names only."""
    if len(tests) > _WRITTEN_OUT:
        parts = [_written(tests[i : i + _WRITTEN_OUT]) for i in range(0, len(tests), _WRITTEN_OUT)]
        return lambda: all(part() for part in parts)
    scope: dict[str, Any] = dict(_SCOPE)
    terms: list[str] = ["True"]
    for text, values in tests:
        first = len(scope)
        names = [f"v{first + i}" for i in range(len(values))]
        scope.update(zip(names, values, strict=True))
        terms.append(text.format(*names))
    lines = [
        "def hold():",
        "    try:",
        f"        return {' and '.join(terms)}",
        "    except (AttributeError, ValueError, RuntimeError):",  # it is gone, or changes now
        "        return False",
    ]
    exec("\n".join(lines), scope)
    return scope["hold"]  # type: ignore[no-any-return]


# --- looking --------------------------------------------------------------------------------------


class _Looks:
    """One search, for given names of attributes; it collects further names that the code loads."""

    def __init__(self, known: frozenset[str], arguments: Iterable[Any], members: bool) -> None:
        self.known, self.members = known, members
        self.arguments = {id(a) for a in arguments}
        self.names: set[str] = set()  # names of attributes that the code loads
        self.key: list[Any] = []
        self.root: Any = None  # the compiled function
        self.tests: list[_Test] = []
        self.items: list[_Test] = []  # tests of the contents of mutable containers
        self.sources: list[Any] = []  # generators and iterators
        self.waiting: collections.deque[Any] = collections.deque()
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # keeps objects alive, so that ids stay unique

    def run(self, roots: Sequence[Any]) -> None:
        """Search everything that can be reached."""
        self.root = roots[0]
        self.key.extend([self.part(r) for r in roots])
        while self.waiting:
            value = self.waiting.popleft()
            self.key.append(self.visit(value))

    def part(self, value: Any) -> Any:
        """A value's entry in the key: a plain value, or the number of an object to be searched."""
        if type(value) in _PLAIN:
            return plain_key(value)
        number = self.seen.get(id(value))
        if number is None:
            number = self.seen[id(value)] = len(self.seen)
            self.alive.append(value)
            self.waiting.append(value)
        return number

    def parts(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([self.part(v) for v in values])

    def test(self, text: str, *values: Any) -> None:
        self.tests.append((text, values))

    def visit(self, value: Any) -> Any:
        """The contents of a value, for the key."""
        kind = type(value)
        for known, method in _VISITS:
            if issubclass(kind, known):
                return method(self, value)
        return self.instance(value)

    # -- functions and classes ---------------------------------------------------------------------

    def function(self, f: types.FunctionType) -> Any:
        if _is_ours(f):  # a library function: it may wrap one of the user's
            inside = [_content(c) for c in f.__closure__ or ()]
            inside = [v for v in inside if _leads_on(v)]
            return (Same(f.__code__), *self.parts([*inside, *_wrapped(f)]))
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self.state_of(f, name)
        loads = _loads(f.__code__)
        self.names |= loads.names
        if loads.computes_names:
            self.names.add(_EVERY)
        found = [self.attributes(f, vars(f))] if vars(f) else []
        found += [self.cell(c) for c in self._used_cells(f)]
        return (
            f.__code__, *found, *self.parts(f.__defaults__ or ()),
            self.part(f.__kwdefaults__), *self.globals(f, loads),
        )  # fmt: skip

    def state_of(self, f: types.FunctionType, name: str) -> None:
        """Test that an attribute of a function is unchanged; of the compiled one, defaults only."""
        value = getattr(f, name)
        if f is not self.root or (value is not None and name != "__code__"):
            self.test(f"{{0}}.{name} is {{1}}", f, value)

    def _used_cells(self, f: types.FunctionType) -> Iterator[Any]:
        """The cells of a function that its code reads, not only increments."""
        used = _loads(f.__code__).cells
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if name in used:
                yield cell

    def cell(self, cell: Any) -> Any:
        content = _content(cell)
        if content is _MISSING:
            return "empty"
        self.test("{0}.cell_contents is {1}", cell, content)
        return self.part(content)

    def globals(self, f: types.FunctionType, loads: _Loads) -> list[Any]:
        scope, found = f.__globals__, list[Any]()
        if not _SCOPES.isdisjoint(loads.globals):
            found.append(self.part(scope))
        if not _ENVIRONMENT.isdisjoint(loads.names):
            found.append(self.part(os.environ._data))  # type: ignore[attr-defined]
        for name in loads.globals:
            value = scope.get(name, _MISSING)
            if value is not _MISSING and not _is_library_module(value):
                self.test("{0}({1}, M) is {2}", scope.get, name, value)
                found.append((name, self.part(value)))
        for name in loads.modules:
            module = sys.modules.get(name)
            if module is not None and not _is_library_module(module):
                found.append((name, self.part(module)))
        return found

    def method(self, m: types.MethodType) -> Any:
        return ("method", self.part(m.__func__), self.part(m.__self__))

    def builtin(self, f: types.BuiltinFunctionType) -> Any:
        owner = f.__self__
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return Same(f)
        return ("method", f.__name__, self.part(owner))

    def partial(self, p: functools.partial[Any]) -> Any:
        return ("partial", *self.parts([p.func, p.args, p.keywords]))

    def descriptor(self, d: Any) -> Any:
        inside = (getattr(d, n, None) for n in ("fget", "__func__", "func", "__wrapped__"))
        return (Same(type(d)), *self.parts(v for v in inside if v is not None))

    def kind(self, kind: type) -> Any:
        found: list[Any] = [self.part(type(kind))] if _is_of_user(type(kind)) else []
        bases = [b for b in kind.__mro__ if not _is_of_user(b) and b is not object]
        for each in kind.__mro__:
            if _is_of_user(each):
                self.test("len({0}) == {1}", each.__dict__, len(each.__dict__))
                wanted = [n for n in each.__dict__ if self.wants(n) or _is_special(n)]
                # names that a library class calls
                wanted += [n for n in each.__dict__ if any(hasattr(b, n) for b in bases)]
                for name in wanted:
                    value = each.__dict__[name]
                    self.test("{0}({1}, M) is {2}", each.__dict__.get, name, value)
                    found.append((name, self.part(value)))
        return (Same(kind), *found)

    def wants(self, name: str) -> bool:
        """Whether user code may load an attribute of this name."""
        return name in self.known or _EVERY in self.known

    def getter(self, value: Any) -> Any:
        """An attrgetter or methodcaller: its arguments are names of attributes."""
        arguments = value.__reduce__()[1]
        names = [n for n in arguments if isinstance(n, str)]
        self.names |= {part for n in names for part in n.split(".")}
        return ("getter", type(value), *self.parts(arguments))

    def module(self, module: types.ModuleType) -> Any:
        if _is_library_module(module):
            return Same(module)
        scope = vars(module)
        wanted = [n for n in sorted(self.known) if not _is_library_module(scope.get(n))]
        for name in wanted:
            self.test("{0}({1}, M) is {2}", scope.get, name, scope.get(name, _MISSING))
        return (Same(module), *((n, self.part(scope[n])) for n in wanted if n in scope))

    # -- containers --------------------------------------------------------------------------------

    def sequence(self, value: Any) -> Any:
        """A list, tuple, set or deque, or an object of a subclass."""
        base = _base(value)
        items = tuple(base.__iter__(value))
        if base not in (tuple, frozenset):
            walk = value if type(value) is base else _Items(base, value)
            self.items += [("len({0}) == {1}", (walk, len(items)))]
            self.items += [("all(map(is_, {0}, {1}))", (walk, items))]
        return (self.extra(value, base), len(items), *self.parts(items))

    def mapping(self, value: Any) -> Any:
        keys, values = tuple(dict.keys(value)), tuple(dict.values(value))
        self.items += [("len({0}) == {1}", (dict.keys(value), len(keys)))]
        self.items += [("all(map(is_, {0}, {1}))", (dict.keys(value), keys))]
        self.items += [("all(map(is_, {0}, {1}))", (dict.values(value), values))]
        return (self.extra(value, dict), *self.parts(keys), *self.parts(values))

    def extra(self, value: Any, base: type) -> Any:
        """The class of a container, with the attributes of an object of a user's subclass."""
        if type(value) is base or not hasattr(value, "__dict__"):
            return Same(type(value))
        return (self.part(type(value)), self.attributes(value, vars(value)))

    def numbers(self, value: Any) -> Any:
        """A NumPy array: its shape, dtype and contents."""
        if value.dtype.hasobject:
            return ("array", value.shape, *self.parts(value.ravel().tolist()))
        content = value.tobytes()
        self.test("{0}.shape == {1} and {0}.dtype == {2} and {0}.tobytes() == {3}",
                  value, value.shape, value.dtype, content)  # fmt: skip
        return ("array", value.shape, value.dtype, hashlib.blake2b(content).digest())

    def memory(self, value: Any) -> Any:
        content = bytes(value)
        self.test("{2}({0}) == {1}", value, content, bytes)
        return (type(value), content)

    def scalar(self, value: Any) -> Any:
        return (type(value), value.dtype, value.tobytes())

    def tensor(self, t: Any) -> Any:
        """A tensor: its identity, and few values, as Python may depend on them."""
        if not is_plain(t):
            return Same(t)
        array = t.value
        self.test("{0}.value is {1} and {0}.edge is {2}", t, array, t.edge)
        if t.edge is not None or array.nbytes > _SMALL or array.dtype.hasobject:
            return ("tensor", Same(t), Same(array), t.edge is None)
        content = array.tobytes()
        self.test("{0}.tobytes() == {1}", array, content)
        return ("tensor", array.dtype, array.shape, content)

    # -- objects -----------------------------------------------------------------------------------

    def instance(self, value: Any) -> Any:
        kind = type(value)
        if _is_source(value):
            self.sources.append(value)
        if _module_of(kind) == "functools":  # a cached property, or a function with a cache
            return self.descriptor(value)
        wanted: Any = getattr(kind, "compiled_reads", None)
        if wanted is not None:
            return (Same(kind), *self.parts([getattr(value, n) for n in wanted]))
        if isinstance(value, enum.Enum) or not (_is_of_user(kind) or _is_entered(kind)):
            return Same(value)
        values = getattr(value, "__dict__", None)
        slots = [self.slot(value, n) for n in _slots(kind)]
        inside = () if values is None else self.attributes(value, values)
        also = [self.part(v) for v in getattr(kind, "compiled_reads_also", ())]
        return (self.part(kind), inside, *slots, *also)

    def attributes(self, value: Any, values: dict[str, Any]) -> Any:
        """The attributes of an object that user code may load."""
        named = (types.FunctionType, types.SimpleNamespace, threading.local)  # no library reads
        everything = not (_is_of_user(type(value)) or isinstance(value, named))
        is_argument = id(value) in self.arguments
        self.test("len({0}) == {1}", values, len(values))
        found = []
        for name in list(values):
            if not (everything or self.wants(name) or name in _ALWAYS):
                continue
            if name in _MEMBERS and not self.members:
                continue
            one = values[name]
            if is_argument and (type(one) in _PLAIN):
                continue
            self.test("{0}({1}, M) is {2}", values.get, name, one)
            found.append((name, self.part(one)))
        return tuple(found)

    def slot(self, value: Any, name: str) -> Any:
        if not self.wants(name):
            return None
        one = getattr(value, name, _MISSING)
        if one is _MISSING:
            self.test("{2}({0}, {1}, M) is M", value, name, getattr)
            return "unset"
        self.test("{2}({0}, {1}, M) is {3}", value, name, getattr, one)
        return self.part(one)

    def variable(self, value: contextvars.ContextVar[Any]) -> Any:
        one = value.get(_MISSING)
        self.test("{0}(M) is {1}", value.get, one)
        return ("variable", Same(value), None if one is _MISSING else self.part(one))

    def reference(self, value: Any) -> Any:
        one = value()
        self.test("{0}() is {1}", value, one)
        return ("reference", self.part(one))


class _Items:
    """A container whose class may override len() and iteration."""

    def __init__(self, base: Any, value: Any) -> None:
        self.base, self.value = base, value

    def __len__(self) -> int:
        return self.base.__len__(self.value)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return self.base.__iter__(self.value)  # type: ignore[no-any-return]


_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
_CALLED = (types.FunctionType, types.MethodType, functools.partial)
_DESCRIPTORS = (property, staticmethod, classmethod)
_VISITS: tuple[tuple[Any, Callable[[_Looks, Any], Any]], ...] = (
    (types.FunctionType, _Looks.function),
    (types.MethodType, _Looks.method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _Looks.builtin),
    (functools.partial, _Looks.partial),
    (_DESCRIPTORS, _Looks.descriptor),
    (type, _Looks.kind),
    (types.ModuleType, _Looks.module),
    (dict, _Looks.mapping),
    (_SEQUENCES, _Looks.sequence),
    (Tensor, _Looks.tensor),
    (np.ndarray, _Looks.numbers),
    (np.generic, _Looks.scalar),
    ((bytearray, array.array), _Looks.memory),
    (contextvars.ContextVar, _Looks.variable),
    (weakref.ref, _Looks.reference),
    ((operator.attrgetter, operator.methodcaller), _Looks.getter),
)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return _MISSING


def _wrapped(f: Any) -> list[Any]:
    return [f.__wrapped__] if hasattr(f, "__wrapped__") else []


def _is_ours(f: types.FunctionType) -> bool:
    """Whether a function belongs to a library, whose own values count as constant."""
    path = f.__code__.co_filename
    if path.startswith(("<adjoint", _PACKAGE)):
        return True
    name = f.__globals__.get("__name__") or ""
    module = sys.modules.get(name) if isinstance(name, str) else None
    return _is_library_module(module) and vars(module) is f.__globals__


def _is_library_module(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else None
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES


def _is_of_user(kind: type) -> bool:
    return _module_of(kind).partition(".")[0] not in _LIBRARIES


def _module_of(kind: type) -> str:
    found = type.__getattribute__(kind, "__module__")
    return found if isinstance(found, str) else "builtins"  # the class overrides `__module__`


def _leads_on(value: Any) -> bool:
    """Whether a value held by a library may be, or hold, a user's value."""
    kind = type(value)
    known = isinstance(value, _CALLED) or hasattr(kind, "compiled_reads")
    return known or _is_of_user(kind) or _is_entered(kind)


def _is_entered(kind: type) -> bool:
    return _module_of(kind).startswith(_ENTERED) or issubclass(kind, _NAMESPACES)


def _is_special(name: str) -> bool:
    """Whether Python itself looks the name up: `__call__`, `__getattr__`."""
    return name.startswith("__") and name not in ("__doc__", "__dict__", "__weakref__")


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ()) if _is_of_user(each) else ()
        found += [slots] if isinstance(slots, str) else list(slots)
    return [n for n in found if n.isidentifier() and n not in ("__dict__", "__weakref__")]


# --- what code loads ------------------------------------------------------------------------------


class _Loads:
    """The names that a code object and those inside it load, not only increment."""

    def __init__(self) -> None:
        self.globals: dict[str, None] = {}
        self.modules: dict[str, None] = {}
        self.cells: set[str] = set()
        self.names: set[str] = set()  # of attributes, and strings that may be such names
        self.computes_names = False  # getattr(self, name), vars(self)


@lru_cache(maxsize=4096)
def _loads(code: types.CodeType) -> _Loads:
    found = _Loads()
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "EXTENDED_ARG")]
    for place, step in enumerate(steps):
        name, following = step.opname, steps[place + 1 : place + 4]
        counts = any(s.opname == "BINARY_OP" and "=" in s.argrepr for s in following) or any(
            s.opname.startswith("INPLACE_") for s in following
        )
        stored = any(s.opname.startswith("STORE_") and s.argval == step.argval for s in
                     steps[place + 1 : place + 7])  # fmt: skip
        before = steps[place - 1].opname if place else ""
        found.computes_names |= _computes_names(step, following)
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            tool = not step.argval.isidentifier()  # as added by pytest
            if not (tool or (counts and stored)):
                found.globals[step.argval] = None
        elif name.startswith(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE", "LOAD_FROM_DICT")):
            if not (counts and stored):
                found.cells.add(step.argval)
        elif name.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "IMPORT_FROM")):
            if before not in ("COPY", "DUP_TOP"):  # `self.calls += 1` only counts
                found.names.add(step.argval)
        elif name == "IMPORT_NAME":
            found.modules[step.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            found.names.add(constant)  # getattr(self, "factor")
        elif isinstance(constant, types.CodeType):
            inner = _loads(constant)
            found.globals |= inner.globals
            found.modules |= inner.modules
            found.cells |= inner.cells
            found.names |= inner.names
            found.computes_names |= inner.computes_names
    return found


def _computes_names(step: Any, following: list[Any]) -> bool:
    """Whether an instruction reads attributes whose names are not in the code."""
    if not step.opname.startswith("LOAD_"):
        return False
    if step.argval in ("getattr", "hasattr", "__getattribute__"):
        return not any(type(s.argval) is str and "CONST" in s.opname for s in following)
    return step.argval in ("vars", "__dict__", "__slots__", "eval", "exec", "attrgetter", "dir")

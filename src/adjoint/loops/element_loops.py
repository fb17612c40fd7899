"""Loops over the elements of arrays: one pass over memory, shared by all cores.

An `ElementLoop` computes each element of its results from one element of each operand, for arrays
of any strides that broadcast. It is a loop program of one `Element`, printed as C with symbolic
sizes and strides and built in the background. Values do not depend on the number of threads.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.c_types import COMPUTED
from adjoint.core.dtypes import BOOL, COMPLEX, FLOAT, INTEGER, NAMES, DType
from adjoint.core.importing import imported
from adjoint.core.records import record
from adjoint.core.remembering import Bounded, cached_property
from adjoint.expressions.parsing import known
from adjoint.expressions.trees import Expression
from adjoint.loops.gate import LARGE
from adjoint.loops.traversal import plan, plan_alike
from adjoint.toolchain import background

Array = np.ndarray[Any, Any]
Operands = tuple[tuple[str, str], ...]

MOST_LOOPS = 6  # of one row or formula and its dtypes
_MOST_CALLS = 256  # calls that a row or formula remembers
# by kind of number: the struct letters of a number among the arguments, and its C type
_LETTERS = {"real": "d", "whole": "q", "complex": "2d"}
NUMBER_TYPES = {"real": "double", "whole": "long long", "complex": "double _Complex"}
_KINDS = {BOOL: "whole", INTEGER: "whole", FLOAT: "real", COMPLEX: "complex"}


@record
class Element:
    """What a loop computes for one element of each operand; dtypes are names."""

    operands: Operands  # arrays: (("x", "float32"),)
    numbers: tuple[str, ...]  # ("alpha",)
    results: tuple[tuple[Expression, str], ...]  # trees of operands and numbers, and their dtypes
    over: tuple[str, ...] = ()  # the operands over which results are written; (): one, elsewhere
    lets: tuple[tuple[str, DType, Expression], ...] = ()  # operands of later trees, computed once
    declared: str = ""  # C text of functions that only this element calls

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of what is read or written over."""
        trees = [*(tree for tree, _ in self.results), *(tree for _, _, tree in self.lets)]
        return frozenset(self.over).union(*(tree.operands for tree in trees))

    @cached_property
    def used(self) -> dict[str, str]:
        """The operands of which elements are read or written over."""
        return {name: dtype for name, dtype in self.operands if name in self.names}

    @cached_property
    def computed(self) -> DType:
        """The dtype of the computation."""
        dtypes = (dtype for _, dtype in self.operands if dtype != "bool")
        return NAMES[next(dtypes, self.results[0][1])].wide

    @property
    def kind(self) -> str:
        """The kind of its numbers: "real", "whole" or "complex"."""
        return kind_of(self.computed)


def kind_of(dtype: DType) -> str:
    """The kind of a dtype's numbers: "real", "whole" or "complex".

    >>> kind_of(NAMES["complex64"])
    'complex'
    """
    return _KINDS[dtype.category]


class ElementLoop:
    """The loop of an element, for arrays of any strides."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.dtype = NAMES[element.results[0][1]].np
        self.is_of_bytes = COMPUTED[element.computed.name] == "unsigned char"
        letters = _LETTERS[element.kind] * len(element.numbers)
        # addresses of array objects, then numbers: one block of bytes is the cheapest argument
        self._pack = struct.Struct(f"{len(element.operands) + 1}P{letters}").pack
        self._source = ""  # no cached property: it would make all attributes slow
        self._run: Any = None

    @property
    def source(self) -> str:
        """The C source."""
        if not self._source:
            self._source = imported("adjoint.loops.element_source").source(self.element)
        return self._source

    def __call__(
        self, arrays: Sequence[Array], numbers: Sequence[Any] = (), out: Array | None = None
    ) -> Array | None:
        """The result, written to `out` if that is given. None if NumPy must compute it: while the
        code is being built, and for unsuitable shapes, strides and addresses.
        """
        lies = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        into = None if out is None else (out.shape, out.strides, out.itemsize)
        how = plan(lies, self.dtype, into)
        run = self._run or self._found()
        if how is None or run is None:
            return None
        result = how.room(self.dtype) if out is None else out
        if how.is_empty:
            return result
        given = self._pack(*map(id, arrays), id(result), *numbers)
        return None if run(how.fields, given) else result

    def write_over(self, arrays: Sequence[Array], numbers: Sequence[Any], *, alike: bool) -> bool:
        """Write the results over operands, the first of which is the first array; return whether
        that was done. Arrays are `alike` if all have the same shape and strides.
        """
        first = arrays[0]
        into = first.shape, first.strides, first.itemsize
        if alike:
            how = plan_alike(into, self.dtype, len(arrays))
        else:
            how = plan(tuple([(a.shape, a.strides, a.itemsize) for a in arrays]), self.dtype, into)
        run = self._run or self._found()
        if how is None or run is None:
            return False
        given = self._pack(*map(id, arrays), id(first), *numbers)
        return how.is_empty or not run(how.fields, given)

    def _found(self) -> Any:
        library = background.soon(self.source)
        self._run = None if library is None else library.elements
        return self._run


@lru_cache(maxsize=1024)
def loop_of(element: Element) -> ElementLoop:
    """The loop of an element, made once."""
    return ElementLoop(element)


def of_tree(
    tree: Expression, operands: Mapping[str, str], numbers: Sequence[str], result: str
) -> ElementLoop:
    """The loop of one tree, with the dtypes of its operands and its result."""
    return loop_of(Element(tuple(operands.items()), tuple(numbers), ((tree, result),)))


class LoopsOfCalls:
    """The loops of one row or formula, by its calls: each call's dtypes and arguments are looked
    up, and few loops are made for each choice of dtypes, none for each number in a tree.
    """

    def __init__(self) -> None:
        self.known: Bounded[Any, Any] = Bounded(_MOST_CALLS)  # a call's key -> what it needs
        self.loops: dict[Operands, dict[Element, ElementLoop]] = {}

    @property
    def are_enough(self) -> bool:
        """Whether there are enough loops for some dtypes: trees depend on numbers of the calls."""
        return any(len(loops) >= MOST_LOOPS for loops in self.loops.values())

    def loop(self, element: Element) -> ElementLoop | None:
        """The loop of an element; None if there are enough for its dtypes."""
        loops = self.loops.setdefault(element.operands, {})
        if element not in loops:
            if len(loops) >= MOST_LOOPS:
                return None
            loops[element] = loop_of(element)
        return loops[element]


class Loops:
    """An element for large arrays of float32, and of float64: `Loops("exp@(x - y)", "x", "y")`.

    >>> Loops("x + y", "x", "y")(np.ones(3), np.ones(3))  # not large
    """

    def __init__(self, text: str, *names: str) -> None:
        self.text, self.names = text, names
        self.kinds: dict[str, ElementLoop] = {}

    def __call__(self, *arrays: Array, out: Array | None = None) -> Array | None:
        """The result, in `out` if that is given; None if NumPy must compute it."""
        first = arrays[0]
        if first.size < LARGE or any(a.dtype != first.dtype for a in arrays):
            return None
        kind = first.dtype.name
        loop = self.kinds.get(kind) or self._loop(kind)
        return None if loop is None else loop(arrays, out=out)

    def _loop(self, kind: str) -> ElementLoop | None:
        if kind not in ("float32", "float64"):
            return None
        tree = known(self.text, tuple((n, NAMES[kind]) for n in self.names), NAMES[kind])
        self.kinds[kind] = of_tree(tree, dict.fromkeys(self.names, kind), (), kind)
        return self.kinds[kind]


_ADDED = Loops("x + y", "x", "y")


def added(x: Array, y: Array, out: Array | None = None) -> Array:
    """x + y, on all cores if arrays are large; in `out` if that is given, which may be x or y.

    >>> added(np.ones(2), np.ones(2))
    array([2., 2.])
    """
    found = _ADDED(x, y, out=out)
    return np.asarray(np.add(x, y, out=out)) if found is None else found

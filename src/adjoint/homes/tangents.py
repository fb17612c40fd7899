"""Structural zeros of tangents: Note [Structural zeros] in structural_zeros.py, in forward mode.

`sqrt(clamp(x, min=0))` does not depend on an x below 0: the tangent of that element stays 0 even if
it is multiplied by an infinite derivative afterwards. So a row with the column `selects` notes on
the tangent of its result which elements are live: those where its forward formula does not give 0
for tangents of ones. Pointwise rows pass the note on, and where their chain ends, elements that are
not live are set to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.remembering import remembered
from adjoint.core.state import OFF, changed
from adjoint.homes import derive
from adjoint.homes.levels import on_level, twin
from adjoint.ops.operator import packet
from adjoint.table.rows import Row
from adjoint.tape import structural_zeros
from adjoint.tape.structural_zeros import Derived, Live
from adjoint.tensor.nodes import DROPS, KEEPS, MOVES, SELECTS, Counter, own_counter
from adjoint.tensor.tensor import Tensor, is_plain


class Note:
    """The structural zeros of a tangent."""

    __slots__ = ("clean", "dirty", "live")

    def __init__(self, live: Live, *, dirty: bool) -> None:
        self.live = live
        self.dirty = dirty  # whether elements that are not live may be NaN
        self.clean: Any = None  # the cleaned tangent, if it is dirty and was asked for


class PushedOnes(Live):
    """The result of a row's forward formulas for tangents of ones; a list for several results.

    Computed when it is asked for, from the arguments and results as they were: in a trace these are
    values, which stay; otherwise a write to their memory leaves no other answer than that all
    elements may be live, unless it was asked for before (`before_write`).
    """

    __slots__ = ("counts", "results", "row", "scope", "tangents")

    def __init__(
        self, row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: Any
    ) -> None:
        super().__init__(*[live_of(t) for t in _flat(tangents.values())])
        self.row, self.tangents = row, tangents
        self.counts: list[tuple[Counter, int]] = []  # of memory, when this was made
        self.scope = {name: self._kept(v) for name, v in scope.items()}
        self.results = [self._kept(r) for r in results]

    def _kept(self, value: Any) -> Any:
        """A tensor as it is now: one that an operator changes in place is another object."""
        if type(value) is list:
            return [self._kept(v) for v in value]
        if not isinstance(value, Tensor) or not (is_plain(value) or on_level(value)):
            return value
        made = twin(value)
        made.value = self._kept(value.value)
        if isinstance(value.value, np.ndarray):
            counter = own_counter(value)
            self.counts.append((counter, counter.count))
        return made

    def compute(self, by_shape: bool, *known: Any) -> Any:
        if by_shape:
            return structural_zeros.UNKNOWN
        if any(counter.count != count for counter, count in self.counts):
            found = [_all_live(r) for r in self.results]
            return found if len(found) > 1 else found[0]
        given = iter(known)
        ones = {name: _ones(t, given) for name, t in self.tangents.items()}
        with changed(recording=OFF):
            found = derive.forward_all(self.row, self.scope, ones, self.results)
        return found if len(found) > 1 else found[0]


def _all_live(result: Any) -> Any:
    if type(result) is list:
        return [_all_live(r) for r in result]
    return packet("ones_like")(result.detach()) if isinstance(result, Tensor) else None


def before_write(tangent: Any) -> None:
    """Compute which elements of a tangent are live, before its tensor is written to: the answer may
    need the values.
    """
    live = live_of(tangent)
    if live is not None:
        live.get()


def _flat(tangents: Any) -> list[Any]:
    return [t for each in tangents for t in (each if type(each) is list else [each])]


def _ones(tangent: Any, known: Any) -> Any:
    """Ones where a tangent is live, zeros elsewhere; None for an absent tangent."""
    if type(tangent) is list:
        return [_ones(t, known) for t in tangent]
    live = next(known)
    return None if tangent is None else structural_zeros.ones_where(tangent.detach(), live)


def live_of(tangent: Any) -> Live | None:
    """Which elements of a tangent are not structurally zero; None if all may be."""
    extra = None if tangent is None else tangent.extra
    return None if extra is None or extra.zeros is None else extra.zeros.live


def clean(tangent: Any) -> Any:
    """A tangent, or a list of tangents, with its structural zeros set to 0."""
    if type(tangent) is list:
        return [clean(t) for t in tangent]
    note = None if tangent is None or tangent.extra is None else tangent.extra.zeros
    if note is None or not note.dirty:
        return tangent
    if note.clean is None:
        if not _may_hold_nan(tangent):  # then elements that are not live are 0 already
            note.dirty = False
            return tangent
        note.clean = structural_zeros.with_zeros(tangent, note.live)
        note.clean.more().zeros = Note(note.live, dirty=False)
    return note.clean


def _may_hold_nan(tangent: Any) -> bool:
    while isinstance(tangent, Tensor):
        tangent = tangent.value
    if not isinstance(tangent, np.ndarray):
        return True  # in a graph it is unknown
    with np.errstate(all="ignore"):  # infinities and large numbers warn
        total = np.add.reduce(tangent, None)
    return bool(total != total)


def any_noted(tangents: dict[str, Any]) -> bool:
    """Whether something is known of the zeros of any tangent."""
    for tangent in tangents.values():
        if type(tangent) is list:
            if any(live_of(t) is not None for t in tangent):
                return True
        elif tangent is not None and tangent.extra is not None and tangent.extra.zeros is not None:
            return True
    return False


def for_formulas(row: Row, tangents: dict[str, Any]) -> dict[str, Any]:
    """The tangents for the formulas of a row. Pointwise rows take them uncleaned: they may turn
    zeros into NaN, since these elements of the result are structurally zero, too.
    """
    if structural_zeros.kind_of(row) == KEEPS and _are_alike(_present(tangents)):
        return tangents
    return {name: clean(t) for name, t in tangents.items()}


@remembered
def starts(row: Row) -> bool:
    """Whether results of a row may have elements without a tangent: it selects, or moves elements
    next to constants, as `cat` or the transpose of a gather. Views and sums do neither.
    """
    kind = structural_zeros.kind_of(row)
    return not row.moves and (kind == SELECTS or (kind == MOVES and not row.reduces))


def _are_alike(present: list[Any]) -> bool:
    """Whether tangents are structurally zero at the same elements."""
    lives = {live_of(t) for t in present}
    return len(lives) == 1 and None not in lives


def _present(tangents: dict[str, Any]) -> list[Any]:
    return [t for t in _flat(tangents.values()) if t is not None]


def noted(
    row: Row, scope: dict[str, Any], tangents: dict[str, Any], found: list[Any], results: Any
) -> list[Any]:
    """The tangents that a row's formulas computed, with notes on their zeros if the row starts such
    notes or its inputs had some.
    """
    kind = structural_zeros.kind_of(row)
    present = _present(tangents)
    if kind == DROPS or not present:
        return found
    marked = [live_of(t) for t in present]
    if kind == KEEPS:
        several = {live for live in marked if live is not None}
        if None in marked or found[0] is None:
            return found
        live = _whole(found[0].shape, several, present)
        dirty = _is_steep(row, scope) or _any_dirty(present)
        return [_marked(found[0], live, present, dirty=dirty)]
    pushed = PushedOnes(row, scope, tangents, results)
    if len(found) == 1:
        return found if found[0] is None else [_marked(found[0], pushed, present, dirty=False)]
    return [
        None
        if t is None
        else _marked(t, Derived(lambda parts, i=i: parts[i], pushed), present, dirty=False)
        for i, t in enumerate(found)
    ]


def _whole(shape: Any, several: set[Live], present: list[Any]) -> Live:
    """The live elements of a pointwise result: those where a tangent is live, broadcast to it."""
    if any(t.shape != shape for t in present):
        ones = np.ones(tuple(shape), bool)
        return Derived(lambda *known: _either(*known) & ones, *several)
    return several.pop() if len(several) == 1 else Derived(_either, *several)


def _either(*known: Any) -> Any:
    total = known[0] != 0
    for each in known[1:]:
        total = total | (each != 0)
    return total


def _marked(tangent: Any, live: Live, present: list[Any], *, dirty: bool) -> Any:
    if not any(tangent is t for t in present):  # else it is an input's tangent, with its own note
        tangent.more().zeros = Note(live, dirty=dirty)
    return tangent


def _any_dirty(tangents: Sequence[Any]) -> bool:
    return any(t.extra is not None and t.extra.zeros.dirty for t in tangents)


def _is_steep(row: Row, scope: dict[str, Any]) -> bool:
    """Whether the derivative of a pointwise row may be infinite: see structural_zeros._is_steep."""
    if structural_zeros.reads_tensors(row):
        return True
    numbers = [v for v in scope.values() if isinstance(v, (int, float))]
    return any(n == 0 or n - n != 0 for n in numbers)

"""Levels: they let transforms nest without mixing their derivatives.

Each call of a transform opens a level, and wraps its inputs as tensors of that level. An operator
goes to the topmost level among its arguments, which does its part and runs the operator on the
values of its tensors, one level below. `value` is thus an array for a plain tensor, and a tensor
for a tensor of a level.

`GradLevel` is a tape on a level: it records the same nodes as the eager tape, and its saved values
and gradients are tensors of the level below. Outside any other transform it is not needed, since
the eager tape itself is safe to nest; `pullback` (pullback.py) chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core import threads
from adjoint.core.errors import AdjointError, GradError
from adjoint.core.layouts import Layout
from adjoint.core.state import ON, State, changed, current, state
from adjoint.ops import binding, fans, kinks, runtime
from adjoint.ops.branches import from_above, run_asked
from adjoint.ops.directions import direction_of
from adjoint.ops.operator import Operator, packet
from adjoint.tensor import overlaps, views
from adjoint.tensor.home import Height, Home
from adjoint.tensor.nodes import ZERO, Node, Output, count_write, next_sequence, own_counter
from adjoint.tensor.tensor import Tensor, leaving, make, no_array


class _BelowLevel:
    """A block of code that runs below a level."""

    __slots__ = ("before", "level")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> None:
        self.before = self.level.go_below()

    def __exit__(self, *_: Any) -> None:
        state.set(self.before)


class Level(Home):
    """One open transform."""

    known_below: tuple[State, State] | None = None  # the last state inside, and the one below it

    def __init__(self) -> None:
        self.before = current()  # the state restored at its end
        self.position = len(self.before.levels) + 1  # on the stack; inner levels are higher
        self.height = Height.of_transform(self.position)
        with _opening:
            _opened[0] = self.birth = _opened[0] + 1
        self.sequence = next_sequence()
        self.open = True

    def __enter__(self) -> Any:
        state.set(self.state_inside(self.before))
        return self

    def __exit__(self, *_: Any) -> None:
        state.set(self.before)
        self.open = False
        self.known_below = None  # it refers to this level

    def state_inside(self, before: State) -> State:
        """The state in force while the level is open."""
        return before.but(
            levels=(*before.levels, self),
            differentiating=before.differentiating + self.differentiates,
        )

    def state_below(self, now: State) -> State:
        """The state in force while an operator runs below this level."""
        return now.but(levels=now.levels[: self.position - 1])

    def check_open(self, what: str) -> None:
        """Raise if a tensor of this level has outlived it."""
        if not self.open:
            raise GradError(
                f"{what}: a tensor made inside {self.name} is used after it ended. Return it "
                "from the function (has_aux=True for values that are not differentiated) instead "
                "of keeping it."
            )

    differentiates = False
    creates = False  # whether tensors created inside belong to it (a trace)
    encloses = False  # whether it also runs operators on outside tensors (a branch)

    def outside(self) -> _BelowLevel:
        """A block that runs below this level: tensors created there belong to the outer levels."""
        return _BelowLevel(self)

    def go_below(self) -> State:
        """Leave this level, and return the state to restore; a context would be too slow."""
        now = current()
        known = self.known_below
        if known is None or known[0] is not now:
            known = self.known_below = (now, self.state_below(now))
        state.set(known[1])
        return now

    def lift(self, value: Any, companion: Any = None, /) -> Tensor:
        """A tensor of the level below as one of this level."""
        return wrap(self, value, None, companion)

    def below(self, value: Any) -> Any:
        """The value of a tensor of this level; lists entry by entry, other values unchanged."""
        if isinstance(value, Tensor):
            return value.value if value.home is self else value
        return [self.below(v) for v in value] if type(value) is list else value

    def attach_views(self, op: Operator, values: list[Any], outs: Any) -> None:
        """Note that the results of a view operator view the argument on this level."""
        source = None
        rest: list[Any] = []
        for value in values:
            if source is None and isinstance(value, Tensor) and value.home is self:
                source = value
            elif value is not source or value is None:
                rest.append(value)
        if source is not None:
            views.attach_level(op, source, outs, tuple(rest))

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        """Compute out of place, and write the result to the tensor, here and below."""
        target = values[0]
        if self.writes_below(values):
            return self.write_below(op, values)
        self.check_belongs(op, target)
        if op.row.archetype.name == "inplace_view":
            return swap_view(op, values, twin(values[0]))
        if not overlaps.overwrites(op.row) and overlaps.is_view_of_windows(target):
            overlaps.refuse(op.name)
        with self.outside():  # so that no tape below has saved the memory that is written to
            before = self.cloned(target)
        result = functional(before, *values[1 : op.positional], **_keywords(op, values))
        self.write(op, target, result)
        return target

    def cloned(self, tensor: Any) -> Any:
        """A copy of a tensor of this level, with its own memory below."""
        raise AssertionError(f"{type(self).__name__} defines cloned")

    def write(self, op: Operator, target: Any, result: Any) -> None:
        """Write a result of `op` to a tensor of this level."""
        raise AssertionError(f"{type(self).__name__} defines write")

    def check_belongs(self, op: Operator, target: Any) -> None:
        """Raise unless a written tensor belongs to this level, or was made while it was open."""
        if not self.owns(target) and not self.takes_in(target):
            raise GradError(
                f"{op.name}: a tensor from outside {self.name} is changed in place with a value "
                "from inside; clone() it inside and write to the copy, or return the value"
            )

    def takes_in(self, tensor: Any) -> bool:
        """Move a tensor of a lower level that was made while this one was open to this level;
        return whether that was possible.

        An operator on tensors of a lower level runs there; if its result is overwritten with a
        value of this level, it becomes a tensor of this level, with its base and the base's views.
        """
        view = None if tensor.extra is None else tensor.extra.view
        if not self.was_made_inside(tensor if view is None else view.base):
            return False
        base = views.history_base(tensor)
        below = twin(base)
        below.counter = own_counter(base)
        views.hand_over(base, below)
        _become(base, self.enclosed(below))
        for living in views.living_views(base):
            start = wrap(self, base.value, base.edge, base.companion)
            _become(living, views.replay(living.extra.view.path, start))
        return True

    def was_made_inside(self, tensor: Any) -> bool:
        """Whether a tensor was made while this level was open, as far as that is known: a level's
        tensor by its birth, a tensor on the tape by its node's sequence number.
        """
        if isinstance(tensor.home, Level):
            return tensor.birth >= self.birth
        node = tensor.edge.node if type(tensor.edge) is Output else tensor.edge
        return type(node) is Node and node.sequence > self.sequence

    def is_idle(self, value: Any) -> bool:
        """Whether a tensor of this level carries no tangent, batch or history of it."""
        return not self.owns(value)

    def writes_below(self, values: list[Any]) -> bool:
        """Whether a write concerns only the levels below."""
        tensors = [t for v in values for t in (v if type(v) is list else [v])]
        return not self.owns(values[0]) and all(map(self.is_idle, tensors))

    def write_below(self, op: Operator, values: list[Any]) -> Any:
        """Run an operator that writes on the values of this level's tensors, one level below."""
        with self.outside():
            return op.call([self.below(v) for v in values])

    def owns(self, value: Any) -> bool:
        """Whether a tensor belongs to this level."""
        return isinstance(value, Tensor) and value.home is self

    def created(self, tensor: Tensor) -> Tensor:
        """A tensor created inside this level, as a tensor of it, so that it may be written to."""
        return self.lift(tensor)

    def enclosed(self, tensor: Tensor) -> Tensor:
        """A tensor of a level below as one of this level."""
        return self.created(tensor)

    def random(self, op: Operator, values: list[Any]) -> Any:
        """Run an operator that draws random numbers inside this level."""
        if _any_owned(self, values):
            return self.process(op, values)
        with self.outside():
            drawn = op.call(values)
        return self.created(drawn) if isinstance(drawn, Tensor) else drawn

    # -- what its tensors say --------------------------------------------------------------------

    def array(self, tensor: Tensor) -> Any:
        return tensor.value.array

    def strides(self, tensor: Tensor) -> Any:
        return tensor.value.stride()

    def storage_offset(self, tensor: Tensor) -> int:
        return int(tensor.value.storage_offset())

    def is_contiguous(self, tensor: Tensor) -> bool:
        return bool(tensor.value.is_contiguous())

    def layout(self, tensor: Tensor) -> Layout:
        return tensor.value.layout

    def data(self, tensor: Tensor) -> Tensor:
        return self.detach(tensor)

    def detach(self, tensor: Any) -> Any:
        detached = self.lift(tensor.value.detach())
        detached.birth = tensor.birth  # it has the memory of the tensor
        return detached

    def direction(self, tensor: Tensor) -> Any:
        return direction_of(tensor.value)

    def rate(self, tensor: Tensor, direction: Any) -> Any:
        found = direction.rate(tensor.value)
        return None if found is None else self.lift(found)

    def aligned(self, tensor: Any, like: Any) -> tuple[Any, Any]:
        """Two tensors one level below, where the first broadcasts to the other."""
        return self.below(tensor), self.below(like)

    def is_limit(self, tensor: Tensor) -> bool:
        return kinks.is_limit(tensor.value)

    def is_fan(self, tensor: Tensor) -> bool:
        return fans.is_fan(tensor.value)

    def is_in_graph(self, tensor: Tensor) -> bool:
        return fans.is_in_graph(tensor.value)

    def meets_kink(self, tensor: Tensor) -> bool:
        return kinks.meets_kink(tensor.value)

    def text(self, tensor: Tensor) -> str:
        return f"<a tensor of {self.name} at level {self.position}: {tensor.value!r}>"

    def has_leaves(self, tensor: Tensor, wanted: bool) -> bool:
        raise GradError(
            f"requires_grad_() inside {self.name}: use ad.grad, ad.vjp or ad.jacrev there in place "
            "of the tape, or call requires_grad_() outside"
        )

    def check_backward(self) -> None:
        raise GradError(
            f"backward() inside {self.name}: use ad.grad or ad.vjp there in place of the tape"
        )

    def check_leaves(self, tensor: Tensor, what: str) -> None:
        if self.differentiates and not self.is_idle(tensor):
            raise GradError(leaving(what, self.name))
        if isinstance(tensor.value, Tensor):
            tensor.value.check_leaves(what)

    def check_numpy(self, what: str) -> None:
        raise AdjointError(no_array(f"{what} inside {self.name}: the array would leave it"))


def created(tensor: Tensor) -> Tensor:
    """A tensor created inside transforms, lifted to each level, so that it may be written to."""
    for level in current().levels:
        tensor = level.created(tensor)
    return tensor


def without_tapes() -> changed:
    """A block that runs below all levels of reverse mode: tensors made there count as constants."""
    return changed(levels=tuple([level for level in current().levels if not level.differentiates]))


def carried(value: Any, height: int) -> Any:
    """A tensor without those levels above `height` of which it carries nothing, since it was made
    inside them.

    Other values unchanged. Levels of reverse mode are kept, because a tensor that `no_grad`
    computed from a variable has no history there either.
    """
    while on_level(value) and value.home.height > height:
        level = value.home
        if level.creates or level.differentiates or not level.is_idle(value):
            break
        value = value.value
    return value


def _any_owned(level: Level, values: Sequence[Any]) -> bool:
    return any(_any_owned(level, v) if type(v) is list else level.owns(v) for v in values)


def wrap(
    home: Level, value: Any, edge: Any = None, companion: Any = None, kind: type = Tensor
) -> Any:
    """Make a tensor of a level."""
    tensor = object.__new__(kind)
    tensor.value = value
    tensor.edge = edge
    tensor.counter = ZERO
    tensor.extra = None
    tensor.home = home
    tensor.companion = companion
    tensor.birth = _opened[0]
    return tensor


_opened = [0]  # how many levels have been opened, in all threads
_opening = threads.lock()


def on_level(value: Any) -> bool:
    """Whether this is a tensor of a transform."""
    return isinstance(value, Tensor) and isinstance(value.home, Level)


def swap_view(op: Operator, values: list[Any], outer: Any) -> Any:
    """squeeze_, t_, …: the tensor becomes a view of `outer`, a new tensor for its former value,
    which is the base of its views.

    The view operator itself runs (squeeze, t), so a graph never holds an operator that changes
    its argument.
    """
    target = values[0]
    count = op.positional
    keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))

    def take(tensor: Any) -> Any:
        viewed = packet(op.name.removesuffix("_"))(tensor, *values[1:count], **keywords)
        target.companion = viewed.companion
        return viewed

    views.become_view(target, outer, take)
    count_write(target, op.name)
    return target


def twin(tensor: Any) -> Any:
    """The same tensor as another object, without its views."""
    if not on_level(tensor):
        return make(tensor.value, edge=tensor.edge)
    twin = wrap(tensor.home, tensor.value, tensor.edge, tensor.companion)
    twin.birth = tensor.birth
    if tensor.extra is not None:
        twin.more().order = tensor.extra.order
    return twin


def _become(tensor: Any, other: Any) -> None:
    """Give a tensor the value, edge and home of another one; it keeps its views."""
    for name in ("value", "edge", "home", "companion", "birth"):
        setattr(tensor, name, getattr(other, name))


class GradLevel(Level):
    """Reverse mode inside another transform."""

    name = "grad"
    differentiates = True
    halved = False  # whether its forward and its backward become two graphs

    def state_inside(self, before: State) -> State:
        levels = (*before.levels, self)
        return before.but(levels=levels, differentiating=before.differentiating + 1, recording=ON)

    def state_below(self, now: State) -> State:
        """The state below; without recording if there was none when the level was opened."""
        recording = now.recording and self.before.recording
        return now.but(levels=now.levels[: self.position - 1], recording=recording)

    lift = wrap  # type: ignore[assignment]

    def process(self, op: Operator, values: list[Any]) -> Any:
        if not self.open:
            self.check_open(op.name)
        row = op.row
        if row.decompose and not row.reverse and not row.forward:
            return binding.decomposition(row)(*values)
        values = from_above(op, values)
        primals, lifted, watched = self._separated(values)
        before = self.go_below()
        try:
            if "kink" in row.texts:
                results = run_asked(op, primals, values, before)
            else:
                results = runtime.again(op, primals)
        finally:
            state.set(before)
        several = isinstance(results, (tuple, list))
        if row.archetype.result == "bool" or not (several or isinstance(results, Tensor)):
            return results
        if several and not all(isinstance(r, Tensor) for r in results):
            return results
        outs = [self.lift(r) for r in results] if several else self.lift(results)
        if op.schema.is_view:
            self.attach_views(op, lifted, outs)
        if watched and before.recording and op.parts.record is not None:
            op.parts.record(*lifted, outs, self, 1)
        return tuple(outs) if isinstance(results, tuple) else outs

    def _separated(self, values: list[Any]) -> tuple[list[Any], list[Any], bool]:
        """The arguments below, as tensors of this level, and whether any has a history."""
        below: list[Any] = []
        here: list[Any] = []
        watched = False
        for value in values:
            if isinstance(value, Tensor):
                if value.home is self:
                    below.append(value.value)
                    watched = watched or value.edge is not None
                else:
                    below.append(value)
                    value = self.lift(value)
            elif type(value) is list:
                primals, value, inside = self._separated(value)
                below.append(primals)
                watched = watched or inside
            else:
                below.append(value)
            here.append(value)
        return below, here, watched

    def is_idle(self, value: Any) -> bool:
        return not self.owns(value) or value.edge is None

    def check_belongs(self, op: Operator, target: Any) -> None:
        super().check_belongs(op, target)
        views.check_recorded_write(target, op.name)

    def cloned(self, tensor: Any) -> Any:
        return self.lift(tensor.value.clone(), tensor.edge)

    def write(self, op: Operator, target: Any, result: Any) -> None:
        """Write the value below, and move the history here."""
        with self.outside():
            target.value.copy_(self.below(result))
        count_write(target, op.name)
        if current().recording and on_level(result) and result.edge is not None:
            views.rebase(target, result.edge)

    def rate(self, tensor: Any, direction: Any) -> Any:
        found = direction.along_tape(tensor)
        return super().rate(tensor, direction) if found is None else found

    # -- a node's home ---------------------------------------------------------------------------

    def result(self, value: Any, edge: Any, node: Node, number: int) -> Any:
        return self.lift(value, edge)


def _keywords(op: Operator, values: list[Any]) -> dict[str, Any]:
    count = op.positional
    return dict(zip(op.schema.names[count:], values[count:], strict=True))

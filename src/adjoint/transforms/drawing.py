"""Users' functions that run again draw the same random numbers as in their first run.

Note [States of a batch]: a state that is read inside `vmap` has a row for each sample, all equal. A
function that draws again from a batched state first drew inside that vmap, and follows its
`randomness`. A vmap opened later (over cotangents, say) finds a state without a batch: its samples
share the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.core import pytrees
from adjoint.core.generator import STATE_BYTES, GeneratorWatch, drawing_again
from adjoint.core.state import current
from adjoint.homes.levels import on_level
from adjoint.ops import streams
from adjoint.ops.streams import Flat
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch import BatchLevel


def batched(level: BatchLevel, state: Any) -> Any:
    """A state with a row for each sample of a vmap: Note [States of a batch]."""
    with level.outside():
        rows = state.unsqueeze(0).expand((level.size, *state.shape))
    return level.lift(rows, 0)


def read_state(generator: Any) -> Any:
    """The state of a generator, None for the default one."""
    state = streams.read_state(generator)
    for level in current().levels:
        if isinstance(level, BatchLevel):
            state = batched(level, state)
    return state


@contextmanager
def from_states(generators: Sequence[Any], states: Sequence[Any]) -> Generator[None]:
    """Let a block draw from earlier states of generators."""
    with _shared(states[0]), drawing_again(generators, [_plain(state) for state in states]):
        yield


def draw_again(
    generators: Sequence[Any],
    states: Sequence[Any],
    function: Callable[[Flat], Flat],
    operands: Flat,
) -> Flat:
    """Run a function of a list, drawing from earlier states of generators."""
    with from_states(generators, states):
        return function(operands)


def _plain(state: Any) -> Any:
    """A state without its batches, whose rows are equal; any state if a batch has no samples."""
    while on_level(state):
        state = state.value
    array = state.array
    return array.reshape(-1, STATE_BYTES)[0] if array.size else streams.read_state(None).array


@contextmanager
def _shared(state: Any) -> Generator[None]:
    """A block in which samples share numbers in each open vmap that did not batch the state."""
    owners = []
    while on_level(state):
        owners += [state.home] if state.companion is not None else []
        state = state.value
    others = [v for v in current().levels if isinstance(v, BatchLevel) and v not in owners]
    before = [level.randomness for level in others]
    for level in others:
        level.randomness = "same"
    try:
        yield
    finally:
        for level, randomness in zip(others, before, strict=True):
            level.randomness = randomness


def watched() -> GeneratorWatch:
    """A block that records the states of generators before its first draws."""
    trace = next((level for level in reversed(current().levels) if level.creates), None)
    return GeneratorWatch(trace)


def rerun(
    generators: Sequence[Any],
    states: Sequence[Any],
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    """`function(ended, *args)`, drawing from earlier states until it calls `ended()`."""
    if not generators:
        return function(lambda: None, *args)
    leaves, structure = pytrees.flatten(args)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    returned: list[Any] = []

    def flat(values: Flat) -> Flat:
        given = list(leaves)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        returned[:], tree = pytrees.flatten(
            function(streams.resume, *pytrees.unflatten(structure, given))
        )
        returned.append(tree)
        return [v for v in returned if isinstance(v, Tensor)]

    found = iter(streams.again(generators, states, flat, [leaves[i] for i in places]))
    *values, tree = returned
    return pytrees.unflatten(tree, [next(found) if isinstance(v, Tensor) else v for v in values])


streams.read, streams.again = read_state, draw_again

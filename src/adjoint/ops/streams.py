"""Drawing again from an earlier state of a generator; None is the default generator.

Higher layers replace these functions by their own: transforms/drawing.py, since samples of `vmap`
draw separate numbers, and graph/control/replays.py, which makes nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.generator import default_generator, draw_on, drawing_again

Flat = list[Any]


def read_state(generator: Any) -> Any:
    """The state of a generator as a tensor of bytes."""
    return (default_generator if generator is None else generator).get_state()


def draw_again(
    generators: Sequence[Any],
    states: Sequence[Any],
    function: Callable[[Flat], Flat],
    operands: Flat,
) -> Flat:
    """Run a function of a list with generators at earlier states; they do not change themselves."""
    with drawing_again(generators, [np.asarray(state) for state in states]):
        return function(operands)


Again = Callable[[Sequence[Any], Sequence[Any], Callable[[Flat], Flat], Flat], Flat]

read: Callable[[Any], Any] = read_state
again: Again = draw_again
resume: Callable[[], None] = draw_on  # draws after this call come from the generators themselves

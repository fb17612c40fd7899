"""The pushforward of a function: one level of forward mode (homes/forward.py) around a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core import pytrees
from adjoint.homes.forward import JvpLevel
from adjoint.homes.limits import settle


def pushforward(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any], Any]:
    """Run `function(*primals)`; return its outputs, their tangents, and the rest (a pytree)."""
    with JvpLevel() as level:
        lifted = [level.lift(p, t) for p, t in zip(primals, tangents, strict=True)]
        outputs, rest = function(*lifted)
    return (
        [settle(level.below(o), False) for o in outputs],
        [settle(level.tangent(o), True) for o in outputs],
        pytrees.map(level.below, rest),
    )

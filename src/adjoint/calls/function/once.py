"""`once_differentiable`: a backward that cannot be differentiated itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import GradError
from adjoint.core.state import current
from adjoint.homes.levels import GradLevel
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import Node, Rule
from adjoint.tensor.tensor import Tensor, make


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` that cannot be differentiated again: a second derivative then raises."""

    @functools.wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            result = backward(ctx, *grads)
        if not current().recording:
            return result
        depends = [t for t in (*grads, *ctx.saved_tensors) if isinstance(t, Tensor)]
        node = None if ctx._node_reference is None else ctx._node_reference()
        several = isinstance(result, tuple)
        refusing = [_refusing(r, depends, node) for r in (result if several else (result,))]
        return tuple(refusing) if several else refusing[0]

    return guarded


def _refuse(node: Node, grad: Any, needs: Any, graph: bool) -> Any:
    raise GradError(
        "this backward is marked with @once_differentiable: it has no second derivative"
    )


_ONCE = Rule("Error", _refuse)


def _refusing(result: Any, depends: list[Tensor], of: Node | None) -> Any:
    """A gradient whose own derivative raises, if it depends on differentiated tensors."""
    if not isinstance(result, Tensor):
        return result
    home = result.home if isinstance(result.home, GradLevel) else None
    edges = [t.edge for t in depends if t.edge is not None and t.home is home]
    if of is not None and of.home is None and home is None:
        edges += [e for e in of.next if e is not None]
    if not edges:
        return result
    node = Node(_ONCE, tuple(edges), (), result.value.shape, result.value.dtype)
    node.home = home
    return make(result.value, edge=node) if home is None else home.lift(result.value, node)

"""Shape rules of attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.checks import attention as geometry
from adjoint.core.shapes import Spec


def attention(query: Spec, *arguments: Any) -> tuple[Spec, Spec]:
    """One value for each query, and one number, at least in float32."""
    *operands, _dropout_p, _scale = arguments
    sizes = geometry.sizes(query, *operands)
    wide = query.dtype.wide
    each = (*sizes.batch, sizes.queries)
    return Spec((*each, sizes.features), query.dtype), Spec(each, wide)


def attention_backward(
    grad: Spec,
    query: Spec,
    key: Spec,
    value: Spec,
    bias: Spec | None,
    starts: Spec | None,
    ends: Spec | None,
    coins: Spec | None,
    output: Spec,
    logsumexp: Spec,
    dropout_p: float,
    scale: float,
    output_mask: Sequence[bool],
) -> tuple[Spec, Spec, Spec, Spec]:
    """Like the operands; empty for gradients not wanted."""
    found = geometry.sizes(query, key, value, bias, starts, ends, coins)
    geometry.check_results(grad, output, logsumexp, found)
    nothing = Spec((0,), query.dtype)
    of = [x if m else nothing for x, m in zip((query, key, value, bias or nothing), output_mask)]
    return of[0], of[1], of[2], of[3]

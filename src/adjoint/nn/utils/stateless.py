"""`ad.nn.utils.stateless`: the earlier place of `ad.func.functional_call`."""

from __future__ import annotations

from typing import Any

from adjoint import func

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """As `ad.func.functional_call`, which is to be preferred."""
    args = () if args is None else args
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )

"""`ad.utils.checkpoint`: checkpointing, called as PyTorch calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.transforms.checkpoints import checkpoint as _checkpoint


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **keywords: Any,
) -> Any:
    """Return `function(*args, **keywords)`, computed again when backward needs it.

    `use_reentrant` is accepted and makes no difference: gradients of what `function` closes over
    are always right.

    >>> import adjoint as ad
    >>> x = ad.tensor(0.0, requires_grad=True)
    >>> ad.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor(1.)
    """
    return _checkpoint(function)(*args, **keywords)


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **_: Any,
) -> Any:
    """Run functions in a row, checkpointed in `segments` pieces; the last one is not."""
    if not 0 < segments <= len(functions):
        raise ArgumentError(
            f"checkpoint_sequential: {segments} segments of {len(functions)} functions"
        )
    size = len(functions) // segments

    def piece(start: int, stop: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in functions[start:stop]:
                value = function(value)
            return value

        return run

    for number in range(segments - 1):
        input = _checkpoint(piece(number * size, (number + 1) * size))(input)
    return piece((segments - 1) * size, len(functions))(input)

"""Several dimensions as one, and one as several."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.errors import ArgumentError
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Dimensions from `start_dim` to `end_dim` as one; a batch (dimension 0) usually stays.

    >>> import adjoint as ad
    >>> ad.nn.Flatten()(ad.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several, of given sizes; one of them may be -1.

    >>> import adjoint as ad
    >>> ad.nn.Unflatten(1, (3, -1))(ad.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise ArgumentError(
                f"Unflatten(dim={dim!r}): it is a whole number; dimensions have no names here."
            )
        if not isinstance(unflattened_size, (tuple, list)) or not all(
            isinstance(size, int) for size in unflattened_size
        ):
            raise ArgumentError(
                f"Unflatten(unflattened_size={unflattened_size!r}): needs whole numbers, as in "
                "(3, 4)."
            )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"

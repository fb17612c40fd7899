"""Embeddings: rows of a matrix by their numbers, alone or joined in bags."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.nn import functional, init
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter, other_than
from adjoint.nn.parameter import Parameter
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class OutsideTable(ValueRangeError, AssertionError):
    """A row that a table has not. Also an AssertionError, as in PyTorch."""


class _Table(Module):
    """A matrix with a row for each number, one of which may be padding."""

    weight: Tensor
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _set_sizes(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise OutsideTable(
                    f"{type(self).__name__}(padding_idx={padding_idx}): there are "
                    f"{num_embeddings} rows; use {-num_embeddings} to {num_embeddings - 1}."
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx

    def _set_weight(self, given: Tensor | None, learned: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = new_parameter(*shape, device=device, dtype=dtype)
            self.weight.requires_grad_(learned)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise ShapeError(
                f"{type(self).__name__}({shape[0]}, {shape[1]}): the weight that is given has "
                f"{show(given.shape)}."
            )
        self.weight = Parameter(given, requires_grad=learned)

    def reset_parameters(self) -> None:
        """Draw rows from the normal distribution; the row of padding is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _of_matrix(what: str, embeddings: Tensor) -> tuple[int, int]:
    """The sizes of a matrix that is to become a table."""
    if embeddings.ndim != 2:
        raise ShapeError(
            f"{what}.from_pretrained: needs a matrix, a row for each number, got "
            f"{show(embeddings.shape)}."
        )
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """A table of vectors: the result has, for each index of the input, that row of the weight.

    The row at `padding_idx` starts as zero and is not learned. With `max_norm`, rows that are used
    are first scaled to that norm in place. With `sparse`, the weight's gradient is sparse.

    >>> import adjoint as ad
    >>> layer = ad.nn.Embedding(10, 3, padding_idx=0)
    >>> layer(ad.tensor([[1, 2], [0, 9]])).shape, layer(ad.tensor([0])).detach()
    ((2, 2, 3), tensor([[0., 0., 0.]]))
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_sizes(num_embeddings, embedding_dim, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set_weight(_weight, not _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return functional.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        usual = dict(padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return f"{self.num_embeddings}, {self.embedding_dim}" + other_than(
            self, **usual, sparse=False
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Make an embedding whose weight is a given matrix; with `freeze` it is not learned.

        >>> import adjoint as ad
        >>> ad.nn.Embedding.from_pretrained(ad.eye(3))(ad.tensor([1]))
        tensor([[0., 1., 0.]])
        """
        rows, columns = _of_matrix("Embedding", embeddings)
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            embeddings, freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """The 'sum', 'mean' or 'max' of the rows in each bag.

    A bag is a row of the input, or what lies between two of `offsets` in a vector. See `Embedding`.

    >>> import adjoint as ad
    >>> layer = ad.nn.EmbeddingBag.from_pretrained(ad.eye(3), mode="sum")
    >>> layer(ad.tensor([0, 1, 2, 2]), ad.tensor([0, 2]))
    tensor([[1., 1., 0.],
            [0., 0., 2.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_sizes(num_embeddings, embedding_dim, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset
        self._set_weight(_weight, True, device, dtype)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return functional.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{self.num_embeddings}, {self.embedding_dim}"
            + other_than(self, max_norm=None, norm_type=2, scale_grad_by_freq=False)
            + f", mode={self.mode!r}"
            + other_than(self, padding_idx=None)
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Make an embedding bag whose weight is a given matrix; with `freeze` it is not learned.

        >>> import adjoint as ad
        >>> ad.nn.EmbeddingBag.from_pretrained(ad.eye(2))(ad.tensor([[0, 1]]))
        tensor([[0.5000, 0.5000]])
        """
        rows, columns = _of_matrix("EmbeddingBag", embeddings)
        made = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad = not freeze
        return made

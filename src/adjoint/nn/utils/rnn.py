"""`ad.nn.utils.rnn`: sequences of different lengths, packed step by step or padded.

>>> import adjoint as ad
>>> from adjoint.nn.utils.rnn import pack_sequence, pad_packed_sequence
>>> packed = pack_sequence([ad.tensor([1.0, 2.0, 3.0]), ad.tensor([4.0])])
>>> packed.data, packed.batch_sizes
(tensor([1., 4., 2., 3.]), tensor([2, 1, 1]))
>>> pad_packed_sequence(packed, batch_first=True)
(tensor([[1., 2., 3.],
        [4., 0., 0.]]), tensor([3, 1]))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.tensor.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Fields):
    """The sequences of a batch without padding: rows of step 0, rows of step 1, and so on.

    `batch_sizes[t]` sequences have a step t. `sorted_indices` says where the sequences, which are
    sorted by decreasing length, stood in the batch, `unsorted_indices` where they are now.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        sizes: Any = batch_sizes
        if sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise ArgumentError(
                    "PackedSequence: needs data and batch_sizes; pack_padded_sequence makes both."
                )
            data, sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the packed sequence with its data in another dtype; self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._with(data)

    def _with(self, data: Tensor) -> PackedSequence:
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def cpu(self) -> PackedSequence:
        """Return the packed sequence itself: tensors live on the CPU."""
        return self

    def double(self) -> PackedSequence:
        """Return it with data in float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """Return it with data in float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """Return it with data in float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """Return it with data in int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """Return it with data in int32."""
        return self.to(dtypes.int32)

    def short(self) -> PackedSequence:
        """Return it with data in int16."""
        return self.to(dtypes.int16)

    def char(self) -> PackedSequence:
        """Return it with data in int8."""
        return self.to(dtypes.int8)

    def byte(self) -> PackedSequence:
        """Return it with data in uint8."""
        return self.to(dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU: never."""
        return False

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory: never."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes one; None for None.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.invert_permutation(ad.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else ops.argsort(permutation)


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack padded sequences (steps, sequences, ...), or (sequences, steps, ...) if `batch_first`.

    With `enforce_sorted` the lengths must not grow; otherwise sequences are sorted here.

    >>> import adjoint as ad
    >>> x = ad.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]])
    >>> packed = ad.nn.utils.rnn.pack_padded_sequence(x, [2, 3], True, enforce_sorted=False)
    >>> packed.data, packed.sorted_indices
    (tensor([3., 1., 4., 2., 5.]), tensor([1, 0]))
    """
    sizes = as_tensor(lengths)
    sorted_indices = None
    if not enforce_sorted:
        sizes, sorted_indices = ops.sort(sizes, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = ops._pack_padded_sequence(input, sizes, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return padded sequences in their first order, and their lengths.

    `total_length` is the number of steps of the result, at least that of the longest sequence.

    >>> import adjoint as ad
    >>> packed = ad.nn.utils.rnn.pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4, 5])])
    >>> ad.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    if total_length is not None and total_length < sequence.batch_sizes.shape[0]:
        raise ValueRangeError(
            f"pad_packed_sequence: total_length={total_length} is less than the "
            f"{sequence.batch_sizes.shape[0]} steps of the longest sequence."
        )
    padded, lengths = ops._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value,
        -1 if total_length is None else total_length,
    )  # fmt: skip
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths.index_select(0, order)


class NoSequences(ArgumentError, RuntimeError):
    """Something in place of a list of sequences. Also a RuntimeError, as in PyTorch."""


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, with padding on one side of the shorter ones.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.pad_sequence([ad.tensor([1.0, 2.0]), ad.tensor([3.0])], batch_first=True)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise NoSequences(f"pad_sequence: takes tensors, one for each sequence; got {sequences!r}.")
    return ops.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded batch, each with its own length.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.unpad_sequence(ad.tensor([[1.0, 2.0], [3.0, 0.0]]), ad.tensor([2, 1]), True)
    [tensor([1., 2.]), tensor([3.])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    known = [int(n) for n in as_tensor(lengths).tolist()]
    return [row.narrow(0, 0, n) for row, n in zip(rows.unbind(0), known, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths, which must not grow with `enforce_sorted`.

    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4, 5])]).batch_sizes
    tensor([2, 2, 1])
    """
    lengths = [int(v.shape[0]) for v in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed batch, in their first order.

    >>> import adjoint as ad
    >>> packed = ad.nn.utils.rnn.pack_sequence([ad.tensor([1.0, 2.0]), ad.tensor([3.0])])
    >>> ad.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1., 2.]), tensor([3.])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

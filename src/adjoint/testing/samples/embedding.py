"""Samples of embeddings: repeated, unused and padded rows."""

from __future__ import annotations

from collections.abc import Iterator

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]


# Where padding_idx or scale_grad_by_freq matter, the derivative is not what differences say.
@sampler("embedding", reference=lambda weight, indices, *_: weight[indices])
def embeddings(make: Make) -> Samples:
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), name="vector")
    yield Sample(make(4, 3), ad.tensor([[2, 0], [1, 1]]), name="matrix")
    yield Sample(make(4, 3), ad.tensor(2), name="one index")
    yield Sample(make(4, 3), ad.zeros(0, dtype=ad.int64), name="no index")
    yield Sample(make(3, 4).t(), ad.tensor([3, 1]), name="transposed")
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), 2, name="padding", kink=True)
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), -1, False, True, name="sparse")
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), 1, True, name="frequency", kink=True)


@sampler("embedding_dense_backward")
def dense_backwards(make: Make) -> Samples:
    yield Sample(make(3, 2), ad.tensor([2, 0, 2]), 4, -1, False, name="plain")
    yield Sample(make(3, 2), ad.tensor([2, 0, 1]), 4, 0, False, name="padding")
    yield Sample(make(2, 2, 2), ad.tensor([[2, 0], [2, 2]]), 4, 0, True, name="frequency")


@sampler("embedding_backward")
def backwards(make: Make) -> Samples:
    yield Sample(make(3, 2), ad.tensor([2, 0, 2]), 4, 0, True, False, name="plain")
    yield Sample(make(3, 2), ad.tensor([2, 0, 2]), 4, 0, True, True, name="sparse")


@sampler("embedding_sparse_backward")
def sparse_backwards(make: Make) -> Samples:
    yield Sample(make(3, 2), ad.tensor([2, 0, 2]), 4, -1, False, name="plain")
    yield Sample(make(2, 2, 2), ad.tensor([[2, 0], [2, 2]]), 4, 0, True, name="frequency")


@sampler("embedding_renorm", "embedding_renorm_")
def renorms(make: Make) -> Samples:
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), 0.5, 2.0, name="plain")
    yield Sample(make(4, 3), ad.tensor([2, 0, 2]), 1e3, 1.0, name="short enough")


# --- bags ----------------------------------------------------------------------------------------

INDICES = [1, 2, 4, 1, 2, 0]
OFFSETS = [0, 2, 2, 5]


@sampler("_embedding_bag", "_embedding_bag_forward_only", real=True)
def bags(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS)
    for mode, name in enumerate(("sum", "mean", "max")):
        yield Sample(make.distinct(5, 3), *given, False, mode, name=name)
        yield Sample(
            make.distinct(5, 3), *given, False, mode, False, None, True, name=f"{name} last"
        )
    yield Sample(make(5, 3), *given, False, 0, False, make(6), name="weighted")
    none = ad.zeros(0, dtype=ad.int64)
    for mode, name in enumerate(("sum", "mean", "max")):
        yield Sample(make(5, 3), none, ad.tensor([0, 0]), False, mode, name=f"{name} empty")


@sampler("_embedding_bag", real=True)
def padded_bags(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS)
    for mode, name in enumerate(("sum", "mean", "max")):
        yield Sample(
            make.distinct(5, 3), *given, False, mode, False, None, False, 2, name=f"{name} padded"
        )


@sampler("embedding_bag.padding_idx", real=True)
def bags_with_padding(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS)
    for padding in (None, 2, -3):
        yield Sample(make(5, 3), *given, False, 1, False, None, False, padding, name=f"{padding}")


@sampler("_embedding_bag_dense_backward", real=True)
def bag_dense_backwards(make: Make) -> Samples:
    found = ad.tensor([0, 0, 2, 2, 2, 3]), ad.tensor([2, 0, 3, 1])
    largest = ad.tensor([[1, 2], [0, 0], [4, 1], [0, 0]])
    for mode, name in enumerate(("sum", "mean", "max")):
        rest = (largest, 5, False, mode, None, -1)
        yield Sample(make(4, 2), ad.tensor(INDICES), *found, *rest, name=name)
    rest = (largest, 5, True, 0, make(6), 2)
    yield Sample(make(4, 2), ad.tensor(INDICES), *found, *rest, name="weighted")


@sampler("_embedding_bag_backward", real=True)
def bag_backwards(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS)
    none = ad.zeros(0, dtype=ad.int64)
    for mode, name in ((0, "sum"), (1, "mean")):
        rest = (none, ad.tensor([2, 0, 3, 1]), none, 5, False, mode, False, None)
        yield Sample(make(4, 2), *given, *rest, name=name)


@sampler("_embedding_bag_sparse_backward", real=True)
def bag_sparse_backwards(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS)
    none = ad.zeros(0, dtype=ad.int64)
    for mode, name in ((0, "sum"), (1, "mean")):
        rest = (none, ad.tensor([2, 0, 3, 1]), 5, False, mode, None)
        yield Sample(make(4, 2), *given, *rest, name=name)


@sampler("_embedding_bag_per_sample_weights_backward", real=True)
def bag_weight_backwards(make: Make) -> Samples:
    given = ad.tensor(INDICES), ad.tensor(OFFSETS), ad.tensor([0, 0, 2, 2, 2, 3])
    yield Sample(make(4, 2), make(5, 2), *given, 0, 2, name="padded")

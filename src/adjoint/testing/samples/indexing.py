"""Samples of indexing: repeated and negative indices, masks, broadcasting, scalars, empty parts.

References are NumPy's own indexing, or plain loops over the elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


def _ints(values: Any) -> Any:
    return ad.from_numpy(np.array(values, np.int64))


def _bools(values: Any) -> Any:
    return ad.from_numpy(np.array(values, np.bool_))


# ---- conditions and masks ---------------------------------------------------------------------


@sampler("where.self", "_mostly")
def conditions(make: Any) -> Samples:
    yield Sample(make.bool(2, 3), make(2, 3), make(2, 3), name="plain")
    yield Sample(make.bool(3), make(2, 1), make(), name="broadcast")
    yield Sample(_bools(True), make(), make(), name="0-d")
    yield Sample(make.bool(0, 2), make(2), make(0, 2), name="empty")
    yield Sample(make.bool(3, 2).t(), make(3, 2).t(), make(2, 3), name="transposed")


@sampler("_times")
def products_or_zero(make: Any) -> Samples:
    yield Sample(make(2, 3), make(3), name="broadcast")
    zeros = make.like([0.0, 1.0, 0.0])
    yield Sample(zeros, make.like([np.inf, 2.0, 3.0]), name="infinite", kink=True)


@sampler("_trusted")
def trusted(make: Any) -> Samples:
    yield Sample(_bools([True, True]), make(3, 2), name="all")


@sampler("where.ScalarOther")
def other_number(make: Any) -> Samples:
    yield Sample(make.bool(2, 3), make(2, 3), 1.5, name="plain")
    yield Sample(make.bool(2, 1), make(3), 0, name="broadcast")


@sampler("where.ScalarSelf")
def self_number(make: Any) -> Samples:
    yield Sample(make.bool(2, 3), 1.5, make(2, 3), name="plain")
    yield Sample(make.bool(2, 1), -1, make(3), name="broadcast")


@sampler("where.Scalar")
def two_numbers(make: Any) -> Samples:
    yield Sample(make.bool(2, 3), 1.5, 2, name="floats")
    yield Sample(make.bool(3), 1, 2, name="integers")


@sampler("where", "nonzero", "nonzero_numpy")
def nonzero(make: Any) -> Samples:
    yield Sample(_bools([[True, False], [True, True]]), name="bool")
    yield Sample(make.like([[0.0, 1.0, 0.0], [2.0, 0.0, -3.0]]), name="numbers")
    yield Sample(_bools([False, False]), name="none")
    yield Sample(_bools(True), name="0-d")


@sampler("nonzero_static")
def nonzero_static(make: Any) -> Samples:
    yield Sample(_bools([[True, False], [True, True]]), size=2, name="cut")
    yield Sample(_bools([[True, False], [True, True]]), size=5, fill_value=7, name="filled up")


@sampler("masked_fill.Scalar", reference=lambda self, mask, value: np.where(mask, value, self))
def masked_fill(make: Any) -> Samples:
    yield Sample(make(2, 3), make.bool(2, 3), 1.5, name="plain")
    yield Sample(make(3), make.bool(2, 1), 0, name="self broadcast")
    yield Sample(make(2, 3), make.bool(3), 2, name="mask broadcast")
    yield Sample(make(), _bools(True), 2.0, name="0-d")
    yield Sample(make(0, 2), make.bool(0, 2), 2.0, name="empty")


@sampler("masked_fill.Tensor", reference=lambda self, mask, value: np.where(mask, value, self))
def masked_fill_tensor(make: Any) -> Samples:
    yield Sample(make(2, 3), make.bool(2, 3), make(), name="plain")
    yield Sample(make(3), make.bool(2, 1), make(), name="self broadcast")
    yield Sample(make(3, 2).t(), make.bool(3), make(), name="mask broadcast")


@sampler("masked_scatter")
def masked_scatter(make: Any) -> Samples:
    yield Sample(make(2, 3), make.bool(2, 3), make(6), name="plain")
    yield Sample(make(2, 3), make.bool(3), make(4, 2).t(), name="mask broadcast")
    yield Sample(make(3), make.bool(2, 1), make(8), name="self broadcast")
    yield Sample(make(2), _bools([False, False]), make(0), name="nothing")


@sampler(
    "masked_select",
    reference=lambda self, mask: np.array(
        [x for x, m in np.broadcast(self, mask) if m], dtype=self.dtype
    ),
)
def masked_select(make: Any) -> Samples:
    yield Sample(make(2, 3), make.bool(2, 3), name="plain")
    yield Sample(make(3), make.bool(2, 1), name="self broadcast")
    yield Sample(make(3, 2).t(), make.bool(3), name="mask broadcast")
    yield Sample(make(), _bools(True), name="0-d")
    yield Sample(make(3), _bools([False] * 3), name="nothing")


@sampler("one_hot", reference=lambda self, num_classes: np.eye(num_classes, dtype=np.int64)[self])
def one_hot(make: Any) -> Samples:
    yield Sample(make.index(4, 2, 3), 4, name="plain")
    yield Sample(_ints(2), 3, name="0-d")
    yield Sample(make.index(4, 0), 3, name="empty")


@sampler("masked_select_backward")
def masked_select_backward(make: Any) -> Samples:
    yield Sample(make(2), make(2, 2), _bools([[True, False], [False, True]]), name="plain")


# ---- gather and scatter -----------------------------------------------------------------------


@sampler("gather")
def gather(make: Any) -> Samples:
    yield Sample(make(3, 4), 1, make.index(4, 3, 5), name="columns")
    yield Sample(make(3, 4), -2, make.index(3, 2, 3), name="rows, smaller")
    yield Sample(make(4, 3).t(), 0, make.index(3, 5, 2), name="transposed")
    yield Sample(make(3, 4), 0, make.index(3, 0, 4), name="empty")


@sampler("gather")
def gather_scalars(make: Any) -> Samples:
    yield Sample(make(), 0, _ints([0, 0]), name="0-d")
    yield Sample(make(3), 0, _ints(2), name="0-d index")
    yield Sample(make(2, 3, 2), 1, make.index(3, 2, 4, 1), name="3-d")


@sampler("_scatter_winners")
def scatter_winners(make: Any) -> Samples:
    yield Sample(_ints([[1, 1, 0], [2, 2, 2]]), 1, 3, name="rows")
    yield Sample(_ints([[1, 1, 0], [1, 2, 0]]), 0, 3, name="columns")
    yield Sample(_ints(0), 0, 1, name="0-d")


@sampler("scatter.src")
def scatter(make: Any) -> Samples:
    yield Sample(make(3, 4), 1, _ints([[0, 2], [3, 1]]), make(2, 2), name="plain")
    yield Sample(make(3, 4), 0, _ints([[0, 2, 1]]), make(2, 3), name="smaller than src")
    yield Sample(make(4, 3).t(), -1, _ints([[3, 0]]), make(2, 1).t(), name="transposed")
    yield Sample(make(3), 0, _ints([]), make(2), name="no index")
    yield Sample(make(), 0, _ints(0), make(), name="0-d")


@sampler("scatter.src")
def scatter_repeated(make: Any) -> Samples:
    yield Sample(make(3), 0, _ints([1, 1, 0, 1]), make(4), name="repeated")


@sampler("scatter.value")
def scatter_value(make: Any) -> Samples:
    yield Sample(make(3, 4), 1, make.index(4, 2, 3), 1.5, name="plain")
    yield Sample(make(), 0, _ints(0), 2, name="0-d")
    yield Sample(make(3, 4), 0, make.index(3, 0, 2), 2, name="no index")


@sampler("scatter_add")
def scatter_add(make: Any) -> Samples:
    yield Sample(make(3, 4), 1, make.index(4, 3, 5), make(3, 5), name="repeated")
    yield Sample(make(3, 4), -2, make.index(3, 2, 3), make(4, 4), name="smaller than src")
    yield Sample(make(4, 3).t(), 0, make.index(3, 5, 2), make(2, 5).t(), name="transposed")
    yield Sample(make(3), 0, _ints([]), make(2), name="no index")
    yield Sample(make(), 0, _ints([0, 0]), make(3), name="0-d")


@sampler("scatter.reduce")
def scatter_with_reduce(make: Any) -> Samples:
    for reduce in ("add", "multiply"):
        yield Sample(make(3), 0, _ints([1, 1, 0]), make(4), reduce=reduce, name=reduce)


@sampler("scatter.value_reduce")
def scatter_value_with_reduce(make: Any) -> Samples:
    for reduce in ("add", "multiply"):
        yield Sample(make(3), 0, _ints([1, 1, 0]), 1.5, reduce=reduce, name=reduce)


def _reductions(make: Any) -> list[str]:
    return ["sum", "prod", "mean"] + ([] if make.is_complex else ["amax", "amin"])


@sampler("scatter_reduce.two")
def scatter_reduce(make: Any) -> Samples:
    for reduce in _reductions(make):
        for include in (True, False):
            how = f"{reduce} {'with' if include else 'without'} self"
            index = _ints([[0, 2, 2, 2], [1, 1, 0, 1]])
            yield Sample(
                make(3, 3), 1, index, make.distinct(2, 4), reduce, include_self=include, name=how
            )
            index = _ints([[1, 0], [1, 0], [1, 2]])
            yield Sample(
                make(3, 2), 0, index, make(4, 2), reduce, include_self=include,
                name=f"{how}, smaller than src",
            )  # fmt: skip


@sampler("scatter_reduce.two")
def scatter_products_with_zeros(make: Any) -> Samples:
    index = _ints([0, 0, 0, 1, 1, 2, 2, 2])
    for include in (True, False):
        source = make.like([0.5, 0.0, 2.0, 0.0, 0.0, 3.0, -1.5, 2.0])
        start = make.like([1.5, 2.0, 0.0, -1.0])
        yield Sample(start, 0, index, source, "prod", include_self=include, name="zeros")
    yield Sample(make(), 0, _ints([0, 0]), make(2), "prod", name="0-d")
    yield Sample(make(3), 0, _ints([]), make(2), "prod", name="no index")


@sampler("scatter_reduce.two", real=True)
def scatter_ties(make: Any) -> Samples:
    for reduce in ("amax", "amin"):
        source = make.like([1.0, 1.0, 0.5, 0.5, 2.0])
        start = make.like([1.0, 0.5, 3.0])
        index = _ints([0, 0, 1, 1, 1])
        yield Sample(start, 0, index, source, reduce, name=f"ties of {reduce}", kink=True)


@sampler("take_along_dim")
def take_along_dim(make: Any) -> Samples:
    yield Sample(make(3, 4), make.index(4, 3, 2), 1, name="plain")
    yield Sample(make(3, 4), _ints([[0, -1, 2]]), 1, name="broadcast, negative")
    yield Sample(make(1, 4), _ints([[0], [0]]), 0, name="self broadcast")
    yield Sample(make(3, 4), _ints([11, 0]), name="flat")


# ---- one vector of indices --------------------------------------------------------------------


@sampler("index_select")
def index_select(make: Any) -> Samples:
    yield Sample(make(3, 4), 0, _ints([2, 0, 2]), name="rows")
    yield Sample(make(4, 3).t(), -1, _ints([1, 1]), name="columns")
    yield Sample(make(3, 4), 1, _ints([]), name="none")
    yield Sample(make(2, 3, 2), 1, _ints([2, 0, 0, 1]), name="3-d")


@sampler("index_select")
def index_select_scalars(make: Any) -> Samples:
    yield Sample(make(), 0, _ints([0]), name="0-d")
    yield Sample(make(3), 0, _ints(1), name="0-d index")


@sampler("index_add")
def index_add(make: Any) -> Samples:
    alpha = 0.5 + 2j if make.is_complex else 1.5
    yield Sample(make(3, 4), 0, _ints([2, 0, 2]), make(3, 4), name="rows")
    yield Sample(make(3, 4), -1, _ints([1, 1]), make(2, 3).t(), alpha=alpha, name="columns")
    yield Sample(make(3, 4), 0, _ints([]), make(0, 4), name="none")
    yield Sample(make(), 0, _ints([0]), make(), alpha=2, name="0-d")


@sampler("index_copy")
def index_copy(make: Any) -> Samples:
    yield Sample(make(3, 4), 0, _ints([2, 0]), make(2, 4), name="rows")
    yield Sample(make(3, 4), -1, _ints([1, 3]), make(2, 3).t(), name="columns")
    yield Sample(make(3, 4), 0, _ints([]), make(0, 4), name="none")
    yield Sample(make(3), 0, _ints(1), make(), name="0-d source")
    yield Sample(make(), 0, _ints([0]), make(1), name="0-d")


@sampler("index_copy")
def index_copy_repeated(make: Any) -> Samples:
    yield Sample(make(3, 4), 1, _ints([1, 2, 1]), make(3, 3), name="repeated")


@sampler("index_fill.int_Scalar")
def index_fill(make: Any) -> Samples:
    yield Sample(make(3, 4), 0, _ints([2, -3]), 1.5, name="rows, negative")
    yield Sample(make(4, 3).t(), -1, _ints([1, 1]), 2, name="columns, repeated")
    yield Sample(make(), 0, _ints([0]), 2.0, name="0-d")


@sampler("index_fill.int_Tensor")
def index_fill_tensor(make: Any) -> Samples:
    yield Sample(make(3, 4), 0, _ints([2, -3]), make(), name="rows, negative")
    yield Sample(make(4, 3).t(), -1, _ints([1, 1]), make(), name="columns, repeated")
    yield Sample(make(3), 0, _ints([]), make(), name="none")


@sampler("index_reduce")
def index_reduce(make: Any) -> Samples:
    for reduce in _reductions(make)[1:]:
        for include in (True, False):
            how = f"{reduce} {'with' if include else 'without'} self"
            yield Sample(
                make(3, 2), 0, _ints([2, 0, 2]), make.distinct(3, 2), reduce, include_self=include,
                name=f"{how}, rows",
            )  # fmt: skip
            yield Sample(
                make(2, 3), 1, _ints([1, 1]), make.distinct(2, 2), reduce, include_self=include,
                name=f"{how}, columns",
            )  # fmt: skip


# ---- lists of indices -------------------------------------------------------------------------


def _keys() -> Iterator[tuple[str, list[Any]]]:
    """Index lists for a tensor of 3×4×2."""
    yield "rows", [_ints([2, 0, 2])]
    yield "columns", [None, _ints([[3, -1]])]
    yield "last", [None, None, _ints([1, 0, 1])]
    yield "neighbours", [_ints([[0], [-1]]), _ints([1, 1, 3])]
    yield "neighbours behind", [None, _ints([0, 3]), _ints(1)]
    yield "apart", [_ints([0, 0]), None, _ints([1, 1])]
    yield "all", [_ints([0, 2]), _ints([1, 1]), _ints([0, -1])]
    yield "scalars", [_ints(1), _ints(-1)]
    yield "none", [_ints([])]


def _masks() -> Iterator[tuple[str, list[Any]]]:
    yield "mask", [_bools([True, False, True])]
    yield (
        "mask behind",
        [None, _bools([[True, False], [False, True], [True, True], [False, False]])],
    )
    yield "mask and index", [_bools([True, False, True]), _ints([[3], [1]])]
    yield "nothing", [_bools([False] * 3)]


def _by_numpy(self: Any, indices: Any) -> Any:
    return self[tuple(slice(None) if i is None else i for i in indices)]


@sampler("index.Tensor", "_unsafe_index.Tensor", reference=_by_numpy)
def index(make: Any) -> Samples:
    for name, indices in (*_keys(), *_masks()):
        yield Sample(make(3, 4, 2), indices, name=name)
    yield Sample(make(2, 3).t(), [_ints([2, 2]), _ints([0, 1])], name="transposed")


@sampler("index_put", "_unsafe_index_put")
def index_put_added(make: Any) -> Samples:
    for name, indices in (*_keys(), *_masks()):
        shape = _by_numpy(np.zeros((3, 4, 2)), _arrays(indices)).shape
        yield Sample(make(3, 4, 2), indices, make(*shape), True, name=f"{name}, added")
    yield Sample(make(3, 4), [_ints([2, 0, 2])], make(4), True, name="broadcast, added")


def _arrays(indices: list[Any]) -> list[Any]:
    return [None if i is None else i.numpy() for i in indices]


@sampler("index_put", "_unsafe_index_put")
def index_put(make: Any) -> Samples:
    yield Sample(make(3, 4), [_ints([2, 0])], make(2, 4), name="rows")
    yield Sample(make(3, 4), [None, _ints([3, -3])], make(3, 1), name="columns, broadcast")
    yield Sample(make(4, 3).t(), [_ints([[0], [1]]), _ints([0, 3])], make(), name="one value")
    yield Sample(make(2, 3, 2), [_ints([0, 1]), None, _ints([1, 0])], make(2, 3), name="apart")
    for name, indices in _masks():
        shape = _by_numpy(np.zeros((3, 4, 2)), _arrays(indices)).shape
        yield Sample(make(3, 4, 2), indices, make(*shape), name=name)


@sampler("index_put", "_unsafe_index_put")
def index_put_repeated(make: Any) -> Samples:
    yield Sample(make(3, 2), [_ints([2, 0, 2])], make(3, 2), name="repeated")
    yield Sample(make(3), [_ints([[2, 0], [2, 1]])], make(2, 1), name="repeated, broadcast")
    yield Sample(make(3, 2), [None, _ints([1, 1])], make(3, 2), name="repeated columns")


@sampler("_index_winners")
def index_winners(make: Any) -> Samples:
    for name, indices in _keys():
        yield Sample(indices, (3, 4, 2), name=name)


@sampler("_unsafe_masked_index")
def unsafe_masked_index(make: Any) -> Samples:
    mask = _bools([True, False, True])
    yield Sample(make(4), mask, [_ints([3, 9, 0])], 1.5, name="plain")
    yield Sample(make(4, 2), mask, [_ints([3, -9, 0]), _ints([1, 1, 1])], 0, name="two")


@sampler("_unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put(make: Any) -> Samples:
    mask = _bools([True, False, True])
    yield Sample(make(4), mask, [_ints([3, 9, 3])], make(3), name="repeated")


@sampler("take", reference=lambda self, index: np.take(self, index))
def take(make: Any) -> Samples:
    yield Sample(make(3, 4), _ints([[0, -1], [5, 5]]), name="repeated, negative")
    yield Sample(make(4, 3).t(), _ints(7), name="transposed")
    yield Sample(make(), _ints([0, 0]), name="0-d")
    yield Sample(make(3), _ints([]), name="none")


@sampler("put")
def put(make: Any) -> Samples:
    yield Sample(make(3, 4), _ints([[0, -1], [5, 5]]), make(4), True, name="added")
    yield Sample(make(3, 4), _ints([[0, -1]]), make(2), name="written")
    yield Sample(make(4, 3).t(), _ints([1, 2]), make(2, 1), name="transposed")


@sampler("put")
def put_repeated(make: Any) -> Samples:
    yield Sample(make(3), _ints([2, 2, 0]), make(3), name="repeated")


# ---- views ------------------------------------------------------------------------------------


@sampler("select.int", "select_copy.int")
def select(make: Any) -> Samples:
    yield Sample(make(3, 4), 0, 1, name="row")
    yield Sample(make(4, 3).t(), -1, -1, name="last column")
    yield Sample(make(3), 0, 2, name="element")
    yield Sample(make(3, 0), 0, 2, name="empty")


@sampler("select_scatter")
def select_scatter(make: Any) -> Samples:
    yield Sample(make(3, 4), make(4), 0, 1, name="row")
    yield Sample(make(4, 3).t(), make(3), -1, -1, name="last column")
    yield Sample(make(3), make(), 0, 2, name="element")


@sampler("slice.Tensor", "slice_copy.Tensor")
def slices(make: Any) -> Samples:
    yield Sample(make(5, 3), 0, 1, 4, name="rows")
    yield Sample(make(3, 5).t(), 1, None, -1, name="transposed")
    yield Sample(make(5, 3), 0, 0, 100, 2, name="every other")
    yield Sample(make(5, 3), -2, 4, 2, name="empty")
    yield Sample(make(5), 0, -100, None, 3, name="clamped")


@sampler("slice_scatter")
def slice_scatter(make: Any) -> Samples:
    yield Sample(make(5, 3), make(3, 3), 0, 1, 4, name="rows")
    yield Sample(make(4, 3).t(), make(2, 3).t(), -1, None, None, 2, name="every other")
    yield Sample(make(5, 3), make(0, 3), 0, 4, 2, name="empty")


@sampler("slice_inverse")
def slice_inverse(make: Any) -> Samples:
    # Of a proper slice the memory around it is needed, which copies of the sample do not have.
    yield Sample(make(3, 4), make(3, 4), 1, name="all of it")


@sampler("diagonal", "diagonal_copy")
def diagonal(make: Any) -> Samples:
    yield Sample(make(3, 4), name="plain")
    yield Sample(make(4, 3).t(), 1, name="above")
    yield Sample(make(2, 3, 4), -1, -1, 0, name="3-d")
    yield Sample(make(3, 4), 5, name="empty")


@sampler("diagonal_scatter")
def diagonal_scatter(make: Any) -> Samples:
    yield Sample(make(3, 4), make(3), name="plain")
    yield Sample(make(2, 3, 4), make(3, 2), -1, -1, 0, name="3-d")


@sampler("as_strided", "as_strided_", "as_strided_copy")
def as_strided(make: Any) -> Samples:
    yield Sample(make(3, 4), (2, 3), (4, 1), name="plain")
    yield Sample(make(3, 4), (3, 2), (1, 5), 1, name="offset")
    yield Sample(make(3, 4), (3, 3), (2, 1), name="overlapping")
    yield Sample(make(3, 4), (2, 2, 3), (0, 1, 1), 2, name="overlapping and repeated")
    yield Sample(make(), (2, 2), (0, 0), name="0-d")
    yield Sample(make(3), (0, 2), (5, 5), 1, name="empty")


@sampler("as_strided_scatter")
def as_strided_scatter(make: Any) -> Samples:
    yield Sample(make(3, 4), make(2, 3), (2, 3), (4, 1), name="plain")
    yield Sample(make(3, 4), make(3, 2), (3, 2), (1, 5), 1, name="offset")

"""Samples of the shape family: any rank, empty, strided and expanded inputs, negative dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler(
    "alias",
    "detach",
    "clone",
    "_ordinary",
    "lift_fresh",
    "ravel",
    "lift",
    "squeeze",
    "squeeze_copy",
    "real",
    "_conj",
    "conj",
    "_conj_physical",
    "conj_physical",
    "_neg_view",
    "_neg_view_copy",
    "resolve_conj",
    "resolve_neg",
    "zero",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "flatten.using_ints",
    "double",
    "cdouble",
    "long",
    "int",
    "short",
    "char",
    "byte",
    "bool",
    "squeeze_",
    "_to_copy",
    "contiguous",
)
def whole(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make(1, 3, 1), name="ones")
    yield Sample(make(4, 4)[::2, 1:3], name="strided")
    yield Sample(make(3), name="vector")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")


@sampler("float", "half", "bfloat16", "cfloat")
def low_precision(make: Any) -> Samples:
    if make.dtype.itemsize < 8:  # from float64, finite differences drown in rounding errors
        yield Sample(make(2, 3), name="plain")
        yield Sample(make(3, 2).t(), name="transposed")
        yield Sample(make(), name="0-d")


@sampler("t", "t_copy", "t_")
def at_most_matrices(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(3), name="vector")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")


@sampler("matrix_H", "mT", "mH", "adjoint")
def matrices(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(), name="0-d")


@sampler("mT", "mH", "adjoint", "fliplr", "flipud")
def stacks_of_matrices(make: Any) -> Samples:
    yield Sample(make(2, 2, 3), name="batch")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make(2, 0, 3), name="empty")


@sampler("view", "_unsafe_view", "_reshape_copy", "reshape")
def sizes(make: Any) -> Samples:
    yield Sample(make(2, 6), (3, 4), name="plain")
    yield Sample(make(2, 6), (-1, 2), name="inferred")
    yield Sample(make(2, 6)[:, ::2], (2, 1, 3), name="strided")
    yield Sample(make(), (1, 1), name="0-d")
    yield Sample(make(1), (), name="to 0-d")
    yield Sample(make(2, 0), (0, 3), name="empty")


@sampler("reshape", "_unsafe_view", "_reshape_copy")
def sizes_that_copy(make: Any) -> Samples:
    yield Sample(make(3, 2).t(), (6,), name="transposed")


@sampler("_reshape_alias", "_reshape_alias_copy")
def sizes_and_strides(make: Any) -> Samples:
    yield Sample(make(2, 6), (3, 4), (4, 1), name="plain")


@sampler("reshape_as", "view_as")
def like_another(make: Any) -> Samples:
    yield Sample(make(2, 6), make(3, 4).detach(), name="plain")


@sampler("expand_as")
def expand_like_another(make: Any) -> Samples:
    yield Sample(make(3, 1), make(2, 3, 4).detach(), name="plain")


@sampler("flatten.using_ints")
def ranges_of_dims(make: Any) -> Samples:
    yield Sample(make(2, 3, 2), 1, 2, name="last two")
    yield Sample(make(2, 3, 2), 0, -2, name="negative")
    yield Sample(make(3, 2).t(), 0, 1, name="copies")
    yield Sample(make(2, 3), 1, 1, name="one")


@sampler("unflatten.int")
def split_dims(make: Any) -> Samples:
    yield Sample(make(2, 6), 1, (2, -1), name="plain")
    yield Sample(make(6, 2).t(), -1, (2, 3), name="transposed")
    yield Sample(make(0, 2), 0, (2, 0), name="empty")


@sampler("squeeze.dim", "squeeze_copy.dim", "squeeze_.dim")
def one_dim_to_drop(make: Any) -> Samples:
    yield Sample(make(2, 1, 3), 1, name="plain")
    yield Sample(make(2, 1), -1, name="negative")
    yield Sample(make(2, 3), 0, name="not one")
    yield Sample(make(), 0, name="0-d")


@sampler("squeeze.dims", "squeeze_copy.dims", "squeeze_.dims")
def dims_to_drop(make: Any) -> Samples:
    yield Sample(make(1, 2, 1, 1), (0, -1), name="plain")
    yield Sample(make(1, 2), (0, 1), name="not all ones")
    yield Sample(make(1, 2), (), name="none")
    yield Sample(make(), (0,), name="0-d")


@sampler("unsqueeze", "unsqueeze_copy", "unsqueeze_")
def places(make: Any) -> Samples:
    yield Sample(make(2, 3), 1, name="middle")
    yield Sample(make(3, 2).t(), -1, name="last")
    yield Sample(make(2, 3), -3, name="first")
    yield Sample(make(), 0, name="0-d")


@sampler("permute", "permute_copy")
def orders(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), (2, 0, 1), name="plain")
    yield Sample(make(2, 3, 4), (-2, -1, -3), name="negative")
    yield Sample(make(3, 2).t(), (1, 0), name="transposed")
    yield Sample(make(), (), name="0-d")
    yield Sample(make(0, 2), (1, 0), name="empty")


@sampler("transpose.int", "transpose_copy.int", "transpose_", "swapaxes_", "swapdims_")
def pairs_of_dims(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), 0, 2, name="plain")
    yield Sample(make(2, 3, 4), -1, 1, name="negative")
    yield Sample(make(2, 3), 1, 1, name="same")
    yield Sample(make(), 0, -1, name="0-d")


@sampler("movedim.int", "moveaxis.int")
def one_move(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), 0, 2, name="plain")
    yield Sample(make(2, 3, 4), -1, 0, name="negative")


@sampler("movedim.intlist", "moveaxis.intlist")
def moves(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), (0, 1), (2, 0), name="plain")
    yield Sample(make(2, 3, 4), (-1, 0), (0, -1), name="negative")


@sampler("expand", "expand_copy")
def larger_sizes(make: Any) -> Samples:
    yield Sample(make(3, 1), (2, 3, 4), name="plain")
    yield Sample(make(1, 3).t(), (3, 2), name="transposed")
    yield Sample(make(2, 3), (2, 3), name="same")
    yield Sample(make(), (2, 2), name="0-d")
    yield Sample(make(1, 3), (0, 3), name="to empty")
    yield Sample(make(2, 1), (-1, 3), name="keep")


@sampler("sum_to_size")
def smaller_sizes(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), (3, 1), name="plain")
    yield Sample(make(2, 3), (2, 3), name="same")
    yield Sample(make(2, 3), (), name="to 0-d")


@sampler("broadcast_tensors")
def shapes_that_broadcast(make: Any) -> Samples:
    yield Sample([make(3, 1), make(2), make()], name="plain")


@sampler("meshgrid", "cartesian_prod", "atleast_1d.Sequence", "atleast_2d.Sequence",
         "atleast_3d.Sequence")  # fmt: skip
def vectors(make: Any) -> Samples:
    yield Sample([make(2), make(3)], name="plain")
    yield Sample([make(2)], name="one")
    yield Sample([make(2), make(1), make(0)], name="empty")


@sampler("meshgrid.indexing")
def grids(make: Any) -> Samples:
    yield Sample([make(2), make(3)], indexing="xy", name="xy")
    yield Sample([make(2), make(3), make(2)], indexing="xy", name="xy of three")
    yield Sample([make(2), make()], indexing="ij", name="ij")


@sampler("combinations")
def subsets(make: Any) -> Samples:
    yield Sample(make(4), name="plain")
    yield Sample(make(4), 3, name="three")
    yield Sample(make(3), 2, True, name="with replacement")
    yield Sample(make(2), 3, name="none")
    yield Sample(make(3), 0, name="empty")


@sampler("repeat", "tile")
def copies(make: Any) -> Samples:
    yield Sample(make(2, 3), (2, 2), name="plain")
    yield Sample(make(3, 2).t(), (2, 1, 2), name="new dimension")
    yield Sample(make(2), (0,), name="to empty")
    yield Sample(make(), (3,), name="0-d")
    yield Sample(make(2, 0), (1, 2), name="empty")


@sampler("tile")
def fewer_copies(make: Any) -> Samples:
    yield Sample(make(2, 3), (2,), name="fewer dims")


@sampler("repeat_interleave.self_int")
def equal_repeats(make: Any) -> Samples:
    yield Sample(make(2, 3), 2, 1, name="plain")
    yield Sample(make(3, 2).t(), 2, name="flattened")
    yield Sample(make(2), 0, 0, name="none")
    yield Sample(make(), 3, name="0-d")


@sampler("repeat_interleave.self_Tensor")
def repeats(make: Any) -> Samples:
    yield Sample(make(2, 3), ad.tensor([1, 0, 2]), 1, output_size=3, name="plain")
    yield Sample(make(2, 2), ad.tensor([2]), None, output_size=8, name="one for all")


@sampler("repeat_interleave.Tensor")
def counts(make: Any) -> Samples:
    yield Sample(ad.tensor([1, 0, 3]), output_size=4, name="plain")


@sampler("cat")
def parts(make: Any) -> Samples:
    yield Sample([make(2, 3), make(1, 3)], name="plain")
    yield Sample([make(2, 3), make(1, 2).t(), make(2, 2)], -1, name="last")
    yield Sample([make(2, 3)], 1, name="one")
    yield Sample([make(0), make(2, 2)], 1, name="legacy empty")
    yield Sample([make(2, 0), make(2, 2)], 1, name="empty")
    yield Sample([make(2), make(3).detach()], name="one without gradient")


@sampler("stack")
def layers(make: Any) -> Samples:
    yield Sample([make(2, 3), make(2, 3)], name="plain")
    yield Sample([make(2, 3), make(3, 2).t()], -1, name="last")
    yield Sample([make(), make(), make()], name="0-d")
    yield Sample([make(0, 2)], 1, name="empty")


@sampler("hstack", "vstack", "row_stack", "dstack", "column_stack")
def rows(make: Any) -> Samples:
    yield Sample([make(2, 3), make(2, 3)], name="matrices")
    yield Sample([make(3), make(3)], name="vectors")
    yield Sample([make(), make()], name="0-d")


@sampler("block_diag")
def blocks(make: Any) -> Samples:
    yield Sample([make(2, 3), make(1, 2)], name="plain")
    yield Sample([make(3), make(), make(2, 2).t()], name="ranks")
    yield Sample([make(0), make(2, 2)], name="empty")


@sampler("_chunk_cat")
def chunks_of_several(make: Any) -> Samples:
    yield Sample([make(4, 3), make(2, 3)], 0, 2, name="plain")
    yield Sample([make(3, 2), make(5, 2)], 0, 2, name="padded")


@sampler("pad_sequence")
def sequences(make: Any) -> Samples:
    yield Sample([make(3, 2), make(1, 2)], name="plain")
    yield Sample([make(2), make(3)], True, 1.5, "left", name="left")


@sampler("split.Tensor", "unsafe_split.Tensor")
def equal_pieces(make: Any) -> Samples:
    yield Sample(make(5, 2), 2, name="plain")
    yield Sample(make(2, 4), 2, -1, name="last")
    yield Sample(make(0, 2), 2, name="empty")
    yield Sample(make(2, 3).t(), 5, name="one piece")


@sampler("split_with_sizes", "unsafe_split_with_sizes")
def pieces(make: Any) -> Samples:
    yield Sample(make(5, 2), (2, 0, 3), name="plain")
    yield Sample(make(2, 4), (1, 3), -1, name="last")


@sampler("chunk", "unsafe_chunk", "tensor_split.sections")
def chunks(make: Any) -> Samples:
    yield Sample(make(5, 2), 3, name="plain")
    yield Sample(make(2, 4), 2, -1, name="last")
    yield Sample(make(2), 4, name="more than there are")
    yield Sample(make(0), 2, name="empty")


@sampler("tensor_split.indices")
def cuts(make: Any) -> Samples:
    yield Sample(make(5, 2), (1, 3), name="plain")
    yield Sample(make(2, 4), (-1, 2, 9), 1, name="odd")


@sampler("tensor_split.tensor_indices_or_sections")
def cuts_in_a_tensor(make: Any) -> Samples:
    yield Sample(make(5, 2), ad.tensor([1, 3]), name="indices")
    yield Sample(make(5, 2), ad.tensor(2), name="sections")


@sampler("hsplit.int", "vsplit.int", "dsplit.int")
def equal_parts(make: Any) -> Samples:
    yield Sample(make(4, 2, 2), 2, name="plain")


@sampler("hsplit.array", "vsplit.array", "dsplit.array")
def parts_at(make: Any) -> Samples:
    yield Sample(make(3, 3, 3), (1, 2), name="plain")


@sampler("unbind.int", "unbind_copy.int")
def slices(make: Any) -> Samples:
    yield Sample(make(3, 2), name="plain")
    yield Sample(make(2, 3).t(), -1, name="last")
    yield Sample(make(3), name="vector")


@sampler("narrow", "narrow_copy")
def ranges(make: Any) -> Samples:
    yield Sample(make(4, 2), 0, 1, 2, name="plain")
    yield Sample(make(2, 4), -1, -3, 2, name="negative")
    yield Sample(make(4), 0, 4, 0, name="empty")


@sampler("narrow.Tensor")
def ranges_from_a_tensor(make: Any) -> Samples:
    yield Sample(make(4, 2), 0, ad.tensor(1), 2, name="plain")


@sampler("unfold", "unfold_copy")
def windows(make: Any) -> Samples:
    yield Sample(make(5, 2), 0, 3, 1, name="overlapping")
    yield Sample(make(2, 6), -1, 2, 3, name="gaps")
    yield Sample(make(6, 2).t(), 1, 2, 2, name="transposed")
    yield Sample(make(3), 0, 0, 1, name="size 0")
    yield Sample(make(), 0, 1, 1, name="0-d")


@sampler("unfold_backward")
def windows_back(make: Any) -> Samples:
    yield Sample(make(3, 2, 3), (5, 2), 0, 3, 1, name="overlapping")
    yield Sample(make(2, 2, 2), (2, 6), 1, 2, 3, name="gaps")
    yield Sample(make(2, 4), (5,), 0, 4, 1, name="few windows")


@sampler("flip")
def reversals(make: Any) -> Samples:
    yield Sample(make(2, 3), (0,), name="plain")
    yield Sample(make(3, 2).t(), (0, -1), name="both")
    yield Sample(make(3), (), name="none")
    yield Sample(make(0, 2), (0,), name="empty")


@sampler("roll")
def shifts(make: Any) -> Samples:
    yield Sample(make(2, 3), (1,), (1,), name="plain")
    yield Sample(make(3, 2).t(), (-1, 4), (0, -1), name="two")
    yield Sample(make(2, 3), (2,), name="flattened")
    yield Sample(make(2, 3), (1, 1), (0, 0), name="twice")
    yield Sample(make(0, 2), (1,), (0,), name="empty")


@sampler("rot90")
def quarters(make: Any) -> Samples:
    for k in (-1, 0, 1, 2, 7):
        yield Sample(make(2, 3), k, name=f"{k} quarters")
    yield Sample(make(2, 3, 2), 1, (2, -2), name="dims")


@sampler("tril", "triu")
def triangles(make: Any) -> Samples:
    yield Sample(make(3, 3), name="plain")
    yield Sample(make(2, 3, 2), 1, name="batch")
    yield Sample(make(3, 2).t(), -1, name="below")
    yield Sample(make(0, 2), name="empty")
    yield Sample(make(2, 2), 5, name="far")
    if not make.is_complex:
        values = [[float("inf"), float("nan")], [1.0, 2.0]]
        yield Sample(make.like(values), name="not finite", kink=True)


@sampler("diag_embed")
def diagonals(make: Any) -> Samples:
    yield Sample(make(3), name="plain")
    yield Sample(make(2, 3), 1, 0, 2, name="above")
    yield Sample(make(3, 2).t(), -2, -1, 0, name="dims exchanged")
    yield Sample(make(0), name="empty")


@sampler("diag", "diagflat")
def diagonals_both_ways(make: Any) -> Samples:
    yield Sample(make(3), 1, name="vector")
    yield Sample(make(3, 2), -1, name="matrix")


@sampler("diagflat")
def any_to_diagonal(make: Any) -> Samples:
    yield Sample(make(), name="0-d")


@sampler("fill.Scalar")
def numbers(make: Any) -> Samples:
    yield Sample(make(2, 3), 1.5, name="plain")
    yield Sample(make(), 2, name="0-d")


@sampler("fill_diagonal_")
def numbers_for_diagonals(make: Any) -> Samples:
    yield Sample(make(3, 2), 1.5, name="tall")
    yield Sample(make(7, 2), 1.5, True, name="wrapped")
    yield Sample(make(2, 2, 2), 2, name="cube")
    yield Sample(make(2, 0), 2, name="empty")


@sampler("fill.Tensor")
def values(make: Any) -> Samples:
    yield Sample(make(2, 3), make(), name="plain")
    yield Sample(make(0), make(), name="empty")


@sampler("copy")
def sources(make: Any) -> Samples:
    yield Sample(make(2, 3), make(2, 3), name="plain")
    yield Sample(make(2, 3), make(3), name="broadcast")
    yield Sample(make(3, 2).t(), make(), name="0-d source")


@sampler("to.dtype")
def dtypes_to_cast_to(make: Any) -> Samples:
    yield Sample(make(2, 3), make.dtype, name="same")
    yield Sample(make(2, 3), make.dtype, False, True, name="copy")
    yield Sample(make(3, 2).t(), ad.complex128, name="complex")


@sampler("to.other", "type_as")
def tensors_to_cast_like(make: Any) -> Samples:
    yield Sample(make(2, 3), make(1).detach(), name="same")
    yield Sample(make(2, 3), ad.zeros(1, dtype=ad.complex128), name="complex")


@sampler("to.device")
def devices(make: Any) -> Samples:
    yield Sample(make(2, 3), "cpu", make.dtype, name="same")
    yield Sample(make(2, 3), "cpu", ad.complex128, name="complex")


@sampler("_to_copy")
def casts(make: Any) -> Samples:
    yield Sample(make(2, 3), dtype=ad.complex128, name="complex")


@sampler("view.dtype", "view_copy.dtype")
def dtypes_to_read_as(make: Any) -> Samples:
    yield Sample(make(2, 4), ad.uint8, name="bytes")
    yield Sample(make(4, 2).t(), make.dtype, name="same")


@sampler("_efficientzerotensor")
def sizes_of_zeros(make: Any) -> Samples:
    yield Sample((2, 3), name="plain")


@sampler("_new_zeros_with_same_feature_meta")
def batches_of_zeros(make: Any) -> Samples:
    yield Sample(make(2, 3), make(4), self_num_batch_dims=1, name="plain")


@sampler("imag", "view_as_real", "view_as_real_copy")
def complex_numbers(make: Any) -> Samples:
    if make.is_complex:
        yield Sample(make(2, 3), name="plain")
        yield Sample(make(3, 2).t(), name="transposed")
        yield Sample(make(), name="0-d")
        yield Sample(make(0, 2), name="empty")


@sampler("view_as_complex", "view_as_complex_copy", real=True)
def pairs(make: Any) -> Samples:
    yield Sample(make(3, 2), name="plain")
    yield Sample(make(3, 4, 2).transpose(0, 1), name="transposed")
    yield Sample(make(2), name="to 0-d")
    yield Sample(make(0, 2), name="empty")


@sampler("complex", "polar", real=True)
def real_pairs(make: Any) -> Samples:
    yield Sample(make(2, 3), make(2, 3), name="plain")
    yield Sample(make(3, 1), make(2, 1, 2), name="broadcast")
    yield Sample(make(3, 2).t(), make(), name="0-d imag")
    yield Sample(make(0, 2), make(2), name="empty")


@sampler("polar", real=True)
def at_the_origin(make: Any) -> Samples:
    yield Sample(make.like([0.0, 1.0]), make(2), name="abs of 0")

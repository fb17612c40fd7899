"""Kernels that read and write parts of arrays: views, gather and scatter, index arrays, masks.

All bounds are checked before anything is read or written, and writes that meet in one place are
made in the order of the source (C order), so that the last one wins, always.
"""

from __future__ import annotations

from adjoint.kernels.indexing.advanced import (
    index,
    index_backward,
    index_put,
    index_winners,
    put,
    take,
)
from adjoint.kernels.indexing.dimension import (
    index_add,
    index_copy,
    index_fill,
    index_fill_tensor,
    index_select,
    index_select_backward,
)
from adjoint.kernels.indexing.masked import (
    masked_fill,
    masked_fill_tensor,
    masked_scatter,
    masked_scatter_backward,
    masked_select,
    nonzero,
    nonzero_static,
    one_hot,
    trusted,
    where,
    where_scalars,
)
from adjoint.kernels.indexing.scatter import (
    gather,
    gather_backward,
    scatter_add,
    scatter_reduce,
    scatter_src,
    scatter_value,
    scatter_winners,
)
from adjoint.kernels.indexing.views import (
    as_strided,
    as_strided_scatter,
    diagonal,
    diagonal_backward,
    diagonal_scatter,
    select,
    select_backward,
    select_scatter,
    slice_,
    slice_backward,
    slice_inverse,
    slice_scatter,
)

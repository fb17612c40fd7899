"""Reading and writing parts of tensors under vmap.

`along`: gather gets the batch as one more dimension of all its tensors. `lists`: if all samples
share the index tensors, the batch is a whole slice; otherwise the number of the sample is one more
index. `values`: results whose size depends on values are refused. `views`: slices, diagonals,
strides.
"""

from __future__ import annotations

from adjoint.batching.indexing.along import (
    gather,
    gather_backward,
    index_add,
    index_copy,
    index_select,
    index_select_backward,
)
from adjoint.batching.indexing.lists import index, index_backward, index_put, index_winners
from adjoint.batching.indexing.values import masked_select, nonzero, nonzero_static
from adjoint.batching.indexing.views import (
    as_strided,
    as_strided_scatter,
    placed,
    slice_inverse,
)

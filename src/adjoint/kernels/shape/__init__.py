"""Kernels of the shape family: views of memory, and operators that move values without computing.

`views` holds the kernels whose result shares memory with the input, `copies` those that make a new
array, `casts` changes of dtype and complex numbers.
"""

from adjoint.kernels.shape.casts import (
    complex_,
    conj,
    conj_physical,
    copy,
    fill,
    imag,
    polar,
    real,
    to_copy,
    view_as_complex,
    view_as_real,
    view_dtype,
)
from adjoint.kernels.shape.copies import (
    block_diag,
    cat,
    clone,
    combinations,
    diag_embed,
    flip,
    repeat,
    repeat_interleave,
    reshape_copy,
    roll,
    rot90,
    stack,
    tril,
    triu,
    unfold_backward,
    unsafe_split,
    unsafe_split_with_sizes,
    zeros,
)
from adjoint.kernels.shape.views import (
    alias,
    expand,
    permute,
    reshape,
    reshape_alias,
    split,
    split_with_sizes,
    squeeze,
    squeeze_dim,
    squeeze_dims,
    t,
    transpose,
    unbind,
    unfold,
    unsqueeze,
    view,
)

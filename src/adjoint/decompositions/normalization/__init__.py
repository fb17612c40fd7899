"""Normalizations in terms of smaller operators; float16 and bfloat16 are computed in float32.

`layers` go over the last dimensions, `batches` over samples, `groups` over channels.
"""

from adjoint.decompositions.normalization.batches import (
    batch_norm,
    batch_norm_functional,
    batch_normalized,
    batch_normalized_backward,
    instance_norm,
    native_batch_norm,
    native_batch_norm_backward,
    no_update,
    with_reserve,
    with_update,
    with_update_functional,
)
from adjoint.decompositions.normalization.groups import (
    group_norm,
    native_group_norm,
    native_group_norm_backward,
    norm_except_dim,
    weight_norm,
)
from adjoint.decompositions.normalization.layers import (
    fused_rms_norm,
    fused_rms_norm_backward,
    layer_norm_backward,
    layer_norm_input_backward,
    native_layer_norm,
    native_layer_norm_backward,
    rms_norm_backward,
    standardized,
)

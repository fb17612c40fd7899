"""Attention in terms of smaller operators.

`scores` holds all scores at once, `products` PyTorch's names of scaled dot product attention,
`sequences` its names for packed sequences, `layers` whole layers.
"""

from adjoint.decompositions.attention.layers import (
    native_multi_head_attention,
    transform_bias_rescale_qkv,
)
from adjoint.decompositions.attention.products import (
    attention_math,
    efficient,
    efficient_backward,
    flash,
    flash_backward,
    flash_for_cpu,
    flash_for_cpu_backward,
    fused_sdp_choice,
    overrideable,
    scaled_dot_product_attention,
)
from adjoint.decompositions.attention.scores import attention, attention_backward
from adjoint.decompositions.attention.sequences import (
    cudnn_sequences,
    cudnn_sequences_backward,
    efficient_sequences,
    efficient_sequences_backward,
    flash_sequences,
    flash_sequences_backward,
)

"""`ad.nn.functional`: PyTorch's functions of neural networks.

Where PyTorch's Python signature is that of the operator, the operator itself is found by name; the
other signatures are here, by topic, and each ends in operators.

    >>> import adjoint as ad
    >>> ad.nn.functional.softmax(ad.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
"""

from __future__ import annotations

from typing import Any

from adjoint.checks.resampling import INTERPOLATIONS as GRID_SAMPLE_INTERPOLATION_MODES
from adjoint.checks.resampling import PADDINGS as GRID_SAMPLE_PADDING_MODES
from adjoint.core.errors import MissingOperator
from adjoint.nn import grad
from adjoint.nn.functional.activations import (
    celu,
    elu,
    gumbel_softmax,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    relu,
    relu6,
    rrelu,
    selu,
    silu,
    softmax,
    softmin,
    softsign,
    tanhshrink,
    threshold,
)
from adjoint.nn.functional.attention import multi_head_attention_forward
from adjoint.nn.functional.convolutions import fold, unfold
from adjoint.nn.functional.dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from adjoint.nn.functional.embeddings import embedding, embedding_bag
from adjoint.nn.functional.linear_losses import linear_cross_entropy
from adjoint.nn.functional.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from adjoint.nn.functional.normalizations import (
    batch_norm,
    group_norm,
    instance_norm,
    local_response_norm,
)
from adjoint.nn.functional.poolings import (
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from adjoint.nn.functional.resampling import (
    affine_grid,
    grid_sample,
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from adjoint.nn.functional.vectors import grouped_mm, normalize
from adjoint.ops.operator import exists, packet

# Operators whose signature is PyTorch's in Python, too.
SAME = frozenset((
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "gelu", "glu",
    "hardshrink", "layer_norm", "linear", "native_channel_shuffle", "one_hot", "pad",
    "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm",
    "scaled_dot_product_attention", "sigmoid", "softplus", "softshrink", "tanh",
))  # fmt: skip
INPLACE = frozenset((
    "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_",
))  # fmt: skip

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout",
    "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "cosine_embedding_loss", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "embedding", "embedding_bag", "feature_alpha_dropout", "fold",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "grid_sample", "group_norm",
    "grouped_mm", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "leaky_relu",
    "linear_cross_entropy", "local_response_norm", "log_softmax", "logsigmoid", "lp_pool1d",
    "lp_pool2d", "lp_pool3d",
    "margin_ranking_loss", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss",
    "normalize", "poisson_nll_loss", "relu", "relu6", "rrelu", "selu", "silu", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softsign", "tanhshrink", "threshold",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if (name in SAME or name in INPLACE) and exists(name):
        function = globals()[name] = packet(name).function
        return function
    raise MissingOperator(f"adjoint.nn.functional has no {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(n for n in (*SAME, *INPLACE) if exists(n))})

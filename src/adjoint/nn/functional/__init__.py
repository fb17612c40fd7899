"""`ad.nn.functional`: PyTorch's functions of neural networks.

Where PyTorch's Python signature is that of the operator, the operator itself is found by name; the
other signatures are here, by topic, and each ends in operators.

    >>> import adjoint as ad
    >>> ad.nn.functional.softmax(ad.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
"""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import MissingOperator
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
from adjoint.nn.functional.dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from adjoint.nn.functional.losses import cross_entropy, l1_loss, mse_loss, nll_loss
from adjoint.nn.functional.vectors import normalize
from adjoint.ops.operator import exists, packet

# Operators whose signature is PyTorch's in Python, too.
SAME = frozenset((
    "bilinear", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "gelu", "glu", "hardshrink",
    "layer_norm", "linear", "native_channel_shuffle", "one_hot", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "sigmoid", "softplus", "softshrink",
    "tanh",
))  # fmt: skip
INPLACE = frozenset((
    "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_",
))  # fmt: skip

__all__ = [
    "alpha_dropout", "celu", "cross_entropy", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "elu", "feature_alpha_dropout", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh",
    "l1_loss", "leaky_relu", "log_softmax", "logsigmoid", "mish", "mse_loss", "nll_loss",
    "normalize", "relu", "relu6", "rrelu", "selu", "silu", "softmax", "softmin", "softsign",
    "tanhshrink", "threshold",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if (name in SAME or name in INPLACE) and exists(name):
        function = globals()[name] = packet(name).function
        return function
    raise MissingOperator(f"adjoint.nn.functional has no {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(n for n in (*SAME, *INPLACE) if exists(n))})

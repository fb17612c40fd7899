"""`ad.nn.utils`: helpers of neural networks, under PyTorch's names.

What works on modules is imported when asked for, as modules themselves are (`nn/__init__.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.errors import did_you_mean
from adjoint.core.importing import imported
from adjoint.nn.utils import rnn

if TYPE_CHECKING:
    from adjoint.nn.utils import parametrizations, parametrize, prune, stateless
    from adjoint.nn.utils.clip_grad import (
        clip_grad_norm,
        clip_grad_norm_,
        clip_grad_value_,
        clip_grads_with_norm_,
        get_total_norm,
    )
    from adjoint.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
    from adjoint.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from adjoint.nn.utils.init import skip_init
    from adjoint.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format,
    )
    from adjoint.nn.utils.spectral_norms import remove_spectral_norm, spectral_norm
    from adjoint.nn.utils.weight_norms import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

_FILES = (
    "clip_grad",
    "convert_parameters",
    "fusion",
    "parametrizations",
    "parametrize",
    "prune",
    "stateless",
)
_HOMES = {  # the file of each function
    "clip_grad": (
        "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
        "get_total_norm",
    ),
    "convert_parameters": ("parameters_to_vector", "vector_to_parameters"),
    "fusion": (
        "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
        "fuse_linear_bn_weights",
    ),
    "init": ("skip_init",),
    "memory_format": (
        "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    ),
    "spectral_norms": ("remove_spectral_norm", "spectral_norm"),
    "weight_norms": ("remove_weight_norm", "weight_norm"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return imported(f"adjoint.nn.utils.{name}")
    home = next((file for file, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"adjoint.nn.utils has no {name!r}{did_you_mean(name, __all__)}")
    found = getattr(imported(f"adjoint.nn.utils.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

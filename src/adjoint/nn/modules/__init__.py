"""`ad.nn.modules`: the base of all modules, containers, and the layers, a file for each family.

A file says in `__all__` what it exports; a new file is one line in each list here, and its names
are in `ad.nn` then.
"""

from __future__ import annotations

from adjoint.nn.modules import (
    activation,
    adaptive,
    batchnorm,
    channelshuffle,
    containers,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    parallel,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
    utils,
)
from adjoint.nn.modules.activation import *  # noqa: F403
from adjoint.nn.modules.adaptive import *  # noqa: F403
from adjoint.nn.modules.batchnorm import *  # noqa: F403
from adjoint.nn.modules.channelshuffle import *  # noqa: F403
from adjoint.nn.modules.containers import *  # noqa: F403
from adjoint.nn.modules.conv import *  # noqa: F403
from adjoint.nn.modules.distance import *  # noqa: F403
from adjoint.nn.modules.dropout import *  # noqa: F403
from adjoint.nn.modules.flatten import *  # noqa: F403
from adjoint.nn.modules.fold import *  # noqa: F403
from adjoint.nn.modules.instancenorm import *  # noqa: F403
from adjoint.nn.modules.lazy import *  # noqa: F403
from adjoint.nn.modules.linear import *  # noqa: F403
from adjoint.nn.modules.loss import *  # noqa: F403
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.normalization import *  # noqa: F403
from adjoint.nn.modules.padding import *  # noqa: F403
from adjoint.nn.modules.parallel import *  # noqa: F403
from adjoint.nn.modules.pixelshuffle import *  # noqa: F403
from adjoint.nn.modules.pooling import *  # noqa: F403
from adjoint.nn.modules.rnn import *  # noqa: F403
from adjoint.nn.modules.sparse import *  # noqa: F403
from adjoint.nn.modules.transformer import *  # noqa: F403
from adjoint.nn.modules.upsampling import *  # noqa: F403
from adjoint.nn.modules.utils import factory_kwargs

__all__ = ["Module", "factory_kwargs"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += batchnorm.__all__
__all__ += channelshuffle.__all__
__all__ += containers.__all__
container = containers  # PyTorch's name
__all__ += conv.__all__
__all__ += distance.__all__
__all__ += dropout.__all__
__all__ += flatten.__all__
__all__ += fold.__all__
__all__ += instancenorm.__all__
__all__ += lazy.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += parallel.__all__
__all__ += pixelshuffle.__all__
__all__ += pooling.__all__
__all__ += rnn.__all__
__all__ += sparse.__all__
__all__ += transformer.__all__
__all__ += upsampling.__all__

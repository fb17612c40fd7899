"""`ad.nn.modules`: the base of all modules, containers, and the layers, a file for each family.

A file says in `__all__` what it exports; a new file is one line in each list here, and its names
are in `ad.nn` then.
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
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
from adjoint.nn.modules.adaptive import *  # noqa: F403
from adjoint.nn.modules.containers import *  # noqa: F403
from adjoint.nn.modules.lazy import *  # noqa: F403
from adjoint.nn.modules.linear import *  # noqa: F403
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.parallel import *  # noqa: F403
from adjoint.nn.modules.sparse import *  # noqa: F403
from adjoint.nn.modules.transformer import *  # noqa: F403
from adjoint.nn.modules.utils import factory_kwargs

__all__ = ["Module", "factory_kwargs"]
__all__ += adaptive.__all__
__all__ += containers.__all__
container = containers  # PyTorch's name
__all__ += lazy.__all__
__all__ += linear.__all__
__all__ += parallel.__all__
__all__ += sparse.__all__
__all__ += transformer.__all__
_MADE = {  # classes that are made when they are asked for
    name: file
    for file in (
        *(activation, batchnorm, channelshuffle, conv, distance, dropout, flatten, fold),
        *(instancenorm, loss, normalization, padding, pixelshuffle, pooling, rnn, upsampling),
    )
    for name in file.__all__
}
__all__ += list(_MADE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MADE:
        raise absent(__name__, name, __all__)
    globals()[name] = found = getattr(_MADE[name], name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MADE})

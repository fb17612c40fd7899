"""`ad.nn.functional`: PyTorch's functions of neural networks.

They are rows of doors/torch/functional.txt, compiled when first asked for. The files here have the
words of the rows, and the functions that are longer than an expression.

    >>> import adjoint as ad
    >>> ad.nn.functional.softmax(ad.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
"""

from __future__ import annotations

from adjoint.checks.resampling import INTERPOLATIONS as GRID_SAMPLE_INTERPOLATION_MODES
from adjoint.checks.resampling import PADDINGS as GRID_SAMPLE_PADDING_MODES
from adjoint.doors.torch import all_of
from adjoint.nn import grad
from adjoint.nn.functional import (
    activations,
    attention,
    dropouts,
    embeddings,
    linear_losses,
    losses,
    normalizations,
    poolings,
    resampling,
)
from adjoint.nn.functional.poolings import Sizes as Sizes  # in signatures

_TOPICS = (
    *(activations, attention, dropouts, embeddings, linear_losses, losses, normalizations),
    *(poolings, resampling),
)
_WORDS = {name: word for topic in _TOPICS for name, word in vars(topic).items()}

__getattr__, __dir__ = all_of(globals(), "functional.txt", _WORDS)

"""`ad.optim`: optimisers of parameters, under PyTorch's names and with its state dicts.

Most are one formula (formulas.py), which runs on arrays, on tensors and compiled. `lr_scheduler`
changes learning rates from epoch to epoch, `swa_utils` averages models, and `compiled_step` makes
one native program of a whole training step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.errors import did_you_mean
from adjoint.core.importing import imported
from adjoint.optim import lr_scheduler
from adjoint.optim.adadelta import Adadelta
from adjoint.optim.adafactor import Adafactor
from adjoint.optim.adagrad import Adagrad
from adjoint.optim.adam import Adam, AdamW
from adjoint.optim.adamax import Adamax
from adjoint.optim.asgd import ASGD
from adjoint.optim.lbfgs import LBFGS
from adjoint.optim.muon import Muon
from adjoint.optim.nadam import NAdam
from adjoint.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from adjoint.optim.radam import RAdam
from adjoint.optim.rmsprop import RMSprop
from adjoint.optim.rprop import Rprop
from adjoint.optim.sgd import SGD
from adjoint.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "CompiledStep",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "compiled_step",
    "lr_scheduler",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "swa_utils",
]

if TYPE_CHECKING:
    from adjoint.optim import swa_utils
    from adjoint.optim.compiled import CompiledStep, compiled_step

# What needs modules or the compiler is imported when it is first asked for.
_LATER = {
    "CompiledStep": "adjoint.optim.compiled",
    "compiled_step": "adjoint.optim.compiled",
}


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return imported("adjoint.optim.swa_utils")
    if name not in _LATER:
        raise AttributeError(f"adjoint.optim has no {name!r}{did_you_mean(name, __all__)}")
    return getattr(imported(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""`ad.autograd`: gradients and backward, forward mode, users' own functions, hooks, checks."""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.autograd import forward_ad, grad_mode, graph
from adjoint.calls import function
from adjoint.calls.function import Function, FunctionContext, once_differentiable
from adjoint.calls.gradients import backward, grad
from adjoint.core.importing import imported
from adjoint.legacy import Variable
from adjoint.tape.saved import SavedTensor
from adjoint.tensor.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)

__all__ = [
    "Function",
    "FunctionContext",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "grad",
    "grad_mode",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]

graph.Node.register(FunctionContext)  # it stands for the node in forward and backward


# What is a user of this module itself is fetched when it is asked for.
_LATE = dict.fromkeys(("GradcheckError", "gradcheck", "gradgradcheck"), "adjoint.testing")


def __getattr__(name: str) -> Any:
    if name == "functional":
        return imported("adjoint.autograd.functional")
    if name not in _LATE:
        raise absent("adjoint.autograd", name, __dir__())
    return getattr(imported(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATE, "functional"})

"""`ad.func`: the transforms under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.absent import absent
from adjoint.transforms import arguments
from adjoint.transforms.jacobians import hessian, jacfwd, jacrev, jvp, linearize
from adjoint.transforms.reverse import grad as grad
from adjoint.transforms.reverse import value_and_grad, vjp
from adjoint.transforms.stateless import functional_call, stack_module_state
from adjoint.transforms.vectorize import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]


def grad_and_value(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `value_and_grad`, the gradient first."""
    both = value_and_grad(f, argnums, has_aux)

    def compute(*args: Any, **keywords: Any) -> Any:
        value, gradient = both(*args, **keywords)
        return gradient, value

    return arguments.keeps_signature(f, compute, "grad_and_value")


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)

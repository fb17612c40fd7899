"""`ad.func`: the transforms under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.absent import absent
from adjoint.transforms.jacobians import hessian, jacfwd, jacrev, jvp, linearize
from adjoint.transforms.reverse import grad as grad
from adjoint.transforms.reverse import value_and_grad, vjp
from adjoint.transforms.stateless import functional_call, stack_module_state
from adjoint.transforms.transformed import Transformed
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
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]


def grad_and_value(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `value_and_grad`, the gradient first.

    >>> import adjoint as ad
    >>> ad.func.grad_and_value(lambda x: (x**2).sum())(ad.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    both = value_and_grad(f, argnums, has_aux)

    def compute(*args: Any, **keywords: Any) -> Any:
        value, gradient = both(*args, **keywords)
        return gradient, value

    return Transformed(grad_and_value, f, compute, argnums=argnums, has_aux=has_aux)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let the batch norms of a module keep no running statistics, in place: vmap cannot write them.

    >>> import adjoint as ad
    >>> model = ad.nn.Sequential(ad.nn.BatchNorm1d(3))
    >>> ad.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    for module in root.modules():
        if hasattr(module, "num_batches_tracked") and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)

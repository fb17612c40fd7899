"""`ad.func`: the transforms under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.transforms import arguments
from adjoint.transforms.jacobians import hessian, jacfwd, jacrev, jvp, linearize
from adjoint.transforms.reverse import grad as grad
from adjoint.transforms.reverse import value_and_grad, vjp
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


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call `module` with other values for its named parameters, and put the old ones back.

    A parameter is named by its path of attributes, items of lists and keys of dicts:
    'layers.0.weight'. The module is anything callable that holds tensors.

    >>> import adjoint as ad
    >>> class Scale:
    ...     def __init__(self): self.factor = ad.tensor(2.0)
    ...     def __call__(self, x): return self.factor * x
    >>> scale = Scale()
    >>> f = lambda parameters: ad.func.functional_call(scale, parameters, ad.tensor(3.0))
    >>> ad.grad(f)({"factor": ad.tensor(5.0)})
    {'factor': tensor(3.)}
    """
    args = args if isinstance(args, tuple) else (args,)
    several = isinstance(parameter_and_buffer_dicts, (tuple, list))
    dicts = parameter_and_buffer_dicts if several else (parameter_and_buffer_dicts,)
    before: list[tuple[Any, Any, Any]] = []
    try:
        for path, value in (item for parameters in dicts for item in parameters.items()):
            owner, key = _find(module, path)
            before.append((owner, key, _get(owner, key)))
            _set(owner, key, value)
        return module(*args, **(kwargs or {}))
    finally:
        for owner, key, value in reversed(before):
            _set(owner, key, value)


def _find(module: Any, path: str) -> tuple[Any, Any]:
    *steps, last = path.split(".")
    owner = module
    try:
        for step in steps:
            owner = _get(owner, _key(owner, step))
        key = _key(owner, last)
        _get(owner, key)
    except (AttributeError, LookupError, ValueError):
        raise ArgumentError(f"functional_call: the module has no parameter {path!r}") from None
    return owner, key


def _key(owner: Any, step: str) -> Any:
    return int(step) if isinstance(owner, (list, tuple)) else step


def _get(owner: Any, key: Any) -> Any:
    return owner[key] if isinstance(owner, (list, tuple, dict)) else getattr(owner, key)


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, tuple):
        raise ArgumentError(
            f"functional_call: item {key} of a tuple cannot be replaced; hold parameters in a list"
        )
    if isinstance(owner, (list, dict)):
        owner[key] = value
    else:
        setattr(owner, key, value)

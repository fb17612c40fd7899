"""Length and direction of a weight apart, by a hook; PyTorch's earlier form of it."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import HookError, ValueRangeError
from adjoint.core.source_lines import warn
from adjoint.nn.modules.hooks import hooks_before
from adjoint.nn.parameter import NoShapeYet, Parameter, is_lazy

__all__ = ["remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: before each forward, w = g v / ‖v‖."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """Return the weight of a module's length and direction."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return ops._weight_norm(v, g, self.dim)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def find_hook(module: Any, kind: type, name: str) -> int | None:
    """The number of a hook of a kind that computes a tensor of that name, or None."""
    hooks: Any = hooks_before(module).items()
    return next((n for n, hook in hooks if isinstance(hook, kind) and hook.name == name), None)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """As `nn.utils.parametrizations.weight_norm`, by a hook before forward; use that one.

    The module gets the parameters `weight_g` and `weight_v`.
    """
    warn("nn.utils.weight_norm is now nn.utils.parametrizations.weight_norm", FutureWarning)
    if find_hook(module, WeightNorm, name) is not None:
        raise HookError(f"weight_norm: {name!r} has a weight norm already")
    weight = getattr(module, name)
    if is_lazy(weight):
        raise NoShapeYet("weight_norm: the module has uninitialized parameters; call it once")
    hook = WeightNorm(name, dim)
    del module._parameters[name]
    length = ops.norm_except_dim(weight.detach(), 2, hook.dim)
    module.register_parameter(f"{name}_g", Parameter(length))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary parameter again."""
    number = find_hook(module, WeightNorm, name)
    if number is None:
        raise ValueRangeError(f"remove_weight_norm: {name!r} of {module} has no weight norm")
    weight = module._forward_pre_hooks.pop(number).compute_weight(module)
    for attribute in (name, f"{name}_g", f"{name}_v"):
        delattr(module, attribute)
    setattr(module, name, Parameter(weight.detach()))
    return module

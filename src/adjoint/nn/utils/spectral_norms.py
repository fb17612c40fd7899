"""Weights divided by their largest singular value, by a hook; PyTorch's earlier form of it."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import HookError, ValueRangeError
from adjoint.nn.functional import normalize
from adjoint.nn.parameter import NoShapeYet, Parameter, is_lazy
from adjoint.nn.utils.parametrizations import as_matrix, outputs_dimension
from adjoint.nn.utils.weight_norms import find_hook
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = ["remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: before each forward, w / σ(w), where σ is estimated by power iterations."""

    _version = 1  # of the state; 0 had no v

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueRangeError(
                f"spectral_norm: n_power_iterations is 1 or more, got {n_power_iterations}"
            )
        self.name, self.dim = name, dim
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """Return the weight of norm 1; u and v get nearer to the singular vectors."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(matrix.mH @ u, dim=0, eps=self.eps))
                    u.copy_(normalize(matrix @ v, dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # later calls change them, backward needs these
        return weight / ops.dot(u, matrix @ v)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def save(self, module: Any, state_dict: Any, prefix: str, metadata: dict[str, Any]) -> None:
        """Note the version of the state."""
        metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = self._version

    @no_grad()
    def load(self, state_dict: Any, prefix: str, metadata: dict[str, Any], *_: Any) -> None:
        """Find v for a state of version 0, which has the divided weight instead."""
        version = metadata.get("spectral_norm", {}).get(f"{self.name}.version")
        key = prefix + self.name
        keys = (key, f"{key}_orig", f"{key}_u")
        if (version or 0) >= 1 or any(k not in state_dict for k in keys):
            return
        divided, weight, u = state_dict.pop(key), state_dict[keys[1]], state_dict[keys[2]]
        matrix = as_matrix(weight, self.dim)
        v = ops.pinverse(matrix.mH @ matrix) @ (matrix.mH @ u)
        sigma = (weight / divided).mean()
        state_dict[f"{key}_v"] = v * (sigma / ops.dot(u, matrix @ v))


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """As `nn.utils.parametrizations.spectral_norm`, by a hook before forward; use that one.

    The module gets the parameter `weight_orig` and the buffers `weight_u` and `weight_v`.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.spectral_norm(ad.nn.Linear(2, 3))
    >>> sorted(dict(layer.named_parameters()))
    ['bias', 'weight_orig']
    """
    if find_hook(module, SpectralNorm, name) is not None:
        raise HookError(f"spectral_norm: {name!r} has a spectral norm already")
    hook = SpectralNorm(name, n_power_iterations, outputs_dimension(module) if dim is None else dim,
                        eps)  # fmt: skip
    weight = module._parameters[name]
    if weight is None:
        raise ValueRangeError(f"spectral_norm: the parameter {name!r} is None")
    if is_lazy(weight):
        raise NoShapeYet(
            "spectral_norm: the module has uninitialized parameters; call it once before"
        )
    matrix = as_matrix(weight.detach(), hook.dim)
    drawn = [
        normalize(weight.detach().new_empty((n,)).normal_(0, 1), dim=0, eps=eps)
        for n in matrix.shape
    ]
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    for part, vector in zip("uv", drawn, strict=True):
        module.register_buffer(f"{name}_{part}", vector)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(hook.save)
    module._register_load_state_dict_pre_hook(hook.load)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight an ordinary parameter again, of norm 1 as it is estimated.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.spectral_norm(ad.nn.Linear(2, 3))
    >>> ad.nn.utils.remove_spectral_norm(layer)
    Linear(in_features=2, out_features=3, bias=True)
    """
    number = find_hook(module, SpectralNorm, name)
    if number is None:
        raise ValueRangeError(f"remove_spectral_norm: {name!r} of {module} has no spectral norm")
    hook = module._forward_pre_hooks.pop(number)
    with no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    for attribute in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight.detach()))
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number in [n for n, h in hooks.items() if getattr(h, "__self__", None) is hook]:
            del hooks[number]
    return module

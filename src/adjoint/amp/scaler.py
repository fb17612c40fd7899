"""Scaled gradients: small ones stay above the smallest number of float16.

The loss is multiplied by a large scale before `backward`, gradients are divided by it before the
optimiser's step, and a step with infinities or NaN is left out. The scale shrinks after such a
step and grows after many without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.core import pytrees
from adjoint.core.devices import COUNTS, Device
from adjoint.core.dtypes import float16
from adjoint.core.errors import AdjointError, ArgumentError, DtypeError
from adjoint.core.source_lines import warn
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"  # what was done for an optimiser


class ScalerError(AdjointError, RuntimeError):
    """Methods of a GradScaler called in an order that has no meaning."""


class GradScaler:
    """Scales losses and unscales gradients, and leaves out steps that overflowed.

    On the CPU, bfloat16 needs no scaler; float16 does. A scaler for a device that is not there
    warns and does nothing, so that programs for several machines run unchanged.

    >>> import adjoint as ad
    >>> w = ad.tensor([1.0], requires_grad=True)
    >>> scaler = ad.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale((w * 3).sum()).backward()
    >>> w.grad, scaler.get_scale()
    (tensor([12.]), 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = Device(device).type
        self._enabled = enabled
        if enabled and not COUNTS[self._device]:
            warn(f"GradScaler: there is no device {device!r} here; the scaler does nothing")
            self._enabled = False
        if self._enabled and not (growth_factor > 1.0 > backoff_factor):
            raise ArgumentError(
                "GradScaler: growth_factor must be above 1 and backoff_factor below, got "
                f"{growth_factor} and {backoff_factor}"
            )
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, str] = {}  # by the address of the optimiser, since the last update
        self._overflowed: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each tensor of a list, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if not isinstance(outputs, (Tensor, list, tuple, Iterator)):
            raise ArgumentError(
                f"GradScaler.scale takes tensors and lists of them, got {type(outputs).__name__}"
            )
        if isinstance(outputs, Iterator):
            outputs = list(outputs)
        return pytrees.map(lambda output: output * self._scale, outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, once before its step."""
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), READY)
        if stage != READY:
            raise ScalerError(
                "GradScaler.unscale_: the gradients of this optimiser were "
                f"{stage} since the last update()"
            )
        self._overflowed[id(optimizer)] = self._unscale(optimizer)
        self._stages[id(optimizer)] = UNSCALED

    @no_grad()
    def _unscale(self, optimizer: Any) -> bool:
        """Divide the gradients, and say whether one is infinite or NaN."""
        gradients = [
            p.grad._values() if p.grad.is_sparse else p.grad
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        if any(g.dtype is float16 for g in gradients):
            raise DtypeError(
                "GradScaler.unscale_: gradients of float16 cannot be unscaled; keep parameters in "
                "float32, and let autocast choose what is computed in float16"
            )
        for gradient in gradients:
            gradient.mul_(1.0 / self._scale)
        return any(not gradient.isfinite().all().item() for gradient in gradients)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale if that was not done, and call `optimizer.step`, unless a gradient overflowed."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ScalerError(
                "GradScaler.step: a closure would compute gradients that nobody unscales; call "
                "step() without one"
            )
        if self._stages.get(id(optimizer)) == STEPPED:
            raise ScalerError("GradScaler.step: called twice since the last update()")
        if self._stages.get(id(optimizer), READY) == READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = STEPPED
        return None if self._overflowed[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the scale after an overflow, let it grow after many steps without, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._overflowed:
            raise ScalerError("GradScaler.update: no gradients were unscaled since the last update")
        elif any(self._overflowed.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._stages, self._overflowed = {}, {}

    def get_scale(self) -> float:
        """Return the scale, 1.0 for a scaler that does nothing."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return what the scale is multiplied by after `growth_interval` good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after `growth_interval` good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of good steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of good steps after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors and interval under PyTorch's names; nothing if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise ScalerError(
                "GradScaler.load_state_dict: the state is empty; was it saved by a scaler that was "
                "not enabled?"
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = int(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise ScalerError("a GradScaler can be pickled after update(), not between steps")
        return vars(self).copy()

"""`ad.cuda.amp`: mixed precision under its old names, for a device that is not here."""

from __future__ import annotations

import functools
from typing import Any

from adjoint import amp
from adjoint.core.dtypes import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")


class autocast(amp.autocast):  # noqa: N801 - PyTorch's name
    """`ad.autocast("cuda")` by its old name."""

    def __init__(
        self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
        self.given = (enabled, dtype, cache_enabled)


class GradScaler(amp.GradScaler):
    """`ad.amp.GradScaler("cuda")` by its old name."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )

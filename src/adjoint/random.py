"""`ad.random`: the default stream of random numbers, under the names of `torch.random`."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.core.generator import (
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)

"""`ad.random`: the default stream of random numbers, under the names of `torch.random`.

The functions of a key, those of `jax.random`, are in `adjoint/keys.py`.
"""

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
from adjoint.keys import (
    PRNGKey,
    bernoulli,
    bits,
    categorical,
    choice,
    exponential,
    fold_in,
    gumbel,
    key,
    normal,
    permutation,
    randint,
    split,
    uniform,
)

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "default_generator",
    "exponential",
    "fold_in",
    "fork_rng",
    "get_rng_state",
    "gumbel",
    "initial_seed",
    "key",
    "manual_seed",
    "normal",
    "permutation",
    "randint",
    "seed",
    "set_rng_state",
    "split",
    "uniform",
]


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)

"""Calling operators with the arguments of samples, and the small things around it."""

from __future__ import annotations

import os
import types
import warnings
import zlib
from typing import Any

import torch

from tests.oracle.difference import Disagreement
from tests.oracle.sampling import seed_generators

EVERYTHING = bool(os.environ.get("ORACLE_ALL"))


def seed(*words: str) -> None:
    """Seed every generator that sample functions use, from words."""
    seed_generators(zlib.crc32(" ".join(words).encode()))


def spread(samples: list[Any], limit: int) -> list[tuple[int, Any]]:
    """Choose at most `limit` samples, evenly, the first and last among them."""
    numbered = list(enumerate(samples))
    if (EVERYTHING and limit) or len(samples) <= limit:
        return numbered
    if limit < 2:
        return numbered[:limit]
    step = (len(samples) - 1) / (limit - 1)
    return [numbered[round(i * step)] for i in range(limit)]


def unseeded(function: Any) -> Any:
    """PyTorch's function without the fixed seed that OpInfo puts around random operators."""
    if (
        not isinstance(function, types.FunctionType)
        or "testing" not in function.__code__.co_filename
    ):
        return function
    names = dict(function.__globals__, wrapper_set_seed=lambda op, *a, **k: op(*a, **k))
    free = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    free.__kwdefaults__ = function.__kwdefaults__
    return free


def arguments_of(sample: Any) -> tuple[Any, Any, Any]:
    return sample.input, sample.args, sample.kwargs


def run_call(function: Any, arguments: Any) -> Any:
    first, args, kwargs = arguments
    return function(first, *args, **kwargs)


def run_inplace(method: Any, arguments: Any) -> Any:
    first, args, kwargs = arguments
    return method(first.clone(), *args, **kwargs)


def torch_copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return copy_storage(value.detach()) if value.layout == torch.strided else value.detach()
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, list | tuple):
        return type(value)([torch_copy(item) for item in value])
    if isinstance(value, dict):
        return {key: torch_copy(item) for key, item in value.items()}
    return value


def copy_storage(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides and the same memory around it (`as_strided` reaches there)."""
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        return tensor.clone()
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).clone()
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def no_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Warnings for the user are fine; those of NumPy (division by zero, ...) are not."""
    leaked = [w for w in caught if not issubclass(w.category, UserWarning)]
    if leaked:
        first = leaked[0]
        raise Disagreement(f"{first.category.__name__}: {first.message}")


def is_identity(function: Any) -> bool:
    marker = object()
    try:
        return function(marker) is marker
    except Exception:
        return False


def first_lines(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def not_random(state: torch.Tensor) -> bool:
    """Whether PyTorch's generator still has `state`: nothing was drawn since."""
    return torch.equal(torch.get_rng_state(), state)

"""What layers share: numbers for each dimension, new parameters, the parts of a repr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError
from adjoint.nn import init
from adjoint.nn.parameter import Parameter
from adjoint.tensor.tensor import Tensor


def each(n: int, x: Any) -> tuple[Any, ...]:
    """A number for each of n dimensions, of one for all; several stay as they are."""
    return tuple(x) if isinstance(x, Iterable) else (x,) * n


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes n equal numbers of one; several stay as they are."""

    def parse(x: Any) -> tuple[Any, ...]:
        return each(n, x)

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def new_parameter(*shape: int, device: Any, dtype: Any) -> Tensor:
    """A parameter whose values are still to be set."""
    return Parameter(ops.empty(shape, dtype=dtype, device=device))


_FACTORY = ("device", "dtype", "memory_format")  # keywords that say how tensors are made


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the keywords that say how tensors are made, of a layer's keywords, in one dict.

    They may stand there themselves, or in a dict named `factory_kwargs`; each of them once.

    >>> import adjoint as ad
    >>> ad.nn.factory_kwargs({"dtype": ad.float64, "factory_kwargs": {"device": "cpu"}})
    {'device': 'cpu', 'dtype': ad.float64}
    """
    given = dict(kwargs or {})
    found = dict(given.pop("factory_kwargs", {}))
    if unknown := sorted({*given, *found} - {*_FACTORY}):
        raise ArgumentError(f"factory_kwargs: unexpected {', '.join(unknown)}; use {_FACTORY}")
    if twice := sorted({*given} & {*found}):
        raise ArgumentError(f"factory_kwargs: {', '.join(twice)} is given twice")
    return found | given


def draw_linear(weight: Tensor, bias: Tensor | None) -> None:
    """Draw weight and bias of a linear map or convolution: uniform within 1/√(inputs of a unit)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        inputs, _ = init._calculate_fan_in_and_fan_out(weight)
        bound = 1 / math.sqrt(inputs) if inputs else 0
        init.uniform_(bias, -bound, bound)


def other_than(module: Any, **usual: Any) -> str:
    """The attributes of a module that differ from what they usually are, each as ", name=value"."""
    given = ((name, getattr(module, name), value) for name, value in usual.items())
    return "".join(f", {name}={value}" for name, value, default in given if value != default)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the keys of a state dict, as of a model saved by `DataParallel`.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in [key for key in metadata if key and f"{key}.".startswith(prefix)]:
            metadata[key.removeprefix(prefix[:-1]).removeprefix(".")] = metadata.pop(key)

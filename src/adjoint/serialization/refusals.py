"""What a file does not hold, said with what to do instead."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.homes.complex32 import HalfTensor
from adjoint.homes.sparse import SparseTensor
from adjoint.nn.parameter import is_lazy
from adjoint.tensor.tensor import Tensor

DEEPEST = 100  # how far the values of a file may be nested


class Unsaved(ArgumentError):
    """A value that cannot be written to a file."""


def refusal(path: Sequence[str], value: Any) -> Unsaved:
    """The error for a value, or for a fact about it in words, that stands at `path`."""
    where = "obj" + "".join(path)
    if type(value) is str:
        return Unsaved(f"ad.save: {where} {value}")
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return Unsaved(
        f"ad.save: {where} is a {kind}. Files hold data and no code: tensors, numbers, texts, "
        f"bytes, None, dtypes, devices, and dicts, lists, tuples, sets of those. {_advice(value)}"
    )


def brief(value: Any) -> str:
    """What a value of a file is, for a message. Never the `repr` of a container: a tuple that holds
    itself twice, twenty times over, has one of a million parts.
    """
    kind = type(value)
    if value is None or kind in (bool, float):
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"
    if kind in (str, bytes):
        return repr(value[:40]) + ("…" if len(value) > 40 else "")
    if kind in (list, tuple, dict, set, frozenset):
        return f"a {kind.__name__} of {len(value)}"
    return f"a {kind.__name__}"


def brief_shape(shape: Sequence[Any]) -> str:
    """Sizes, strides: whole numbers in the file, or what stands in their place."""
    shown = ", ".join(map(brief, shape[:8]))
    return f"({shown}{', …' if len(shape) > 8 else ''})"


def brief_error(error: BaseException) -> str:
    """An error that damaged data have led to; what it holds may be a value of the file."""
    shown = ", ".join(map(brief, error.args[:2]))
    return f"{type(error).__name__}({shown})"


def check_depth(path: Sequence[str]) -> None:
    """Raise for a value that is nested too deep."""
    if len(path) > DEEPEST:
        raise refusal(path[:3], f"is nested deeper than {DEEPEST} levels")


def check_tensor(path: Sequence[str], tensor: Any) -> None:
    """Raise for a tensor that has no memory, or that is of a class of the user's."""
    tensor.check_leaves("ad.save")
    if is_lazy(tensor):
        raise refusal(path, "has no shape yet; run the lazy module on an input first")
    if type(tensor) not in (Tensor, SparseTensor, HalfTensor):
        raise refusal(path, tensor)


def _advice(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.is_nested:
            return "Save its components: x.unbind()"
        return "Save it as an ordinary tensor: x.as_subclass(ad.Tensor), or x.to_dense()"
    if hasattr(value, "state_dict"):
        return "Save its state_dict(), and load_state_dict() it into a new one"
    if isinstance(value, type) or callable(value):
        return "Save its name, and look the name up after loading"
    if isinstance(value, enum.Enum):
        return "Save its value or its name"
    if dataclasses.is_dataclass(value):
        return "Save dataclasses.asdict(x)"
    if isinstance(value, dict):
        return "Save dict(x)"
    if isinstance(value, tuple):
        return "Save x._asdict()" if hasattr(value, "_asdict") else "Save tuple(x)"
    if hasattr(value, "get_state"):
        return "Save its get_state()"
    return "Convert it to these"

"""Arrays from users' data: numbers, nested lists, NumPy arrays, tensors inside lists.

Inference is PyTorch's: Python floats become the default dtype, integers int64, NumPy's values keep
their dtype, and a mixture is promoted. Lists of Python numbers take a short way through NumPy;
a list that fails there is walked again only to say where it is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.core import dtypes, promotion
from adjoint.core.dtypes import BOOL, COMPLEX, DEFAULT, INTEGER, DType
from adjoint.core.errors import ArgumentError, DtypeError, GradError, NumberRangeError, ShapeError
from adjoint.core.storage import without_subclass
from adjoint.ops import runtime

Array = np.ndarray[Any, Any]

_SEQUENCES = (list, tuple, range)
_PLAIN = frozenset((bool, int, float, complex))
_REFUSED = (str, bytes, dict, set, frozenset, type(None))


def tensor_from_data(data: Any, dtype: DType | None = None) -> Array:
    """Return a new array of `data`, of `dtype` or of the one that PyTorch would infer.

    >>> tensor_from_data([[1, 2.5], [3, 4]])
    array([[1. , 2.5],
           [3. , 4. ]], dtype=float32)
    """
    kind = type(data)
    if kind is np.ndarray:
        return _from_array(data, dtype)
    if kind in _PLAIN:
        return _from_plain(data, {kind}, dtype)
    if isinstance(data, _SEQUENCES):
        kinds = kinds_of(data)
        if kinds <= _PLAIN:
            return _from_plain(data, kinds, dtype)
        return _from_mixed(data, dtype)
    return _from_other(data, dtype)


def kinds_of(data: Any) -> set[type]:
    """The types of all leaves of nested lists.

    >>> sorted(kind.__name__ for kind in kinds_of([[1, 2.5], [3, 4]]))
    ['float', 'int']
    """
    if not isinstance(data, _SEQUENCES):
        return {type(data)}
    kinds: set[type] = set()
    _collect(data, kinds)
    return kinds


def _collect(data: Any, kinds: set[type]) -> None:
    """Add the types of all leaves to `kinds`."""
    found = set(map(type, data))
    if found.isdisjoint(_SEQUENCES):
        kinds |= found
        return
    for child in data:
        if isinstance(child, _SEQUENCES):
            _collect(child, kinds)
        else:
            kinds.add(type(child))


# --- Python numbers ---------------------------------------------------------------------------


def _from_plain(data: Any, kinds: set[type], dtype: DType | None) -> Array:
    inferred = _inferred(kinds)
    target = inferred if dtype is None else dtype
    if inferred.category == COMPLEX and target.category not in (BOOL, COMPLEX):
        raise DtypeError(f"tensor: complex numbers do not fit {target}; pass a complex dtype.")
    wide = _WIDE[inferred.category]
    try:
        values = np.array(data, dtype=wide)
    except OverflowError:
        return _from_large(data, target)
    except (ValueError, TypeError):
        raise _ragged(data) from None
    return _fit(values, target)


def _inferred(kinds: set[type]) -> DType:
    if complex in kinds:
        return DEFAULT.complex_dtype
    if float in kinds or not kinds:
        return DEFAULT.dtype
    return dtypes.int64 if int in kinds else dtypes.bool_


# Python's own precision for each category; narrowed to the wanted dtype afterwards.
_WIDE = (np.bool_, np.int64, np.float64, np.complex128)


def _from_large(data: Any, target: DType) -> Array:
    """Convert integers that int64 cannot hold: floats can, and uint64 some."""
    if target is dtypes.uint64:
        whole = np.array(data, dtype=object)
        _check_range(whole, target)
        return np.asarray(whole % 2**64, np.uint64)
    if target.category <= INTEGER:
        raise NumberRangeError(f"tensor: an integer does not fit {target}; pass a float dtype.")
    try:
        return _fit(np.array(data, dtype=object).astype(np.float64), target)
    except OverflowError:
        raise NumberRangeError(f"tensor: an integer is too large for {target}.") from None


def _fit(values: Array, target: DType) -> Array:
    """Return `values` as `target`; integers must fit, floats may become infinite."""
    if values.dtype == target.np:
        return values
    if target.category == INTEGER and values.size and values.dtype.kind != "b":
        _check_range(values, target)
        if values.dtype.kind == "f":
            values = values.astype(np.int64)
    return promotion.cast(values, target)


def _check_range(values: Array, target: DType) -> None:
    limits = dtypes.iinfo(target)
    low, high = values.min(), values.max()
    lowest = -limits.max if not target.is_signed else limits.min  # PyTorch: -1 is 255
    # A float compares with 2^63 - 1 as if it were 2^63, so the upper limit is exclusive.
    fits = low >= lowest and high < limits.max + 1
    if not fits:  # so does NaN
        worst = low if not low >= lowest else high
        raise NumberRangeError(
            f"tensor: the number {worst} does not fit {target}, "
            f"which goes from {limits.min} to {limits.max}."
        )


def _ragged(data: Any) -> Exception:
    """Return the error for nested lists that make no rectangle."""
    shape = []
    first = data
    while isinstance(first, _SEQUENCES):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    for path, found in _odd_ones(data, tuple(shape), "data"):
        return ShapeError(
            f"tensor: the nested lists are ragged: {path} {found}. All lists of one depth need "
            "the same length."
        )
    return ArgumentError("tensor: could not make a tensor of the data")


def _odd_ones(data: Any, shape: tuple[int, ...], path: str) -> Iterator[tuple[str, str]]:
    """Yield the places where `data` departs from `shape`."""
    nested = isinstance(data, _SEQUENCES)
    if not shape:
        if nested:
            yield path, "is a list where its neighbours are numbers"
        return
    if not nested:
        yield path, f"is a number where its neighbours are lists of {shape[0]}"
        return
    if len(data) != shape[0]:
        yield path, f"has {len(data)} elements where its neighbours have {shape[0]}"
        return
    for i, child in enumerate(data):
        yield from _odd_ones(child, shape[1:], f"{path}[{i}]")


# --- NumPy arrays and scalars, tensors in lists -----------------------------------------------


def _from_array(data: Array, dtype: DType | None) -> Array:
    if data.dtype.kind in "OUSMmT" or data.dtype.names:
        raise DtypeError(
            f"tensor: NumPy's dtype {data.dtype} holds no numbers; convert the array first."
        )
    target = dtypes.of(data.dtype) if dtype is None else dtype
    if data.dtype == target.np:
        return data.copy()
    return promotion.cast(data, target)


def _from_other(data: Any, dtype: DType | None) -> Array:
    if isinstance(data, runtime.Tensor):
        return _from_array(_value(data), dtype)
    if isinstance(data, np.ndarray):
        return _from_array(without_subclass(data), dtype)
    if isinstance(data, np.generic):
        return _from_array(np.asarray(data), dtype)
    if isinstance(data, tuple(_PLAIN)):  # IntEnum and other subclasses of Python's numbers
        kind: Any = next(k for k in (bool, int, float, complex) if isinstance(data, k))
        return _from_plain(kind(data), {kind}, dtype)
    if isinstance(data, _REFUSED) or not _converts(data):
        raise ArgumentError(_refusal("data", data))
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return _from_array(np.asarray(data), dtype)
    return tensor_from_data(list(data), dtype)


def _converts(data: Any) -> bool:
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return True
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _refusal(path: str, value: Any) -> str:
    shown = repr(value) if len(repr(value)) < 40 else f"a {type(value).__name__}"
    return (
        f"tensor: {path} is {shown}, which is no number; tensors are made from numbers, nested "
        "lists of numbers and arrays."
    )


def _value(tensor: Any) -> Array:
    """Return the array of a tensor whose values are copied, without their derivative."""
    if tensor.home is not None and tensor.home is not type(tensor).subclass_home:
        raise GradError(
            "tensor: copies numbers, and this tensor stands for a value that a transform follows; "
            "use ad.stack, or pass the tensor itself."
        )
    tensor.check_leaves("ad.tensor")
    if tensor.requires_grad:
        warnings.warn(
            "ad.tensor copies the values of tensors that require gradients, and the copy has none; "
            "use ad.stack to keep the gradients, or .detach() to say that none are wanted.",
            stacklevel=4,
        )
    return tensor.value


def is_followed(data: Any) -> bool:
    """Whether a list holds tensors that the tape or a transform follows."""
    if isinstance(data, runtime.Tensor):
        return data.edge is not None or data.home is not None
    if not isinstance(data, _SEQUENCES) or set(map(type, data)) <= _PLAIN:
        return False
    return any(map(is_followed, data))


def common_dtype(data: Any, dtype: DType | None) -> DType:
    """The dtype for `data`, a list with tensors: the given one, or the one that PyTorch infers."""
    return _target(_leaf_dtypes(data, "data"), dtype)


def _leaf_dtypes(data: Any, path: str) -> list[DType]:
    if not isinstance(data, _SEQUENCES):
        return [_leaf_dtype(data, path)]
    return [d for i, child in enumerate(data) for d in _leaf_dtypes(child, f"{path}[{i}]")]


def _leaf_dtype(leaf: Any, path: str) -> DType:
    if isinstance(leaf, runtime.Tensor):
        return leaf.dtype
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind not in "OUSMmT":
        return dtypes.of(leaf.dtype)
    kind = next((k for k in (bool, int, float, complex) if isinstance(leaf, k)), None)
    if kind is None:
        raise ArgumentError(_refusal(path, leaf))
    return _inferred({kind})


def _target(found: Sequence[DType], dtype: DType | None) -> DType:
    inferred = found[0]
    for other in found[1:]:
        inferred = promotion.promote_types(inferred, other)
    target = inferred if dtype is None else dtype
    if inferred.category == COMPLEX and target.category not in (BOOL, COMPLEX):
        raise DtypeError(f"tensor: complex numbers do not fit {target}; pass a complex dtype.")
    return target


def _from_mixed(data: Any, dtype: DType | None) -> Array:
    """Convert a list with NumPy values or tensors among its leaves."""
    found: list[DType] = []
    values = _values(data, found, "data")
    target = _target(found, dtype)
    try:
        array = np.array(values)
    except ValueError:
        raise _ragged(_listed(data)) from None
    if array.dtype == object:
        return _from_large(values, target)
    return _fit(array, target)


def _values(data: Any, found: list[DType], path: str) -> Any:
    """Return `data` with arrays in place of tensors; note the dtypes of its leaves in `found`."""
    if isinstance(data, _SEQUENCES):
        return [_values(child, found, f"{path}[{i}]") for i, child in enumerate(data)]
    if isinstance(data, runtime.Tensor):
        data = _value(data)
    leaf = _leaf_dtype(data, path)
    if leaf not in found:
        found.append(leaf)
    return np.asarray(data, np.float32) if leaf is dtypes.bfloat16 else data


def _listed(data: Any) -> Any:
    """Return `data` with arrays and tensors as nested lists, to look for ragged places."""
    if isinstance(data, _SEQUENCES):
        return [_listed(child) for child in data]
    if isinstance(data, runtime.Tensor):
        data = data.value
    return data.tolist() if isinstance(data, np.ndarray) else data

"""Whether two results are the same, and if not, where they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import adjoint as ad
from tests.oracle import bridge
from tests.oracle.bridge import Array

#                       relative, absolute (times the largest element, at least 1)
TOLERANCE = {
    "float64": (1e-7, 1e-9), "complex128": (1e-7, 1e-9), "float32": (2e-4, 1e-5),
    "complex64": (2e-4, 1e-5), "float16": (4e-3, 2e-3), "bfloat16": (3e-2, 1e-2),
}  # fmt: skip


class Disagreement(Exception):
    """The two libraries differ; the message says where."""


def compare_arrays(ours: Array, theirs: Array, *, loosen: float = 1.0) -> None:
    """Raise `Disagreement` unless both have the same shape, dtype and (nearly) elements."""
    if ours.shape != theirs.shape:
        raise Disagreement(f"shape {ours.shape}, PyTorch has {theirs.shape}")
    if ours.dtype != theirs.dtype:
        raise Disagreement(f"dtype {ours.dtype}, PyTorch has {theirs.dtype}")
    if theirs.size == 0:
        return
    if theirs.dtype.kind in "biu":
        wrong = ours != theirs
    else:
        wrong = _far(ours, theirs, loosen)
    if wrong.any():
        raise Disagreement(_describe(ours, theirs, wrong))


def _far(ours: Array, theirs: Array, loosen: float) -> Array:
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    relative, absolute = TOLERANCE[str(theirs.dtype)]
    a, b = ours.astype(wide), theirs.astype(wide)
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        scale = max(1.0, float(np.abs(b[finite]).max(initial=0.0)))
        near = np.abs(a - b) <= loosen * (absolute * scale + relative * np.abs(b))
        if wide is np.complex128:
            # NaN and inf in the parts of a complex number are not the same on any two machines
            same = (a == b) | (~np.isfinite(a) & ~finite)
        else:
            same = (a == b) | (np.isnan(a) & np.isnan(b))
    return ~(near | same)


def _describe(ours: Array, theirs: Array, wrong: Array) -> str:
    with np.errstate(all="ignore"):
        wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
        gap = np.abs(ours.astype(wide) - theirs.astype(wide))
    gap = np.where(wrong, np.where(np.isnan(gap), np.inf, gap), -1.0)
    place = np.unravel_index(int(gap.argmax()), gap.shape)
    where = tuple(int(i) for i in place)
    return (
        f"{int(wrong.sum())} of {wrong.size} elements differ, most at {where}: "
        f"adjoint {ours[place]}, PyTorch {theirs[place]}"
    )


def flatten(value: Any) -> list[Any]:
    """Return the leaves of nested lists, tuples and dictionaries, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def compare_outputs(ours: Any, theirs: Any, *, elements: bool = True) -> None:
    """Raise `Disagreement` unless the results have the same structure and leaves."""
    if isinstance(theirs, torch.Size):
        _compare_leaf(ours, theirs, elements)
        return
    names = getattr(theirs, "_fields", None) or _structseq_fields(theirs)
    if names and tuple(getattr(ours, "_fields", ())) != tuple(names):
        got = getattr(ours, "_fields", type(ours).__name__)
        raise Disagreement(f"the result has the fields {got}, PyTorch has {tuple(names)}")
    our_leaves, their_leaves = flatten(ours), flatten(theirs)
    if len(our_leaves) != len(their_leaves):
        raise Disagreement(f"{len(our_leaves)} results, PyTorch gives {len(their_leaves)}")
    for position, (a, b) in enumerate(zip(our_leaves, their_leaves, strict=True)):
        with named(f"result {position}" if len(their_leaves) > 1 else "result"):
            _compare_leaf(a, b, elements)


def compare_pointed(ours: Any, theirs: Any, source: Array, dim: int) -> None:
    """As `compare_outputs`, but of indices into `source` only what they point at is compared."""
    our_leaves, their_leaves = flatten(ours), flatten(theirs)
    if len(our_leaves) != len(their_leaves):
        raise Disagreement(f"{len(our_leaves)} results, PyTorch gives {len(their_leaves)}")
    for position, (a, b) in enumerate(zip(our_leaves, their_leaves, strict=True)):
        with named(f"result {position}"):
            if b.dtype == torch.int64 and (position or len(their_leaves) == 1):
                compare_arrays(*(_pointed(x, source, dim) for x in (a, b)))
            else:
                _compare_leaf(a, b, elements=True)


def _pointed(tensor: Any, source: Array, dim: int) -> Array:
    indices = (
        bridge.torch_array(tensor) if isinstance(tensor, torch.Tensor) else bridge.ad_array(tensor)
    )
    source = source.reshape(source.shape or (1,))
    if indices.ndim < source.ndim:
        indices = np.expand_dims(indices, dim) if source.ndim > 1 else indices.reshape(1)
    return np.take_along_axis(source, indices, dim)


def _structseq_fields(value: Any) -> tuple[str, ...]:
    """torch.return_types are struct sequences: their names are members of the class."""
    if not type(value).__module__.startswith("torch.return_types"):
        return ()
    members = {k for k, v in vars(type(value)).items() if type(v).__name__ == "member_descriptor"}
    ordered = [n for n in repr(value).replace("(", "\n").splitlines() if n.endswith("=")]
    names = tuple(n[:-1].strip() for n in ordered if n[:-1].strip() in members)
    return names if len(names) == len(members) else ()


def _compare_leaf(ours: Any, theirs: Any, elements: bool) -> None:
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, float | complex) and isinstance(ours, float | complex | int):
            compare_arrays(np.asarray(ours, type(theirs)), np.asarray(theirs))
        elif isinstance(theirs, torch.dtype):
            if bridge.dtype_name(ours) != bridge.dtype_name(theirs):
                raise Disagreement(f"{ours!r}, PyTorch has {theirs!r}")
        elif isinstance(theirs, torch.Size):
            if tuple(ours) != tuple(theirs):
                raise Disagreement(f"{ours!r}, PyTorch has {theirs!r}")
        elif type(ours) is not type(theirs) or ours != theirs:
            raise Disagreement(f"{ours!r}, PyTorch has {theirs!r}")
        return
    b = bridge.torch_array(theirs)
    if not isinstance(ours, ad.Tensor):
        raise Disagreement(f"a {type(ours).__name__}, PyTorch gives a tensor")
    a = bridge.ad_array(ours)
    if not elements:
        a, b = np.zeros_like(a), np.zeros_like(b)
    compare_arrays(a, b)


class named:  # noqa: N801 - reads as a statement in `with`
    """Puts a label before the message of a `Disagreement`."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Disagreement):
            raise Disagreement(f"{self.label}: {error}") from None


def compare_derivative(ours: Any, theirs: Any, loosen: float) -> None:
    """An absent derivative is a zero one, on either side."""
    if ours is None and theirs is None:
        return
    if theirs is None:
        a = bridge.ad_array(ours)
        compare_arrays(a, np.zeros_like(a), loosen=loosen)
        return
    if theirs.layout != torch.strided:
        theirs = theirs.to_dense()
    b = bridge.torch_array(theirs)
    a = np.zeros_like(b) if ours is None else bridge.ad_array(ours)
    if ours is None and b.any():
        raise Disagreement(f"no derivative, PyTorch has one of shape {b.shape}")
    compare_arrays(a, b, loosen=loosen)


def compare_inputs(ours: Any, theirs: Any) -> None:
    for position, (a, b) in enumerate(zip(leaf_arrays(ours), leaf_arrays(theirs), strict=True)):
        if a.tobytes() != b.tobytes():
            raise Disagreement(f"the tensor argument {position} was changed by the call")


def leaf_arrays(value: Any) -> list[Array]:
    arrays = []
    for leaf in flatten(value):
        if isinstance(leaf, torch.Tensor):
            arrays.append(bridge.torch_array(leaf))
        elif isinstance(leaf, ad.Tensor):
            arrays.append(bridge.ad_array(leaf))
    return arrays

"""vmap: write a function of one sample, run it on a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.generator import get_rng_state, set_rng_state
from adjoint.ops import operator as operators
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.annotations import P, R
from adjoint.transforms.batch import BatchLevel, batch_size
from adjoint.transforms.dressing import PLAIN, Dress, dress_of, plain
from adjoint.transforms.progress import bar
from adjoint.transforms.transformed import Transformed

_RANDOMNESS = ("error", "same", "different")


def vmap(
    f: Callable[P, R],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    progress: bool = False,
    in_axes: Any = ...,
    out_axes: Any = ...,
    axis_size: int | None = None,
) -> Callable[P, R]:
    """Return a function that maps `f` over a dimension of its arguments, in one vectorised call.

    `in_dims` says which dimension of each argument is mapped: an integer, None for none, or a
    pytree of these that matches the arguments or is a prefix of them; `out_dims` where the results
    have it. Arguments that are given by name are mapped over their first dimension. `chunk_size`
    limits how many samples are computed at once. `randomness` says what random operators do inside:
    'error', 'same', 'different'. `in_axes` and `out_axes` are JAX's names of `in_dims` and
    `out_dims`; `axis_size` is the number of samples, where no argument is mapped.

    >>> import adjoint as ad
    >>> ad.vmap(lambda x, y: (x * y).sum())(ad.ones(3, 2), ad.ones(3, 2))
    tensor([2., 2., 2.])
    >>> scale = lambda p, x: p["a"] * x
    >>> ad.vmap(scale, in_axes=({"a": None}, -1))({"a": 2.0}, ad.tensor([[1.0, 3.0]]))
    tensor([[2.],
            [6.]])
    """
    in_dims = _one_of("in", in_dims, in_axes)
    out_dims = _one_of("out", out_dims, out_axes)
    if randomness not in _RANDOMNESS:
        raise ArgumentError(
            f"vmap: randomness must be one of {', '.join(_RANDOMNESS)}, got {randomness!r}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"vmap: chunk_size must be at least 1, got {chunk_size}")

    one: Callable[..., Any] = f

    def mapped(*args: Any, **keywords: Any) -> Any:
        if keywords or type(in_dims) is not int or {*map(type, args)} != {Tensor}:
            leaves, axes, structure, size, dress = _mapped_leaves(
                args, keywords, in_dims, axis_size
            )
        else:  # only tensors: no tree to flatten
            leaves, structure, dress = list(args), None, PLAIN
            axes, size = _axes(leaves, [in_dims] * len(leaves), args, keywords, axis_size)

        def call(*values: Any) -> Any:
            if structure is None:
                return one(*values)
            positional, named = pytrees.unflatten(structure, dress.put_on(values))
            return dress.call(one, positional, named)

        if chunk_size is None or size <= chunk_size:
            found = _run(call, leaves, axes, size, out_dims, randomness)
        else:
            found = _in_chunks(call, leaves, axes, size, out_dims, randomness, chunk_size, progress)
        return dress.result(found)

    return Transformed(
        vmap,
        f,
        mapped,
        in_dims=in_dims,
        out_dims=out_dims,
        randomness=randomness,
        chunk_size=chunk_size,
        progress=progress,
        axis_size=axis_size,
    )


def _one_of(side: str, dims: Any, axes: Any) -> Any:
    """The value given under PyTorch's name or under JAX's."""
    if axes is ...:
        return dims
    if dims != 0:
        raise ArgumentError(f"vmap: {side}_dims and {side}_axes are two names of one; give one")
    return axes


def _mapped_leaves(
    args: tuple[Any, ...], keywords: dict[str, Any], in_dims: Any, axis_size: int | None
) -> tuple[list[Any], list[Any], Any, int, Dress]:
    """The leaves of the arguments, the mapped axis of each, their structure, the batch size, and
    the dress of the mapped leaves.
    """
    if not args and not keywords and axis_size is None:
        raise ArgumentError(
            "vmap: the function was called without arguments; there is nothing to map over"
        )
    leaves, structure = pytrees.flatten((args, keywords))
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    if isinstance(in_dims, int):
        dims = [in_dims if _can_be_mapped(v) else None for v in pytrees.leaves(args)]
        if not any(map(_can_be_mapped, leaves)) and axis_size is None:
            raise ArgumentError("vmap: none of the arguments is a tensor or array")
    else:
        dims = pytrees.broadcast_prefix(
            in_dims, pytrees.structure(args), what="vmap: in_dims", root="in_dims", is_leaf=_is_dim
        )
    dims += [0 if _can_be_mapped(v) else None for v in pytrees.leaves(keywords)]
    given = [None if dim is None else leaf for leaf, dim in zip(leaves, dims, strict=True)]
    axes, size = _axes(leaves, dims, args, keywords, axis_size)
    return leaves, axes, structure, size, dress_of(given)


def _axes(
    leaves: list[Any],
    dims: list[Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    axis_size: int | None,
) -> tuple[list[Any], int]:
    """The mapped axis of each leaf, or None; and their size."""

    def paths() -> list[str]:  # paths of the arguments, for errors
        given = (("args", args), ("keywords", keywords))
        return [p for name, tree in given for p in pytrees.paths(pytrees.structure(tree), name)]

    found: list[Any] = []
    for number, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            found.append(None)
            continue
        if type(leaf) is not Tensor:
            leaf = as_tensor(leaf) if isinstance(leaf, np.ndarray) else plain(leaf)
            leaves[number] = leaf
        found.append(_axis(leaf, dim, lambda number=number: paths()[number]))
    return found, batch_size(list(zip(leaves, found, strict=True)), paths, axis_size)


def _is_dim(value: Any) -> bool:
    return value is None or isinstance(value, int)


def _can_be_mapped(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def _axis(leaf: Any, dim: Any, path: Callable[[], str]) -> int:
    if not isinstance(leaf, Tensor):
        raise ArgumentError(
            f"vmap: {path()} is mapped (in_dims={dim}) but is {type(leaf).__name__}, not a tensor"
        )
    if not isinstance(dim, int):
        raise ArgumentError(f"vmap: in_dims must hold integers or None, got {dim!r}")
    ndim = leaf.ndim
    if not -ndim <= dim < ndim:
        raise ShapeError(f"vmap: in_dims={dim} for {path()}, which has {ndim} dimensions")
    return dim % ndim


def _run(
    f: Callable[..., Any],
    leaves: list[Any],
    axes: list[Any],
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    with BatchLevel(size, randomness) as level:
        inputs = [v if a is None else level.lift(v, a) for v, a in zip(leaves, axes, strict=True)]
        output = f(*inputs)
    if type(output) is Tensor and isinstance(out_dims, int):
        return _result(level, output, out_dims)
    results, structure = pytrees.flatten(output)
    dims = _out_dims(out_dims, output, results)
    moved = [_result(level, r, d) for r, d in zip(results, dims, strict=True)]
    return pytrees.unflatten(structure, moved)


def _out_dims(out_dims: Any, output: Any, results: list[Any]) -> list[Any]:
    if isinstance(out_dims, int) or out_dims is None:
        return [out_dims] * len(results)
    prefix = (
        tuple(out_dims) if isinstance(out_dims, list) and isinstance(output, tuple) else out_dims
    )
    return pytrees.broadcast_prefix(
        prefix, pytrees.structure(output), what="vmap: out_dims", root="out_dims", is_leaf=_is_dim
    )


def _result(level: BatchLevel, result: Any, dim: int | None) -> Any:
    """A result with its batch dimension at `dim`."""
    result = plain(result)
    if not isinstance(result, Tensor):
        if isinstance(result, (int, float, complex, np.ndarray, np.generic)):
            result = as_tensor(result)
        else:
            raise ArgumentError(
                f"vmap: the function must return tensors, got {type(result).__name__}"
            )
    if dim is None:
        if level.is_batched(result):
            raise ShapeError(
                "vmap: out_dims is None for a result that differs from sample to sample"
            )
        return level.below(result)
    value = level.result(result)
    ndim = value.ndim
    if not -ndim <= dim < ndim:
        raise ShapeError(f"vmap: out_dims={dim} for a result of {ndim - 1} dimensions")
    return value if dim % ndim == 0 else value.movedim(0, dim)


def _in_chunks(
    f: Callable[..., Any],
    leaves: list[Any],
    axes: list[Any],
    size: int,
    out_dims: Any,
    randomness: str,
    chunk: int,
    progress: bool,
) -> Any:
    pieces = []
    state = get_rng_state()
    for start in bar(range(0, size, chunk), "vmap", progress):
        if randomness == "same":
            set_rng_state(state)
        length = min(chunk, size - start)
        part = [
            v if a is None else v.narrow(a, start, length)
            for v, a in zip(leaves, axes, strict=True)
        ]
        pieces.append(_run(f, part, axes, length, out_dims, randomness))
    dims = _out_dims(out_dims, pieces[0], pytrees.leaves(pieces[0]))
    columns = zip(*(pytrees.leaves(p) for p in pieces), strict=True)
    joined = [
        c[0] if d is None else operators.packet("cat")(list(c), d)
        for c, d in zip(columns, dims, strict=True)
    ]
    return pytrees.unflatten(pytrees.structure(pieces[0]), joined)

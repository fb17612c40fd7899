"""Views, joins and copies by lists of elements, by indices and by `einsum`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = Sequence[int]


def same(x: Array, *_: Any, **__: Any) -> Array:
    return x


def reshaped(x: Array, size: Sizes, *_: Any) -> Array:
    """The elements one after another, in rows of the new sizes."""
    known = math.prod(n for n in size if n >= 0)
    sizes = [n if n >= 0 else x.size // known for n in size]
    return np.array(x.ravel().tolist(), x.dtype).reshape(sizes)


def flattened(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if not x.ndim:
        return reshaped(x, (1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return reshaped(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def unflattened(x: Array, dim: int, sizes: Sizes) -> Array:
    dim %= x.ndim
    known = math.prod(n for n in sizes if n >= 0)
    filled = [n if n >= 0 else x.shape[dim] // known for n in sizes]
    return reshaped(x, (*x.shape[:dim], *filled, *x.shape[dim + 1 :]))


def squeezed(x: Array, dim: int | Sizes | None = None) -> Array:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    drop = {d % max(x.ndim, 1) for d in dims}
    return reshaped(x, [n for d, n in enumerate(x.shape) if d not in drop or n != 1])


def unsqueezed(x: Array, dim: int) -> Array:
    sizes = list(x.shape)
    sizes.insert(dim % (x.ndim + 1), 1)
    return reshaped(x, sizes)


def permuted(x: Array, dims: Sizes) -> Array:
    """Sums over nothing: each output dimension is a letter of the input."""
    return np.array(np.einsum(x, list(range(x.ndim)), [d % x.ndim for d in dims]))


def exchanged(x: Array, dim0: int, dim1: int) -> Array:
    order = list(range(x.ndim))
    if x.ndim:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permuted(x, order)


def transposed(x: Array) -> Array:
    return exchanged(x, 0, 1) if x.ndim > 1 else x


def matrix_transposed(x: Array) -> Array:
    return exchanged(x, -2, -1) if x.ndim else x


def moved(x: Array, source: int | Sizes, destination: int | Sizes) -> Array:
    sources, targets = np.atleast_1d(source) % x.ndim, np.atleast_1d(destination) % x.ndim
    taken = dict(zip(targets.tolist(), sources.tolist(), strict=True))
    rest = (d for d in range(x.ndim) if d not in sources)
    return permuted(x, [taken[d] if d in taken else next(rest) for d in range(x.ndim)])


def expanded(x: Array, size: Sizes, **_: Any) -> Array:
    sizes = [n if n >= 0 else x.shape[k - len(size)] for k, n in enumerate(size)]
    return x * np.ones(sizes, x.dtype)


def added_up(x: Array, size: Sizes) -> Array:
    while x.ndim > len(size):
        x = np.add.reduce(x, 0)
    for dim, n in enumerate(size):
        if n != x.shape[dim]:
            x = np.add.reduce(x, dim, keepdims=True)
    return x


def grid(tensors: list[Array], indexing: str = "ij") -> list[Array]:
    return [np.array(a) for a in np.meshgrid(*map(np.atleast_1d, tensors), indexing=indexing)]  # pyright: ignore[reportCallIssue, reportArgumentType]


def products(tensors: list[Array]) -> Array:
    if len(tensors) == 1:
        return tensors[0]
    rows = list(itertools.product(*[t.tolist() for t in tensors]))
    return np.array(rows, tensors[0].dtype).reshape(len(rows), len(tensors))


def subsets(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = [c for c in choose(x.tolist(), r) if r]
    return np.array(rows, x.dtype).reshape((len(rows), r) if r else (0,))


def tiled(x: Array, repeats: Sizes) -> Array:
    sizes = (*(1 for _ in range(len(repeats) - x.ndim)), *x.shape)
    counts = (*(1 for _ in range(x.ndim - len(repeats))), *repeats)
    found = reshaped(x, sizes)
    for dim, count in enumerate(counts):
        found = np.concatenate([found] * count, dim) if count else found.take([], dim)
    return found


def repeated(x: Array, repeats: Any, dim: int | None = None, **_: Any) -> Array:
    if dim is None:
        x, dim = x.ravel(), 0
    counts = np.broadcast_to(repeats, x.shape[dim]).tolist()
    return x.take([k for k, count in enumerate(counts) for _ in range(count)], dim)


def joined(tensors: list[Array], dim: int = 0) -> Array:
    """Slices along `dim`, one after another; vectors without elements do not count."""
    kept = [t for t in tensors if t.shape != (0,)] or tensors[:1]
    slices = [t.take(k, dim) for t in kept for k in range(t.shape[dim])]
    return np.stack(slices, dim) if slices else kept[0]


def stacked(tensors: list[Array], dim: int = 0) -> Array:
    return joined([unsqueezed(t, dim) for t in tensors], dim)


def at_least(ndim: int) -> Callable[..., Any]:
    """NumPy's rule: a vector becomes a row, and a matrix the middle of a box."""

    def one(x: Array) -> Array:
        shapes = {1: {0: (1,)}, 2: {0: (1, 1), 1: (1, -1)}, 3: {0: (1, 1, 1), 1: (1, -1, 1)}}[ndim]
        if ndim == 3 and x.ndim == 2:
            return reshaped(x, (*x.shape, 1))
        return reshaped(x, shapes[x.ndim]) if x.ndim in shapes else x

    return lambda x: [one(t) for t in x] if isinstance(x, list) else one(x)


def blocks(tensors: list[Array]) -> Array:
    matrices = [at_least(2)(t) for t in tensors]
    found = np.zeros(np.sum([m.shape for m in matrices], 0), matrices[0].dtype)
    row = column = 0
    for matrix in matrices:
        found[row : row + matrix.shape[0], column : column + matrix.shape[1]] = matrix
        row, column = row + matrix.shape[0], column + matrix.shape[1]
    return found


def padded(
    sequences: list[Array], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Array:  # fmt: skip
    longest = max(len(s) for s in sequences)
    rows: list[Array] = []
    for sequence in sequences:
        fill = np.full((longest - len(sequence), *sequence.shape[1:]), padding_value)
        parts = [sequence, fill] if padding_side == "right" else [fill, sequence]
        rows.append(np.concatenate(parts))
    return np.stack(rows, 0 if batch_first else 1)


def cut(x: Array, sizes: Sizes, dim: int = 0) -> list[Array]:
    ends = list(itertools.accumulate(sizes))
    return [x.take(range(end - n, end), dim) for n, end in zip(sizes, ends, strict=True)]


def cut_equally(x: Array, size: int, dim: int = 0) -> list[Array]:
    length = x.shape[dim]
    starts = range(0, max(length, 1), size)
    return cut(x, [min(size, length - start) for start in starts], dim)


def chunks(x: Array, count: int, dim: int = 0) -> list[Array]:
    size = -(-x.shape[dim] // count)
    return cut_equally(x, size, dim) if size else [x] * count


def sections(x: Array, where: Any, dim: int = 0) -> list[Array]:
    """Pieces whose sizes differ by one at most, or cut at indices as slices are."""
    length = x.shape[dim]
    if np.ndim(where) == 0:
        count = int(where)
        return cut(x, [length // count + (k < length % count) for k in range(count)], dim)
    ends = [*np.asarray(where).tolist(), length]
    indices = list(range(length))
    starts = [0, *ends[:-1]]
    return [x.take(indices[a:b], dim) for a, b in zip(starts, ends, strict=True)]


def unbound(x: Array, dim: int = 0) -> list[Array]:
    return [x.take(k, dim) for k in range(x.shape[dim])]


def windows(x: Array, dimension: int, size: int, step: int) -> Array:
    if not x.ndim:
        return reshaped(x, (size,))
    starts = range(0, x.shape[dimension] - size + 1, step)
    parts = [np.moveaxis(x.take(range(s, s + size), dimension), dimension, -1) for s in starts]
    return np.stack(parts, dimension if dimension >= 0 else dimension - 1)


def windows_added(grad: Array, sizes: Sizes, dim: int, size: int, step: int) -> Array:
    found = np.zeros(sizes, grad.dtype)
    for window in range(grad.shape[dim]):
        for k in range(size):
            place = (slice(None),) * dim + (window * step + k,)
            found[place] += grad[..., k].take(window, dim)
    return found


def reversed_(x: Array, dims: Sizes) -> Array:
    for dim in dims:
        x = x.take(range(x.shape[dim] - 1, -1, -1), dim)
    return x


def rolled(x: Array, shifts: Sizes, dims: Sizes = ()) -> Array:
    if not dims:
        return reshaped(rolled(x.ravel(), shifts, (0,)), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        count = x.shape[dim]
        x = x.take([(k - shift) % count for k in range(count)], dim)
    return x


def turned(x: Array, k: int = 1, dims: Sizes = (0, 1)) -> Array:
    for _ in range(k % 4):
        x = reversed_(exchanged(x, *dims), (dims[0],))
    return x


def triangle(keeps: Callable[[int], bool]) -> Callable[..., Array]:
    """The elements at (i, j) whose j - i - diagonal is kept, zeros elsewhere."""

    def reference(x: Array, diagonal: int = 0) -> Array:
        found = np.zeros_like(x)
        for i, j in itertools.product(*map(range, x.shape[-2:])):
            if keeps(j - i - diagonal):
                found[..., i, j] = x[..., i, j]
        return found

    return reference


def on_diagonal(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    n = x.shape[-1] + abs(offset)
    found = np.zeros((*x.shape[:-1], n, n), x.dtype)
    for k in range(x.shape[-1]):
        found[..., k + max(-offset, 0), k + max(offset, 0)] = x[..., k]
    ndim = found.ndim
    if dim1 % ndim > dim2 % ndim:
        found = exchanged(found, -1, -2)
    return moved(found, (-2, -1), sorted((dim1 % ndim, dim2 % ndim)))


def diagonal(x: Array, offset: int = 0) -> Array:
    if x.ndim == 1:
        return on_diagonal(x, offset)
    places = [(i, i + offset) for i in range(x.shape[0]) if 0 <= i + offset < x.shape[1]]
    return np.array([x[place] for place in places], x.dtype)


def with_diagonal(x: Array, value: float, wrap: bool = False) -> Array:
    found = x.copy()
    if x.ndim > 2:
        for k in range(x.shape[0]):
            found[(k,) * x.ndim] = value
        return found
    rows, columns = x.shape
    for row in range(rows if columns else 0):
        column = row % (columns + 1) if wrap else row
        if column < columns:
            found[row, column] = value
    return found


def cast(dtype: str) -> Callable[..., Array]:
    return lambda x, **_: converted(x, np.dtype(dtype))


def converted(x: Array, dtype: Any) -> Array:
    """Element by element; of complex numbers real dtypes keep the real part."""
    kind = np.dtype(dtype).kind
    values = [v.real if kind not in "cb" else v for v in x.ravel().tolist()]
    if kind in "iu":
        bits = 8 * np.dtype(dtype).itemsize
        low = -(2 ** (bits - 1)) if kind == "i" else 0
        values = [(math.trunc(v) - low) % 2**bits + low for v in values]
    return np.array(values, dtype).reshape(x.shape)


def cast_to(x: Array, dtype: Any = None, *_: Any, **__: Any) -> Array:
    return x if dtype is None else converted(x, dtype.np)


def cast_like(x: Array, other: Array, *_: Any, **__: Any) -> Array:
    return converted(x, other.dtype)


def conjugate(x: Array) -> Array:
    return x.real - 1j * x.imag if x.dtype.kind == "c" else x


def of_pairs(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1]


REFERENCES: dict[str, Callable[..., Any]] = {
    "alias": same, "detach": same, "clone": same, "_ordinary": same,
    "contiguous": same, "lift": same,
    "lift_fresh": same, "lift_fresh_copy": same, "resolve_conj": same, "resolve_neg": same,
    "view": reshaped, "view.dtype": lambda x, dtype: np.frombuffer(x.tobytes(), dtype.np).reshape(
        *x.shape[:-1], x.shape[-1] * x.dtype.itemsize // dtype.np.itemsize
    ),
    "_unsafe_view": reshaped, "reshape": reshaped, "_reshape_copy": reshaped,
    "_reshape_alias": reshaped, "reshape_as": lambda x, y: reshaped(x, y.shape),
    "view_as": lambda x, y: reshaped(x, y.shape), "flatten": flattened, "unflatten": unflattened,
    "ravel": flattened, "squeeze": squeezed, "unsqueeze": unsqueezed,
    "permute": permuted, "transpose": exchanged, "swapaxes": exchanged, "swapdims": exchanged,
    "t": transposed, "numpy_T": lambda x: permuted(x, range(x.ndim)[::-1]),
    "matrix_H": lambda x: conjugate(transposed(x)), "mT": matrix_transposed,
    "mH": lambda x: conjugate(matrix_transposed(x)),
    "adjoint": lambda x: conjugate(matrix_transposed(x)),
    "movedim": moved, "moveaxis": moved, "expand": expanded, "broadcast_to": expanded,
    "expand_as": lambda x, y: expanded(x, y.shape),
    "broadcast_tensors": lambda tensors: [
        expanded(t, np.broadcast_shapes(*[u.shape for u in tensors])) for t in tensors
    ],
    "sum_to_size": added_up, "meshgrid": grid, "cartesian_prod": products, "combinations": subsets,
    "repeat": tiled, "tile": tiled, "repeat_interleave": repeated,
    "repeat_interleave.Tensor": lambda repeats, **_: repeated(np.arange(len(repeats)), repeats),
    "cat": joined, "concat": joined, "concatenate": joined, "stack": stacked,
    "hstack": lambda t: joined(at_least(1)(t), int(t[0].ndim > 1)),
    "vstack": lambda t: joined(at_least(2)(t)), "row_stack": lambda t: joined(at_least(2)(t)),
    "dstack": lambda t: joined(at_least(3)(t), 2),
    "column_stack": lambda t: joined([reshaped(u, (u.size, 1)) if u.ndim < 2 else u for u in t], 1),
    "block_diag": blocks, "pad_sequence": padded,
    "atleast_1d": at_least(1), "atleast_2d": at_least(2), "atleast_3d": at_least(3),
    "split": cut_equally, "split.sizes": cut, "split_with_sizes": cut,
    "unsafe_split": cut_equally, "unsafe_split_with_sizes": cut,
    "chunk": chunks, "unsafe_chunk": chunks, "tensor_split": sections,
    "hsplit": lambda x, where: sections(x, where, 1), "vsplit": sections,
    "dsplit": lambda x, where: sections(x, where, 2), "unbind": unbound,
    "narrow": lambda x, dim, start, length: x.take(range(int(start), int(start) + length), dim),
    "unfold": windows, "unfold_backward": windows_added, "flip": reversed_,
    "fliplr": lambda x: reversed_(x, (1,)), "flipud": lambda x: reversed_(x, (0,)),
    "roll": rolled, "rot90": turned, "tril": triangle(lambda d: d <= 0),
    "triu": triangle(lambda d: d >= 0), "diag_embed": on_diagonal, "diag": diagonal,
    "diagflat": lambda x, offset=0: on_diagonal(x.ravel(), offset),
    "_to_copy": cast_to, "to": cast_to, "to.other": cast_like, "type_as": cast_like,
    "to.device": lambda x, device, dtype: cast_to(x, dtype),
    "double": cast("float64"), "float": cast("float32"), "half": cast("float16"),
    "cfloat": cast("complex64"), "cdouble": cast("complex128"), "long": cast("int64"),
    "int": cast("int32"), "short": cast("int16"), "char": cast("int8"), "byte": cast("uint8"),
    "bool": cast("bool"), "fill": lambda x, value: np.full(x.shape, value),
    "zero": lambda x: 0 * np.ones(x.shape), "fill_diagonal_": with_diagonal,
    "_efficientzerotensor": lambda size: np.zeros(size),
    "complex": lambda real, imag: real + 1j * imag,
    "polar": lambda abs, angle: abs * (np.cos(angle) + 1j * np.sin(angle)),
    "real": lambda x: (x + conjugate(x)) / 2 if x.dtype.kind == "c" else x,
    "imag": lambda x: (x - conjugate(x)) / 2j,
    "view_as_real": lambda x: np.stack([(x + conjugate(x)) / 2, (x - conjugate(x)) / 2j], -1),
    "view_as_complex": of_pairs, "_conj": conjugate, "conj": conjugate,
    "_conj_physical": conjugate, "conj_physical": conjugate, "_neg_view": lambda x: 0 - x,
    "copy": lambda x, source: expanded(source, x.shape),
}  # fmt: skip

"""Which routine computes a node: of BLAS and LAPACK, or a C function of c_kernels.

A row says `routine: sort`, and `routine` says whether, and with which numbers, a C function
computes a node of such a row: this depends on the node and on the target alone. Most functions are
for row-major arrays: factors of matrices, sorting, gathers and scatters, Fourier transforms. Each
takes its numbers, operands and results, and returns whether it failed. After a failure the program
runs eagerly, and a kernel says what is wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from adjoint.c_kernels import distance, fourier, loading, sorting
from adjoint.checks import pooling as windows
from adjoint.checks.sorting import FEW_NUMBERS
from adjoint.compiler.definitions import Routine, RoutineDefinition, is_join
from adjoint.compiler.target import Target
from adjoint.core.c_types import KINDS, REAL_KINDS
from adjoint.core.shapes import Shape, around, row_major
from adjoint.core.symbolic_sizes import is_open
from adjoint.graph.facts import argument
from adjoint.graph.ir import Node, Value
from adjoint.graph.passes.products_onto import is_onto

# Routines of operands that may have any strides -> their file, and the addresses they get. Their
# numbers depend on the strides: `routine_calls`.
STRIDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "product": ("product", ()),
    "convolve": ("convolution", ()),
    "spread": ("convolution", ()),
    "correlate": ("convolution", ()),
    "maxima": ("pooling", ()),
    "back": ("pooling", ()),
    "attend": ("attention", ()),
    "attend_backward": ("attention", ()),
    "triangular": ("triangles", ("blas:trsm",)),
    "cholesky": ("triangles", ("lapack:potrf",)),
}


Finder = Callable[[Node], Routine | None]


def routine(node: Node, target: Target) -> RoutineDefinition | None:
    """The routine that computes a node; None if no routine does."""
    if is_join(node):
        return RoutineDefinition("join") if len(node.args[0]) > target.limits.pieces else None
    found = _of_strides(node)
    rule = _FINDERS.get(node.op.row.routine) if found is None else None
    ours = None if rule is None else rule(node)
    return found if ours is None else RoutineDefinition(ours.name, ours)


# -- factors of matrices --------------------------------------------------------------------------


def _factor(name: str, node: Node, *numbers: int, helpers: tuple[str, ...] = ()) -> Routine | None:
    kind = REAL_KINDS.get(next(node.inputs()).dtype.np)
    return None if kind is None else Routine("factors", name, kind, numbers, helpers)


def _matrices(node: Node) -> tuple[int, int, int]:
    """(number of matrices, rows, columns)."""
    *batch, rows, columns = next(node.inputs()).shape
    return math.prod(batch), rows, columns


def _flag(node: Node, name: str) -> int:
    return int(bool(argument(node, name)))


def _lu(node: Node) -> Routine | None:
    flags = _flag(node, "pivot"), _flag(node, "check_errors")
    return _factor("lu", node, *_matrices(node), *flags, helpers=("lapack:getrf",))


def _batch_strides(shape: Shape, batch: Shape) -> list[int]:
    """The strides, in matrices, of an operand that broadcasts to a batch."""
    own = shape[:-2]
    steps = [0 if n == 1 else s for n, s in zip(own, row_major(own), strict=True)]
    return [0] * (len(batch) - len(own)) + steps


def _solve(node: Node) -> Routine | None:
    a, b = node.args[:2]
    batch = node.outputs[0].shape[:-2]
    if len(b.shape) < 2 or (0 in batch and 0 not in a.shape[:-2]):
        return None
    numbers = math.prod(batch), a.shape[-1], b.shape[-1], _flag(node, "check_errors"), len(batch)
    places = *batch, *_batch_strides(a.shape, batch), *_batch_strides(b.shape, batch)
    return _factor("solve", node, *numbers, *places, helpers=("lapack:gesv",))


def _inverse(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    check = _flag(node, "check_errors")
    return _factor("solve", node, count, n, -1, check, 1, count, 1, helpers=("lapack:gesv",))


def _qr(node: Node) -> Routine | None:
    count, m, n = _matrices(node)
    k = min(m, n)
    sizes = {"reduced": (k, k), "complete": (m, m), "r": (0, k)}.get(argument(node, "mode"))
    if sizes is None:
        return None
    return _factor("qr", node, count, m, n, *sizes, helpers=("lapack:geqrf", "lapack:orgqr"))


def _eigh(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    triangle = argument(node, "UPLO").upper()
    if triangle not in ("L", "U"):
        return None
    flags = int(triangle == "U"), _flag(node, "compute_v")
    return _factor("eigh", node, count, n, *flags, helpers=("lapack:syevd",))


def _svd(node: Node) -> Routine | None:
    vectors = 1 + _flag(node, "full_matrices") if argument(node, "compute_uv") else 0
    return _factor("svd", node, *_matrices(node), vectors, helpers=("lapack:gesdd",))


def _ldl(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    return _factor("ldl", node, count, n, _flag(node, "check_errors"), helpers=("lapack:sytrf",))


def _exponential(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    return _factor("exponential", node, count, n, helpers=("lapack:gesv", "blas:gemm"))


def _distinct(node: Node) -> Routine | None:
    *rows, count = node.output.shape
    return _factor(
        "distinct",
        node,
        math.prod(rows),
        count,
        _per_closeness(node),
        argument(node, "nullity"),
    )


def _rank(node: Node) -> Routine | None:
    return _factor("rank", node, *_matrices(node), _per_closeness(node))


def _per_closeness(node: Node) -> int:
    """1 / closeness, the gap of a cluster as a share of its distance to others; 0: equality."""
    closeness = argument(node, "closeness")
    return round(1 / closeness) if closeness else 0


def _inverses(node: Node) -> Routine | None:
    values, sizes = node.args[:2]
    if argument(node, "loose") or (sizes is not None and sizes.shape != values.shape):
        return None
    *rows, count = values.shape
    numbers = 0 if sizes is None else math.prod(sizes.shape)
    return _factor("inverses", node, math.prod(rows), count, numbers, _per_closeness(node))


def _gauge_of_pairs(node: Node) -> Routine | None:
    first, turn, values = node.args
    if turn.shape != (*values.shape, values.shape[-1]):
        return None
    *rows, count = values.shape
    return _factor("gauge_of_pairs", node, math.prod(first.shape), math.prod(rows), count)


# -- the order of elements ------------------------------------------------------------------------


def _ordering(name: str, node: Node, *numbers: int) -> Routine | None:
    kind = KINDS.get(next(node.inputs()).dtype.np)
    return None if kind is None else Routine("ordering", name, kind, numbers)


def _bits(number: float) -> int:
    """The bits of a real number as a whole number."""
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)


def _sorting(name: str, node: Node, *numbers: int) -> Routine | None:
    kind = KINDS.get(next(node.inputs()).dtype.np)
    return None if kind is None else Routine("sorting", name, kind, numbers)


def _sort(node: Node) -> Routine | None:
    sizes = around(node.args[0].shape, argument(node, "dim"))
    return _sorting("sort", node, *sizes, _flag(node, "descending"))


def _order_statistic(node: Node, what: int) -> Routine | None:
    sizes = around(node.args[0].shape, argument(node, "dim"))
    return _sorting("choose", node, *sizes, what, 1) if sizes[1] else None


def _median_over(node: Node) -> Routine | None:
    shape, dims = node.args[0].shape, argument(node, "dim")
    rank = len(shape)
    chosen = sorted({d % rank for d in dims}) if dims and rank else list(range(rank))
    if 0 in shape or chosen != list(range(chosen[0], chosen[-1] + 1)) if chosen else 0 in shape:
        return None
    sizes = around(shape, *chosen) if chosen else (1, 1, 1)
    what = sorting.MEDIAN_OF_NUMBERS if _flag(node, "ignore_nan") else sorting.MEDIAN
    return _sorting("choose", node, *sizes, what, 0)


def _top(node: Node) -> Routine | None:
    x, k = node.args[:2]
    sizes = around(x.shape, argument(node, "dim"))
    if 0 in sizes:
        return None
    return _sorting("top", node, *sizes, k, _flag(node, "largest"))


def _quantiles(node: Node, ignore_nan: int) -> Routine | None:
    x, q = node.args[:2]
    dim, how = argument(node, "dim"), sorting.BETWEEN.get(argument(node, "interpolation"))
    sizes = (1, math.prod(x.shape), 1) if dim is None else around(x.shape, dim)
    if 0 in sizes or how is None or q.dtype is not x.dtype or x.dtype.np not in REAL_KINDS:
        return None
    return _sorting("quantiles", node, *sizes, math.prod(q.shape), how, ignore_nan)


def _search(node: Node) -> Routine | None:
    sequence, values = node.args[:2]
    sorter, side = argument(node, "sorter"), argument(node, "side")
    wide = sorter is None or sorter.dtype.name == "int64"
    if sequence.dtype is not values.dtype or not wide or side not in (None, "left", "right"):
        return None
    if side == "left" and argument(node, "right"):
        return None  # the kernel raises: these contradict each other
    *rows, length = sequence.shape
    count, every = math.prod(rows), math.prod(values.shape)
    if count == 0 or every % count:
        return None
    right = int(side == "right" or bool(argument(node, "right")))
    flags = right, _flag(node, "out_int32"), int(sorter is not None)
    return _ordering("search", node, count, length, every // count, *flags)


def _count(node: Node) -> Routine | None:
    x, bins, low, high = node.args
    if x.dtype.np not in REAL_KINDS or bins < 1 or not x.shape or not low <= high:
        return None
    *rows, length = x.shape
    sizes = math.prod(rows), length, bins, _bits(float(low)), _bits(float(high)), int(low == high)
    return _ordering("count", node, *sizes)


def _within(node: Node) -> Routine | None:
    x, low, high = node.args[:3]
    return _ordering("within", node, math.prod(x.shape), _bits(float(low)), _bits(float(high)))


def _extrema(node: Node, least: int) -> Routine | None:
    return _ordering("extrema", node, *around(node.args[0].shape, argument(node, "dim")), least)


def _recurrence(node: Node) -> Routine | None:
    a, b = node.args[:2]
    if a.shape != b.shape or a.dtype is not b.dtype or a.dtype.name == "bool":
        return None
    sizes = around(b.shape, argument(node, "dim"))
    return _ordering("recurrence", node, *sizes, _flag(node, "reverse"))


def _logarithms(node: Node) -> Routine | None:
    x = node.args[0]
    if x.dtype is not node.output.dtype:
        return None
    return _ordering("logarithms", node, *around(x.shape, argument(node, "dim")))


def _divide(node: Node) -> Routine | None:
    mode = argument(node, "rounding_mode")
    return None if mode is None else _division(node, down=mode == "floor", rest=False)


def _division(node: Node, *, down: bool, rest: bool) -> Routine | None:
    """The quotient of whole numbers, rounded down or to zero, or the rest that it leaves."""
    a, b = node.args[:2]
    same = a.shape == b.shape and a.dtype is b.dtype is node.output.dtype
    if not same or a.dtype.is_floating_point or a.dtype.name == "bool":
        return None
    return _ordering("divide", node, math.prod(a.shape), int(down), int(rest))


def _member(node: Node) -> Routine | None:
    elements, numbers = node.args[:2]
    count, dtype = math.prod(numbers.shape), elements.dtype
    few = not is_open(count) and count <= FEW_NUMBERS
    if few or dtype is not numbers.dtype or dtype.is_floating_point or dtype.name == "bool":
        return None
    return _ordering("member", node, math.prod(elements.shape), count, _flag(node, "invert"))


def _frexp(node: Node) -> Routine | None:
    x = node.args[0]
    return _ordering("frexp", node, math.prod(x.shape)) if x.dtype.np in REAL_KINDS else None


_WAYS = {"sum": 0, "mean": 1, "prod": 2, "max": 3, "min": 4}


def _segments(node: Node) -> Routine | None:
    data, how = node.args[0], _WAYS.get(argument(node, "reduce"))
    lengths, offsets = argument(node, "lengths"), argument(node, "offsets")
    given = offsets if lengths is None else lengths
    axis = argument(node, "axis") % max(len(data.shape), 1)
    if how is None or given is None or (lengths is not None and offsets is not None):
        return None
    fits = given.dtype.name == "int64" and given.shape[:-1] == data.shape[:axis]
    if argument(node, "indices") is not None or data.dtype.np not in REAL_KINDS or not fits:
        return None
    count = node.output.shape[axis]
    start = argument(node, "initial")
    by_offsets, checked = int(lengths is None), int(not argument(node, "unsafe"))
    last = int(start is not None), _bits(float(start or 0))
    sizes = *around(data.shape, axis), count, how, by_offsets, checked, *last
    return _ordering("segments", node, *sizes)


# -- places that indices choose -------------------------------------------------------------------


def _places(name: str, node: Node, *numbers: int) -> Routine | None:
    kind = KINDS.get(next(node.inputs()).dtype.np)
    return None if kind is None else Routine("places", name, kind, numbers)


def _as_vector(shape: Shape) -> Shape:
    """A shape, with a number as a vector of one element."""
    return shape or (1,)


def _gather(node: Node) -> Routine | None:
    x, dim, index = node.args[:3]
    shape, chosen = _as_vector(x.shape), _as_vector(index.shape)
    if len(shape) != len(chosen) or index.dtype.name not in ("int64", "int32"):
        return None
    dim %= len(shape)
    sizes = math.prod(chosen), int(index.dtype.name == "int64"), dim, shape[dim], len(shape)
    return _places("gather", node, *sizes, *chosen, *row_major(shape))


_JOINS = {"sum": 1, "mean": 2, "prod": 3, "amax": 4, "amin": 5}


def _scatter(node: Node) -> Routine | None:
    x, dim, index, source = node.args[:4]
    names = node.op.schema.names
    reduce = argument(node, "reduce") if "reduce" in names else None
    if reduce is None:
        how, own = (1, 1) if node.op.row.schema.name.endswith("_add") else (0, 1)
    else:
        how, own = _JOINS.get(reduce, -1), _flag(node, "include_self")
    if how < 0 or x.dtype is not source.dtype or (x.dtype.name == "bool" and 0 < how < 4):
        return None
    shape, chosen, given = _as_vector(x.shape), _as_vector(index.shape), _as_vector(source.shape)
    ranks = {len(shape), len(chosen), len(given)}
    if len(ranks) != 1 or index.dtype.name not in ("int64", "int32"):
        return None
    if any(a > b for a, b in zip(chosen, given, strict=True)):
        return None
    dim %= len(shape)
    wide, whole = int(index.dtype.name == "int64"), math.prod(shape)
    sizes = math.prod(chosen), wide, dim, shape[dim], whole, how, own, len(shape)
    steps = *chosen, *row_major(shape), *row_major(given)
    return _places("scatter", node, *sizes, *steps, int(not x.dtype.is_floating_point))


def _nonzero(node: Node) -> Routine | None:
    x, size, fill = node.args[0], argument(node, "size"), argument(node, "fill_value")
    if size < 0:
        return None
    return _places("nonzero", node, math.prod(x.shape), size, fill, len(x.shape), *x.shape)


def _strides(node: Node) -> Routine | None:
    x, part, size, stride, offset = node.args
    whole, first = math.prod(x.shape), offset or 0
    last = first + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if x.dtype is not part.dtype or part.shape != tuple(size) or min((*stride, first, 0)) < 0:
        return None
    if 0 in size or last >= whole:
        return None
    return _places("strides", node, whole, math.prod(part.shape), first, len(size), *size, *stride)


def _repeat(node: Node) -> Routine | None:
    repeats = node.args[0]
    if len(repeats.shape) != 1 or repeats.dtype.name not in ("int64", "int32"):
        return None
    return _places("repeat", node, repeats.shape[0], node.output.shape[0])


def _permutation(node: Node) -> Routine | None:
    swaps, size = node.args
    *batch, count = swaps.shape
    return _places("permutation", node, math.prod(batch), count, size)


def _layout(node: Node) -> Routine | None:
    *batch, n = node.args[0].shape
    return _places("layout", node, math.prod(batch), n)


def _windows(node: Node) -> Routine | None:
    grad, sizes, dim, size, step = node.args
    if not sizes or 0 in sizes or grad.dtype.name == "bool":
        return None
    outer, n, inner = around(tuple(sizes), dim)
    count = grad.shape[dim % len(sizes)]
    return _places("windows", node, outer, count, inner, size, step, n)


def _padding(node: Node, name: str) -> Routine | None:
    x, starts, lengths, size, *padding = node.args
    if {starts.dtype.name, lengths.dtype.name} != {"int64"} or x.dtype.np not in REAL_KINDS:
        return None
    lead = 1 if name == "pad" else 2
    inner = math.prod(x.shape[lead:])
    rows = starts.shape[0]
    if name == "pad":
        return _places("pad", node, rows, size, inner, x.shape[0], _bits(float(padding[0])))
    return _places("pack", node, rows, x.shape[1], inner, size)


def _numbers(node: Node) -> Routine | None:
    lengths, offsets, axis, shape = node.args
    given = offsets if lengths is None else lengths
    if given is None or (lengths is not None and offsets is not None):
        return None
    axis %= max(len(shape), 1)
    if given.shape[:-1] != tuple(shape[:axis]) or given.dtype.name not in ("int64", "int32"):
        return None
    count = given.shape[-1] - (lengths is None)
    outer = math.prod(shape[:axis])
    return _places("numbers", node, outer, shape[axis], count, int(lengths is None))


def _same_bits(node: Node) -> Routine | None:
    """The memory of an array read as another dtype."""
    size = math.prod(node.output.shape) * node.output.dtype.itemsize
    return Routine("places", "bits", "uchar", (size,))


# -- Fourier transforms ---------------------------------------------------------------------------


def _kind_of_parts(x: Value) -> str | None:
    return REAL_KINDS.get(x.dtype.to_real().np) if x.dtype.is_complex else None


def _fourier(node: Node) -> Routine | None:
    dims = argument(node, "dim")
    x, backward = node.args[0], int(not argument(node, "forward"))
    kind = _kind_of_parts(x)
    scale = _scale(node, x.shape)
    if kind is None or scale is None:
        return None
    sizes = math.prod(x.shape), backward, *scale, *fourier.lines(x.shape, dims)
    return Routine("fourier", "complex", kind, sizes)


def _scale(node: Node, shape: Shape) -> tuple[int, int] | None:
    """(normalisation, number of elements) of a transform; None if it transforms nothing."""
    dims, how = argument(node, "dim"), argument(node, "normalization")
    count = math.prod(shape[d] for d in dims)
    return (how, count) if dims and count and how in (0, 1, 2) else None


def _fourier_forward(node: Node) -> Routine | None:
    x, dims = node.args[0], argument(node, "dim")
    kind, scale = REAL_KINDS.get(x.dtype.np), _scale(node, x.shape)
    if kind is None or scale is None:
        return None
    last = dims[-1] % len(x.shape)
    result = node.output.shape
    sizes = *around(x.shape, last), result[last], *scale, *fourier.lines(result, dims[:-1])
    return Routine("fourier", "forward", kind, sizes)


def _fourier_backward(node: Node) -> Routine | None:
    x, dims = node.args[0], argument(node, "dim")
    kind, scale = _kind_of_parts(x), _scale(node, node.output.shape)
    if kind is None or scale is None or 0 in x.shape:
        return None
    last = dims[-1] % len(x.shape)
    if x.shape[last] != node.output.shape[last] // 2 + 1:
        return None
    sizes = (
        *around(node.output.shape, last),
        math.prod(x.shape),
        *scale,
        *fourier.lines(x.shape, dims[:-1]),
    )
    return Routine("fourier", "backward", kind, sizes)


# -- distances ------------------------------------------------------------------------------------


def _distances(node: Node) -> Routine | None:
    x, y, p = node.args[:3]
    kind = REAL_KINDS.get(x.dtype.np)
    if kind is None or y.dtype is not x.dtype or x.shape[:-2] != y.shape[:-2]:
        return None
    if p not in distance.KINDS or 0 in (*x.shape, *y.shape):
        return None
    sizes = math.prod(x.shape[:-2]), x.shape[-2], *y.shape[-2:]
    return Routine("distance", "distances", kind, (*sizes, distance.KINDS[p]))


# -- texts of unknown alignment -------------------------------------------------------------------


def _alphas(node: Node, name: str) -> Routine | None:
    emitted, blocked, inputs = node.args[-4:-1] if name == "alphas_back" else node.args
    kind = REAL_KINDS.get(emitted.dtype.np)
    names = blocked.dtype.name, inputs.dtype.name
    if kind is None or names != ("bool", "int64") or 0 in emitted.shape:
        return None
    return Routine("alignment", name, kind, tuple(emitted.shape))


# -- layers over time ------------------------------------------------------------------------------


def _layer(node: Node, name: str) -> Routine | None:
    """An LSTM without projections."""
    batch_sizes, steps = argument(node, "batch_sizes"), node.outputs[0].shape[0]
    kind = REAL_KINDS.get(node.outputs[0].dtype.np)
    fits = batch_sizes is None or batch_sizes.dtype.name == "int64"
    cells = argument(node, "cx").shape
    if kind is None or not fits or argument(node, "w_hr") is not None or 0 in cells:
        return None
    numbers = steps, *cells, _flag(node, "reverse"), int(batch_sizes is not None)
    flops = 8 * steps * math.prod(cells) * cells[-1]  # the product with w_hh
    if name == "layer_back":
        grads = (f"grad_{part}" for part in ("output", "cells", "workspace"))
        numbers += tuple(int(argument(node, grad) is not None) for grad in grads)
        flops *= 2
    return Routine("recurrent", name, kind, numbers, flops=flops)


_FINDERS: dict[str, Finder] = {
    "lu": _lu,
    "solve": _solve,
    "inverse": _inverse,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "ldl": _ldl,
    "exponential": _exponential,
    "distinct": _distinct,
    "rank": _rank,
    "inverses": _inverses,
    "gauge_of_pairs": _gauge_of_pairs,
    "sort": _sort,
    "median": lambda node: _order_statistic(node, sorting.MEDIAN),
    "nanmedian": lambda node: _order_statistic(node, sorting.MEDIAN_OF_NUMBERS),
    "mode": lambda node: _order_statistic(node, sorting.MODE),
    "kth": lambda node: _order_statistic(node, node.args[1] - 1),
    "top": _top,
    "quantiles": lambda node: _quantiles(node, 0),
    "quantiles_of_numbers": lambda node: _quantiles(node, 1),
    "median_over": _median_over,
    "search": _search,
    "count": _count,
    "within": _within,
    "maxima_so_far": lambda node: _extrema(node, 0),
    "minima_so_far": lambda node: _extrema(node, 1),
    "recurrence": _recurrence,
    "logarithms": _logarithms,
    "member": _member,
    "divide": _divide,
    "remainder": lambda node: _division(node, down=True, rest=True),
    "fmod": lambda node: _division(node, down=False, rest=True),
    "frexp": _frexp,
    "segments": _segments,
    "gather": _gather,
    "scatter": _scatter,
    "nonzero": _nonzero,
    "strides": _strides,
    "repeat": _repeat,
    "permutation": _permutation,
    "layout": _layout,
    "windows": _windows,
    "pad": lambda node: _padding(node, "pad"),
    "pack": lambda node: _padding(node, "pack"),
    "numbers": _numbers,
    "fourier": _fourier,
    "fourier_forward": _fourier_forward,
    "fourier_backward": _fourier_backward,
    "bits": _same_bits,
    "distances": _distances,
    "alphas": lambda node: _alphas(node, "alphas"),
    "alphas_back": lambda node: _alphas(node, "alphas_back"),
    "layer": lambda node: _layer(node, "layer"),
    "layer_back": lambda node: _layer(node, "layer_back"),
}


# -- operands of any strides -----------------------------------------------------------------------


def _of_strides(node: Node) -> RoutineDefinition | None:
    """The routine of a node that takes operands of any strides; None if there is none."""
    if node.outputs[0].dtype.name not in ("float32", "float64"):
        return None
    if node.op.row.routine in _TRIANGLES:
        return RoutineDefinition(node.op.row.routine)
    if 0 in node.outputs[0].shape or any(0 in v.shape for v in node.inputs()):
        return None
    product = node.op.row.is_product and len({v.dtype.name for v in node.inputs()}) == 1
    if product or is_onto(node):
        return RoutineDefinition("product")
    rule = _STRIDED.get(node.op.row.routine)
    return None if rule is None else rule(node)


def _convolution(node: Node) -> RoutineDefinition | None:
    return _map_of_images(node, "spread" if argument(node, "transposed") else "convolve")


def _map_of_images(node: Node, name: str) -> RoutineDefinition | None:
    """A map of a convolution: spread, convolve, correlate."""
    is_of_one = len({v.dtype.name for v in node.inputs()}) == 1
    fits = is_of_one and len(node.output.shape) - 2 <= loading.MOST
    return RoutineDefinition(name) if fits else None


def _pooling(node: Node, name: str) -> RoutineDefinition | None:
    """Max pooling, or its backward through indices.

    Small windows are decomposed into slices, which fuse with their neighbours.
    """
    dims = pooled_dimensions(node)
    kernel = windows.each(node.op.name, "kernel_size", argument(node, "kernel_size"), dims)
    if name == "maxima" and math.prod(kernel) <= windows.FEW:
        return None
    return RoutineDefinition(name) if dims <= loading.MOST else None


def _attention(node: Node, name: str) -> RoutineDefinition | None:
    """Attention in blocks."""
    query, key, value, bias, coins = (
        argument(node, n) for n in ("query", "key", "value", "bias", "coins")
    )
    batch = query.shape[:-2]
    even = key.shape[:-2] == batch == value.shape[:-2] and len(batch) <= loading.MOST
    kind = query.dtype.name
    fits = bias is None or bias.dtype.name in (kind, "bool")
    if coins is not None or not even or not fits:
        return None
    if name == "attend_backward" and argument(node, "output_mask")[3]:
        return None
    return RoutineDefinition(name)


def keeps_scores(node: Node, target: Target) -> bool:
    """Whether a node is an attention with scores few enough to keep for the backward."""
    if not node.op.row.routine.startswith("attention"):
        return False
    query, key = argument(node, "query"), argument(node, "key")
    return query.shape[-2] * key.shape[-2] < target.costs.scores


def pooled_dimensions(node: Node) -> int:
    """The dimensions of an operator's windows, read from its schema: 2 for int[2] kernel_size."""
    arguments = {a.name: a for a in node.op.schema.arguments}
    return arguments["kernel_size"].type.length or 0


_TRIANGLES = ("triangular", "cholesky")  # of matrices of any size, empty ones too
_STRIDED = {
    "convolution": _convolution,
    "correlation": lambda node: _map_of_images(node, "correlate"),
    "maxima": lambda node: _pooling(node, "maxima"),
    "back": lambda node: _pooling(node, "back"),
    "attention": lambda node: _attention(node, "attend"),
    "attention_backward": lambda node: _attention(node, "attend_backward"),
}

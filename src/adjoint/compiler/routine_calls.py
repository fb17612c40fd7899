"""Routines that native code calls through pointers: our own for products, convolutions, pooling and
attention; BLAS and LAPACK through SciPy for triangles.

BLAS and LAPACK read a row-major matrix as the transpose of a column-major one. An operand that is
stored transposed is passed without a copy, with a flag.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from adjoint.c_kernels import attention, convolution, loading, pooling, product
from adjoint.checks import convolution as checks
from adjoint.checks import pooling as windows
from adjoint.checks.convolution import Geometry
from adjoint.compiler.definitions import Routine
from adjoint.compiler.plan import RoutineCall, Strided
from adjoint.compiler.routines import pooled_dimensions
from adjoint.core.c_types import C_TYPES, LETTERS
from adjoint.core.importing import imported
from adjoint.core.shapes import Shape, merged, row_major
from adjoint.core.symbolic_sizes import NotOpen, share
from adjoint.graph.facts import argument
from adjoint.graph.ir import Value

_WINDOWS = ("convolve", "spread", "correlate")  # routines of a convolution
_POOLING = ("maxima", "back")
_ATTENTION = ("attend", "attend_backward")
_OURS = {
    "product": "product",
    **dict.fromkeys(_WINDOWS, "convolution"),
    **dict.fromkeys(_POOLING, "pooling"),
    **dict.fromkeys(_ATTENTION, "attention"),
}  # routine -> its file, c_kernels/product.c

_ARGUMENTS = {
    "product": "const long *, const {t} *, const {t} *, const {t} *, {t} *",
    "trsm": "char *, char *, char *, char *, int *, int *, {t} *, {t} *, int *, {t} *, int *",
    "potrf": "char *, int *, {t} *, int *, int *",
    "convolve": "const long *, const {t} *, const {t} *, const {t} *, {t} *",
    "spread": "const long *, const {t} *, const {t} *, const {t} *, {t} *",
    "correlate": "const long *, const {t} *, const {t} *, {t} *",
    "maxima": "const long *, const {t} *, {t} *, long long *",
    "back": "const long *, const {t} *, const long long *, {t} *",
    "attend": "const long *, const void *, {t} *, {t} *",
    "attend_backward": "const long *, const void *, const void *",
}

OperandTest = Callable[[Strided], bool]  # whether a routine can read an operand without a copy


def is_whole(operand: Strided) -> bool:
    """Whether the operand is row-major."""
    return operand.strides == row_major(operand.shape)


def is_matrix(operand: Strided) -> bool:
    """Whether BLAS can read a matrix without a copy: its rows or its columns are contiguous."""
    if len(operand.shape) < 2:
        return len(operand.shape) == 0 or operand.strides[-1] >= 1
    (rows, columns), (row, column) = operand.shape[-2:], operand.strides[-2:]
    straight = (column == 1 or columns == 1) and (row >= columns or rows == 1)
    transposed = (row == 1 or rows == 1) and (column >= rows or columns == 1)
    return (straight or transposed) and all(s >= 0 for s in operand.strides)


def is_rows(operand: Strided) -> bool:
    """Whether the elements of each row are contiguous."""
    return operand.shape[-1] == 1 or operand.strides[-1] == 1


def is_anything(operand: Strided) -> bool:
    """True: the routine takes any strides."""
    return True


def layouts(routine: str, count: int, ours: Routine | None = None) -> Iterator[OperandTest]:
    """For each of a routine's `count` operands, the test whether it is read without a copy."""
    if ours is not None:
        return itertools.repeat(is_whole)
    if routine == "product" and count == 3:  # a product added to its first operand
        return itertools.chain((is_whole,), itertools.repeat(is_anything))
    if routine in ("product", "correlate", "maxima"):
        return itertools.repeat(is_anything)
    if routine in _WINDOWS:  # image, weight, bias
        return itertools.chain((is_anything,), itertools.repeat(is_whole))
    if routine in _ATTENTION:
        return itertools.repeat(is_rows)
    return itertools.repeat(is_whole if routine in ("join", "back") else is_matrix)


@cache
def addresses(used: frozenset[str]) -> Any:
    """The addresses of the used routines, in the order of their names.

    A program keeps this array as long as its native code may read it.
    """
    return (ctypes.c_void_p * len(used))(*map(_address, sorted(used)))


def _address(name: str) -> int | None:
    letter, routine = name[0], name[1:]
    if routine in _OURS:
        return loading.address(_OURS[routine], routine, "float" if letter == "s" else "double")
    if ":" not in name:
        return _of_scipy("cython_lapack" if routine == "potrf" else "cython_blas", name)
    file, *symbol = name.split(":")
    if file == "lapack":
        return _of_scipy("cython_lapack", *symbol)
    return loading.address(file, *symbol)


def _of_scipy(library: str, name: str) -> int | None:
    capsule = imported(f"scipy.linalg.{library}").__pyx_capi__[name]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return pointer(capsule, signature(capsule))


def declarations(used: frozenset[str]) -> str:
    """C types and macros for the routines that a source uses."""
    lines = []
    for number, routine in enumerate(sorted(used)):
        if ":" in routine:
            lines.append(f"#define {_identifier(routine)} library[{number}]")
            continue
        c_type = "float" if routine[0] == "s" else "double"
        arguments = _ARGUMENTS[routine[1:]].format(t=c_type)
        result = "int" if routine[1:] in _OURS else "void"
        lines.append(f"typedef {result} (*{routine}_t)({arguments});")
        lines.append(f"#define {routine} (({routine}_t)library[{number}])")
    return "\n".join(lines)


def _sizes(numbers: Sequence[Any]) -> str:
    """C text of the numbers passed to a routine; a static array if all are known."""
    fixed = "static " if all(type(n) is int for n in numbers) else ""
    return f"{fixed}const long sizes[] = {{{', '.join(map(str, numbers))}}};"


def _identifier(symbol: str) -> str:
    """The C name of the address of a symbol: "factors_lu_double"."""
    return symbol.replace(":", "_")


class CallWriter:
    """Writes one call of a routine as C text."""

    def __init__(self, call: RoutineCall, pointers: list[str], targets: list[str]) -> None:
        self.call, self.pointers, self.targets = call, pointers, targets
        self.target = targets[0]
        self.c_type = C_TYPES[call.node.outputs[0].dtype.name]
        self.letter = LETTERS.get(self.c_type, "")

    def text(self) -> str:
        """The C text of the call."""
        write = self._of_ours if self.call.ours is not None else self._writer()
        lines = "\n".join(f"  {line}" for line in write())
        return f"{{\n{lines}\n}}\n"

    def _of_ours(self) -> list[str]:
        """A call of a routine from c_kernels on row-major arrays."""
        assert self.call.ours is not None
        symbol, *helpers = map(_identifier, self.call.ours.symbols)
        return [
            _sizes(self.call.ours.numbers),
            f"const void *const given[] = {{{', '.join([*self.pointers, *helpers])}}};",
            f"void *const made[] = {{{', '.join(self.targets)}}};",
            "typedef int (*routine)(const long *, const void *const *, void *const *);",
            f"if (((routine){symbol})(sizes, given, made)) *status = 1;",
        ]

    def _writer(self) -> Callable[[], list[str]]:
        return {
            "product": self._product,
            "trsm": self._trsm,
            "potrf": self._potrf,
            "join": self._join,
            "convolve": self._image,
            "spread": self._image,
            "correlate": self._correlate,
            "maxima": self._maxima,
            "back": self._back,
            "attend": self._attend,
            "attend_backward": self._attend_backward,
        }[self.call.routine]

    def _join(self) -> list[str]:
        """cat of many tensors: copies of their rows."""
        shape = self.call.node.output.shape
        dim = self.call.node.args[1] % len(shape)
        size = self.call.node.output.dtype.itemsize
        row = math.prod(shape[dim:]) * size
        lines, place = [f"for (long n = 0; n < {math.prod(shape[:dim])}; n++) {{"], 0
        for operand, pointer in zip(self.call.operands, self.pointers, strict=True):
            count = math.prod(operand.shape[dim:]) * size
            target = f"(char *){self.target} + n * {row} + {place}"
            if count:
                source = f"(char *){pointer} + n * {count}"
                lines.append(f"  __builtin_memcpy({target}, {source}, {count});")
            place += count
        return [*lines, "}"]

    # -- products ---------------------------------------------------------------------------------

    def _product(self) -> list[str]:
        a, b, out = matrices(self.call)
        steps, lead = row_major(out), max(len(out) - 2 - loading.MOST, 0)  # looped dimensions
        loops, where = _batch_loops(out[:lead])
        fields = product.numbers(
            (out[-2], out[-1], a.shape[-1]), out[lead:-2],
            a.strides[lead:], b.strides[lead:], steps[lead:],
        )  # fmt: skip
        place = _offset(steps[:lead], where)
        onto = f"{self.pointers[-3]}{place}" if len(self.pointers) == 3 else "0"
        given = [self._at(-2, a, where), self._at(-1, b, where), onto]
        call = self._checked(fields, [*given, f"{self.target}{place}"])
        return [*loops, *call, *["}"] * lead]

    def rows_of_product(self, a: Strided, b: Strided, out: Strided, low: str, count: str) -> str:
        """A product of the rows from `low` on.

        In a transposed block the rows of the result are stored as columns, so the product of the
        transposed operands is computed.
        """
        left = f"{self.pointers[0]} + {low} * {a.strides[-2]}"
        target = f"{self.target} + {low} * {out.strides[-2]}"
        (inner, columns), batch = b.shape[-2:], out.shape[:-2]
        if out.strides[-2] != 1:
            fields = product.numbers(
                (count, columns, inner), batch, a.strides, b.strides, out.strides
            )
            return self._one(fields, [left, self.pointers[1], "0", target])
        transposed = (_transposed_strides(o.strides) for o in (b, a, out))
        fields = product.numbers((columns, count, inner), batch, *transposed)
        return self._one(fields, [self.pointers[1], left, "0", target])

    def sum_of_products(self, a: Strided, b: Strided, low: str, count: str, others: str) -> str:
        """The product over a part of the inner dimension, starting at `low`. It is added to the
        target if the C condition `others` holds.
        """
        out = (*a.shape[:-1], b.shape[-1])
        sizes = (out[-2], out[-1], count)
        fields = product.numbers(sizes, out[:-2], a.strides, b.strides, row_major(out))
        left = f"{self.pointers[0]} + {low} * {a.strides[-1]}"
        right = f"{self.pointers[1]} + {low} * {b.strides[-2]}"
        onto = f"({others}) ? {self.target} : 0"
        return self._one(fields, [left, right, onto, self.target])

    def _one(self, fields: list[Any], arguments: list[str]) -> str:
        return f"{{ {' '.join(self._checked(fields, arguments))} }}"

    def _at(self, number: int, operand: Strided, where: list[str]) -> str:
        return f"{self.pointers[number]}{_offset(operand.strides, where)}"

    # -- convolutions -----------------------------------------------------------------------------

    def _image(self) -> list[str]:
        """A convolution or a transposed convolution, with its bias."""
        node, (image, weight) = self.call.node, self.call.operands[:2]
        sizes = checks.geometry(node.op.name, image.shape, weight.shape, *node.args[3:])
        _require(sizes.result == node.output.shape, "the sizes of a convolution")
        own, other = image.strides, row_major(node.output.shape)
        large, small = (other, own) if sizes.transposed else (own, other)
        bias = [] if len(self.pointers) == 3 else ["0"]
        return self._windows(sizes, large, small, [*self.pointers, *bias])

    def _correlate(self) -> list[str]:
        """The gradient of a convolution's weight."""
        node = self.call.node
        small, large = self.call.operands
        sizes = checks.of_weight(node.op.name, small.shape, large.shape, *node.args[2:])
        pointers = list(self.pointers[::-1])
        if sizes.transposed:
            small, large, pointers = large, small, self.pointers
        return self._windows(sizes, large.strides, small.strides, list(pointers))

    def _windows(
        self, sizes: Geometry, large: Shape, small: Shape, pointers: list[str]
    ) -> list[str]:
        return self._checked(convolution.numbers(sizes, large, small), [*pointers, self.target])

    # -- pooling ----------------------------------------------------------------------------------

    def _maxima(self) -> list[str]:
        """The maxima of windows, and their indices."""
        image = self.call.operands[0]
        fields = self._pooled(image.shape, image.strides)
        return self._checked(fields, [*self.pointers, *self.targets])

    def _back(self) -> list[str]:
        """Gradients added at the indices of the maxima."""
        grad, _, indices = self.pointers  # the second operand, the image, is not read
        shape = self.call.node.output.shape
        fields = self._pooled(shape, row_major(shape))
        return self._checked(fields, [grad, indices, self.targets[0]])

    def _pooled(self, shape: Shape, strides: Shape) -> list[int]:
        node, names = self.call.node, ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        given = [argument(node, name) for name in names]
        found = windows.windows(node.op.name, shape, pooled_dimensions(node), *given)
        small_shape = windows.pooled(shape, found)
        others = (*(v.shape for v in node.outputs), *(o.shape for o in self.call.operands))
        _require(small_shape in others, "the sizes of pooling")
        small = row_major(small_shape)
        lead = (1, 0) if len(shape) == len(found) + 1 else (shape[0], strides[0])
        steps = (lead[1], *strides[-len(found) - 1 :]), (0, *small)[-len(found) - 2 :]
        return pooling.numbers(found, lead[0], shape[-len(found) - 1], *steps)

    # -- attention --------------------------------------------------------------------------------

    def _attend(self) -> list[str]:
        """The output of attention, and the logarithms of its normalisers."""
        outputs = [_whole(value) for value in self.call.node.outputs]
        fields, given = self._attention(outputs[0], None, (None,) * 3, outputs[1])
        return [given, *self._checked(fields, ["&given", *self.targets])]

    def _attend_backward(self) -> list[str]:
        """The gradients of queries, keys and values, which start from zero."""
        node, found = self.call.node, self._named()
        wanted = [_whole(v) if m else None for v, m in zip(node.outputs, node.args[-1][:3])]
        sums = found["logsumexp"]
        fields, given = self._attention(found["output"][1], found["grad"][1], wanted, sums[1])
        targets = [t if w else "0" for t, w in zip(self.targets, wanted)]
        zeros = [
            f"__builtin_memset({t}, 0, {math.prod(w.shape)} * sizeof({self.c_type}));"
            for t, w in zip(targets, wanted)
            if w is not None
        ]
        own = ", ".join([found["grad"][0], found["output"][0], sums[0], *targets])
        gradients = f"const void *const gradients[] = {{{own}}};"
        call = self._checked(fields, ["&given", "gradients"])
        return [*zeros, given, gradients, *call]

    def _named(self) -> dict[str, tuple[str, Strided]]:
        """The operands by argument name: name -> (C text, operand)."""
        node = self.call.node
        given = [n for n in node.op.schema.names if isinstance(argument(node, n), Value)]
        return dict(zip(given, zip(self.pointers, self.call.operands, strict=True), strict=True))

    def _attention(
        self, output: Strided, grad: Strided | None, results: Sequence[Strided | None],
        sums: Strided,
    ) -> tuple[list[int], str]:  # fmt: skip
        """The numbers for a call of attention, and C text that declares its operands."""
        found = self._named()
        names = ("query", "key", "value", "bias", "starts", "ends")
        texts, operands = zip(*(found.get(name, ("0", None)) for name in names), strict=True)
        query, key, value, bias, starts, ends = operands
        kind = 0 if bias is None else 2 if bias.value.dtype.name == "bool" else 1
        matrices = (query, key, value, output, grad, *results, bias)
        vectors = (starts, ends, None, sums)
        steps = [_step(x, -2) for x in matrices[:-1]]
        steps += [_step(bias, -2), _step(bias, -1), *(_step(x, -1) for x in vectors[:-1])]
        lead = [_leading(x, 2) for x in matrices] + [_leading(x, 1) for x in vectors]
        sizes = query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1]
        places = merged(output.shape[:-2], lead, loading.MOST)
        assert places is not None, "definitions let only such batches through"
        fields = attention.numbers(sizes, steps, kind, 0, *places)
        scale = argument(self.call.node, "scale")  # with a symbolic width it is a symbol: 1 / √d
        given = (
            "const struct { const void *of[7]; double scale, factor; } given = "
            f"{{{{{', '.join(texts)}, 0}}, {scale!r}, 1}};"
        )
        return fields, given

    def _checked(self, fields: list[int], arguments: list[str]) -> list[str]:
        """A call of one of our own functions, which returns whether it failed."""
        call = f"{self.letter}{self.call.routine}({', '.join(['sizes', *arguments])})"
        return [_sizes(fields), f"if ({call}) *status = 1;"]

    # -- triangles --------------------------------------------------------------------------------

    def _trsm(self) -> list[str]:
        """Solve A X = B in place of a copy of B. BLAS sees the rows of B as columns: X' A' = B'."""
        node = self.call.node
        a, b = self.call.operands
        upper, left = bool(argument(node, "upper")), argument(node, "left")
        unit = argument(node, "unitriangular")
        batch, (rows, columns) = b.shape[:-2], b.shape[-2:]
        lines, where = _batch_loops(batch)
        flag, step = _lead(a)
        side, diagonal = "R" if left else "L", "U" if unit else "N"
        triangle = "L" if upper == (flag == "N") else "U"  # the transpose of an upper one is lower
        steps = row_major(b.shape)
        place = f"{self.target}{_offset(steps, where)}"
        lines += [
            f"{self.c_type} *x = {place}, *b = {self._at(1, b, where)};",
            f"for (long i = 0; i < {rows}; i++) for (long j = 0; j < {columns}; j++)",
            f"  x[i * {columns} + j] = b[i * {b.strides[-2]} + j * {b.strides[-1]}];",
            f"int m = {columns}, n = {rows}, lda = {step}, ldb = {columns};",
            f"{self.c_type} one = 1;",
            f'{self.letter}trsm("{side}", "{triangle}", "{flag}", "{diagonal}", &m, &n, &one, '
            f"{self._at(0, a, where)}, &lda, x, &ldb);",
        ]
        return lines + ["}"] * len(batch)

    def _potrf(self) -> list[str]:
        """Factor in place of a copy of one triangle; the other triangle becomes 0."""
        node = self.call.node
        (a,) = self.call.operands
        upper = bool(argument(node, "upper"))
        n = a.shape[-1]
        lines, where = _batch_loops(a.shape[:-2])
        steps = row_major(a.shape)
        inside = "j >= i" if upper else "j <= i"
        lines += [
            f"{self.c_type} *x = {self.target}{_offset(steps, where)}, *a = "
            f"{self._at(0, a, where)};",
            f"for (long i = 0; i < {n}; i++) for (long j = 0; j < {n}; j++)",
            f"  x[i * {n} + j] = {inside} ? a[i * {a.strides[-2]} + j * {a.strides[-1]}] : 0;",
            f"int n = {n}, info = 0;",
            f'{self.letter}potrf("{"L" if upper else "U"}", &n, x, &n, &info);',
            "if (info) *status = 1;",
        ]
        return lines + ["}"] * len(a.shape[:-2])


def _whole(value: Value) -> Strided:
    """A result, which is row-major."""
    return Strided(value, 0, value.shape, row_major(value.shape))


def _step(operand: Strided | None, axis: int) -> int:
    return 0 if operand is None or operand.shape[axis] == 1 else operand.strides[axis]


def _leading(operand: Strided | None, inner: int) -> tuple[Shape, Shape]:
    if operand is None:
        return (), ()
    return operand.shape[:-inner], operand.strides[:-inner]


def matrices(call: RoutineCall) -> tuple[Strided, Strided, Shape]:
    """The operands of a product, or of a batch of them, and the shape of its result.

    Of three operands the first is the summand, which is left out.
    """
    *_, a, b = call.operands
    a, b, out = _as_matrices(a, b, call.node.output.shape)
    batch = out[:-2]
    return _flattened(_broadcast_to(a, batch), _broadcast_to(b, batch), out)


def _transposed_strides(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (*strides[:-2], strides[-1], strides[-2])


def _as_matrices(a: Strided, b: Strided, out: Shape) -> tuple[Strided, Strided, Shape]:
    """Turn vectors into matrices of one row or one column."""
    if len(a.shape) == 1:
        a = Strided(a.value, a.offset, (1, *a.shape), (a.shape[0] * a.strides[0], *a.strides))
        out = (*out[:-1], 1, *out[-1:]) if len(b.shape) > 1 else (1, *out)
    if len(b.shape) == 1:
        b = Strided(b.value, b.offset, (*b.shape, 1), (*b.strides, 1))
        out = (*out, 1)
    return a, b, out


def _broadcast_to(operand: Strided, batch: Shape) -> Strided:
    """Broadcast an operand to the batch; its missing dimensions get stride 0."""
    lead = len(batch) - (len(operand.shape) - 2)
    shape, strides = operand.shape[:-2], operand.strides[:-2]
    steps = [0] * lead + [0 if s == 1 else t for s, t in zip(shape, strides, strict=True)]
    return Strided(
        operand.value,
        operand.offset,
        (*batch, *operand.shape[-2:]),
        (*steps, *operand.strides[-2:]),
    )


def _flattened(a: Strided, b: Strided, out: Shape) -> tuple[Strided, Strided, Shape]:
    """Merge a batch of products with the same right-hand matrix into one product, if the rows of
    all matrices are evenly spaced.
    """
    while len(out) > 2:
        size, rows = out[-3], out[-2]
        even = a.strides[-3] == a.strides[-2] * rows or size == 1
        if any(b.strides[:-2]) or not even or (a.strides[-1] != 1 and a.shape[-1] != 1):
            break
        shape = (*a.shape[:-3], size * rows, a.shape[-1])
        strides = (*a.strides[:-3], a.strides[-2], a.strides[-1])
        a = Strided(a.value, a.offset, shape, strides)
        b = Strided(
            b.value, b.offset, (*b.shape[:-3], *b.shape[-2:]), (*b.strides[:-3], *b.strides[-2:])
        )
        out = (*out[:-3], size * rows, out[-1])
    return a, b, out


def _lead(operand: Strided) -> tuple[str, int]:
    """(flag, stride) for a column-major library: ("N", row stride) or ("T", column stride)."""
    (rows, columns), (row, column) = operand.shape[-2:], operand.strides[-2:]
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return "N", max(row, columns, 1)  # the stride of a single row only has to be large enough
    return "T", max(column, rows, 1)


def _batch_loops(batch: Shape) -> tuple[list[str], list[str]]:
    names = [f"n{d}" for d in range(len(batch))]
    lines = [
        f"for (long {name} = 0; {name} < {size}; {name}++) {{"
        for name, size in zip(names, batch, strict=True)
    ]
    return lines, names


def _require(agree: bool, what: str) -> None:
    """Raise NotOpen unless the numbers agree: native code does not check them."""
    if not agree:
        raise NotOpen(f"{what} are not known for all of them")


def _offset(strides: tuple[int, ...], where: list[str]) -> str:
    terms = [f"{n} * {s}" for n, s in zip(where, strides, strict=False) if s]
    return "".join(f" + {t}" for t in terms)


def flops(call: RoutineCall) -> int:
    """The operations of a call: 2mnk for a product, n²m for a triangle, n³/3 for a factor."""
    shape = call.node.outputs[0].shape
    if call.routine == "join":
        return 0
    if call.ours is not None and call.ours.flops is not None:
        return call.ours.flops
    if call.ours is not None:  # one operation per element and element of its row
        first = call.operands[0].shape
        return math.prod(first) * (first[-1] if first else 1)
    if call.routine in _POOLING:  # comparisons or additions
        return math.prod(call.operands[0].shape)
    if call.routine == "correlate":  # each weight meets every place of the small image
        places = call.operands[1 if argument(call.node, "transposed") else 0].shape
        return 2 * math.prod(shape) * math.prod(places) // max(places[1], 1)
    if call.routine in _WINDOWS:  # each element of the small image meets a window of weights
        small = call.operands[0].shape if call.routine == "spread" else shape
        return 2 * math.prod(small) * math.prod(call.operands[1].shape[1:])
    if call.routine in _ATTENTION:  # two products of queries and keys; five in the backward
        query, key, value = (argument(call.node, n).shape for n in ("query", "key", "value"))
        pairs = math.prod(query[:-1]) * key[-2]
        backward = call.routine == "attend_backward"
        return 2 * pairs * ((3 if backward else 1) * query[-1] + (2 if backward else 1) * value[-1])
    inner = call.operands[-2 if call.routine == "product" else 0].shape[-1]
    return share(math.prod(shape) * inner * {"product": 6, "trsm": 3, "potrf": 1}[call.routine], 3)

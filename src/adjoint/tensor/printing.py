"""The text of a tensor, laid out exactly as PyTorch lays it out.

All numbers of a tensor share one format (`_Format`): whole numbers as `1.`, others with four
digits, or scientific notation when they span too many orders of magnitude. Long tensors show their
first and last rows. It knows arrays and names only, no tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import COMPLEX, INTEGER, DType
from adjoint.core.errors import ValueRangeError
from adjoint.core.records import record, structure

Array = np.ndarray[Any, Any]

PREFIX = "tensor("


@structure
class PrintOptions:
    """How tensors are printed; changed by `set_printoptions`."""

    precision: int = 4  # digits after the point
    threshold: float = 1000  # elements above which only the edges are shown
    edgeitems: int = 3  # rows at each edge
    linewidth: int = 80
    sci_mode: bool | None = None  # None: decided by the values


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
OPTIONS = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, as `torch.set_printoptions`.

    `profile` is "default", "short" or "full"; the other arguments change single values after it.

    >>> import adjoint as ad
    >>> ad.set_printoptions(precision=2)
    >>> ad.tensor([1 / 3])
    tensor([0.33])
    >>> ad.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueRangeError(
                f"set_printoptions: there is no profile {profile!r}; use one of {list(_PROFILES)}"
            )
        _assign(_PROFILES[profile])
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the options of `set_printoptions` as a dictionary.

    >>> import adjoint as ad
    >>> ad.get_printoptions()["precision"]
    4
    """
    return dataclasses.asdict(OPTIONS)


@contextlib.contextmanager
def printoptions(**options: Any) -> Generator[None]:
    """Print with other options inside a `with` block.

    >>> import adjoint as ad
    >>> with ad.printoptions(precision=2):
    ...     print(ad.tensor([1 / 3]))
    tensor([0.33])
    """
    before = dataclasses.replace(OPTIONS)
    try:
        set_printoptions(**options)
        yield
    finally:
        _assign(before)


def _assign(options: PrintOptions) -> None:
    for field in dataclasses.fields(options):
        setattr(OPTIONS, field.name, getattr(options, field.name))


def format_tensor(
    array: Array,
    dtype: DType,
    requires_grad: bool,
    grad_fn_name: str | None,
    is_meta: bool = False,
) -> str:
    """Return the text of a tensor; of `array` only the shape is read if `is_meta`.

    >>> format_tensor(np.array([1.0, 2.5]), dtypes.float64, True, None)
    'tensor([1.0000, 2.5000], dtype=ad.float64, requires_grad=True)'
    """
    suffixes = []
    if is_meta:
        body = "..."
        suffixes += ["device='meta'", f"size={tuple(array.shape)}"]
        if dtype is not dtypes.DEFAULT.dtype:
            suffixes.append(f"dtype={dtype}")
    elif array.size == 0:
        body = "[]"
        if array.ndim != 1:
            suffixes.append(f"size={tuple(array.shape)}")
        if dtype is not dtypes.DEFAULT.dtype:  # nothing shows that it is int64
            suffixes.append(f"dtype={dtype}")
    else:
        body = format_values(array, dtype, len(PREFIX))
        if not OPTIONS.edgeitems:
            suffixes.append(f"size={tuple(array.shape)}")
        if dtype not in obvious():
            suffixes.append(f"dtype={dtype}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _add_suffixes(PREFIX + body, suffixes)


def format_parts(parts: list[tuple[str, Array, DType]], suffixes: list[str], *, below: bool) -> str:
    """Return the text of a tensor made of several arrays, printed one below another.

    The suffixes start on a line of their own if `below`.
    """
    texts = []
    for name, array, dtype in parts:
        start = f"{name}=tensor("
        if array.size:
            texts.append(start + format_values(array, dtype, len(PREFIX) + len(start)) + ")")
        else:
            texts.append(f"{start}[], size={tuple(array.shape)})")
    text = PREFIX + f",\n{' ' * len(PREFIX)}".join(texts)
    if below:
        text += f",\n{' ' * len(PREFIX)}{suffixes[0]}"
        suffixes = suffixes[1:]
    return _add_suffixes(text, suffixes)


def obvious() -> tuple[DType, ...]:
    """Return the dtypes that the printed elements show without a suffix."""
    return (dtypes.DEFAULT.dtype, dtypes.DEFAULT.complex_dtype, dtypes.int64, dtypes.bool_)


def _add_suffixes(text: str, suffixes: list[str]) -> str:
    indent = " " * len(PREFIX)
    length = len(text) - text.rfind("\n") + 1  # length of the last line
    for suffix in suffixes:
        if length + len(suffix) + 2 > OPTIONS.linewidth:
            text += f",\n{indent}{suffix}"
            length = len(indent) + len(suffix)
        else:
            text += f", {suffix}"
            length += len(suffix) + 2
    return text + ")"


def format_values(array: Array, dtype: DType, indent: int = 0) -> str:
    """Return the nested brackets of `array` (not empty), later lines indented by `indent`."""
    summarize = array.size > OPTIONS.threshold
    if summarize and not OPTIONS.edgeitems:
        return "[...]"
    shown = _edges(array) if summarize else array
    if dtype.category == COMPLEX:
        real, imaginary = _Format.of_floats(np.real(shown)), _Format.of_floats(np.imag(shown))
        layout = _ElementFormat(_complex_text(real, imaginary), real.width + imaginary.width + 1)
    else:
        form = _Format.of_exact(shown) if dtype.category <= INTEGER else _Format.of_floats(shown)
        layout = _ElementFormat(form.text, form.width)
    # Values of float16 and bfloat16 are formatted as Python floats, which they convert to exactly.
    if dtype.category > INTEGER and dtype.itemsize == 2:
        shown = shown.astype(np.float32)
    return layout.nested(shown, array.shape, indent) if array.ndim else layout.text(shown.item())


def _edges(array: Array) -> Array:
    """Return only the first and last rows, in every dimension that is too long to show."""
    keep = OPTIONS.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * keep:
            rows = [*range(keep), *range(size - keep, size)]
            array = np.take(array, rows, axis=axis)
    return array


@record
class _ElementFormat:
    text: Callable[[Any], str]  # of one element
    width: int  # of one element

    def nested(self, shown: Array, shape: tuple[int, ...], indent: int) -> str:
        """Return brackets around `shown`, the edges of a tensor of `shape`."""
        if len(shape) == 1:
            return self.vector(shown.tolist(), shape[0], indent)
        rows = [self.nested(row, shape[1:], indent + 1) for row in shown]
        if len(rows) < shape[0]:
            rows.insert(OPTIONS.edgeitems, "...")
        return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(rows) + "]"

    def vector(self, values: list[Any], size: int, indent: int) -> str:
        texts = [self.text(v) for v in values]
        if len(values) < size:
            texts.insert(OPTIONS.edgeitems, " ...")
        per_line = max(1, (OPTIONS.linewidth - indent) // (self.width + 2))
        lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


@record
class _Format:
    """The format that the elements of a tensor share."""

    pattern: str  # "{:.4f}"
    width: int  # shorter elements are filled with blanks on the left
    point: str = ""  # "." after whole floats

    def text(self, value: Any) -> str:
        written = self.pattern.format(value)
        if self.point and math.isfinite(value):
            written += self.point
        return written.rjust(self.width)

    @staticmethod
    def of_exact(values: Array) -> _Format:
        """Return the format of integers or bools."""
        extremes = {values.min().item(), values.max().item()} if values.size else {0}
        return _Format("{}", max(len(str(v)) for v in extremes))

    @staticmethod
    def of_floats(values: Array) -> _Format:
        """Return the format of floats, given the finite nonzero ones."""
        flat = values.astype(np.float64).reshape(-1)
        flat = flat[np.isfinite(flat) & (flat != 0)]
        if flat.size == 0:
            return _Format("{:.0f}", 1, ".")
        size = np.abs(flat)
        largest, smallest = float(size.max()), float(size.min())
        whole = bool((flat == np.ceil(flat)).all())
        spread = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)
        scientific = spread if OPTIONS.sci_mode is None else OPTIONS.sci_mode
        if scientific:
            pattern, point = _scientific(), ""
        else:
            pattern, point = ("{:.0f}", ".") if whole else (f"{{:.{OPTIONS.precision}f}}", "")
        longest = max(len(pattern.format(v)) for v in flat.tolist())
        return _Format(pattern, longest + len(point), point)


def _scientific() -> str:
    return f"{{:.{OPTIONS.precision}e}}"


def _complex_text(real: _Format, imaginary: _Format) -> Callable[[complex], str]:
    def text(value: complex) -> str:
        tail = (imaginary.text(value.imag) + "j").lstrip()
        sign = "" if tail[0] in "+-" else "+"
        return real.text(value.real) + sign + tail

    return text

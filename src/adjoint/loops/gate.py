"""From how many elements a call of native code pays: one number, and where another one holds."""

from __future__ import annotations

from adjoint.table.rows import Row

LARGE = 1 << 14  # of one operator: NumPy computes fewer as quickly
# of a formula, and of kernels for which NumPy passes over memory several times
SEVERAL = 1 << 12
_EARLY = 32  # of a row with the column `native: early`, whose elements are expensive
BYTES = 1 << 17  # of numbers of one byte: NumPy computes 64 of these at once
_SPREAD = 1 << 18  # of the product of two sizes, where a column and a row may make a large result


def is_small(row: Row, sizes: list[str]) -> str:
    """The Python test that NumPy is as good for a row, by the names of its arrays."""
    first, *others = sizes
    if row.texts.get("native") == "early":
        return " and ".join(f"{name}.size < {_EARLY}" for name in sizes)
    small = f"{first}.size < {LARGE}"
    if len(others) != 1 or row.schema.tensors[1].type.is_optional:
        return small
    other = others[0]
    outer = f"{first}.size * {other}.size < {_SPREAD} or {first}.shape == {other}.shape"
    return f"{small} and ({first}.ndim < 2 or {outer})"

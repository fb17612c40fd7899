"""`ad.sparsity`: where a derivative is not zero, as an object that one can look at and keep."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from adjoint.core.errors import ArgumentError
from adjoint.core.remembering import cached_property
from adjoint.sparse_derivatives import colouring
from adjoint.sparse_derivatives.colouring import Colouring
from adjoint.sparse_derivatives.derivatives import Asked, EntriesOf, Problem, pattern_of
from adjoint.transforms.arguments import Argnums

Array = np.ndarray[Any, np.dtype[Any]]
_WIDTH, _HEIGHT = 40, 20  # characters of a picture, of 2 × 4 dots each
_PIXELS = 200  # of a picture for notebooks
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of Braille's cells


class Sparsity:
    """The pattern of a derivative, a boolean CSR matrix: rows are outputs, columns are inputs.

    `is_local` says whether it holds at one point only.
    """

    def __init__(self, pattern: Any, order: int, *, is_local: bool = False) -> None:
        self.pattern, self.order, self.is_local = pattern, order, is_local

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""
        return self.pattern.shape

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.pattern.nnz)

    @cached_property
    def colouring(self) -> Colouring:
        """The columns and rows that can be computed together."""
        return colouring.best(self.pattern, is_symmetric=self.order == 2)

    @property
    def colours(self) -> int:
        """The number of products with which a derivative of this pattern can be computed."""
        return self.colouring.count

    @property
    def mode(self) -> str:
        """The mode of these products: "forward", "reverse", or "both"."""
        if self.colouring.forward and self.colouring.reverse:
            return "both"
        return "reverse" if self.colouring.reverse else "forward"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pattern to a file (.npz), which `Sparsity.load` reads."""
        np.savez_compressed(
            path, indptr=self.pattern.indptr, indices=self.pattern.indices,
            shape=np.array(self.shape), order=self.order, is_local=self.is_local,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sparsity:
        """Read a pattern from a file that `save` wrote. Nothing in the file is run."""
        with np.load(path, allow_pickle=False) as file:
            missing = {"indptr", "indices", "shape", "order", "is_local"} - set(file.files)
            if missing:
                raise ArgumentError(f"Sparsity.load: {path} lacks {', '.join(sorted(missing))}")
            ones = np.ones(file["indices"].size, np.bool_)
            parts = (ones, file["indices"], file["indptr"])
            pattern = sparse.csr_array(parts, tuple(int(n) for n in file["shape"]))
            pattern.check_format()
            return cls(pattern, int(file["order"]), is_local=bool(file["is_local"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sparsity) or self.shape != other.shape:
            return NotImplemented if not isinstance(other, Sparsity) else False
        return (self.pattern != other.pattern).nnz == 0

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows, columns = self.shape
        share = 100 * self.nnz / max(rows * columns, 1)
        where = " at this point" if self.is_local else ""
        return (
            f"<adjoint.Sparsity: {rows:,} × {columns:,}, {self.nnz:,} entries ({share:.3g} %)"
            f"{where}, {self.colours} colours, {self.mode}>"
        )

    def __str__(self) -> str:
        return f"{self!r}\n{self.picture()}"

    def picture(self) -> str:
        """The pattern in dots of Braille, for a terminal."""
        rows, columns = self.shape
        width, height = min(_WIDTH, -(-columns // 2)), min(_HEIGHT, -(-rows // 4))
        dots = _shrunk(self.pattern, height * 4, width * 2) > 0
        cells = dots.reshape(height, 4, width, 2)
        codes = 0x2800 + np.einsum("hiwj,ij->hw", cells, _DOTS)
        return "\n".join("".join(map(chr, line)) for line in codes)

    def _repr_html_(self) -> str:
        height, width = (min(n, _PIXELS) for n in self.shape)
        filled = _shrunk(self.pattern, height, width)
        shades = np.sqrt(filled / max(filled.max(initial=0), 1))
        squares = "".join(
            f'<rect x="{x}" y="{y}" width="1" height="1" opacity="{max(shades[y, x], 0.3):.2f}"/>'
            for y, x in np.argwhere(filled > 0)
        )
        size = f'viewBox="0 0 {width} {height}" width="{max(width, 100)}"'
        style = 'style="border:1px solid #888" shape-rendering="crispEdges"'
        text = repr(self)[1:-1]
        return f"<div>{text}</div><svg {size} {style}>{squares}</svg>"


def _shrunk(pattern: Any, height: int, width: int) -> Array:
    """The number of entries in each part of a matrix that is divided into parts."""
    entries = sparse.coo_array(pattern)
    rows, columns = pattern.shape
    y = entries.row.astype(np.int64) * height // max(rows, height)
    x = entries.col.astype(np.int64) * width // max(columns, width)
    found = np.zeros((height, width))
    np.add.at(found, (y, x), 1)
    return found


def sparsity(
    f: Callable[..., Any],
    *args: Any,
    order: int = 1,
    local: bool = False,
    argnums: Argnums = 0,
    **keywords: Any,
) -> Sparsity:
    """Return the pattern of the Jacobian of `f` (order 1), or of its Hessian (order 2).

    It holds at every point, and never lacks an entry; with `local` it holds at the given arguments
    alone, and is smaller. Rows and columns count the elements of all outputs and inputs.

    >>> import adjoint as ad
    >>> found = ad.sparsity(lambda x: x[1:] - x[:-1], ad.ones(9))
    >>> found
    <adjoint.Sparsity: 8 × 9, 16 entries (22.2 %), 2 colours, forward>
    >>> print(found.picture())
    ⠙⢦⡀⠀⠀
    ⠀⠀⠙⢦⡀
    """
    if order not in (1, 2):
        raise ArgumentError(f"sparsity: order must be 1 or 2, got {order!r}")
    asked = Asked("jacobian" if order == 1 else "hessian", argnums)
    problem = Problem(EntriesOf(f, asked), args, keywords)
    _, linear = problem.derived()
    known = [t.detach() for t in problem.inputs] if local else []
    return Sparsity(pattern_of(linear, known), order, is_local=local)

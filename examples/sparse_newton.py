"""A minimal surface by Newton's method: 10,000 unknowns, the exact Hessian as a sparse matrix.

A soap film spans a wire, which is the edge of a square bent up and down. The film has the least
area among all surfaces over the square. The area of a surface made of triangles is one expression
of slices; `ad.hessian(area, sparse=True)` finds that each height meets six neighbours, and computes
the seven entries of each row in the loops of the area itself.

python examples/sparse_newton.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.sparse import linalg

import adjoint as ad

Array = np.ndarray[Any, Any]


def area(heights: Any, wire: Any, step: float) -> Any:
    """The area of the triangles between the points of a grid, whose edge is the wire."""
    count = wire.shape[0]
    inside = heights.reshape(count - 2, count - 2)
    middle = ad.cat([wire[1:-1, :1], inside, wire[1:-1, -1:]], 1)
    whole = ad.cat([wire[:1], middle, wire[-1:]], 0)
    right, down = (whole[:, 1:] - whole[:, :-1]) / step, (whole[1:] - whole[:-1]) / step
    upper = (1 + right[:-1] ** 2 + down[:, :-1] ** 2).sqrt()
    lower = (1 + right[1:] ** 2 + down[:, 1:] ** 2).sqrt()
    return (upper + lower).sum() * step**2 / 2


def wire_of(count: int) -> Array:
    """Heights on a grid; those of the edge are the wire."""
    x = np.linspace(0, 1, count)
    return np.sin(2 * np.pi * x)[:, None] * 0.3 + np.cos(2 * np.pi * x)[None] * 0.3


def main() -> None:
    """Find the surface, and say how long each step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    count = 32 if parser.parse_args().quick else 102
    wire, step = ad.tensor(wire_of(count)), 1 / (count - 1)
    loss = lambda x: area(x, wire, step)
    print(repr(ad.sparsity(loss, np.zeros((count - 2) ** 2), order=2)))
    film, gradient = ad.compile(loss), ad.compile(ad.value_and_grad(loss))
    hessian = ad.hessian(loss, sparse=True)
    x = wire_of(count)[1:-1, 1:-1].ravel()
    hessian(x)  # finds the entries, and compiles
    for turn in range(30):
        value, slope = gradient(ad.tensor(x))
        size = float(slope.abs().max())
        if size < 1e-12:
            print(f"{turn:3}  area {float(value):.12f}  largest slope {size:.1e}")
            return
        start = time.perf_counter()
        matrix = hessian(x)
        middle = time.perf_counter()
        move = linalg.spsolve(matrix, slope.numpy())
        end = time.perf_counter()
        length = 1.0  # halved until the area shrinks
        while length > 1e-6 and float(film(ad.tensor(x - length * move))) > float(value):
            length /= 2
        x = x - length * move
        print(
            f"{turn:3}  area {float(value):.12f}  largest slope {size:.1e}  length {length:.3g}  "
            f"Hessian {1e3 * (middle - start):.2f} ms, solve {1e3 * (end - middle):.1f} ms"
        )
    raise SystemExit("Newton's method did not converge")


if __name__ == "__main__":
    main()

"""`adjoint grad FILE:FUNCTION --at …`: value and gradient, or both as a NumPy file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.cli.graphs import example, load
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError


def add_grad(commands: Any) -> None:
    """Describe `adjoint grad`."""
    made = commands.add_parser("grad", help="value and gradient of a function in a file")
    made.add_argument("function", metavar="FILE:FUNCTION", help="for instance model.py:loss")
    made.add_argument(
        "--at", nargs="+", action="extend", default=[], metavar="ARGUMENT",
        help="one for each argument: a Python literal (lists of numbers are tensors), "
        "or with --source a type such as 'f64[3]'",
    )  # fmt: skip
    made.add_argument(
        "--wrt",
        type=int,
        default=0,
        metavar="N",
        help="the argument to differentiate in; the first is 0",
    )
    made.add_argument(
        "--double", action="store_true", help="take numbers as float64 instead of float32"
    )
    made.add_argument(
        "--source",
        action="store_true",
        help="print the gradient as a Python file that needs NumPy alone",
    )
    made.set_defaults(run=run_grad)


def run_grad(args: argparse.Namespace) -> Iterator[str]:
    """Differentiate and print."""
    function = load(args.function)
    point = [example(text, double=args.double) for text in args.at]
    if not point:
        raise ArgumentError("grad: give a point, --at and one value for each argument")
    both = ad.value_and_grad(function, args.wrt)
    if args.source:
        name = getattr(function, "__name__", "f")
        yield ad.export.python(ad.trace(both, *point), f"value_and_grad_of_{name}").rstrip()
        return
    if any(
        isinstance(leaf, ad.ShapeDtype)
        for leaf in pytrees.leaves(point, lambda v: isinstance(v, ad.ShapeDtype))
    ):
        raise ArgumentError(
            "grad: a value and a gradient need numbers, not a type; types do with --source"
        )
    value, gradient = both(*point)
    yield f"value     {_number(value)}"
    leaves, structure = pytrees.flatten(gradient)
    if len(leaves) == 1:
        yield f"gradient  {_array(leaves[0])}"
        return
    for leaf, path in zip(leaves, pytrees.paths(structure, "gradient"), strict=True):
        yield f"{path}  {_array(leaf)}"


def _number(tensor: Any) -> str:
    return str(tensor.item()) if tensor.dtype is ad.float64 else f"{tensor.item():.7g}"


def _array(tensor: Any) -> str:
    return np.array2string(tensor.numpy(), separator=", ")

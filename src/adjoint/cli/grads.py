"""`adjoint grad` and `adjoint hessian FILE:FUNCTION --at …`: derivatives at a point."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.parser import add_command
from adjoint.cli.terminal import paint, python
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError


def add_grad(commands: Any) -> None:
    """Describe `adjoint grad`."""
    made = add_command(
        commands, "grad", "print value and gradient of a function in a file",
        examples=(
            "adjoint grad model.py:loss --at '[1.0, 2.0]'",
            "adjoint grad model.py:loss --at '[1.0, 2.0]' 3.0 --wrt 1 --double",
            "adjoint grad model.py:loss --at 'f64[3]' --source > gradient.py",
        ),
    )  # fmt: skip
    functions.add_function(made)
    _add_wrt(made)
    made.add_argument(
        "--source",
        action="store_true",
        help="print the gradient as a Python file that needs NumPy alone",
    )
    made.set_defaults(run=run_grad)


def add_hessian(commands: Any) -> None:
    """Describe `adjoint hessian`."""
    made = add_command(
        commands, "hessian", "print value, gradient and Hessian of a function in a file",
        examples=("adjoint hessian model.py:loss --at '[1.0, 2.0]' --double",),
    )  # fmt: skip
    functions.add_function(made)
    _add_wrt(made)
    made.set_defaults(run=run_hessian)


def _add_wrt(command: Any) -> None:
    command.add_argument(
        "--wrt",
        type=int,
        default=0,
        metavar="N",
        help="the argument to differentiate in; the first is 0",
    )


def run_grad(args: argparse.Namespace) -> Iterator[str]:
    """Differentiate and print."""
    function, point = _given(args, types=args.source)
    both = ad.value_and_grad(function, args.wrt)
    if args.source:
        name = getattr(function, "__name__", "f")
        text = ad.export.python(ad.trace(both, *point), f"value_and_grad_of_{name}")
        yield python(text.rstrip())
        return
    yield from _value_and_gradient(both, point)


def run_hessian(args: argparse.Namespace) -> Iterator[str]:
    """Differentiate twice and print."""
    function, point = _given(args)
    yield from _value_and_gradient(ad.value_and_grad(function, args.wrt), point)
    yield from _tree("hessian", ad.hessian(function, args.wrt, progress=True)(*point))


def _given(
    args: argparse.Namespace, *, types: bool = False
) -> tuple[Callable[..., Any], list[Any]]:
    """The function and its arguments, which are numbers unless `types` do too."""
    function, point = functions.given(args)
    if not types and functions.has_types(point):
        hint = "; types do with --source" if args.command == "grad" else ""
        raise ArgumentError(f"derivatives need numbers, not a type{hint}")
    return function, point


def _value_and_gradient(both: Callable[..., Any], point: list[Any]) -> Iterator[str]:
    value, gradient = both(*point)
    yield f"{paint('value', 'bold')}     {_number(value)}"
    yield from _tree("gradient", gradient)


def _tree(name: str, tree: Any) -> Iterator[str]:
    """A derivative: an array, or one for each place of a pytree."""
    leaves, structure = pytrees.flatten(tree)
    paths = [name] if len(leaves) == 1 else pytrees.paths(structure, name)
    for leaf, path in zip(leaves, paths, strict=True):
        pad = " " * (len(path) + 2 + max(0, 8 - len(path)))
        first, *rest = _array(leaf).splitlines()
        yield f"{paint(path, 'bold')}{pad[len(path) :]}{first}"
        yield from (f"{pad}{line}" for line in rest)


def _number(tensor: Any) -> str:
    return str(tensor.item()) if tensor.dtype is ad.float64 else f"{tensor.item():.7g}"


def _array(tensor: Any) -> str:
    return np.array2string(tensor.detach().numpy(), separator=", ")

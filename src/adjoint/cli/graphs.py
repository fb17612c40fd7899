"""`adjoint trace FILE:FUNCTION --at …`: the graph of a function in a file."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import adjoint as ad
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.graph.parsing import parse_type


def add_trace(commands: Any) -> None:
    """Describe `adjoint trace`."""
    made = commands.add_parser("trace", help="print the graph of a function in a file")
    made.add_argument("function", metavar="FILE:FUNCTION", help="for instance model.py:loss")
    made.add_argument(
        "--at", nargs="+", action="extend", default=[], metavar="ARGUMENT",
        help="one for each argument: a literal (lists of numbers are tensors), or 'f32[3,4]'",
    )  # fmt: skip
    made.add_argument(
        "--grad", action="store_true", help="trace the gradient, in the first argument"
    )
    made.add_argument("--simplify", action="store_true", help="simplify the graph")
    made.add_argument(
        "--ssa", action="store_true", help="print the compact listing instead of Python"
    )
    made.add_argument(
        "--statistics", action="store_true", help="print counts of nodes, arithmetic and memory too"
    )
    made.add_argument("--svg", metavar="PATH", help="also draw it")
    made.set_defaults(run=run_trace)


def run_trace(args: argparse.Namespace) -> Iterator[str]:
    """Trace and print."""
    function = load(args.function)
    graph = ad.trace(
        ad.grad(function) if args.grad else function, *[example(text) for text in args.at]
    )
    if args.simplify:
        graph = ad.simplify(graph)
    yield graph.ssa() if args.ssa else str(graph).rstrip()
    if args.statistics:
        yield f"\n# {graph.statistics()}"
    if args.svg:
        graph.show(args.svg)


def load(text: str) -> Callable[..., Any]:
    """The function of FILE:FUNCTION."""
    path, colon, name = text.rpartition(":")
    if not colon or not path:
        raise ArgumentError(f"{text!r}: write FILE:FUNCTION, for instance model.py:loss")
    module = load_module(path)
    found = getattr(module, name, None)
    if not callable(found):
        known = [
            n
            for n, v in vars(module).items()
            if callable(v) and getattr(v, "__module__", "") == module.__name__
        ]
        raise ArgumentError(
            f"{path} has no function {name!r}" + (f"; it has {', '.join(known)}" if known else "")
        )
    return found


def load_module(path: str) -> ModuleType:
    """Run a Python file as a module of its own."""
    if not Path(path).is_file():
        raise ArgumentError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))  # its own imports
    try:
        spec.loader.exec_module(module)
    except AdjointError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"{path} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.pop(0)
    return module


def example(text: str, *, double: bool = False) -> Any:
    """An argument: f32[3,4], or a literal whose lists of numbers become tensors.

    With `double`, real and complex numbers become tensors of float64 and complex128.
    """
    try:
        type = parse_type(text)
    except AdjointError:
        pass
    else:
        return ad.ShapeDtype(type.shape, type.dtype, requires_grad=type.requires_grad)
    try:
        return _tensors(ast.literal_eval(text), double)
    except (ValueError, SyntaxError):
        raise ArgumentError(
            f"--at {text}: not a Python literal, and not a type such as f32[3,4]"
        ) from None


def _tensors(value: Any, double: bool) -> Any:
    if isinstance(value, dict):
        return {k: _tensors(v, double) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_tensors(v, double) for v in value)
    if not isinstance(value, list) and not (double and isinstance(value, (float, complex))):
        return value
    made = ad.tensor(value)
    if double and made.dtype.is_differentiable:
        return ad.tensor(value, dtype=ad.complex128 if made.is_complex() else ad.float64)
    return made

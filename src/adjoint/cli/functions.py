"""Functions in users' files, FILE:FUNCTION, and the arguments that `--at` gives them."""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import adjoint as ad
from adjoint.cli.parser import FILE, completes
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.graph.parsing import parse_type

AT = (
    "one for each argument: a Python literal (lists of numbers are tensors), or a type such as "
    "'f64[3]'"
)


def add_function(command: Any, at: str = AT) -> None:
    """Describe FILE:FUNCTION and `--at`."""
    completes(
        command.add_argument(
            "function", metavar="FILE:FUNCTION", help="for instance model.py:loss"
        ),
        FILE,
    )
    add_point(command, at)


def add_point(command: Any, at: str = AT) -> None:
    """Describe `--at` and `--double`."""
    command.add_argument(
        "--at", nargs="+", action="extend", default=[], metavar="ARGUMENT", help=at
    )
    command.add_argument(
        "--double", action="store_true", help="take numbers as float64 instead of float32"
    )


def is_function(text: str) -> bool:
    """Whether an argument names a function in a file, and not an operator."""
    return ".py:" in text


def given(
    args: argparse.Namespace, *, numbers: bool = False
) -> tuple[Callable[..., Any], list[Any]]:
    """The function, and its arguments of `--at`; with `numbers`, random tensors for types."""
    function = load(args.function)
    made = [example(text, double=args.double) for text in args.at]
    _check_count(function, args.function.rpartition(":")[2], made)
    if not numbers:
        return function, made
    leaves, structure = pytrees.flatten(made, _is_type)
    return function, pytrees.unflatten(structure, [_random(leaf) for leaf in leaves])


def _check_count(function: Callable[..., Any], name: str, arguments: list[Any]) -> None:
    """Raise unless the function can be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # what is built in may have none
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ArgumentError(
            f"{name}{signature}: {error}; give --at and one value for each argument, for instance "
            "--at '[1.0, 2.0]' 3.0"
        ) from None


def has_types(arguments: list[Any]) -> bool:
    """Whether some arguments are types, without values."""
    return any(map(_is_type, pytrees.leaves(arguments, _is_type)))


def _is_type(value: Any) -> bool:
    return isinstance(value, ad.ShapeDtype)


def _random(value: Any) -> Any:
    """Random numbers of a type, always the same; whole numbers count up."""
    if not _is_type(value):
        return value
    if not value.dtype.is_differentiable:
        return ad.arange(math.prod(value.shape)).reshape(value.shape).to(value.dtype)
    generator = ad.Generator().manual_seed(0)
    return ad.randn(value.shape, dtype=value.dtype, generator=generator)


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
    return _called(found, name) if isinstance(found, ad.nn.Module) else found


def _called(module: ad.nn.Module, name: str) -> Callable[..., Any]:
    """A module as a function: compiled, it is a module again, and has no stages to tell of."""

    @functools.wraps(module.forward)
    def call(*args: Any, **keywords: Any) -> Any:
        return module(*args, **keywords)

    call.__name__ = name
    return call


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


class UsersError(AdjointError):
    """What a user's function raised, with the line of its file."""


def told(error: Exception, args: argparse.Namespace) -> UsersError | None:
    """An error of the user's function, by the last line of its file; None if it is not one."""
    path = str(Path(getattr(args, "function", "").rpartition(":")[0]).resolve())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f for f in frames if str(Path(f.filename).resolve()) == path]
    if not lines:
        return None
    last = lines[-1]
    return UsersError(
        f"{Path(path).name}:{last.lineno} in {last.name}: {type(error).__name__}: {error}\n"
        f"    {last.line}"
    )


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

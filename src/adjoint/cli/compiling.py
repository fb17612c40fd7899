"""`adjoint compile FILE:FUNCTION --at …`: a function as native code, its stages, standalone C."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.operators import relative
from adjoint.cli.parser import FILE, add_command, completes
from adjoint.cli.terminal import paint
from adjoint.core.errors import AdjointError
from adjoint.toolchain import build


def add_compile(commands: Any) -> None:
    """Describe `adjoint compile`."""
    made = add_command(
        commands, "compile", "compile a function in a file, and say what became of it",
        examples=(
            "adjoint compile model.py:loss --at 'f64[3]' --grad",
            "adjoint compile model.py:loss --at 'f64[3]' --grad --c loss.c",
        ),
    )  # fmt: skip
    functions.add_function(made)
    made.add_argument(
        "--grad", action="store_true", help="compile value and gradient, in the first argument"
    )
    completes(
        made.add_argument(
            "--c",
            metavar="PATH",
            help="also write a C file that needs nothing else, and its header",
        ),
        FILE,
    )
    made.add_argument("--source", action="store_true", help="print the C that was compiled, too")
    made.set_defaults(run=run_compile)


def run_compile(args: argparse.Namespace) -> Iterator[str]:
    """Compile for these arguments and report."""
    if build.compiler() is None:
        raise AdjointError("there is no C compiler; install gcc or clang, or set CC")
    function, point = functions.given(args, numbers=True)
    wanted = ad.value_and_grad(function) if args.grad else function
    stages = ad.compile(wanted).lower(*point)
    yield f"{paint('operators', 'bold')}  {len(stages.graph)} traced, {len(stages.lowered)} lowered"
    yield f"{paint('steps', 'bold')}      {len(stages.layout.steps)}"
    yield f"{paint('a call', 'bold')}     {stages.cost()}"
    back = ", ".join(dict.fromkeys(stages.callbacks()))
    said = paint(back, "yellow") if back else paint("nothing", "green")
    yield f"{paint('calls back', 'bold')} to {said}"
    took = ", ".join(f"{name} {1e3 * spent:.1f} ms" for name, spent in stages.seconds.items())
    yield f"{paint('took', 'bold')}       {took}"
    if args.source:
        yield f"\n{stages.source.rstrip()}"
    if args.c:
        name = getattr(function, "__name__", "f")
        for path in ad.export.c(wanted, *point, path=args.c, name=name):
            yield f"{paint('wrote', 'bold')}      {relative(str(path))}"

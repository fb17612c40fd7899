"""`adjoint trace FILE:FUNCTION --at …`: the graph of a function in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.parser import FILE, add_command, completes
from adjoint.cli.terminal import paint, python


def add_trace(commands: Any) -> None:
    """Describe `adjoint trace`."""
    made = add_command(
        commands, "trace", "print the graph of a function in a file, as Python",
        examples=(
            "adjoint trace model.py:loss --at 'f32[3]'",
            "adjoint trace model.py:loss --at '[1.0, 2.0]' --grad --simplify --svg loss.svg",
        ),
    )  # fmt: skip
    functions.add_function(made)
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
    completes(made.add_argument("--svg", metavar="PATH", help="also draw it"), FILE)
    made.set_defaults(run=run_trace)


def run_trace(args: argparse.Namespace) -> Iterator[str]:
    """Trace and print."""
    function, point = functions.given(args)
    graph = ad.trace(ad.grad(function) if args.grad else function, *point)
    if args.simplify:
        graph = ad.simplify(graph)
    yield graph.ssa() if args.ssa else python(str(graph).rstrip())
    if args.statistics:
        yield paint(f"\n# {graph.statistics()}", "dim")
    if args.svg:
        graph.show(args.svg)

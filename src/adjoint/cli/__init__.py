"""The `adjoint` command: see a derivative at work, and find everything about an operator.

    adjoint demo [FUNCTION]    value, gradient and Hessian, the rows they came from, and a check
    adjoint ops [PATTERN]      the operators of the table, or those whose name matches
    adjoint show NAME          the rows of an operator, with its formulas
    adjoint where NAME         everything about an operator: places, texts, facts
    adjoint trace FILE:FUNCTION --at ARGUMENT …    the graph of a function, as Python
    adjoint grad FILE:FUNCTION --at ARGUMENT …     value and gradient; --source: as a NumPy file
    adjoint check NAME …       run the laws of operators; --library FILE: of your own rows
    adjoint coverage           what the rows have, written down or derived, by family
    adjoint stubs [DIRECTORY]  write the stubs that type checkers read
    adjoint native             build all native code of eager operators, for instance in an image

A name is `tanh`, or `add.Tensor` for one overload. Errors go to stderr with exit status 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from adjoint._version import __version__
from adjoint.cli import checks, coverage, demo, grads, graphs, native, operators, stubs, where
from adjoint.core.errors import AdjointError


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="adjoint", description="Derivatives of numerical Python.")
    top.add_argument("--version", action="version", version=f"adjoint {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser("demo", help="differentiate a function and check the result")
    one.add_argument("function", nargs="?", default="rosenbrock", choices=sorted(demo.FUNCTIONS))
    one.set_defaults(run=lambda args: demo.run(args.function))

    two = commands.add_parser("ops", help="list the operators")
    two.add_argument("pattern", nargs="?", default="*", help="a part of the name, or with * and ?")
    two.add_argument("--family", help="only this family, for instance linalg")
    two.add_argument("--show", metavar="NAME", help="print the rows of NAME, as `adjoint show`")
    two.set_defaults(
        run=lambda args: (
            operators.show(args.show) if args.show else operators.listing(args.pattern, args.family)
        )
    )

    three = commands.add_parser("show", help="print the rows of an operator")
    three.add_argument("name")
    three.set_defaults(run=lambda args: operators.show(args.name))

    four = commands.add_parser("where", help="print every place an operator lives")
    four.add_argument("name")
    checks.add_library(four)
    four.set_defaults(run=where.where)

    five = commands.add_parser("coverage", help="count what the rows have, by family")
    five.add_argument("--family", help="only this family, for instance linalg")
    five.set_defaults(run=lambda args: coverage.report(args.family))

    six = commands.add_parser("native", help="build all native code of eager operators now")
    six.set_defaults(run=native.build_all)

    graphs.add_trace(commands)
    grads.add_grad(commands)
    checks.add_check(commands)
    stubs.add_stubs(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    args = parser().parse_args(arguments)
    try:
        for line in args.run(args):
            print(line)
    except AdjointError as error:
        print(f"adjoint {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0

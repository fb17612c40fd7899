"""The `adjoint` command: derivatives of functions in your files, and all about an operator.

    adjoint demo [FUNCTION]    value, gradient and Hessian, the rows they came from, and a check
    adjoint grad FILE:FUNCTION --at ARGUMENT …     value and gradient; --source: as a NumPy file
    adjoint hessian FILE:FUNCTION --at ARGUMENT …  value, gradient and Hessian
    adjoint trace FILE:FUNCTION --at ARGUMENT …    the graph of a function, as Python; --svg: drawn
    adjoint compile FILE:FUNCTION --at ARGUMENT …  its native code; --c: as standalone C
    adjoint bench FILE:FUNCTION --at ARGUMENT …    how long it and its gradient take
    adjoint check FILE:FUNCTION --at ARGUMENT …    its derivatives against finite differences
    adjoint check NAME …       run the laws of operators; --library FILE: of your own rows
    adjoint certify NAME …     how far derivatives are from the truth, in ulp
    adjoint show NAME          the rows of an operator, with its formulas; also FILE:FUNCTION --at …
    adjoint where NAME         everything about an operator; also FILE:FUNCTION --at …
    adjoint ops [PATTERN]      the operators of the table, or those whose name matches
    adjoint coverage           what the rows have, written down or derived, by family
    adjoint native             build all native code of eager operators, for instance in an image
    adjoint stubs [DIRECTORY]  write the stubs that type checkers read
    adjoint completion SHELL   completions for bash, zsh or fish

A name is `tanh`, or `add.Tensor` for one overload. Errors go to stderr with exit status 1, those of
the command line with 2. Colours are for terminals (`--color`, NO_COLOR).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from adjoint._version import __version__
from adjoint.cli import (
    benches,
    certify,
    checks,
    compiling,
    completion,
    coverage,
    demo,
    functions,
    grads,
    graphs,
    native,
    operators,
    reports,
    stubs,
    terminal,
    where,
)
from adjoint.cli.parser import Parser
from adjoint.core.errors import AdjointError


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = Parser(
        prog="adjoint",
        description="Derivatives of numerical Python.",
        epilog="`adjoint COMMAND --help` has examples of each.",
    )
    top.add_argument("--version", action="version", version=f"adjoint {__version__}")
    top.add_argument(
        "--color", choices=terminal.WHEN, default="auto", help="colours: on a terminal unless told"
    )
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    demo.add_demo(commands)
    grads.add_grad(commands)
    grads.add_hessian(commands)
    graphs.add_trace(commands)
    reports.add_memory(commands)
    reports.add_smoothness(commands)
    compiling.add_compile(commands)
    benches.add_bench(commands)
    checks.add_check(commands)
    certify.add_certify(commands)
    operators.add_show(commands)
    where.add_where(commands)
    operators.add_ops(commands)
    coverage.add_coverage(commands)
    native.add_native(commands)
    stubs.add_stubs(commands)
    completion.add_completion(commands, parser)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    args = parser().parse_args(given or ["--help"])
    terminal.choose(args.color)
    try:
        for line in args.run(args):
            print(line)
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        said = error if isinstance(error, AdjointError) else functions.told(error, args)
        if said is None and isinstance(error, OSError):
            said = f"{error.filename}: {error.strerror}"  # a file that cannot be written
        if said is None:
            raise  # a mistake of ours
        print(f"{terminal.paint(f'adjoint {args.command}:', 'red')} {said}", file=sys.stderr)
        return 1
    return 0

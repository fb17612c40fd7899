"""`adjoint check NAME …`: the laws of operators, as a table of worst errors and verdicts.

    adjoint check tanh add.Tensor
    adjoint check --family linalg --seed 7
    adjoint check --library mine.yaml --kernels mine.py    all rows of the file

The laws and samples are those of tests/test_laws.py. A pointwise row of your own has samples by its
schema and its column `domain`, any other row the common shapes that it accepts; `mine.py` can hold
better ones (`adjoint.testing.sampler`). The error shown of a law is the nearest to its tolerance.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.cli.graphs import load_module
from adjoint.cli.operators import relative, rows_of
from adjoint.core.errors import AdjointError, ArgumentError, MissingOperator, did_you_mean
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import laws
from adjoint.testing.closeness import Worst


class LawsBroken(AdjointError, AssertionError):
    """An operator that breaks a law, or of which nothing could be checked."""


def add_check(commands: Any) -> None:
    """Describe `adjoint check`."""
    made = commands.add_parser("check", help="run the laws of operators, also of your own")
    made.add_argument("names", nargs="*", metavar="NAME", help="for instance tanh, or add.Tensor")
    made.add_argument("--family", help="all operators of a family, for instance linalg")
    add_library(made)
    made.add_argument(
        "--seed", type=int, default=0, metavar="N", help="draw other values for the samples"
    )
    made.set_defaults(run=run_check)


def add_library(command: Any) -> None:
    """Describe the options that add rows of the user's own."""
    command.add_argument(
        "--library", metavar="FILE", help="rows of your own, for instance mine.yaml"
    )
    command.add_argument(
        "--kernels", metavar="FILE", help="the Python file with the kernels of --library"
    )


def load_library(args: argparse.Namespace) -> list[str]:
    """Add the rows of the user's own; returns the names of their operators."""
    if args.kernels and not args.library:
        raise ArgumentError("--kernels goes with --library FILE, whose rows name its functions")
    if not args.library:
        return []
    module = load_module(args.kernels) if args.kernels else None
    return [packet.__name__ for packet in ad.library(args.library, module)]


def run_check(args: argparse.Namespace) -> Iterator[str]:
    """Run the laws and print; raise at the end if one was broken."""
    broken: list[str] = []
    count = 0
    for row in _rows(args):
        outcomes = [laws.judge(*claim) for claim in laws.claims(row, seed=args.seed)]
        count += len(outcomes)
        yield f"{row.full_name}  {relative(row.where.path)}:{row.where.line}"
        yield from _table(outcomes) if outcomes else _without_samples(row)
        first = {o.law: o for o in reversed(outcomes) if o.broken}
        broken += [f"{law} of {row.full_name}" for law in first]
        yield from (f"\n{outcome.broken}" for outcome in first.values())
        yield ""
    if broken:
        raise LawsBroken(f"broken: {', '.join(broken)}")
    if not count:
        raise LawsBroken("nothing was checked: there are no samples")
    yield f"{count} checks, all hold"


def _rows(args: argparse.Namespace) -> Iterator[Row]:
    """The rows to check; all of a library if none is named."""
    names = list(args.names)
    added = load_library(args)
    names = names or ([] if args.family else added)
    if args.family:
        families = {name: TABLE.family(name) for name in TABLE.names()}
        if args.family not in families.values():
            hint = did_you_mean(args.family, set(families.values()))
            raise MissingOperator(f"there is no family {args.family!r}{hint}")
        names += [name for name, family in families.items() if family == args.family]
    if not names:
        raise ArgumentError("say which operators: NAME …, --family NAME or --library FILE")
    for name in dict.fromkeys(names):
        yield from rows_of(name)


def _table(outcomes: list[laws.Outcome]) -> Iterator[str]:
    """One line for each law that says something of the row."""
    total = Counter(o.law for o in outcomes)
    wrong = Counter(o.law for o in outcomes if o.broken)
    yield f"  {'law':32} samples  worst error   allowed  verdict"
    for law in (name for name in laws.LAWS if total[name]):
        worst = Worst()
        for outcome in outcomes:
            if outcome.law == law:
                worst.merge(outcome.worst)
        verdict = f"BROKEN at {wrong[law]}" if wrong[law] else "holds"
        measured = worst.share >= 0
        error, allowed = (_short(worst.error), _short(worst.allowed)) if measured else ("", "")
        yield f"  {law:32} {total[law]:7}  {error:>11}  {allowed:>8}  {verdict}"


def _short(number: float) -> str:
    return f"{number:.1e}" if number else "0"


def _without_samples(row: Row) -> Iterator[str]:
    yield (
        f"  no samples. Write some in a file for --kernels: @adjoint.testing.sampler({row.name!r}) "
        "over a function that yields adjoint.testing.Sample(…)"
    )

"""`adjoint check NAME …`: the laws of operators, as a table of worst errors and verdicts.

    adjoint check tanh add.Tensor
    adjoint check model.py:loss --at '[1.0, 2.0]'          derivatives against differences
    adjoint check --family linalg --seed 7
    adjoint check --library mine.yaml --kernels mine.py    all rows of the file

The laws and samples are those of tests/laws/test_laws.py. A pointwise row of your own has samples
by its schema and its column `domain`, any other row the common shapes that it accepts; `mine.py`
can hold better ones (`adjoint.testing.sampler`). The error shown of a law is the nearest to its
tolerance.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.functions import load_module
from adjoint.cli.operators import relative, rows_of
from adjoint.cli.parser import FAMILY, FILE, OPERATOR, add_command, completes
from adjoint.cli.terminal import paint
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError, ArgumentError, MissingOperator, did_you_mean
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import GradcheckError, gradcheck, gradgradcheck, laws
from adjoint.testing.closeness import Worst
from adjoint.transforms.progress import bar


class LawsBroken(AdjointError, AssertionError):
    """An operator that breaks a law, or of which nothing could be checked."""


def add_check(commands: Any) -> None:
    """Describe `adjoint check`."""
    made = add_command(
        commands, "check", "run the laws of operators, or check the derivatives of a function",
        examples=(
            "adjoint check tanh add.Tensor",
            "adjoint check --family linalg --seed 7",
            "adjoint check --library mine.yaml --kernels mine.py",
            "adjoint check model.py:loss --at '[1.0, 2.0]'",
        ),
    )  # fmt: skip
    names = made.add_argument(
        "names", nargs="*", metavar="NAME", help="for instance tanh, add.Tensor; or FILE:FUNCTION"
    )
    completes(names, OPERATOR)
    family = made.add_argument("--family", help="all operators of a family, for instance linalg")
    completes(family, FAMILY)
    functions.add_point(made)
    add_library(made)
    made.add_argument(
        "--seed", type=int, default=0, metavar="N", help="draw other values for the samples"
    )
    made.set_defaults(run=run_check)


def add_library(command: Any) -> None:
    """Describe the options that add rows of the user's own."""
    rows = command.add_argument(
        "--library", metavar="FILE", help="rows of your own, for instance mine.yaml"
    )
    kernels = command.add_argument(
        "--kernels", metavar="FILE", help="the Python file with the kernels of --library"
    )
    completes(rows, FILE)
    completes(kernels, FILE)


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
    if any(map(functions.is_function, args.names)):
        yield from _check_function(args)
        return
    rows = list(_rows(args))
    for row in bar(rows, "checking", len(rows) > 1):
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
        verdict = _verdict(wrong[law])
        measured = worst.share >= 0
        error, allowed = (_short(worst.error), _short(worst.allowed)) if measured else ("", "")
        yield f"  {law:32} {total[law]:7}  {error:>11}  {allowed:>8}  {verdict}"


def _verdict(wrong: int | bool) -> str:
    if not wrong:
        return paint("holds", "green")
    return paint("BROKEN" if wrong is True else f"BROKEN at {wrong}", "red")


def _check_function(args: argparse.Namespace) -> Iterator[str]:
    """Compare the derivatives of a function in a file with finite differences."""
    if len(args.names) != 1:
        raise ArgumentError("one FILE:FUNCTION at a time, with --at")
    (args.function,), args.double = args.names, True  # differences need double precision
    function, point = functions.given(args, numbers=True)
    leaves, structure = pytrees.flatten(point)
    numbers = [i for i, v in enumerate(leaves) if _is_variable(v)]
    if not numbers:
        raise ArgumentError("no argument is a real or complex number or tensor")

    def flat(*variables: Any) -> Any:
        for i, variable in zip(numbers, variables, strict=True):
            leaves[i] = variable
        return function(*pytrees.unflatten(structure, leaves))

    inputs = tuple(ad.as_tensor(leaves[i]).detach().requires_grad_() for i in numbers)
    yield paint(args.function, "bold")
    broken: list[str] = []
    for law, check in _FUNCTION_LAWS.items():
        try:
            check(flat, inputs)
        except GradcheckError as error:
            broken.append(law)
            yield f"  {law:32} {_verdict(True)}\n\n{error}\n"
        else:
            yield f"  {law:32} {_verdict(False)}"
    if broken:
        raise LawsBroken(f"broken: {', '.join(broken)} of {args.function}")


def _is_variable(value: Any) -> bool:
    if isinstance(value, ad.Tensor):
        return value.is_differentiable_dtype()
    return isinstance(value, (float, complex))


_FUNCTION_LAWS: dict[str, Callable[[Any, Any], Any]] = {
    "reverse_equals_differences": gradcheck,
    "forward_equals_differences": lambda f, inputs: gradcheck(
        f, inputs, check_forward_ad=True, check_backward_ad=False
    ),
    "second_order_equals_differences": gradgradcheck,
}


def _short(number: float) -> str:
    return f"{number:.1e}" if number else "0"


def _without_samples(row: Row) -> Iterator[str]:
    yield (
        f"  no samples. Write some in a file for --kernels: @adjoint.testing.sampler({row.name!r}) "
        "over a function that yields adjoint.testing.Sample(…)"
    )

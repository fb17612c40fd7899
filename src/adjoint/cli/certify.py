"""`adjoint certify NAME …`: how far values and derivatives are from the truth, in ulp.

    adjoint certify tanh special.erfcx
    adjoint certify tanh --way compiled --mode forward --dtype float32 --order 2
    adjoint certify --family special --above 16

Truths are Arb's proven enclosures (the extra `certify`: python-flint). Arguments lie at all
magnitudes and close to zeros, poles and the ends of domains; then the neighbourhood of the worst
ones is searched. The worst argument is printed: anyone can repeat it.

Functions of vectors and matrices (`--family vectors`, `--family matrices`) are measured in ε times
the condition. `--dtype symbols` proves derivatives by SymPy, from formula and definition.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from adjoint.cli.parser import FAMILY, FILE, OPERATOR, add_command, completes
from adjoint.cli.terminal import paint
from adjoint.core.errors import MissingOperator, did_you_mean
from adjoint.testing.certificates import halves, ledger, measuring, rivals, symbolic, ways

ORDERS = ("value", "first", "second", "third")
DTYPES = ("float64", "float32", *halves.HALVES, symbolic.SYMBOLS)


def add_certify(commands: Any) -> None:
    """Describe `adjoint certify`."""
    made = add_command(
        commands, "certify", "measure values and derivatives against proven truths, in ulp",
        examples=(
            "adjoint certify tanh special.erfcx",
            "adjoint certify tanh --way compiled --mode forward --dtype float32",
            "adjoint certify --family special --above 16",
            "adjoint certify tanh --dtype symbols",
        ),
    )  # fmt: skip
    names = made.add_argument(
        "names", nargs="*", metavar="NAME", help="for instance tanh, sc.dawsn"
    )
    completes(names, OPERATOR)
    family = made.add_argument("--family", help="all of a family: special, vectors, matrices")
    completes(family, FAMILY)
    made.add_argument("--order", type=int, default=3, help="the highest derivative: 3")
    made.add_argument(
        "--dtype", choices=DTYPES, action="append", help="all unless said; symbols: proofs"
    )
    made.add_argument("--way", choices=ways.WAYS, action="append", help="all unless said")
    made.add_argument("--mode", choices=ways.MODES, action="append", help="both unless said")
    made.add_argument(
        "--above", type=float, default=0.0, metavar="ULP", help="print what is worse than this"
    )
    made.add_argument("--rivals", action="store_true", help="PyTorch and JAX, too")
    made.add_argument("--quick", action="store_true", help="the grid alone, without a search")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="this many processes")
    written = made.add_argument(
        "--write", metavar="FILE", help="write the worst errors to a ledger"
    )
    against = made.add_argument("--against", metavar="FILE", help="fail where a ledger is better")
    completes(written, FILE)
    completes(against, FILE)
    made.set_defaults(run=run_certify)


def run_certify(args: argparse.Namespace) -> Iterator[str]:
    """Measure, print the worst of each subject, dtype and order; compare with a ledger."""
    chosen = list(_chosen(args))
    asked = [f"{way} {mode}" for way in args.way or ways.WAYS for mode in args.mode or ways.MODES]
    asked += [f"{rival} reverse" for rival in rivals.RIVALS if args.rivals]
    dtypes = args.dtype or DTYPES
    before = ledger.read(Path(args.against)) if args.against else {}
    yield f"{'':39} {'':18}" + "".join(f"{order:>10}" for order in ORDERS[: args.order + 1])
    found = ledger.certify_all(chosen, dtypes, asked, jobs=args.jobs, search=not args.quick)
    lines: dict[ledger.Key, ledger.Line] = {}
    for measured in found:
        lines |= ledger.lines_of(measured)
        yield from _shown(measured, args)
    yield from _counted(lines)
    if args.write:
        ledger.write(Path(args.write), lines)
    _compare(lines, before)


def _counted(lines: Mapping[ledger.Key, ledger.Line]) -> Iterator[str]:
    """How many cells are how good, for each dtype and rival."""
    for what in sorted({what for _, what in lines}):
        counted = ledger.counted(line for (_, w), line in lines.items() if w == what)
        for bound, numbers in counted.items():
            yield f"{bound + ' ulp':39} {what:18}" + "".join(f"{n:>10}" for n in numbers)


def _compare(
    lines: Mapping[ledger.Key, ledger.Line], before: Mapping[ledger.Key, ledger.Line]
) -> None:
    """Raise if a subject is worse than a ledger says."""
    said: list[str] = []
    for key, line in lines.items():
        for order in ledger.worse(line, before.get(key, ())):
            now, then = line[order], before[key][order]
            said.append(
                f"{' '.join(key)}, {ORDERS[order]}: {now.error:.3g} by {now.way} "
                f"at {now.at}, where the ledger has {then.error:.3g}"
            )
    if said:
        raise ledger.Worse("worse than before:\n  " + "\n  ".join(said))


def _chosen(args: argparse.Namespace) -> Iterator[ledger.Certified]:
    known = ledger.everything().values()
    names = {short for one in known for short in _names(one.operator)}
    wanted = {re.sub(r"^(special|linalg)\.", r"\1_", name) for name in args.names}
    for name in wanted - names:
        raise MissingOperator(f"there is no certificate of {name!r}{did_you_mean(name, names)}")
    for one in known:
        ours = _names(one.operator) & wanted
        if ours or one.family == args.family or not (wanted or args.family):
            yield one


def _names(operator: str) -> set[str]:
    """By which an operator is called: special_erfcx and erfcx."""
    short = {operator.removeprefix(home) for home in ("special_", "linalg_")}
    return {operator, *short}


def _shown(measured: measuring.Measured, args: argparse.Namespace) -> Iterator[str]:
    """One line with the worst of each order, then the worst of all with its way."""
    for (name, what), line in ledger.lines_of(measured).items():
        if max(entry.error for entry in line) >= args.above:
            numbers = "".join(f"{_short(entry.error):>10}" for entry in line[: args.order + 1])
            yield f"{name[:38]:39} {what:18}{numbers}"
            order, worst = max(enumerate(line), key=lambda found: found[1].error)
            cell = measured.worst[worst.way, order]
            numbers = f": {cell.found!r}, truth {cell.truth!r}" if what != symbolic.SYMBOLS else ""
            yield f"    {worst.way} at {cell.at}{numbers}"
    for way, why in measured.refused.items():
        yield f"{measured.subject[:38]:39} {measured.dtype:18} {way}: {paint(why, 'red')}"


def _short(error: float) -> str:
    return f"{error:.2f}" if error < 1000 else f"{error:.1e}"

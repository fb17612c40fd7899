"""Compare operators with PyTorch from the command line:  python -m tests.oracle.run qr -v

    python -m tests.oracle.run NAME [NAME ...] [--dtype float64] [--check reverse] [-v] [--all]
    python -m tests.oracle.run --list          which OpInfos map to an operator of ours, which don't
    python -m tests.oracle.run --update        rewrite missing.txt, keeping the reasons it has

NAME is an OpInfo's ("linalg.qr", "std.unbiased"), ours ("linalg_qr"), or a glob ("fft.*").
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; exit status 1 if anything differs."""
    options = _options(argv)
    warnings.simplefilter("ignore")
    if options.all:
        os.environ["ORACLE_ALL"] = "1"
    from tests.oracle import resolve, variants  # after the environment is set; slow to import

    variants.torch.set_num_threads(1)
    if options.list:
        return _list()
    if options.update:
        return _update()
    infos = [info for name in options.names for info in resolve.find(name)]
    if not infos:
        print(f"no OpInfo is called {' or '.join(options.names)}", file=sys.stderr)
        return 2
    failed = False
    for info in infos:
        missing = resolve.probe(info)
        if missing:
            print(f"{resolve.title(info)}: adjoint has no {missing}")
            continue
        report = variants.compare_operator(info, options.dtype)
        failed |= _show(report, options)
    return int(failed)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.run", description=__doc__)
    parser.add_argument("names", nargs="*", help="operators or OpInfos, globs allowed")
    parser.add_argument("--dtype", action="append", help="only this dtype (may be repeated)")
    parser.add_argument("--check", help="show only failures of checks that start so")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="all failures, what was left out"
    )
    parser.add_argument("--all", action="store_true", help="all samples, not a selection")
    parser.add_argument("--list", action="store_true", help="list what maps and what is missing")
    parser.add_argument("--update", action="store_true", help="rewrite missing.txt")
    return parser.parse_args(argv)


def _show(report: object, options: argparse.Namespace) -> bool:
    print(report.summary())  # type: ignore[attr-defined]
    failures = [f for f in report.failures if f.check.startswith(options.check or "")]  # type: ignore[attr-defined]
    seen: dict[str, int] = {}
    for failure in failures:
        seen[failure.check] = seen.get(failure.check, 0) + 1
        if options.verbose or seen[failure.check] <= 2:
            print(f"  {failure}")
    if options.verbose:
        for reason, count in report.left_out.items():  # type: ignore[attr-defined]
            print(f"  left out {count}: {reason}")
    return bool(failures)


def _list() -> int:
    from tests.oracle import resolve

    missing = resolve.missing()
    present = [resolve.title(i) for i in resolve.INFOS if resolve.title(i) not in missing]
    print(f"{len(present)} map:", *present)
    print(f"{len(missing)} missing:", *missing)
    return 0


def _update() -> int:
    from tests.oracle import lists, resolve

    old, now = lists.missing(), resolve.missing()
    path = lists.HERE / "missing.txt"
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = [f"{name} | {old.get(name, 'not yet')}" for name in sorted(now)]
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    new, gone = len(now.keys() - old.keys()), len(old.keys() - now.keys())
    print(f"{len(lines)} missing, {new} new, {gone} gone")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

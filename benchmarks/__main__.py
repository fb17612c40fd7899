"""Compare compiled gradients with other tools.

    python -m benchmarks                     everything
    python -m benchmarks rk4 gmm --quick     some workloads, small cases, few rounds
    python -m benchmarks black_scholes --loaded   while another process keeps one core busy
    python -m benchmarks --list

Prints a table and writes benchmarks/results/suite.{md,json,svg} (or rk4-gmm.md and so on, for some
workloads); docs/benchmarks.md has the method.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks import loaded, report, runner, workloads
from benchmarks.tools import TOOLS

QUICK_TOOLS = tuple(t for t in TOOLS if t != "torch.compile")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all if none is given")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument(
        "--quick", action="store_true", help="small cases, five short rounds, no torch.compile"
    )
    parser.add_argument("--tools", help=f"of {','.join(TOOLS)}")
    parser.add_argument("--rounds", type=int, help="samples of each tool (11)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="cores that a tool may use (all)"
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="processor: for a machine that is shared, with --threads 1",
    )
    parser.add_argument(
        "--loaded", action="store_true", help="medians and minima while one core is busy"
    )
    chosen = parser.parse_args()
    if chosen.list:
        for name in workloads.NAMES:
            workload = workloads.load(name)
            print(f"{name:18} {workload.title}: {', '.join(workload.cases)}")
        return
    if unknown := [n for n in chosen.names if n not in workloads.NAMES]:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(workloads.NAMES)}")
    tools = chosen.tools.split(",") if chosen.tools else QUICK_TOOLS if chosen.quick else TOOLS
    if unknown := [t for t in tools if t not in TOOLS]:
        parser.error(f"no tool {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    missing = [t for t in tools if not TOOLS[t].available()]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}", file=sys.stderr)
    options = runner.Options(
        tools=tuple(t for t in tools if t not in missing),
        rounds=chosen.rounds or (5 if chosen.quick else 11),
        block=0.02 if chosen.quick else 0.05,
        threads=chosen.threads,
        clock="seconds" if chosen.clock == "wall" else "processor",
        quick=chosen.quick,
    )
    say = lambda line: print(line, file=sys.stderr, flush=True)
    names: list[str] = chosen.names or list(workloads.NAMES)
    name = "-".join(chosen.names) or "suite"
    if chosen.loaded:
        busy = loaded.run(names, options, say)
        text = report.loaded_markdown(busy, options)
        paths = report.write_texts(f"{name}-loaded", text, report.record(busy, options))
    else:
        results = runner.run(names, options, say)
        text = report.markdown(results, options)
        paths = report.write(results, options, name)
    print(text)
    say(f"wrote {', '.join(str(p) for p in paths)}")


if __name__ == "__main__":
    main()

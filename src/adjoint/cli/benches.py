"""`adjoint bench FILE:FUNCTION --at …`: how long a function and its gradient take."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.parser import add_command
from adjoint.cli.terminal import paint
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.toolchain import build
from adjoint.transforms.progress import bar

_BLOCK = 0.02  # seconds of one measurement, at least one call


def add_bench(commands: Any) -> None:
    """Describe `adjoint bench`."""
    made = add_command(
        commands, "bench", "measure a function in a file and its gradient, eager and compiled",
        examples=(
            "adjoint bench model.py:loss --at 'f32[1000]'",
            "adjoint bench model.py:loss --at '[1.0, 2.0]' --rounds 50",
        ),
    )  # fmt: skip
    functions.add_function(made)
    made.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="measurements of each; 10 unless told"
    )
    made.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> Iterator[str]:
    """Measure in turns, so that a slow moment of the machine hits all alike."""
    if args.rounds < 1:
        raise ArgumentError(f"--rounds must be at least 1, got {args.rounds}")
    function, point = functions.given(args, numbers=True)
    with ad.no_grad():  # parameters that a file holds are constants
        times = _measured(dict(_tasks(function, point)), args.rounds)
    width = max(map(len, times))
    yield paint(f"{'':{width}}      median       least", "dim")
    for name, taken in times.items():
        median, least = (f"{1e6 * t:8.1f} µs" for t in (statistics.median(taken), min(taken)))
        yield f"{paint(f'{name:{width}}', 'bold')}  {median}  {least}"


def _measured(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of one call, as often as there are rounds."""
    counts = {name: _calls(task) for name, task in tasks.items()}
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for name in bar([*tasks] * rounds, "measuring", True):
        times[name].append(_seconds(tasks[name], counts[name]))
    return times


def _tasks(function: Any, point: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is measured, by name; the gradient of a function that has one."""
    found = {"value": function}
    gradient = ad.value_and_grad(function)
    try:
        gradient(*point)
    except AdjointError:  # of several values, or of whole numbers
        pass
    else:
        found["value and gradient"] = gradient
    for name, each in found.items():
        yield f"{name}, eager", lambda each=each: each(*point)
        if build.compiler() is not None:
            compiled = ad.compile(each)
            yield f"{name}, compiled", lambda compiled=compiled: compiled(*point)


def _calls(task: Callable[[], Any]) -> int:
    """How many calls take about as long as a measurement; the first ones are not measured."""
    task()
    return max(1, round(_BLOCK / max(_seconds(task, 1), 1e-7)))


def _seconds(task: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        task()
    return (time.perf_counter() - started) / count

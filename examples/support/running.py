"""Arguments, progress, training steps and their times: the frame of every example."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import adjoint as ad

try:
    from tqdm import tqdm
except ImportError:
    tqdm: Any = None

Step = Callable[..., Any]  # trains by one step with a batch, returns the loss
_LINES = 10  # of progress, where there is no terminal
_MEASURED = 1.0  # seconds for the comparison of two steps


def arguments(description: str, *, epochs: int, quick: int) -> argparse.Namespace:
    """The command line: `epochs` by default, `quick` epochs with --quick."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--epochs", type=int, help=f"how long to train ({epochs})")
    parser.add_argument("--quick", action="store_true", help="a few seconds, for tests")
    parser.add_argument("--compiled", action="store_true", help="train with the compiled step")
    parser.add_argument(
        "--out", type=Path, default=Path(sys.argv[0]).with_suffix(".svg").name, help="the picture"
    )
    chosen = parser.parse_args()
    if chosen.epochs is None:
        chosen.epochs = quick if chosen.quick else epochs
    if chosen.epochs < 1:
        parser.error(f"--epochs {chosen.epochs}: at least one is needed")
    ad.manual_seed(0)
    return chosen


class Progress:
    """The numbers of epochs, with a bar of tqdm on a terminal and a few plain lines elsewhere.

    `progress.show(loss=0.5)` says what there is to say about the epoch that just ended.
    """

    def __init__(self, count: int) -> None:
        self.count, self.now = count, 0
        self.started = time.perf_counter()
        shown = tqdm is not None and sys.stderr.isatty()
        self.bar: Any = tqdm(total=count, unit="epoch") if shown else None

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.now = number
            yield number
            if self.bar is not None:
                self.bar.update()
        if self.bar is not None:
            self.bar.close()
        print(f"{self.count} epochs: {time.perf_counter() - self.started:.1f} s")

    def show(self, **numbers: Any) -> None:
        done = self.now + 1
        if self.bar is not None:
            self.bar.set_postfix_str(_listed(numbers), refresh=False)
        elif done * _LINES // self.count > self.now * _LINES // self.count:
            print(f"epoch {done} of {self.count}: {_listed(numbers)}", flush=True)


def _listed(numbers: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {float(v):.4g}" for name, v in numbers.items())


def eager_step(model: ad.nn.Module, loss_fn: Step | None, optimizer: ad.optim.Optimizer) -> Step:
    """The lines that `ad.optim.compiled_step` makes one program of."""

    def step(*batch: Any) -> ad.Tensor:
        optimizer.zero_grad()
        if loss_fn is None:
            loss = model(*batch)
        else:
            *inputs, target = batch
            loss = loss_fn(model(*inputs), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def both_steps(model: ad.nn.Module, loss_fn: Step | None, optimizer: Any) -> tuple[Step, Step]:
    """The same training step, eager and compiled."""
    return (
        eager_step(model, loss_fn, optimizer),
        ad.optim.compiled_step(model, loss_fn, optimizer),
    )


def print_speed_up(eager: Step, compiled: Step, *batch: Any, quick: bool = False) -> None:
    """Time two ways to do the same thing, in turns, and print how their best times compare."""
    for step in (eager, compiled, compiled):  # the second call of a compiled step compiles
        step(*batch)
    times: tuple[list[float], list[float]] = ([], [])
    deadline = time.perf_counter() + (_MEASURED / 10 if quick else _MEASURED)
    while len(times[0]) < 3 or time.perf_counter() < deadline:
        for step, seconds in zip((eager, compiled), times):
            started = time.perf_counter()
            step(*batch)
            seconds.append(time.perf_counter() - started)
    slow, fast = (min(seconds) * 1e3 for seconds in times)  # others may use the machine too
    print(f"a step: eager {slow:.2f} ms, compiled {fast:.2f} ms, speed-up {slow / fast:.1f}")


def require(
    what: str, value: float, *, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Print the quality that was reached; end the program with status 1 if that is too little."""
    bounds = [f"at least {at_least:g}"] if at_least is not None else []
    bounds += [f"at most {at_most:g}"] if at_most is not None else []
    low, high = (-inf if at_least is None else at_least), (inf if at_most is None else at_most)
    reached = low <= value <= high  # not a number is neither
    verdict = "reached" if reached else "missed"
    print(f"{verdict}: {what} {value:.4g} (goal: {', '.join(bounds)})", flush=True)
    if not reached:
        raise SystemExit(1)

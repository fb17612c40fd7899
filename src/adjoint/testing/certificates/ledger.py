"""The ledger: the worst errors of all subjects, as they were last measured.

A file of one line for each subject and dtype, written by `adjoint certify --write FILE`:

    tanh(x); float64; 1.3 eager reverse -0.51; 2.1 c forward 3.7; 2.4 …; 3.0 …
    tanh(x); float64 torch; 1.2 torch reverse 0.3; …
    tanh(x); symbols; 0 symbols proof 1.75; 0 symbols proof 1.75; …
    std(x, 0); float64 condition; 0.32 eager rr tame; 1.2 compiled rf one large; …

with the worst error of the value and of three derivatives, the way it came about, and the argument.
The unit is one ulp, next to a zero times the condition (`truths.py`); of functions of vectors and
matrices it is ε times the condition, and instead of an argument there is a situation. An error of
symbols is 0 where a derivative is proven from formula and definition. The ledger is published, and
it is a ratchet: a row never gets worse.
"""

from __future__ import annotations

import datetime
import math
import multiprocessing
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import scipy

from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.testing.certificates import halves, matrices, symbolic, vectors
from adjoint.testing.certificates.measuring import Measured, measure
from adjoint.testing.certificates.rivals import RIVALS
from adjoint.testing.certificates.subjects import Subject, subjects

FREE = 4.0  # ulp: errors below this may change, for instance with the C library
SLACK = 1.5  # and others by this factor
Key = tuple[str, str]  # of a line: ("tanh(x)", "float64"); of a rival ("tanh(x)", "float64 jax")


class Worse(AdjointError, AssertionError):
    """A subject has larger errors than the ledger says."""


@record
class Entry:
    """The worst error of one order, over all ways."""

    error: float  # in ulp
    way: str  # "large reverse"
    at: float | str  # the argument, or the situation of a vector or matrix

    def __str__(self) -> str:
        return f"{self.error:.3g} {self.way} {self.at}"


Line = tuple[Entry, ...]  # one for each order
Certified = Subject | vectors.Function | matrices.Function


@cache
def everything() -> dict[str, Certified]:
    """All that is certified, by title: functions of numbers, of vectors and of matrices."""
    every = (*subjects(), *vectors.functions(), *matrices.functions())
    return {one.title: one for one in every}


def lines_of(measured: Measured) -> dict[Key, Line]:
    """The worst of each order, by our ways and by those of each rival."""
    found: dict[str, dict[int, Entry]] = {}
    for (way, order), cell in measured.worst.items():
        means = way.split()[0]
        what = f"{measured.dtype} {means}" if means in RIVALS else measured.dtype
        worst = found.setdefault(what, {})
        if order not in worst or cell.error > worst[order].error:
            worst[order] = Entry(cell.error, way, cell.at)
    return {
        (measured.subject, what): tuple(worst[order] for order in sorted(worst))
        for what, worst in found.items()
    }


def certify_all(
    chosen: Sequence[Certified],
    dtypes: Iterable[str],
    ways: Iterable[str],
    *,
    jobs: int,
    search: bool,
) -> Iterator[Measured]:
    """Measure subjects in several processes, in order."""
    tasks = [(one.title, dtype, tuple(ways), search) for one in chosen for dtype in dtypes]
    if jobs <= 1:
        yield from filter(None, map(_measured, tasks))
        return
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from filter(None, pool.map(_measured, tasks))


def _measured(task: tuple[str, str, tuple[str, ...], bool]) -> Measured | None:
    title, dtype, ways, search = task
    subject = everything()[title]
    if isinstance(subject, vectors.Function):
        return vectors.measure(subject, dtype, ways)
    if isinstance(subject, matrices.Function):
        return matrices.measure(subject, dtype, ways)
    if dtype == symbolic.SYMBOLS:
        return symbolic.measure(subject)
    if dtype in halves.HALVES:
        return halves.measure(subject, dtype, ways)
    return measure(subject, dtype, ways, search=search)


# -- the file --------------------------------------------------------------------------------------


def write(path: Path, lines: Mapping[Key, Line]) -> None:
    """Write a ledger; lines that were not measured now stay, if their subject still exists."""
    before = read(path) if path.exists() else {}
    order = {title: i for i, title in enumerate(everything())}
    kept = {key: line for key, line in before.items() if key[0] in order}
    every = kept | {**lines}
    keys = sorted(every, key=lambda key: (order[key[0]], key[1]))
    body = ["; ".join((*key, *map(str, every[key]))) for key in keys]
    path.write_text("\n".join([*(f"# {said}" for said in circumstances()), *body, ""]))


def circumstances() -> tuple[str, ...]:
    """The date, the processor and the libraries on which errors depend."""
    libc = " ".join(platform.libc_ver())
    return (
        "Worst errors of values, first, second and third derivatives: `make certify`.",
        "Unit: one ulp of the truth; closer to a zero than to 0 that times the condition.",
        f"{datetime.date.today()}, {_processor()}, {libc}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}",
    )


def _processor() -> str:
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in said.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def read(path: Path) -> dict[Key, Line]:
    """Read a ledger."""
    found: dict[Key, Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("#"):
            name, dtype, *cells = text.split("; ")
            found[name, dtype] = tuple(map(_entry, cells))
    return found


def _entry(text: str) -> Entry:
    error, means, mode, at = text.split(" ", 3)
    return Entry(float(error), f"{means} {mode}", _number(at))


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def worse(now: Line, before: Line) -> list[int]:
    """The orders whose errors are larger than the ledger allows."""
    return [
        order
        for order, (new, old) in enumerate(zip(now, before))
        if new.error > max(FREE, SLACK * old.error) and math.isfinite(old.error)
    ]


def counted(lines: Iterable[Line]) -> dict[str, list[int]]:
    """How many cells are within 4, 16 and 1000 ulp or beyond, for each order."""
    bounds = {"≤ 4": 4.0, "≤ 16": 16.0, "≤ 1000": 1000.0, "worse": math.inf}
    table: dict[str, list[int]] = {name: [0] * 4 for name in bounds}
    for line in lines:
        for order, entry in enumerate(line):
            name = next(name for name, bound in bounds.items() if entry.error <= bound)
            table[name][order] += 1
    return table

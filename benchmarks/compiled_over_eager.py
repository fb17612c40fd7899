"""Compiled programs of one operator over eager mode: every row of the table, value and gradient.

    python benchmarks/compiled_over_eager.py [PATTERN] [--size 1000 100000] [--limit 1.1]

The arguments are the samples of a row, enlarged: each tensor is repeated along all its dimensions,
or along the first or the last one, whichever the operator takes. Both ways run in one process in
turns, in processor time; the number of each is the least of its rounds. What no enlargement fits is
counted and named, as is what eager mode takes longer than a second for.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import math
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core import dtypes
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import jacobians, laws
from adjoint.testing.laws import Case
from adjoint.testing.laws.case import depends_on_values, detached

ROUNDS, SECONDS = 7, 0.004  # turns of each way, and how long one lasts at least
MORE = 3  # times as many rounds where the first ones are beyond the limit
MEMORY = 6 << 30  # bytes that the process may have: some matrices would fill the machine
SLOW = 1.0  # seconds of an eager call beyond which there is no measurement
Function = Callable[..., Any]

# -- enlarged samples ------------------------------------------------------------------------------


def repeated(array: Any, way: str, size: int) -> Any:
    """An array of some `size` elements, repeating an array; floats shrink by up to 0.1 %."""
    if not array.ndim or not array.size:
        return array
    factor = max(size / array.size, 1)
    if way == "every":
        counts = [max(round(factor ** (1 / array.ndim)), 1)] * array.ndim
    else:
        counts = [1] * array.ndim
        counts[0 if way == "first" else -1] = math.ceil(factor)
    found = np.tile(array, counts)
    if found.dtype.kind in "fc":
        found = found * (1 - 1e-3 * np.random.default_rng(0).uniform(size=found.shape))
    return found.astype(array.dtype)


def enlarged(value: Any, way: str, factor: float) -> Any:
    """Tensors with `factor` times as many elements, also in lists."""
    if isinstance(value, ad.Tensor):
        array = value.detach().numpy()
        made = ad.from_numpy(repeated(array, way, int(array.size * factor)))
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)([enlarged(v, way, factor) for v in value])
    return value


def large(case: Case, size: int) -> tuple[Any, ...] | None:
    """Arguments of some `size` elements that an operator takes; None if there are none."""
    most = elements(case.arguments)
    if not most:
        return None
    for way in ("every", "first", "last"):
        arguments = enlarged(case.arguments, way, size / most)
        try:
            if 2 * elements(arguments) < size:
                continue
            start = time.process_time()
            case.run(*map(detached, arguments))
        except Exception:  # a size that the operator refuses: the next way, then the report
            continue
        return arguments if time.process_time() - start < SLOW else None
    return None


# -- what is measured ------------------------------------------------------------------------------


def value_of(case: Case, arguments: tuple[Any, ...]) -> tuple[Function, list[Any]]:
    """An operator as a function of its tensors, and those."""
    tensors = tuple({id(t): t for t in jacobians.tensors_in(arguments)}.values())
    return jacobians.Call(case.run, arguments, tensors), [t.detach() for t in tensors]


def gradient_of(case: Case, arguments: tuple[Any, ...]) -> tuple[Function, list[Any]] | None:
    """The gradients of the sum of all results; None where there are none."""
    inputs = tuple({id(t): t for t in jacobians.Call.of(case.run, arguments).inputs}.values())
    outputs = jacobians.tensors_in(case.run(*arguments))
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted or not inputs:
        return None
    seeds = [ad.ones_like(outputs[k].detach()) for k in wanted]

    def gradients(given: Sequence[Any]) -> list[Any]:
        call = jacobians.Call(case.run, arguments, inputs)
        _, pull = ad.vjp(lambda *tensors: [call(tensors)[k] for k in wanted], *given)
        return list(pull(seeds))

    return gradients, [t.detach() for t in inputs]


def turn(call: Callable[[], Any]) -> float:
    """Seconds of one call, over as many calls as one turn needs."""
    count, start = 0, time.process_time()
    while True:
        call()
        count += 1
        passed = time.process_time() - start
        if passed > SECONDS:
            return passed / count


def measured(function: Function, tensors: list[Any], limit: float) -> tuple[float, float]:
    """Seconds of eager mode, and of the compiled program."""
    compiled = ad.compile(function)
    ways = (lambda: function(tensors), lambda: compiled(tensors))
    best = [math.inf, math.inf]
    for way in ways:
        way()
    for number in range(MORE * ROUNDS):
        if number >= ROUNDS and best[1] <= limit * best[0]:
            break
        best = [min(b, turn(way)) for b, way in zip(best, ways, strict=True)]
    return best[0], best[1]


def cases(row: Row, count: int) -> list[Case]:
    """The largest samples that eager mode takes and whose shapes do not depend on values."""
    try:
        found = laws.cases(row, dtypes.float64)
    except Exception:  # its samples need another dtype
        return []
    found.sort(key=lambda case: -elements(case.arguments))
    fitting = (case for case in found if fits(case))
    return list(itertools.islice(fitting, count))


def elements(arguments: tuple[Any, ...]) -> int:
    """The elements of the largest tensor."""
    return max((t.numel() for t in jacobians.tensors_in(arguments)), default=0)


def fits(case: Case) -> bool:
    """Whether eager mode takes a sample, and shapes do not depend on values."""
    try:
        case.run(*map(detached, case.arguments))
        return not depends_on_values(case)
    except Exception:  # a sample of an error, or of a dtype that the operator refuses
        return False


def sweep(
    rows: Iterable[Row], sizes: Sequence[int], count: int, limit: float
) -> Iterator[tuple[str, float, float]]:
    """(title, seconds of eager mode, seconds of compiled programs); 0 where nothing is measured."""
    for row in rows:
        for case in cases(row, count):
            for size in sizes:
                yield from both(case, size, limit)


def both(case: Case, size: int, limit: float) -> Iterator[tuple[str, float, float]]:
    """The measurements of a case at a size: its value, and its gradient if it has one."""
    title = f"{case.row.full_name} [{case.sample.name}] {size:,}"
    arguments = large(case, size)
    if arguments is None:
        yield title, 0.0, 0.0
        return
    with np.errstate(all="ignore"):
        try:
            yield title, *measured(*value_of(case, arguments), limit)
            found = gradient_of(case, arguments)
            if found is not None:
                yield f"gradient of {title}", *measured(*found, limit)
        except Exception as error:  # a tool goes on with the next operator, and says so
            print(f"{title}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)


def chosen(pattern: str, after: str) -> Iterator[Row]:
    """The operators of a name that stand after another one in the table."""
    rows = iter(TABLE.rows())
    if after:
        rows = itertools.islice(itertools.dropwhile(lambda r: r.full_name != after, rows), 1, None)
    for row in rows:
        if not row.random and row.family != "vendor" and fnmatch.fnmatch(row.full_name, pattern):
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*", help="operators: 'sort*'")
    parser.add_argument("--size", type=int, nargs="+", default=[1000, 30_000, 1_000_000])
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--samples", type=int, default=1, help="of each operator")
    parser.add_argument("--after", default="", help="the operator to go on after")
    given = parser.parse_args()
    rows = chosen(given.pattern, given.after)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found: list[tuple[float, str]] = []
    left: list[str] = []
    for title, eager, compiled in sweep(rows, given.size, given.samples, given.limit):
        if eager == 0:
            left.append(title)
            continue
        ratio = compiled / eager
        found.append((ratio, f"{ratio:8.2f} {eager * 1e6:12.1f} µs eager  {title}"))
        if ratio > given.limit:
            print(found[-1][1], flush=True)
    beyond = sorted((f for f in found if f[0] > given.limit), reverse=True)
    print(f"{len(found)} measured, {len(beyond)} beyond {given.limit}, {len(left)} not enlarged")
    print("\n".join(line for _, line in beyond))
    print("not enlarged:", ", ".join(left))


if __name__ == "__main__":
    main()

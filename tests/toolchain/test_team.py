"""The team runs every part of a task once, and its regions behave as OpenMP's."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from adjoint.core import threads
from adjoint.toolchain import build, discovery

pytestmark = [
    pytest.mark.skipif(
        "-fopenmp" not in getattr(discovery.toolchain(), "flags", ()), reason="needs OpenMP"
    ),
    pytest.mark.usefixtures("threads_restored"),
]

PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
SOURCE = f"""{threads.TEAM}
#ifdef _OPENMP
extern int omp_get_num_threads(void), omp_in_parallel(void);
#endif
void share(part_function *run, long parts, int members) {{ share_parts(run, 0, parts, members); }}
int is_within(void) {{ return omp_in_parallel(); }}

/* what each part of a region sees: its number, and how many there are */
void region(int wanted, int *numbers, int *counts) {{
#pragma omp parallel num_threads(wanted)
  {{
    const int number = omp_get_thread_num();
    numbers[number] = number;
    counts[number] = omp_get_num_threads();
  }}
}}

double halves(long count, int wanted) {{
  double total = 0;
#pragma omp parallel for num_threads(wanted) schedule(static) reduction(+ : total)
  for (long k = 0; k < count; k++) total += 0.5;
  return total;
}}
"""


def native() -> Any:
    library = build.library(SOURCE)
    library.halves.restype = ctypes.c_double
    return library


def share(run: Callable[[int, int], None], parts: int, members: int) -> None:
    """Share the parts of a task; `run` gets the number of a part and of who runs it."""
    native().share(PART(lambda _, part, member: run(part, member)), ctypes.c_long(parts), members)


@pytest.mark.parametrize("members", [1, 2, 5])
@pytest.mark.parametrize("parts", [1, 2, 16, 300])
def test_each_part_runs_once(parts: int, members: int) -> None:
    ran: list[tuple[int, int]] = []
    for _ in range(20):
        ran.clear()
        share(lambda part, member: ran.append((part, member)), parts, members)
        assert sorted(part for part, _ in ran) == [*range(parts)]
        assert {member for _, member in ran} <= {*range(members)}


def test_a_part_that_brings_a_task_runs_it_alone() -> None:
    ran: Counter[tuple[int, int]] = Counter()
    within: list[int] = []

    def outer(part: int, member: int) -> None:
        thread = threading.get_ident()

        def inner(other: int, _: int) -> None:
            assert threading.get_ident() == thread
            within.append(native().is_within())
            ran[part, other] += 1

        share(inner, 3, 4)

    share(outer, 4, 4)
    assert ran == Counter({(part, other): 1 for part in range(4) for other in range(3)})
    assert all(within)
    assert not native().is_within()


def test_callers_do_not_wait_for_the_tasks_of_others() -> None:
    """While one thread is in the middle of a task, another one brings many."""
    begun, may_end = threading.Event(), threading.Event()

    def waits(part: int, _: int) -> None:
        begun.set()
        assert may_end.wait(60)

    first = threading.Thread(target=share, args=(waits, 2, 2))
    first.start()
    assert begun.wait(60)
    ran: Counter[int] = Counter()
    for _ in range(50):
        share(lambda part, _: ran.update([part]), 4, 2)
    may_end.set()
    first.join(60)
    assert ran == Counter(dict.fromkeys(range(4), 50))


@pytest.mark.parametrize("wanted", [1, 2, 7])
def test_a_region_has_as_many_parts_as_it_asks_for(wanted: int) -> None:
    numbers, counts = (ctypes.c_int * wanted)(), (ctypes.c_int * wanted)()
    for _ in range(50):
        native().region(wanted, numbers, counts)
        assert [*numbers] == [*range(wanted)]
        assert [*counts] == [wanted] * wanted
        assert native().halves(ctypes.c_long(1001), wanted) == 500.5


BUSY = """
import os, sys
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
print("ready", flush=True)
while True:
    pass
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pins a process to a core")
def test_parts_run_once_while_another_process_takes_a_core() -> None:
    """Members lose their core in the middle of parts, and are moved between cores."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            for _ in range(300):
                assert native().halves(ctypes.c_long(200_000), 2) == 1e5
        finally:
            busy.kill()

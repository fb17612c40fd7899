"""The number of threads: for pieces of large arrays, C kernels, compiled programs, BLAS.

`threads()` is the number for Python's own threads. BLAS keeps a number of its own; OpenMP keeps one
for each thread that calls it, so our own C code asks a variable of its object. A loaded library is
`follow`ed: it is told the number whenever it changes. `lock()` makes the locks for everything that
threads share.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import ArgumentError

# Names of the functions that set a library's number of threads; NumPy's and SciPy's BLAS use
# different names, so that both can be in one process.
_OPENMP = "omp_set_num_threads"
_SETTERS = (
    _OPENMP,
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)
_VARIABLE, _LENT = "ad_threads", "ad_team"
# The first lines of each of our C sources. An OpenMP region says `num_threads(TEAM)`, and
# `share_parts` runs the parts of a task. Weak, since a source may be compiled in units.
#
# Note [Regions run on the team]: with WITH_TEAM, gcc's regions call the team of the process
# (toolchain/team.c) in place of libgomp, whose regions end only when each of its threads has had a
# core. The parts of a region may run one after the other, so a region has no barrier, no `single`,
# and no dynamic schedule; what other threads have written is read after its end.
TEAM = f"""#ifndef TEAM
typedef void part_function(void *task, long part, long member);
#ifdef _OPENMP
extern int omp_get_max_threads(void), omp_get_thread_num(void);
__attribute__((weak)) int {_VARIABLE}; /* 0: as many as OpenMP has by itself */
#define TEAM ({_VARIABLE} ? {_VARIABLE} : omp_get_max_threads())
#else
#define TEAM 1
#endif
#if defined(_OPENMP) && defined(WITH_TEAM) && defined(__GNUC__) && !defined(__clang__)
typedef struct {{
  void (*share)(part_function *, void *, long, long);
  void (*region)(void (*)(void *), void *, long);
  int (*part)(void), (*parts)(void), (*is_within)(void);
}} team_functions;
#define OURS __attribute__((weak, visibility("hidden")))
__attribute__((weak)) const team_functions *{_LENT};
OURS void GOMP_parallel(void (*run)(void *), void *given, unsigned parts, unsigned flags) {{
  (void)flags;
  {_LENT}->region(run, given, parts);
}}
OURS int omp_get_thread_num(void) {{ return {_LENT}->part(); }}
OURS int omp_get_num_threads(void) {{ return {_LENT}->parts(); }}
OURS int omp_in_parallel(void) {{ return {_LENT}->is_within(); }}
OURS void share_parts(part_function *run, void *task, long parts, int most) {{
  {_LENT}->share(run, task, parts, most);
}}
#else
static inline __attribute__((unused)) void
share_parts(part_function *run, void *task, long parts, int most) {{
#ifdef _OPENMP
#pragma omp parallel for num_threads(most) schedule(dynamic) if (parts > 1)
  for (long part = 0; part < parts; part++) run(task, part, omp_get_thread_num());
#else
  (void)most;
  for (long part = 0; part < parts; part++) run(task, part, 0);
#endif
}}
#endif
#endif"""
_ours: list[ctypes.c_int] = []  # the variables of followed libraries
_tell: dict[int, Any] = {}  # setters of followed libraries, by their address
_blas: set[str] = set()  # the BLAS libraries that are followed
_chosen: list[int] = []  # the number that a user set, if any
_forked: list[bool] = []  # holds True in a forked child, which has no team
_locks: weakref.WeakKeyDictionary[Any, Callable[[], object]] = weakref.WeakKeyDictionary()


def lock(freed: Callable[[], object] = lambda: None) -> Any:
    """A lock that one thread may take several times, and that is free in a forked child even if
    another thread held it: that thread does not exist in the child, and `freed` cleans up after it.

    >>> with (once := lock()), once:
    ...     print("taken twice")
    taken twice
    """
    made = threading.RLock()
    _locks[made] = freed
    return made


def threads() -> int:
    """The number of threads: as set, or $OMP_NUM_THREADS, or the number of our cores."""
    if _chosen:
        return _chosen[0]
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return cores()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(count: int) -> None:
    """Set the number of threads from now on, in every library that computes for us."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(
            f"set_num_threads: the number must be a positive integer, got {count!r}"
        )
    _chosen[:] = [count]
    _follow_blas()
    _say_all()


def follow_own(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tell one of our objects the number of threads that the user sets, now and later."""
    try:
        own = ctypes.c_int.in_dll(library, _VARIABLE)
    except ValueError:  # it shares no work
        return library
    _ours.append(own)
    own.value = _own_number()
    return library


def follow(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tell a library the number of threads that the user sets, now and later."""
    for name in _SETTERS:
        tell = getattr(library, name, None)
        if tell is not None:
            _tell[ctypes.cast(tell, ctypes.c_void_p).value or 0] = tell
            _say(tell)
    return library


def lend(library: ctypes.CDLL, team: Callable[[], int]) -> None:
    """Tell one of our objects the address of the team that shares its tasks."""
    try:
        place = ctypes.c_void_p.in_dll(library, _LENT)
    except ValueError:  # it has no tasks
        return
    place.value = team()


def _own_number() -> int:
    """The number of threads for our own code; 0 if none was set."""
    return 1 if _forked else _chosen[0] if _chosen else 0


def _say_all() -> None:
    for own in _ours:
        own.value = _own_number()
    for tell in _tell.values():
        _say(tell)


def _say(tell: Any) -> None:
    if _forked and tell.__name__ == _OPENMP:
        tell(1)
    elif _chosen:
        tell(_chosen[0])


def _after_fork() -> None:
    """In a forked child: compute with one thread, since the team and OpenMP would wait for the
    parent's threads (BLAS makes new ones), and free the locks of other threads.
    """
    for held, freed in list(_locks.items()):
        owned: Any = held
        if not owned._is_owned():
            owned._at_fork_reinit()
            freed()
    if _ours or any(tell.__name__ == _OPENMP for tell in _tell.values()):
        _forked[:] = [True]
        _say_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _follow_blas() -> None:
    """Find the BLAS libraries that NumPy and SciPy have loaded; only Linux lists them."""
    try:
        with open("/proc/self/maps") as file:
            paths = {line.rstrip("\n").partition("/")[2] for line in file if "blas" in line}
    except OSError:
        return
    for path in paths:
        if ".so" in path and path not in _blas:
            _blas.add(path)
            follow(ctypes.CDLL(f"/{path}"))

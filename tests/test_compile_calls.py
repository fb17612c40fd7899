"""Laws of calls of compiled functions that are interrupted, entered again, or forked away from: the
next call finds everything as it was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.program import POOLED, Program
from adjoint.native import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

LARGE = POOLED // 4 + 3  # float32 elements of a result whose memory is asked for in Python


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """What happens once when memory for a large result is asked for, in the middle of a call."""
    happens: list[Callable[[], Any]] = []
    pooled = Program.pooled

    def watched(self: Any, number: int, shape: Any, dtype: Any) -> Any:
        if happens:
            happens.pop()()
        return pooled(self, number, shape, dtype)

    monkeypatch.setattr(Program, "pooled", watched)
    return happens


def _raises(kind: type[BaseException]) -> Callable[[], Any]:
    def call() -> Any:
        raise kind

    return call


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_what_is_raised_in_the_middle_of_a_call_arrives_and_the_next_call_is_whole(
    asked: list[Callable[[], Any]], kind: type[BaseException]
) -> None:
    """By the long way and by the short one."""
    x = ad.ones(LARGE)
    compiled = ad.compile(lambda x: x + 1)
    for _ in range(4):
        asked.append(_raises(kind))
        with pytest.raises(kind):
            compiled(x)
        assert (compiled(x) == 2).all()
    assert compiled.entry[0] is not None


def test_a_call_may_happen_in_the_middle_of_another_one(asked: list[Callable[[], Any]]) -> None:
    """A handler of a signal or a finalizer runs between any two lines of Python."""
    x = ad.ones(LARGE)
    compiled = ad.compile(lambda x: x + 1)
    found: list[Any] = []
    for _ in range(4):
        asked.append(lambda: found.append(compiled(x * 5)))
        assert (compiled(x) == 2).all()
    assert len(found) == 4
    assert all((result == 6).all() for result in found)


def test_functions_that_a_program_calls_may_call_it() -> None:
    """Its memory is in use then, and grows while it is, where sizes stay open."""
    inner: list[Any] = []

    def host(values: Any) -> Any:
        if inner:
            inner.append(compiled(inner.pop()))
        return values

    def function(x: Any) -> Any:
        kept = x.exp().flip(0).cumsum(0)
        return ad.pure_callback(host, ad.ShapeDtype((2,), x.dtype), kept[:2]).sum() + kept

    compiled = ad.compile(function, dynamic={"x": 0})
    x = ad.arange(5.0)
    wanted = compiled(x)
    compiled(ad.arange(7.0))
    inner.append(ad.arange(30.0))
    np.testing.assert_array_equal(compiled(x).numpy(), wanted.numpy())
    (found,) = inner
    inner.clear()
    np.testing.assert_allclose(found.numpy(), function(ad.arange(30.0)).numpy(), 1e-6)


FORKED = """
import os, signal, threading
import adjoint as ad
compiled = ad.compile(lambda x: x + 1)
compiled(ad.ones(3))
((program, _),) = compiled.programs.values()
holds, ends = threading.Event(), threading.Event()
def runs():
    with program.lock:
        program.busy.value = 1
        holds.set()
        ends.wait()
other = threading.Thread(target=runs)
other.start()
holds.wait()
child = os.fork()
if not child:
    signal.alarm(30)  # nobody else would end it
    results = [compiled(ad.ones(3)) for _ in range(3)]
    os._exit(program.busy.value or not all((result == 2).all() for result in results))
ends.set()
other.join()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_does_not_wait_for_a_call_that_its_parent_was_in() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

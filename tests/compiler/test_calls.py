"""Laws of calls of compiled functions that are interrupted, entered again, or forked away from: the
next call finds everything as it was.
"""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.program import Program
from adjoint.compiler.targets.c import routines
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

LARGE = Program.pooled_from // 4 + 3  # floats of a result whose memory is asked for in Python


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


# -- tensors from outside

WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda t: t.add_(1),
    "view": lambda t: t[1:].mul_(3),
    "item": lambda t: t.__setitem__(0, 7.0),
    "copy_": lambda t: t.copy_(ad.arange(3.0)),
    "out": lambda t: ad.sin(t, out=t),
    "detached": lambda t: t.detach().zero_(),
}
USES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda t, x: x * t,
    "view": lambda t, x: x + t[:2].sum() * x + t.unsqueeze(0)[0],
    "body": lambda t, x: ad.scan(lambda c, s: (c * t + s, c), x[0], x)[0],
    "branch": lambda t, x: ad.cond(x.sum() > 0, lambda: x * t, lambda: x - t),
    "gradient": lambda t, x: ad.grad(lambda x: (x * x * t).sum())(x),
}


@pytest.mark.parametrize("options", [{}, {"dynamic": {"x": 0}}], ids=["closed", "open"])
@pytest.mark.parametrize("use", USES)
def test_a_write_to_a_tensor_from_outside_reaches_the_next_call(use: str, options: Any) -> None:
    """By the long way, the short one, and on the tape."""
    t, x = ad.ones(3), ad.arange(1.0, 7.0).reshape(2, 3)
    function = lambda x: USES[use](t, x)
    compiled = ad.compile(function, **options)
    for write in WRITES.values():
        for given in (x, x, x, x.clone().requires_grad_()):
            np.testing.assert_allclose(compiled(given).tolist(), function(given).tolist(), 1e-6)
        write(t)
    assert compiled.renewals == len(WRITES) - 1


def test_compiling_anew_for_tensors_from_outside_is_warned_of_once() -> None:
    t, x = ad.zeros(2), ad.ones(2)
    compiled = ad.compile(lambda x: x + t)
    found = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(12):
            found.append(compiled(x)[0].item())
            t.add_(1)
    assert found == [*range(1, 13)]
    (only,) = said
    assert "from outside change; pass them as arguments" in str(only.message)


# -- arrays that a function writes to

ARRAYS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: np.ones(4, np.float32),
    "strided": lambda: np.ones((4, 3))[::2, 1],
    "backwards": lambda: np.arange(4.0)[::-1],
    "turned": lambda: np.ones((2, 3)).T,
    "of the other byte order": lambda: np.ones(3, np.dtype(np.float64).newbyteorder()),
    "whole numbers": lambda: np.arange(3),
}


def _step(x: Any, w: Any) -> Any:
    x += w
    return x * 2


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_that_a_function_writes_to_are_changed_as_by_the_function(kind: str) -> None:
    mine, theirs = ARRAYS[kind](), ARRAYS[kind]()
    compiled = ad.compile(_step)
    for _ in range(3):
        found, wanted = compiled(mine, 3), _step(theirs, 3)
        np.testing.assert_array_equal(found.numpy(), wanted)
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("on_tape", [False, True])
def test_writes_to_arguments_that_share_memory_are_those_of_the_function(on_tape: bool) -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        x += y[:3] * 2
        return y * w

    bases = [np.arange(5.0), np.arange(5.0)]
    w = ad.ones(4, dtype=ad.float64).requires_grad_(on_tape)
    compiled = ad.compile(function)
    for run, base in zip((function, compiled), bases, strict=True):
        result = run(ad.from_numpy(base[:3]), ad.from_numpy(base[1:]), w)
        np.testing.assert_array_equal(result.detach().numpy(), base[1:])
    np.testing.assert_array_equal(*bases)


def test_arrays_that_may_only_be_read_are_not_written_to() -> None:
    first, second = np.ones(3), np.ones(3)
    second.flags.writeable = False

    def function(x: Any, y: Any) -> Any:
        x += 1
        y += 1
        return x

    with pytest.raises(ad.errors.InplaceError, match="may only be read"):
        ad.compile(function)(first, second)
    assert first.tolist() == second.tolist() == [1.0] * 3


# -- objects

CHANGES: dict[str, Callable[[Any], Any]] = {
    "number": lambda o: setattr(o, "factor", 5.0),
    "inside a dictionary": lambda o: o.table["shift"].append(3.0),
    "function": lambda o: setattr(o, "function", ad.exp),
    "another tensor": lambda o: setattr(o, "weight", ad.zeros(2)),
    "tensor": lambda o: o.weight.add_(1),
    "new attribute": lambda o: setattr(o, "more", 2.0),
}


class _Looking:
    def __init__(self) -> None:
        self.factor, self.table, self.function = 2.0, {"shift": [1.0]}, ad.sin
        self.weight, self.calls = ad.ones(2), 0

    def method(self, x: Any) -> Any:
        self.calls += 1
        x = self.function(x * self.weight) * self.factor + sum(self.table["shift"])
        return x * getattr(self, "more", 1.0)

    compiled = ad.compile(method)


@pytest.mark.parametrize("change", CHANGES)
def test_a_compiled_method_sees_what_changes_in_its_object(change: str) -> None:
    """What the method itself changes compiles nothing more."""
    it, x = _Looking(), ad.arange(2.0)
    for number in range(2):
        for _ in range(3):
            np.testing.assert_allclose(it.compiled(x).numpy(), it.method(x).numpy(), 1e-6)
        if not number:
            CHANGES[change](it)
    assert it.calls <= 6 + 3  # eager ones, and traces


def test_programs_for_many_attributes_are_warned_of_once() -> None:
    it, x = _Looking(), ad.ones(2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for number in range(12):
            it.factor = float(number)
            it.compiled(x)
    (only,) = said
    assert "for other attributes of self" in str(only.message)


def test_attributes_that_are_zeros_of_other_signs_are_other_programs() -> None:
    class Divides(ad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = 0.0

        def forward(self, x: Any) -> Any:
            return x / self.by

        @ad.compile
        def method(self, x: Any) -> Any:
            return x / self.by

    module = Divides()
    compiled = ad.compile(module)
    for zero in (0.0, -0.0, 0.0):
        module.by = zero
        for call in (compiled, module.method):
            assert call(ad.ones(2)).tolist() == [math.copysign(math.inf, zero)] * 2


def _in_itself() -> list[Any]:
    made: list[Any] = [1.0]
    made.append({"again": made, "tuple": (made,)})
    return made


def _nested(width: int, depth: int) -> list[Any]:
    made: list[Any] = [1.0]
    for _ in range(depth):
        made = [made] * width
    return [2.0, made]


KNOTS: dict[str, Callable[[], list[Any]]] = {
    "holds itself": _in_itself,
    "deep": lambda: _nested(1, 5000),
    "the same one again and again": lambda: _nested(2, 60),
    "wide": lambda: _nested(64, 12),
}


@pytest.mark.parametrize("knot", KNOTS)
def test_containers_in_attributes_may_hold_themselves(knot: str) -> None:
    class Holds:
        def __init__(self) -> None:
            self.table = KNOTS[knot]()

        @ad.compile
        def method(self, x: Any) -> Any:
            return x * self.table[0]

    it = Holds()
    for number in (it.table[0], 3.0, 4.0):
        it.table[0] = number
        assert it.method(ad.ones(2)).tolist() == [number] * 2


# -- calls that run eagerly after all

EAGERLY: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    "arrays that overlap": (lambda x, y: (x.add_(y), x.sin())[1], lambda m: (m[:4], m[2:])),
    "an array in two places": (lambda x, y: (x.mul_(2), y.sin())[1], lambda m: (m[:4], m[:4])),
    "an index out of range": (lambda x, i: x.sin()[i], lambda m: (m, np.array([7]))),
    "no factor": (lambda x: ad.linalg.cholesky(-x.diag()), lambda m: (m + 1,)),
}


@pytest.mark.parametrize("case", EAGERLY)
def test_a_function_that_runs_eagerly_gets_tensors_in_place_of_arrays(case: str) -> None:
    function, arguments = EAGERLY[case]
    compiled = ad.compile(function)

    def outcome(call: Any, as_given: Any) -> Any:
        memory = np.arange(6.0)
        try:
            found = call(*(as_given(a) for a in arguments(memory))).tolist()
        except Exception as error:
            found = type(error), str(error)
        return found, memory.tolist()

    wanted = outcome(function, ad.as_tensor)
    for _ in range(3):
        assert outcome(compiled, lambda a: a) == wanted
        assert outcome(compiled, ad.as_tensor) == wanted


def test_a_program_keeps_the_addresses_that_it_reads() -> None:
    """Of two threads that ask for them at the same time, one has an array of its own."""
    compiled, x = ad.compile(ad.linalg.solve), ad.eye(3, dtype=ad.float64)
    compiled(x, x)
    ((program, _),) = compiled.programs.values()
    addresses = weakref.ref(routines.addresses(program.code.host.routines))
    routines.addresses.cache_clear()
    gc.collect()
    assert addresses() is not None
    assert (compiled(x, x) == x).all()


FIRST = """
import threading
import adjoint as ad
starts, failures = threading.Barrier(4), []
x = ad.ones(3, 3, dtype=ad.float64)
def asks():
    starts.wait()
    try:
        (x @ x).softmax(0).cumsum(1)
        ad.linalg.solve(x + ad.eye(3, dtype=ad.float64), x.sort(0).values)
        ad.compile(lambda x: ad.linalg.inv(x + 2 * ad.eye(3, dtype=ad.float64)).sin())(x)
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=asks) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
raise SystemExit(str(failures) if failures else 0)
"""


def test_threads_may_be_the_first_to_ask_for_operators() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

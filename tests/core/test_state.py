"""Whatever happens in between, modes and transforms leave the state of their context as it was."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import forward_ad
from adjoint.core.state import State, current

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection")

Enter = Callable[[], AbstractContextManager[Any]]

MODES: dict[str, Enter] = {
    "no_grad": ad.no_grad,
    "enable_grad": ad.enable_grad,
    "inference_mode": ad.inference_mode,
    "inference_mode off": lambda: ad.inference_mode(False),
    "detect_anomaly": ad.autograd.detect_anomaly,
    "saved_tensors_hooks": lambda: ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "set_grad_enabled": lambda: ad.set_grad_enabled(False),
}


def fields(state: State) -> dict[str, Any]:
    return dict(state.__dict__)


def held(enter: Enter) -> Iterator[None]:
    """A generator that is inside a mode while it waits."""
    with enter():
        yield


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_generators_may_leave_modes_in_any_order(first: str, second: str) -> None:
    before = fields(current())
    for order in itertools.permutations(range(3)):
        waiting = [held(MODES[name]) for name in (first, second, first)]
        for generator in waiting:
            next(generator)
        for number in order:
            waiting[number].close()
        assert fields(current()) == before, order


def test_a_mode_that_ends_early_leaves_the_one_above_in_force() -> None:
    outer, inner = held(ad.no_grad), held(ad.enable_grad)
    next(outer)
    next(inner)
    outer.close()
    assert ad.is_grad_enabled()
    inner.close()
    assert ad.is_grad_enabled()


def test_a_mode_that_ends_gives_back_its_own_fields_only() -> None:
    with ad.no_grad():
        with ad.autograd.detect_anomaly():
            ad.set_grad_enabled(True)
        assert not ad.is_grad_enabled()  # anomaly mode sets recording too
        assert not ad.is_anomaly_enabled()
    assert ad.is_grad_enabled()


def test_a_mode_entered_in_another_thread_changes_nothing_when_it_ends_here() -> None:
    generator = held(ad.no_grad)
    thread = threading.Thread(target=lambda: next(generator))
    thread.start()
    thread.join()
    generator.close()
    assert ad.is_grad_enabled()


async def _sees(enter: Enter, expected: bool, turns: int) -> None:
    with enter():
        for _ in range(turns):
            await asyncio.sleep(0)
            assert ad.is_grad_enabled() is expected


def test_coroutines_have_modes_of_their_own() -> None:
    async def main() -> None:
        tasks = [_sees(ad.no_grad, False, n) for n in (5, 2, 9)]
        tasks += [_sees(ad.enable_grad, True, n) for n in (7, 1)]
        await asyncio.gather(*tasks)
        assert ad.is_grad_enabled()

    asyncio.run(main())
    assert ad.is_grad_enabled()


def test_modes_decorate_coroutines_and_asynchronous_generators() -> None:
    @ad.no_grad()
    async def one() -> bool:
        await asyncio.sleep(0)
        return ad.is_grad_enabled()

    closed: list[bool] = []

    @ad.no_grad()
    async def many() -> AsyncIterator[bool]:
        try:
            while True:
                try:
                    yield ad.is_grad_enabled()
                except KeyError:
                    yield ad.is_grad_enabled()
        finally:
            closed.append(ad.is_grad_enabled())

    async def main() -> None:
        assert not await one()
        generator: Any = many()
        assert not await anext(generator)
        assert not await generator.asend(None)
        assert not await generator.athrow(KeyError())
        assert ad.is_grad_enabled()
        await generator.aclose()

    asyncio.run(main())
    assert closed == [False]


def test_a_decorated_generator_passes_on_what_its_user_sends_throws_and_closes() -> None:
    seen: list[Any] = []

    @ad.no_grad()
    def steps() -> Any:
        try:
            seen.append((yield 1))
            try:
                yield 2
            except KeyError:
                seen.append(ad.is_grad_enabled())
                yield 3
        finally:
            seen.append("closed")

    generator = steps()
    assert next(generator) == 1
    assert generator.send("sent") == 2
    assert generator.throw(KeyError()) == 3
    generator.close()
    assert seen == ["sent", False, "closed"]
    assert ad.is_grad_enabled()


def test_forward_levels_of_coroutines_do_not_meet() -> None:
    async def tangent(scale: float) -> float:
        with forward_ad.dual_level():
            x = forward_ad.make_dual(ad.tensor(2.0), ad.tensor(scale))
            await asyncio.sleep(0)
            return forward_ad.unpack_dual(x * x).tangent.item()

    async def main() -> list[float]:
        return await asyncio.gather(*(tangent(s) for s in (1.0, 2.0, 3.0)))

    assert asyncio.run(main()) == [4.0, 8.0, 12.0]


# -- interrupts


def _f(x: Any) -> Any:
    return (x.sin() * x.exp()).sum()


def _compiled_once() -> None:
    with ad.no_grad(), ad.enable_grad():
        x = ad.ones(2, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        _f(x).backward()


X = ad.tensor([0.5, 1.5])

RUNS: dict[str, Callable[[], Any]] = {
    "grad": lambda: ad.grad(_f)(X),
    "hessian": lambda: ad.hessian(_f)(X),
    "vmap(grad)": lambda: ad.vmap(ad.grad(_f))(ad.ones(3, 2)),
    "jvp(grad)": lambda: ad.jvp(ad.grad(_f), (X,), (X,)),
    "backward in modes": _compiled_once,
    "trace": lambda: ad.trace(ad.grad(_f), X),
    "norm at 0": lambda: ad.hessian(lambda x: x.norm() ** 2)(ad.zeros(2)),
    "checkpoint": lambda: ad.grad(ad.checkpoint(_f))(X),
    "anomaly": lambda: _in_anomaly_mode(),
}


def _in_anomaly_mode() -> None:
    with ad.autograd.detect_anomaly(), ad.inference_mode(False), ad.set_grad_enabled(True):
        ad.grad(_f)(X)


class Interrupt:
    """Raises KeyboardInterrupt in the n-th function of ours that is called.

    Not while a block is entered or left: no block in Python survives an interrupt there. And not
    while an object is deleted: Python drops what is raised there.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        ours = frame.f_code.co_filename.startswith(("<adjoint", SOURCES))
        if event == "call" and ours and frame.f_code.co_name not in BOUNDARIES:
            self.number = max(self.number - 1, 0)
            if self.number == 0 and not _is_deleting(frame):
                raise KeyboardInterrupt
        return None


def _is_deleting(frame: Any) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


SOURCES = ad.__file__.rsplit("/", 1)[0]
BOUNDARIES = (
    "__enter__",
    "__exit__",
    "_enter",
    "_leave",
    "_without",
    "_take_back",
    "but",
    "<genexpr>",
)


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupt_leaves_the_state_as_it_was(name: str) -> None:
    run = RUNS[name]
    run()  # what is made on first use is there
    before = fields(current())
    number, finished = 1, False
    while not finished:
        trace = sys.gettrace()
        sys.settrace(Interrupt(number))
        try:
            run()
            finished = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(trace)
        assert fields(current()) == before, number
        number += 1 + number // 100  # every call at first, then fewer of the many that follow
    assert number > 20


def _raise_inside(modes: list[Enter]) -> None:
    with ExitStack() as stack:
        for enter in modes:
            stack.enter_context(enter())
        raise KeyError


def test_every_mode_gives_back_the_state_after_an_error() -> None:
    before = fields(current())
    for number in range(1, len(MODES) + 1):
        for names in itertools.combinations(MODES, number):
            with pytest.raises(KeyError):
                _raise_inside([MODES[name] for name in names])
            assert fields(current()) == before, names

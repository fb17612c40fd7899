"""The default dtype: of the process, of a block, and of programs that were made in one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DtypeError

WHOLE = ad.tensor([1, 2, 3])
CALLS: dict[str, Callable[[Any], Any]] = {
    "quotient": lambda x: x / 2,
    "function": lambda x: x.sin(),
    "function of a mask": lambda x: (x > 1).exp(),
    "times a number": lambda x: x * 1.5,
    "times a complex number": lambda x: x * 1j,
    "power": lambda x: 2.5**x,
    "drawn": lambda x: ad.rand(3) + x,
    "zeros": lambda x: ad.zeros(3) + x,
    "full": lambda x: ad.full((3,), 0.1) * x,
    "between": lambda x: ad.linspace(0, 1, 3) * x,
    "joined": lambda x: ad.cat([x, ad.ones(3)]),
    "chosen": lambda x: ad.where(x > 1, x, 0.1),
    "chosen of numbers": lambda x: ad.where(x > 1, 0.1, 0.2),
    "inside": lambda x: ad.cond(x.sum() > 0, lambda v: v / 3, lambda v: v * 0.1, x),
    "looped": lambda x: ad.scan(lambda c, v: (c + v / 7, c), 0.0, x)[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_programs_keep_the_default_that_they_were_made_with(name: str) -> None:
    f = CALLS[name]
    for made, run in ((ad.float64, ad.float32), (ad.float32, ad.float64)):
        with ad.default_dtype(made):
            graph = ad.trace(f, WHOLE)
            ad.manual_seed(3)
            expected = f(WHOLE)
        assert expected.dtype.to_real() is made
        with ad.default_dtype(run):
            ad.manual_seed(3)
            found = graph(WHOLE)
            assert found.dtype is expected.dtype
            np.testing.assert_array_equal(found, expected)
            again = ad.graph.parse(str(graph), graph.constants)
            assert again(WHOLE).dtype is expected.dtype


def test_a_compiled_function_has_a_program_for_each_default() -> None:
    f = ad.compile(lambda x: x / 3)
    for dtype in (ad.float64, ad.float32, ad.float64):
        with ad.default_dtype(dtype):
            for _ in range(3):  # the last ones by the short way
                assert f(WHOLE).dtype is dtype
    assert f(WHOLE).dtype is ad.float32


def test_a_block_inside_a_program_holds_there() -> None:
    def f(x: Any) -> Any:
        one = x / 3
        with ad.default_dtype(ad.float64):
            two = x / 3
        return one, two, x / 3

    for run in (f, ad.trace(f, WHOLE), ad.compile(f)):
        assert [t.dtype for t in run(WHOLE)] == [ad.float32, ad.float64, ad.float32]


def test_a_block_reaches_every_kind_of_new_tensor_and_ends() -> None:
    def dtypes() -> list[Any]:
        made = [ad.tensor(0.5), ad.tensor([1, 2.5]), ad.ones(2), ad.randn(2), WHOLE / 2]
        made += [ad.nn.Linear(2, 2).weight, ad.grad(ad.sin)(3.0), WHOLE.sqrt()]
        return [t.dtype for t in made]

    with ad.default_dtype(ad.float64):
        assert set(dtypes()) == {ad.float64}
        assert ad.tensor(1j).dtype is ad.complex128
        with ad.default_dtype("float32"):
            assert set(dtypes()) == {ad.float32}
        assert set(dtypes()) == {ad.float64}
    assert set(dtypes()) == {ad.float32}
    with pytest.raises(ZeroDivisionError), ad.default_dtype(ad.float64):
        ad.tensor(1 / 0)
    assert ad.get_default_dtype() is ad.float32


def test_a_block_is_of_one_thread_and_one_task() -> None:
    seen: list[Any] = []
    with ad.default_dtype(ad.float64):
        thread = threading.Thread(target=lambda: seen.append(ad.tensor(0.5).dtype))
        thread.start()
        thread.join()
    assert seen == [ad.float32]

    async def task(dtype: Any) -> Any:
        with ad.default_dtype(dtype):
            await asyncio.sleep(0)
            return ad.tensor(0.5).dtype

    async def both() -> Any:
        return await asyncio.gather(task(ad.float64), task(ad.float16))

    assert asyncio.run(both()) == [ad.float64, ad.float16]


def test_it_decorates_functions_and_generators() -> None:
    @ad.default_dtype(ad.float64)
    def rows() -> Any:
        yield ad.tensor(0.5).dtype
        yield ad.tensor(0.5).dtype

    found = rows()
    assert next(found) is ad.float64
    assert ad.tensor(0.5).dtype is ad.float32
    assert next(found) is ad.float64


def test_setting_the_default_in_a_block_holds_in_the_block_and_after_it() -> None:
    try:
        with ad.default_dtype(ad.float64):
            ad.set_default_dtype(ad.float16)
            assert ad.tensor(0.5).dtype is ad.float16
        assert ad.tensor(0.5).dtype is ad.float16
    finally:
        ad.set_default_dtype(ad.float32)


@pytest.mark.parametrize("wrong", [ad.int64, "complex64", None, "no dtype"])
def test_the_default_is_a_floating_point_dtype(wrong: Any) -> None:
    with pytest.raises(DtypeError):
        ad.default_dtype(wrong)


def test_a_backward_after_the_block_gives_gradients_of_the_dtype_inside() -> None:
    with ad.default_dtype(ad.float64):
        x = ad.tensor([0.1, 0.2], requires_grad=True)
        y = (x * 3).sin().sum()
    y.backward()
    assert x.grad.dtype is ad.float64
    np.testing.assert_allclose(x.grad, 3 * np.cos([0.3, 0.6]), rtol=1e-14)

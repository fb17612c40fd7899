"""An operator or a transform that raises keeps nothing alive."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import adjoint as ad
from adjoint.calls.dispatch import recover
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.ops.operator import operator
from adjoint.table import TABLE
from adjoint.testing import laws
from adjoint.testing.jacobians import tensors_in

Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "matmul": lambda x: x @ ad.ones(7, 7),
    "add": lambda x: x + ad.ones(7, 7),
    "index": lambda x: x[1000],
    "gather": lambda x: x.gather(0, ad.tensor([[1000]])),
    "write": lambda x: x.add_(ad.ones(7, 7)),
    "out=": lambda x: ad.add(x, 1, out=x[:1]),
    "singular": lambda x: ad.linalg.cholesky(-x),
    "keyword": lambda x: x.sum(nonsense=1),
    "attribute": lambda x: x.nonsense,
    "list": lambda x: ad.cat([x, ad.ones(7)]),
    "einsum": lambda x: ad.einsum("ij,jk", x, ad.ones(7, 7)),
    "item": lambda x: x.item(),
    "backward": lambda x: (x.requires_grad_() * 2).backward(),
    "hook": lambda x: _with_failing_hook(x),
}

TRANSFORMS: dict[str, Callable[[Call], Call]] = {
    "plainly": lambda f: f,
    "in grad": lambda f: ad.grad(f),
    "in vmap": lambda f: lambda x: ad.vmap(f)(x.unsqueeze(0)),
    "in jvp": lambda f: lambda x: ad.jvp(f, (x,), (ad.ones(3, 3),)),
    "in hessian": lambda f: ad.hessian(f),
    "in trace": lambda f: lambda x: ad.trace(f, x),
    "compiled": lambda f: ad.compile(f),
    "checkpointed": lambda f: ad.checkpoint(f),
}


def _with_failing_hook(x: Any) -> None:
    x.requires_grad_().register_hook(lambda grad: 1 / 0)
    (x * x).sum().backward()


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_kept_by(call: Call) -> bool:
    """Whether the argument of a call that raises outlives the error."""
    x = ad.ones(3, 3)
    reference = weakref.ref(x)
    failed = False
    try:
        call(x)
    except Exception:
        failed = True
    assert failed
    del x
    return reference() is not None


PAIRS = [(name, transform) for name in CALLS for transform in TRANSFORMS]
SUCCEED = [("gather", "in trace"), ("singular", "in trace")]  # depend on values


@pytest.mark.parametrize(("name", "transform"), [p for p in PAIRS if p not in SUCCEED])
def test_failed_calls_keep_nothing_alive(name: str, transform: str) -> None:
    call = TRANSFORMS[transform](CALLS[name])
    with without_collector():
        assert not is_kept_by(call)


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t != "in trace"])
def test_calls_that_succeed_keep_nothing_alive(transform: str) -> None:
    call = TRANSFORMS[transform](lambda x: (x * x.sin()).sum())
    call(ad.ones(3, 3))
    with without_collector():
        x = ad.ones(3, 3)
        reference = weakref.ref(x)
        call(x)
        del x
        assert reference() is None


def test_failed_operators_keep_nothing_alive() -> None:
    kept, failed = [], 0
    with without_collector(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in TABLE.rows():
            for case in laws.cases(row, dtypes.float64)[:1]:
                op = operator(row.schema.name, row.schema.overload)
                failures, alive = _spoilt(op, case.arguments)
                failed += failures
                if alive:
                    kept.append(row.full_name)
    assert failed > 500
    assert kept == []


def _spoilt(op: Any, arguments: tuple[Any, ...]) -> tuple[int, bool]:
    """Call with one argument after the other replaced; how many failed, what stayed alive."""
    failures, alive = 0, False
    for position in range(len(arguments)):
        for wrong in (ad.ones(7, 11, 13), "nonsense", object()):
            given = [_copy(a) for a in arguments]
            given[position] = wrong
            references = [weakref.ref(t) for t in tensors_in(given) if t is not wrong]
            try:
                op(*given)
            except Exception:
                failures += 1
            else:
                continue
            del given
            alive = alive or any(r() is not None for r in references)
    return failures, alive


def _copy(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_copy(v) for v in value)
    return value.detach().clone() if isinstance(value, ad.Tensor) else value


# -- errors of kernels are told in the library's words ---------------------------------------------


def test_an_error_of_a_kernel_in_backward_names_the_call() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    y = ad.ops._unreduce(x, (2**63,), (2, 3, 4), False)
    with pytest.raises(ValueRangeError, match=r"^sum\(.*9223372036854775808") as caught:
        y.backward(ad.ones_like(y))
    assert isinstance(caught.value.__cause__, OverflowError)
    assert any("in backward of UnreduceBackward0" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("size", [-1, -(2**63) - 1, 2**63, 10**30])
def test_a_size_that_cannot_be_is_refused_without_data(size: int) -> None:
    for pivots in (ad.empty(2, 3, device="meta"), ad.empty(0, 3, device="meta")):
        with pytest.raises(ShapeError, match="cannot have the shape|more bytes than can be"):
            ad.ops._linalg_permutation(pivots, size)


@pytest.mark.parametrize("error", [KeyError(16), OverflowError("too large"), ZeroDivisionError()])
def test_every_error_that_arithmetic_raises_has_a_documented_class(error: Exception) -> None:
    op = operator("sin")
    with pytest.raises(ValueRangeError, match=r"^sin\(float32\[2\]\): ") as caught:
        recover(op, error, (ad.ones(2),))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "x", [ad.ones(2, 3), ad.ones(2, 3).t(), ad.ones(0, 3)], ids=["whole", "strided", "empty"]
)
def test_a_sum_is_put_back_within_its_own_memory(x: ad.Tensor, keepdim: bool) -> None:
    shape = (1000, 1000) if keepdim else (10, 1000, 1000)
    with pytest.raises(ShapeError, match=r"^_unreduce\("):
        ad.ops._unreduce(x, (0,), shape, keepdim)


def test_a_list_that_holds_itself_is_refused_and_not_followed_for_ever() -> None:
    endless: list[object] = [1.0]
    endless.append(endless)
    for call in (lambda: ad.cat(endless), lambda: ad.ops.sum(endless), lambda: ad.mul(endless, 2)):
        with pytest.raises((TypeError, ValueError)):
            call()

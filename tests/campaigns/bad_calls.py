"""Bad calls over all operators: every outcome is a result or an error of the documented classes.

A case takes a good call of an operator (from the samples of its row, or made up from its schema)
and spoils it: other types, sizes, dtypes and dimensions, hostile objects, arguments too many or
missing. Nothing may hang, crash, use up the memory, raise an internal error, or change a mode.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NoReturn

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DEFAULT
from adjoint.core.errors import AdjointError
from adjoint.core.state import current
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import samples
from tests.campaigns import campaign

SECONDS = 10  # after which a call counts as hanging
MEMORY = 1 << 30  # bytes that a call may take
INTERNAL = (
    MemoryError, RecursionError, KeyError, AttributeError, ZeroDivisionError, OverflowError,
    SystemError, AssertionError, NameError, StopIteration, UnicodeError, NotImplementedError,
)  # fmt: skip
PUBLIC = (TypeError, ValueError, IndexError, RuntimeError)


class HostileError(Exception):
    """Raised by objects that do not want to be converted; it may pass through."""


class Hostile:
    """Looks like an array, a sequence and an integer, and is none of them."""

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise HostileError

    def __len__(self) -> int:
        return 3

    def __getitem__(self, _: Any) -> NoReturn:
        raise HostileError

    def __index__(self) -> NoReturn:
        raise HostileError


class Liar:
    """Answers with the wrong types."""

    ndim = "two"
    shape = None
    dtype = 3

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([None, "a"], object)

    def __len__(self) -> int:
        return 2**40

    def __index__(self) -> int:
        return -(2**70)


def _odd_address() -> Any:
    array = np.zeros(25, np.uint8)[1:].view(np.float64)
    array[...] = (0.5, 1.0, 2.0)
    return array


def _read_only() -> Any:
    array = np.array([0.5, 1.0, 2.0])
    array.flags.writeable = False
    return array


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


# Made anew for each case: calls may write to what they are given.
BAD: tuple[Callable[[], Any], ...] = (
    *(lambda v=v: v for v in (
        None, True, -1, 0, 1, 7, 2**31, 2**63, -(2**63) - 1, 10**30, -3.5, 0.0, 1e308, float("nan"),
        float("inf"), 1j, complex("nan"), "x", "", b"x", "sum", "float64", "float33", ad.float64,
        ad.int8, ad.bool, ad.complex64, float, np.float32, object, Ellipsis, slice(None), range(3),
        np.float64(2), np.int64(-5), np.bool_(True), np.longdouble(1), np.datetime64("2020-01-01"),
        np.str_("a"), (), (0,), (-1,), (2, -3), (2**40,), (2**62, 4), (1.5, 2), (None, 1), ("a",),
        (0, 0), (10**30, 2), lambda: None, NotImplemented, int,
    )),
    object, Hostile, Liar, dict, set, list, lambda: [None], lambda: [[1], [2, 3]], lambda: ["a"],
    lambda: [Hostile()], _endless, _odd_address, _read_only,
    lambda: np.array([1.0, 2.0, 3.0], ">f8"), lambda: np.zeros((0, 3)), lambda: np.array([None, 1]),
    lambda: np.array(["a"]), lambda: np.array(1 + 2j), lambda: np.zeros(2, np.longdouble),
    lambda: np.zeros(2, [("a", "f8")]), lambda: np.zeros((1,) * 40), lambda: np.uint16(7),
    lambda: np.ma.array([1.0, 2.0], mask=[True, False]), lambda: np.array([1, 2], np.uint64),
    lambda: ad.tensor([]), lambda: ad.tensor(2.0), lambda: ad.tensor(3), lambda: ad.tensor([1, -9]),
    lambda: ad.tensor([True, False]), lambda: ad.tensor([1j, 2.0]), lambda: ad.zeros(2, 0, 3),
    lambda: ad.ones(2, 3, dtype=ad.float16), lambda: ad.ones(3, 3, dtype=ad.bfloat16),
    lambda: ad.ones(2, 2, 2, 2, 2), lambda: ad.ones(1).expand(5), lambda: ad.ones(4, 4).t()[::2],
    lambda: ad.tensor([float("nan"), float("inf")], dtype=ad.float64), lambda: ad.ones(3).double(),
    lambda: ad.tensor([2**62], dtype=ad.int64), lambda: ad.ones(3, requires_grad=True),
    lambda: [ad.ones(2), None], lambda: [ad.ones(2), ad.ones(3, 3)], lambda: (ad.tensor([0]), 1),
    lambda: ad.eye(3).to_sparse(), lambda: ad.eye(3).double().to_sparse_csr(),
    lambda: ad.ones(2, 2, requires_grad=True).to_sparse(1),
    lambda: ad.empty(2, 3, device="meta"), lambda: ad.Generator(), lambda: np.random.default_rng(0),
)  # fmt: skip


@cache
def rows() -> list[Row]:
    return list(TABLE.rows())


class Case:
    """A call that was good before it was spoilt."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.row = self.random.choice(rows())
        self.args, self.keywords = self._good()
        self.told: list[str] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._spoil()
        self.way = self.random.choice((*[_eagerly] * 6, _recorded, *_WAYS))

    def _good(self) -> tuple[list[Any], dict[str, Any]]:
        dtype = self.random.choice((ad.float64, ad.float64, ad.complex128, ad.int64, ad.float32))
        found: list[Any] = []
        with contextlib.suppress(AdjointError):  # a sampler that has no sample in this dtype
            found = _samples(self.row.schema.name, self.row.schema.overload, dtype)
        if found and self.random.random() < 0.9:
            sample = self.random.choice(found)
            return [_copied(samples.whole(a)) for a in sample.args], {
                k: _copied(v) for k, v in sample.kwargs.items()
            }
        count = sum(not a.has_default for a in self.row.schema.arguments)
        return [ad.ones(3, 3, dtype=dtype) for _ in range(count)], {}

    def _spoil(self) -> None:
        draw = self.random.random()
        value = self.random.choice(BAD)()
        if draw < 0.7 and (self.args or self.keywords):
            place = self.random.randrange(len(self.args) + len(self.keywords))
            if place < len(self.args):
                self.args[place] = value
            else:
                self.keywords[list(self.keywords)[place - len(self.args)]] = value
        elif draw < 0.8:
            self.args.append(value)
        elif draw < 0.87 and self.args:
            self.args.pop(self.random.randrange(len(self.args)))
        else:
            names = [*self.row.schema.names, "out", "dtype", "generator", "dim", "nonsense", "self"]
            self.keywords[self.random.choice(names)] = value

    def call(self, *args: Any) -> Any:
        return operators.packet(self.row.schema.name)(*args, **self.keywords)

    def __str__(self) -> str:
        shown = [_shown(a) for a in self.args]
        shown += [f"{k}={_shown(v)}" for k, v in self.keywords.items()]
        name = self.row.schema.name
        return f"{self.way.__name__}: ad.ops.{name}({', '.join(shown)})"


@cache
def _samples(name: str, overload: str, dtype: Any) -> list[Any]:
    return [sample for sample, _ in samples.for_row(TABLE.row(name, overload), dtype)]


def _copied(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return value.detach().clone()
    return [_copied(v) for v in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    if isinstance(value, ad.Tensor):
        return f"<tensor {value.dtype.name}{list(value.shape)}>"
    if isinstance(value, np.ndarray):
        return f"<array {value.dtype}{list(value.shape)}>"
    try:
        return repr(value)[:60]
    except Exception:  # a hostile object does not even want to be shown
        return f"<{type(value).__name__}>"


# -- ways to call ----------------------------------------------------------------------------------


def _eagerly(case: Case) -> None:
    case.call(*case.args)


def _recorded(case: Case) -> None:
    """With gradients wanted, and taken."""
    args = [
        a.requires_grad_() if isinstance(a, ad.Tensor) and a.dtype.is_differentiable else a
        for a in case.args
    ]
    result = case.call(*args)
    for leaf in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(leaf, ad.Tensor) and leaf.requires_grad:
            leaf.backward(ad.ones_like(leaf), retain_graph=True)


def _mapped(case: Case) -> None:
    ad.vmap(case.call, randomness="different")(*case.args)


def _traced(case: Case) -> None:
    ad.trace(case.call, *case.args)


def _with_tangents(case: Case) -> None:
    tensors = [a for a in case.args if isinstance(a, ad.Tensor) and a.dtype.is_differentiable]
    ad.jvp(lambda *_: case.call(*case.args), tuple(tensors[:1]), tuple(tensors[:1]))


_WAYS = (_mapped, _traced, _with_tangents)


# -- the check -------------------------------------------------------------------------------------


class Hangs(BaseException):
    """A call took too long; no handler of ours catches it."""


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Bound the time and the memory of a call."""

    def late(*_: Any) -> NoReturn:
        raise Hangs

    before = signal.signal(signal.SIGALRM, late)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _state() -> tuple[Any, ...]:
    return (current(), DEFAULT.dtype, tuple(sorted(np.geterr().items())), len(warnings.filters))


def check(seed: int) -> int:
    case = Case(seed)
    before = _state()
    told = str(case)
    problem = ""
    try:
        with warnings.catch_warnings(), _limits():
            warnings.simplefilter("ignore")
            case.way(case)
    except Hangs:
        problem = "hangs"
    except (AdjointError, HostileError):
        pass
    except Exception as error:
        if isinstance(error, INTERNAL) or not isinstance(error, PUBLIC):
            problem = f"raises {type(error).__name__}: {str(error)[:200]}"
            raise AssertionError(f"{told}\n  {problem}") from error
    assert not problem, f"{told}\n  {problem}"
    assert _state() == before, f"{told}\n  leaves another state: {before} -> {_state()}"
    return 1


if __name__ == "__main__":
    faulthandler.enable()
    campaign.main(check)

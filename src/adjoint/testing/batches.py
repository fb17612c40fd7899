"""Batches of samples, and the law that `vmap` equals a loop over them.

Each tensor of a sample is perturbed into a few copies: floating point ones are scaled, which keeps
ties, zeros and domains; indices and masks change places. `compare` maps a function over the stacked
copies in several ways, and holds the results against those of one call for each copy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

import adjoint as ad
from adjoint.core.errors import ShapeError
from adjoint.core.records import record
from adjoint.testing.jacobians import Array, array_of, tensor_of

FACTORS = (1.0, 0.96, 1.04, 0.98, 1.02)  # of the copies; five, a size that samples do not have

Function = Callable[..., Sequence[ad.Tensor]]
Close = Callable[[str, Array, Array], None]


@record
class Way:
    """How a function is mapped."""

    name: str  # "all arguments"
    chosen: tuple[bool, ...]  # which tensors have a batch
    axis: int  # where

    @property
    def in_dims(self) -> tuple[int | None, ...]:
        return tuple(self.axis if c else None for c in self.chosen)


def ways(count: int) -> Iterator[Way]:
    """All tensors mapped, in front and at the end; and if there are several, each side alone."""
    yield Way("all arguments", (True,) * count, 0)
    yield Way("all arguments, the batch last", (True,) * count, -1)
    if count > 1:
        yield Way("the first argument", (True, *(False,) * (count - 1)), 0)
        yield Way("all arguments but the first", (False, *(True,) * (count - 1)), 0)


def copies(array: Array, vary: str = "biufcV") -> list[Array]:
    """A few arrays like this one, with other values if `vary` has the letter of its dtype."""
    if array.dtype.kind not in vary:
        return [array.copy() for _ in FACTORS]
    if array.dtype.kind in "biu":
        return [np.roll(array.reshape(-1), k).reshape(array.shape) for k in range(len(FACTORS))]
    with np.errstate(all="ignore"):
        return [np.asarray(array * array.dtype.type(f)) for f in FACTORS]


def batches_of(function: Function, tensors: Sequence[ad.Tensor]) -> list[list[Array]] | None:
    """The copies of each tensor, such that the function accepts them; None if it takes none."""
    arrays = [array_of(t) for t in tensors]
    for vary in ("biufcV", "fcV", ""):  # some indices must stay in order
        batches = [copies(a, vary) for a in arrays]
        try:
            for k in range(len(FACTORS)):
                function(*[tensor_of(b[k]) for b in batches])
        except Exception:
            continue
        return batches
    return None


def loop(function: Function, batches: list[list[Array]], way: Way) -> list[Array]:
    """One call for each copy, and the results stacked."""
    results = [
        function(*[tensor_of(b[k if c else 0]) for b, c in zip(batches, way.chosen, strict=True)])
        for k in range(len(FACTORS))
    ]
    return [np.stack([array_of(t) for t in column]) for column in zip(*results, strict=True)]


def mapped(function: Function, batches: list[list[Array]], way: Way) -> list[Array]:
    """One call of vmap."""
    inputs = [
        tensor_of(np.stack(b, way.axis)) if c else tensor_of(b[0])
        for b, c in zip(batches, way.chosen, strict=True)
    ]
    run = ad.vmap(lambda *t: tuple(function(*t)), in_dims=way.in_dims, randomness="same")
    return [array_of(t) for t in run(*inputs)]


def nested(function: Function, batches: list[list[Array]]) -> list[Array]:
    """vmap inside vmap, the first tensor mapped by the inner one alone."""
    count = len(batches)
    inputs = [tensor_of(np.stack(b)) for b in batches]
    inner = ad.vmap(
        lambda *t: tuple(function(*t)), in_dims=(0, *(None,) * (count - 1)), randomness="same"
    )
    dims = (None, *(0,) * (count - 1)) if count > 1 else (None,)
    if count == 1:
        return [array_of(t)[None] for t in inner(*inputs)]
    return [array_of(t) for t in ad.vmap(inner, in_dims=dims, randomness="same")(*inputs)]


def nested_loop(function: Function, batches: list[list[Array]]) -> list[Array]:
    """The loop that `nested` should equal."""
    outer = range(len(FACTORS)) if len(batches) > 1 else range(1)
    rows = []
    for j in outer:
        fixed = [batches[0], *([b[j]] * len(FACTORS) for b in batches[1:])]
        rows.append(loop(function, fixed, Way("nested", (True,) * len(batches), 0)))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def compare(
    title: str, function: Function, tensors: Sequence[ad.Tensor], close: Close, *,
    keep: Callable[[Way], bool] = lambda way: True, twice: bool = False, is_view: bool = False,
) -> None:  # fmt: skip
    """Raise AssertionError unless vmap of a function equals the loop, in every way that is kept.

    `is_view` says that some layouts in memory may be refused.
    """
    if not tensors:
        return
    batches = batches_of(function, tensors)
    if batches is None:
        return
    for way in filter(keep, ways(len(tensors))):
        with _refusals(is_view and way.name != "all arguments"):
            got = mapped(function, batches, way)
            _equal(f"{title}: vmap over {way.name}", got, loop(function, batches, way), close)
    if twice:
        with _refusals(is_view):
            _equal(
                f"{title}: vmap of vmap",
                nested(function, batches),
                nested_loop(function, batches),
                close,
            )


@contextmanager
def _refusals(allowed: bool) -> Generator[None]:
    try:
        yield
    except ShapeError:
        if not allowed:
            raise


def _equal(what: str, got: list[Array], expected: list[Array], close: Close) -> None:
    assert len(got) == len(expected), f"{what} gives {len(got)} results, the loop {len(expected)}"
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        close(f"{what} differs from the loop in result {number}", a, b)

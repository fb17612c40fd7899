"""Laws of sweeps: what runs block by block of rows gives what the steps give one after the other,
for any number of rows and threads, and keeps no whole arrays between its steps.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import lower
from adjoint.compiler.sweeps import Sweep
from adjoint.toolchain import build
from tests.compiler.test_programs import assert_same, make
from tests.targets import target_with, use_target

pytestmark = [
    pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler"),
    pytest.mark.usefixtures("float64_by_default"),
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps over any number of rows, in blocks of a few; small products are calls, too."""
    monkeypatch.setattr(lower, "is_small", lambda node, target: False)
    few = {"worth": 0, "rows": (3, 6), "summed": 3, "reduced": 1 << 20}
    use_target(monkeypatch, target_with(sweeping=few))


def mixture(x: Any, means: Any, factors: Any, weights: Any) -> Any:
    """The log likelihood of a mixture of Gaussians: rows of products, loops, sums of products."""
    count, size = means.shape
    z = (x @ factors.reshape(count * size, size).T).reshape(-1, count, size)
    z = z - (factors @ means[:, :, None])[:, :, 0]
    return ad.logsumexp(weights - 0.5 * (z * z).sum(2), 1).sum()


def mixture_by_einsum(x: Any, means: Any, factors: Any, weights: Any) -> Any:
    """The same as people write it: a batch of products, whose rows are its second dimension."""
    z = ad.einsum("kij,nkj->nki", factors, x[:, None] - means)
    return ad.logsumexp(weights - 0.5 * (z * z).sum(2), 1).sum()


def heads(x: Any, a: Any, b: Any) -> Any:
    """Products in a batch, one after the other, and of the first result's last rows."""
    hidden = ad.tanh(ad.einsum("nhd,hde->nhe", x, a))
    return (ad.einsum("nhe,hef->nhf", hidden, b) ** 2).mean() + (hidden * x[:, :1, :1]).sum()


def regression(x: Any, w: Any, b: Any, y: Any) -> Any:
    return ad.nn.functional.softplus(-y * (x @ w + b)).mean()  # of several classes


def two_layers(x: Any, a: Any, b: Any, c: Any) -> Any:
    hidden = ad.tanh(x @ a)
    return ((ad.sigmoid(hidden @ b) @ c) ** 2).sum() + hidden.amax()


def rows_that_leave(x: Any, a: Any, b: Any) -> Any:
    hidden = ad.sin(x @ a)
    return ((hidden @ b) ** 2).sum(1).cos().sum(), hidden


def swept(stages: Any) -> list[Sweep]:
    return [step for step in stages.layout.steps if isinstance(step, Sweep)]


PROGRAMS = {
    "mixture": (mixture, lambda n: (make(n, 3), make(4, 3), make(4, 3, 3), make(4))),
    "mixture by einsum": (
        mixture_by_einsum,
        lambda n: (make(n, 3), make(4, 3), make(4, 3, 3), make(4)),
    ),
    "heads": (heads, lambda n: (make(n, 2, 3), make(2, 3, 5), make(2, 5, 4))),
    "regression": (
        regression,
        lambda n: (make(n, 5), make(5, 3), make(3), ad.sign(make(n, 1))),
    ),
    "two layers": (two_layers, lambda n: (make(n, 6), make(6, 20), make(20, 30), make(30, 2))),
}


@pytest.mark.usefixtures("small", "threads_restored")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_rows_give_what_whole_arrays_give(name: str, threads: int) -> None:
    function, arguments = PROGRAMS[name]
    gradient = ad.value_and_grad(function, argnums=tuple(range(1, len(arguments(1)))))
    ad.set_num_threads(threads)
    compiled = ad.compile(gradient)
    for rows in (29, 24, 31):  # the second and third size: one program with an open size
        assert_same(compiled(*arguments(rows)), gradient(*arguments(rows)))
    assert swept(compiled.lower(*arguments(29))), "nothing was swept"


@pytest.mark.usefixtures("small")
def test_rows_that_others_need_are_kept_whole() -> None:
    arguments = make(40, 3), make(3, 4), make(4, 2)
    compiled = ad.compile(rows_that_leave)
    assert_same(compiled(*arguments), rows_that_leave(*arguments))
    (sweep,) = swept(compiled.lower(*arguments))
    kept = {v.node.op.name for v in sweep.local if v.node is not None}
    assert "sin" not in kept


def test_large_arrays_between_products_take_no_memory() -> None:
    n = 20_000
    arguments = make(n, 3), make(8, 3), make(8, 3, 3), make(8)
    gradient = ad.compile(ad.value_and_grad(mixture, argnums=(1, 2, 3)))
    stages = gradient.lower(*arguments)
    assert swept(stages)
    assert stages.layout.size < n * 24 * 8, "z lies in memory as a whole"
    expected = ad.value_and_grad(mixture, argnums=(1, 2, 3))(*arguments)
    assert_same(gradient(*arguments), expected)


def test_a_batch_of_products_takes_no_memory_between_its_steps() -> None:
    n = 20_000
    arguments = make(n, 3), make(8, 3), make(8, 3, 3), make(8)
    gradient = ad.value_and_grad(mixture_by_einsum, argnums=(1, 2, 3))
    compiled = ad.compile(gradient)
    stages = compiled.lower(*arguments)
    assert swept(stages)
    assert stages.layout.size < n * 24 * 8, "z, or x - means, lies in memory as a whole"
    assert_same(compiled(*arguments), gradient(*arguments))


def test_products_that_do_much_stay_alone() -> None:
    arguments = make(2000, 300), make(300, 40), make(40, 2)
    stages = ad.compile(rows_that_leave).lower(*arguments)
    assert not swept(stages)


def chain(seed: int) -> Any:
    """A random function of rows: products, loops, sums, and what others need of its rows."""
    draw = random.Random(seed)
    names = [draw.choice(CHAINED) for _ in range(6)]

    def function(x: Any, *weights: Any) -> Any:
        kept, total = x, 0.0
        for name, weight in zip(names, weights, strict=True):
            match name:
                case "product":
                    x = x @ weight
                case "tanh":
                    x = ad.tanh(x) * weight[0]
                case "softmax":
                    x = ad.softmax(x, 1) + weight.mean()
                case "centred":
                    x = x - x.mean(1, keepdim=True) * weight[0, 0]
                case "of columns":
                    total = total + (x * x).sum(0).sin().sum()
                case "batch":
                    halves = x.reshape(x.shape[0], 2, -1)
                    x = ad.einsum("nhd,hde->nhe", halves, weight.reshape(2, 2, -1)[:, :, :2])
                    x = x.flip(1).reshape(x.shape[0], -1)
                case "over all rows":
                    x = x * (1 + 0.01 * x.amax())
                case "split":
                    x = (x.reshape(x.shape[0], -1, 2) ** 2).sum(2).repeat_interleave(2, 1)
                case _:
                    x = x + kept * 0.5
        return total + ((x @ weights[0]) ** 2).mean()

    width = 4
    rows = draw.choice((26, 37, 60))
    return function, (make(rows, width, seed=seed), *(make(width, width, seed=k) for k in range(6)))


CHAINED = (
    "product", "product", "batch", "tanh", "softmax", "centred", "of columns", "over all rows",
    "split", "residual",
)  # fmt: skip


@pytest.mark.usefixtures("small")
def test_random_chains_in_sweeps() -> None:
    found = 0
    for first in range(0, 24, 8):  # eight functions in one program
        parts = [chain(seed) for seed in range(first, first + 8)]

        def every(given: Any, parts: Any = parts) -> Any:
            gradients = (ad.value_and_grad(f, argnums=range(7)) for f, _ in parts)
            return [g(*a) for g, a in zip(gradients, given, strict=True)]

        given = [arguments for _, arguments in parts]
        compiled = ad.compile(every)
        assert_same(compiled(given), every(given))
        found += len(swept(compiled.lower(given)))
    assert found >= 5

"""The gradient of a program as native code: its loops, its costs, its speed, and sizes that vary.

python examples/compiled.py
"""

import time
from collections.abc import Callable
from typing import Any

import adjoint as ad

ad.set_default_dtype(ad.float64)
ad.manual_seed(0)


def loss(weights: ad.Tensor, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    """A logistic regression with a little weight decay."""
    score = x @ weights
    return ad.logaddexp(ad.zeros_like(score), -y * score).mean() + 0.01 * (weights**2).sum()


def milliseconds(function: Callable[..., Any], *args: Any) -> float:
    """The best of some calls, after one that compiles."""
    function(*args)
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        function(*args)
        best = min(best, time.perf_counter() - started)
    return best * 1e3


weights, x = ad.randn(10), ad.randn(50_000, 10)
y = ad.sign(x @ ad.linspace(-1.0, 1.0, 10))

slow = ad.value_and_grad(loss)
fast = ad.compile(slow)  # forward and backward share their loops

stages = fast.lower(weights, x, y)
print("steps of the program:")
for line in str(stages).splitlines():
    if line.startswith(("#   loop", "#   library", "#   calls back")):
        print(line.strip("# "))
print("one call:", stages.cost())
print("compiling took", {stage: f"{s * 1e3:.0f} ms" for stage, s in stages.seconds.items()})

value, gradient = fast(weights, x, y)
expected, other = slow(weights, x, y)
print("largest difference from eager mode:", abs(gradient - other).max().item())

eager, native = milliseconds(slow, weights, x, y), milliseconds(fast, weights, x, y)
print(f"eager {eager:.2f} ms, compiled {native:.2f} ms: {eager / native:.1f} times as fast")

for _ in range(20):
    value, gradient = fast(weights, x, y)
    weights = weights - 0.5 * gradient
print("loss after 20 steps:", round(value.item(), 4))

any_batch = ad.compile(slow, dynamic={"x": 0, "y": 0})  # one program for batches of every size
for size in (64, 1000, 5000):
    value, _ = any_batch(weights, x[:size], y[:size])
    print(f"loss of a batch of {size}:", round(value.item(), 4))

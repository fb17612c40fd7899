"""What an operator costs in eager mode: adjoint, PyTorch and HIPS autograd in one run.

Each tool lives in a worker process of its own; see `harness` for how the rounds run.

    python benchmarks/eager_overhead.py [--rounds 15] [--tools adjoint,torch]

Prints a table and writes benchmarks/results/eager_overhead.{md,json}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Benchmark, Task, main

ROUNDS_OF_CHAIN = 10
OPERATORS = 5 * ROUNDS_OF_CHAIN

# name -> (operators in one call, unit)
TASKS: dict[str, tuple[int, str]] = {
    "forward, vectors of 10": (OPERATORS, "µs per operator"),
    "forward, vectors of 1000": (OPERATORS, "µs per operator"),
    "forward and backward, vectors of 10": (OPERATORS + 1, "µs per operator"),
    "forward and backward, vectors of 1000": (OPERATORS + 1, "µs per operator"),
    "training step of an MLP, 64×32-32-10": (1, "µs per step"),
}


# --- what is measured, written once for all tools ------------------------------------------------


def chain(xp: Any, x: Any, a: Any, b: Any) -> Any:
    """Fifty operators of the five kinds; values stay bounded."""
    for _ in range(ROUNDS_OF_CHAIN):
        x = xp.exp(xp.sin(xp.tanh(x * a) + b))
    return x


def mlp_loss(xp: Any, parameters: Any, inputs: Any, targets: Any) -> Any:
    """Cross entropy of a network with one hidden layer."""
    w1, b1, w2, b2 = parameters
    logits = xp.tanh(inputs @ w1 + b1) @ w2 + b2
    total = xp.log(xp.exp(logits).sum(1))
    return (total - (logits * targets).sum(1)).mean()


def vectors(size: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    return tuple(generator.uniform(0.5, 1.5, size).astype(np.float32) for _ in range(3))


def network() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    shapes = ((32, 32), (32,), (32, 10), (10,))
    parameters = [(0.1 * generator.standard_normal(s)).astype(np.float32) for s in shapes]
    inputs = generator.standard_normal((64, 32)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[generator.integers(0, 10, 64)]
    return parameters, inputs, targets


# --- the tools -------------------------------------------------------------------------------


def tape_tasks(xp: Any, tensor: Callable[[np.ndarray], Any]) -> dict[str, Task]:
    """Tasks of a tool with tensors and `backward`: adjoint and PyTorch."""
    tasks: dict[str, Task] = {}
    for size in (10, 1000):
        x, a, b = map(tensor, vectors(size))
        leaf = tensor(vectors(size)[0]).requires_grad_()

        def forward(x: Any = x, a: Any = a, b: Any = b) -> Any:
            return chain(xp, x, a, b)

        def both(leaf: Any = leaf, a: Any = a, b: Any = b) -> Any:
            leaf.grad = None
            chain(xp, leaf, a, b).sum().backward()
            return leaf.grad

        tasks[f"forward, vectors of {size}"] = forward
        tasks[f"forward and backward, vectors of {size}"] = both
    arrays, inputs, targets = network()
    parameters = [tensor(p).requires_grad_() for p in arrays]
    data = tensor(inputs), tensor(targets)

    def step() -> Any:
        loss = mlp_loss(xp, parameters, *data)
        loss.backward()
        with xp.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
                p.grad = None
        return loss

    tasks["training step of an MLP, 64×32-32-10"] = step
    return tasks


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad

    return tape_tasks(ad, ad.tensor)


def torch_tasks() -> dict[str, Task]:
    import torch

    torch.set_num_threads(1)
    return tape_tasks(torch, torch.tensor)


def autograd_tasks() -> dict[str, Task]:
    import autograd
    import autograd.numpy as anp

    tasks: dict[str, Task] = {}
    for size in (10, 1000):
        x, a, b = vectors(size)
        gradient = autograd.grad(lambda x, a=a, b=b: anp.sum(chain(anp, x, a, b)))
        tasks[f"forward, vectors of {size}"] = lambda x=x, a=a, b=b: chain(anp, x, a, b)
        tasks[f"forward and backward, vectors of {size}"] = lambda x=x, g=gradient: g(x)
    parameters, inputs, targets = network()

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        logits = anp.dot(anp.tanh(anp.dot(inputs, w1) + b1), w2) + b2
        total = anp.log(anp.sum(anp.exp(logits), 1))
        return anp.mean(total - anp.sum(logits * targets, 1))

    both = autograd.value_and_grad(loss)

    def step() -> Any:
        value, gradients = both(parameters)
        for p, g in zip(parameters, gradients, strict=True):
            p -= np.float32(0.01) * g
        return value

    tasks["training step of an MLP, 64×32-32-10"] = step
    return tasks


MAKERS = {"adjoint": adjoint_tasks, "torch": torch_tasks, "autograd": autograd_tasks}


BENCHMARK = Benchmark(__file__, (__doc__ or "").split("\n")[0], TASKS, MAKERS)

if __name__ == "__main__":
    main(BENCHMARK)

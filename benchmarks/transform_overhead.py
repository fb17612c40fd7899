"""What a transform costs: adjoint, torch.func and JAX without jit in one run.

The function is small (four operators on vectors of 10), so nearly all of the time is overhead. Each
tool lives in a worker process of its own; see `harness` for how the rounds run.

    python benchmarks/transform_overhead.py [--rounds 15] [--tools adjoint,torch]

Prints a table and writes benchmarks/results/transform_overhead.{md,json}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Benchmark, Task, main

SIZE, BATCH = 10, 4
TASKS: dict[str, tuple[int, str]] = dict.fromkeys(
    (
        "f(x)",
        "grad(f)(x)",
        "value_and_grad(f)(x)",
        "grad(f) of a dict of two",
        "vjp(f, x) and its pullback",
        "jvp(f, (x,), (v,))",
        "grad(grad) of a scalar",
        "vmap(f)(xs)",
        "vmap(grad(f))(xs)",
        "jvp(grad(f), (x,), (v,))",
        "jacrev(g)(x)",
        "hessian(f)(x)",
    ),
    (1, "µs per call"),
)


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x, v = (generator.uniform(0.5, 1.5, SIZE).astype(np.float32) for _ in range(2))
    return x, v, generator.uniform(0.5, 1.5, (BATCH, SIZE)).astype(np.float32)


def tasks(xp: Any, func: Any, tensor: Callable[[Any], Any], value_and_grad: Any) -> dict[str, Task]:
    """The tasks of a tool, given its functions and transforms."""
    x, v, xs = map(tensor, numbers())
    point, one, scalar = {"a": x, "b": v}, tensor(np.float32(1)), tensor(np.float32(0.5))

    def g(x: Any) -> Any:
        return xp.sin(x) * x

    def f(x: Any) -> Any:
        return xp.exp(xp.sin(x) * x).sum()

    def loss(p: Any) -> Any:
        return (xp.sin(p["a"]) * p["b"]).sum()

    def pulled() -> Any:
        _, pull = func.vjp(f, x)
        return pull(one)[0]

    return {
        "f(x)": lambda: f(x),
        "grad(f)(x)": lambda: func.grad(f)(x),
        "value_and_grad(f)(x)": lambda: value_and_grad(f)(x)[0],
        "grad(f) of a dict of two": lambda: func.grad(loss)(point)["a"],
        "vjp(f, x) and its pullback": pulled,
        "jvp(f, (x,), (v,))": lambda: func.jvp(f, (x,), (v,))[1],
        "grad(grad) of a scalar": lambda: func.grad(func.grad(xp.sin))(scalar),
        "vmap(f)(xs)": lambda: func.vmap(f)(xs),
        "vmap(grad(f))(xs)": lambda: func.vmap(func.grad(f))(xs),
        "jvp(grad(f), (x,), (v,))": lambda: func.jvp(func.grad(f), (x,), (v,))[1],
        "jacrev(g)(x)": lambda: func.jacrev(g)(x),
        "hessian(f)(x)": lambda: func.hessian(f)(x),
    }


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad

    return tasks(ad, ad.func, ad.tensor, ad.value_and_grad)


def torch_tasks() -> dict[str, Task]:
    import torch

    torch.set_num_threads(1)

    def value_and_grad(f: Any) -> Any:
        both = torch.func.grad_and_value(f)
        return lambda *args: both(*args)[::-1]

    return tasks(torch, torch.func, torch.tensor, value_and_grad)


def jax_tasks() -> dict[str, Task]:
    import jax
    import jax.numpy as jnp

    def waited(task: Task) -> Task:
        return lambda: task().block_until_ready()

    made = tasks(jnp, jax, jnp.asarray, jax.value_and_grad)
    return {name: waited(task) for name, task in made.items()}


MAKERS = {"adjoint": adjoint_tasks, "torch": torch_tasks, "jax": jax_tasks}
BENCHMARK = Benchmark(__file__, (__doc__ or "").split("\n")[0], TASKS, MAKERS)

if __name__ == "__main__":
    main(BENCHMARK)

"""What a sparse derivative costs: adjoint, asdex (on JAX) and CasADi, on one thread in one run.

Each tool lives in a worker process of its own; see `harness` for how the rounds run. Every task
returns a matrix; the tools are compared by its products with ones.

    python benchmarks/sparse.py [--rounds 15] [--tools adjoint,asdex,casadi]

Prints a table and writes benchmarks/results/sparse.{md,json}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Benchmark, Task, main

TASKS: dict[str, tuple[int, str]] = {
    "Jacobian of the Brusselator, 32 x 32": (1, "µs"),
    "Jacobian of the Brusselator, 100 x 100": (1, "µs"),
    "Hessian of Rosenbrock's function, n = 10,000": (1, "µs"),
    "Jacobian of an arrowhead, 800 with 8 dense rows and columns": (1, "µs"),
}


def point(count: int) -> Any:
    """Where derivatives are taken."""
    return 1 + 0.5 * np.sin(np.arange(count))


def brusselator(xp: Any, count: int) -> Callable[[Any], Any]:
    """The reaction and diffusion of two substances on a ring of count × count cells."""

    def neighbours(w: Any) -> Any:
        return xp.roll(w, 1, 0) + xp.roll(w, -1, 0) + xp.roll(w, 1, 1) + xp.roll(w, -1, 1) - 4 * w

    def rates(y: Any) -> Any:
        u, v = y[: count**2].reshape(count, count), y[count**2 :].reshape(count, count)
        first = 1 + u * u * v - 4.4 * u + 10.0 * neighbours(u)
        second = 3.4 * u - u * u * v + 10.0 * neighbours(v)
        return xp.concatenate([first.reshape(-1), second.reshape(-1)])

    return rates


def rosenbrock(x: Any) -> Any:
    """A curved valley."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def arrowhead(xp: Any, dense: int) -> Callable[[Any], Any]:
    """Some functions of everything, and others of themselves and of some."""

    def function(x: Any) -> Any:
        scales = np.arange(1.0, dense + 1)[:, None]
        whole = xp.sum(xp.sin(x[None] * scales), 1)
        return xp.concatenate([whole, x[dense:] ** 2 + xp.sum(x[:dense] ** 3)])

    return function


def tasks_by(xp: Any, jacobian: Any, hessian: Any) -> dict[str, Task]:
    """The tasks, by functions that return a function of NumPy's arrays that returns a matrix."""
    problems = [
        (jacobian(brusselator(xp, 32), 2 * 32**2), 2 * 32**2),
        (jacobian(brusselator(xp, 100), 2 * 100**2), 2 * 100**2),
        (hessian(rosenbrock, 10_000), 10_000),
        (jacobian(arrowhead(xp, 8), 800), 800),
    ]
    tasks: dict[str, Task] = {}
    for name, (derivative, count) in zip(TASKS, problems, strict=True):
        tasks[name] = task_of(derivative, point(count))
    return tasks


def task_of(derivative: Callable[[Any], Any], x: Any) -> Task:
    """A call of a derivative; the answer is compared, not timed."""

    class Answer:
        def __init__(self, matrix: Any) -> None:
            self.matrix = matrix

        def tolist(self) -> Any:
            matrix = self.matrix.sparse() if hasattr(self.matrix, "sparse") else self.matrix
            return np.ravel(matrix @ np.ones(x.size)).tolist()

    return lambda: Answer(derivative(x))


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad
    import adjoint.numpy as anp

    def by(transform: Any) -> Any:
        return lambda f, count: transform(f, sparse=True)

    return tasks_by(anp, by(ad.jacobian), by(ad.hessian))


def asdex_tasks() -> dict[str, Task]:
    import asdex
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def by(prepare: Any) -> Any:
        def made(f: Any, count: int) -> Callable[[Any], Any]:
            run = jax.jit(prepare(f, jnp.ones(count)))

            def derivative(x: Any) -> Any:
                found = run(x)
                found.data.block_until_ready()
                return found

            return derivative

        return made

    return tasks_by(jnp, by(asdex.jacobian), by(asdex.hessian))


def casadi_tasks() -> dict[str, Task]:
    import casadi

    def by(differentiate: Any) -> Any:
        def made(f: Any, count: int) -> Callable[[Any], Any]:
            x = casadi.SX.sym("x", count)
            y = f(np.array([x[k] for k in range(count)], object))
            values = casadi.vertcat(*y) if isinstance(y, np.ndarray) else y
            function = casadi.Function("f", [x], [differentiate(values, x)])
            return function

        return made

    return tasks_by(np, by(casadi.jacobian), by(lambda y, x: casadi.hessian(y, x)[0]))


BENCHMARK = Benchmark(
    file=__file__,
    title="What a sparse derivative costs",
    tasks=TASKS,
    makers={"adjoint": adjoint_tasks, "asdex": asdex_tasks, "casadi": casadi_tasks},
    note="float64",
)

if __name__ == "__main__":
    main(BENCHMARK)

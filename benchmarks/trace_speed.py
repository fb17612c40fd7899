"""How long tracing 10,000 operators takes: adjoint, jax.make_jaxpr and torch's make_fx in one run.

The function and its gradient, and the function with the clean-up that each tool has: for adjoint
all passes of SIMPLIFY, for JAX dead code, for torch.fx common subexpressions and dead code. Each
tool lives in a worker process of its own; see `harness` for how the rounds run.

    python benchmarks/trace_speed.py [--rounds 5] [--tools adjoint,jax]

Prints a table and writes benchmarks/results/trace_speed.{md,json}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Benchmark, Task, main

COUNT = 10_000
SHAPE = (3, 4)
UNIT = (COUNT, "µs per operator")
TASKS = {"trace": UNIT, "trace the gradient": UNIT, "trace and simplify": UNIT}


def program(xp: Any) -> Callable[[Any], Any]:
    """A loop of five operators, COUNT in all."""

    def f(x: Any) -> Any:
        for _ in range(COUNT // 5):
            y = xp.sin(x) * x
            x = xp.tanh(y + x) * 0.5
        return x.sum()

    return f


def checked(task: Callable[[], int]) -> Task:
    """A task with an answer to compare: that the graph has at least COUNT operators."""
    return lambda: np.asarray(float(task() >= COUNT))


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad

    f, x = program(ad), ad.ShapeDtype(SHAPE)
    return {
        "trace": checked(lambda: len(ad.trace(f, x))),
        "trace the gradient": checked(lambda: len(ad.trace(ad.grad(f), x))),
        "trace and simplify": checked(lambda: len(ad.simplify(ad.trace(f, x)))),
    }


def jax_tasks() -> dict[str, Task]:
    import jax
    import jax.numpy as jnp
    from jax.interpreters import partial_eval

    x = jnp.zeros(SHAPE, jnp.float32)

    # A function that was traced once is remembered, so every call has a new one.
    def traced(transform: Callable[[Any], Any] = lambda f: f) -> Any:
        return jax.make_jaxpr(transform(program(jnp)))(x).jaxpr

    def cleaned() -> int:
        jaxpr, _ = partial_eval.dce_jaxpr(traced(), [True])
        return len(jaxpr.eqns)

    return {
        "trace": checked(lambda: len(traced().eqns)),
        "trace the gradient": checked(lambda: len(traced(jax.grad).eqns)),
        "trace and simplify": checked(cleaned),
    }


def torch_tasks() -> dict[str, Task]:
    import torch
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.set_num_threads(1)
    x, f = torch.zeros(SHAPE), program(torch)

    def cleaned() -> int:
        graph = make_fx(f)(x).graph
        graph.eliminate_dead_code()
        return len(fx_graph_cse(graph).nodes)

    return {
        "trace": checked(lambda: len(make_fx(f)(x).graph.nodes)),
        "trace the gradient": checked(lambda: len(make_fx(torch.func.grad(f))(x).graph.nodes)),
        "trace and simplify": checked(cleaned),
    }


MAKERS = {"adjoint": adjoint_tasks, "jax": jax_tasks, "torch": torch_tasks}
BENCHMARK = Benchmark(__file__, (__doc__ or "").split("\n")[0], TASKS, MAKERS)

if __name__ == "__main__":
    main(BENCHMARK)

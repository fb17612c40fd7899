"""What a step of an optimiser costs: adjoint and PyTorch, with their defaults, in one run.

Each tool lives in a worker process of its own; see `harness` for how the rounds run.

    python benchmarks/optimizer_steps.py [--rounds 15] [--tools adjoint,torch]

Prints a table and writes benchmarks/results/optimizer_steps.{md,json}.
"""

from __future__ import annotations

from typing import Any

from harness import Benchmark, Task, main

SIZES = {
    "100 parameters of 64": (100, 64),
    "10 of 20,000": (10, 20_000),
    "2 of 4,000,000": (2, 4_000_000),
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-4, "momentum": 0.9},
    "Adam": {"lr": 1e-4},
    "AdamW": {"lr": 1e-4},
    "RMSprop": {"lr": 1e-4},
    "Adagrad": {"lr": 1e-4},
    "Rprop": {"lr": 1e-4},
}
TASKS: dict[str, tuple[int, str]] = {
    f"{name}, {label}": (count, "µs per parameter")
    for label, (count, _) in SIZES.items()
    for name in OPTIMIZERS
}


def tasks_of(library: Any) -> dict[str, Task]:
    """Steps with the gradient of a vector of ones, until native code is there."""
    tasks: dict[str, Task] = {}
    for label, (count, size) in SIZES.items():
        for name, options in OPTIMIZERS.items():
            params = [library.ones(size).requires_grad_() for _ in range(count)]
            for p in params:
                p.grad = library.ones(size)
            optimizer = getattr(library.optim, name)(params, **options)

            def step(optimizer: Any = optimizer, first: Any = params[0]) -> Any:
                optimizer.step()
                return first.detach()[:1]

            tasks[f"{name}, {label}"] = step
    return tasks


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad

    return tasks_of(ad)


def torch_tasks() -> dict[str, Task]:
    import torch

    torch.set_num_threads(1)
    return tasks_of(torch)


BENCHMARK = Benchmark(
    file=__file__,
    title="What a step of an optimiser costs",
    tasks=TASKS,
    makers={"adjoint": adjoint_tasks, "torch": torch_tasks},
)

if __name__ == "__main__":
    main(BENCHMARK)

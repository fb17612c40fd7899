"""One epoch of the digit classifier of examples/digits.py: adjoint eager, compiled, and PyTorch.

All start with the same weights and see the same digits in the same order, so that the mean loss
of the first epoch must agree. Batches come from each tool's own DataLoader.

    python benchmarks/digits_epoch.py [--rounds 15] [--tools adjoint,torch]

Prints a table and writes benchmarks/results/digits_epoch.{md,json}.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Benchmark, Task, main

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from support.digits import digits

COUNT, BATCH = 1024, 64
NAME = f"an epoch of {COUNT} digits in batches of {BATCH}"
TASKS: dict[str, tuple[int, str]] = {NAME: (COUNT // BATCH, "µs per step")}


def classifier(nn: Any) -> Any:
    """The network of the example, from `adjoint.nn` or `torch.nn`."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def tasks(xp: Any, step_of: Callable[[Any, Any, Any], Any]) -> dict[str, Task]:
    """The epoch, with a step that `step_of(model, loss, optimizer)` makes."""
    model = classifier(xp.nn)
    draw = np.random.default_rng(0)
    with xp.no_grad():
        for p in model.parameters():
            bound = 1 / np.sqrt(np.prod(tuple(p.shape)[1:])) if p.ndim > 1 else 0.0
            p.copy_(xp.from_numpy(draw.uniform(-bound, bound, tuple(p.shape)).astype(np.float32)))
    step = step_of(model, xp.nn.CrossEntropyLoss(), xp.optim.Adam(model.parameters(), lr=2e-3))
    data = xp.utils.data
    pictures, labels = (xp.from_numpy(a) for a in digits(COUNT))
    loader = data.DataLoader(data.TensorDataset(pictures, labels), batch_size=BATCH)

    def epoch() -> Any:
        return xp.tensor([float(step(*batch)) for batch in loader])

    return {NAME: epoch}


def eager(model: Any, loss: Any, optimizer: Any) -> Any:
    """A training step as everyone writes it."""

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def adjoint_eager() -> dict[str, Task]:
    import adjoint as ad

    return tasks(ad, eager)


def adjoint_compiled() -> dict[str, Task]:
    import adjoint as ad

    return tasks(ad, ad.optim.compiled_step)


def torch_eager() -> dict[str, Task]:
    import torch
    import torch.utils.data

    torch.set_num_threads(1)
    return tasks(torch, eager)


MAKERS = {"torch": torch_eager, "adjoint": adjoint_eager, "adjoint compiled": adjoint_compiled}
BENCHMARK = Benchmark(__file__, (__doc__ or "").split("\n")[0], TASKS, MAKERS)

if __name__ == "__main__":
    main(BENCHMARK)

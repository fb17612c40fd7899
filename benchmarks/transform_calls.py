"""How many Python functions a call runs through, and of how many files: its overhead, exactly.

Times vary with the machine; these numbers do not. The functions are small, so nearly all calls are
overhead. Calls of functions written in C are not counted. The walks are those of the house
(`docs/architecture.md`); with a walk's name its frames are printed in order.

    python benchmarks/transform_calls.py ["grad(f)(x)"]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

SOURCE = str(ad.__file__).removesuffix("__init__.py")


def frames(run: Callable[[], Any], warm: int = 3) -> list[tuple[str, int, str]]:
    """The calls (file, line, function) that `run()` makes once it has run `warm` times."""
    found: list[tuple[str, int, str]] = []

    def called(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            found.append((code.co_filename, code.co_firstlineno, code.co_name))

    for _ in range(warm):
        run()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def f(x: Any) -> Any:
    return (x.sin() * x).sum()


def transforms() -> dict[str, Callable[[], Any]]:
    xs = ad.tensor(np.linspace(0.5, 1.5, 50).reshape(5, 10))
    x, v = xs[0], xs[1]
    return {
        "f(x)": lambda: f(x),
        "grad(f)(x)": lambda: ad.grad(f)(x),
        "jvp(f, (x,), (v,))": lambda: ad.jvp(f, (x,), (v,)),
        "vmap(f)(xs)": lambda: ad.vmap(f)(xs),
        "vmap(grad(f))(xs)": lambda: ad.vmap(ad.grad(f))(xs),
        "jvp(grad(f), (x,), (v,))": lambda: ad.jvp(ad.grad(f), (x,), (v,)),
        "hessian(f)(x)": lambda: ad.hessian(f)(x),
    }


def training_step() -> Callable[[], Any]:
    """A step of a model with four parameters."""
    ad.manual_seed(0)
    model = ad.nn.Sequential(ad.nn.Linear(10, 16), ad.nn.Tanh(), ad.nn.Linear(16, 4))
    optimizer = ad.optim.Adam(model.parameters())
    x = ad.tensor(np.linspace(0.5, 1.5, 50).reshape(5, 10).astype(np.float32))

    def step() -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    return step


def compiled_calls() -> dict[str, list[tuple[str, int, str]]]:
    """The first call of a compiled gradient, its object on disk; a later one; the steady one."""
    x = ad.tensor(np.linspace(0.5, 1.5, 10))
    ad.compile(ad.value_and_grad(f))(x)
    compiled = ad.compile(ad.value_and_grad(f))
    found = {"first call of compile(value_and_grad(f))": frames(lambda: compiled(x), warm=0)}
    found["second call"] = frames(lambda: compiled(x), warm=0)
    for _ in range(100):
        found["steady call"] = frames(lambda: compiled(x))
        if len(found["steady call"]) <= 2:  # the lambda, and one of ours
            break
        time.sleep(0.1)
    return found


def walks() -> dict[str, list[tuple[str, int, str]]]:
    t = ad.tensor([0.5, 1.5])
    found = {"very first np.sin(t)": frames(lambda: np.sin(t), warm=0)}  # type: ignore[arg-type]
    found["np.sin(t)"] = frames(lambda: np.sin(t))  # type: ignore[arg-type]
    found |= {name: frames(run) for name, run in transforms().items()}
    found["zero_grad, MLP, backward, Adam.step"] = frames(training_step())
    return found | compiled_calls()


def main() -> None:
    found = walks()
    for name in sys.argv[1:]:
        for file, line, function in found[name]:
            print(f"{file.removeprefix(SOURCE)}:{line} {function}")
    if sys.argv[1:]:
        return
    print(f"{'calls':>6} {'files':>6}")
    for name, calls in found.items():
        # less the lambda that is called here
        print(f"{len(calls) - 1:>6} {len({c[0] for c in calls}) - 1:>6}  {name}")


if __name__ == "__main__":
    main()

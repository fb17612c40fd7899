"""How many Python functions a transform calls, and of how many files: its overhead, exactly.

Times vary with the machine; these numbers do not. The function is small, so nearly all calls are
overhead. Calls of functions written in C are not counted.

    python benchmarks/transform_calls.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad


def count(run: Callable[[], Any]) -> tuple[int, int]:
    """The calls that `run()` makes once it is warm, and the files that they go to."""
    files: list[str] = []

    def called(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    for _ in range(3):
        run()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(files), len(set(files))


def f(x: Any) -> Any:
    return (x.sin() * x).sum()


def tasks() -> dict[str, Callable[[], Any]]:
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


def main() -> None:
    print(f"{'calls':>6} {'files':>6}")
    for name, run in tasks().items():
        calls, files = count(run)
        print(f"{calls:>6} {files:>6}  {name}")


if __name__ == "__main__":
    main()

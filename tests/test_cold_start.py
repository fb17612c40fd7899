"""A fresh process loads what it needs: facts about modules, not times."""

from __future__ import annotations

import os
import subprocess
import sys

FIRST_GRADIENT = """
import sys
import numpy as np
import adjoint as ad

x = ad.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), requires_grad=True)
w = ad.tensor(np.linspace(-2.0, 2.0, 20).reshape(4, 5), requires_grad=True)
y = ((x.sin() * x) @ w).relu()
target = ad.tensor(np.array([0, 1, 2]))
loss = ad.nn.functional.cross_entropy(y, target) + y.softmax(1).mul(y).sum()
loss.backward()
"""


def run(program: str, **environment: str) -> str:
    """What a program prints in a process of its own; it must end well and quietly."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return process.stdout


def test_a_gradient_of_simple_operators_does_not_load_scipy() -> None:
    program = f"{FIRST_GRADIENT}\nprint([m for m in sys.modules if m.startswith('scipy')])"
    assert run(program) == "[]\n"

"""Programs for PyTorch, run with another `torch`: only their imports are changed.

`run("dcgan", "adjoint")` runs tests/programs/dcgan.py as if its author had written
`import adjoint as torch`, and returns what it calls `losses`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests import TESTS

FOLDER = TESTS / "programs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
# Random functions and how NumPy draws the same: from a stream of its own for each name, so that
# libraries may draw seeds in between.
IN_PLACE = {
    "uniform_": lambda draw, low=0.0, high=1.0: lambda shape: draw.uniform(low, high, shape),
    "normal_": lambda draw, mean=0.0, std=1.0: lambda shape: draw.normal(mean, std, shape),
}
LIKE = {
    "rand_like": lambda draw, shape: draw.random(shape),
    "randn_like": lambda draw, shape: draw.standard_normal(shape),
}
SIZED = {"rand": "rand_like", "randn": "randn_like"}


def text(name: str, package: str) -> str:
    """The program with `package` in place of torch in its imports."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    source = re.sub(r"(?m)^(\s*)import torch$", rf"\1import {package} as torch", source)
    source = re.sub(r"(?m)^(\s*)import torch\.([\w.]+) as", rf"\1import {package}.\2 as", source)
    source = re.sub(r"(?m)^(\s*)import torch\.([\w.]+)$", rf"\1import {package}.\2", source)
    return re.sub(r"(?m)^(\s*)from torch\b", rf"\1from {package}", source)


def run(name: str, package: str) -> list[float]:
    """Run a program, and return its losses."""
    path = FOLDER / f"{name}.py"
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(text(name, package), str(path), "exec"), variables)
    return variables["losses"]


class Draws:
    """Random numbers that are the same for every library: seeded by the name of the function."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        """The stream of a function."""
        seed = sum(map(ord, name))
        return self.streams.setdefault(name, np.random.default_rng(seed))

    def tensor(self, array: Any, **options: Any) -> Any:
        """An array as a tensor of the library."""
        dtype = options.get("dtype") or self.library.float32
        return self.library.from_numpy(np.asarray(array, np.float64)).to(dtype)

    def call(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What a random function gives."""
        draw = self.stream(name)
        if name in IN_PLACE:
            target, *numbers = args
            numbers = [*numbers, *(keywords[k] for k in keywords if k != "generator")]
            drawn = IN_PLACE[name](draw, *numbers)(tuple(target.shape))
            return target.copy_(self.tensor(drawn, dtype=target.dtype))
        if name in LIKE:
            dtype = keywords.get("dtype") or args[0].dtype
            return self.tensor(LIKE[name](draw, tuple(args[0].shape)), dtype=dtype)
        if name in SIZED:
            sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
            return self.tensor(LIKE[SIZED[name]](draw, tuple(sizes)), dtype=keywords.get("dtype"))
        if name == "randperm":
            return self.library.from_numpy(draw.permutation(args[0]))
        assert name == "dropout", name
        tensor, p, training = (*args, *keywords.values(), 0.5, True)[:3]
        if not training:
            return tensor
        kept = self.tensor(draw.random(tuple(tensor.shape)) >= p, dtype=tensor.dtype)
        return tensor * kept / (1 - p)


FUNCTIONS = (*IN_PLACE, *LIKE, *SIZED, "randperm", "dropout")

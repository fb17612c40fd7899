"""Programs for PyTorch compute the same losses with adjoint as with PyTorch.

Random numbers are drawn by NumPy for both: by a mode that sees calls in adjoint, and by functions
put into PyTorch's place of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from tests import torch_programs  # noqa: E402
from tests.torch_programs import FUNCTIONS, Draws  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


class SameNumbers(ad.overrides.TorchFunctionMode):
    """Random functions give NumPy's numbers."""

    def __init__(self) -> None:
        self.draws = Draws(ad)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, keywords = func.__name__, kwargs or {}
        if name in FUNCTIONS:
            return self.draws.call(name, args, keywords)
        return func(*args, **keywords)


def with_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's random functions give NumPy's numbers."""
    draws = Draws(torch)
    for name in FUNCTIONS:
        owner: Any = torch.Tensor if name.endswith("_") else torch
        owner = torch.nn.functional if name == "dropout" else owner

        def drawn(*args: Any, _name: str = name, **keywords: Any) -> Any:
            return draws.call(_name, args, keywords)

        monkeypatch.setattr(owner, name, drawn)


@pytest.mark.parametrize("name", torch_programs.NAMES)
def test_losses_are_pytorchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SameNumbers():
        ours = torch_programs.run(name, "adjoint")
    with_same_numbers(monkeypatch)
    # PyTorch's own tests, which others here import, forbid programs to set flags
    with torch.backends.__allow_nonbracketed_mutation():
        theirs = torch_programs.run(name, "torch")
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-5)

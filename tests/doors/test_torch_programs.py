"""Ordinary programs for PyTorch run after `import torch` became `import adjoint as torch`."""

from __future__ import annotations

import math

import pytest

from tests import torch_programs


@pytest.mark.parametrize("name", torch_programs.NAMES)
def test_a_program_for_pytorch_runs_with_its_import_changed(name: str) -> None:
    losses = torch_programs.run(name, "adjoint")
    assert losses
    assert all(math.isfinite(loss) for loss in losses)

"""Values to files and back: adjoint's own format, PyTorch's files, safetensors.

>>> import adjoint as ad, io
>>> file = io.BytesIO()
>>> ad.save({"x": ad.arange(3), "lr": 0.1}, file)
>>> _ = file.seek(0)
>>> ad.load(file)
{'x': tensor([0, 1, 2]), 'lr': 0.1}
"""

from __future__ import annotations

from adjoint.serialization import safetensors
from adjoint.serialization.files import load, save
from adjoint.serialization.objects import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "safetensors",
    "save",
]

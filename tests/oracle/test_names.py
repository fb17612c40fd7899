"""Every public name of PyTorch is here, or its absence says what to use instead."""

from __future__ import annotations

import fnmatch
import inspect
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from adjoint.absent import advice  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
MODULES = (
    "", "accelerator", "amp", "autograd", "backends", "cuda", "fft", "func", "linalg", "nn",
    "nn.functional", "nn.init", "optim.lr_scheduler", "overrides", "random", "special",
    "testing", "utils", "distributions",
)  # fmt: skip


@cache
def loaded() -> frozenset[str]:
    """The modules that `import torch` brings; other tests import more."""
    program = "import sys, torch; print(*(n for n in sys.modules if n.startswith('torch.')))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return frozenset(found.stdout.split())


def is_public(name: str, value: Any) -> bool:
    """Whether PyTorch made a name, rather than imported it from Python."""
    if name.startswith("_") or name in ("Tensor", "torch", "variable"):
        return False
    if inspect.ismodule(value):
        return value.__name__ in loaded()
    home = getattr(value, "__module__", None) or "torch"
    return home.startswith(("torch", "builtins")) and (
        callable(value) or isinstance(value, torch.dtype)
    )


@pytest.mark.parametrize("path", MODULES)
def test_a_public_name_is_here_or_has_advice(path: str) -> None:
    theirs, ours = torch, ad
    for part in filter(None, path.split(".")):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [n for n in dir(theirs) if is_public(n, getattr(theirs, n, None))]
    names = [
        n
        for n in (getattr(theirs, "__all__", None) or names)
        if is_public(n, getattr(theirs, n, None))
    ]
    missing = [
        name
        for name in names
        if not hasattr(ours, name)
        and not any(fnmatch.fnmatchcase(f"{path}.{name}".strip("."), n) for n in advice())
    ]
    assert missing == []


# Methods of tensors that PyTorch has for quantised tensors, for old programs that fail there too,
# and for streams of devices.
ABSENT_METHODS = frozenset((
    "const_data_ptr", "dequantize", "eig", "grad_dtype", "int_repr", "ipu", "is_coalesced",
    "is_distributed", "lstsq", "module_load", "mtia", "name", "q_per_channel_axis",
    "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
    "record_stream", "reinforce", "resize", "resize_as", "resize_as_sparse_", "smm", "solve",
    "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm", "storage_type", "symeig", "volatile",
))  # fmt: skip


def test_tensors_have_pytorchs_methods() -> None:
    names = {n for n in dir(torch.Tensor) if not n.startswith("_")}
    assert {n for n in names if not hasattr(ad.Tensor, n)} == ABSENT_METHODS

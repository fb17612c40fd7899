"""What became of the checks of one operator, and how a call is written down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.oracle import bridge


@dataclass(frozen=True)
class Failure:
    """One check of one sample that did not agree."""

    check: str  # "reverse"
    dtype: str  # "float64"
    sample: int  # 3
    call: str  # "sum(f64[3,4], dim=0)"
    message: str  # "input 0: largest difference 0.3 at (1, 2): adjoint 1.0, PyTorch 1.3"

    def __str__(self) -> str:
        return f"{self.check} [{self.dtype} #{self.sample}] {self.call}\n    {self.message}"


@dataclass
class Report:
    """What became of one OpInfo."""

    title: str
    passed: Counter[str] = field(default_factory=Counter)  # by check
    failures: list[Failure] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # by reason

    def summary(self) -> str:
        failed = Counter(f.check for f in self.failures)
        text = " ".join(
            f"{check} {count}" + (f"+{failed[check]} FAILED" if failed[check] else "")
            for check, count in (self.passed | {c: self.passed[c] for c in failed}).items()
        )
        return f"{self.title}: {text or 'nothing compared'}"


def describe(arguments: Any) -> str:
    """Write the arguments of a call briefly: shapes and dtypes instead of elements."""
    first, args, kwargs = arguments
    shown = [_brief(first), *map(_brief, args), *(f"{k}={_brief(v)}" for k, v in kwargs.items())]
    return ", ".join(shown)


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = (
            ""
            if value.layout != torch.strided or value.is_contiguous()
            else f" strides {value.stride()}"
        )
        small = (
            f" = {value.tolist()}" if value.layout == torch.strided and value.numel() <= 2 else ""
        )
        return f"{bridge.dtype_name(value.dtype)}{list(value.shape)}{strides}{small}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)

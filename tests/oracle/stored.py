"""Writes down what PyTorch says, for tests that run without it: python -m tests.oracle.stored

`tests/stored/promotion.txt`: the dtype of results, for all pairs of dtypes, tensors with and
without dimensions, and Python numbers. `tests/stored/printing.txt`: expressions and their text.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import torch

from tests.oracle import bridge

# PyTorch refuses to promote the others: tests/oracle/test_types.py
DTYPES = [name for name in bridge.DTYPES if name not in ("uint16", "uint32", "uint64")]
FOLDER = Path(__file__).parents[1] / "stored"
NUMBERS = {"bool": True, "int": 2, "float": 1.5, "complex": 1 + 2j}

EXPRESSIONS = r"""
tensor(1.0)
tensor(3)
tensor(True)
tensor(1 + 2j)
tensor([])
tensor([1.0, 2.0, 3.0])
tensor([1.5, -2.25, 3.125])
tensor([1, -20, 300])
tensor([True, False])
tensor([[1.0, 2.0], [3.0, 4.0]])
tensor([[[1, 2]], [[3, 4]]])
tensor([1.0, 2.0], dtype=float64)
tensor([1, 2], dtype=int32)
tensor([1.0, 2.5], dtype=float16)
tensor([1.0, 2.5], dtype=bfloat16)
tensor([1.0, 2.0], requires_grad=True)
tensor([1.0, 2.0], dtype=float64, requires_grad=True)
tensor([1e-10, 1.0])
tensor([1e10, 1.0])
tensor([1e-3, 1e3])
tensor([123456.789, 0.001])
tensor([1e-8])
tensor([100000000.0])
tensor([1000.5, 2.0])
tensor([nan, inf, -inf, 1.0])
tensor([nan, 1.25])
tensor([0.0, -0.0])
tensor([1 + 2j, 3.5 - 4j])
tensor([1e-10 + 1j, 1e5 + 0j])
tensor([1 + 2j], dtype=complex128)
zeros(2, 0, 3)
zeros(0, dtype=int64)
ones(3, 2)
arange(10)
arange(2000.0)
arange(5000).view(50, 100)
zeros(20, 60)
zeros(3, 1200)
ones(2, 3, 4)
arange(30.0) / 7
tensor([0.1, 0.22, 0.333])
tensor([-1.0, 10.0, 1e-5])
tensor([[1.0, nan], [inf, 2.0]])
tensor([99999.0, 1.0])
tensor([999.9999])
tensor(1e-30)
tensor([2**62, 1])
tensor([1.0, 2.0], requires_grad=True)[:1].detach()
""".strip().splitlines()


def promotion() -> list[str]:
    """Lines of "operation left right -> dtype": vectors, 0-d tensors and Python numbers."""
    lines = []
    kinds = [(d, n) for d in DTYPES for n in (1, 0)]
    for (a, na), (b, nb) in itertools.product(kinds, kinds):
        lines.append(f"result_type {a}.{na} {b}.{nb} -> {_result(_tensor(a, na), _tensor(b, nb))}")
    for (a, na), (word, number) in itertools.product(kinds, NUMBERS.items()):
        lines.append(f"result_type {a}.{na} {word} -> {_result(_tensor(a, na), number)}")
        lines.append(f"div {a}.{na} {word} -> {_name((_tensor(a, na) / number).dtype)}")
    for a, b in itertools.product(DTYPES, DTYPES):
        lines.append(f"div {a}.1 {b}.1 -> {_name((_tensor(a, 1) / _tensor(b, 1)).dtype)}")
        lines.append(f"promote_types {a} {b} -> {_name(torch.promote_types(_type(a), _type(b)))}")
        lines.append(f"can_cast {a} {b} -> {torch.can_cast(_type(a), _type(b))}")
    for a in DTYPES:
        lines.append(f"sum {a}.1 -> {_name(_tensor(a, 1).sum().dtype)}")
        lines.append(f"cumsum {a}.1 -> {_name(_tensor(a, 1).cumsum(0).dtype)}")
        lines.append(f"sin {a}.1 -> {_name(_tensor(a, 1).sin().dtype)}")
        lines.append(f"abs {a}.1 -> {_name(_tensor(a, 1).abs().dtype)}" if a != "bool" else "")
    # adjoint has no complex32: what float16 and a complex number give in PyTorch
    return [line for line in lines if line and "complex32" not in line]


def printing() -> list[str]:
    """Expressions, each followed by its indented text."""
    scope = {**vars(torch), "nan": float("nan"), "inf": float("inf")}
    lines = []
    for expression in EXPRESSIONS:
        text = repr(eval(expression, scope)).replace("torch.", "ad.")
        lines += [expression, *("    " + line for line in text.splitlines())]
    return lines


def _type(name: str) -> torch.dtype:
    return getattr(torch, name)


def _tensor(name: str, ndim: int) -> torch.Tensor:
    return torch.ones((1,) * ndim, dtype=_type(name), device="meta")


def _result(*operands: object) -> str:
    return _name(torch.result_type(*operands))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


FILES = {"promotion.txt": promotion, "printing.txt": printing}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    for filename, lines in FILES.items():
        (FOLDER / filename).write_text("\n".join(lines()) + "\n", encoding="utf-8")

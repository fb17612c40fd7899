"""Tensors print as PyTorch's do; `stored/printing.txt` is a copy of its texts."""

from __future__ import annotations

import math

import pytest

import adjoint as ad
from adjoint.core import dtypes
from tests import STORED

TEXT = (STORED / "printing.txt").read_text(encoding="utf-8")


def examples() -> list[tuple[str, str]]:
    found: list[tuple[str, list[str]]] = []
    for line in TEXT.splitlines():
        if line.startswith("    "):
            found[-1][1].append(line[4:])
        else:
            found.append((line, []))
    return [(expression, "\n".join(lines)) for expression, lines in found]


class Names(dict[str, object]):
    """The names of an expression: those of `ad`."""

    def __missing__(self, name: str) -> object:
        if name in dtypes.NAMES:
            return dtypes.NAMES[name]
        return {"nan": math.nan, "inf": math.inf}.get(name) or getattr(ad, name)


@pytest.mark.parametrize(("expression", "text"), examples(), ids=[e for e, _ in examples()])
def test_text_is_pytorchs(expression: str, text: str) -> None:
    assert repr(eval(expression, {"__builtins__": {}}, Names())) == text


def test_str_is_repr() -> None:
    x = ad.tensor([1.0, 2.0])
    assert str(x) == repr(x)
    assert f"{ad.tensor(1.5):.2f}" == "1.50"


def test_result_shows_its_node() -> None:
    assert "grad_fn=<MulBackward0>" in repr(ad.ones(1, requires_grad=True) * 2)


def test_print_options() -> None:
    try:
        ad.set_printoptions(precision=2)
        assert repr(ad.tensor([1.2345])) == "tensor([1.23])"
    finally:
        ad.set_printoptions(precision=4)


def test_printing_does_not_touch_the_graph() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    repr(y)
    y.sum().backward()
    assert x.grad is not None

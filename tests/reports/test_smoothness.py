"""Where derivatives end: comparisons, roundings, orders, detached values, in loops and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

X = ad.linspace(-1.0, 2.0, 5)

ENDS: dict[str, tuple[Callable[[Any], Any], list[str], bool]] = {
    # function, operators on which a derivative ends, whether the output is flat
    "smooth": (lambda x: x.sin().sum(), [], False),
    "round": (lambda x: x.round().sum(), ["round.default"], True),
    "sign and itself": (lambda x: (x.sign() * x).sum(), ["sign.default"], False),
    "argmax": (lambda x: x.argmax() * 1.0, ["argmax.default"], True),
    "order of a sort": (lambda x: x.sort()[1] * 1.0, ["sort.default"], True),
    "values of a sort": (lambda x: x.sort()[0], [], False),
    "choice": (lambda x: ad.where(x > 0, x, 0.0), ["gt.Scalar"], False),
    "detach": (lambda x: x.detach() * 2, ["detach.default"], True),
    "whole numbers": (lambda x: x.to(ad.int64) * 1.0, ["_to_copy.default"], True),
    "step": (lambda x: (x > 0).to(ad.float32).sum(), ["gt.Scalar"], True),
    "in a loop": (
        lambda x: ad.scan(lambda c, t: (c + t.floor(), c), ad.tensor(0.0), x)[1],
        ["floor.default"],
        True,
    ),
    "in a branch": (
        lambda x: ad.cond(x.sum() > 0, lambda x: x.ceil(), lambda x: -x, x),
        ["gt.Scalar", "ceil.default"],
        False,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name: str) -> None:
    function, operators, is_flat = ENDS[name]
    found = ad.smoothness(function, X)
    assert [end.operator for end in found.ends] == operators
    assert found.flat == (("output",) if is_flat else ())


def test_a_flat_output_has_no_gradient() -> None:
    """What the report calls flat has a zero gradient at every point."""
    for function, _, is_flat in ENDS.values():
        total = lambda x, f=function: f(x).sum() + 0 * x.sum()
        assert not is_flat or (ad.grad(total)(X) == 0).all().item()


def test_the_report_names_lines_and_outputs() -> None:
    def loss(x: Any) -> dict[str, Any]:
        order = x.argsort()
        return {"a": x[order].sum(), "b": order.sum() * 1.0}

    found = ad.smoothness(loss, X)
    (end,) = found.ends
    assert end.place.startswith("test_smoothness.py:")
    assert end.outputs == ("output['a']", "output['b']")
    assert found.flat == ("output['b']",)
    assert "output['b'] depends on the input only through argsort.default" in str(found)


def test_a_smooth_function_is_called_smooth() -> None:
    assert str(ad.smoothness(lambda x: x.exp(), X)) == (
        "every operator on the way has a derivative"
    )

"""Every operator gives the same derivatives inside transforms as on the eager tape.

Inside other transforms an operator runs on levels (see `homes/levels.py`): `jvp` is one, `grad`
in a `jvp` another. For each operator and sample: the tangent of `jvp` equals that of dual tensors;
the gradient inside `jvp` equals that of the tape, and its tangent the tape's second derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import jacobians, laws
from adjoint.testing.jacobians import Array, Call, array_of, tensor_of
from adjoint.testing.laws import Case

ROWS = [row for row in TABLE.rows() if row.differentiable]


class Pair:
    """A case as a function of its leaves, with random directions."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.call = Call.of(case.run, case.arguments)
        self.leaves = self.call.leaves()
        outputs = self.call(self.leaves)
        self.wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
        self.outputs = [outputs[k] for k in self.wanted]
        generator = np.random.default_rng(0)
        self.weights = self._random(self.outputs, generator)
        self.directions = self._random(self.leaves, generator)
        self.primals = tuple(t.detach() for t in self.leaves)

    @staticmethod
    def _random(like: Sequence[Any], generator: np.random.Generator) -> tuple[Any, ...]:
        return tuple(tensor_of(jacobians.random_like(array_of(t), generator)) for t in like)

    def f(self, *leaves: Any) -> tuple[Any, ...]:
        outputs = self.call(leaves)
        return tuple(outputs[k] for k in self.wanted)

    def gradients(self, *leaves: Any) -> Any:
        return ad.vjp(self.f, *leaves)[1](self.weights)

    def or_zeros(self, found: Sequence[Any]) -> list[Array]:
        pairs = zip(found, self.primals, strict=True)
        return [np.zeros_like(array_of(t)) if g is None else array_of(g.detach()) for g, t in pairs]

    def second(self, gradients: Sequence[Any]) -> list[Array]:
        """∂⟨gradients, directions⟩, by the tape."""
        products = [
            (g * d.conj()).sum().real
            for g, d in zip(gradients, self.directions, strict=True)
            if g is not None and g.requires_grad
        ]
        if not products:
            return self.or_zeros([None] * len(self.leaves))
        return self.or_zeros(ad.autograd.grad(sum(products), self.leaves, allow_unused=True))

    def check(self) -> None:
        eager = ad.autograd.grad(
            self.outputs, self.leaves, self.weights, create_graph=True, allow_unused=True
        )
        directions = {i: array_of(d) for i, d in enumerate(self.directions)}
        tangents = jacobians.tangents(self.call, directions, self.wanted)
        pushed = ad.jvp(self.f, self.primals, self.directions)[1]
        for got, expected in zip(pushed, tangents, strict=True):
            self.compare("the tangent of jvp", jacobians.parts(array_of(got)), expected)
        if self.case.sample.order < 2 or self.case.sample.kink:
            return
        primal, tangent = ad.jvp(self.gradients, self.primals, self.directions)
        for got, expected in zip(primal, self.or_zeros(eager), strict=True):
            self.compare("the gradient inside jvp", array_of(got), expected)
        for got, expected in zip(tangent, self.second(eager), strict=True):
            self.compare("the second derivative", array_of(got), expected)

    def compare(self, what: str, got: Array, expected: Array) -> None:
        finite = np.isfinite(expected)
        scale = np.abs(expected[finite]).max(initial=1.0)
        close = np.isclose(got, expected, rtol=1e-7, atol=1e-9 * scale)
        assert close[finite].all(), f"{self.case.title}: {what} is {got}, on the tape {expected}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.full_name)
def test_levels_equal_the_tape(row: Row) -> None:
    for case in laws.cases(row, dtypes.float64):
        if "jvp_is_adjoint_of_vjp" in set(laws.laws_of(case)):
            pair = Pair(case)
            if pair.wanted:
                pair.check()


def test_a_copy_made_inside_is_written_to_a_tensor_that_carries_nothing() -> None:
    """A clone() inside a transform belongs to it.

    Where it carries no derivative and no batch, a write of it concerns the levels below alone.
    """
    x, y = ad.tensor([0.1, 0.2, 0.3, 0.4]), ad.tensor([0.5, 0.6, 0.7, 0.8])

    def writes(v: ad.Tensor) -> ad.Tensor:
        v[1:3] *= v[1:3].clone().sin()
        return v

    value, tangent = ad.jvp(lambda x: writes(y * 1.5).sum() + x.sum(), (x,), (x,))
    assert value.item() == pytest.approx((writes(y * 1.5).sum() + x.sum()).item())
    assert tangent.item() == pytest.approx(x.sum().item())
    found = ad.hessian(lambda x: (writes(x * 1.5) ** 3).sum())(x)
    plain = lambda x: ad.cat([x[:1], x[1:3] * x[1:3].sin(), x[3:]])
    expected = ad.hessian(lambda x: (plain(x * 1.5) ** 3).sum())(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)

"""Muon, momentum made orthogonal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import bfloat16
from adjoint.core.errors import ValueRangeError
from adjoint.core.shapes import show
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars, decoupled
from adjoint.optim.options import Options


class Muon(FormulaOptimizer):
    """Muon: steps of matrices along the orthogonal matrix nearest to their momentum.

    `ns_steps` of a Newton-Schulz iteration with the polynomial a·x + b·x³ + c·x⁵
    (`ns_coefficients`) bring the singular values near 1, in bfloat16. `adjust_lr_fn` scales lr by
    the shape: "original" by √max(1, rows/columns), "match_rms_adamw" by 0.2·√max(rows, columns).
    Weight decay is AdamW's. Other parameters need another optimiser. Jordan 2024.

    >>> import adjoint as ad
    >>> x = ad.eye(2).mul(3).requires_grad_()
    >>> optimizer = ad.optim.Muon([x], lr=0.1, weight_decay=0.0)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.round(decimals=1)
    tensor([[2.9000, 0.0000],
            [0.0000, 2.9000]], grad_fn=<RoundBackward0>)
    """

    initial_scalars: ClassVar[dict[str, float]] = {}
    elementwise = False
    takes_complex = False
    unchecked = ("eps",)
    checks = (
        (
            lambda o: o["adjust_lr_fn"] in (None, "original", "match_rms_adamw"),
            "(adjust_lr_fn={adjust_lr_fn!r}): use 'original' or 'match_rms_adamw'",
        ),
        (
            lambda o: len(o["ns_coefficients"]) == 3 and not o["ns_steps"] >= 100,
            ": ns_coefficients are three numbers, ns_steps less than 100",
        ),
    )
    slot_names = ("momentum_buffer",)

    def __init__(
        self, params: Any, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7,
        ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of matrices."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueRangeError(
                    f"Muon: parameters are matrices, one has shape {show(p.shape)}"
                )

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        return {
            **decoupled(group),
            "lr": group["lr"],
            "momentum": group["momentum"],
            "gain": 1 - group["momentum"],
            "nesterov": 1.0 if group["nesterov"] else None,
            "adamw": 1.0 if group["adjust_lr_fn"] == "match_rms_adamw" else None,
            "eps": group["eps"],
            "polynomials": (tuple(group["ns_coefficients"]),) * group["ns_steps"],
        }, ()

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        m = state[0] + (g - state[0]) * n.gain
        ahead = m if n.nesterov is None else g + (m - g) * n.momentum
        rows, columns = p.shape
        if n.adamw is None:
            rate = n.lr * math.sqrt(max(1, rows / columns))
        else:
            rate = n.lr * (0.2 * math.sqrt(max(rows, columns)))
        return p - _orthogonal(ahead, n) * rate, m


def _orthogonal(matrix: Any, n: Any) -> Any:
    """Bring the singular values of a matrix near 1 by a Newton-Schulz iteration."""
    x = matrix.to(bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=n.eps)
    for a, b, c in n.polynomials:
        gram = x @ x.T
        x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)

"""Adafactor, second moments of matrices by rows and columns."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class Adafactor(FormulaOptimizer):
    """Adafactor: keeps the mean squares of a matrix's rows and columns instead of its elements.

    The update is g / √(r·cᵀ / mean r), scaled to a root mean square of at most `d`, times
    max(eps[1], rms p)·min(lr, 1/√t); vectors keep all mean squares. The means' weight is
    t^beta2_decay. eps[0] = None is the dtype's epsilon. `foreach` changes nothing: there is one
    implementation. Shazeer and Stern 2018.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Adafactor([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.8419, -1.8419], requires_grad=True)
    """

    elementwise = False
    takes_complex = False
    unchecked = ("eps",)
    checks = (
        (lambda o: (o["eps"][0] or 0) >= 0, "(eps[0]={eps[0]}): must be at least 0"),
        (lambda o: o["eps"][1] >= 0, "(eps[1]={eps[1]}): must be at least 0"),
        (lambda o: not o["beta2_decay"] > 0, "(beta2_decay={beta2_decay}): must be at most 0"),
    )

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def slot_values(self, p: Any, group: Options) -> list[Any]:
        """Means of rows and columns of a matrix, or of the elements of a vector."""
        state = self.state[p]
        if p.ndim < 2:
            if "variance" not in state:
                state["variance"] = ops.zeros_like(p.detach())
            return [state["variance"]]
        if "row_var" not in state:
            *outer, rows, columns = p.shape
            state["row_var"] = p.detach().new_zeros((*outer, rows, 1))
            state["col_var"] = p.detach().new_zeros((*outer, 1, columns))
        return [state["row_var"], state["col_var"]]

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        step = step + 1
        return {
            "gain": step ** group["beta2_decay"],
            "rate": min(group["lr"], step**-0.5),
            "eps1": group["eps"][0],
            "eps2": group["eps"][1],
            "d": group["d"],
            "decay": None,
            "lr_decay": group["lr"] * group["weight_decay"] or None,
        }, (step,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        eps1 = finfo(p.dtype).eps if n.eps1 is None else n.eps1
        rate = _rms(p).clamp(min=n.eps2) * n.rate
        if n.lr_decay is not None:
            p = p - p * n.lr_decay
        squares = g * g
        if len(state) == 1:
            means = state[0] + (squares - state[0]) * n.gain
            estimate, new = means, (means,)
        else:
            rows, columns = (
                s + (squares.mean(dim, keepdim=True) - s) * n.gain
                for s, dim in zip(state, (-1, -2), strict=True)
            )
            estimate = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
            new = (rows, columns)
        update = g * estimate.clamp(min=eps1 * eps1).rsqrt()
        scale = (_rms(update) / n.d).clamp(min=1.0)
        return p - update * (rate / scale), *new


def _rms(x: Any) -> Any:
    """The root of the mean square."""
    return (x * x).mean().sqrt()

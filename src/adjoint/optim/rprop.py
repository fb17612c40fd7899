"""Rprop, steps by the sign of the gradient."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars
from adjoint.optim.options import Options


class Rprop(FormulaOptimizer):
    """Rprop: each element has a step size of its own and goes against the sign of its gradient.

    The size grows by etas[1] while the sign stays and shrinks by etas[0] when it changes, in which
    case the element rests for a step; it begins with `lr` and stays within `step_sizes`. `foreach`
    and `capturable` change nothing: there is one implementation, and there are no CUDA graphs.
    Riedmiller and Braun 1993.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ad.optim.Rprop([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    checks = (
        (
            lambda o: 0 < o["etas"][0] < 1 < o["etas"][1],
            "(etas={etas}): must be below 1 and above 1, got {etas}",
        ),
    )
    slot_names = ("prev", "step_size")

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def initial(self, name: str, p: Any, group: Options) -> Any:
        if name == "prev":
            return super().initial(name, p, group)
        lr = float(group["lr"])
        return ops.full_like(p.detach(), complex(lr, lr) if p.is_complex() else lr)

    def numbers(self, group: Options, scalars: Scalars) -> tuple[Numbers, Scalars]:
        (step,) = scalars
        (less, more), (least, most) = group["etas"], group["step_sizes"]
        return {"less": less, "more": more, "least": least, "most": most}, (step + 1,)

    @staticmethod
    def formula(xp: Any, n: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        before, size = state
        agreement = g * before
        one = n.more * 0 + 1
        factor = xp.where(agreement > 0, n.more, xp.where(agreement < 0, n.less, one))
        size = xp.minimum(xp.maximum(size * factor, n.least), n.most)
        g = xp.where(agreement < 0, g * 0, g)
        return p - xp.sign(g) * size, g, size

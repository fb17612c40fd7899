"""A network solves Burgers' equation: its loss is the equation, so it needs no data.

∂u/∂t + u ∂u/∂x = ν ∂²u/∂x²,  u(x, 0) = −sin πx,  u(±1, t) = 0: a wave that steepens to a front.
The form of u has the initial and the boundary values built in, and what is minimised is the
square of what remains of the equation at random points. Its derivatives in x and t are `ad.grad`
inside the loss; training differentiates them once more. The exact solution, an integral by Cole
and Hopf, tells the error. The picture shows solution, cuts through it, and the loss.

python examples/pinn.py --compiled
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn

VISCOSITY = 0.03


class Burgers(nn.Module):
    """Its value is the mean square of the equation's residual."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1),
        )  # fmt: skip

    def solution(self, x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
        """u at one point."""
        correction = self.network(ad.stack([x, t]))[0]
        return -ad.sin(math.pi * x) + t * (1 - x * x) * correction

    def residual(self, x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
        """What remains of the equation at one point."""
        u = self.solution
        u_x, u_t = ad.grad(u, 0), ad.grad(u, 1)
        u_xx = ad.grad(u_x, 0)
        return u_t(x, t) + u(x, t) * u_x(x, t) - VISCOSITY * u_xx(x, t)

    def forward(self, x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
        return ad.vmap(self.residual)(x, t).square().mean()


def exact(x: Any, t: Any) -> Any:
    """The solution by Cole and Hopf: a quotient of integrals with the heat kernel."""
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    y = x[..., None] - 2 * np.sqrt(VISCOSITY * t[..., None]) * nodes
    weighted = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -(weighted * np.sin(np.pi * y)).sum(-1) / weighted.sum(-1)


def main() -> None:
    args = arguments(__doc__ or "", epochs=20, quick=2)
    steps, count = (50, 256) if args.quick else (100, 512)  # of an epoch; points of a step
    model = Burgers()
    optimizer = ad.optim.Adam(model.parameters(), lr=3e-3)
    schedule = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * steps, eta_min=1e-4)
    eager, compiled = both_steps(model, None, optimizer)
    step = compiled if args.compiled else eager

    x, t = np.meshgrid(np.linspace(-1, 1, 101, dtype="f4"), np.linspace(0.01, 1, 51, dtype="f4"))
    truth = exact(x, t)
    at = ad.vmap(model.solution)

    def solved() -> Any:
        with ad.no_grad():
            return at(ad.tensor(x.ravel()), ad.tensor(t.ravel())).reshape(x.shape).numpy()

    def error() -> float:
        return float(np.linalg.norm(solved() - truth) / np.linalg.norm(truth))

    losses: list[float] = []
    for _ in (progress := Progress(args.epochs)):
        for _ in range(steps):
            losses.append(float(step(2 * ad.rand(count) - 1, ad.rand(count))))
            schedule.step()
        progress.show(loss=losses[-1], error=error())

    found, reached = solved(), error()
    cuts = {f"t = {t[i, 0]:.2g}": (x[i], found[i]) for i in (0, 12, 25, 50)}
    exactly = [(x[i], truth[i]) for i in (0, 12, 25, 50)]
    pictures.write(
        args.out,
        pictures.field("u(x, t)", found[::-1], x="x", y="t", frame=(-1, 1, 0, 1)),
        pictures.lines("found (exact: dotted)", cuts, dotted=exactly, x="x", y="u"),
        pictures.lines("mean square of the residual", {"": losses}, x="step", logarithmic=True),
    )
    batch = (2 * ad.rand(count) - 1, ad.rand(count))
    print_speed_up(eager, compiled, *batch, quick=args.quick)
    require("relative error", reached, at_most=0.45 if args.quick else 0.03)


if __name__ == "__main__":
    main()

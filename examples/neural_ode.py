"""A network learns the law of a motion from places along one path.

The path is a spiral, y′ = A y³. The network stands for the right side of y′ = f(y); a solver (the
fourth-order method of Runge and Kutta, in a loop `ad.scan`) follows it from random places of the
path, and the gradient goes back through all steps of the solver. The picture shows the whole path
as the network continues it from its first place, and the field f.

python examples/neural_ode.py --compiled
"""

from __future__ import annotations

from collections.abc import Callable

from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn

Field = Callable[[ad.Tensor], ad.Tensor]
MATRIX = ad.tensor([[-0.1, 2.0], [-2.0, -0.1]])
START = ad.tensor([2.0, 0.0])
STEP, LENGTH, AHEAD, BATCH = 0.025, 300, 20, 64  # of time; of the path; of a piece; pieces


def spiral(y: ad.Tensor) -> ad.Tensor:
    """The true law."""
    return y**3 @ MATRIX


def path(field: Field, start: ad.Tensor, count: int) -> ad.Tensor:
    """Places after each of `count` steps of Runge and Kutta: shape (count, *start.shape)."""

    def advance(y: ad.Tensor, _: None) -> tuple[ad.Tensor, ad.Tensor]:
        k1 = field(y)
        k2 = field(y + STEP / 2 * k1)
        k3 = field(y + STEP / 2 * k2)
        k4 = field(y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return ad.scan(advance, start, None, length=count)[1]


class Motion(nn.Module):
    """The next places of a path, from a place of it."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def field(self, y: ad.Tensor) -> ad.Tensor:
        return self.network(y**3)

    def forward(self, start: ad.Tensor) -> ad.Tensor:
        return path(self.field, start, AHEAD)


def pieces(truth: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    """Random places of the path, and the places that follow each of them."""
    starts = ad.randint(0, len(truth) - AHEAD, (BATCH,))
    return truth[starts], truth[starts + 1 + ad.arange(AHEAD)[:, None]]


def main() -> None:
    args = arguments(__doc__ or "", epochs=40, quick=2)
    truth = ad.cat([START[None], path(spiral, START, LENGTH)])
    model = Motion()
    optimizer = ad.optim.Adam(model.parameters(), lr=1e-2)
    schedule = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.92)
    eager, compiled = both_steps(model, nn.L1Loss(), optimizer)
    step = compiled if args.compiled else eager

    def continued() -> ad.Tensor:
        with ad.no_grad():
            return ad.cat([START[None], path(model.field, START, LENGTH)])

    losses: list[float] = []
    for _ in (progress := Progress(args.epochs)):
        losses += [float(step(*pieces(truth))) for _ in range(50)]
        schedule.step()
        progress.show(loss=losses[-1], distance=(continued() - truth).norm(dim=1).mean())

    found = continued()
    distance = float((found - truth).norm(dim=1).mean())
    pictures.write(
        args.out,
        pictures.lines("the path", {"true": tuple(truth.T), "continued": tuple(found.T)}),
        pictures.lines("mean distance of a piece", {"": losses}, x="step", logarithmic=True),
    )
    print_speed_up(eager, compiled, *pieces(truth), quick=args.quick)
    if args.quick:
        require("mean distance of a piece", losses[-1], at_most=0.1)
    else:
        require("mean distance of the path", distance, at_most=0.1)


if __name__ == "__main__":
    main()

"""Two networks against each other: one makes points of the plane, the other looks for fakes.

The true points lie in eight clumps on a circle. The generator turns noise into points and wants
the discriminator to take them for true; the discriminator wants to tell them apart, with a gentle
slope: its loss contains its own gradient, so training takes second derivatives. Neither loss says
how good the points are, so this counts clumps that are hit and points that lie in one. The picture
shows the points, the judgement of the plane, and both losses.

python examples/gan.py --compiled
"""

from __future__ import annotations

import math
from itertools import pairwise

from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn
from adjoint.nn.functional import softplus

CLUMPS, SPREAD, NOISE, BATCH, STEEPNESS = 8, 0.08, 4, 256, 0.02
ANGLES = 2 * math.pi * ad.arange(CLUMPS) / CLUMPS
CENTRES = 2 * ad.stack([ANGLES.cos(), ANGLES.sin()], 1)


def layers(*widths: int) -> nn.Sequential:
    """Linear layers with leaky ReLUs between them."""
    parts: list[nn.Module] = []
    for width, following in pairwise(widths):
        parts += [nn.Linear(width, following), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts[:-1])


class Discrimination(nn.Module):
    """The discriminator's loss: true points should score high, made ones low, and its slope at
    true points should be small, without which the two networks run in circles.
    """

    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, true: ad.Tensor, noise: ad.Tensor) -> ad.Tensor:
        made = self.generator(noise).detach()
        judged = softplus(-self.discriminator(true)) + softplus(self.discriminator(made))
        slope = ad.vmap(ad.grad(lambda point: self.discriminator(point)[0]))(true)
        return judged.mean() + STEEPNESS / 2 * slope.square().sum(1).mean()


class Generation(Discrimination):
    """The generator's loss: points that it makes should score high."""

    def forward(self, noise: ad.Tensor) -> ad.Tensor:
        return softplus(-self.discriminator(self.generator(noise))).mean()


def true_points(count: int) -> ad.Tensor:
    return CENTRES[ad.randint(0, CLUMPS, (count,))] + SPREAD * ad.randn(count, 2)


def quality(made: ad.Tensor) -> tuple[int, float]:
    """How many clumps have their share of the points, and how many of the points lie in a clump."""
    distance, nearest = ad.cdist(made, CENTRES).min(1)
    inside = distance < 4 * SPREAD
    counts = nearest[inside].bincount(minlength=CLUMPS)
    return int((counts > len(made) / CLUMPS / 4).sum()), float(inside.float().mean())


def main() -> None:
    args = arguments(__doc__ or "", epochs=40, quick=4)
    generator, discriminator = layers(NOISE, 64, 64, 2), layers(2, 64, 64, 1)
    deceive = Generation(generator, discriminator)
    judge = Discrimination(generator, discriminator)
    # Each optimiser trains one of the networks; the other one stays as it is.
    optimizers = [
        ad.optim.Adam(trained.parameters(), lr=3e-3, betas=(0.5, 0.99))
        for trained in (discriminator, generator)
    ]
    schedules = [ad.optim.lr_scheduler.LinearLR(o, 1.0, 0.1, args.epochs) for o in optimizers]
    pairs = [both_steps(loss, None, o) for loss, o in zip((judge, deceive), optimizers)]
    to_judge, to_deceive = (pair[args.compiled] for pair in pairs)

    losses: dict[str, list[float]] = {"discriminator": [], "generator": []}
    look = ad.randn(1000, NOISE)
    for _ in (progress := Progress(args.epochs)):
        for _ in range(100):
            judged = to_judge(true_points(BATCH), ad.randn(BATCH, NOISE))
            deceived = to_deceive(ad.randn(BATCH, NOISE))
        for schedule in schedules:
            schedule.step()
        losses["discriminator"].append(float(judged))
        losses["generator"].append(float(deceived))
        with ad.no_grad():
            clumps, inside = quality(generator(look))
        progress.show(clumps=clumps, inside=inside)

    side = ad.linspace(-3, 3, 60)
    plane = ad.stack(ad.meshgrid(side, side.flip(0), indexing="xy"), -1)
    with ad.no_grad():
        made, verdict = generator(look), discriminator(plane).sigmoid()[..., 0]
    pictures.write(
        args.out,
        pictures.points("points", {"true": true_points(600), "made": made[:600]}),
        pictures.field("taken for true: red", verdict, frame=(-3, 3, -3, 3)),
        pictures.lines("losses", losses, x="hundreds of steps"),
    )
    noise = ad.randn(BATCH, NOISE)
    print_speed_up(*pairs[0], true_points(BATCH), noise, quick=args.quick)
    require("clumps", clumps, at_least=4 if args.quick else 8)
    require("share of points in clumps", inside, at_least=0.25 if args.quick else 0.8)


if __name__ == "__main__":
    main()

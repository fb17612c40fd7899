"""A variational autoencoder draws digits: pictures become a few numbers, and numbers pictures.

The encoder says which normal distribution of two numbers a picture comes from, the decoder draws
the picture again from a sample of it. What is minimised is −log p(x) at most, in two parts: how
badly the picture is drawn, and how far the distribution is from the standard normal one. The
picture shows both parts, and what the decoder draws from each place of the plane.

python examples/vae.py --compiled
"""

from __future__ import annotations

from support import pictures
from support.digits import SIDE, digits
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn
from adjoint.distributions import Bernoulli, Normal, kl_divergence

PIXELS, BATCH, GRID = SIDE * SIDE, 100, 11


class Autoencoder(nn.Module):
    """Its value is the negative evidence lower bound of a batch of pictures, in nats each."""

    def __init__(self, hidden: int = 256, latent: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, PIXELS),
        )  # fmt: skip

    def encode(self, x: ad.Tensor) -> Normal:
        mean, log_scale = self.encoder(x).chunk(2, -1)
        return Normal(mean, log_scale.exp())

    def parts(self, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        """−E log p(x | z) and KL(q(z | x) ‖ p(z)), means of the batch."""
        found = self.encode(x)
        drawn = Bernoulli(logits=self.decoder(found.rsample()))
        prior = Normal(ad.zeros(()), ad.ones(()))
        return -drawn.log_prob(x).sum(1).mean(), kl_divergence(found, prior).sum(1).mean()

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        drawing, divergence = self.parts(x)
        return drawing + divergence


def plane(model: Autoencoder) -> ad.Tensor:
    """What the decoder draws from a grid of the plane, by quantiles of the normal distribution."""
    places = Normal(0.0, 1.0).icdf(ad.linspace(0.02, 0.98, GRID))
    grid = ad.stack(ad.meshgrid(places, places, indexing="xy"), -1).reshape(-1, 2)
    with ad.no_grad():
        return model.decoder(grid).sigmoid().reshape(-1, SIDE, SIDE)


def main() -> None:
    args = arguments(__doc__ or "", epochs=30, quick=3)
    x, _ = digits(1000 if args.quick else 4000, seed=0)
    train = (ad.tensor(x).flatten(1) > 0.5).float()
    unseen = (ad.tensor(digits(500, seed=1)[0]).flatten(1) > 0.5).float()
    model = Autoencoder()
    optimizer = ad.optim.Adam(model.parameters(), lr=2e-3)
    eager, compiled = both_steps(model, None, optimizer)
    step = compiled if args.compiled else eager
    loader = ad.utils.data.DataLoader(train, batch_size=BATCH, shuffle=True)

    curves: dict[str, list[float]] = {"drawing": [], "divergence": []}
    for _ in (progress := Progress(args.epochs)):
        for batch in loader:
            step(batch)
        with ad.no_grad():
            for curve, part in zip(curves.values(), model.parts(unseen)):
                curve.append(float(part))
        progress.show(**{name: curve[-1] for name, curve in curves.items()})

    pictures.write(
        args.out,
        pictures.lines("nats of an unseen digit", curves, x="epoch"),
        pictures.images("drawn from the plane", plane(model), columns=GRID),
    )
    print_speed_up(eager, compiled, train[:BATCH], quick=args.quick)
    nats = sum(curve[-1] for curve in curves.values())
    require("nats of an unseen digit", nats, at_most=230 if args.quick else 180)


if __name__ == "__main__":
    main()

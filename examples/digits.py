"""A convolutional network reads digits.

The digits are drawn by strokes that are bent, turned and blurred at random, so nothing is
downloaded. The picture shows the loss, the accuracy on digits that were not trained with, and
what the network takes unseen digits for.

python examples/digits.py --compiled
"""

from __future__ import annotations

from typing import Any

import numpy as np
from support import pictures
from support.digits import digits
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn

BATCH = 64


class Classifier(nn.Module):
    """Two convolutions, each with a pooling, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.head(self.features(x))


def predicted(model: nn.Module, x: ad.Tensor) -> ad.Tensor:
    """The digit that each picture most likely shows."""
    model.eval()
    with ad.no_grad():
        found = ad.cat([model(part).argmax(1) for part in x.split(250)])
    model.train()
    return found


def main() -> None:
    args = arguments(__doc__ or "", epochs=6, quick=2)
    train = [ad.tensor(a) for a in digits(640 if args.quick else 5000, seed=0)]
    x, y = (ad.tensor(a) for a in digits(200 if args.quick else 1000, seed=1))
    model = Classifier()
    optimizer = ad.optim.Adam(model.parameters(), lr=2e-3)
    eager, compiled = both_steps(model, nn.CrossEntropyLoss(), optimizer)
    step = compiled if args.compiled else eager
    loader = ad.utils.data.DataLoader(
        ad.utils.data.TensorDataset(*train), batch_size=BATCH, shuffle=True, drop_last=True
    )

    losses: list[float] = []
    accuracies: list[float] = []
    for _ in (progress := Progress(args.epochs)):
        losses += [float(step(*batch)) for batch in loader]
        accuracies.append(float((predicted(model, x) == y).float().mean()))
        progress.show(loss=np.mean(losses[-len(loader) :]), accuracy=accuracies[-1])

    found = predicted(model, x)
    pictures.write(
        args.out,
        pictures.lines("loss of each batch", {"": losses}, x="step", logarithmic=True),
        pictures.lines("accuracy on unseen digits", {"": accuracies}, x="epoch"),
        pictures.images("read as " + _listed(found[:8]) + " …", x[:48, 0], columns=8),
    )
    print_speed_up(eager, compiled, *next(iter(loader)), quick=args.quick)
    require("accuracy", accuracies[-1], at_least=0.5 if args.quick else 0.97)


def _listed(labels: Any) -> str:
    return " ".join(str(int(v)) for v in labels)


if __name__ == "__main__":
    main()

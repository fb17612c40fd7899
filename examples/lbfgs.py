"""L-BFGS fits a spectrum: the heights, places and widths of peaks that lie over one another.

The method uses the last gradients to guess the curvature of the loss and searches along a line
for each step, so it needs tens of evaluations where gradient descent needs thousands. The picture
shows the peaks that were found, and the loss of both methods by evaluations.

python examples/lbfgs.py --compiled
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support import pictures
from support.running import Progress, arguments, print_speed_up, require

import adjoint as ad
from adjoint import nn

ad.set_default_dtype(ad.float64)

# height, place, width of each peak
TRUE = ad.tensor([[1.0, 2.0, 0.35], [0.7, 2.9, 0.25], [1.4, 4.6, 0.5], [0.9, 6.0, 0.6]])
GUESS = ad.tensor([[0.8, 1.7, 0.5], [0.8, 3.3, 0.5], [0.8, 4.3, 0.5], [0.8, 6.4, 0.5]])
NOISE = 0.05


def spectrum(peaks: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    """Each peak alone: Gaussians of shape (peaks, points)."""
    height, place, width = peaks.T[..., None]
    return height * ad.exp(-(((x - place) / width) ** 2) / 2)


class Fit(nn.Module):
    """Its value is the mean square of what the peaks leave unexplained, in units of the noise."""

    def __init__(self) -> None:
        super().__init__()
        self.peaks = nn.Parameter(GUESS.clone())

    def forward(self, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return ((spectrum(self.peaks, x).sum(0) - y) / NOISE).square().mean()


def closures(model: nn.Module, *data: ad.Tensor) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What an optimiser with a line search calls: the loss, with new gradients; both ways."""
    parameters = dict(model.named_parameters())
    loss_of = lambda values, *data: ad.func.functional_call(model, values, data)
    fast = ad.compile(ad.value_and_grad(loss_of))

    def eager() -> ad.Tensor:
        model.zero_grad()
        loss = model(*data)
        loss.backward()
        return loss

    def compiled() -> ad.Tensor:
        loss, gradients = fast({name: p.detach() for name, p in parameters.items()}, *data)
        for name, p in parameters.items():
            p.grad = gradients[name]
        return loss

    return eager, compiled


def counted(closure: Callable[[], Any], losses: list[float]) -> Callable[[], Any]:
    """The closure, which also notes the loss of each evaluation."""

    def call() -> Any:
        loss = closure()
        losses.append(float(loss.detach()))
        return loss

    return call


def main() -> None:
    args = arguments(__doc__ or "", epochs=12, quick=8)
    x = ad.linspace(0, 8, 2_000 if args.quick else 50_000)
    y = spectrum(TRUE, x).sum(0) + NOISE * ad.randn(len(x))
    losses: dict[str, list[float]] = {"L-BFGS": [], "Adam": []}

    model = Fit()
    pair = closures(model, x, y)
    closure = counted(pair[args.compiled], losses["L-BFGS"])
    optimizer = ad.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
    for _ in (progress := Progress(args.epochs)):
        optimizer.step(closure)
        progress.show(loss=losses["L-BFGS"][-1], evaluations=len(losses["L-BFGS"]))

    slow = Fit()
    adam = ad.optim.Adam(slow.parameters(), lr=0.02)
    closure = counted(closures(slow, x, y)[args.compiled], losses["Adam"])
    for _ in range(len(losses["L-BFGS"])):
        adam.step(closure)

    found = model.peaks.detach()
    some = slice(None, None, len(x) // 400)
    parts = {"sum": (x[some], spectrum(found, x[some]).sum(0))}
    parts |= {f"peak {i + 1}": (x[some], p) for i, p in enumerate(spectrum(found, x[some]))}
    pictures.write(
        args.out,
        pictures.lines("peaks (the data: dotted)", parts, dotted=[(x[some], y[some])]),
        pictures.lines("loss", losses, x="evaluations", logarithmic=True),
    )
    print("height, place, width:", np.round(found.numpy(), 3).tolist())
    print_speed_up(*pair, quick=args.quick)
    worst = float((found - TRUE).abs().max())
    require("largest error of a peak", worst, at_most=0.1 if args.quick else 0.02)


if __name__ == "__main__":
    main()

"""Rates of learning over time: one after the other, each for a few steps of one fit."""

import torch
from torch import nn
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

makers = {
    "step": lambda o: StepLR(o, 2, 0.5),
    "multi": lambda o: MultiStepLR(o, [2, 4], 0.1),
    "exponential": lambda o: ExponentialLR(o, 0.9),
    "lambda": lambda o: LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "linear": lambda o: LinearLR(o, 0.3, total_iters=4),
    "polynomial": lambda o: PolynomialLR(o, 5, 2.0),
    "cosine": lambda o: CosineAnnealingLR(o, 5),
    "restarts": lambda o: CosineAnnealingWarmRestarts(o, 2, 2),
    "cyclic": lambda o: CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "one cycle": lambda o: OneCycleLR(o, 0.1, total_steps=7),
    "sequential": lambda o: SequentialLR(o, [LinearLR(o), ExponentialLR(o, 0.5)], [3]),
    "chained": lambda o: ChainedScheduler([StepLR(o, 3), ExponentialLR(o, 0.9)]),
    "plateau": lambda o: ReduceLROnPlateau(o, factor=0.5, patience=0, threshold=1e-1),
}
losses = []
x = torch.linspace(-1, 1, 20).unsqueeze(1)
y = 3 * x + 1
for name, maker in makers.items():
    torch.manual_seed(18)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = maker(optimizer)
    for _ in range(6):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item()) if name == "plateau" else scheduler.step()
    losses += [loss.item(), optimizer.param_groups[0]["lr"]]

"""A model and its optimiser saved to a file and taken up again."""

import os
import tempfile

import torch
from torch import nn, optim

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(10, 4), torch.randn(10, 1)


def step(net, optimizer):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


losses = [step(net, optimizer) for _ in range(3)]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    torch.save(
        {
            "epoch": 3,
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loss": losses[-1],
        },
        path,
    )
    checkpoint = torch.load(path, weights_only=True)

again = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
again.load_state_dict(checkpoint["model"])
optimizer_again = optim.Adam(again.parameters(), lr=1.0)
optimizer_again.load_state_dict(checkpoint["optimizer"])
assert checkpoint["epoch"] == 3
last = step(net, optimizer)
assert step(again, optimizer_again) == last
for p, q in zip(net.parameters(), again.parameters()):
    assert torch.equal(p, q)
losses.append(last)

"""From bare tensors to Module, Linear, optim, Dataset, DataLoader and convolutions."""

import math

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
n = 96
y_train = torch.arange(n) % 4
x_train = 0.2 * torch.randn(n, 64)
x_train[torch.arange(n), y_train * 16] += 3.0  # each digit has a bright place
losses = []

weights = torch.randn(64, 4) / math.sqrt(64)
weights.requires_grad_()
bias = torch.zeros(4, requires_grad=True)


def log_softmax(x):
    return x - x.exp().sum(-1).log().unsqueeze(-1)


def nll(input, target):
    return -input[range(target.shape[0]), target].mean()


for start in range(0, n, 32):
    xb, yb = x_train[start : start + 32], y_train[start : start + 32]
    loss = nll(log_softmax(xb @ weights + bias), yb)
    loss.backward()
    with torch.no_grad():
        weights -= weights.grad * 0.5
        bias -= bias.grad * 0.5
        weights.grad.zero_()
        bias.grad.zero_()
    losses.append(loss.item())


class Logistic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(64, 4)

    def forward(self, xb):
        return self.lin(xb)


class Lambda(nn.Module):
    def __init__(self, func):
        super().__init__()
        self.func = func

    def forward(self, x):
        return self.func(x)


def fit(model, opt, epochs):
    train_dl = DataLoader(TensorDataset(x_train, y_train), batch_size=32)
    for _ in range(epochs):
        model.train()
        for xb, yb in train_dl:
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            opt.zero_grad()
    model.eval()
    with torch.no_grad():
        return sum(F.cross_entropy(model(xb), yb).item() for xb, yb in train_dl)


model = Logistic()
losses.append(fit(model, optim.SGD(model.parameters(), lr=0.5), 2))
cnn = nn.Sequential(
    Lambda(lambda x: x.view(-1, 1, 8, 8)),
    nn.Conv2d(1, 8, kernel_size=3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(8, 4, kernel_size=3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    Lambda(lambda x: x.view(x.size(0), -1)),
)
losses.append(fit(cnn, optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9), 2))

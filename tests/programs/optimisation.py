"""The training loop of a classifier on generated clusters: loss, gradient, step, test."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
centres = torch.tensor([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])
labels = torch.arange(150) % 3
points = centres[labels] + 0.3 * torch.randn(150, 2)
train = DataLoader(TensorDataset(points[:120], labels[:120]), batch_size=20)
test = DataLoader(TensorDataset(points[120:], labels[120:]), batch_size=30)

model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train_loop(dataloader):
    total = 0.0
    model.train()
    for X, y in dataloader:
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total / len(dataloader)


def test_loop(dataloader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for X, y in dataloader:
            correct += (model(X).argmax(1) == y).type(torch.float).sum().item()
    return correct / len(dataloader.dataset)


losses = [train_loop(train) for _ in range(5)]
accuracy = test_loop(test)
assert accuracy > 0.9
assert losses[-1] < losses[0]

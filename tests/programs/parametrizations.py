"""Weights that are symmetric, or orthogonal, by parametrisation; several on one another."""

import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class Skew(nn.Module):
    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu(1)


class CayleyMap(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("Id", torch.eye(n))

    def forward(self, X):
        return torch.linalg.solve(self.Id - X, self.Id + X)


torch.manual_seed(17)
layer = nn.Linear(3, 3)
parametrize.register_parametrization(layer, "weight", Symmetric())
assert torch.allclose(layer.weight, layer.weight.T)
print(layer)
symmetric = torch.rand(3, 3)
symmetric = symmetric + symmetric.T
layer.weight = symmetric
assert torch.allclose(layer.weight, symmetric)

layer = nn.Linear(3, 3)
parametrize.register_parametrization(layer, "weight", Skew())
parametrize.register_parametrization(layer, "weight", CayleyMap(3))
X = layer.weight
assert torch.dist(X.T @ X, torch.eye(3)) < 1e-5
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
target = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
losses = []
for _ in range(10):
    with parametrize.cached():
        loss = torch.dist(layer.weight, target) ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
assert torch.dist(layer.weight.T @ layer.weight, torch.eye(3)) < 1e-4
parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
assert not parametrize.is_parametrized(layer)

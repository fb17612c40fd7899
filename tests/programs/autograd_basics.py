"""Gradients: one layer of logistic regression, switching the tape off, a Jacobian product."""

import torch

x = torch.ones(5)
y = torch.zeros(3)
w = torch.linspace(-1, 1, 15).reshape(5, 3).requires_grad_()
b = torch.zeros(3, requires_grad=True)
z = torch.matmul(x, w) + b
loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
assert z.grad_fn is not None
loss.backward()

with torch.no_grad():
    assert not (torch.matmul(x, w) + b).requires_grad
assert not z.detach().requires_grad

inp = torch.eye(4, 5, requires_grad=True)
out = (inp + 1).pow(2).t()
out.backward(torch.ones_like(out), retain_graph=True)
first = inp.grad.clone()
out.backward(torch.ones_like(out), retain_graph=True)
second = inp.grad.clone()
inp.grad.zero_()
out.backward(torch.ones_like(out))

losses = [
    loss.item(),
    w.grad.sum().item(),
    first.sum().item(),
    second.sum().item(),
    inp.grad.sum().item(),
]

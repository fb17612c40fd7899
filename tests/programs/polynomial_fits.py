"""A cubic fitted to the sine in six forms: by hand, autograd, Function, nn, optim, Module."""

import math

import torch

x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
losses = []

# by hand
a, b, c, d = (torch.tensor(v) for v in (0.1, 0.2, -0.1, 0.05))
for _ in range(50):
    error = a + b * x + c * x**2 + d * x**3 - y
    grad = 2.0 * error
    a -= 1e-5 * grad.sum()
    b -= 1e-5 * (grad * x).sum()
    c -= 1e-5 * (grad * x**2).sum()
    d -= 1e-5 * (grad * x**3).sum()
losses.append(error.pow(2).sum().item())

# autograd
weights = [torch.tensor(v, requires_grad=True) for v in (0.1, 0.2, -0.1, 0.05)]
for _ in range(50):
    loss = (sum(w * x**i for i, w in enumerate(weights)) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for w in weights:
            w -= 1e-5 * w.grad
            w.grad = None
losses.append(loss.item())
assert abs(losses[0] - losses[1]) < 1e-2


# a function of one's own
class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


P3 = LegendrePolynomial3.apply
coefficients = [torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3)]
for _ in range(50):
    p, q, r, s = coefficients
    loss = (p + q * P3(r + s * x) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for w in coefficients:
            w -= 5e-6 * w.grad
            w.grad = None
losses.append(loss.item())

# nn and optim
torch.manual_seed(4)
powers = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
loss_fn = torch.nn.MSELoss(reduction="sum")
for _ in range(50):
    loss = loss_fn(model(powers), y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= 1e-6 * param.grad
losses.append(loss.item())
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(50):
    loss = loss_fn(model(powers), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
losses.append(loss.item())
assert losses[-1] < losses[-2]


# a module, with a loop that is as long as it wishes
class Polynomial(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor(0.1))
        self.b = torch.nn.Parameter(torch.tensor(0.2))
        self.e = torch.nn.Parameter(torch.tensor(-0.01))

    def forward(self, x, count):
        y = self.a + self.b * x
        for power in range(4, 4 + count):
            y = y + self.e * x**power / 100
        return y

    def string(self):
        return f"y = {self.a.item()} + {self.b.item()} x + {self.e.item()} x^4 ?"


model = Polynomial()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
for t in range(40):
    loss = loss_fn(model(x, t % 3), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.string())
losses.append(loss.item())

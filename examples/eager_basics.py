"""Eager reverse mode: fit a model by its gradient, then take the second derivatives."""

import adjoint as ad


def loss(weight: ad.Tensor, inputs: ad.Tensor, targets: ad.Tensor) -> ad.Tensor:
    return ((inputs @ weight).tanh() - targets).square().mean()


ad.manual_seed(0)
inputs = ad.randn(64, 3, dtype=ad.float64)
truth = ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64)
targets = (inputs @ truth).tanh()

weight = ad.zeros(3, dtype=ad.float64, requires_grad=True)
for step in range(300):
    value = loss(weight, inputs, targets)
    (gradient,) = ad.autograd.grad(value, weight)
    with ad.no_grad():
        weight -= 0.5 * gradient
    if step % 100 == 0:
        print(f"step {step:3d}: loss {value.item():.2e}")

print("fitted", [round(w, 3) for w in weight.tolist()], "truth", truth.tolist())
assert ad.allclose(weight, truth, atol=1e-2)

# The gradient is itself a function of the weight: row by row, its derivative is the Hessian.
(gradient,) = ad.autograd.grad(loss(weight, inputs, targets), weight, create_graph=True)
rows = [ad.autograd.grad(g, weight, retain_graph=True)[0] for g in gradient]
hessian = ad.stack(rows)
print("Hessian is symmetric:", ad.allclose(hessian, hessian.t()))

"""Transforms that nest: per-sample gradients, a Hessian, and Newton's method on a small regression.

python examples/transforms.py
"""

import numpy as np

import adjoint as ad

ad.set_default_dtype(ad.float64)
ad.manual_seed(0)

inputs = ad.randn(200, 2)
targets = (inputs @ ad.tensor([1.5, -0.5]) + 0.3 + 0.1 * ad.randn(200) > 0).to(ad.float64)


def loss(parameters: dict[str, ad.Tensor], x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    """Logistic loss of one sample, with a little weight decay."""
    score = (x * parameters["slope"]).sum() + parameters["offset"]
    decay = 0.05 * (parameters["slope"] ** 2).sum()
    return ad.logaddexp(ad.zeros_like(score), score) - y * score + decay


def total(parameters: dict[str, ad.Tensor]) -> ad.Tensor:
    """Mean over the samples: vmap of a function of one sample."""
    return ad.vmap(loss, in_dims=(None, 0, 0))(parameters, inputs, targets).mean()


start = {"slope": ad.zeros(2), "offset": ad.zeros(())}
per_sample = ad.vmap(ad.grad(loss), in_dims=(None, 0, 0))(start, inputs, targets)
print(
    "one gradient for each sample:",
    tuple(per_sample["slope"].shape),
    "their mean:",
    per_sample["slope"].mean(0),
)
print("the gradient of the mean:    ", ad.grad(total)(start)["slope"])


def flat(point: ad.Tensor) -> ad.Tensor:
    return total({"slope": point[:2], "offset": point[2]})


point = ad.zeros(3)
for step in range(6):
    value, gradient = ad.value_and_grad(flat)(point)
    direction = ad.tensor(np.linalg.solve(ad.hessian(flat)(point).numpy(), gradient.numpy()))
    point = point - direction
    print(f"Newton step {step}: loss {value:.6f}, gradient {gradient.abs().max():.1e}")

print("found:", point)

"""An operator of one's own: a row and a kernel give both modes, any order, and the checks."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import adjoint as ad

TABLE = """
- name: softclip(Tensor self, Scalar width=1) -> Tensor
  like: pointwise_float
  kernel: my.softclip
  self: grad * (self * self / (width * width) + 1) ** -1.5
  doc: A smooth clip to (-width, width), x / sqrt(1 + (x/width)²).
"""


def softclip(self: np.ndarray, width: float) -> np.ndarray:
    return self / np.sqrt(1 + (self / width) ** 2)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "my.yaml"
    path.write_text(TABLE)
    ad.library(path, kernels=SimpleNamespace(softclip=softclip))

x = ad.linspace(-3.0, 3.0, 7, dtype=ad.float64, requires_grad=True)
y = ad.ops.softclip(x, 2.0)
y.sum().backward()
print("softclip  ", [round(v, 3) for v in y.tolist()])
print("derivative", [round(v, 3) for v in x.grad.tolist()])

assert ad.autograd.gradcheck(lambda x: ad.ops.softclip(x, 2.0), (x,), check_forward_ad=True)
assert ad.autograd.gradgradcheck(lambda x: ad.ops.softclip(x, 2.0), (x,))
print("checked against finite differences, in both modes, to second order")

"""Tensors: making, indexing, joining, arithmetic, memory shared with NumPy."""

import numpy as np
import torch

data = [[1, 2], [3, 4]]
from_list = torch.tensor(data)
array = np.array(data)
shared = torch.from_numpy(array)
ones = torch.ones_like(from_list)
noise = torch.rand_like(from_list, dtype=torch.float)
print(f"{from_list.shape=} {from_list.dtype=} {from_list.device=}")

device = "cuda" if torch.cuda.is_available() else "cpu"
tensor = torch.ones(4, 4).to(device)
tensor[:, 1] = 0
joined = torch.cat([tensor, tensor, tensor], dim=1)
product = tensor @ tensor.T
other = torch.empty_like(product)
torch.matmul(tensor, tensor.T, out=other)
assert torch.equal(product, other)
assert joined.shape == torch.Size([4, 12])
assert joined.size().numel() == 48

total = tensor.sum()
assert isinstance(total.item(), float)
tensor.add_(5)
np.add(array, 1, out=array)
assert shared.tolist() == [[2, 3], [4, 5]]
back = torch.ones(3).numpy()
back += 1

if torch.accelerator.is_available():
    tensor = tensor.to(torch.accelerator.current_accelerator())

losses = [total.item(), tensor.mean().item(), product.sum().item(), float(back.sum())]

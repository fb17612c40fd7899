"""A gradient for each sample: one by one, and by vmap over grad of a functional call."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap


class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 4, 3, 1)
        self.fc1 = nn.Linear(36, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc1(torch.flatten(x, 1)), dim=1)


torch.manual_seed(13)
data, targets = torch.randn(6, 1, 10, 10), torch.arange(6) % 3
model = SimpleCNN()


def compute_grad(sample, target):
    prediction = model(sample.unsqueeze(0))
    loss = F.nll_loss(prediction, target.unsqueeze(0))
    return torch.autograd.grad(loss, list(model.parameters()))


one_by_one = [torch.stack(g) for g in zip(*(compute_grad(x, t) for x, t in zip(data, targets)))]
params = {k: v.detach() for k, v in model.named_parameters()}
buffers = {k: v.detach() for k, v in model.named_buffers()}


def compute_loss(params, buffers, sample, target):
    predictions = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
    return F.nll_loss(predictions, target.unsqueeze(0))


ft_compute_sample_grad = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))
per_sample = ft_compute_sample_grad(params, buffers, data, targets)
chunked = vmap(grad(compute_loss), in_dims=(None, None, 0, 0), chunk_size=4)(
    params, buffers, data, targets
)
for expected, found, again in zip(one_by_one, per_sample.values(), chunked.values()):
    assert torch.allclose(expected, found, atol=1e-4, rtol=1e-4)
    assert torch.allclose(found, again, atol=1e-5)
losses = [g.abs().sum().item() for g in per_sample.values()]

"""Several models of one shape evaluated at once over stacked parameters."""

import copy

import torch
import torch.nn as nn
from torch.func import functional_call, stack_module_state, vmap


class SimpleMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc2 = nn.Linear(12, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.fc2(self.drop(torch.relu(self.fc1(x.flatten(1)))))


torch.manual_seed(14)
data = torch.randn(3, 5, 4, 4)
models = [SimpleMLP().eval() for _ in range(3)]
minibatch = data[0]
apart = [model(batch) for model, batch in zip(models, data)]
params, buffers = stack_module_state(models)
base_model = copy.deepcopy(models[0]).to("meta")


def fmodel(params, buffers, x):
    return functional_call(base_model, (params, buffers), (x,))


together = vmap(fmodel)(params, buffers, data)
assert torch.allclose(together, torch.stack(apart), atol=1e-5)
same_data = vmap(fmodel, in_dims=(0, 0, None))(params, buffers, minibatch)
assert torch.allclose(same_data, torch.stack([m(minibatch) for m in models]), atol=1e-5)

base_model.train()
noisy = vmap(fmodel, in_dims=(0, 0, None), randomness="different")(params, buffers, minibatch)
assert not torch.equal(noisy, same_data)
losses = [together.sum().item(), same_data.sum().item()]

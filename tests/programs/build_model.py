"""A network as a class, its layers looked at one by one, its parameters listed."""

import torch
from torch import nn


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(8 * 8, 32),
            nn.ReLU(),
            nn.Linear(32, 32),
            nn.ReLU(),
            nn.Linear(32, 10),
        )

    def forward(self, x):
        x = self.flatten(x)
        return self.linear_relu_stack(x)


torch.manual_seed(1)
device = torch.accelerator.current_accelerator() or torch.device("cpu")
model = NeuralNetwork().to(device)
print(model)
x = torch.rand(3, 8, 8, device=device)
logits = model(x)
probabilities = nn.Softmax(dim=1)(logits)
choice = probabilities.argmax(1)
assert choice.shape == (3,)
flat = nn.Flatten()(x)
assert flat.size() == torch.Size([3, 64])
hidden = nn.ReLU()(nn.Linear(64, 20)(flat))
assert (hidden >= 0).all()
names = [name for name, _ in model.named_parameters()]
assert names[0] == "linear_relu_stack.0.weight"
assert sum(p.numel() for p in model.parameters()) == 64 * 32 + 32 + 32 * 32 + 32 + 320 + 10

losses = [probabilities.sum().item(), logits.sum().item(), hidden.sum().item()]

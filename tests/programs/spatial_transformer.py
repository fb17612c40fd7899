"""A network that learns to turn its images before it looks at them."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3)
        self.fc = nn.Linear(4 * 5 * 5, 2)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3), nn.MaxPool2d(2, stride=2), nn.ReLU(True)
        )
        self.fc_loc = nn.Sequential(nn.Linear(4 * 5 * 5, 8), nn.ReLU(True), nn.Linear(8, 3 * 2))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([0.9, 0.05, 0.02, -0.05, 0.9, 0.01]))

    def stn(self, x):
        xs = self.localization(x)
        theta = self.fc_loc(xs.view(-1, 4 * 5 * 5)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        return F.log_softmax(self.fc(x.view(-1, 4 * 5 * 5)), dim=1)


torch.manual_seed(11)
labels = torch.arange(16) % 2
images = 0.1 * torch.rand(16, 1, 12, 12)
images[labels == 0, :, 4:8, :] += 1.0
images[labels == 1, :, :, 4:8] += 1.0
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(12):
    optimizer.zero_grad()
    loss = F.nll_loss(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert model.stn(images).shape == images.shape
assert losses[-1] < losses[0]

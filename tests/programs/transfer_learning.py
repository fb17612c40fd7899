"""A network trained before: its last layer is replaced, the rest is frozen; the best is kept."""

import copy

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler

torch.manual_seed(10)
features = nn.Sequential(
    nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
)
model = nn.Sequential()
model.add_module("features", features)
model.add_module("fc", nn.Linear(6 * 4 * 4, 10))

for param in model.features.parameters():
    param.requires_grad = False
model.fc = nn.Linear(model.fc.in_features, 2)

labels = torch.arange(24) % 2
images = torch.rand(24, 3, 8, 8) + 0.5 * labels.view(-1, 1, 1, 1)
loaders = {"train": [(images[:16], labels[:16])], "val": [(images[16:], labels[16:])]}
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.05, momentum=0.9)
scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
losses, best, best_acc = [], copy.deepcopy(model.state_dict()), 0.0
for epoch in range(5):
    for phase in ["train", "val"]:
        model.train() if phase == "train" else model.eval()
        running_loss, running_corrects = 0.0, 0
        for inputs, targets in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                outputs = model(inputs)
                _, preds = torch.max(outputs, 1)
                loss = criterion(outputs, targets)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running_loss += loss.item() * inputs.size(0)
            running_corrects += torch.sum(preds == targets.data)
        if phase == "train":
            scheduler.step()
            losses.append(running_loss / 16)
        accuracy = running_corrects.double() / len(loaders[phase][0][1])
        if phase == "val" and accuracy > best_acc:
            best_acc, best = accuracy.item(), copy.deepcopy(model.state_dict())
model.load_state_dict(best)
assert scheduler.get_last_lr() == [0.05 * 0.25]
assert all(p.grad is None for p in model.features.parameters())
assert losses[-1] < losses[0]

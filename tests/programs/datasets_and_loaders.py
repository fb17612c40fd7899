"""A dataset of one's own, split, shuffled and batched by a DataLoader."""

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Squares(Dataset):
    def __init__(self, count, transform=None):
        self.inputs = torch.arange(count, dtype=torch.float32)
        self.transform = transform

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        x = self.inputs[index]
        return (self.transform(x) if self.transform else x), (x**2).long() % 3


torch.manual_seed(0)
data = Squares(20, transform=lambda x: x / 20)
train, test = random_split(data, [16, 4])
assert len(train) == 16
loader = DataLoader(train, batch_size=5, shuffle=True)
sizes, seen = [], []
for features, labels in loader:
    sizes.append(features.shape[0])
    seen += (features * 20).round().int().tolist()
    assert labels.dtype == torch.int64
assert sizes == [5, 5, 5, 1]
left = [int((x * 20).round()) for x, _ in test]
assert sorted(seen + left) == list(range(20))

pairs = DataLoader(TensorDataset(torch.arange(6.0), torch.arange(6)), batch_size=4, drop_last=True)
(only,) = list(pairs)
losses = [only[0].sum().item(), float(sum(sizes)), float(len(loader))]

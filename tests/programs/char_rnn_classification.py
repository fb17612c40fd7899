"""Names of two made-up languages told apart by a recurrent network, letter by letter."""

import string

import torch
import torch.nn as nn
import torch.nn.functional as F

letters = string.ascii_lowercase
names = {0: ["anaka", "tarano", "malata", "sarana"], 1: ["wrzbt", "krtnz", "szczw", "brnkt"]}


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for position, letter in enumerate(line):
        tensor[position][0][letters.find(letter)] = 1
    return tensor


class CharRNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.rnn = nn.RNN(input_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, line_tensor):
        _, hidden = self.rnn(line_tensor)
        output = self.h2o(hidden[0])
        return self.softmax(output)


torch.manual_seed(6)
rnn = CharRNN(len(letters), 16, len(names))
criterion = nn.NLLLoss()
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.2)
losses = []
for epoch in range(15):
    total = 0.0
    for index in range(4):
        rnn.zero_grad()
        batch_loss = 0
        for category, lines in names.items():
            output = rnn(line_to_tensor(lines[index]))
            batch_loss = batch_loss + criterion(output, torch.tensor([category]))
        batch_loss.backward()
        nn.utils.clip_grad_norm_(rnn.parameters(), 3)
        optimizer.step()
        total += batch_loss.item() / 8
    losses.append(total)

with torch.no_grad():
    output = rnn(line_to_tensor("tanaka"))
    top_n, top_i = output.topk(1)
assert top_i[0].item() == 0
assert losses[-1] < 0.5 * losses[0]

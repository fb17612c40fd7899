"""Words generated letter by letter by a network with a category, an input and a hidden state."""

import torch
import torch.nn as nn

alphabet = "abcdef"
n_letters = len(alphabet) + 1  # and the end
words = {0: ["abab", "babab"], 1: ["cdef", "defcd"]}


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(2 + input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(2 + input_size + hidden_size, output_size)
        self.o2o = nn.Linear(hidden_size + output_size, output_size)
        self.dropout = nn.Dropout(0.1)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, category, input, hidden):
        combined = torch.cat((category, input, hidden), 1)
        hidden = self.i2h(combined)
        output = self.i2o(combined)
        output = self.o2o(torch.cat((hidden, output), 1))
        return self.softmax(self.dropout(output)), hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)


def one_hot(index, count):
    tensor = torch.zeros(1, count)
    tensor[0][index] = 1
    return tensor


torch.manual_seed(7)
rnn = RNN(n_letters, 24, n_letters)
criterion = nn.NLLLoss()
losses = []
for step in range(40):
    category = step % 2
    word = words[category][(step // 2) % 2]
    hidden = rnn.init_hidden()
    rnn.zero_grad()
    loss = torch.zeros(1)
    targets = [alphabet.find(c) for c in word[1:]] + [n_letters - 1]
    for letter, target in zip(word, targets):
        given = one_hot(alphabet.find(letter), n_letters)
        output, hidden = rnn(one_hot(category, 2), given, hidden)
        loss += criterion(output, torch.LongTensor([target]))
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-0.05)
    losses.append(loss.item() / len(word))

with torch.no_grad():
    rnn.eval()
    hidden, letter, out = rnn.init_hidden(), "c", "c"
    for _ in range(6):
        output, hidden = rnn(one_hot(1, 2), one_hot(alphabet.find(letter), n_letters), hidden)
        best = output.topk(1)[1][0][0].item()
        if best == n_letters - 1:
            break
        letter = alphabet[best]
        out += letter
print(out)
assert sum(losses[-4:]) < sum(losses[:4])

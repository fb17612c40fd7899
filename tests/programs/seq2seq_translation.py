"""An encoder and a decoder with attention learn to turn sequences round."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

SOS, EOS, words, length, hidden_size = 0, 1, 8, 5, 24


class EncoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden_size)
        self.attention = BahdanauAttention()
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, words)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long).fill_(SOS)
        decoder_hidden, outputs, attentions = encoder_hidden, [], []
        for i in range(length):
            query = decoder_hidden.permute(1, 0, 2)
            context, weights = self.attention(query, encoder_outputs)
            embedded = self.embedding(decoder_input)
            output, decoder_hidden = self.gru(torch.cat((embedded, context), dim=2), decoder_hidden)
            output = self.out(output)
            outputs.append(output)
            attentions.append(weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                decoder_input = output.topk(1)[1].squeeze(-1).detach()
        decoder_outputs = F.log_softmax(torch.cat(outputs, dim=1), dim=-1)
        return decoder_outputs, decoder_hidden, torch.cat(attentions, dim=1)


torch.manual_seed(8)
source = (torch.arange(16).unsqueeze(1) * 3 + torch.arange(length - 1)) % (words - 2) + 2
source = torch.cat([source, torch.full((16, 1), EOS)], dim=1)
target = torch.cat([source[:, :-1].flip(1), source[:, -1:]], dim=1)
encoder, decoder = EncoderRNN(), AttnDecoderRNN()
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.02)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.02)
criterion = nn.NLLLoss()
losses = []
for _ in range(25):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    encoder_outputs, encoder_hidden = encoder(source)
    decoder_outputs, _, attention = decoder(encoder_outputs, encoder_hidden, target)
    loss = criterion(decoder_outputs.view(-1, decoder_outputs.size(-1)), target.view(-1))
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    losses.append(loss.item())
assert attention.shape == (16, length, length)
assert losses[-1] < 0.5 * losses[0]

"""An LSTM learns adjoint's documentation character by character, and writes some of its own.

It reads windows of the text and guesses each next character; to write, it draws a character from
its guess and reads that. The picture shows bits per character: 5 and more is guessing, below 3 it
has words.

python examples/characters.py --compiled
"""

from __future__ import annotations

import math

from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require
from support.text import Text, chosen, windows

import adjoint as ad
from adjoint import nn

BATCH, LENGTH = 32, 64


class Writer(nn.Module):
    """Characters in, scores of the next characters out."""

    def __init__(self, characters: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 32)
        self.lstm = nn.LSTM(32, width, batch_first=True)
        self.scores = nn.Linear(width, characters)

    def forward(self, tokens: ad.Tensor) -> ad.Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        return self.scores(hidden)

    def write(self, tokens: ad.Tensor, count: int) -> list[int]:
        """Continue a text by `count` characters."""
        written: list[int] = []
        state = None
        with ad.no_grad():
            for _ in range(count):
                hidden, state = self.lstm(self.embedding(tokens), state)
                tokens = ad.tensor([chosen(self.scores(hidden[-1]))])
                written.append(int(tokens))
        return written


def bits(scores: ad.Tensor, targets: ad.Tensor) -> ad.Tensor:
    """How many bits the model would need for each character."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten()) / math.log(2)


def main() -> None:
    args = arguments(__doc__ or "", epochs=16, quick=1)
    steps = 40 if args.quick else 50  # of an epoch
    text = Text()
    model = Writer(len(text.characters), width=64 if args.quick else 128)
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-2 if args.quick else 5e-3)
    eager, compiled = both_steps(model, bits, optimizer)
    step = compiled if args.compiled else eager

    losses: list[float] = []
    tests: list[float] = []
    unseen = windows(text.unseen, 64, LENGTH)
    for _ in (progress := Progress(args.epochs)):
        losses += [float(step(*windows(text.train, BATCH, LENGTH))) for _ in range(steps)]
        with ad.no_grad():
            tests.append(float(bits(model(unseen[0]), unseen[1])))
        progress.show(bits=losses[-1], unseen=tests[-1])

    start = "An operator "
    print(start + text.decode(model.write(text.encode(start), 60 if args.quick else 300)))
    ends = [steps * (i + 1) for i in range(args.epochs)]
    pictures.write(
        args.out,
        pictures.lines(
            "bits per character", {"trained": losses, "unseen": (ends, tests)}, x="step"
        ),
    )
    print_speed_up(eager, compiled, *windows(text.train, BATCH, LENGTH), quick=args.quick)
    require("bits per character", tests[-1], at_most=5.0 if args.quick else 3.0)


if __name__ == "__main__":
    main()

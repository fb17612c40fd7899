"""A small GPT learns to add: it sees sums of two numbers and writes the digits of the result.

"37+85=221" says that 37 + 85 is 122: the result is written from its last digit, so that each digit
follows from what is left of it and a carry. Attention is causal: a character sees those before
it, which is how one pass trains all digits at once. One sum of ten is never shown and tells how
many sums the model gets right. The picture shows loss, accuracy, and where in the sum each digit
of a result looks.

python examples/gpt.py --compiled
"""

from __future__ import annotations

from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn

CHARACTERS = "0123456789+="
LENGTH, QUESTION = 9, 6  # characters of "37+85=221" and of "37+85="
F = nn.functional


class Block(nn.Module):
    """Causal attention and a network for each character, both added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def split(self, x: ad.Tensor) -> tuple[ad.Tensor, ...]:
        """Queries, keys and values, each of shape (batch, heads, characters, width of a head)."""
        parts = self.query_key_value(self.before_attention(x)).chunk(3, -1)
        return tuple(p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        seen = F.scaled_dot_product_attention(*self.split(x), is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).flatten(-2))
        return x + self.network(self.before_network(x))


class GPT(nn.Module):
    """Characters in, scores of the next characters out."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS))

    def forward(self, tokens: ad.Tensor) -> ad.Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.scores(self.norm(self.blocks(x)))


def sums() -> ad.Tensor:
    """All sums of two numbers with two digits, as tokens: shape (10000, 9)."""
    a, b = ad.meshgrid(ad.arange(100), ad.arange(100), indexing="ij")
    a, b = a.flatten(), b.flatten()
    digit = lambda number, place: number // 10**place % 10
    sign = lambda name: ad.full_like(a, CHARACTERS.index(name))
    result = [digit(a + b, place) for place in range(3)]
    question = [digit(a, 1), digit(a, 0), sign("+"), digit(b, 1), digit(b, 0), sign("=")]
    return ad.stack([*question, *result], 1)


def loss(scores: ad.Tensor, tokens: ad.Tensor) -> ad.Tensor:
    """Cross entropy of the digits of the result; questions are random and cannot be learnt."""
    guesses = scores[:, QUESTION - 1 : -1]  # each stands one character before what it guesses
    return F.cross_entropy(guesses.flatten(0, 1), tokens[:, QUESTION:].flatten())


def answered(model: nn.Module, tokens: ad.Tensor) -> ad.Tensor:
    """The sums with results that the model wrote, one digit after the other."""
    written = tokens[:, :QUESTION]
    with ad.no_grad():
        for _ in range(LENGTH - QUESTION):
            written = ad.cat([written, model(written)[:, -1:].argmax(-1)], 1)
    return written


def accuracy(model: nn.Module, tokens: ad.Tensor) -> float:
    return float((answered(model, tokens) == tokens).all(1).float().mean())


def looks(block: Block, x: ad.Tensor) -> ad.Tensor:
    """How much of its attention each character gives to each other, the mean of heads and sums."""
    query, key, _ = block.split(x)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    hidden = ad.ones(scores.shape[-2:]).triu(1).bool()
    return scores.masked_fill(hidden, -ad.inf).softmax(-1).mean((0, 1))


def main() -> None:
    args = arguments(__doc__ or "", epochs=14, quick=1)
    steps = 60 if args.quick else 75  # of an epoch
    order = ad.randperm(10_000)
    tokens = sums()[order]
    unseen, train = tokens[:1000], tokens[1000:]
    model = GPT(width=32 if args.quick else 64)
    optimizer = ad.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = ad.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=args.epochs * steps, pct_start=0.3
    )
    eager, compiled = both_steps(model, loss, optimizer)
    step = compiled if args.compiled else eager

    losses: list[float] = []
    shares: list[float] = []
    for _ in (progress := Progress(args.epochs)):
        for _ in range(steps):
            batch = train[ad.randint(0, len(train), (256,))]
            losses.append(float(step(batch, batch)))
            schedule.step()
        shares.append(accuracy(model, unseen))
        progress.show(loss=losses[-1], right=shares[-1])

    for row in answered(model, unseen[:5]).tolist():
        text = "".join(CHARACTERS[t] for t in row)
        print(f"{text[:QUESTION]}{text[: QUESTION - 1 : -1]}")
    with ad.no_grad():
        embedded = model.tokens(unseen) + model.places.weight
        seen = looks(model.blocks[0], embedded)[QUESTION - 1 : -1, :-1]
    pictures.write(
        args.out,
        pictures.lines("loss", {"": losses}, x="step", logarithmic=True),
        pictures.lines("right sums, of those never shown", {"": shares}, x="epoch"),
        pictures.images("what result digits look at in 37+85=22", seen[None], columns=1),
    )
    print_speed_up(eager, compiled, train[:256], train[:256], quick=args.quick)
    if args.quick:
        require("loss", losses[-1], at_most=2.1)
    else:
        require("share of right sums", shares[-1], at_least=0.95)


if __name__ == "__main__":
    main()

"""The text that the language models learn: adjoint's own documentation."""

from __future__ import annotations

from pathlib import Path

import adjoint as ad

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = 500  # characters that are kept together


class Text:
    """The pages of docs/ as one text, a number for each character."""

    def __init__(self) -> None:
        whole = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md")))
        self.characters = sorted(set(whole))
        self.numbers = {c: i for i, c in enumerate(self.characters)}
        blocks = self.encode(whole).split(BLOCK)
        self.unseen = ad.cat(blocks[10::20])  # one block of twenty, from all pages
        self.train = ad.cat([b for i, b in enumerate(blocks) if i % 20 != 10])

    def encode(self, words: str) -> ad.Tensor:
        return ad.tensor([self.numbers[c] for c in words])

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.characters[t] for t in tokens)


def windows(tokens: ad.Tensor, batch: int, length: int) -> tuple[ad.Tensor, ad.Tensor]:
    """`batch` random windows of a text, and what follows each of their characters."""
    starts = ad.randint(0, len(tokens) - length, (batch, 1))
    places = starts + ad.arange(length)
    return tokens[places], tokens[places + 1]


def chosen(scores: ad.Tensor, temperature: float = 0.7) -> int:
    """A token drawn by its score."""
    return int(ad.distributions.Categorical(logits=scores / temperature).sample())

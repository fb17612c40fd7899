"""A policy learns to balance a pole on a cart, by trial and error.

Many carts play at the same time. The actor says how likely a push to the right is, the critic how
many more steps it expects; pushes that did better than expected become more likely. The game
itself is written with adjoint's operators in a loop `ad.scan`, so that compiled a whole episode is
one native program. The picture shows how long the pole stays up, and one episode at the end.

python examples/cart_pole.py --compiled
"""

from __future__ import annotations

import math
from typing import Any

from support import pictures
from support.running import Progress, arguments, both_steps, print_speed_up, require

import adjoint as ad
from adjoint import nn
from adjoint.distributions import Bernoulli

CARTS, DISCOUNT = 32, 0.99
GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TIME = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
WIDEST, STEEPEST = 2.4, 12 * math.pi / 180  # where an episode ends


def moved(state: ad.Tensor, right: ad.Tensor) -> ad.Tensor:
    """Place, speed, angle and turning speed of each cart (n, 4) after a push."""
    _, speed, angle, turning = state.unbind(1)
    push = FORCE * (2 * right - 1)
    cos, sin, mass = angle.cos(), angle.sin(), CART + POLE
    pull = (push + POLE * HALF_LENGTH * turning**2 * sin) / mass
    inertia = HALF_LENGTH * (4 / 3 - POLE * cos**2 / mass)
    turned = (GRAVITY * sin - cos * pull) / inertia
    gained = pull - POLE * HALF_LENGTH * turned * cos / mass
    steps = (speed, gained, turning, turned)
    return state + TIME * ad.stack(steps, 1)


def network() -> nn.Sequential:
    """One number from the state of a cart."""
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))


class Episode(nn.Module):
    """The game: from random numbers (steps, carts) to states, pushes, which carts still play, and
    the sum of the rewards that follow each push, later ones discounted.
    """

    def __init__(self, actor: nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, start: ad.Tensor, chances: ad.Tensor) -> tuple[ad.Tensor, ...]:
        _, (states, pushes, playing) = ad.scan(self.turn, (start, ad.ones(len(start))), chances)
        _, returns = ad.scan(self.add, ad.zeros(len(start)), playing, reverse=True)
        return states, pushes, playing, returns

    def turn(self, carry: Any, chance: ad.Tensor) -> Any:
        """One push of every cart."""
        state, playing = carry
        right = (chance < self.actor(state)[:, 0].sigmoid()).to(state.dtype)
        after = moved(state, right)
        up = (after[:, 0].abs() < WIDEST) & (after[:, 2].abs() < STEEPEST)
        return (after, playing * up), (state, right, playing)

    def add(self, following: ad.Tensor, reward: ad.Tensor) -> Any:
        total = reward * (1 + DISCOUNT * following)
        return total, total


class Lesson(nn.Module):
    """The loss of an episode, for actor and critic."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic

    def forward(
        self, states: ad.Tensor, pushes: ad.Tensor, playing: ad.Tensor, returns: ad.Tensor
    ) -> ad.Tensor:
        push = Bernoulli(logits=self.actor(states)[..., 0])
        expected = self.critic(states)[..., 0]
        mean = lambda values: (playing * values).sum() / playing.sum()
        better = (returns - expected).detach()
        better = better / mean(better**2).sqrt()
        reward = mean(push.log_prob(pushes) * better) + 0.01 * mean(push.entropy())
        return 0.001 * mean((returns - expected) ** 2) - reward


def main() -> None:
    args = arguments(__doc__ or "", epochs=80, quick=12)
    longest = 100 if args.quick else 500
    actor, critic = network(), network()
    episode, lesson = Episode(actor), Lesson(actor, critic)
    updates = both_steps(lesson, None, ad.optim.Adam(lesson.parameters(), lr=1e-2))
    play = lambda parameters, *given: ad.func.functional_call(episode, parameters, given)
    plays = (play, ad.compile(play))

    def trial(compiled: bool) -> ad.Tensor:
        """Play an episode and learn from it; returns how many steps each cart played."""
        parameters = {name: p.detach() for name, p in episode.named_parameters()}
        start, chances = 0.1 * ad.rand(CARTS, 4) - 0.05, ad.rand(longest, CARTS)
        played = plays[compiled](parameters, start, chances)
        updates[compiled](*played)
        return played[2].sum(0)

    lengths: list[float] = []
    for _ in (progress := Progress(args.epochs)):
        lengths.append(float(trial(args.compiled).mean()))
        progress.show(steps=lengths[-1])

    with ad.no_grad():
        states, _, playing, _ = episode(ad.full((1, 4), 0.04), ad.rand(longest, 1))
    count = max(2, int(playing.sum()))
    x, _, angle, _ = states[:count, 0].T
    pictures.write(
        args.out,
        pictures.lines("steps until the pole falls", {"": lengths}, x="episode"),
        pictures.lines("an episode", {"place": x, "10 × angle": 10 * angle}, x="step"),
    )
    print_speed_up(lambda: trial(False), lambda: trial(True), quick=args.quick)
    last = sum(lengths[-5:]) / len(lengths[-5:])
    require("steps until the pole falls", last, at_least=30 if args.quick else 400)


if __name__ == "__main__":
    main()

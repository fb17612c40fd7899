"""Parameters that are probabilities or logits, one of which is worked out when asked for."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.core.errors import ValueRangeError
from adjoint.core.shapes import Shape
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.utils import (
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    softplus,
)
from adjoint.tensor.tensor import Tensor


def name_of_given(what: Any, probs: Any, logits: Any) -> str:
    """The name of the one that was given."""
    if (probs is None) == (logits is None):
        raise ValueRangeError(
            f"{type(what).__name__}: give either `probs` or `logits`, but not both"
        )
    return "logits" if probs is None else "probs"


class Either(Distribution):
    """`probs` or `logits`, whichever was given; the other follows."""

    _is_binary: ClassVar[bool]
    _given: str

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or logarithms of probabilities."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    @property
    def _parameter(self) -> Tensor:
        """The one that was given."""
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Shape:
        """The shape of the parameter that was given."""
        return tuple(self._parameter.shape)


class Probabilities(Either):
    """Probabilities of single events, or their log-odds."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    _is_binary = True

    def _hold(
        self, validate_args: bool | None, probs: Any = None, logits: Any = None, **others: Any
    ) -> None:
        """Take the one that is given, and other parameters, which get its dtype."""
        self._given = name_of_given(self, probs, logits)
        parameter = logits if probs is None else probs
        super()._hold(validate_args, **others, **{self._given: parameter})
        for name in others:
            self.__dict__[name] = self.__dict__[name].to(self._parameter.dtype)

    @property
    def _rest(self) -> Tensor:
        """1 - probs, which logits say without cancellation."""
        return 1 - self.probs if self._given == "probs" else (-self.logits).sigmoid()

    def _log_chance(self, successes: Tensor, failures: Any) -> Tensor:
        """The logarithm of pˢ (1 - p)ᶠ: a sum of numbers of one sign, each of them exact."""
        yes, no = self._logarithms()
        return successes * yes + failures * no

    def _logarithms(self) -> tuple[Tensor, Tensor]:
        """log p and log(1 - p), by what was given; probabilities 0 and 1 are clamped."""
        if self._given == "logits":
            return -softplus(-self.logits), -softplus(self.logits)
        probs = clamp_probs(self.probs)
        return probs.log(), (-probs).log1p()

    def _bit_entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p), a sum of numbers of one sign."""
        yes, no = self._logarithms()
        return -self.probs * yes - self._rest * no

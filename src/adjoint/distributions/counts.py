"""Distributions of whole numbers: of successes, failures, events."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import AdjointError, ValueRangeError
from adjoint.distributions import made
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.distribution import ExponentialFamily as ExponentialFamily
from adjoint.distributions.gammas import Gamma as Gamma
from adjoint.distributions.probabilities import Probabilities
from adjoint.distributions.utils import is_true
from adjoint.distributions.utils import softplus as softplus
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals())


class PositiveProbabilities(Probabilities):
    """Probabilities of events that happen at some time."""

    def _hold(
        self, validate_args: bool | None, probs: Any = None, logits: Any = None, **others: Any
    ) -> None:
        super()._hold(validate_args, probs, logits, **others)
        if self._validate_args and probs is not None and not is_true(self.probs > 0):
            raise ValueRangeError(
                f"Expected parameter probs (Tensor of shape {self.batch_shape}) of distribution "
                f"{self!r} to be positive, but found invalid values:\n{self.probs}"
            )


class InhomogeneousCount(AdjointError, NotImplementedError):
    """Counts that differ over a batch, where the support of all is asked for."""


def up_to_count(distribution: Distribution, total_count: Tensor) -> Tensor:
    """The numbers from 0 to a count, which is the same everywhere."""
    largest = int(total_count.max())
    if not is_true(total_count == largest):
        raise InhomogeneousCount(
            f"{distribution!r}: the support can be enumerated if total_count is the same everywhere"
        )
    return ops.arange(1 + largest, dtype=total_count.dtype, device=total_count.device)

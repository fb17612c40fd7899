"""Images, signals and volumes of another size."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.nn.modules import made

__getattr__, __dir__, __all__ = made.door(globals())


def factors(given: float | Sequence[float] | None) -> float | tuple[float, ...] | None:
    """Scale factors as real numbers."""
    if isinstance(given, (tuple, list)):
        return tuple(float(factor) for factor in given)
    return float(given) if given else None  # type: ignore[arg-type]

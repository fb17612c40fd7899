"""`ad.accelerator`: whichever device stands beside the CPU; none does here."""

from __future__ import annotations

from adjoint.accelerators import door
from adjoint.core.devices import COUNTS, Device

_KINDS = [kind for kind, count in COUNTS.items() if count and kind not in ("cpu", "meta")]


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the device beside the CPU, None if there is none.

    >>> import adjoint as ad
    >>> device = ad.accelerator.current_accelerator() or ad.device("cpu")
    >>> device
    device(type='cpu')
    """
    return Device(_KINDS[0]) if _KINDS else None


__getattr__, __all__ = door(globals(), [*_KINDS, "cuda"][0], "current_accelerator")

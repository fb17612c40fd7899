"""`ad.utils`: PyTorch's names for things that live elsewhere here."""

from adjoint.utils import checkpoint

__all__ = ["checkpoint"]

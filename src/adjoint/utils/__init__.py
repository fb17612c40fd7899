"""`ad.utils`: PyTorch's names for things that live elsewhere here."""

from adjoint.serialization import safetensors
from adjoint.utils import checkpoint

__all__ = ["checkpoint", "safetensors"]

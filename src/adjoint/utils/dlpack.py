"""`ad.utils.dlpack`: arrays of other libraries."""

from adjoint.exchange import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

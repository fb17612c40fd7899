"""`ad.utils.hooks`: what registering a hook returns."""

from adjoint.tensor.tape import Handle as RemovableHandle

__all__ = ["RemovableHandle"]

"""`ad.utils.hooks`: what registering a hook returns."""

from adjoint.tensor.nodes import Handle as RemovableHandle

__all__ = ["RemovableHandle"]

"""`ad.autograd.variable`: where old programs find `Variable`."""

from adjoint.legacy import Variable

__all__ = ["Variable"]

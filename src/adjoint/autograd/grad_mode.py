"""`ad.autograd.grad_mode`: the modes that say what is recorded."""

from adjoint.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]

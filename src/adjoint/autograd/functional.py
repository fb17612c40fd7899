"""`import adjoint.autograd.functional`: Jacobians and products, a module of a lower layer."""

import sys

from adjoint.transforms import functional

sys.modules[__name__] = functional

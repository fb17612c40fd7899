"""`import adjoint.autograd.function`: functions of users, a module of a lower layer."""

import sys

from adjoint.tensor import function

sys.modules[__name__] = function

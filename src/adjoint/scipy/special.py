"""SciPy's special functions on tensors: those of `adjoint.numpy.special`."""

from adjoint.numpy.special import __dir__ as __dir__
from adjoint.numpy.special import __getattr__ as __getattr__

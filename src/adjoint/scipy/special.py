"""SciPy's special functions on tensors: those of `adjoint.numpy.special`."""

from adjoint.doors.numpy import reading

__getattr__, __dir__ = reading.door(globals(), "special")

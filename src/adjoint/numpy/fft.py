"""NumPy's Fourier transforms on tensors, by the table of names.

>>> from adjoint.numpy import fft
>>> fft.rfft([1.0, 0.0, 0.0])
array([1.+0.j, 1.+0.j])
"""

from adjoint.doors.numpy import reading

__getattr__, __dir__ = reading.door(globals(), "fft")

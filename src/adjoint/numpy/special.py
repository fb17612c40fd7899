"""SciPy's special functions on tensors, by the table of names.

>>> from adjoint.numpy import special
>>> special.gammaln([3.0])
array([0.69314718])
"""

from adjoint.doors.numpy import reading

__getattr__, __dir__ = reading.door(globals(), "special")

"""NumPy's linear algebra on tensors, by the table of names.

>>> from adjoint.numpy import linalg
>>> linalg.norm([3.0, 4.0])
array(5.)
"""

from adjoint.core.errors import LinAlgError as LinAlgError
from adjoint.doors.numpy import reading

__getattr__, __dir__ = reading.door(globals(), "linalg")

"""The standard's linear algebra: rows of functions.txt."""

from adjoint.doors.array_api.rows import functions as _functions

__getattr__, __dir__ = _functions(globals(), "linalg")

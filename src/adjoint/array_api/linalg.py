"""The standard's linear algebra: rows of functions.txt."""

from adjoint.array_api.rows import functions

__getattr__, __dir__ = functions(globals(), "linalg")

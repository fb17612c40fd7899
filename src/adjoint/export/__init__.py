"""Functions in other languages: `export.python` needs only NumPy, `export.c` only a C compiler."""

from adjoint.export.c import c
from adjoint.export.numpy_text import ExportError
from adjoint.export.python import python

__all__ = ["ExportError", "c", "python"]

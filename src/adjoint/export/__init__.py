"""Graphs in other languages: `export.python` writes a file that needs NumPy alone."""

from adjoint.export.numpy_text import ExportError
from adjoint.export.python import python

__all__ = ["ExportError", "python"]

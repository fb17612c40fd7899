"""The standard's Fourier transforms: rows of functions.txt."""

from adjoint.array_api.rows import functions

__getattr__, __dir__ = functions(globals(), "fft")

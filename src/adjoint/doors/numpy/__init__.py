"""The door to NumPy and to SciPy's functions of arrays: a table of names, words, arrays, protocols.

Arrays get their operators and methods when this package is imported.
"""

from adjoint.doors.numpy import methods as methods

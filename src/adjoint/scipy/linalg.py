"""SciPy's linear algebra on tensors, by the table of names.

>>> import adjoint as ad
>>> from adjoint.scipy import linalg
>>> ad.grad(lambda a: linalg.sqrtm(a).sum())(ad.tensor([[4.0, 0.0], [0.0, 9.0]]))
tensor([[0.2500, 0.2000],
        [0.2000, 0.1667]])
"""

from adjoint.doors.numpy import reading

__getattr__, __dir__ = reading.door(globals(), "scipy_linalg")

"""SciPy's functions on tensors, where SciPy's own would leave them.

`scipy.special` takes tensors itself, through NumPy's protocol. `scipy.stats` and `scipy.linalg`
make arrays of their arguments first, which lose their derivatives: `adjoint.scipy.stats` has
SciPy's distributions, `adjoint.scipy.linalg` its factors and solutions.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> ad.grad(stats.norm.logpdf)(ad.tensor(2.0), 0.0, 2.0)
    tensor(-0.5000)
"""

from adjoint.scipy import linalg as linalg
from adjoint.scipy import special as special
from adjoint.scipy import stats as stats

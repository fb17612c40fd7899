"""SciPy's functions on tensors, where SciPy's own would leave them.

`scipy.special` takes tensors itself, through NumPy's protocol. `scipy.stats` makes arrays of its
arguments first, which lose their derivatives: `adjoint.scipy.stats` has its distributions.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> ad.grad(stats.norm.logpdf)(ad.tensor(2.0), 0.0, 2.0)
    tensor(-0.5000)
"""

from adjoint.scipy import special as special
from adjoint.scipy import stats as stats

"""The array API standard: functions of SciPy and others take tensors, and are differentiated.

scikit-learn does the same with `sklearn.set_config(array_api_dispatch=True)`.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is first imported

import numpy as np
from scipy import integrate, special, stats

import adjoint as ad


def log_likelihood(scores, labels):
    """The mean log-likelihood of labels, for arrays of any library that keeps to the standard."""
    xp = scores.__array_namespace__()
    scores = scores - special.logsumexp(scores, axis=-1, keepdims=True)
    return xp.mean(xp.take_along_axis(scores, labels[:, None], axis=-1))


rng = np.random.default_rng(0)
scores, labels = rng.normal(size=(5, 3)), rng.integers(0, 3, 5)
tensors = ad.from_dlpack(scores), ad.from_dlpack(labels)  # on NumPy's memory
print("NumPy  ", log_likelihood(scores, labels))
print("adjoint", log_likelihood(*tensors).item())

gradient = ad.grad(log_likelihood)(*tensors)
one_hot = np.eye(3)[labels]
assert np.allclose(np.from_dlpack(gradient), (one_hot - special.softmax(scores, axis=-1)) / 5)
print("gradient of the first row", gradient[0].tolist())

# The skewness of a sample, by SciPy: how each observation changes it, and as native code.
sample = ad.tensor(rng.gamma(2.0, size=1000))
influence = ad.grad(stats.skew)(sample)
print("skewness", stats.skew(sample).item(), "compiled", ad.compile(stats.skew)(sample).item())
print("most influential observation", sample[influence.abs().argmax()].item())


# Special functions of SciPy are operators here.
assert ad.allclose(ad.grad(lambda x: special.gammaln(x).sum())(sample), ad.digamma(sample))


# An integral by SciPy's cubature, and its derivative by a parameter of the integrand.
def integral(a):
    xp = a.__array_namespace__()
    corners = xp.zeros(2), xp.ones(2)
    return integrate.cubature(lambda t: xp.exp(-a * xp.sum(t, axis=-1)), *corners).estimate


a = ad.tensor(2.0, dtype=ad.float64)
value, slope = ad.value_and_grad(integral)(a)
exact = ad.value_and_grad(lambda a: (-ad.expm1(-a) / a) ** 2)(a)
print("integral", value.item(), "by its parameter", slope.item())
assert ad.allclose(ad.stack([value, slope]), ad.stack(list(exact)), atol=1e-8)

"""Samples of special functions where the automatic ones do not know the arguments' domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

POLYNOMIALS = [
    *(f"{shifted}chebyshev_polynomial_{k}" for shifted in ("", "shifted_") for k in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def _degrees(*values: int) -> ad.Tensor:
    return ad.from_numpy(np.array(values))


@sampler(*(f"special_{name}" for name in POLYNOMIALS), real=True)
def polynomials(make: Make) -> Iterator[Sample]:
    yield Sample(
        make.like([0.0, 1.0, -1.0, 0.3, 0.7, -0.2]), _degrees(0, 1, 2, 3, 4, 5), name="degrees"
    )
    yield Sample(make.unit(2, 1), _degrees(2, 3, 6), name="broadcast")
    yield Sample(make.unit(), _degrees(3)[0], name="0-d")
    yield Sample(make.unit(0, 3), _degrees(1, 2, 3), name="empty")
    yield Sample(make.unit(3, 2).t(), _degrees(-1, 2, 7), name="negative degree, transposed")


@sampler(*(f"special_{name}.n_scalar" for name in POLYNOMIALS), real=True)
def polynomials_of_one_degree(make: Make) -> Iterator[Sample]:
    for degree in (0, 1, 2, 5):
        yield Sample(make.unit(3), degree, name=f"degree {degree}")


@sampler(*(f"special_{name}.x_scalar" for name in POLYNOMIALS))
def polynomials_at_one_point(make: Make) -> Iterator[Sample]:
    yield Sample(0.3, _degrees(0, 1, 4), name="degrees")


@sampler("_orthogonal_polynomial", real=True)
def polynomial_derivatives(make: Make) -> Iterator[Sample]:
    for kind in ("chebyshev_v", "laguerre_l"):
        yield Sample(make.unit(3), _degrees(1, 3, 5), kind, 1, name=f"slope of {kind}")


@sampler("_bessel", real=True)
def bessel_functions(make: Make) -> Iterator[Sample]:
    for kind in ("jv", "yv", "iv", "kv", "ive", "kve"):
        yield Sample(make.uniform(0.5, 6.0, 4), make.like([0.5, 1.0, 2.3, 7.9]), kind, name=kind)


@sampler("_scipy", real=True)
def functions_by_name(make: Make) -> Iterator[Sample]:
    yield Sample(make.unit(4), "erfi", name="of one")
    yield Sample(make.positive(4), "sici", 1, name="its second result")


@sampler("_analytic_derivative", real=True)
def quotients(make: Make) -> Iterator[Sample]:
    for name in ("exprel", "log1prel", "sinhc", "dawsn"):
        yield Sample(make.like([-0.7, 0.0, 0.3, 2.5]), name, 0, name=name)
        yield Sample(make.like([-0.6, 1e-9, 0.4, 11.0]), name, 2, name=f"curvature of {name}")


@sampler("_carlson", real=True)
def elliptic_integrals(make: Make) -> Iterator[Sample]:
    x, y = make.uniform(0.5, 2.0, 3), make.uniform(0.5, 2.0, 3)
    yield Sample(x, y, make.like([0.1, 1.0, 7.0]), 0, 0, 1, name="of the second kind")
    yield Sample(x, y, x.detach().clone(), 0, 1, 0, name="equal arguments")


@sampler("_student_cdf", "_student_log_density", real=True)
def students(make: Make) -> Iterator[Sample]:
    df = make.like([0.5, 3.0, 10.0, 1.0, 40.0])
    yield Sample(make.like([-3.0, 0.0, 0.2, 0.7, 2.0]), df, name="middle and tails")


@sampler("_power_transform", "_inverse_power_transform", real=True)
def power_transforms(make: Make) -> Iterator[Sample]:
    y = make.like([0.5, -0.3, 1.0, 1e-9, 0.02])
    for shifted in (False, True):
        yield Sample(make.uniform(0.3, 1.5, 5), y, shifted, name="shifted" if shifted else "plain")


@sampler("_scipy.two", real=True)
def functions_of_two(make: Make) -> Iterator[Sample]:
    yield Sample(make.unit(4), make.unit(2, 1), "owens_t", name="broadcast")


@sampler("_scipy.three", real=True)
def functions_of_three(make: Make) -> Iterator[Sample]:
    a, b = (make.uniform(0.5, 2.0, 4) for _ in range(2))
    yield Sample(a, b, make.uniform(0.2, 0.8, 4), "betaincinv", name="inverse")


@sampler("_scipy.four", real=True)
def functions_of_four(make: Make) -> Iterator[Sample]:
    shapes = [_degrees(1, 2, 3), _degrees(2, 1, 1), _degrees(3, 4, 2)]
    yield Sample(*shapes, make.unit(3), "hyp2f1", name="whole shapes")


@sampler("_gaussian_derivative", real=True)
def bells(make: Make) -> Iterator[Sample]:
    for n, a in ((0, 1.0), (1, 0.5), (3, 1.0)):
        yield Sample(make(2, 3), n, a, name=f"order {n}")
    yield Sample(make(0, 2), 1, 1.0, name="empty")


@sampler("_erf_beside", real=True)
def values_and_their_bells(make: Make) -> Iterator[Sample]:
    for values, name in ((make(2, 3), "plain"), (make(), "0-d"), (make(0, 2), "empty")):
        bell = (-values.detach().square()).exp() if values.is_floating_point() else values
        yield Sample(values, bell, name=name)


@sampler("logit", real=True)
def probabilities(make: Make) -> Iterator[Sample]:
    yield Sample(make.probability(2, 3), name="plain")
    yield Sample(make.probability(), 0.01, name="0-d with eps")
    yield Sample(make.like([0.05, 0.5, 0.98]), 0.1, name="clamped")
    yield Sample(make.like([0.0, 1.0, 0.5]), None, kink=True, name="ends")
    yield Sample(make.like([-0.5, 1.5, 0.5]), 0.2, name="outside")


@sampler("_logit_slope", real=True)
def slopes(make: Make) -> Iterator[Sample]:
    yield Sample(make.probability(2, 3), name="plain")
    yield Sample(make.like([0.05, 0.5, 0.98]), 0.1, name="clamped")


@sampler("mvlgamma", real=True)
def multivariate(make: Make) -> Iterator[Sample]:
    for p in (1, 2, 5):
        yield Sample(make.uniform(2.5, 6.0, 2, 3), p, name=f"dimension {p}")


@sampler("special_zeta.self_scalar", real=True)
def sums_of_powers(make: Make) -> Iterator[Sample]:
    yield Sample(2.5, make.positive(3), name="vector")


@sampler("xlogy.Tensor", real=True)
def products_with_logarithms(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.0, 0.0, 2.0]), make.like([1.0, 3.0, 2.0]), name="x is 0")
    yield Sample(make.like([0.0, 0.0]), make.like([0.0, -1.0]), kink=True, name="0 log 0")


@sampler("special_xlog1py", real=True)
def products_with_log1p(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.0, 0.0, 2.0]), make.like([-1.0, 3.0, -0.5]), kink=True, name="x is 0")


@sampler("igamma", "igammac", real=True)
def incomplete(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.5, 3.0, 20.0]), make.like([4.0, 3.5, 12.0]), name="regimes")


@sampler("special_betaln", "special_beta", real=True)
def betas(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.3, 40.0, 9.0]), make.like([1.2, 0.7, 9.0]), name="regimes")


@sampler("_polygamma_difference", real=True)
def differences(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.3, 40.0, 9.0]), make.like([1.2, 0.7, 9.0]), 1, name="regimes")


def _regimes(make: Make) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
    return (
        make.like([0.3, 3.0, 40.0, 20.0, 0.7, 1.0]),
        make.like([0.6, 4.0, 1.2, 60.0, 15.0, 0.4]),
        make.like([0.1, 0.35, 0.97, 0.26, 0.4, 0.8]),
    )


@sampler("special_betainc", real=True)
def incomplete_betas(make: Make) -> Iterator[Sample]:
    yield Sample(*_regimes(make), name="regimes")
    yield Sample(make.positive(), make.positive(2, 1), make.probability(3), name="broadcast")
    yield Sample(make.positive(0), make.positive(0), make.probability(0), name="empty")


@sampler("_betainc_derivative", "_beta_density", real=True)
def derivatives_of_incomplete_betas(make: Make) -> Iterator[Sample]:
    for i, j in ((1, 0), (0, 1), (1, 1)):
        yield Sample(*_regimes(make), i, j, name=f"orders {i} and {j}")


@sampler(
    "special_i0e",
    "special_i1e",
    "sinc",
    "special_log_ndtr",
    "special_erfcx",
    "special_i1",
    real=True,
)
def far_and_near(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.1, -3.0, 8.0]), name="both sides")
    yield Sample(make.like([1e-9, 40.0, 1e4]), kink=True, name="tiny and large")


@sampler("_standard_gamma_grad")
def gamma_samples(make: Make) -> Iterator[Sample]:
    yield Sample(make.positive(2, 3), make.positive(2, 3), name="plain")
    yield Sample(make.positive(), make.positive(), name="0-d")
    yield Sample(make.like([0.05, 0.5, 3.0]), make.like([0.01, 2.5, 1.0]), name="both sides")
    yield Sample(make.like([20.0, 20.0]), make.like([12.0, 31.0]), name="large shape")


@sampler("_gamma_slope")
def gamma_slopes(make: Make) -> Iterator[Sample]:
    yield Sample(make.positive(2, 3), make.positive(2, 3), 0, name="slope")
    yield Sample(make.positive(3), make.positive(3), 1, name="its slope")
    yield Sample(make.like([0.5, 8.0, 8.0]), make.like([2.5, 5.0, 12.0]), 2, name="second")


@sampler("_dirichlet_grad")
def dirichlet_samples(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.1, 0.4, 0.9]), make.positive(3), make.positive(3) + 3, name="plain")
    yield Sample(make.probability(), make.positive(), make.positive() + 3, name="0-d")


@sampler("_beta_slope")
def beta_slopes(make: Make) -> Iterator[Sample]:
    x = make.like([0.1, 0.4, 0.9])
    yield Sample(x, make.positive(3), make.positive(3), 0, 0, name="slope")
    yield Sample(x, make.positive(3), make.positive(3), 1, 1, name="mixed", order=1)

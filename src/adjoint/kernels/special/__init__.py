"""Kernels of special functions and of their derivatives of every order.

Each derivative that has no accurate formula in other operators is an operator of its own, with an
argument n for the order, so that the next derivative is the same operator with n + 1.
"""

from adjoint.kernels.special.airy import airy_derivative
from adjoint.kernels.special.analytic import analytic_derivative
from adjoint.kernels.special.bessel import (
    bessel,
    bessel_i_derivative,
    bessel_j_derivative,
    bessel_k_derivative,
    bessel_y_derivative,
    i0e_derivative,
    i1e_derivative,
    scaled_k_derivative,
)
from adjoint.kernels.special.by_name import named
from adjoint.kernels.special.carlson import carlson
from adjoint.kernels.special.elementary import (
    entr,
    expit_slope,
    logit,
    logit_slope,
    sinc,
    sinc_derivative,
    spherical_bessel_j0,
    spherical_bessel_j0_derivative,
    x_log_x,
    xlog1py,
    xlogy,
)
from adjoint.kernels.special.gamma import (
    digamma,
    half_step,
    lgamma,
    polygamma,
    polygamma_difference,
    zeta,
    zeta_derivative,
)
from adjoint.kernels.special.implicit import beta_slope, gamma_slope
from adjoint.kernels.special.incomplete import gamma_density, igamma, igamma_derivative, igammac
from adjoint.kernels.special.incomplete_beta import (
    beta,
    beta_density,
    betainc,
    betainc_derivative,
    betaln,
)
from adjoint.kernels.special.normal import (
    erf,
    erfc,
    erfcx,
    erfcx_derivative,
    erfinv,
    erfinv_slope,
    gaussian_derivative,
    log_ndtr,
    log_ndtr_derivative,
    ndtr,
    ndtri,
    ndtri_slope,
)
from adjoint.kernels.special.polynomials import polynomial
from adjoint.kernels.special.student import student_cdf

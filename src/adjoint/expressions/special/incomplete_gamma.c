/* The incomplete gamma functions in both arguments, with derivatives of every order. Powers such as x^a e^-x / Gamma(a+1) are
   exponentials of sums of two numbers; large shapes are counted from the mean, by a (d - log(1+d)) with d = (x-a)/a. */

/* 1 / Gamma(1+f) - 1, 0 <= f < 1 */
inline double ad_inverse_gamma_excess(double f) {
  const double u = f - 0.5;
  double total = 0;
  for (int k = 15; k >= 0; k--) total = total * u + ad_inverse_gamma_series[k];
  return f * (1 - f) * total;
}

/* 1 / Gamma(1+a), 0 <= a < 10 */
double ad_inverse_gamma(double a) {
  const double whole = floor(a), f = a - whole;
  double product = 1;
  for (int k = 1; k < 10; k++) product *= k <= whole ? f + k : 1;
  return (1 + ad_inverse_gamma_excess(f)) / product;
}

/* log Gamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2), a >= 10 */
double ad_stirling_error(double a) {
  const double u = 1 / (a * a);
  const double far = u * (-691 / 360360.0 + u * (1 / 156.0 + u * (-3617 / 122400.0 + u * (43867 / 244188.0))));
  const double middle = u * (-1 / 1680.0 + u * (1 / 1188.0 + far));
  return (1 / 12.0 + u * (-1 / 360.0 + u * (1 / 1260.0 + middle))) / a;
}

/* x^a e^-x / Gamma(a+1) = factor exp(high + low), of x + more; excess + lost is that less a */
double ad_gamma_parts(double a, double x, double more, double excess, double lost, double *high, double *low) {
  if (a < 10) {
    double log_low = 0;
    const double log_x = ad_log_parts(x, more, &log_low);
    *low = a * log_low - lost;
    *high = ad_plus_product(-excess, a, log_x, low);
    *high = ad_plus(*high, -a, low);
    return ad_inverse_gamma(a);
  }
  double deviance_low = 0;
  const double deviance = ad_deviance(a, excess, lost, x, more, &deviance_low);
  *low = -deviance_low;
  *high = ad_plus(-deviance, -ad_stirling_error(a), low);
  return 0.3989422804014327 / sqrt(a);
}

/* factor x^(a-k) e^-x / Gamma(a+1) */
double ad_gamma_power(double a, double x, int k, double factor) {
  const double excess = x - a, lost = ad_rest_of_sum(x, -a, excess);
  double high = 0, low = 0;
  const double own = factor * ad_gamma_parts(a, x, 0, excess, lost, &high, &low);
  if (k == 0) return ad_exp_parts(own, high, low);
  if (high > -500 && high < 300 && x > 1e-40 && x < 1e40) return ad_exp_parts(own, high, low) / ad_whole_power(x, k);
  double log_low = 0;
  const double log_x = ad_log_parts(x, 0, &log_low);
  double rest = low - k * log_low;
  const double total = ad_plus_product(high, -k, log_x, &rest);
  return ad_exp_parts(own, total, rest);
}

/* sum of x^k / ((a+1) ... (a+k)) */
double ad_gamma_sum(double a, double x) {
  double total = 1, term = 1;
  for (int k = 1; k < 2000 && term > 1e-17 * total; k++) {
    term *= x / (a + k);
    total += term;
  }
  return total;
}

/* Gamma(a, x) x^-a e^x, x > a: Legendre's continued fraction as a sum of terms of one sign (Steed) */
double ad_gamma_fraction(double a, double x) {
  double b = x - a + 1, d = 1 / b, term = d, total = d;
  for (int k = 1; k < 2000 && fabs(term) > 1e-17 * total; k++) {
    const double before = d, above = k * (k - a);
    b += 2;
    d = 1 / (b - above * d);
    term *= above * before * d;
    total += term;
  }
  return total;
}

/* d - log(1+d); without branches, since loops of integrals run in vectors */
inline double ad_log_excess(double d) {
  const double q = d * d;
  const double even = 1.0 / 2 + q * (1.0 / 4 + q * (1.0 / 6 + q * (1.0 / 8 + q * (1.0 / 10 + q * (1.0 / 12 + q * (1.0 / 14 + q * (1.0 / 16
    + q * (1.0 / 18 + q * (1.0 / 20)))))))));
  const double odd = -1.0 / 3 + q * (-1.0 / 5 + q * (-1.0 / 7 + q * (-1.0 / 9 + q * (-1.0 / 11 + q * (-1.0 / 13 + q * (-1.0 / 15 + q *
    (-1.0 / 17 + q * (-1.0 / 19))))))));
  const double far = d - log1p(d);
  return fabs(d) < 0.1 ? q * (even + d * odd) : far;
}

/* exp(x) - 1 - x */
inline double ad_exp_excess(double x) {
  const double q = x * x;
  const double even = 1.0 / 2 + q * (1.0 / 24 + q * (1.0 / 720 + q * (1.0 / 40320 + q * (1.0 / 3628800 + q * (1.0 / 479001600 + q * (1.0 /
    87178291200))))));
  const double odd = 1.0 / 6 + q * (1.0 / 120 + q * (1.0 / 5040 + q * (1.0 / 362880 + q * (1.0 / 39916800 + q * (1.0 / 6227020800 + q *
    (1.0 / 1307674368000))))));
  const double far = expm1(x) - x;
  return fabs(x) < 0.5 ? q * (even + x * odd) : far;
}

/* P(a, x), or Q(a, x) if `upper` */
double ad_incomplete_gamma(double a, double x, int upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (a == inf() && x == a)) return nan();
  if (a == 0 || x == inf()) return !upper;
  if (x == 0 || a == inf()) return upper;
  if (a < 1 && x <= 1) return ad_gamma_of_small(a, x, upper);
  const int above = x > a;
  const double smaller = ad_smaller_gamma(a, x);
  return above == upper ? smaller : 1 - smaller;
}

/* the smaller one of both: Q where x > a */
double ad_smaller_gamma(double a, double x) {
  if (x > 1e5 && x > 2 * a) return 0; /* to all digits */
  const int by_integral = a > 100 && fabs(x - a) < 0.4 * a;
  if (x > a) {
    if (by_integral) return ad_gamma_tail(a, x, 0, 1);
    return ad_gamma_power(a, x, 0, a * ad_gamma_fraction(a, x));
  }
  if (by_integral) return ad_gamma_tail(a, x, 0, 0);
  return ad_gamma_power(a, x, 0, ad_gamma_sum(a, x));
}

/* a < 1, x <= 1: 1 - Q = x^a / Gamma(a+1) (1 + a sum (-x)^k / ((a+k) k!)) */
double ad_gamma_of_small(double a, double x, int upper) {
  if (!upper) return ad_gamma_power(a, x, 0, ad_gamma_sum(a, x));
  double total = 0, term = 1;
  for (int k = 1; k < 24; k++) {
    term *= -x / k;
    total += term / (a + k);
  }
  const double power = a * log(x) + log1p(ad_inverse_gamma_excess(a));
  return -expm1(power) - exp(power) * a * total;
}

double ad_igamma(double a, double x) { return ad_incomplete_gamma(a, x, 0); }

double ad_igammac(double a, double x) { return ad_incomplete_gamma(a, x, 1); }

/* log x - psi(a+1) */
double ad_log_from_mean(double a, double x) {
  if (!(a > 20)) return log(x) - ad_digamma(a + 1);
  const double u = 1 / (a * a), d = (x - a) / a;
  const double series = 1 / 12.0 - u * (1 / 120.0 - u * (1 / 252.0 - u * (1 / 240.0 - u / 132)));
  return (fabs(d) < 0.5 ? log1p(d) : x / a > 1e-300 ? log(x / a) : log(x) - log(a)) - 0.5 / a + u * series;
}

/* e^-f times the derivatives of e^f, from those of f: `slopes` are its first and following ones */
void ad_bell_polynomials(const double *slopes, double *result, int n) {
  result[0] = 1;
  for (int m = 0; m < n; m++) {
    double total = 0, binomial = 1;
    for (int k = 0; k <= m; k++) {
      total += binomial * result[m - k] * slopes[k];
      binomial *= (m - k) / (k + 1.0);
    }
    result[m + 1] = total;
  }
}

/* derivatives of -log Gamma(a+1), with another first one */
void ad_gamma_slopes(double a, double first, double *slopes, int n) {
  slopes[0] = first;
  for (int k = 1; k < n; k++) slopes[k] = -ad_polygamma(a + 1, k);
}

/* the n-th derivative in a of P, x <= a + 1, or of Q, x > a, if `upper`; a >= 1 below. The density is integrated
   over a variable that is counted from x, log t from its mean, so that terms have the size of the result */
double ad_gamma_tail(double a, double x, int n, int upper) {
  const double start = n ? ad_log_from_mean(a, x) : 0, root = sqrt(x), slope = upper ? x - a + 1 : a - x;
  const double reach = upper ? x - a : a - x, scale = reach > root ? reach : root, weight = upper ? a - 1 : x;
  double moments[ad_MOST + 2] = {0}, slopes[ad_MOST + 2], outer[ad_MOST + 2], parts[84], logs[84], total = 0, binomial = 1;
  if (upper)
    for (int i = 0; i < 84; i++) {
      const double s = ad_nodes[i] / scale;
      logs[i] = log1p(s);
      parts[i] = exp(-(slope * s + weight * ad_log_excess(s))) * (ad_weights[i] / scale);
    }
  else
    for (int i = 0; i < 84; i++) {
      const double s = ad_nodes[i] / scale;
      logs[i] = -s;
      parts[i] = exp(-(slope * s + weight * ad_exp_excess(-s))) * (ad_weights[i] / scale);
    }
  for (int k = 0; k <= n; k++)
    for (int i = 0; i < 84; i++) {
      moments[k] += parts[i];
      parts[i] *= start + logs[i];
    }
  ad_gamma_slopes(a, 0, slopes, n);
  ad_bell_polynomials(slopes, outer, n);
  for (int k = 0; k <= n; k++) {
    const int m = n - k;
    total += binomial * (a * outer[m] + (m ? m * outer[m - 1] : 0)) * moments[k];
    binomial *= (n - k) / (k + 1.0);
  }
  return ad_gamma_power(a, x, 0, total);
}

/* the n-th derivative of P in a, n >= 1 */
double ad_igamma_derivative(double a, double x, int n) {
  if ((x == 0 && a > 0) || x == inf() || (a == inf() && x >= 0)) return 0;
  if (!(a >= 0 && x > 0)) return nan();
  const double shape = a < 1e-300 ? 1e-300 : a; /* next to 0 derivatives are limits */
  if (x > shape + 1) return -ad_gamma_tail(shape, x, n, 1);
  if (!(shape < 1)) return ad_gamma_tail(shape, x, n, 0);
  double slopes[ad_MOST + 2], parts[ad_MOST + 2];
  ad_gamma_slopes(shape, ad_log_from_mean(shape, x), slopes, n);
  ad_bell_polynomials(slopes, parts, n);
  return ad_gamma_tail(shape + 1, x, n, 0) + ad_gamma_power(shape, x, 0, parts[n]);
}

/* the sign of 1 / Gamma(a), 0 at its zeros */
double ad_gamma_sign(double a) {
  const double below = floor(a);
  return a > 0 ? 1 : below == a ? 0 : fmod(below, 2) == 0 ? 1 : -1;
}

/* the density x^(a-1) e^-x / Gamma(a), differentiated n times in a and m times in x */
double ad_gamma_density(double a, double x, int n, int m) {
  if (x == 0 && a == a) return ad_gamma_density_at_zero(a, n, m);
  if ((a >= 0 && x > 1e5 && x > 2 * a) || (a == inf() && x > 0)) return 0;
  if (!(a >= 0 && x > 0)) return nan();
  if (x < 1e-40 && n == 0 && a <= m && a == rint(a)) return ad_gamma_density_at_zero(a, n, m);
  const double shape = a < 1e-300 ? 1e-300 : a; /* next to 0 derivatives are limits */
  if (x < 1) return ad_gamma_density_inside(shape, x, n, m, 1);
  return ad_gamma_density_inside(shape, x, n, m, 0);
}

double ad_gamma_density_inside(double a, double x, int n, int m, int low) {
  double slopes[ad_MOST + 2], parts[ad_MOST + 2], outer[ad_MOST + 2], total = 0, binomial = 1;
  parts[0] = 1;
  if (n) {
    ad_gamma_slopes(a, ad_log_from_mean(a, x), slopes, n);
    ad_bell_polynomials(slopes, parts, n);
  }
  if (low) ad_gamma_factors_low(a, x, n, m, outer);
  else ad_gamma_factors(a, x, n, m, outer);
  for (int j = 0; j <= n; j++) {
    const int rest = n - j;
    total += binomial * outer[j] * (a * parts[rest] + (rest ? rest * parts[rest - 1] : 0));
    binomial *= rest / (j + 1.0);
  }
  return ad_gamma_power(a, x, m + 1, total);
}

/* Q_m of the m-th derivative x^(b-m) e^-x Q_m of x^b e^-x, b = a - 1, and its derivatives in a:
   Q_(m+1) = (b - m - x) Q_m - m x Q_(m-1) */
void ad_gamma_factors(double a, double x, int n, int m, double *now) {
  double before[ad_MOST + 2], next[ad_MOST + 2];
  for (int j = 0; j <= n; j++) before[j] = 0, now[j] = j == 0;
  for (int k = 0; k < m; k++) {
    const double factor = (a - x) - (k + 1);
    for (int j = 0; j <= n; j++) next[j] = factor * now[j] - k * x * before[j] + (j ? j * now[j - 1] : 0);
    for (int j = 0; j <= n; j++) before[j] = now[j], now[j] = next[j];
  }
}

/* the same for small x: the sum of (m over k) (-x)^(m-k) b (b-1) ... (b-k+1) */
void ad_gamma_factors_low(double a, double x, int n, int m, double *total) {
  double falling[ad_MOST + 2], binomial = 1;
  for (int j = 0; j <= n; j++) total[j] = falling[j] = j == 0;
  for (int k = 1; k <= m; k++) {
    binomial *= (m - k + 1.0) / k;
    for (int j = n; j >= 0; j--) {
      falling[j] = (a - k) * falling[j] + (j ? j * falling[j - 1] : 0);
      total[j] = -x * total[j] + binomial * falling[j];
    }
  }
}

/* its limit for x -> 0, where x^(a-m-1) / Gamma(a-m) leads; of whole shapes up to m + 1 one term stays finite */
double ad_gamma_density_at_zero(double a, int n, int m) {
  const double b = a - m, power = a - 1;
  if (b > 1) return 0;
  if (a != rint(a)) return ad_gamma_sign(b) * (n % 2 ? -inf() : inf());
  if (n) return (b > 0 ? n % 2 : fmod(n - 1 - b, 2) != 0) ? -inf() : inf();
  if (a < 1) return 0;
  double binomial = 1;
  for (int k = 0; k < m; k++) binomial *= k < power ? (m - k) / (k + 1.0) : 1;
  return fmod(m - power, 2) != 0 ? -binomial : binomial;
}

/* The incomplete gamma functions. */

/* log(x^a e^-x / Gamma(a+1)) */
double ad_gamma_log_power(double a, double x) {
  const double ratio = x / a, power = -0.5 * log(6.283185307179586 * a) - ad_stirling_error(a);
  if (ratio > 1e-300 && ratio < 1e300) return power - a * ad_log_excess((x - a) / a, ratio);
  return power - (x - a) + a * (log(x) - log(a));
}

/* x^a e^-x / Gamma(a+1) */
double ad_gamma_power(double a, double x) {
  extern double tgamma(double);
  if (a < 20 && x < 690 && a * log(x) > -650) return pow(x, a) * exp(-x) / tgamma(a + 1);
  return a < 1e-8 ? exp(a * (log(x) + 0.5772156649015329) - x) : exp(ad_gamma_log_power(a, x));
}

/* sum of x^k / ((a+1) ... (a+k)) */
double ad_gamma_sum(double a, double x) {
  double total = 1, term = 1;
  for (int k = 1; k < 2000 && term > 1e-17 * total; k++) total += term *= x / (a + k);
  return total;
}

/* Gamma(a, x) x^-a e^x, by Legendre's continued fraction */
double ad_gamma_fraction(double a, double x) {
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 2000; k++) {
    const double above = k * (a - k);
    b += 2;
    d = 1 / (above * d + b);
    c = b + above / c;
    h *= d * c;
    if (fabs(d * c - 1) < 3e-16) break;
  }
  return h;
}

/* P(a, x), or Q(a, x) if `upper`: whichever is the smaller one, and the other as 1 less it */
double ad_incomplete_gamma(double a, double x, int upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) return __builtin_nan("");
  if (a == __builtin_inf() && x == a) return __builtin_nan("");
  if (a == 0 || x == __builtin_inf()) return !upper;
  if (x == 0 || a == __builtin_inf()) return upper;
  if (x > 1e5 && x > 2 * a) return !upper; /* to all digits */
  const double most = a < 1 ? 1 : a + 1;
  if (a < 1 && x <= 1 && upper) { /* 1 - x^a / Gamma(a+1) (1 + a sum (-x)^k / ((a+k) k!)) */
    double total = 0, term = 1;
    for (int k = 1; k < 40; k++) total += (term *= -x / k) / (a + k);
    const double power = a * log(x) - (a < 0.3 ? ad_log_gamma_near_one(a) : ad_lgamma(a + 1));
    return -expm1(power) - exp(power) * a * total;
  }
  if (a > 1e25) { /* a normal distribution, to all digits */
    const double z = (x - a) / sqrt(a) * 0.7071067811865476;
    return 0.5 * erfc(upper ? z : -z);
  }
  if (a > 100 && fabs(x - a) < 0.4 * a) {
    const double tail = ad_gamma_tail(a, x, 0);
    return (x > a + 1) == upper ? tail : 1 - tail;
  }
  const int far = x > most;
  const double power = ad_gamma_power(a, x);
  const double value = far ? power * a * ad_gamma_fraction(a, x) : power * ad_gamma_sum(a, x);
  return far == upper ? value : 1 - value;
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

/* the n-th derivative in a of the smaller tail: of P where x <= a + 1, of Q elsewhere; a >= 1 below */
double ad_gamma_tail(double a, double x, int n) {
  const int upper = x > a + 1;
  const double start = n ? ad_log_from_mean(a, x) : 0, root = sqrt(x), reach = upper ? x - a : a - x;
  const double scale = reach > root ? reach : root;
  double moments[ad_MOST + 2] = {0}, slopes[ad_MOST + 2], outer[ad_MOST + 2], total = 0, binomial = 1;
  double powers[96];
  for (int i = 0; i < 96; i++) {
    const double s = ad_half_line[i][0] / scale;
    powers[i] = upper ? (a - 1) * log1p(s) - x * s : -a * s - x * expm1(-s);
  }
  for (int i = 0; i < 96 && a > 1e5; i++) { /* no difference of large numbers */
    const double s = ad_half_line[i][0] / scale;
    powers[i] = upper ? (a - x - 1) * s - (a - 1) * ad_log_excess(s, 1 + s) : (x - a) * s - x * ad_exp_excess(-s);
  }
  for (int i = 0; i < 96; i++) {
    const double s = ad_half_line[i][0] / scale, log_u = upper ? log1p(s) : -s;
    double part = exp(powers[i]) * (ad_half_line[i][1] / scale);
    for (int k = 0; k <= n; k++, part *= start + log_u) moments[k] += part;
  }
  ad_gamma_slopes(a, 0, slopes, n);
  ad_bell_polynomials(slopes, outer, n);
  for (int k = 0; k <= n; k++) {
    const int m = n - k;
    total += binomial * (a * outer[m] + (m ? m * outer[m - 1] : 0)) * moments[k];
    binomial *= (n - k) / (k + 1.0);
  }
  return exp(ad_gamma_log_power(a, x)) * total;
}

double ad_igamma_derivative(double a, double x, int n) {
  if ((x == 0 && a > 0) || x == __builtin_inf() || (a == __builtin_inf() && x >= 0)) return 0;
  if (a >= 0 && a < 1e-300) a = 1e-300;
  if (!(a > 0 && x > 0)) return __builtin_nan("");
  if (x > a + 1) return -ad_gamma_tail(a, x, n);
  if (!(a < 1)) return ad_gamma_tail(a, x, n);
  double slopes[ad_MOST + 2], parts[ad_MOST + 2];
  ad_gamma_slopes(a, ad_log_from_mean(a, x), slopes, n);
  ad_bell_polynomials(slopes, parts, n);
  return ad_gamma_tail(a + 1, x, n) + exp(ad_gamma_log_power(a, x)) * parts[n];
}

/* exp(power) / x, also where exp(power) underflows */
double ad_exp_over(double power, double x) { return power < -600 ? exp(power - log(x)) : exp(power) / x; }

/* the sign of 1 / Gamma(a), 0 at its zeros */
double ad_gamma_sign(double a) {
  const double below = floor(a);
  return a > 0 ? 1 : below == a ? 0 : fmod(below, 2) == 0 ? 1 : -1;
}

double ad_gamma_density(double a, double x, int n) {
  if (x == 0 && a == a) {
    if (a > 1 || (a <= 0 && a == rint(a))) return 0;
    return a == 1 && n == 0 ? 1 : ad_gamma_sign(a) * (n % 2 ? -__builtin_inf() : __builtin_inf());
  }
  if (a >= 0 && a < 1e-300) a = 1e-300;
  if (x == __builtin_inf() || (a == __builtin_inf() && x > 0)) return 0;
  if (!(a > 0 && x > 0)) return __builtin_nan("");
  double slopes[ad_MOST + 2], parts[ad_MOST + 2];
  ad_gamma_slopes(a, ad_log_from_mean(a, x), slopes, n);
  ad_bell_polynomials(slopes, parts, n);
  return ad_exp_over(ad_gamma_log_power(a, x), x) * (a * parts[n] + (n ? n * parts[n - 1] : 0));
}

/* Beta. */

double ad_betaln(double a, double b) {
  const double low = a < b ? a : b, high = a < b ? b : a, both = a + b;
  if (low < 0 && !ad_is_pole(low) && !ad_is_pole(high) && !ad_is_pole(both)) return ad_betaln_reflected(low, high, both);
  if (!(a > 0 && b > 0 && a + b >= 10)) return ad_lgamma(a) + ad_lgamma(b) - ad_lgamma(a + b);
  const double ratio = high / low, less = low / high; /* of a tiny number the ratio is too large */
  const double mixing = high * log1p(less) + low * (ratio < 1e300 ? log1p(ratio) : log(high) - log(low));
  const double errors = ad_stirling_error(a) + ad_stirling_error(b) - ad_stirling_error(a + b);
  return 0.5 * (1.8378770664093453 + log1p(less) - log(low)) + errors - mixing;
}

int ad_is_pole(double x) { return x <= 0 && x == floor(x); }

double ad_log_sin_pi(double x) {
  const double rest = fabs(x - rint(x)); /* the sine of a tiny one has fewer digits */
  return rest < 1e-9 ? 1.1447298858494002 + log(rest) : log(sin(3.141592653589793 * rest));
}

/* where an argument is negative, by Gamma(x) Gamma(1-x) = pi / sin(pi x) */
double ad_betaln_reflected(double low, double high, double both) {
  if (both > 0) return 1.1447298858494002 - log(-low) - ad_log_sin_pi(low) - ad_betaln(both, -low);
  const double sines = ad_log_sin_pi(both) - ad_log_sin_pi(low);
  if (high > 0) return ad_betaln(high, 1 - both) + sines;
  return 1.1447298858494002 + sines - ad_log_sin_pi(high) - log(1 - both) - ad_betaln(1 - low, 1 - high);
}

double ad_beta(double a, double b) {
  extern double tgamma(double);
  if (a > 0 && b > 0 && a + b >= 10) return exp(ad_betaln(a, b));
  if (a <= 0 && a == floor(a)) return ad_beta_at_pole(a, b);
  if (b <= 0 && b == floor(b)) return ad_beta_at_pole(b, a);
  if (a == __builtin_inf() && b < 0) return ad_gamma_sign(b) * a;
  if (b == __builtin_inf() && a < 0) return ad_gamma_sign(a) * b;
  const double one = fabs(a) > fabs(b) ? b : a, two = fabs(a) > fabs(b) ? a : b, both = a + b;
  if (fabs(both) > 170 || fabs(two) > 170 || fabs(one) < 1e-300) {
    const double sign = ad_gamma_sign(a) * ad_gamma_sign(b) * ad_gamma_sign(both);
    return sign * exp(ad_betaln(a, b));
  }
  if (both <= 0 && both == floor(both)) return 0;
  return tgamma(two) / tgamma(both) * tgamma(one);
}

/* a = 0, -1, ... : finite where b is an integer that makes the poles cancel */
double ad_beta_at_pole(double a, double b) {
  if (b == floor(b) && 1 - a - b > 0 && a + b - (a + b) == 0) return (fmod(b, 2) == 0 ? 1 : -1) * ad_beta(1 - a - b, b);
  return __builtin_inf();
}

/* a (d - log(1 + d)), d = excess / a and 1 + d = x total / a, which may be too large */
double ad_beta_excess(double a, double excess, double x, double total) {
  const double ratio = x * (total / a);
  if (ratio > 1e-300 && ratio < 1e300) return a * ad_log_excess(excess / a, ratio);
  return excess - a * (log(x) + log(total) - log(a));
}

/* x b - a y = x (a + b) - a = b - y (a + b), by the smaller of x and y, which has all digits */
double ad_beta_offset(double a, double b, double x, double y) {
  const double both = a + b, lost = a < b ? a - (both - b) : b - (both - a);
  return x < y ? fma(x, both, -a) + x * lost : -(fma(y, both, -b) + y * lost);
}

/* whether x lies left of (a+1) / (a+b+2) */
int ad_beta_is_left(double a, double b, double x) { return ad_beta_offset(a, b, x, 1 - x) < 1 - 2 * x; }

/* log(x^a y^b Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b))), x + y = 1 */
double ad_beta_log_power(double a, double b, double x, double y) {
  const double excess = ad_beta_offset(a, b, x, y), low = a < b ? a : b, high = a < b ? b : a, both = a + b;
  const double errors = ad_stirling_error(both) - ad_stirling_error(a) - ad_stirling_error(b);
  const double deviance = ad_beta_excess(a, excess, x, both) + ad_beta_excess(b, -excess, y, both);
  return errors - deviance - 0.5 * (1.8378770664093453 + log(low) + log(high / both));
}

/* the continued fraction of I, left of the mean */
double ad_beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 20000; m++) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + even * d), c = 1 + even / c, h *= d * c;
    d = 1 / (1 + odd * d), c = 1 + odd / c, h *= d * c;
    if (fabs(d * c - 1) < 3e-16) break;
  }
  return h;
}

/* log(Gamma(a+b) / Gamma(a)), b small beside 1 */
double ad_log_gamma_step(double a, double b) {
  double total = 0, power = b, factorial = 1;
  for (; a < 10; a += 1) total -= log1p(b / a);
  for (int k = 0; k < 12; k++, power *= b, factorial *= k + 1) total += ad_polygamma(a, k) * power / factorial;
  return total;
}

/* 1 - I(a, b, x) for a small beside 1: no difference of numbers near 1 */
double ad_beta_rest(double a, double b, double x) {
  double total = 0, term = 1;
  for (int k = 1; k < 400 && fabs(term) > 1e-18; k++) total += (term *= (k - b) * x / k) / (a + k);
  const double power = a * log(x) + ad_log_gamma_step(b, a) - ad_log_gamma_near_one(a);
  return -expm1(power) - exp(power) * a * total;
}

/* I left of the mean */
double ad_beta_below(double a, double b, double x, double y) {
  extern double tgamma(double);
  if (a > 1e4) return exp(ad_beta_log_power(a, b, x, y)) / y * ad_harmonic(a, b, 0, 0) * ad_beta_integral(a, b, x, y);
  const double fraction = ad_beta_fraction(a, b, x), both = a + b;
  if (both < 170 && a * log(x) + b * log(y) > -650) { /* powers have more digits than their logarithms */
    const double lost = a < b ? a - (both - b) : b - (both - a), gamma = tgamma(both) * (1 + lost * log(both + 0.5));
    return pow(x, a) * pow(y, b) / tgamma(a + 1) * (gamma / tgamma(b)) * fraction;
  }
  return exp(ad_beta_log_power(a, b, x, y)) * (b / (a + b)) * fraction;
}

/* log(e^-as ((1-t) / y)^(b-1)), t = x e^-s, where slope = a - (b-1) x / y: no difference of large numbers */
double ad_beta_decay(double b, double slope, double odds, double s) {
  const double rise = -odds * expm1(-s);
  return -slope * s - (b - 1) * (odds * ad_exp_excess(-s) + ad_log_excess(rise, 1 + rise));
}

/* on which 1/s of the integrands varies: by its slope at s = 0, or its bend where that is small */
double ad_beta_scale(double b, double slope, double odds) {
  const double bend = sqrt(fabs(b - 1) * odds) * sqrt(1 + odds);
  return slope > bend ? slope : bend;
}

/* the integral of e^-as ((1-t) / y)^(b-1): as many steps for all shapes, where the fraction takes more and more */
double ad_beta_integral(double a, double b, double x, double y) {
  const double odds = x / y, slope = (x - ad_beta_offset(a, b, x, y)) / y, scale = ad_beta_scale(b, slope, odds);
  double total = 0;
  for (int m = 0; m < 96; m++) total += exp(ad_beta_decay(b, slope, odds, ad_half_line[m][0] / scale)) * ad_half_line[m][1];
  return total / scale;
}

double ad_betainc(double a, double b, double x) {
  if (!(a >= 0 && b >= 0 && x >= 0 && x <= 1) || (a == 0 && b == 0)) return __builtin_nan("");
  if (a == __builtin_inf() && b == a) return __builtin_nan("");
  if (x == 0 || x == 1) return x;
  if (a == 0 || b == __builtin_inf()) return 1;
  if (b == 0 || a == __builtin_inf()) return 0;
  if (a < 1e-20) return b / (a + b);
  if (b < 1e-20) return b / 1e-20 * ((a + 1e-20) / (a + b)) * ad_betainc(a, 1e-20, x); /* in proportion to b / (a + b) */
  if (b > 1e17 * (1 + a * a)) return ad_igamma(a, -b * ad_log_of(1 - x, x));
  if (a > 1e17 * (1 + b * b)) return ad_igammac(b, -a * ad_log_of(x, 1 - x));
  if (a > 1e250 || b > 1e250) return ad_betainc(0x1p-300 * a, 0x1p-300 * b, x); /* a step, of which sums are too large */
  if (ad_beta_is_left(a, b, x)) return ad_beta_below(a, b, x, 1 - x);
  if (b < 0.2 && x > 0.3) return ad_beta_rest(b, a, 1 - x);
  return 1 - ad_beta_below(b, a, 1 - x, x);
}

/* tables of derivatives by their orders k in a and l in b: [k][l] */

/* of ab / (a + b) */
double ad_harmonic(double a, double b, int i, int j) {
  const double total = a + b, x = a / total, y = b / total;
  if (i + j == 0) return (a < b ? a : b) * (x > y ? x : y);
  if (i + j == 1) return i ? y * y : x * x;
  const double square = i * (i - 1) * (y * y) - 2 * i * j * (x * y) + j * (j - 1) * (x * x);
  double factor = (i + j) % 2 ? 1 : -1;
  for (int k = 2; k <= i + j - 2; k++) factor *= k;
  return factor * square / ad_whole_power(total, i + j - 1);
}

/* of b / (a + b) */
double ad_share(double a, double b, int i, int j) {
  const double total = a + b;
  double factor = (i + j) % 2 ? -1 : 1;
  if (i + j == 0) return b / total;
  for (int k = 2; k <= i + j - 1; k++) factor *= k;
  return factor * (i * (b / total) - j * (a / total)) / ad_whole_power(total, i + j);
}

double ad_binomial(int n, int k) {
  double result = 1;
  for (int j = 0; j < k; j++) result = result * (n - j) / (j + 1);
  return result;
}

/* of a product */
double ad_leibniz2(double outer[][ad_MOST + 2], double inner[][ad_MOST + 2], int i, int j) {
  double total = 0;
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) total += ad_binomial(i, k) * ad_binomial(j, l) * outer[k][l] * inner[i - k][j - l];
  return total;
}

/* e^-f times those of e^f, from those of f */
void ad_bell_of_two(double slopes[][ad_MOST + 2], double result[][ad_MOST + 2], int i, int j) {
  result[0][0] = 1;
  for (int l = 1; l <= j; l++) {
    double total = 0;
    for (int q = 0; q < l; q++) total += ad_binomial(l - 1, q) * slopes[0][q + 1] * result[0][l - 1 - q];
    result[0][l] = total;
  }
  for (int k = 1; k <= i; k++)
    for (int l = 0; l <= j; l++) {
      double total = 0;
      for (int p = 0; p < k; p++)
        for (int q = 0; q <= l; q++)
          total += ad_binomial(k - 1, p) * ad_binomial(l, q) * slopes[p + 1][q] * result[k - 1 - p][l - q];
      result[k][l] = total;
    }
}

/* log x, x + y = 1 */
double ad_log_of(double x, double y) { return x < 0.5 ? log(x) : log1p(-y); }

/* of a log x + b log y + log(Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b))) */
void ad_beta_slopes(double a, double b, int i, int j, double log_x, double log_y, double slopes[][ad_MOST + 2]) {
  slopes[0][0] = 0;
  for (int n = 1; n <= i || n == 1; n++) slopes[n][0] = ad_polygamma_difference(1 + a, b, n - 1) + (n == 1 ? log_x : 0);
  for (int n = 1; n <= j || n == 1; n++) slopes[0][n] = ad_polygamma_difference(1 + b, a, n - 1) + (n == 1 ? log_y : 0);
  for (int k = 1; k <= i; k++)
    for (int l = 1; l <= j; l++) slopes[k][l] = ad_polygamma(1 + a + b, k + l - 1);
}

/* of x^(a-1) (1-x)^(b-1) / B(a, b) at x = 0 */
double ad_beta_density_end(double a, double b, int i, int j) {
  if (a > 1 || (a <= 0 && a == rint(a))) return 0;
  if (a == 1 && i == 0) return j == 0 ? b : j == 1;
  if (j || !(a + b < __builtin_inf())) return __builtin_nan("");
  return ad_gamma_sign(a) * ad_gamma_sign(b) * ad_gamma_sign(a + b) * (i % 2 ? -__builtin_inf() : __builtin_inf());
}

/* whether one of a and b is infinite, and I has become 0 or 1 for good */
int ad_beta_is_far(double a, double b, double x) {
  return a > 0 && b > 0 && (a == __builtin_inf()) != (b == __builtin_inf()) && x >= 0 && x <= 1;
}

double ad_beta_density(double a, double b, double x, int i, int j) {
  if (ad_beta_is_far(a, b, x) || ((a == 0 || b == 0) && i + j == 0)) return 0;
  if (x == 0) return ad_beta_density_end(a, b, i, j);
  if (x == 1) return ad_beta_density_end(b, a, j, i);
  if (a >= 0 && a < 1e-300 && b > 1e-300) a = 1e-300;
  if (b >= 0 && b < 1e-300 && a > 1e-300) b = 1e-300;
  if (!(a > 0 && b > 0 && a + b < __builtin_inf() && x > 0 && x < 1)) return __builtin_nan("");
  double slopes[ad_MOST + 2][ad_MOST + 2], inner[ad_MOST + 2][ad_MOST + 2], outer[ad_MOST + 2][ad_MOST + 2];
  const double y = 1 - x;
  ad_beta_slopes(a, b, i, j, ad_log_of(x, y), ad_log_of(y, x), slopes);
  ad_bell_of_two(slopes, inner, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_harmonic(a, b, k, l);
  return ad_exp_over(ad_beta_log_power(a, b, x, y), x) / y * ad_leibniz2(outer, inner, i, j);
}

double ad_betainc_derivative(double a, double b, double x, int i, int j) {
  if (a >= 0 && a < 1e-300 && b > 1e-300) a = 1e-300;
  if (b >= 0 && b < 1e-300 && a > 1e-300) b = 1e-300;
  if (ad_beta_is_far(a, b, x)) return 0;
  if (!(a > 0 && b > 0 && a + b < __builtin_inf() && x >= 0 && x <= 1)) return __builtin_nan("");
  if (x == 0 || x == 1) return 0;
  if (ad_beta_is_left(a, b, x)) return ad_beta_below_derivative(a, b, x, 1 - x, i, j);
  return -ad_beta_below_derivative(b, a, 1 - x, x, j, i);
}

double ad_beta_below_derivative(double a, double b, double x, double y, int i, int j) {
  if (a < 1 || (a < 8.5 && b * x < 1 && x < 0.5)) return ad_beta_from_power(a, b, x, y, i, j);
  return ad_beta_tail(a, b, x, y, i, j);
}

/* I = C x^a (1 + a int e^-as ((1-t)^(b-1) - 1) ds), t = x e^-s, C = (b)_a / Gamma(a+1), for small x */
double ad_beta_from_power(double a, double b, double x, double y, int i, int j) {
  double integrals[ad_MOST + 2][ad_MOST + 2] = {{0}}, inner[ad_MOST + 2][ad_MOST + 2], factor[ad_MOST + 2][ad_MOST + 2];
  for (int m = 0; m < 96; m++) {
    const double s = ad_half_line[m][0] / (a + 1), rest = log1p(-x * exp(-s)), power = (b - 1) * rest;
    double part = exp(-a * s) * (ad_half_line[m][1] / (a + 1));
    const double first = expm1(power);
    for (int k = 0; k <= i; k++, part *= -s) {
      integrals[k][0] += part * first;
      double slope = part * exp(power) * rest;
      for (int l = 1; l <= j; l++, slope *= rest) integrals[k][l] += slope;
    }
  }
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) inner[k][l] = a * integrals[k][l] + (k ? k * integrals[k - 1][l] : 0);
  inner[0][0] += 1;
  if (a < 0.5) ad_beta_near_pole(a, b, i, j, ad_log_of(x, y), factor);
  else ad_beta_by_factors(a, b, i, j, ad_log_of(x, y), factor);
  return exp(ad_beta_log_power(a, b, x, y) - b * ad_log_of(y, x)) * ad_leibniz2(factor, inner, i, j);
}

/* of C x^a = b/(a+b) x^a Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b)), over the last factor */
void ad_beta_near_pole(double a, double b, int i, int j, double log_x, double result[][ad_MOST + 2]) {
  double slopes[ad_MOST + 2][ad_MOST + 2], smooth[ad_MOST + 2][ad_MOST + 2], outer[ad_MOST + 2][ad_MOST + 2];
  ad_beta_slopes(a, b, i, j, log_x, 0, slopes);
  ad_bell_of_two(slopes, smooth, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_share(a, b, k, l);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) result[k][l] = ad_leibniz2(outer, smooth, k, l);
}

/* the same with C = b (b+1) ... (b+m-1) Gamma(a+b) / (Gamma(b+m) Gamma(a+1)), m >= 1 the integer next to a */
void ad_beta_by_factors(double a, double b, int i, int j, double log_x, double result[][ad_MOST + 2]) {
  const double nearest = rint(a), count = nearest > 1 ? nearest : 1;
  double rising[ad_MOST + 2] = {1}, rest[ad_MOST + 2][ad_MOST + 2], smooth[ad_MOST + 2][ad_MOST + 2];
  for (int m = 0; m < count; m++)
    for (int l = j; l >= 0; l--) rising[l] = (b + m) * rising[l] + (l ? l * rising[l - 1] : 0);
  const double scale = b / ((a + b) * rising[0]);
  for (int n = 1; n <= i || n == 1; n++) rest[n][0] = ad_polygamma_difference(1 + a, b - 1, n - 1);
  for (int n = 1; n <= j || n == 1; n++) rest[0][n] = ad_polygamma_difference(count + b, a - count, n - 1);
  rest[1][0] += log_x;
  for (int k = 1; k <= i; k++)
    for (int l = 1; l <= j; l++) rest[k][l] = ad_polygamma(a + b, k + l - 1);
  ad_bell_of_two(rest, smooth, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) {
      double total = 0;
      for (int q = 0; q <= l; q++) total += ad_binomial(l, q) * rising[q] * smooth[k][l - q];
      result[k][l] = scale * total;
    }
}

/* the integral of the derivative of the density below x, a >= 1 */
double ad_beta_tail(double a, double b, double x, double y, int i, int j) {
  double slopes[ad_MOST + 2][ad_MOST + 2], inner[ad_MOST + 2][ad_MOST + 2], rational[ad_MOST + 2][ad_MOST + 2];
  double outer[ad_MOST + 2][ad_MOST + 2], moments[ad_MOST + 2][ad_MOST + 2] = {{0}};
  ad_beta_slopes(a, b, i, j, 0, 0, slopes);
  const double first = ad_log_of(x, y) + slopes[1][0], second = ad_log_of(y, x) + slopes[0][1], odds = x / y;
  slopes[1][0] = slopes[0][1] = 0;
  ad_bell_of_two(slopes, inner, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) rational[k][l] = ad_harmonic(a, b, k, l);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_leibniz2(rational, inner, k, l);
  const double slope = (x - ad_beta_offset(a, b, x, y)) / y, scale = ad_beta_scale(b, slope, odds);
  for (int m = 0; m < 96; m++) {
    const double s = ad_half_line[m][0] / scale, rise = log1p(-odds * expm1(-s));
    double part = exp(a + b > 1e5 ? ad_beta_decay(b, slope, odds, s) : (b - 1) * rise - a * s) * (ad_half_line[m][1] / scale);
    for (int k = 0; k <= i; k++, part *= first - s) {
      double term = part;
      for (int l = 0; l <= j; l++, term *= second + rise) moments[k][l] += term;
    }
  }
  return exp(ad_beta_log_power(a, b, x, y)) / y * ad_leibniz2(outer, moments, i, j);
}

/* Error function and normal distribution. */

/* exp(factor x^2) for a power of two `factor`: rounding x^2 alone would cost x^2 ulp */
inline double ad_exp_of_square(double x, double factor) {
  const double square = x * x, rest = ad_rest_of_product(x, x, square);
  return exp(factor * square) * (1 + factor * (rest - rest == 0 ? rest : 0));
}

/* exp(x^2) erfc(x) */
double ad_scaled_erfc(double x) {
  if (x >= 0.25) return ad_erfcx_right(x);
  return ad_exp_of_square(x, 1) * erfc(x);
}

/* Phi(x) = erfc(z) / 2 at z = -x / sqrt(2), with what rounding z left out */
double ad_normal(double x) {
  const double root = 0.7071067811865476, z = -x * root, rest = ad_rest_of_product(-x, root, z) + x * 4.833646656726457e-17;
  const double lost = 1.1283791670955126 * ad_exp_of_square(x, -0.5) * (rest - rest == 0 ? rest : 0);
  return 0.5 * (erfc(z) - lost);
}

/* log Phi(x) */
double ad_log_normal(double x) {
  if (x > 0) return log1p(-ad_normal(-x));
  if (x > -1) return log(ad_normal(x));
  return log(0.5 * ad_scaled_erfc(-x * 0.7071067811865476)) - 0.5 * x * x;
}

/* the n-th derivative of exp(x^2) erfc(x): (-2)^n n! J_n, of the repeated integrals J_n = exp(x^2) i^n erfc(x), n >= 1 */
double ad_erfcx_derivative(double x, int n) {
  double scale = 1;
  for (int k = 1; k <= n; k++) scale *= -2 * k;
  if (!(x >= 0.75)) return scale * ad_integral_upwards(x, n);
  if (x < 2.5) return scale * ad_integral_fraction(x, n, 240);
  return scale * ad_integral_fraction(x, n, 40);
}

/* J_n from J_(-1) and J_0 on: 2k J_k = J_(k-2) - 2z J_(k-1) */
double ad_integral_upwards(double z, int n) {
  double before = 1.1283791670955126, now = ad_scaled_erfc(z);
  for (int k = 1; k <= n; k++) {
    const double next = (0.5 * before - z * now) / k;
    before = now, now = next;
  }
  return now;
}

/* J_n by the ratios J_k / J_(k-1), a continued fraction from `steps` orders above on */
double ad_integral_fraction(double z, int n, int steps) {
  double ratio = 1 / (z + sqrt(z * z + 2 * (n + steps))), result = ad_scaled_erfc(z);
  for (int k = n + steps; k >= 1; k--) {
    if (k <= n) result *= ratio;
    ratio = 1 / (2 * z + 2 * k * ratio);
  }
  return result;
}

/* exp(z^2) erfc(z), z >= 1/4 */
double ad_erfcx_right(double z) {
  const double t = 2 / (2 + z);
  if (z < 2) return t * ad_erfcx_fit(t - 0.6944444444444444);
  return t * ad_erfcx_far_fit(t - 0.25);
}

inline double ad_erfcx_fit(double x) {
  double total = ad_erfcx_near[15];
  for (int k = 14; k >= 0; k--) total = total * x + ad_erfcx_near[k];
  return total;
}

inline double ad_erfcx_far_fit(double x) {
  double total = ad_erfcx_far[18];
  for (int k = 17; k >= 0; k--) total = total * x + ad_erfcx_far[k];
  return total;
}

/* the n-th derivative of log Phi, n >= 1 */
double ad_log_ndtr_derivative(double x, int n) {
  if (x > 100) return 0;
  if (x > 1) return ad_mills_right(x, n);
  const double shift = n == 1 ? x : n == 2 ? 1 : 0;
  if (x < -12) return ad_mills_far(-x, n - 1) - shift;
  return ad_mills_left(x, n - 1) - shift;
}

/* h = phi / Phi and h' = -h (x + h), differentiated by Leibniz' rule, x > 1 */
double ad_mills_right(double x, int n) {
  double found[ad_MOST + 2];
  found[0] = 0.3989422804014327 * ad_exp_of_square(x, -0.5) / ad_normal(x);
  for (int m = 1; m < n; m++) {
    double total = 0;
    for (int k = 0; k < m; k++) {
      const int rest = m - 1 - k;
      total += ad_binomial(m - 1, k) * found[k] * (found[rest] + (rest == 0 ? x : rest == 1));
    }
    found[m] = -total;
  }
  return found[n - 1];
}

/* the n-th derivative of M = x + h, -12 <= x <= 1, by Taylor's series at the nearest node */
double ad_mills_left(double x, int n) {
  const int place = x < 0.75 ? (int)(2 * x + 24) : 25;
  const double h = x - (0.5 * place - 11.75);
  double c[ad_MOST + 20], total = 0;
  ad_mills_taylor(place, n + 16, c);
  for (int k = n + 15; k >= n; k--) {
    double factor = 1;
    for (int j = 0; j < n; j++) factor *= k - j;
    total = total * h + factor * c[k];
  }
  return total;
}

/* M' = 1 + x M - M^2 */
void ad_mills_taylor(int place, int count, double *c) {
  const double x = 0.5 * place - 11.75;
  for (int k = 0; k < 4; k++) c[k] = ad_mills_table[place][k];
  for (int k = 3; k < count - 1; k++) {
    double total = x * c[k] + c[k - 1];
    for (int j = 0; j <= k; j++) total -= c[j] * c[k - j];
    c[k + 1] = total / (k + 1);
  }
}

/* the n-th derivative of M at -z, z > 12, by its asymptotic series */
double ad_mills_far(double z, int n) {
  const double u = 1 / (z * z);
  double total = 0, scale = 1 / z;
  for (int k = 19; k >= 0; k--) {
    double factor = ad_mills_series[k];
    for (int j = 1; j <= n; j++) factor *= 2 * k + j;
    total = total * u + factor;
  }
  for (int j = 0; j < n; j++) scale /= z;
  return z == inf() ? 0 : total * scale;
}

/* the n-th derivative of sin(y) / y */
double ad_divided_sine(double y, double sine, double cosine, int n) {
  if (fabs(y) == inf()) return 0;
  if (fabs(y) < 2 + 0.5 * n) {
    const int first = (n + 1) / 2;
    double total = 0, term = 1;
    for (int k = 2; k <= 2 * first - n; k++) term /= k;
    for (int k = first; k <= first + 16; k++) {
      total += (k % 2 ? -term : term) / (2 * k + 1);
      term *= y * y / ((2 * k - n + 1.0) * (2 * k - n + 2.0));
    }
    return n % 2 ? total * y : total;
  }
  double result = sine / y;
  for (int k = 1; k <= n; k++) result = ((k / 2 % 2 ? -1 : 1) * (k % 2 ? cosine : sine) - k * result) / y;
  return result;
}

double ad_spherical_derivative(double x, int n) { return ad_divided_sine(x, sin(x), cos(x), n); }

double ad_sinc_derivative(double x, int n) {
  const double nearest = rint(x), halved = 0.5 * nearest, sign = 1 - 4 * fabs(halved - rint(halved)), rest = x - nearest;
  const double sine = sign * ad_sine_of_pi(rest), cosine = sign * ad_sine_of_pi(0.5 - fabs(rest));
  return ad_divided_sine(3.141592653589793 * x, sine, cosine, n) * ad_whole_power(3.141592653589793, n);
}

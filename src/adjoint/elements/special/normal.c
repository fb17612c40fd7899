/* Error function and normal distribution. */

/* J_0 ... J_n, the scaled repeated integrals of erfc; all over J_0 if `relative` and z is large */
void ad_scaled_integrals(double z, double *result, int n, int relative) {
  double before = 1.1283791670955126, ratio[ad_MOST + 2];
  result[0] = relative && z >= 6 ? 1 : ad_erfcx(z);
  if (!(z >= 0.5)) {
    for (int k = 1; k <= n; k++) {
      result[k] = (0.5 * before - z * result[k - 1]) / k;
      before = result[k - 1];
    }
    return;
  }
  const int order = n + 14 + (z < 12 ? (int)(130 / (z * z)) : 0);
  double r = 1 / (z + sqrt(z * z + 2 * order));
  for (int k = order; k >= 1; k--) {
    if (k <= n) ratio[k] = r;
    r = 1 / (2 * z + 2 * k * r);
  }
  for (int k = 1; k <= n; k++) result[k] = result[k - 1] * ratio[k];
}

double ad_erfcx_derivative(double x, int n) {
  double integrals[ad_MOST + 2], scale = 1;
  ad_scaled_integrals(x, integrals, n, 0);
  for (int k = 1; k <= n; k++) scale *= -2 * k;
  return scale * integrals[n];
}

/* the n-th derivative of log Phi, n >= 1 */
double ad_log_ndtr_derivative(double x, int n) {
  double found[ad_MOST + 2], moments[ad_MOST + 2];
  if (x > 100) return 0;
  if (x > 0) { /* h = phi / Phi, h' = -h (x + h) */
    found[0] = 0.3989422804014327 * ad_exp_square(x, -0.5) / ad_ndtr(x);
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
  double scale = 1;
  ad_scaled_integrals(-x * 0.7071067811865476, moments, n, 1);
  const double first = moments[0];
  for (int k = 0; k <= n; k++, scale *= -2 * k) moments[k] *= scale / first;
  for (int m = 1; m <= n; m++) { /* cumulants */
    found[m] = moments[m];
    for (int k = 1; k < m; k++) found[m] -= ad_binomial(m - 1, k - 1) * found[k] * moments[m - k];
  }
  return (found[n] - (n == 2 ? 2 : 0)) * ad_whole_power(-0.7071067811865476, n);
}

/* the n-th derivative of sin(y) / y */
double ad_divided_sine(double y, double sine, double cosine, int n) {
  if (fabs(y) == __builtin_inf()) return 0;
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
  const double nearest = rint(x), half = 0.5 * nearest, sign = 1 - 4 * fabs(half - rint(half)), rest = x - nearest;
  const double sine = sign * ad_sine_of_pi(rest), cosine = sign * ad_sine_of_pi(0.5 - fabs(rest));
  return ad_divided_sine(3.141592653589793 * x, sine, cosine, n) * ad_whole_power(3.141592653589793, n);
}

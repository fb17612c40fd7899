/* Samples of gamma and beta distributions as functions of their parameters.

   A sample z with distribution function F(z; a) stays at the same F when a moves: dz/da = -F_a / F_z (implicit
   reparameterisation, Figurnov et al. 2018). With p = F_z this is -(L M + M_a), where M = F/p and L = d log p / da; on the other
   side of the bulk L N + N_a with N = (1 - F)/p. Neither M nor N underflows, and the terms have one sign out in the tails. */

/* log z - psi(a + d) as a Taylor polynomial in d */
void ad_sample_slopes(double a, double z, double *slopes, int order) {
  double factorial = 1;
  if (a > 20) {
    const double u = 1 / (a * a), ratio = (z - a) / a;
    const double gap = 0.5 / a + u * (1 / 12.0 - u * (1 / 120.0 - u * (1 / 252.0 - u / 240)));
    slopes[0] = (fabs(ratio) < 0.5 ? log1p(ratio) : log(z / a)) + gap;
  } else
    slopes[0] = log(z) - ad_digamma(a);
  for (int k = 1; k <= order; k++) {
    factorial *= k;
    slopes[k] = -ad_polygamma(a, k) / factorial;
  }
}

/* the coefficient of L m + m' at `order` */
double ad_sample_bracket(const double *slopes, const double *m, int order) {
  double total = (order + 1) * m[order + 1];
  for (int k = 0; k <= order; k++) total += slopes[k] * m[order - k];
  return total;
}

double ad_gamma_slope(double a, double z, int order) {
  double slopes[ad_MOST + 2], factorial = 1, m[ad_MOST + 2] = {0};
  if (z == 0 && a >= 0) return 0;
  if (!(a > 0 && z > 0 && a < inf() && z < inf())) return nan();
  for (int k = 2; k <= order; k++) factorial *= k;
  if (a < 5 && z <= a + 1) { /* M = (z/a) m, m = sum z^k / ((a+1) ... (a+k)) */
    double term[ad_MOST + 2] = {1}, found = 0, left = 1;
    m[0] = 1;
    for (int k = 1; k < 400 && left > 0; k++) {
      left = 0;
      for (int l = 0; l <= order + 1; l++) {
        term[l] = (z * term[l] - (l ? term[l - 1] : 0)) / (a + k);
        m[l] += term[l];
        left = fabs(term[l]) > 1e-17 * fabs(m[l]) ? 1 : left;
      }
    }
    ad_sample_slopes(a + 1, z, slopes, order);
    for (int k = 0; k <= order; k++) found = (ad_sample_bracket(slopes, m, k) - found) / a;
    return -z * found * factorial;
  }
  const double side = z > a ? 1 : -1, slope = side * (z - a);
  double reach = (sqrt(slope * slope + 84 * z) - slope) / z;
  for (int k = 0; k < 8; k++) {
    const double value = slope * reach + z * ad_exp_excess(side * reach) - 42;
    const double next = reach - value / (slope + side * z * expm1(side * reach));
    reach = next > 0.1 * reach ? next : 0.1 * reach;
  }
  for (int n = 0; n < 48; n++) {
    const double y = reach * ad_gauss[n][0];
    double mass = exp(-slope * y - z * ad_exp_excess(side * y)) * ad_gauss[n][1] * z * reach;
    for (int k = 0; k <= order + 1; k++) {
      m[k] += mass;
      mass *= side * y / (k + 1);
    }
  }
  ad_sample_slopes(a, z, slopes, order);
  return side * ad_sample_bracket(slopes, m, order) * factorial;
}

/* derivatives of m(a, b) = 1 + int exp(-ay) G'(y) dy, where x m / a is F over the density */
void ad_beta_sample_tail(double x, double a, double b, int i, int j, double m[][ad_MOST + 2]) {
  const double odds = x / (1 - x), rest = b > 1 ? b - 1 : 0;
  double low = -log(a), high = low + log1p(rest * log1p(odds));
  for (int k = 0; k < 30; k++) { /* where exp((b-1) lambda(y) - ay) has fallen to about 1/e */
    const double middle = (low + high) / 2, y = exp(middle);
    if (a * y - (b - 1) * log1p(-odds * expm1(-y)) > 1) high = middle;
    else low = middle;
  }
  for (int p = 0; p <= i; p++)
    for (int q = 0; q <= j; q++) m[p][q] = p + q == 0;
  const double scale = exp(high);
  double steps[352], bends[352], masses[352]; /* nodes of the trapezoidal rule in log y, in vectors */
  for (int n = 0; n < 352; n++) {
    const double y = scale * exp(-38 + 0.125 * n), fall = -expm1(-y), bend = log1p(odds * fall);
    steps[n] = y, bends[n] = bend;
    masses[n] = exp((b - 1) * bend - a * y) * (odds * (1 - fall) / (1 + odds * fall)) * (y * 0.125);
  }
  for (int n = 0; n < 352; n++)
    for (int p = 0; p <= i; p++) {
      double power = 1, before = 0;
      for (int q = 0; q <= j; q++) {
        m[p][q] += masses[n] * ((b - 1) * power + q * before);
        before = power, power *= bends[n];
      }
      masses[n] *= -steps[n];
    }
}

/* a derivative of L m + m_a with L = log x - psi(a) + psi(both) */
double ad_beta_sample_bracket(double x, double a, double both, double m[][ad_MOST + 2], int i, int j) {
  double total = m[i + 1][j];
  for (int p = 0; p <= i; p++)
    for (int q = 0; q <= j; q++) {
      const double slope = ad_polygamma(both, p + q) - (q ? 0 : ad_polygamma(a, p)) + (p + q ? 0 : log(x));
      total += ad_binomial(i, p) * ad_binomial(j, q) * slope * m[i - p][j - q];
    }
  return total;
}

double ad_beta_slope(double x, double a, double b, int i, int j) {
  double m[ad_MOST + 2][ad_MOST + 2], turned[ad_MOST + 2][ad_MOST + 2], total = 0, factor = 1;
  if ((x == 0 || x == 1) && a > 0 && b > 0) return 0;
  if (!(a > 0 && b > 0 && x > 0 && x < 1 && a < inf() && b < inf())) return nan();
  if (x * (a + b) < a) {
    ad_beta_sample_tail(x, a, b, i + 1, j, m);
    for (int r = 0; r <= i; r++, factor *= -r / a)
      total += ad_binomial(i, r) * factor / a * ad_beta_sample_bracket(x, a + 1, a + b, m, i - r, j);
    return -x * total;
  }
  ad_beta_sample_tail(1 - x, b, a, j, i + 1, turned);
  for (int p = 0; p <= i + 1; p++)
    for (int q = 0; q <= j; q++) m[p][q] = turned[q][p];
  for (int r = 0; r <= j; r++, factor *= -r / b)
    total += ad_binomial(j, r) * factor / b * ad_beta_sample_bracket(x, a, a + b, m, i, j - r);
  return (1 - x) * total;
}

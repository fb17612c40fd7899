/* Orthogonal polynomials. */

/* the step from degree m to m + 1: p = (A x + B) p - C p; kinds are those of ad_polynomial_starts, from Hermite's on */
void ad_polynomial_step(int kind, double m, double *step) {
  step[0] = ad_polynomial_starts[kind][2], step[1] = ad_polynomial_starts[kind][3], step[2] = 1;
  if (kind == 8) step[2] = 2 * m;
  if (kind == 9) step[2] = m;
  if (kind == 10) step[0] = -1 / (m + 1), step[1] = (2 * m + 1) / (m + 1), step[2] = m / (m + 1);
  if (kind == 11) step[0] = (2 * m + 1) / (m + 1), step[2] = m / (m + 1);
}

/* the k-th derivative in x of a polynomial of degree n */
double ad_polynomial(double x, double degree, int kind, int k) {
  extern double frexp(double, int *), ldexp(double, int);
  const double whole = trunc(degree);
  if (k && (kind == 8 || kind == 9)) { /* Hermite's own derivatives */
    double factor = 1;
    for (int j = 0; j < k; j++) factor *= (kind == 8 ? 2.0 : 1.0) * (whole - j);
    return whole < k ? 0 : factor * ad_polynomial(x, whole - k, kind, 0);
  }
  if (!(whole >= 0)) return 0;
  if (x != x || whole > 65536) return x == x && whole == __builtin_inf() ? 0 : __builtin_nan("");
  const int n = (int)whole;
  int e = 0, taken = 0;
  if (fabs(x) > 1 && x - x == 0) frexp(x, &e);
  e = e > 0 ? e : 0;
  const double inverse = ldexp(1, -e), at = x * inverse, *start = ad_polynomial_starts[kind];
  double before[ad_MOST + 2] = {1}, now[ad_MOST + 2] = {0}, step[3];
  now[0] = start[0] * at + start[1] * inverse;
  if (k) now[1] = start[0];
  if (n == 0) return before[k];
  for (int m = 1; m < n; m++) {
    ad_polynomial_step(kind, m, step);
    const double factor = step[0] * at + step[1] * inverse, weight = step[2] * (inverse * inverse);
    for (int j = k; j >= 0; j--) {
      const double next = factor * now[j] - weight * before[j] + (j ? j * step[0] * now[j - 1] : 0);
      before[j] = now[j], now[j] = next;
    }
    if (m % 8) continue;
    double size = 0;
    for (int j = 0; j <= k; j++) {
      size = fabs(before[j]) > size ? fabs(before[j]) : size;
      size = fabs(now[j]) > size ? fabs(now[j]) : size;
    }
    if (!((size > 1e100 || size < 1e-100) && size - size == 0)) continue;
    int power = 0;
    frexp(size, &power);
    for (int j = 0; j <= k; j++) before[j] = ldexp(before[j], -power), now[j] = ldexp(now[j], -power);
    taken += power;
  }
  return ldexp(now[k], taken + e * (n - k));
}

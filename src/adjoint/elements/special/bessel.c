/* Bessel functions. */

double ad_modified_i(double x, int order) {
  if (order == 0) return ad_i0(x);
  if (order == 1) return ad_i1(x);
  const double size = fabs(x), sign = x < 0 && order % 2 ? -1 : 1;
  if (size > 1e3) return sign * __builtin_inf();
  if (!(size > 60 + 0.5 * order * order)) {
    double total = 1, term = 1, half = 0.5 * x;
    for (int k = 1; k < 1000 && term > 1e-17 * total; k++) total += term *= half * half / (k * (k + (double)order));
    for (int k = 1; k <= order; k++) total *= half / k;
    return total;
  }
  double total = 1, term = 1;
  for (int k = 1; k < 60 && fabs(term) > 1e-17; k++)
    total += term *= -(4.0 * order * order - (2 * k - 1.0) * (2 * k - 1.0)) / (8 * k * size);
  const double root = exp(0.5 * size);
  return sign * root * (root / sqrt(6.283185307179586 * size)) * total;
}

double ad_bessel_of(double x, int order, int kind) {
  extern double jn(int, double), yn(int, double);
  if (kind == 0) return ad_modified_i(x, order);
  if (kind == 1) return ad_modified_k(x, order);
  return kind == 2 ? jn(order, x) : yn(order, x);
}

/* the n-th derivative as a sum over neighbouring orders; kinds are I, K, J, Y */
double ad_bessel_derivative(double x, int order, int n, int kind) {
  double total = 0;
  for (int k = 0; k <= n; k++) {
    const int m = order - n + 2 * k, odd = kind < 2 ? 0 : (k % 2) != (m < 0 && m % 2);
    const double term = (odd ? -1 : 1) * ad_binomial(n, k) * ad_bessel_of(x, m < 0 ? -m : m, kind);
    total = fabs(term) == __builtin_inf() ? term : total + term; /* next to a pole the last one counts */
  }
  return (kind == 1 && n % 2 ? -1 : 1) * __builtin_ldexp(total, -n);
}

/* e^x K and its n-th derivative, x >= 1: an integral of cosh(order t) by the trapezoidal rule */
double ad_scaled_k_far(double x, int order, int n) {
  double total = 0;
  for (int k = 0; k < 48; k++) {
    const double v = 0.16 * k, square = v * v / x;
    double before = 1 + square, cosh = 1;
    for (int m = 0; m < order; m++) {
      const double next = 2 * (1 + square) * cosh - before;
      before = cosh, cosh = next;
    }
    total += (k ? 1 : 0.5) * ad_bells[k] * ad_whole_power(square, n) * cosh / sqrt(x + 0.5 * v * v);
  }
  return (n % 2 ? -1 : 1) * 0.32 * 0.7071067811865476 * total; /* sqrt(2 x) might be too large */
}

/* K of order 0 or 1, 0 < x < 1: its power series */
double ad_modified_k_near(double x, int order) {
  const double t = 0.25 * x * x, log_half = log(x) - 0.11593151565841244; /* x / 2 might be 0 */
  double total = 0, term = 1, harmonic = 0;
  for (int k = 0; k < 16; k++) {
    if (order == 0) total += term * (harmonic - log_half);
    else total += term * (log_half - harmonic - 0.5 / (k + 1));
    harmonic += 1.0 / (k + 1);
    term *= t / ((k + 1.0) * (k + 1 + order));
  }
  return order ? 1 / x + 0.5 * x * total : total;
}

/* K of any order, times e^x if `scaled` */
double ad_modified_k_of(double x, int order, int scaled) {
  if (!(x > 0)) return x == 0 ? __builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return 0;
  double pair[2];
  for (int k = 0; k < 2; k++)
    pair[k] = x < 1 ? ad_modified_k_near(x, k) : ad_scaled_k_far(x, k, 0);
  const double scale = scaled == (x >= 1) ? 1 : exp(scaled ? x : -x);
  pair[0] *= scale, pair[1] *= scale;
  if (order == 0) return pair[0];
  for (int k = 1; k < order && pair[1] < __builtin_inf(); k++) {
    const double next = 2 * k / x * pair[1] + pair[0];
    pair[0] = pair[1], pair[1] = next;
  }
  return pair[1];
}

double ad_modified_k(double x, int order) { return ad_modified_k_of(x, order, 0); }

double ad_scaled_k(double x, int order) { return ad_modified_k_of(x, order, 1); }

double ad_scaled_k_derivative(double x, int order, int n) {
  if (x >= 1) return x == __builtin_inf() ? 0 : ad_scaled_k_far(x, order, n);
  double total = 0;
  for (int j = n; j >= 0; j--) {
    double part = 0;
    for (int k = 0; k <= j; k++) {
      const int m = order - j + 2 * k;
      const double term = ad_binomial(j, k) * ad_scaled_k(x, m < 0 ? -m : m);
      part = term == __builtin_inf() ? term : part + term;
    }
    part *= (j % 2 ? -1 : 1) * ad_binomial(n, j) * __builtin_ldexp(1, -j);
    total = fabs(total) == __builtin_inf() ? total : total + part;
  }
  return total;
}

/* the n-th derivative of M(a, b, -2x), x >= 0 */
double ad_kummer(double x, double a, double b, int n) {
  extern double tgamma(double);
  double scale = 1, total = 1, term = 1;
  for (int k = 0; k < n; k++) scale *= -2 * (a + k) / (b + k);
  if (!(x >= 25)) {
    const double c = b - a, d = b + n;
    for (int k = 0; k < 150 && term > 1e-18 * total; k++) total += term *= (c + k) / ((d + k) * (k + 1)) * (2 * x);
    return scale * exp(-2 * x) * total;
  }
  const double c = a + n, d = b + n;
  for (int k = 0; k < 40; k++) {
    const double step = (c + k) * (c - d + 1 + k) / ((k + 1) * (2 * x));
    if (!(fabs(step) < 1)) break;
    total += term *= step;
  }
  return scale * (tgamma(d) / tgamma(d - c)) * pow(2 * x, -c) * total;
}

double ad_i0e_derivative(double x, int n) {
  const double value = ad_kummer(fabs(x), 0.5, 1, n);
  return n % 2 ? (x == 0 ? 0 * value : x < 0 ? -value : value) : value;
}

double ad_i1e_derivative(double x, int n) {
  const double size = fabs(x), inside = size == __builtin_inf() ? 0 : size * ad_kummer(size, 1.5, 3, n);
  const double value = 0.5 * (inside + (n ? n * ad_kummer(size, 1.5, 3, n - 1) : 0));
  return n % 2 ? value : x == 0 ? 0 * value : x < 0 ? -value : value;
}

/* 2/3 z sqrt(z) as a sum of two numbers */
double ad_two_thirds_power(double z, double *rest) {
  const double root = sqrt(z), root_rest = fma(-root, root, z) / (2 * root), product = z * root;
  const double left = fma(z, root, -product) + z * root_rest, zeta = 2 * product / 3;
  *rest = (fma(-3, zeta, 2 * product) + 2 * left) / 3;
  return zeta;
}

/* Ai, or Ai' where `slope` */
double ad_airy(double x, int slope) {
  double rest, sum[2] = {0, 0}, power = 1;
  if (x != x) return x;
  if (x >= -12 && x <= 10) { /* Taylor series at a quarter, whose coefficients Ai'' = x Ai gives */
    const int k = (int)rint(4 * x);
    const double at = 0.25 * k, h = x - at;
    double a = 0, b = ad_airy_table[k + 48][0], c = ad_airy_table[k + 48][1], value = b + c * h, rate = c;
    for (int m = 0; m < 20; m++) {
      const double next = (at * b + a) / ((m + 1) * (m + 2));
      power *= h;
      rate += (m + 2) * next * power;
      value += next * power * h;
      a = b, b = c, c = next;
    }
    return slope ? rate : value;
  }
  if (x > 200) return slope ? -0.0 : 0;
  if (x == -__builtin_inf()) return __builtin_nan("");
  const double z = fabs(x), zeta = ad_two_thirds_power(z, &rest), fourth = sqrt(sqrt(z));
  double term = 1;
  for (int k = 0; k < 30; k++) {
    const double own = slope ? term * (6 * k + 1) / (1 - 6 * k) : term;
    sum[x > 0 ? 0 : k % 2] += (x > 0 ? k % 2 : k / 2 % 2) ? -own : own;
    term *= (6 * k + 1.0) * (6 * k + 3.0) * (6 * k + 5.0) / (216 * (k + 1.0) * (2 * k + 1.0) * zeta);
  }
  if (x > 0) {
    const double scale = exp(-zeta) * (1 - rest) * 0.28209479177387814 * sum[0];
    return slope ? -scale * fourth : scale / fourth;
  }
  const double s = sin(zeta), c = cos(zeta), near = cos(rest), far = sin(rest);
  const double sine = s * near + c * far, cosine = c * near - s * far, ahead = cosine + sine, turned = sine - cosine;
  if (slope) return fourth * (sum[0] * turned - sum[1] * ahead) * 0.3989422804014327;
  return (sum[0] * ahead + sum[1] * turned) / fourth * 0.3989422804014327;
}

double ad_airy_ai(double x) { return ad_airy(x, 0); }

double ad_airy_ai_slope(double x) { return ad_airy(x, 1); }

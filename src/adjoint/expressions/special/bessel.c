/* Bessel functions of whole orders and their derivatives. Those of orders 0 and 1 are done whole: near 0 by power series, then
   by Taylor series at the nodes of a table or by integrals of positive functions, far out by asymptotic series. */

/* -- J and Y (kind 0 and 1) */

/* the n-th derivative of J (kind 0), or of Y (kind 1) where x is at least 1, of order 0 or 1 */
double ad_bessel(double x, int kind, int order, int n) {
  const double size = fabs(x);
  if (x != x) return x;
  if (kind && !(x > 0)) return x < 0 ? nan() : n % 2 ? inf() : -inf();
  if (size == inf()) return 0;
  if (!kind && x == 0 && (order + n) % 2) return x;
  const double sign = x < 0 && (order + n) % 2 ? -1 : 1;
  if (size >= 26) return sign * ad_bessel_far(size, kind, order, n);
  if (size >= 1) return sign * ad_bessel_middle(size, kind, order, n);
  return sign * ad_bessel_series(size, order, n, -1);
}

/* the sum of sign^k (x/2)^(2k+v) / (k! (k+v)!), n times differentiated: J or I of order v */
double ad_bessel_series(double x, int order, int n, int sign) {
  const int first = n > order ? (n - order + 1) / 2 : 0, power = 2 * first + order;
  double term = first % 2 ? sign : 1, total = 0;
  for (int k = 1; k <= n; k++) term *= power - n + k;
  for (int k = 1; k <= first; k++) term /= k;
  for (int k = 1; k <= first + order; k++) term /= k;
  term = ldexp(term, -power);
  for (int k = 1; k <= power - n; k++) term *= x;
  for (int k = first; k < first + 10; k++) {
    const int p = 2 * k + order;
    total += term;
    term *= sign * 0.25 * (x * x) * ((p + 1.0) * (p + 2.0)) / ((p + 1.0 - n) * (p + 2.0 - n) * (k + 1.0) * (k + 1.0 + order));
  }
  return total;
}

/* Taylor's series at the nearest node, 1 <= x < 26; nodes are the middles of eighths of octaves */
double ad_bessel_middle(double x, int kind, int order, int n) {
  int octave = 0;
  const double part = frexp(x, &octave);
  const int place = 8 * (octave - 1) + (int)(16 * part) - 8;
  const double h = x - ad_bessel_node(place);
  double c[ad_MOST + 24], total = 0;
  ad_bessel_taylor(place, kind, order, n + 20, c);
  for (int k = n + 19; k >= n; k--) {
    double factor = 1;
    for (int j = 0; j < n; j++) factor *= k - j;
    total = total * h + factor * c[k];
  }
  return total;
}

double ad_bessel_node(int place) { return ldexp(1 + (place % 8 + 0.5) / 8, place / 8); }

/* Taylor coefficients at a node: x^2 f'' + x f' + (x^2 - v^2) f = 0 */
void ad_bessel_taylor(int place, int kind, int order, int count, double *c) {
  const double x = ad_bessel_node(place), square = 1 / (x * x);
  c[0] = ad_bessel_table[place][3 * kind + order];
  c[1] = order ? ad_bessel_table[place][3 * kind + 2] : -ad_bessel_table[place][3 * kind + 1];
  for (int k = 0; k < count - 2; k++) {
    double total = x * ((k + 1) * (2 * k + 1)) * c[k + 1] + (x * x + (k * k - order)) * c[k];
    if (k > 0) total += 2 * x * c[k - 1];
    if (k > 1) total += c[k - 2];
    c[k + 2] = -total * square / ((k + 1.0) * (k + 2.0));
    if (k == 1 && order && kind == 0) c[3] = ad_bessel_table[place][6]; /* which cancels next to its zero */
  }
}

/* Hankel's expansion, x >= 26: derivatives of x^(-k-1/2) e^ix, times i^k a_k. The phase is resolved into sin x and cos x:
   subtracting pi/4 first would cost x ulp */
double ad_bessel_far(double x, int kind, int order, int n) {
  const double sine = sin(x), cosine = cos(x), inverse = 1 / x;
  double even = 0, odd = 0, a = 1;
  for (int k = 0; k < 22; k++) {
    double term = a;
    for (int j = 0; j <= n; j++) {
      const int turn = (k + n + 3 * j) % 4;
      const double own = (turn > 1) == (j % 2) ? term : -term;
      if (turn % 2) odd += own;
      else even += own;
      term *= (n - j) / (j + 1.0) * (k + j + 0.5) * inverse;
    }
    a *= (4 * order * order - (2 * k + 1.0) * (2 * k + 1.0)) / (8 * (k + 1)) * inverse;
  }
  const double turned = order ? -sine - cosine : sine - cosine, ahead = order ? sine - cosine : sine + cosine;
  const double value = kind ? even * turned + odd * ahead : even * ahead - odd * turned;
  return value * 0.5641895835477563 / sqrt(x); /* pi x may be too large */
}

/* Y of order 0 or 1, 0 < x <= 1: (2/pi) (log(x/2) + euler) J and a power series */
double ad_bessel_y_near(double x, int order) {
  const double t = -0.25 * x * x, log_half = log(x) - 0.11593151565841244; /* x / 2 might be 0 */
  double total = 0, term = 1, harmonic = 0;
  for (int k = 0; k < 12; k++) {
    total += term * (log_half - harmonic - (order ? 0.5 / (k + 1) : 0));
    harmonic += 1.0 / (k + 1);
    term *= t / ((k + 1.0) * (k + 1 + order));
  }
  return order ? 0.6366197723675814 * (0.5 * x * total - 1 / x) : 0.6366197723675814 * total;
}

/* -- I */

/* the n-th derivative of I of order 0 or 1 */
double ad_bessel_i(double x, int order, int n) {
  const double size = fabs(x);
  const int odd = (order + n) % 2;
  if (x != x) return x;
  if (odd && x == 0) return x;
  if (size > 720) return x < 0 && odd ? -inf() : inf();
  const double part = size < 700 ? size : 0.5 * size, root = exp(part); /* the whole one may be too large before the product is */
  return (x < 0 && odd ? -root : root) * ad_bessel_i_over(size, order, n) * (size < 700 ? 1 : root);
}

/* the same over e^x, x >= 0: (2/pi) times the integral of c^(n+order) cosh(x c) or sinh(x c), c = cos t */
double ad_bessel_i_over(double x, int order, int n) {
  const int odd = (order + n) % 2;
  double total = 0, parts[16];
  if (x >= 26) {
    for (int j = n; j >= 0; j--) total += ad_binomial(n, j) * ad_scaled_i_far(x, order, j);
    return total;
  }
  for (int k = 0; k < 16; k++) {
    const double c = 1 - ad_versines[k], less = -2 * x * c, other = odd ? -expm1(less) : 1 + exp(less);
    parts[k] = exp(-x * ad_versines[k]) * other;
  }
  for (int k = 0; k < 16; k++) total += parts[k] * ad_whole_power(1 - ad_versines[k], n + order);
  return total * 0.03125;
}

/* the n-th derivative of e^-|x| I of order 0 or 1; at the kink x = 0 that of odd n + order is taken as 0 */
double ad_scaled_i(double x, int order, int n) {
  const double size = fabs(x);
  const int odd = (order + n) % 2;
  if (x != x) return x;
  if (odd && x == 0) return x;
  const double value = ad_scaled_i_right(size, order, n);
  return x < 0 && odd ? -value : value;
}

double ad_scaled_i_right(double x, int order, int n) {
  if (x == inf()) return 0;
  if (x >= 26) return ad_scaled_i_far(x, order, n);
  if (order && x < 2) return ad_scaled_i_near(x, n);
  double parts[32], total = 0; /* the integral of (cos t - 1)^n e^(x (cos t - 1)), or cos t times that */
  for (int k = 0; k < 16; k++) {
    parts[k] = exp(-x * ad_versines[k]);
    parts[k + 16] = exp(-x * (2 - ad_versines[k]));
  }
  for (int k = 0; k < 32; k++) {
    const double c = k < 16 ? ad_versines[k] : 2 - ad_versines[k - 16];
    total += parts[k] * ad_whole_power(-c, n) * (order ? 1 - c : 1);
  }
  return total * 0.03125;
}

/* x e^-x times the integral of sin^2 t e^(x cos t), by Leibniz' rule */
double ad_scaled_i_near(double x, int n) {
  double parts[32], total = 0;
  for (int k = 0; k < 16; k++) {
    parts[k] = exp(-x * ad_versines[k]);
    parts[k + 16] = exp(-x * (2 - ad_versines[k]));
  }
  for (int k = 0; k < 32; k++) {
    const double c = k < 16 ? ad_versines[k] : 2 - ad_versines[k - 16], part = parts[k] * (c * (2 - c));
    total += n ? part * ad_whole_power(-c, n - 1) * (n - x * c) : part * x;
  }
  return total * 0.03125;
}

/* x >= 26: the sum of (-1)^k a_k x^(-k-1/2) / sqrt(2 pi), differentiated */
double ad_scaled_i_far(double x, int order, int n) {
  double total = 0, a = n % 2 ? -1 : 1;
  for (int k = 0; k < n; k++) a *= (k + 0.5) / x;
  for (int k = 0; k < 24; k++) {
    total += a;
    a *= -(4 * order * order - (2 * k + 1.0) * (2 * k + 1.0)) / (8 * (k + 1)) * ((k + n + 0.5) / ((k + 0.5) * x));
  }
  return total * 0.3989422804014327 / sqrt(x);
}

/* -- K */

/* the n-th derivative of K of order 0 or 1, or of e^x K if `scaled` */
double ad_bessel_k(double x, int order, int n, int scaled) {
  if (!(x > 0)) return x == 0 ? (n % 2 ? -inf() : inf()) : nan();
  if (x == inf()) return 0;
  if (x >= 0.5) return ad_bessel_k_far(x, order, n, scaled);
  if (!scaled) return ad_bessel_sum(x, order, n, 1);
  double total = 0;
  for (int j = n; j >= 0; j--) {
    const double part = ad_binomial(n, j) * ad_bessel_sum(x, order, j, 1);
    total = fabs(total) == inf() ? total : total + part;
  }
  return exp(x) * total;
}

double ad_bessel_k_value(double x, int order) {
  if (x < 0.5) return ad_bessel_k_near(x, order);
  return ad_bessel_k_far(x, order, 0, 0);
}

/* x >= 1/2: (-1)^n times the integral of cosh^n t cosh(order t) e^(-x cosh t), or of (cosh t - 1)^n ..., by the trapezoidal rule
   in v, v^2 = x (cosh t - 1). It is even and analytic to |Im v| < sqrt(2x), so that the rule has all digits */
double ad_bessel_k_far(double x, int order, int n, int scaled) {
  double total = 0, parts[48];
  for (int k = 0; k < 48; k++) parts[k] = ad_bells[k] / sqrt(x + ad_half_squares[k]);
  for (int k = 47; k >= 0; k--) {
    const double square = 2 * ad_half_squares[k] / x, base = scaled ? square : 1 + square;
    total += parts[k] * ad_whole_power(base, n) * (order ? 1 + square : 1);
  }
  return (n % 2 ? -total : total) * (scaled ? 1 : exp(-x));
}

/* K of order 0 or 1, 0 < x < 1: its power series */
double ad_bessel_k_near(double x, int order) {
  const double t = 0.25 * x * x, log_half = log(x) - 0.11593151565841244; /* x / 2 might be 0 */
  double total = 0, term = 1, harmonic = 0;
  for (int k = 0; k < 16; k++) {
    total += term * (order ? log_half - harmonic - 0.5 / (k + 1) : harmonic - log_half);
    harmonic += 1.0 / (k + 1);
    term *= t / ((k + 1.0) * (k + 1 + order));
  }
  return order ? 1 / x + 0.5 * x * total : total;
}

/* -- all orders; kinds are I, K, J, Y */

double ad_bessel_of(double x, int order, int kind) {
  if (kind == 0) return ad_modified_i(x, order);
  if (kind == 1) return ad_upwards(x, order, 1);
  if ((kind == 3 && x <= 1) || fabs(x) > 2 * order + 8) return ad_upwards(x, order, kind);
  return kind == 2 ? jn(order, x) : yn(order, x);
}

/* K, J or Y of order 0 or 1 */
double ad_bessel_start(double x, int order, int kind) {
  if (kind == 1) return ad_bessel_k_value(x, order);
  if (kind == 3 && x <= 1) return ad_bessel_y_near(x, order);
  return ad_bessel(x, kind - 2, order, 0);
}

/* K, J or Y of any order, from those of orders 0 and 1: of J where x is larger than the order */
double ad_upwards(double x, int order, int kind) {
  double before = ad_bessel_start(x, 0, kind), now = ad_bessel_start(x, 1, kind);
  if (order == 0) return before;
  for (int k = 1; k < order; k++) {
    const double next = 2 * k / x * now + (kind == 1 ? before : -before);
    before = now, now = fabs(now) == inf() ? now : next;
  }
  return now;
}

double ad_modified_i(double x, int order) {
  const double size = fabs(x);
  if (order < 2) return ad_bessel_i(x, order, 0);
  if (size > 1e3) return x < 0 && order % 2 ? -inf() : inf();
  if (!(size > 60 + 0.5 * order * order)) {
    double total = 1, term = 1, scale = 1;
    const double halved = 0.5 * x;
    for (int k = 1; k < 1000 && term > 1e-17 * total; k++) {
      term *= halved * halved / (k * (k + (double)order));
      total += term;
    }
    for (int k = 1; k <= order; k++) scale *= halved / k;
    return scale * total;
  }
  double sum = 1, part = 1;
  for (int k = 1; k < 60 && fabs(part) > 1e-17; k++) {
    part *= -(4.0 * order * order - (2 * k - 1.0) * (2 * k - 1.0)) / (8 * k * size);
    sum += part;
  }
  const double root = exp(0.5 * size), value = root * (root / sqrt(6.283185307179586 * size)) * sum;
  return x < 0 && order % 2 ? -value : value;
}

/* the n-th derivative as a sum over neighbouring orders */
double ad_bessel_sum(double x, int order, int n, int kind) {
  double total = 0;
  for (int k = 0; k <= n; k++) {
    const int m = order - n + 2 * k, odd = kind < 2 ? 0 : (k % 2) != (m < 0 && m % 2);
    const double term = (odd ? -1 : 1) * ad_binomial(n, k) * ad_bessel_of(x, m < 0 ? -m : m, kind);
    total = fabs(term) == inf() ? term : total + term; /* next to a pole the last one counts */
  }
  return (kind == 1 && n % 2 ? -1 : 1) * ldexp(total, -n);
}

/* the n-th derivative of I, K, J or Y of a whole order */
double ad_bessel_derivative(double x, int order, int n, int kind) {
  if (order > 1) return ad_bessel_sum(x, order, n, kind);
  if (kind == 0) return ad_bessel_i(x, order, n);
  if (kind == 3 && x > 0 && x < 1) return ad_bessel_sum(x, order, n, kind);
  return kind == 1 ? ad_bessel_k(x, order, n, 0) : ad_bessel(x, kind - 2, order, n);
}

/* the n-th derivative of e^x K of a whole order */
double ad_scaled_k_derivative(double x, int order, int n) {
  if (order < 2) return ad_bessel_k(x, order, n, 1);
  double total = 0;
  for (int j = n; j >= 0; j--) total += ad_binomial(n, j) * ad_bessel_sum(x, order, j, 1);
  return exp(x) * total;
}

/* The Airy function. Its phase and exponent 2/3 |x|^(3/2) is large where they are used, so it is a sum of two numbers. */

/* 2/3 z sqrt(z) */
double ad_two_thirds_power(double z, double *rest) {
  const double root = sqrt(z), square = root * root, product = z * root, zeta = 2 * product / 3, triple = 3 * zeta;
  const double root_rest = ((z - square) - ad_rest_of_product(root, root, square)) / (2 * root);
  const double left = ad_rest_of_product(z, root, product) + z * root_rest;
  *rest = ((2 * product - triple) - ad_rest_of_product(3, zeta, triple) + 2 * left) / 3;
  return zeta;
}

/* the n-th derivative of Ai */
double ad_airy(double x, int n) {
  if (x != x) return x;
  if (x >= -12 && x <= 10) return ad_airy_middle(x, n);
  if (x > 200) return n % 2 ? -0.0 : 0;
  if (x == -inf()) return nan();
  const double value = ad_airy_far(x, 0);
  if (n == 0) return value;
  double before = 0, now = value, next = ad_airy_far(x, 1); /* derivatives of three orders, by Ai'' = x Ai */
  for (int k = 2; k <= n; k++) {
    const double after = x * now + (k - 2) * before;
    before = now, now = next, next = after;
  }
  return next;
}

/* Taylor's series at the nearest quarter */
double ad_airy_middle(double x, int n) {
  const int place = (int)rint(4 * x) + 48;
  const double h = x - (0.25 * place - 12);
  double c[ad_MOST + 22], total = 0;
  ad_airy_taylor(place, n + 18, c);
  for (int k = n + 17; k >= n; k--) {
    double factor = 1;
    for (int j = 0; j < n; j++) factor *= k - j;
    total = total * h + factor * c[k];
  }
  return total;
}

void ad_airy_taylor(int place, int count, double *c) {
  const double x = 0.25 * place - 12;
  c[0] = ad_airy_table[place][0];
  c[1] = ad_airy_table[place][1];
  c[2] = x * c[0] / 2;
  for (int k = 1; k < count - 2; k++) c[k + 2] = (x * c[k] + c[k - 1]) / ((k + 1) * (k + 2));
}

/* Ai, or Ai' where `slope`, by asymptotic series */
double ad_airy_far(double x, int slope) {
  double rest = 0, even = 0, odd = 0, term = 1;
  const double z = fabs(x), zeta = ad_two_thirds_power(z, &rest), fourth = sqrt(sqrt(z)), turn = x > 0 ? 1 : -1;
  for (int k = 0; k < 30; k++) {
    const double own = slope ? term * (6 * k + 1) / (1 - 6 * k) : term;
    if (k % 2) odd += own;
    else even += own;
    term *= (k % 2 ? turn : 1) * (6 * k + 1.0) * (6 * k + 3.0) * (6 * k + 5.0) / (216 * (k + 1.0) * (2 * k + 1.0) * zeta);
  }
  if (x > 0) {
    const double scale = exp(-zeta) * (1 - rest) * 0.28209479177387814 * (even - odd);
    return slope ? -scale * fourth : scale / fourth;
  }
  const double s = sin(zeta), c = cos(zeta), near = cos(rest), far = sin(rest);
  const double sine = s * near + c * far, cosine = c * near - s * far, ahead = cosine + sine, turned = sine - cosine;
  if (slope) return fourth * (even * turned - odd * ahead) * 0.3989422804014327;
  return (even * ahead + odd * turned) / fourth * 0.3989422804014327;
}

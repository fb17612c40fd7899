/* Polygamma and the Hurwitz zeta function. What stands between two empty lines is one function. */

/* (-1)^(n+1) n! zeta(n+1, x), x > 0, by Euler-Maclaurin summation */
double ad_scaled_zeta(double x, int n) {
  if (!(x > 0) || x == inf()) return x == 0 ? inf() : 1 / x;
  if (n > 20) return ad_scaled_zeta_far(x, n);
  const double end = x + 12, lost = ad_rest_of_sum(x, 12, end), u = 1 / end;
  double total = 0, factor = (n + 1) * u, rest = 0.5 * u + 1.0 / n, factorial = 1;
  for (int j = 0; j < 8; j++) {
    rest += ad_bernoulli[j] * factor * u;
    factor *= (n + 2 * j + 2) * u * ((n + 2 * j + 3) * u);
  }
  for (int k = 11; k > 0; k--) total += 1 / ad_whole_power(x + k, n + 1);
  for (int k = 2; k <= n; k++) factorial *= k;
  const double tail = rest / ad_whole_power(end, n) * (1 - n * lost * u), first = 1 / ad_whole_power(x, n + 1);
  return factorial * (tail < first ? (total + tail) + first : (total + first) + tail);
}

/* the same, of powers that may overflow on their own */
double ad_scaled_zeta_far(double x, int n) {
  const int s = n + 1, count = 12 + s;
  const double end = x + count;
  double total = 0, power = 1, factor = s / end, rest = 0.5 + end / n;
  for (int k = 0; k < count; k++) total += ad_whole_power(x / (x + k), s);
  for (int j = 0; j < 8; j++) {
    rest += ad_bernoulli[j] * factor;
    factor *= (s + 2 * j + 1) / end * ((s + 2 * j + 2) / end);
  }
  for (int k = 1; k <= n; k++) power *= k / x;
  return power * ((total + ad_whole_power(x / end, s) * rest) / x); /* which is about 1 where the power is tiny */
}

inline double ad_whole_power(double x, int n) {
  double result = 1;
  for (; n; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return result;
}

double ad_polygamma(double x, int n) {
  if (n == 0) return ad_digamma(x);
  const double sign = n % 2 ? 1 : -1;
  if (!(x < 0)) return sign * ad_scaled_zeta(x, n);
  const double f = -x - floor(-x), upper = ad_scaled_zeta(1 - x, n);
  if (f == 0) return sign * inf();
  const double own = ad_scaled_zeta(f, n), other = ad_scaled_zeta(1 - f, n), near = f < 0.5 ? sign * own : other;
  if (near - near != 0 && f != 0.5) return sign * near;
  const double both = f == 0.5 && sign < 0 ? 0 : sign * own + other;
  return sign * (both - sign * upper);
}

/* z^-p - (z + b)^-p */
double ad_power_difference(double z, double b, int p) {
  if (b == 0) return 0;
  return -expm1(-p * log1p(b / z)) / ad_whole_power(z, p);
}

double ad_polygamma_difference(double z, double b, int n) {
  if (!(z > 0 && z + b > 0 && z + b < inf())) return ad_polygamma(z + b, n) - ad_polygamma(z, n);
  const double end = z + 12, step = log1p(b / end);
  double total = 0, rising = n + 1, factorial = n % 2 ? -1 : 1, power = 1;
  for (int k = 0; k < 12; k++) total += ad_power_difference(z + k, b, n + 1);
  for (int k = 0; k < n; k++) power /= end;
  total += n ? -expm1(-n * step) * power / n : step;
  power /= end;
  total += -0.5 * expm1(-(n + 1) * step) * power;
  for (int j = 0; j < 8; j++) {
    power /= end;
    total -= ad_bernoulli[j] * rising * expm1(-(n + 2 * j + 2) * step) * power;
    power /= end;
    rising *= (n + 2.0 * j + 2) * (n + 2 * j + 3);
  }
  for (int k = 2; k <= n; k++) factorial *= k;
  return factorial * total;
}

/* the n-th derivative of log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2: a series in 1/a, and steps up to where it serves, in
   which nothing cancels */
double ad_half_step(double a, int n) {
  if (!(a > 0)) return a == 0 ? (n % 2 ? inf() : -inf()) : nan();
  if (a > 1e100) return n % 2 ? 0 : -0.0;
  double total = 0, end = a, factorial = n % 2 ? 1 : -1;
  for (int k = 2; k < n; k++) factorial *= k;
  for (int k = 0; k < 10 && end < 10; k++, end = a + k) total += n ? factorial * ad_step_difference(end, n) : ad_log_of_step(end);
  double rest = 0;
  for (int j = 15; j >= 0; j--) {
    double factor = ad_half_steps[j];
    for (int k = 1; k <= n; k++) factor *= -(2 * j + k);
    rest = rest / (end * end) + factor;
  }
  return rest / ad_whole_power(end, n + 1) + total;
}

/* log(b (b+1) / m^2) / 2, m = b + 1/2 */
double ad_log_of_step(double b) {
  const double m = b + 0.5, u = 0.5 / m;
  return 0.5 * (b < 0.5 ? log(b) + log((b + 1) / (m * m)) : log1p(-u * u));
}

/* (b^-n + (b+1)^-n) / 2 - m^-n */
double ad_step_difference(double b, int n) {
  const double m = b + 0.5, s = 0.25 / (m * m);
  if (b < 0.5) return 0.5 * (1 / ad_whole_power(b, n) + 1 / ad_whole_power(b + 1, n)) - 1 / ad_whole_power(m, n);
  double total = 0, term = 1;
  for (int j = 1; j < 40; j++) {
    term *= s * ((n + 2 * j - 2.0) / (2 * j - 1)) * ((n + 2 * j - 1.0) / (2 * j));
    total += term;
  }
  return total / ad_whole_power(m, n);
}

/* log Gamma(1 + x), |x| < 0.3 */
double ad_log_gamma_near_one(double x) {
  double total = 0;
  for (int k = 28; k >= 0; k--) total = (total + ad_log_gamma_series[k]) * -x;
  return (total + 0.5772156649015329) * -x;
}

double ad_hurwitz(double s, double q) {
  if (s == 1) return inf();
  if (s < 1) return nan();
  if (q <= 0 && q == floor(q)) return inf();
  if (s != s) return s;
  if (q > 4 * (s + 16)) return ad_hurwitz_far(s, q, 0);
  if (s == inf()) return q != q ? q : q > 1 ? 0 : q == 1 ? 1 : s;
  if (q <= 0 && s != floor(s)) return nan();
  if (q != q) return q;
  if (q < 0) { /* an even or odd power: the terms left of 0 and those right of it */
    const double f = ceil(q) - q, left = ad_hurwitz_right(s, f) - ad_hurwitz_right(s, 1 - q);
    return ad_hurwitz_right(s, 1 - f) + (fmod(s, 2) == 0 ? left : -left);
  }
  return ad_hurwitz_sum(s, 0, q);
}

/* the same, s > 1 and q > 0 */
double ad_hurwitz_right(double s, double q) {
  if (q > 4 * (s + 16)) return ad_hurwitz_far(s, q, 0);
  return ad_hurwitz_sum(s, 0, q);
}

/* zeta(s + lost, q), q > 0: Euler-Maclaurin summation */
double ad_hurwitz_sum(double s, double lost, double q) {
  double total = 0, end = q;
  for (int k = 0; k < 12 || end < 10; k++, end = q + k) total += ad_power_of_sum(q, k, s, lost);
  const double power = ad_power_of_sum(q, (int)(end - q + 0.5), s, lost);
  double factor = s / end, rest = 0.5 + end / (s - 1);
  for (int j = 0; j < 8; j++) {
    rest += ad_bernoulli[j] * factor;
    factor *= (s + 2 * j + 1) / end * ((s + 2 * j + 2) / end);
  }
  return total + power * (power > 0 ? rest : 1);
}

/* (q + k)^-(s + lost): what the rounding of q + k loses, too */
double ad_power_of_sum(double q, int k, double s, double lost) {
  const double end = q + k, power = pow(end, -s), rest = s * ad_rest_of_sum(q, k, end) / end;
  return power * (1 - rest - lost * log(end));
}

/* s (s + 1) ... (s + m - 1) zeta(s + m, q) of large q: the integral, in halves of a power, since q^-s may be out of range */
double ad_hurwitz_far(double s, double q, int m) {
  const double order = s + m, root = pow(q, -0.5 * (s - 1));
  double factor = order / q, rest = 0.5, scaled = root;
  for (int j = 0; j < 8; j++) {
    rest += ad_bernoulli[j] * factor;
    factor *= (order + 2 * j + 1) / q * ((order + 2 * j + 2) / q);
  }
  for (int k = 0; k < m; k++) scaled *= s + k;
  scaled *= root * (1 / (s - 1 + m) + rest / q);
  for (int k = 0; k < m; k++) scaled /= q;
  return scaled;
}

/* the m-th derivative of zeta(s, q) in q, (-1)^m s (s + 1) ... (s + m - 1) zeta(s + m, q) */
double ad_hurwitz_slope(double s, double q, int m) {
  if (s > 1 && q > 4 * (s + m + 16)) return (m % 2 ? -1 : 1) * ad_hurwitz_far(s, q, m);
  double factor = m % 2 ? -1 : 1;
  for (int k = 0; k < m; k++) factor *= s + k;
  const double order = s + m;
  if (s > 1 && q > 0) return factor * ad_hurwitz_sum(order, ad_rest_of_sum(s, m, order), q);
  return factor * ad_hurwitz(order, q);
}

/* the n-th derivative in s of the m-th in q */
double ad_hurwitz_derivative(double s, double q, int n, int m) {
  if (n == 0) return ad_hurwitz_slope(s, q, m);
  if (m == 0) return ad_hurwitz_slope_in_order(s, q, n);
  double rising[ad_MOST + 2] = {1}, total = 0, scale = m % 2 ? -1 : 1; /* rising: by Taylor, s (s + 1) ... (s + m - 1) */
  for (int j = 0; j < m; j++)
    for (int k = n; k >= 0; k--) rising[k] = rising[k] * (s + j) + (k ? rising[k - 1] : 0);
  for (int k = n; k >= 0; k--) { /* n! / k! */
    if (k) total += scale * rising[n - k] * ad_hurwitz_slope_in_order(s + m, q, k);
    else total += scale * rising[n] * ad_hurwitz(s + m, q);
    scale *= k;
  }
  return total;
}

/* the n-th derivative of zeta(s, q) in s */
double ad_hurwitz_slope_in_order(double s, double q, int n) {
  if (s == inf() && !(q <= 0)) return q < 1 ? inf() : 0;
  if (!(s > 1 && q > 0)) return nan();
  double total = 0, part = 0, slope[ad_MOST + 2] = {0}, end = q + 12;
  for (int k = 0; k < 12; k++) total += ad_whole_power(-log(q + k), n) * pow(q + k, -s);
  const double minus = -log(end), power = pow(end, -s);
  double binomial = 1, factorial = 1, below = s - 1;
  for (int k = 0; k <= n; k++) { /* of end^(1-s) / (s-1) */
    part += binomial * ad_whole_power(minus, n - k) * factorial / below;
    binomial *= (n - k) / (k + 1.0), factorial *= -(k + 1.0), below *= s - 1;
  }
  total += power * end * part + 0.5 * ad_whole_power(minus, n) * power;
  slope[n] = 1; /* f^(m) = t^(-s-m) P(-log t), P -> -P' - (s + m) P */
  double scale = 1;
  for (int m = 0; m < 15; m++) {
    double value = 0;
    for (int k = 0; k <= n; k++) slope[k] = -(k + 1) * slope[k + 1] - (s + m) * slope[k];
    for (int k = n; k >= 0; k--) value = value * minus + slope[k];
    scale /= end;
    if (m % 2 == 0) total -= power * ad_bernoulli[m / 2] * value * scale;
  }
  return total;
}

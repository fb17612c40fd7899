/* Beta: the function, its logarithm, the incomplete one in all its arguments. Everywhere x + y = 1, and the smaller of both has all
   its digits; one tail is the other one with (a, x) and (b, y) exchanged. */

/* log Gamma(1+a), a >= 0, as a sum of two numbers */
double ad_log_gamma_parts(double a, double *low) {
  if (!(a < 10)) {
    const double log_a = ad_log_parts(a, 0, low);
    *low = (a + 0.5) * *low - 3.878294158067242e-17; /* the rest of log(2 pi) / 2 */
    double high = ad_plus_product(0.9189385332046728, a, log_a, low);
    high = ad_plus(high, 0.5 * log_a, low);
    high = ad_plus(high, -a, low);
    return ad_plus(high, ad_stirling_error(a), low);
  }
  const double whole = floor(a), f = a - whole;
  double product = 1, rest = 0;
  for (int k = 1; k < 10; k++) {
    const double factor = k <= whole ? f + k : 1, factor_rest = k <= whole ? ad_rest_of_sum(f, k, f + k) : 0;
    const double next = product * factor;
    rest = rest * factor + product * factor_rest + ad_rest_of_product(product, factor, next);
    product = next;
  }
  double less = 0;
  const double excess = ad_inverse_gamma_excess(f), one = 1 + excess;
  const double log_one = ad_log_parts(one, excess - (one - 1), &less), log_product = ad_log_parts(product, rest, low);
  *low -= less;
  return ad_plus(log_product, -log_one, low);
}

/* B(a, b) = factor exp(high + low), a and b above 0; `both` is a + b, rounded, and `lost` its rest */
double ad_beta_parts(double a, double b, double both, double lost, double *high, double *low) {
  const double factor = (a > b ? both / a : both / b) / (a > b ? b : a);
  if (both < 10) {
    const double step = 1 - lost * log(both + 0.5);
    *high = 0, *low = 0;
    return factor * (ad_inverse_gamma(both) * step / (ad_inverse_gamma(a) * ad_inverse_gamma(b)));
  }
  double other_low = 0, other = 0;
  const double one = ad_beta_side(a, both, lost, high, low), two = ad_beta_side(b, both, lost, &other, &other_low);
  *low += other_low;
  *high = ad_plus(*high, other, low);
  *high = ad_plus(*high, -ad_stirling_error(both), low);
  return factor * one * two * 0.3989422804014327 / sqrt(both);
}

/* Gamma(1+a) (e / both)^a = factor exp(high + low), or without e^a where a >= 10 */
double ad_beta_side(double a, double both, double lost, double *high, double *low) {
  double log_low = 0;
  if (a < 10) {
    const double log_both = ad_log_parts(both, lost, &log_low);
    *low = -a * log_low;
    *high = ad_plus_product(a, -a, log_both, low);
    return 1 / ad_inverse_gamma(a);
  }
  const double log_of = ad_log_ratio(both, lost, a, &log_low);
  *low = -a * log_low;
  *high = ad_plus_product(ad_stirling_error(a), -a, log_of, low);
  return 2.5066282746310002 * sqrt(a);
}

/* log B(a, b), a and b above 0 */
double ad_log_beta(double a, double b) {
  const double both = a + b, lost = ad_rest_of_sum(a, b, both);
  double high = 0, low = 0, one = 0, two = 0, three = 0;
  const double factor = ad_beta_parts(a, b, both, lost, &high, &low);
  const double sum = factor > 0 && factor < inf() ? high + (low + log(factor)) : -log(a < b ? a : b);
  if (!(fabs(sum) < 2 && both < 500)) return sum;
  /* next to 0 factors lose digits: all parts as sums of two numbers */
  double first = ad_log_gamma_parts(a, &one);
  one -= (both < 10 ? log(both + 0.5) : log(both)) * lost;
  const double second = ad_log_gamma_parts(b, &two), third = ad_log_gamma_parts(both, &three);
  one += two - three;
  first = ad_plus(first, second, &one);
  first = ad_plus(first, -third, &one);
  const double shared = ad_log_ratio(both, lost, b, &two), log_a = ad_log_parts(a, 0, &three);
  one += two - three;
  first = ad_plus(first, shared, &one);
  first = ad_plus(first, -log_a, &one);
  return first + one;
}

double ad_betaln(double a, double b) {
  const double low = a < b ? a : b, high = a < b ? b : a, both = a + b;
  if (low > 0) return ad_betaln_right(low, high);
  if (low < 0 && !ad_is_pole(low) && !ad_is_pole(high) && !ad_is_pole(both)) return ad_betaln_reflected(low, high, both);
  return ad_lgamma(a) + ad_lgamma(b) - ad_lgamma(a + b);
}

/* 0 < low <= high */
double ad_betaln_right(double low, double high) {
  if (low + high < inf()) return ad_log_beta(low, high);
  return ad_lgamma(low) + ad_lgamma(high) - ad_lgamma(low + high);
}

double ad_betaln_of(double a, double b) {
  if (a < b) return ad_betaln_right(a, b);
  return ad_betaln_right(b, a);
}

int ad_is_pole(double x) { return x <= 0 && x == floor(x); }

double ad_log_sin_pi(double x) {
  const double rest = fabs(x - rint(x)); /* the sine of a tiny one has fewer digits */
  return rest < 1e-9 ? 1.1447298858494002 + log(rest) : log(sin(3.141592653589793 * rest));
}

/* where an argument is negative, by Gamma(x) Gamma(1-x) = pi / sin(pi x) */
double ad_betaln_reflected(double low, double high, double both) {
  if (both > 0) return 1.1447298858494002 - log(-low) - ad_log_sin_pi(low) - ad_betaln_of(both, -low);
  const double sines = ad_log_sin_pi(both) - ad_log_sin_pi(low);
  if (high > 0) return ad_betaln_of(high, 1 - both) + sines;
  return 1.1447298858494002 + sines - ad_log_sin_pi(high) - log(1 - both) - ad_betaln_of(1 - low, 1 - high);
}

/* a and b above 0 */
double ad_beta_right(double a, double b) {
  double high = 0, low = 0;
  const double both = a + b, factor = ad_beta_parts(a, b, both, ad_rest_of_sum(a, b, both), &high, &low);
  return ad_exp_parts(factor, high, low);
}

double ad_beta(double a, double b) {
  if (a > 0 && b > 0 && a + b < inf()) return ad_beta_right(a, b);
  if (a <= 0 && a == floor(a)) return ad_beta_at_pole(a, b);
  if (b <= 0 && b == floor(b)) return ad_beta_at_pole(b, a);
  if (a == inf() && b < 0) return ad_gamma_sign(b) * a;
  if (b == inf() && a < 0) return ad_gamma_sign(a) * b;
  const double both = a + b;
  if (both <= 0 && both == floor(both)) return 0;
  return ad_gamma_sign(a) * ad_gamma_sign(b) * ad_gamma_sign(both) * exp(ad_betaln(a, b));
}

/* a = 0, -1, ... : finite where b is an integer that makes the poles cancel */
double ad_beta_at_pole(double a, double b) {
  const int meets = b == floor(b) && 1 - a - b > 0 && a + b - (a + b) == 0;
  const double sign = fmod(b, 2) == 0 ? 1 : -1;
  if (meets && b > 0) return sign * ad_beta_right(1 - a - b, b);
  return meets ? sign * inf() : inf();
}

/* what 1 - x has lost, where it is y */
inline double ad_lost_of_one(double x, double y) { return y > 0.5 ? (1 - y) - x : 0; }

/* x b - a y = x (a + b) - a = b - y (a + b), by the smaller of x and y; lost is the rest of a + b */
double ad_beta_offset(double a, double b, double x, double y, double *low) {
  const double both = a + b, lost = ad_rest_of_sum(a, b, both), less = x < y ? x : y, product = less * both;
  const double own = x < y ? a : b, high = product - own, sign = x < y ? 1 : -1;
  const double rest = ad_rest_of_product(less, both, product) + less * lost + ad_rest_of_sum(product, -own, high), sum = high + rest;
  *low = sign * (rest - (sum - high));
  return sign * sum;
}

/* whether x lies left of the mean a / (a + b) */
int ad_beta_is_left(double a, double b, double x) {
  double low = 0;
  const double offset = ad_beta_offset(a, b, x, 1 - x, &low);
  return offset + low < 0;
}

/* factor x^(a-i) y^(b-i) Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b)) */
double ad_beta_power(double a, double b, double x, double y, int i, double factor) {
  double high = 0, low = 0;
  if (x < 1e-250 || y < 1e-250) { /* in proportion to the power of the smaller one, whose products might be too small */
    const double less = x < y ? x : y, shape = x < y ? a : b;
    const double own = ad_beta_power_parts(a, b, x < y ? 1e-250 : 1, x < y ? 1 : 1e-250, &high, &low);
    double log_low = 0;
    const double log_less = ad_log_parts(less * 1e250, 0, &log_low);
    low += shape * log_low;
    const double total = ad_plus_product(high, shape, log_less, &low);
    return ad_beta_power_over(x, y, i, total, low, factor * own);
  }
  const double own = ad_beta_power_parts(a, b, x, y, &high, &low);
  return ad_beta_power_over(x, y, i, high, low, factor * own);
}

/* x^a y^b Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b)) = factor exp(high + low) */
double ad_beta_power_parts(double a, double b, double x, double y, double *high, double *low) {
  const double both = a + b, lost = ad_rest_of_sum(a, b, both), x_lost = ad_lost_of_one(y, x), y_lost = ad_lost_of_one(x, y);
  if (both < 10) {
    double log_low = 0, other_low = 0;
    const double log_x = ad_log_parts(x, x_lost, &log_low), log_y = ad_log_parts(y, y_lost, &other_low);
    *low = a * log_low + b * other_low;
    *high = ad_plus_product(0, a, log_x, low);
    *high = ad_plus_product(*high, b, log_y, low);
    const double step = 1 + lost * log(both + 0.5);
    return ad_inverse_gamma(a) * ad_inverse_gamma(b) / ad_inverse_gamma(both) * step;
  }
  /* three masses of Poisson's distribution, at the means x (a+b), y (a+b) and a+b */
  double offset_low = 0, other = 0, other_low = 0;
  const double offset = ad_beta_offset(a, b, x, y, &offset_low), x_mean = x * both, y_mean = y * both;
  const double x_rest = ad_rest_of_product(x, both, x_mean) + x * lost + x_lost * both;
  const double y_rest = ad_rest_of_product(y, both, y_mean) + y * lost + y_lost * both;
  const double one = ad_gamma_parts(a, x_mean, x_rest, offset, offset_low, high, low);
  const double two = ad_gamma_parts(b, y_mean, y_rest, -offset, -offset_low, &other, &other_low);
  *low += other_low;
  *high = ad_plus(*high, other, low);
  *high = ad_plus(*high, ad_stirling_error(both), low);
  return one * two * 2.5066282746310002 * sqrt(both);
}

/* factor exp(high + low) / (x y)^i */
double ad_beta_power_over(double x, double y, int i, double high, double low, double factor) {
  if (i == 0) return ad_exp_parts(factor, high, low);
  if (high > -500 && high < 300 && x > 1e-20 && y > 1e-20)
    return ad_exp_parts(factor, high, low) / ad_whole_power(x, i) / ad_whole_power(y, i);
  double log_low = 0, other_low = 0;
  const double log_x = ad_log_parts(x, ad_lost_of_one(y, x), &log_low), log_y = ad_log_parts(y, ad_lost_of_one(x, y), &other_low);
  double rest = low - i * (log_low + other_low);
  double total = ad_plus_product(high, -i, log_x, &rest);
  total = ad_plus_product(total, -i, log_y, &rest);
  return ad_exp_parts(factor, total, rest);
}

/* I B(a, b) / (x^a y^b) left of the mean: a continued fraction (Didonato and Morris 1992) as a sum (Steed) */
double ad_beta_fraction(double a, double b, double x, double y, double offset) {
  double d = (a + 1) / (a * (1 - offset)), term = d, total = d;
  for (int m = 1; m < 20000 && fabs(term) > 1e-17 * fabs(total); m++) {
    const double before = d, below = a + 2 * m - 1, share = x * (b - m) * m / below;
    const double above = (a + m - 1) / below * ((a + b + m - 1) * x) * share;
    d = 1 / (m + share + (a + m) / (below + 2) * (1 - offset + m * (1 + y)) + above * d);
    term *= -above * before * d;
    total += term;
  }
  return total;
}

/* log(Gamma(a+b) / Gamma(a)), b small beside 1 */
double ad_log_gamma_step(double a, double b) {
  double total = 0, power = b, factorial = 1, at = a;
  for (int k = 0; k < 10; k++) {
    total -= at < 10 ? log1p(b / at) : 0;
    at += at < 10 ? 1 : 0;
  }
  for (int k = 0; k < 12; k++) {
    total += ad_polygamma(at, k) * power / factorial;
    power *= b;
    factorial *= k + 2;
  }
  return total;
}

/* sum of (1-b) ... (k-b) x^k / (k! (a+k)), k >= 1 */
double ad_beta_sum(double a, double b, double x) {
  double total = 0, term = 1;
  for (int k = 1; k < 400 && fabs(term) > 1e-18; k++) {
    term *= (k - b) * x / k;
    total += term / (a + k);
  }
  return total;
}

/* 1 - I(a, b, x) for a < 1 and small x: no difference of numbers near 1 */
double ad_beta_rest(double a, double b, double x) {
  const double power = a * log(x) + ad_log_gamma_step(b, a) + log1p(ad_inverse_gamma_excess(a));
  return -expm1(power) - exp(power) * a * ad_beta_sum(a, b, x);
}

/* I for small x: its power series, over which y^b is taken out of the power */
double ad_beta_near(double a, double b, double x, double y) {
  const double factor = b / (a + b) * (1 + a * ad_beta_sum(a, b, x));
  return ad_beta_power(a, b, x, y, 0, factor * exp(-b * ad_log_of(y, x)));
}

/* I left of the mean */
double ad_beta_below(double a, double b, double x, double y) {
  double low = 0;
  const double offset = ad_beta_offset(a, b, x, y, &low), factor = ad_harmonic(a, b, 0, 0);
  if (a > 1e3) return ad_beta_power(a, b, x, y, 0, factor * ad_beta_integral(a, b, x, y) / y);
  return ad_beta_power(a, b, x, y, 0, factor * ad_beta_fraction(a, b, x, y, offset));
}

/* log(e^-as ((1-t) / y)^(b-1)), t = x e^-s, where slope = a - (b-1) x / y: no difference of large numbers */
inline double ad_beta_decay(double b, double slope, double odds, double s) {
  const double rise = -odds * expm1(-s);
  return -slope * s - (b - 1) * (odds * ad_exp_excess(-s) + ad_log_excess(rise));
}

/* on which 1/s of the integrands varies: by its slope at s = 0, or its bend where that is small */
double ad_beta_scale(double b, double slope, double odds) {
  const double bend = sqrt(fabs(b - 1) * odds) * sqrt(1 + odds);
  return slope > bend ? slope : bend;
}

/* the integral of e^-as ((1-t) / y)^(b-1): as many steps for all shapes, where the fraction takes more and more */
double ad_beta_integral(double a, double b, double x, double y) {
  double low = 0;
  const double odds = x / y, slope = (x - ad_beta_offset(a, b, x, y, &low)) / y, scale = ad_beta_scale(b, slope, odds);
  double total = 0;
  double parts[84];
  for (int m = 0; m < 84; m++) parts[m] = exp(ad_beta_decay(b, slope, odds, ad_nodes[m] / scale)) * ad_weights[m];
  for (int m = 0; m < 84; m++) total += parts[m];
  return total / scale;
}

double ad_betainc(double a, double b, double x) {
  if (!(a >= 0 && b >= 0 && x >= 0 && x <= 1) || (a == 0 && b == 0)) return nan();
  if (a == inf() && b == a) return nan();
  if (x == 0 || x == 1) return x;
  if (a == 0 || b == inf()) return 1;
  if (b == 0 || a == inf()) return 0;
  if (a < 1e-20) return b / (a + b);
  return ad_beta_factor(a, b) * ad_betainc_whole(a, ad_beta_at_least(b), x);
}

/* a shape b below 1e-20 is taken as that, as the result is in proportion to b / (a + b) */
inline double ad_beta_at_least(double b) { return b < 1e-20 ? 1e-20 : b; }

inline double ad_beta_factor(double a, double b) {
  const double factor = b / 1e-20 * ((a + 1e-20) / (a + b));
  return b < 1e-20 ? factor : 1;
}

double ad_betainc_whole(double a, double b, double x) {
  if (a > 1e150 || b > 1e150) return ad_beta_far(a, b, x);
  return ad_betainc_inside(a, b, x);
}

double ad_betainc_inside(double a, double b, double x) {
  if (b * x < 1 && x < 0.7) return ad_beta_near(a, b, x, 1 - x);
  if (b < 1 && a * (1 - x) < 0.5 && x > 0.3) return ad_beta_rest(b, a, 1 - x);
  if (b >= 1 && a * (1 - x) < 1 && x > 0.3) return 1 - ad_beta_near(b, a, 1 - x, x);
  if (ad_beta_is_left(a, b, x)) return ad_beta_below(a, b, x, 1 - x);
  return 1 - ad_beta_below(b, a, 1 - x, x);
}

/* of shapes beyond 1e150: the other one is nothing beside them, or both make a step */
double ad_beta_far(double a, double b, double x) {
  if (b > 1e17 * (1 + a * a)) return ad_igamma(a, -b * ad_log_of(1 - x, x));
  if (a > 1e17 * (1 + b * b)) return ad_igammac(b, -a * ad_log_of(x, 1 - x));
  return ad_betainc_scaled(0x1p-400 * a, 0x1p-400 * b, x);
}

/* shapes of which one was beyond 1e150, and may still be */
double ad_betainc_scaled(double a, double b, double x) {
  const double c = ad_beta_at_least(b);
  if (a < 1e-20) return b / (a + b);
  if (!(a > 1e150 || b > 1e150)) return ad_beta_factor(a, b) * ad_betainc_inside(a, c, x);
  if (c > 1e17 * (1 + a * a)) return ad_beta_factor(a, b) * ad_igamma(a, -c * ad_log_of(1 - x, x));
  if (a > 1e17 * (1 + c * c)) return ad_beta_factor(a, b) * ad_igammac(c, -a * ad_log_of(x, 1 - x));
  return ad_beta_factor(a, b) * ad_betainc_rescaled(0x1p-400 * a, 0x1p-400 * c, x);
}

double ad_betainc_rescaled(double a, double b, double x) {
  if (a < 1e-20) return b / (a + b);
  return ad_beta_factor(a, b) * ad_betainc_inside(a, ad_beta_at_least(b), x);
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
double ad_share_of_beta(double a, double b, int i, int j) {
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

/* whether one of a and b is infinite, and I has become 0 or 1 for good */
int ad_beta_is_far(double a, double b, double x) {
  return a >= 0 && b >= 0 && (a == inf()) != (b == inf()) && x >= 0 && x <= 1;
}

/* the density x^(a-1) y^(b-1) / B(a, b), differentiated i times in a, j times in b and m times in x */
double ad_beta_density(double a, double b, double x, int i, int j, int m) {
  if (ad_beta_is_far(a, b, x) || ((a == 0 || b == 0) && i + j == 0)) return 0;
  const int is_whole = x < 1e-40 && i + j == 0 && a <= m && a == rint(a);
  if (x == 0 || is_whole) return ad_beta_density_end(a, b, i, j, m);
  if (x == 1) return (m % 2 ? -1 : 1) * ad_beta_density_end(b, a, j, i, m);
  if (!(a >= 0 && b >= 0 && a + b < inf() && x > 0 && x < 1) || (a < 1e-300 && b < 1e-300)) return nan();
  const double one = a < 1e-300 ? 1e-300 : a, two = b < 1e-300 ? 1e-300 : b; /* next to 0 derivatives are limits */
  if (m == 0) return ad_beta_density_inside(one, two, x, i, j, m, 0);
  if (b * x < 1 || a * (1 - x) < 1) return ad_beta_density_inside(one, two, x, i, j, m, 1);
  return ad_beta_density_inside(one, two, x, i, j, m, 0);
}

double ad_beta_density_inside(double a, double b, double x, int i, int j, int m, int at_end) {
  double slopes[ad_MOST + 2][ad_MOST + 2], inner[ad_MOST + 2][ad_MOST + 2], base[ad_MOST + 2][ad_MOST + 2];
  double outer[ad_MOST + 2][ad_MOST + 2], parts[ad_MOST + 2][ad_MOST + 2];
  const double y = 1 - x;
  if (i + j) ad_beta_slopes(a, b, i, j, ad_log_of(x, y), ad_log_of(y, x), slopes);
  ad_bell_of_two(slopes, inner, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_harmonic(a, b, k, l);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) base[k][l] = ad_leibniz2(outer, inner, k, l);
  if (at_end) ad_beta_factors_at_end(a, b, x, y, i, j, m, parts);
  else ad_beta_factors(a, b, x, y, i, j, m, parts);
  return ad_beta_power(a, b, x, y, m + 1, ad_leibniz2(parts, base, i, j));
}

/* Q_m of the m-th derivative x^(a-1-m) y^(b-1-m) Q_m of x^(a-1) y^(b-1), and its derivatives in a and b:
   Q_(m+1) = (a y - b x - (m + 1) (y - x)) Q_m - m x y (a + b - 1 - m) Q_(m-1) */
void ad_beta_factors(double a, double b, double x, double y, int i, int j, int m, double now[][ad_MOST + 2]) {
  double before[ad_MOST + 2][ad_MOST + 2], next[ad_MOST + 2][ad_MOST + 2], low = 0;
  const double offset = ad_beta_offset(a, b, x, y, &low), both = a + b - 1;
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) before[k][l] = 0, now[k][l] = k + l == 0;
  for (int q = 0; q < m; q++) {
    const double factor = -offset - (q + 1) * (y - x), weight = q * (x * y), rest = both - q;
    for (int k = 0; k <= i; k++)
      for (int l = 0; l <= j; l++) {
        double total = factor * now[k][l] - weight * rest * before[k][l];
        if (k) total += k * (y * now[k - 1][l] - weight * before[k - 1][l]);
        if (l) total -= l * (x * now[k][l - 1] + weight * before[k][l - 1]);
        next[k][l] = total;
      }
    for (int k = 0; k <= i; k++)
      for (int l = 0; l <= j; l++) before[k][l] = now[k][l], now[k][l] = next[k][l];
  }
}

/* the same next to the ends: the sum of (m over k) y^k (a-1) ... (a-k) (-x)^(m-k) (b-1) ... (b-m+k) */
void ad_beta_factors_at_end(double a, double b, double x, double y, int i, int j, int m, double now[][ad_MOST + 2]) {
  double one[ad_MOST + 2][ad_MOST + 2], two[ad_MOST + 2][ad_MOST + 2];
  ad_falling(a, i, m, one);
  ad_falling(b, j, m, two);
  for (int p = 0; p <= i; p++)
    for (int q = 0; q <= j; q++) {
      double total = 0;
      for (int k = 0; k <= m; k++)
        total += ad_binomial(m, k) * (ad_whole_power(y, k) * one[k][p]) * (ad_whole_power(-x, m - k) * two[m - k][q]);
      now[p][q] = total;
    }
}

/* (a-1) ... (a-k) for k = 0 ... m, and derivatives in a */
void ad_falling(double a, int n, int m, double result[][ad_MOST + 2]) {
  for (int j = 0; j <= n; j++) result[0][j] = j == 0;
  for (int k = 1; k <= m; k++)
    for (int j = 0; j <= n; j++) result[k][j] = (a - k) * result[k - 1][j] + (j ? j * result[k - 1][j - 1] : 0);
}

/* its limit for x -> 0, where (a-1) ... (a-m) x^(a-1-m) / B(a, b) leads; of whole a up to m + 1 a coefficient stays finite */
double ad_beta_density_end(double a, double b, int i, int j, int m) {
  const double c = a - m;
  if (c > 1) return 0;
  if (a != rint(a) || (a >= 1 && i)) {
    const double sign = ad_gamma_sign(c) * ad_gamma_sign(b) * ad_gamma_sign(a + b);
    if (j || !(a + b < inf())) return nan();
    return sign * (i % 2 ? -inf() : inf());
  }
  if (a < 1) return 0;
  double slopes[ad_MOST + 2] = {1}; /* of b (b+1) ... (b+a-1) (b-1) ... (b-m+a-1) */
  for (int k = 0; k <= m; k++) {
    const double factor = k < a ? b + k : b - (k - a + 1);
    for (int l = j; l >= 0; l--) slopes[l] = factor * slopes[l] + (l ? l * slopes[l - 1] : 0);
  }
  double scale = 1;
  for (int k = 1; k <= m; k++) scale *= k <= a - 1 ? 1.0 / k : -1.0 / (k - a + 1);
  for (int k = 2; k <= m; k++) scale *= k;
  return scale * slopes[j];
}

double ad_betainc_derivative(double a, double b, double x, int i, int j) {
  if (ad_beta_is_far(a, b, x)) return 0;
  if (!(a >= 0 && b >= 0 && a + b < inf() && x >= 0 && x <= 1) || (a < 1e-300 && b < 1e-300)) return nan();
  if (x == 0 || x == 1) return 0;
  const double one = a < 1e-300 ? 1e-300 : a, two = b < 1e-300 ? 1e-300 : b; /* next to 0 derivatives are limits */
  const double y = 1 - x;
  if (one < 8 && two * x < 1 && x < 0.7) return ad_beta_near_derivative(one, two, x, y, i, j);
  if (two < 8 && one * y < 1 && y < 0.7) return -ad_beta_near_derivative(two, one, y, x, j, i);
  if (ad_beta_is_left(one, two, x)) return ad_beta_tail(one, two, x, y, i, j);
  return -ad_beta_tail(two, one, y, x, j, i);
}

double ad_beta_near_derivative(double a, double b, double x, double y, int i, int j) {
  if (a < 0.5) return ad_beta_from_power(a, b, x, y, i, j, 1);
  return ad_beta_from_power(a, b, x, y, i, j, 0);
}

/* I = C x^a (1 + a int e^-as ((1-t)^(b-1) - 1) ds), t = x e^-s, C = (b)_a / Gamma(a+1), for small x */
double ad_beta_from_power(double a, double b, double x, double y, int i, int j, int near_pole) {
  double integrals[ad_MOST + 2][ad_MOST + 2] = {{0}}, inner[ad_MOST + 2][ad_MOST + 2], factor[ad_MOST + 2][ad_MOST + 2];
  double parts[84], others[84], logs[84];
  for (int m = 0; m < 84; m++) {
    const double s = ad_nodes[m] / (a + 1), rest = log1p(-x * exp(-s)), part = exp(-a * s) * (ad_weights[m] / (a + 1));
    logs[m] = rest;
    parts[m] = part * expm1((b - 1) * rest);
    others[m] = part * exp((b - 1) * rest) * rest;
  }
  for (int k = 0; k <= i; k++)
    for (int m = 0; m < 84; m++) {
      double slope = others[m];
      integrals[k][0] += parts[m];
      for (int l = 1; l <= j; l++) {
        integrals[k][l] += slope;
        slope *= logs[m];
      }
      const double less = -ad_nodes[m] / (a + 1);
      parts[m] *= less, others[m] *= less;
    }
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) inner[k][l] = a * integrals[k][l] + (k ? k * integrals[k - 1][l] : 0);
  inner[0][0] += 1;
  if (near_pole) ad_beta_near_pole(a, b, i, j, ad_log_of(x, y), factor);
  else ad_beta_by_factors(a, b, i, j, ad_log_of(x, y), factor);
  return ad_beta_power(a, b, x, y, 0, exp(-b * ad_log_of(y, x)) * ad_leibniz2(factor, inner, i, j));
}

/* of C x^a = b/(a+b) x^a Gamma(1+a+b) / (Gamma(1+a) Gamma(1+b)), over the last factor */
void ad_beta_near_pole(double a, double b, int i, int j, double log_x, double result[][ad_MOST + 2]) {
  double slopes[ad_MOST + 2][ad_MOST + 2], smooth[ad_MOST + 2][ad_MOST + 2], outer[ad_MOST + 2][ad_MOST + 2];
  ad_beta_slopes(a, b, i, j, log_x, 0, slopes);
  ad_bell_of_two(slopes, smooth, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_share_of_beta(a, b, k, l);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) result[k][l] = ad_leibniz2(outer, smooth, k, l);
}

/* the same with C = b (b+1) ... (b+m-1) Gamma(a+b) / (Gamma(b+m) Gamma(a+1)), m >= 1 the integer next to a */
void ad_beta_by_factors(double a, double b, int i, int j, double log_x, double result[][ad_MOST + 2]) {
  const double nearest = rint(a), count = nearest > 1 ? nearest : 1;
  double rising[ad_MOST + 2] = {1}, rest[ad_MOST + 2][ad_MOST + 2], smooth[ad_MOST + 2][ad_MOST + 2];
  for (int m = 0; m < 9; m++)
    for (int l = j; l >= 0; l--) {
      const double next = (b + m) * rising[l] + (l ? l * rising[l - 1] : 0);
      rising[l] = m < count ? next : rising[l];
    }
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
  double low = 0;
  slopes[1][0] = slopes[0][1] = 0;
  ad_bell_of_two(slopes, inner, i, j);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) rational[k][l] = ad_harmonic(a, b, k, l);
  for (int k = 0; k <= i; k++)
    for (int l = 0; l <= j; l++) outer[k][l] = ad_leibniz2(rational, inner, k, l);
  const double slope = (x - ad_beta_offset(a, b, x, y, &low)) / y, scale = ad_beta_scale(b, slope, odds);
  double parts[84], logs[84];
  for (int m = 0; m < 84; m++) {
    const double s = ad_nodes[m] / scale;
    logs[m] = second + log1p(-odds * expm1(-s));
    parts[m] = exp(ad_beta_decay(b, slope, odds, s)) * (ad_weights[m] / scale);
  }
  for (int k = 0; k <= i; k++)
    for (int m = 0; m < 84; m++) {
      double term = parts[m];
      for (int l = 0; l <= j; l++) {
        moments[k][l] += term;
        term *= logs[m];
      }
      parts[m] *= first - ad_nodes[m] / scale;
    }
  return ad_beta_power(a, b, x, y, 0, ad_leibniz2(outer, moments, i, j) / y);
}

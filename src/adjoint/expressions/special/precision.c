/* Sums of two numbers: exponents need more digits than a number has. What stands between two empty lines is one function. */

/* a + b less their sum as it was rounded (Knuth) */
inline double ad_rest_of_sum(double a, double b, double sum) {
  const double part = sum - a;
  return (a - (sum - part)) + (b - part);
}

/* a b less their product as it was rounded */
inline double ad_rest_of_product(double a, double b, double product) { return fma(a, b, -product); }

/* high + low and one more number */
inline double ad_plus(double high, double more, double *low) {
  const double sum = high + more;
  *low += ad_rest_of_sum(high, more, sum);
  return sum;
}

/* high + low and a product */
inline double ad_plus_product(double high, double a, double b, double *low) {
  const double product = a * b, sum = high + product;
  *low += ad_rest_of_product(a, b, product) + ad_rest_of_sum(high, product, sum);
  return sum;
}

/* factor exp(high + low), where the exponential may leave the range of numbers before the product does */
inline double ad_exp_parts(double factor, double high, double low) {
  const double shift = high < -500 ? -200 : high > 500 ? 200 : 0, e = exp(high - shift);
  return factor * (e > 0 && e < inf() ? e + e * low : e) * (shift == 0 ? 1 : exp(shift));
}

/* log(x + more): x = 2^e m, log m = log c + 2 artanh((m - c) / (m + c)) for the multiple c of 1/32 next to m */
double ad_log_parts(double x, double more, double *low) {
  if (!(x > 0 && x < inf())) {
    *low = 0;
    return log(x);
  }
  int power = 0;
  const double mantissa = frexp(x, &power), doubled = mantissa < 0.7071 ? 1 : 0, m = mantissa + doubled * mantissa, turns = power - doubled;
  const int place = (int)rint(32 * m);
  const double c = 0.03125 * place, above = m - c, below = m + c, t = above / below, p = t * t;
  const double below_rest = ad_rest_of_sum(m, c, below), product = t * below;
  const double t_rest = (above - product - ad_rest_of_product(t, below, product) - t * below_rest) / below;
  const double series = t * p * (2 / 3.0 + p * (2 / 5.0 + p * (2 / 7.0 + p * (2 / 9.0))));
  double rest = series + 2 * t_rest + ad_log_table[place - 22][1] + turns * 1.9082149292705877e-10 + more / x;
  double high = ad_plus(turns * 0.6931471803691238, ad_log_table[place - 22][0], &rest);
  high = ad_plus(high, 2 * t, &rest);
  const double sum = high + rest;
  *low = rest - (sum - high);
  return sum;
}

/* log((x + more) / y), also where the quotient is no number */
double ad_log_ratio(double x, double more, double y, double *low) {
  const double ratio = x / y, product = ratio * y;
  if (ratio > 1e-280 && ratio < 1e280 && x > 1e-280 && y > 1e-280 && x < 1e280)
    return ad_log_parts(ratio, (x - product - ad_rest_of_product(ratio, y, product) + more) / y, low);
  double other = 0;
  const double log_x = ad_log_parts(x, more, low), log_y = ad_log_parts(y, 0, &other);
  *low -= other;
  return ad_plus(log_x, -log_y, low);
}

/* a (d - log(1 + d)), 1 + d = (x + more) / a, d = (excess + lost) / a */
double ad_deviance(double a, double excess, double lost, double x, double more, double *low) {
  const double d = excess / a;
  if (!(fabs(d) < 0.1)) {
    double log_low = 0;
    const double log_of = ad_log_ratio(x, more, a, &log_low);
    *low = lost - a * log_low;
    return ad_plus_product(excess, -a, log_of, low);
  }
  /* a d^2 (1/2 - d/3 + d^2/4 - ...) */
  const double product = d * a, d_rest = (excess - product - ad_rest_of_product(d, a, product) + lost) / a;
  double tail = 0;
  for (int k = 19; k >= 5; k--) tail = 1.0 / k - d * tail;
  const double square = d * d, square_rest = ad_rest_of_product(d, d, square) + 2 * d * d_rest;
  const double third = d * 0.3333333333333333, fourth = 0.25 * square;
  double rest = -(ad_rest_of_product(d, 0.3333333333333333, third) + d * 1.850371707708594e-17 + d_rest * 0.3333333333333333);
  rest += 0.25 * square_rest - square * d * tail;
  double sum = ad_plus(0.5, -third, &rest);
  sum = ad_plus(sum, fourth, &rest);
  const double first = excess * d, first_rest = ad_rest_of_product(excess, d, first) + excess * d_rest + lost * d;
  const double whole = first * sum;
  const double lower = ad_rest_of_product(first, sum, whole) + first * rest + first_rest * sum, result = whole + lower;
  *low = lower - (result - whole);
  return result;
}

/* log(k / 32), k = 22, 23, ... 46 */
const double ad_log_table[25][2] = {
  {-0.3746934494414107, 3.9243112288632396e-18}, {-0.33024168687057687, 1.0828321637483858e-17},
  {-0.2876820724517809, -2.607160616442564e-17}, {-0.24686007793152578, -1.361743371748368e-17},
  {-0.2076393647782445, -1.2053243216686129e-17}, {-0.16989903679539747, 4.868008764439071e-19},
  {-0.13353139262452263, 3.664457663660085e-18}, {-0.09844007281325252, 4.439009633675136e-18},
  {-0.06453852113757118, 6.470486661692933e-18}, {-0.0317486983145803, -3.0382263084680858e-18},
  {0.0, 0.0}, {0.030771658666753687, 1.0431732029005968e-18},
  {0.06062462181643484, 2.6424025938726934e-18}, {0.08961215868968714, -5.4268129336647135e-18},
  {0.11778303565638346, -1.1971685747593677e-18}, {0.1451820098444979, 8.242418783022475e-18},
  {0.17185025692665923, -6.0224538210113705e-18}, {0.19782574332991987, 1.2821194372980142e-17},
  {0.22314355131420976, -9.091270597324799e-18}, {0.24783616390458127, -1.2432209578702523e-17},
  {0.27193371548364176, 7.83319637697442e-19}, {0.2954642128938359, -2.16461086040599e-17},
  {0.3184537311185346, 2.7114779367326236e-17}, {0.3409265869705932, 1.7467136443544747e-17},
  {0.3629054936893685, -2.1492361455310972e-17}};

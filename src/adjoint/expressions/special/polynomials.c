/* Orthogonal polynomials of whole degrees and their derivatives, by recurrences that are differentiated.

   p_(m+1) = (A y + B) p_m - C p_(m-1). At the end y = 1 (of Laguerre's 0) A y + B - C is 1: next to it the differences
   d_(m+1) = p_(m+1) - p_m = C d_m + A s p_m are followed, with s = y - 1, which has all digits (Reinsch).
   Kinds: Chebyshev's T, U, V, W, these shifted to [0, 1], Hermite's H and He, Laguerre's, Legendre's */

/* the k-th derivative in x of a polynomial of degree n, which is cut to an integer */
double ad_polynomial(double x, double degree, int kind, int k) {
  const double whole = trunc(degree);
  if (whole < 0) return 0;
  if (x != x || !(whole <= 65536)) return nan();
  return ad_polynomial_of(x, (int)whole, kind, k);
}

double ad_polynomial_of(double x, int n, int kind, int k) {
  const int other = kind % 4 == 2 ? 3 : kind % 4 == 3 ? 2 : kind % 4; /* V(-x) is W(x), but for the sign */
  const double sign = (n + k) % 2 ? -1 : 1, twice = ad_whole_power(2, k);
  if (kind == 8 || kind == 9) return ad_polynomial_hermite(x, n, kind, k);
  if (kind == 10) return ad_polynomial_from(x, x, n, kind, k);
  if (kind == 11) return x < 0 ? sign * ad_polynomial_from(-x, -x - 1, n, kind, k) : ad_polynomial_from(x, x - 1, n, kind, k);
  if (kind >= 4) {
    if (x < 0.5) return twice * sign * ad_polynomial_from(1 - 2 * x, -2 * x, n, other, k);
    return twice * ad_polynomial_from(2 * x - 1, 2 * (x - 1), n, kind - 4, k);
  }
  if (x < 0) return sign * ad_polynomial_from(-x, -x - 1, n, other, k);
  return ad_polynomial_from(x, x - 1, n, kind, k);
}

/* H_n' = 2n H_(n-1), He_n' = n He_(n-1) */
double ad_polynomial_hermite(double x, int n, int kind, int k) {
  double factor = n < k ? 0 : 1;
  for (int j = 0; j < k; j++) factor *= (kind == 8 ? 2.0 : 1.0) * (n - j);
  return n < k ? 0 : factor * ad_polynomial_plain(x, n - k, kind, 0);
}

double ad_polynomial_from(double y, double s, int n, int kind, int k) {
  if (s > -0.5 || kind == 10) return ad_polynomial_from_end(s, n, kind, k);
  return ad_polynomial_plain(y, n, kind, k);
}

/* whole numbers a, b and c of the step from degree m to m + 1: A is a / below, B is b / below, C is c / below */
inline void ad_polynomial_step(int kind, int m, double *step) {
  step[0] = kind == 9 ? 1 : kind == 10 ? -1 : kind == 11 ? 2 * m + 1 : 2;
  step[1] = kind == 10 ? 2 * m + 1 : 0;
  step[2] = kind == 8 ? 2 * m : kind == 9 || kind == 10 || kind == 11 ? m : 1;
  step[3] = kind == 10 || kind == 11 ? m + 1 : 1;
}

/* by differences; d_1 is ad_polynomial_starts[kind][2] s + ad_polynomial_starts[kind][3]. As in the next function p(y) / Y^m is
   followed as a function of y / Y with a power of two Y >= |s|, without what still grows: p may leave the range of numbers */
double ad_polynomial_from_end(double s, int n, int kind, int k) {
  int e = 0, taken = 0;
  const double big = fabs(s) > 1 && s - s == 0 ? s : 0.5, part = frexp(big, &e), inverse = ldexp(1.0, -e), at = s * inverse;
  double now[ad_MOST + 2] = {1}, difference[ad_MOST + 2] = {0}, step[4];
  difference[0] = ad_polynomial_starts[kind][2] * at + ad_polynomial_starts[kind][3] * inverse;
  for (int j = 1; j <= k; j++) now[j] = 0 * part, difference[j] = j == 1 ? ad_polynomial_starts[kind][2] : 0;
  for (int m = 1; m <= n; m++) {
    for (int j = 0; j <= k; j++) now[j] = now[j] * inverse + difference[j];
    ad_polynomial_step(kind, m, step);
    for (int j = 0; j <= k; j++) {
      const double next = step[2] * inverse * difference[j] + step[0] * (at * now[j] + (j ? j * now[j - 1] : 0));
      difference[j] = kind < 10 ? next : next / step[3];
    }
    if (m % 8 == 0) {
      const int power = ad_polynomial_power(now, difference, k);
      for (int j = 0; j <= k; j++) now[j] = ldexp(now[j], -power), difference[j] = ldexp(difference[j], -power);
      taken += power;
    }
  }
  return ldexp(now[k], taken + e * (n - k));
}

/* by the recurrence itself */
double ad_polynomial_plain(double y, int n, int kind, int k) {
  int e = 0, taken = 0;
  const double big = fabs(y) > 1 && y - y == 0 ? y : 0.5, part = frexp(big, &e), inverse = ldexp(1.0, -e), at = y * inverse;
  double before[ad_MOST + 2] = {1}, now[ad_MOST + 2] = {0}, step[4];
  now[0] = ad_polynomial_starts[kind][0] * at + ad_polynomial_starts[kind][1] * inverse;
  for (int j = 1; j <= k; j++) before[j] = 0 * part, now[j] = j == 1 ? ad_polynomial_starts[kind][0] : 0;
  if (n == 0) return before[k];
  for (int m = 1; m < n; m++) {
    ad_polynomial_step(kind, m, step);
    const double factor = step[0] * at + step[1] * inverse, weight = step[2] * (inverse * inverse);
    for (int j = k; j >= 0; j--) {
      const double next = factor * now[j] - weight * before[j] + (j ? j * step[0] * now[j - 1] : 0);
      before[j] = now[j], now[j] = kind < 10 ? next : next / step[3];
    }
    if (m % 8 == 0) {
      const int power = ad_polynomial_power(now, before, k);
      for (int j = 0; j <= k; j++) now[j] = ldexp(now[j], -power), before[j] = ldexp(before[j], -power);
      taken += power;
    }
  }
  return ldexp(now[k], taken + e * (n - k));
}

/* the power of two of the largest number, where that is very large or very small; in 8 steps nothing grows by 1e200 */
int ad_polynomial_power(const double *one, const double *two, int k) {
  int power = 0;
  double size = 0;
  for (int j = 0; j <= k; j++) {
    size = fabs(one[j]) > size ? fabs(one[j]) : size;
    size = fabs(two[j]) > size ? fabs(two[j]) : size;
  }
  const double grown = (size > 1e100 || size < 1e-100) && size - size == 0 ? size : 0.5, rest = frexp(grown, &power);
  return rest != 0 ? power : 0;
}

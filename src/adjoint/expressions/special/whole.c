/* Whole numbers. */

/* by squares; of a negative exponent what is left of the quotient */
inline i64 ad_power(i64 base, i64 exponent) {
  i64 result = 1, square = base;
  for (i64 left = exponent; left > 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  const i64 inverse = base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  return exponent < 0 ? inverse : result;
}

inline i64 ad_gcd(i64 a, i64 b) {
  u64 x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  while (x != 0) {
    const u64 r = y % x;
    y = x;
    x = r;
  }
  return (i64)y;
}

inline i64 ad_lcm(i64 a, i64 b) {
  const u64 x = a < 0 ? -a : a, y = b < 0 ? -b : b, g = ad_gcd(a, b);
  return g != 0 ? (i64)(x / g * y) : 0;
}

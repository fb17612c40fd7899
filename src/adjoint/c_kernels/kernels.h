/* What every file of kernels begins with, the geometry of windows that slide over images among it. */

#include <stdlib.h>
#include <string.h>
#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
extern void *aligned_alloc(size_t, size_t); /* of C11, which libraries have for C99, too */
#endif
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_num_threads() 1
#define omp_get_thread_num() 0
#define omp_in_parallel() 0
#endif

/* Products are added without rounding in between, which compiled programs must not do. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

typedef signed char schar;
typedef unsigned char uchar;

/* Written before each function that others call; exported C, where it is one of many in a file, has its own. */
#ifndef KERNEL
#define KERNEL
#endif

static inline long least(long x, long y) { return x < y ? x : y; }
static inline long most(long x, long y) { return x > y ? x : y; }
static inline long up(long x, long step) { return (x + step - 1) / step * step; }

/* Places of the small image look through windows of `kernel` elements at the large one: place o sees the elements
   o * stride + k * dilation - padding. */
typedef struct {
  long images, groups, a, b;                       /* channels in a group: a of the large image, b of the small one */
  long large[3], small[3], kernel[3];            /* sizes */
  long stride[3], padding[3], dilation[3];
  long large_steps[5], small_steps[5];           /* between elements: image, channel, and three dimensions */
} Geometry;

/* exp(x) = 2^n exp(r), |r| <= log(2)/2, for x up to 40: adding 1.5 2^23 to x / log(2) rounds it, and leaves n in the last bits,
   which become the exponent of a power of two; that is too large by some digits, so that no number on the way is too small.
   The polynomials are those of expressions/functions.py; errors are below 2 ulp. Infinite above 40. */
static inline __attribute__((always_inline)) float exp_float(float given) {
  const float x = given < -104.0f ? -104.0f : given, magic = 12583103.0f;
  const union { float x; unsigned bits; } z = {.x = x * 1.44269504088896341f + magic}, scale = {.bits = z.bits << 23};
  const float n = z.x - magic, r = (x - n * 0.693145751953125f) - n * 1.428606765330187e-06f, s = r * r;
  const float odd = 0.008363203145563602f * s + 0.16666576266288757f;
  const float p = (0.0013926213141530752f * s + 0.041666556149721146f) * s + 0.5f + r * odd;
  const float e = (p * s + r) + 1;
  return given > 40 ? __builtin_inff() : e * scale.x * 0x1p-64f;
}
static inline __attribute__((always_inline)) double exp_double(double given) {
  const double x = given < -746.0 ? -746.0 : given, magic = 6755399441057279.0;
  const union { double x; unsigned long long bits; } z = {.x = x * 1.44269504088896340736 + magic}, scale = {.bits = z.bits << 52};
  const double n = z.x - magic, r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10, s = r * r;
  const double odd = (((2.5100424157005067e-08 * s + 2.7557268378684192e-06) * s + 0.00019841269863105968) * s
                      + 0.008333333333330051) * s + 0.16666666666666669;
  const double p = (((2.7620138719733994e-07 * s + 2.480152119021773e-05) * s + 0.0013888888917281794) * s
                    + 0.04166666666662399) * s + 0.5000000000000001 + r * odd;
  const double e = (p * s + r) + 1;
  return given > 40 ? __builtin_inf() : e * scale.x * 0x1p-512;
}

/* log(1 + t), 0 <= t <= 1, as 2 artanh(t / (2 + t)): the polynomial has an error of 1.3e-18. */
static inline __attribute__((always_inline)) double log1p_of_part(double t) {
  const double s = t / (2 + t), q = s * s, r = q * q, u = r * r;
  const double low = (1.0 + 0.33333333333333065 * q) + (0.2000000000009516 + 0.14285714272462707 * q) * r;
  const double middle = (0.11111112055879485 + 0.09090869894072096 * q) + (0.0769331772330622 + 0.06650051298641038 * q) * r;
  const double high = (0.06056124197792847 + 0.04157843242406799 * q) + 0.08530029508837253 * r;
  return 2 * s * (low + (middle + high * u) * u);
}

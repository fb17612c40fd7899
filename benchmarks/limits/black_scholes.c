/* Call price under Black-Scholes, summed, and its five gradients, in one pass.

   With sd = sigma sqrt(T), d1 = (log(S/K) + (r + sigma^2/2) T) / sd, d2 = d1 - sd, D = exp(-r T):
     C = S N(d1) - K D N(d2)
     dC/dS = N(d1), dC/dK = -D N(d2), dC/dr = K T D N(d2), dC/dsigma = S phi(d1) sqrt(T),
     dC/dT = S phi(d1) sigma / (2 sqrt(T)) + r K D N(d2). */
#include <math.h>
#include <omp.h>

#pragma omp declare simd notinbranch
double exp(double);
#pragma omp declare simd notinbranch
double log(double);
#pragma omp declare simd notinbranch
double erf(double);
#pragma omp declare simd notinbranch
float expf(float);
#pragma omp declare simd notinbranch
float logf(float);
#pragma omp declare simd notinbranch
float erff(float);

#define BLACK_SCHOLES(NAME, REAL, F)                                                               \
  static double NAME##_part(long first, long last, const REAL *restrict S, const REAL *restrict K, \
                            const REAL *restrict T, const REAL *restrict r,                        \
                            const REAL *restrict sigma, REAL *restrict gS, REAL *restrict gK,      \
                            REAL *restrict gT, REAL *restrict gr, REAL *restrict gsigma) {         \
    const REAL half = (REAL)0.5, scale = (REAL)0.70710678118654752440;                             \
    double total = 0;                                                                              \
    _Pragma("omp simd reduction(+ : total)") for (long i = first; i < last; i++) {                 \
      const REAL root = sqrt##F(T[i]), sd = sigma[i] * root;                                       \
      const REAL drift = (r[i] + half * sigma[i] * sigma[i]) * T[i];                               \
      const REAL d1 = (log##F(S[i] / K[i]) + drift) / sd, d2 = d1 - sd, D = exp##F(-r[i] * T[i]);  \
      const REAL N1 = half * (1 + erf##F(d1 * scale)), N2 = half * (1 + erf##F(d2 * scale));       \
      const REAL phi = (REAL)0.39894228040143267794 * exp##F(-half * d1 * d1);                     \
      const REAL held = K[i] * D * N2, vega = S[i] * phi;                                          \
      total += S[i] * N1 - held;                                                                   \
      gS[i] = N1;                                                                                  \
      gK[i] = -D * N2;                                                                             \
      gT[i] = half * vega * sigma[i] / root + r[i] * held;                                         \
      gr[i] = T[i] * held;                                                                         \
      gsigma[i] = vega * root;                                                                     \
    }                                                                                              \
    return total;                                                                                  \
  }                                                                                                \
  void NAME(long n, const REAL *S, const REAL *K, const REAL *T, const REAL *r, const REAL *sigma, \
            REAL *value, REAL *gS, REAL *gK, REAL *gT, REAL *gr, REAL *gsigma) {                   \
    double total = 0;                                                                              \
    if (n < 32768) {                                                                               \
      *value = (REAL)NAME##_part(0, n, S, K, T, r, sigma, gS, gK, gT, gr, gsigma);                 \
      return;                                                                                      \
    }                                                                                              \
    _Pragma("omp parallel reduction(+ : total)") {                                                 \
      const long count = omp_get_num_threads(), me = omp_get_thread_num();                         \
      total += NAME##_part(n * me / count, n * (me + 1) / count, S, K, T, r, sigma, gS, gK, gT,    \
                           gr, gsigma);                                                            \
    }                                                                                              \
    *value = (REAL)total;                                                                          \
  }

BLACK_SCHOLES(black_scholes_float64, double, )
BLACK_SCHOLES(black_scholes_float32, float, f)

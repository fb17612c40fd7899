/* Evenly spaced numbers, rounded once at the end. */

#define WORTH (1L << 15) /* elements from which threads share them */

/* A product is rounded before it is added, as NumPy does it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* What follows is written once for each REAL: float, double. */

/* sizes: how many numbers, and how many of them are counted up from the start; the others are counted down from the end. */
int even_REAL(const long *sizes, double start, double end, double step, REAL *y) {
  const long count = sizes[0], half = sizes[1];
#pragma omp parallel for simd num_threads(TEAM) schedule(static) if (count > WORTH)
  for (long i = 0; i < half; i++) y[i] = (REAL)(start + step * (double)i);
#pragma omp parallel for simd num_threads(TEAM) schedule(static) if (count > WORTH)
  for (long i = half; i < count; i++) y[i] = (REAL)(end - step * (double)(count - 1 - i));
  return 0;
}

/* sizes: how many numbers, the first one, the step. */
int whole_REAL(const long *sizes, REAL *y) {
  const long count = sizes[0], start = sizes[1], step = sizes[2];
#pragma omp parallel for simd num_threads(TEAM) schedule(static) if (count > WORTH)
  for (long i = 0; i < count; i++) y[i] = (REAL)(start + i * step);
  return 0;
}

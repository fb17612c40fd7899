/* The places of the k best elements of rows, in their order, the first of equal ones first. Elements go into a short list of
   the best so far; as soon as that is full, blocks in which none is better than its last one are passed over. */

#define WORTH (1L << 14) /* elements from which threads share the rows */
#define MOST 128         /* elements of the list */
#define BLOCK 32

/* What follows is written once for each REAL: float, double. */

/* Whether there was no NaN. */
static int top_row(long n, long k, long largest, const REAL *x, long *places) {
  REAL best[MOST];
  long have = 0;
  for (long b = 0; b < n; b += BLOCK) {
    const long end = n - b < BLOCK ? n : b + BLOCK;
    const REAL last = have == k ? best[k - 1] : x[b];
    int better = have < k, odd = 0;
#pragma omp simd reduction(| : better, odd)
    for (long i = b; i < end; i++) {
      const int ahead = largest ? x[i] > last : x[i] < last;
      better |= ahead, odd |= x[i] != x[i];
    }
    if (odd) return 0;
    if (!better) continue;
    for (long i = b; i < end; i++) {
      const REAL v = x[i];
      if (have == k && !(largest ? v > best[k - 1] : v < best[k - 1])) continue;
      long j = have < k ? have++ : k - 1;
      for (; j > 0 && (largest ? best[j - 1] < v : best[j - 1] > v); j--) best[j] = best[j - 1], places[j] = places[j - 1];
      best[j] = v, places[j] = i;
    }
  }
  return 1;
}

/* sizes: rows, columns, k, from 1 to MOST and to the columns, and whether large elements are the best; 1 where there is NaN. */
int top_REAL(const long *sizes, const REAL *x, long *places) {
  const long rows = sizes[0], n = sizes[1], k = sizes[2], largest = sizes[3];
  int odd = 0;
#pragma omp parallel for schedule(static) reduction(| : odd) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) odd |= !top_row(n, k, largest, x + r * n, places + r * k);
  return odd;
}

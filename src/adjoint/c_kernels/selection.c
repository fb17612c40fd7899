/* Extreme elements and where they first are; the first elements of runs of equal ones. */

#define WORTH (1L << 14) /* elements from which threads share the rows */
#define SIDE 1024        /* columns at once */
#define SHORT 16         /* elements of a row below which vectors do not pay */

/* What follows is written once for each REAL: float, double. */

/* The extreme of a row, NaN before all numbers, and where it first is. */
static void extreme_row(long n, long largest, const REAL *x, REAL *value, long *place) {
  REAL best = x[0];
  int odd = 0;
  if (n < SHORT) {
    long at = 0;
    for (long i = 1; i < n && best == best; i++)
      if (!(largest ? x[i] <= best : x[i] >= best)) best = x[i], at = i;
    *value = best, *place = at;
    return;
  }
  if (largest) {
#pragma omp simd reduction(max : best) reduction(| : odd)
    for (long i = 0; i < n; i++) best = x[i] > best ? x[i] : best, odd |= x[i] != x[i];
  } else {
#pragma omp simd reduction(min : best) reduction(| : odd)
    for (long i = 0; i < n; i++) best = x[i] < best ? x[i] : best, odd |= x[i] != x[i];
  }
  long i = 0;
  if (odd)
    while (x[i] == x[i]) i++;
  else
    while (x[i] != best) i++;
  *value = x[i], *place = i;
}

/* The extremes of `wide` columns at once. */
static void extreme_columns(long n, long wide, long step, long largest, const REAL *x, REAL *values, long *places) {
  REAL best[SIDE];
  int at[SIDE];
  for (long c = 0; c < wide; c++) best[c] = x[c], at[c] = 0;
  for (long i = 1; i < n; i++) {
    const REAL *row = x + i * step;
#pragma omp simd
    for (long c = 0; c < wide; c++) {
      const REAL v = row[c], b = best[c];
      const int ahead = largest ? v > b : v < b, odd = (v != v) & (b == b), later = ahead | odd;
      best[c] = later ? v : b;
      at[c] = later ? (int)i : at[c];
    }
  }
  for (long c = 0; c < wide; c++) values[c] = best[c], places[c] = at[c];
}

/* Along the middle one of three dimensions, which is shorter than 2^31. sizes: those three, and whether large elements are
   wanted. */
int extreme_REAL(const long *sizes, const REAL *x, REAL *values, long *places) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], largest = sizes[3];
  const long threads = TEAM, shares = (threads + outer - 1) / outer;
  const long share = ((inner + shares - 1) / shares + 15) / 16 * 16, side = share < SIDE ? share : SIDE;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n * inner > WORTH)
  for (long o = 0; o < outer; o++)
    for (long c = 0; c < inner; c += side) {
      const long start = o * n * inner + c, to = o * inner + c, wide = inner - c < side ? inner - c : side;
      if (inner == 1) extreme_row(n, largest, x + start, values + to, places + to);
      else extreme_columns(n, wide, inner, largest, x + start, values + to, places + to);
    }
  return 0;
}

/* The first of each run of equal elements, NaN being equal to nothing. sizes: elements, at least one; count: how many runs
   there are. */
int runs_REAL(const long *sizes, const REAL *x, REAL *y, long *count) {
  const long n = sizes[0];
  long k = 0;
  y[0] = x[0];
  for (long i = 1; i < n; i++) { /* without branches */
    y[k + 1] = x[i];
    k += x[i] != x[i - 1];
  }
  *count = k + 1;
  return 0;
}

/* Sums of whole numbers over the middle one of three dimensions, in 64 bits, compiled once for each machine. Small numbers
   are added in short runs of 32 bits, of which a vector holds more. */

#define WORTH (1L << 15) /* elements from which threads share the pieces */
#define PIECE (1L << 15) /* elements of a piece of a row, and rows of a piece of columns: 32 bits hold their sums */
#define PIECES 32        /* pieces of columns: totals of few pieces are joined in no time */
#define FEW 64           /* rows that a piece has at least */
#define SIDE 256         /* columns at once */
#define SHORT 16         /* elements of a row below which vectors do not pay */

#define SUM_uchar int
#define SUM_schar int
#define SUM_short int
#define SUM_int long
#define SUM_long long
#define SUM_float long /* floating numbers are added elsewhere */
#define SUM_double long

/* What follows is written once for each REAL: float, double. */

static long row_sum(const REAL *x, long n) {
  SUM_REAL total = 0;
#pragma omp simd reduction(+ : total)
  for (long i = 0; i < n; i++) total += (SUM_REAL)x[i];
  return total;
}

static void column_sums(const REAL *x, long rows, long step, long columns, long *total) {
  for (long c = 0; c < columns; c++) total[c] = 0;
  for (long b = 0; b < rows; b += PIECE) {
    SUM_REAL part[SIDE] = {0};
    for (long i = b; i < least(rows, b + PIECE); i++)
#pragma omp simd
      for (long c = 0; c < columns; c++) part[c] += (SUM_REAL)x[i * step + c];
    for (long c = 0; c < columns; c++) total[c] += part[c];
  }
}

static int sum_rows(const long *sizes, const REAL *x, long *y) {
  const long outer = sizes[0], n = sizes[1], cuts = (n + PIECE - 1) / PIECE, step = sizes[3];
  if (cuts == 1) {
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n > WORTH)
    for (long o = 0; o < outer; o++) {
      if (n >= SHORT) y[o] = row_sum(x + o * step, n);
      else {
        long total = 0;
        for (long i = 0; i < n; i++) total += (long)x[o * step + i];
        y[o] = total;
      }
    }
    return 0;
  }
  long *totals = malloc(sizeof(long) * (size_t)(outer * cuts));
  if (!totals) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n > WORTH)
  for (long o = 0; o < outer; o++)
    for (long cut = 0; cut < cuts; cut++)
      totals[o * cuts + cut] = row_sum(x + o * step + cut * PIECE, least(n - cut * PIECE, PIECE));
  for (long o = 0; o < outer; o++) {
    y[o] = 0;
    for (long cut = 0; cut < cuts; cut++) y[o] += totals[o * cuts + cut];
  }
  free(totals);
  return 0;
}

static int sum_columns(const long *sizes, const REAL *x, long *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], *steps = sizes + 3;
  const long sides = (inner + SIDE - 1) / SIDE, strips = outer * sides;
  const long wanted = strips < PIECES ? least(PIECES / strips, (n + FEW - 1) / FEW) : 1;
  const long each = (n + wanted - 1) / wanted, cuts = (n + each - 1) / each;
  long *totals = malloc(sizeof(long) * (size_t)(cuts > 1 ? strips * cuts * SIDE : 1));
  if (!totals) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n * inner > WORTH)
  for (long strip = 0; strip < strips; strip++)
    for (long cut = 0; cut < cuts; cut++) {
      const long o = strip / sides, first = strip % sides * SIDE;
      long *to = cuts > 1 ? totals + (strip * cuts + cut) * SIDE : y + o * inner + first;
      column_sums(x + o * steps[0] + cut * each * steps[1] + first, least(n - cut * each, each), steps[1],
                  least(inner - first, SIDE), to);
    }
  for (long strip = 0; cuts > 1 && strip < strips; strip++) {
    const long o = strip / sides, first = strip % sides * SIDE, columns = least(inner - first, SIDE);
    for (long c = 0; c < columns; c++) {
      long total = 0;
      for (long cut = 0; cut < cuts; cut++) total += totals[(strip * cuts + cut) * SIDE + c];
      y[o * inner + first + c] = total;
    }
  }
  free(totals);
  return 0;
}

/* sizes: the three dimensions, and the steps of the first two; the elements of the last one lie side by side, and so do
   those of rows, whose last dimension is 1. */
int add_up_REAL(const long *sizes, const REAL *x, long *y) {
  return sizes[2] == 1 ? sum_rows(sizes, x, y) : sum_columns(sizes, x, y);
}

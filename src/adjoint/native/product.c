/* Products of matrices, and batches of them: c = a b. Threads come from the one pool of all kernels, each computes
   rectangles of c, and every element is the same sum however many threads there are. */

#include "tiles.c"

#define INNER 256 /* steps along the inner dimension before a tile is stored: a strip stays in the first cache */
#define BLOCK 16  /* panels that stay in the second cache */
#define SMALL (1L << 17) /* multiplications that are not worth another thread */

typedef struct {
  long m, n, k, batch[3];                       /* c is m x n; three dimensions of products */
  long a_row, a_column, b_row, b_column, c_row; /* steps; columns of c follow each other */
  long a_batch[3], b_batch[3], c_batch[3];
} Product;

/* Into how many rectangles each product is cut: its longer side first, until every thread has one. */
static void cut(const Product *z, long products, long threads, long panel, long *across, long *along) {
  *across = *along = 1;
  while (products * *across * *along < threads) {
    const long rows = z->m / *across, columns = z->n / *along;
    if (rows <= ROWS && columns <= panel) break;
    if (columns <= panel || (rows > ROWS && rows * 2 >= columns)) ++*across;
    else ++*along;
  }
}

/* What follows is written once for each REAL: float, double. */

static void rectangle_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, REAL *c, REAL *strip,
                           REAL *panels) {
  for (long p = 0; p < z->k; p += INNER) {
    const long k = least(INNER, z->k - p);
    for (long j = 0; j < n; j += BLOCK * PANEL_REAL) {
      const long wide = least(BLOCK * PANEL_REAL, n - j);
      panels_REAL(k, wide, b + p * z->b_row + j * z->b_column, z->b_row, z->b_column, panels);
      multiply_REAL(m, wide, k, a + p * z->a_column, z->a_row, z->a_column, panels, p ? c + j : 0, c + j, z->c_row,
                    strip);
    }
  }
}

/* The product number `work / (across * along)`, its rectangle number `work % (across * along)`. */
static void piece_REAL(const Product *z, long work, long across, long along, const REAL *a, const REAL *b, REAL *c,
                       REAL *room) {
  const long strips = (z->m + ROWS - 1) / ROWS, high = (strips + across - 1) / across * ROWS;
  const long wide = wide_REAL((z->n + along - 1) / along);
  const long i = work / along % across * high, j = work % along * wide;
  if (i >= z->m || j >= z->n) return;
  a += i * z->a_row, b += j * z->b_column, c += i * z->c_row + j;
  for (long d = 2, number = work / (across * along); d >= 0; number /= z->batch[d], d--) {
    const long at = number % z->batch[d];
    a += at * z->a_batch[d], b += at * z->b_batch[d], c += at * z->c_batch[d];
  }
  rectangle_REAL(z, least(high, z->m - i), least(wide, z->n - j), a, b, c, room,
                 room + ROWS * least(INNER, z->k));
}

int product_REAL(const Product *z, const REAL *a, const REAL *b, REAL *c) {
  const long products = z->batch[0] * z->batch[1] * z->batch[2], total = products * z->m * z->n * z->k;
  const long threads = most(least(omp_get_max_threads(), total / SMALL), 1);
  long across, along;
  cut(z, products, threads, PANEL_REAL, &across, &along);
  const long work = products * across * along;
  int failed = 0;
#pragma omp parallel num_threads(least(threads, work))
  {
    REAL *room = room_REAL((ROWS + BLOCK * PANEL_REAL) * least(INNER, z->k));
    if (!room) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(static)
    for (long w = 0; w < work; w++)
      if (room) piece_REAL(z, w, across, along, a, b, c, room);
    free(room);
  }
  return failed;
}

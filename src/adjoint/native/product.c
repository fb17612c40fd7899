/* Products of matrices, and batches of them: c = start + a b. Threads come from the one pool of all kernels, each computes
   rectangles of c, and every element is the same sum however many threads there are. */

#include "tiles.c"

#define INNER 256        /* steps along the inner dimension before a tile is stored: a strip stays in the first cache */
#define BLOCK 16         /* panels that stay in the second cache */
#define THIN 8           /* rows of a product for which sums along rows of b beat copying it */
#define LOW 32           /* rows of a product for which copying b costs more than it saves, … */
#define FLAT 256         /* … and those if the inner dimension is that short, too */
#define SIDE 4           /* rows of b at once where products are sums along rows */
#define COPY 12          /* multiplications in the time of copying one element */
#define SHARE (1L << 20) /* multiplications for each thread */

typedef struct {
  long m, n, k, batch[3];                       /* c is m x n; three dimensions of products */
  long a_row, a_column, b_row, b_column, c_row; /* steps; columns of c follow each other */
  long a_batch[3], b_batch[3], c_batch[3];      /* start, if there is one, lies as c does, and may be c */
} Product;

/* Into how many rectangles each product is cut, across its rows and along its columns: the cut with which the thread that
   has most to do is done first. Copying an element costs as much as COPY multiplications of its rectangle's. */
static void cut(const Product *z, long products, long threads, long panel, long *across, long *along) {
  double best = 0;
  *across = *along = 1;
  for (long columns = 1; columns <= most(least(threads, z->n / panel), 1); columns++) {
    const long wide = up((z->n + columns - 1) / columns, panel);
    for (long rows = 1; rows <= most(least(threads, z->m / 4), 1); rows++) {
      const long high = (z->m + rows - 1) / rows, rounds = (products * rows * columns + threads - 1) / threads;
      const double cost = (double)rounds * ((double)high * wide + COPY * (high + wide));
      if (best == 0 || cost < best) best = cost, *across = rows, *along = columns;
    }
  }
}

/* A product with one column is one with one row, its operands turned. */
static Product turned(const Product *z) {
  Product t = *z;
  t.m = 1, t.n = z->m, t.a_row = z->b_column, t.a_column = z->b_row, t.b_row = z->a_column, t.b_column = z->a_row;
  memcpy(t.a_batch, z->b_batch, sizeof t.a_batch);
  memcpy(t.b_batch, z->a_batch, sizeof t.b_batch);
  return t;
}

/* What follows is written once for each REAL: float, double. */

static void rectangle_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c,
                           REAL *strip, REAL *room) {
  for (long p = 0; p == 0 || p < z->k; p += INNER) {
    const long k = least(INNER, z->k - p);
    for (long j = 0; j < n; j += BLOCK * PANEL_REAL) {
      const long wide = least(BLOCK * PANEL_REAL, n - j);
      const Panels_REAL panels =
          panels_REAL(k, wide, b + p * z->b_row + j * z->b_column, z->b_row, z->b_column, room);
      multiply_REAL(m, wide, k, a + p * z->a_column, z->a_row, z->a_column, panels, start ? start + j : 0, c + j, z->c_row,
                    strip);
    }
    start = c;
  }
}

/* Few rows: the panels of b are read where they lie, but for the last one, which may end early. */
static void thin_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c, REAL *strip,
                      REAL *room) {
  const long whole = n / PANEL_REAL * PANEL_REAL;
  if (whole < n) rectangle_REAL(z, m, n - whole, a, b + whole, start ? start + whole : 0, c + whole, strip, room);
  for (long p = 0; p == 0 || p < z->k; p += INNER, start = c) {
    const long k = least(INNER, z->k - p);
    const Panels_REAL panels = {b + p * z->b_row, z->b_row, PANEL_REAL};
    multiply_REAL(m, whole, k, a + p * z->a_column, z->a_row, z->a_column, panels, start, c, z->c_row, strip);
  }
}

static REAL total_REAL(vec_REAL x) {
  REAL sum = 0;
  for (long l = 0; l < LANES_REAL; l++) sum += x[l];
  return sum;
}

/* Few rows, and both a and b have the inner dimension element by element: sums along it. */
static void along_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c) {
  const long whole = z->k / LANES_REAL * LANES_REAL;
  for (long j = 0; j < n; j += SIDE)
    for (long i = 0; i < m; i++) {
      const REAL *left = a + i * z->a_row, *right[SIDE];
      vec_REAL sum[SIDE];
      for (long s = 0; s < SIDE; s++) right[s] = b + least(j + s, n - 1) * z->b_column, sum[s] = (vec_REAL){0};
      for (long p = 0; p < whole; p += LANES_REAL)
        for (long s = 0; s < SIDE; s++) sum[s] += *(const vec_REAL *)(left + p) * *(const vec_REAL *)(right[s] + p);
      for (long s = 0; s < least(SIDE, n - j); s++) {
        REAL found = total_REAL(sum[s]) + (start ? start[i * z->c_row + j + s] : 0);
        for (long p = whole; p < z->k; p++) found += left[p] * right[s][p];
        c[i * z->c_row + j + s] = found;
      }
    }
}

/* The product number `work / (across * along)`, its rectangle number `work % (across * along)`. */
static void piece_REAL(const Product *z, long work, long across, long along, const REAL *a, const REAL *b,
                       const REAL *start, REAL *c, REAL *strip, REAL *room) {
  const long high = (z->m + across - 1) / across;
  const long wide = wide_REAL((z->n + along - 1) / along);
  const long i = work / along % across * high, j = work % along * wide;
  if (i >= z->m || j >= z->n) return;
  const long m = least(high, z->m - i), n = least(wide, z->n - j);
  a += i * z->a_row, b += j * z->b_column;
  long place = i * z->c_row + j;
  for (long d = 2, number = work / (across * along); d >= 0; number /= z->batch[d], d--) {
    const long at = number % z->batch[d];
    a += at * z->a_batch[d], b += at * z->b_batch[d], place += at * z->c_batch[d];
  }
  c += place;
  if (start) start += place;
  if (z->m <= THIN && z->b_row == 1 && z->a_column == 1) along_REAL(z, m, n, a, b, start, c);
  else if ((z->m <= LOW || (z->m <= FLAT && z->k <= LOW)) && z->b_column == 1) thin_REAL(z, m, n, a, b, start, c, strip, room);
  else rectangle_REAL(z, m, n, a, b, start, c, strip, room);
}

/* The pieces of products that one of several threads computes; whether there was memory for them. */
static int pieces_REAL(const Product *z, long first, long last, long across, long along, const REAL *a, const REAL *b,
                      const REAL *start, REAL *c) {
  const long k = least(INNER, z->k);
  REAL *strip = room_REAL(STRIPS_REAL(k) + least(BLOCK * PANEL_REAL, wide_REAL(z->n)) * k);
  if (!strip) return 0;
  for (long w = first; w < last; w++) piece_REAL(z, w, across, along, a, b, start, c, strip, strip + STRIPS_REAL(k));
  free(strip);
  return 1;
}

int product_REAL(const Product *given, const REAL *a, const REAL *b, const REAL *start, REAL *c) {
  if (given->n == 1 && given->m > 1 && given->c_row == 1) {
    const Product other = turned(given);
    return product_REAL(&other, b, a, start, c);
  }
  const Product *z = given;
  const long products = z->batch[0] * z->batch[1] * z->batch[2], total = products * z->m * z->n * z->k;
  const long threads = omp_in_parallel() ? 1 : most(least(omp_get_max_threads(), total / SHARE), 1);
  long across, along;
  cut(z, products, threads, PANEL_REAL, &across, &along);
  const long work = products * across * along;
  if (threads == 1) return !pieces_REAL(z, 0, work, across, along, a, b, start, c);
  int failed = 0;
#pragma omp parallel num_threads(least(threads, work))
  {
    const long count = omp_get_num_threads(), thread = omp_get_thread_num();
    const long first = work * thread / count, last = work * (thread + 1) / count;
    if (!pieces_REAL(z, first, last, across, along, a, b, start, c)) {
#pragma omp atomic write
      failed = 1;
    }
  }
  return failed;
}

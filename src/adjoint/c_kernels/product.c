/* Products of matrices, and batches of them: c = start + a b. Threads come from the one pool of all kernels, each computes
   rectangles of c, and every element is the same sum however many threads there are. */

#include "tiles.c"

#define INNER 256        /* steps along the inner dimension before a tile is stored: a strip stays in the first cache */
#define BLOCK 16         /* panels that stay in the second cache */
#define THIN 8           /* rows of a product for which sums along rows of b beat copying it */
#define LOW 32           /* rows of a product for which copying b costs more than it saves, … */
#define FLAT 256         /* … those if the inner dimension is that short, too, … */
#define DENSE 2048       /* … and twice as many if rows of b are that many bytes apart at most */
#define SIDE 4           /* columns of b at once where products are sums along them, … */
#define HIGH (BYTES == 64 ? 4 : 2) /* … and rows of a */
#define NARROW 12        /* rows and columns of a product for which such sums beat copying b */
#define ASIDE 96         /* rows of a product for which a and c are transposed rather than b, … */
#define KEPT (1L << 17)  /* … if a, transposed, has no more elements than that */
#define COPY 12          /* multiplications in the time of copying one element */
#define SHARE (1L << 20) /* multiplications for each thread */
#define LITTLE (1L << 14) /* multiplications that take less time than sharing them out, … */
#define LINE 8            /* vectors of one row at once */
#define STACK (1L << 13)  /* … if strips and panels have no more elements than that */

/* Keep a vector in a register: gcc would read it from memory again for each of its products. */
#if defined(__x86_64__)
#define KEEP(x) __asm__("" : "+v"(x))
#else
#define KEEP(x) (void)(x)
#endif

typedef struct {
  long m, n, k, batch[3];                       /* c is m x n; three dimensions of products */
  long a_row, a_column, b_row, b_column, c_row; /* steps; columns of c follow each other */
  long a_batch[3], b_batch[3], c_batch[3];      /* start, if there is one, has the strides of c, and may be c */
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

/* A product with one column as a product with one row, its operands transposed. */
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

/* The first k steps of a product with panels of b that are read in place. */
static void there_REAL(const Product *z, long m, long n, long k, const REAL *a, const REAL *b, const REAL *start, REAL *c,
                       REAL *strip) {
  for (long p = 0; p < k; p += INNER, start = c) {
    const Panels_REAL panels = {b + p * z->b_row, z->b_row, PANEL_REAL};
    multiply_REAL(m, n, least(INNER, k - p), a + p * z->a_column, z->a_row, z->a_column, panels, start, c, z->c_row, strip);
  }
}

/* Few rows: the panels of b are read in place. The last panel reads missing columns from later rows, whose sums
   are dropped; if no such row follows, its steps are copied. */
static void thin_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c, REAL *strip,
                      REAL *room) {
  const long whole = z->k ? n / PANEL_REAL * PANEL_REAL : 0;
  there_REAL(z, m, whole, z->k, a, b, start, c, strip);
  if (whole == n) return;
  const long lacking = wide_REAL(n) - n, steps = z->b_row > 0 ? most(z->k - (lacking + z->b_row - 1) / z->b_row, 0) : 0;
  b += whole, c += whole;
  if (start) start += whole;
  there_REAL(z, m, n - whole, steps, a, b, start, c, strip);
  Product rest = *z;
  rest.k = z->k - steps;
  rectangle_REAL(&rest, m, n - whole, a + steps * z->a_column, b + steps * z->b_row, steps ? c : start, c, strip, room);
}

/* Few rows, and b is contiguous along the inner dimension: columns of c are products of columns of b with a, which is
   quicker to transpose than b. The columns are then transposed into rows of c. */
static void aside_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, REAL *c, REAL *strip, REAL *room) {
  const long wide = wide_REAL(m), high = STRIPS * ROWS;
  REAL *own = room, *across = room + high * wide;
  for (long p = 0; p < z->k; p += INNER)
    panels_REAL(least(INNER, z->k - p), m, a + p * z->a_column, z->a_column, z->a_row, across + p * wide);
  for (long j = 0; j < n; j += high) {
    const long rows = least(high, n - j);
    for (long p = 0; p < z->k; p += INNER) {
      const long k = least(INNER, z->k - p);
      const Panels_REAL panels = {across + p * wide, PANEL_REAL, k * PANEL_REAL};
      multiply_REAL(rows, m, k, b + j * z->b_column + p, z->b_column, 1, panels, p ? own : 0, own, wide, strip);
    }
    turn_REAL(rows, m, own, wide, c + j, z->c_row);
  }
}

/* The sums of four vectors. */
static inline __attribute__((always_inline)) void totals_REAL(vec_REAL a, vec_REAL b, vec_REAL c, vec_REAL d,
                                                              four_REAL *to) {
#if FOURS
  if (LANES_REAL >= 4) {
    four_REAL w = *(const four_REAL *)&a, x = *(const four_REAL *)&b, y = *(const four_REAL *)&c, z = *(const four_REAL *)&d;
    ALL for (int q = 1; q < LANES_REAL / 4; q++) {
      w += ((const four_REAL *)&a)[q], x += ((const four_REAL *)&b)[q];
      y += ((const four_REAL *)&c)[q], z += ((const four_REAL *)&d)[q];
    }
    const four_REAL p = MIX(w, x, 0, 4, 2, 6) + MIX(w, x, 1, 5, 3, 7);
    const four_REAL q = MIX(y, z, 0, 4, 2, 6) + MIX(y, z, 1, 5, 3, 7);
    *to = MIX(p, q, 0, 1, 4, 5) + MIX(p, q, 2, 3, 6, 7);
    return;
  }
#endif
  four_REAL sum = {0};
  for (long l = 0; l < LANES_REAL; l++) sum += (four_REAL){a[l], b[l], c[l], d[l]};
  *to = sum;
}

/* Some rows and SIDE columns of c as sums along both a and b; the last columns may be the same. */
static inline __attribute__((always_inline)) void sides_REAL(const Product *z, const int rows, long n, const REAL *a,
                                                             const REAL *b, const REAL *start, REAL *c) {
  const long whole = z->k / LANES_REAL * LANES_REAL;
  const REAL *left[HIGH], *right[SIDE];
  vec_REAL sum[HIGH][SIDE];
  ALL for (int r = 0; r < rows; r++) left[r] = a + r * z->a_row;
  ALL for (int s = 0; s < SIDE; s++) right[s] = b + least(s, n - 1) * z->b_column;
  ALL for (int r = 0; r < rows; r++)
    ALL for (int s = 0; s < SIDE; s++) sum[r][s] = (vec_REAL){0};
  for (long p = 0; p < whole; p += LANES_REAL) {
    vec_REAL y[SIDE];
    ALL for (int s = 0; s < SIDE; s++) { y[s] = *(const vec_REAL *)(right[s] + p); KEEP(y[s]); }
    ALL for (int r = 0; r < rows; r++) {
      vec_REAL x = *(const vec_REAL *)(left[r] + p);
      KEEP(x);
      ALL for (int s = 0; s < SIDE; s++) sum[r][s] += x * y[s];
    }
  }
  ALL for (int r = 0; r < rows; r++) {
    four_REAL found;
    totals_REAL(sum[r][0], sum[r][1], sum[r][2], sum[r][3], &found);
    for (long p = whole; p < z->k; p++)
      ALL for (int s = 0; s < SIDE; s++) found[s] += left[r][p] * right[s][p];
    for (long s = 0; s < least(SIDE, n); s++)
      c[r * z->c_row + s] = found[s] + (start ? start[r * z->c_row + s] : 0);
  }
}

/* Few rows, and both a and b are contiguous along the inner dimension: sums along it. */
static void along_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c) {
  for (long j = 0; j < n; j += SIDE, b += SIDE * z->b_column) {
    long i = 0;
    for (; i + HIGH <= m; i += HIGH)
      sides_REAL(z, HIGH, n - j, a + i * z->a_row, b, start ? start + i * z->c_row + j : 0, c + i * z->c_row + j);
    for (; i + 2 <= m; i += 2)
      sides_REAL(z, 2, n - j, a + i * z->a_row, b, start ? start + i * z->c_row + j : 0, c + i * z->c_row + j);
    for (; i < m; i++)
      sides_REAL(z, 1, n - j, a + i * z->a_row, b, start ? start + i * z->c_row + j : 0, c + i * z->c_row + j);
  }
}

/* Whether b is read in place. */
static int is_thin_REAL(const Product *z) {
  return z->m <= LOW || (z->m <= FLAT && z->k <= LOW) || (z->m <= 2 * LOW && z->b_row * (long)sizeof(REAL) <= DENSE);
}

/* Whether a and c are transposed rather than b: they are smaller, and fill their panels. */
static int is_aside_REAL(const Product *z, const REAL *start) {
  const long wide = wide_REAL(z->m);
  return !start && z->b_row == 1 && z->b_column != 1 && z->m <= ASIDE && 2 * z->m <= least(z->n, z->k) &&
         wide - z->m <= PANEL_REAL / 2 && wide * z->k <= KEPT;
}

/* One row of a product, some vectors of it at once: in tiles each sum would wait for the one before. */
static inline __attribute__((always_inline)) void line_REAL(const int wide, const Product *z, const REAL *a, const REAL *b,
                                                            const REAL *start, REAL *c) {
  vec_REAL sum[LINE];
  ALL for (int w = 0; w < wide; w++) sum[w] = (vec_REAL){0};
  for (long i = 0; i < z->k; i++, a += z->a_column, b += z->b_row)
    ALL for (int w = 0; w < wide; w++) sum[w] += *a * ((const vec_REAL *)b)[w];
  if (start)
    ALL for (int w = 0; w < wide; w++) sum[w] += ((const vec_REAL *)start)[w];
  ALL for (int w = 0; w < wide; w++) ((vec_REAL *)c)[w] = sum[w];
}

/* One row, of which the last elements may fill no vector. */
static void row_REAL(const Product *z, const REAL *a, const REAL *b, const REAL *start, REAL *c, REAL *strip, REAL *room) {
  long j = 0;
#define AT(p) ((p) ? (p) + j : 0)
  for (; z->n - j >= LINE * LANES_REAL; j += LINE * LANES_REAL) line_REAL(LINE, z, a, b + j, AT(start), c + j);
  if (z->n - j >= LINE / 2 * LANES_REAL) line_REAL(LINE / 2, z, a, b + j, AT(start), c + j), j += LINE / 2 * LANES_REAL;
  for (; z->n - j >= LANES_REAL; j += LANES_REAL) line_REAL(1, z, a, b + j, AT(start), c + j);
  if (j < z->n) rectangle_REAL(z, 1, z->n - j, a, b + j, AT(start), c + j, strip, room);
#undef AT
}

/* Some rows and columns of a product, computed in the way chosen for the whole product. */
static void part_of_REAL(const Product *z, long m, long n, const REAL *a, const REAL *b, const REAL *start, REAL *c,
                         REAL *strip, REAL *room) {
  const int few = z->m <= THIN || (z->m <= NARROW && z->n <= NARROW);
  if (few && z->b_row == 1 && z->a_column == 1) along_REAL(z, m, n, a, b, start, c);
  else if (z->b_column == 1 && is_thin_REAL(z)) thin_REAL(z, m, n, a, b, start, c, strip, room);
  else if (is_aside_REAL(z, start)) aside_REAL(z, m, n, a, b, c, strip, room);
  else rectangle_REAL(z, m, n, a, b, start, c, strip, room);
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
  part_of_REAL(z, m, n, a, b, start, c, strip, room);
}

/* How many elements the strips and panels of a product take. */
static long needed_REAL(const Product *z, const REAL *start) {
  const long k = least(INNER, z->k);
  const long panels = is_aside_REAL(z, start) ? wide_REAL(z->m) * (z->k + STRIPS * ROWS)
                                              : least(BLOCK * PANEL_REAL, wide_REAL(z->n)) * k;
  return STRIPS_REAL(k) + panels;
}

/* The pieces of products that one of several threads computes; whether there was memory for them. */
static int pieces_REAL(const Product *z, long first, long last, long across, long along, const REAL *a, const REAL *b,
                      const REAL *start, REAL *c) {
  const long k = least(INNER, z->k);
  REAL *strip = room_REAL(needed_REAL(z, start));
  if (!strip) return 0;
  for (long w = first; w < last; w++) piece_REAL(z, w, across, along, a, b, start, c, strip, strip + STRIPS_REAL(k));
  free(strip);
  return 1;
}

KERNEL int product_REAL(const Product *given, const REAL *a, const REAL *b, const REAL *start, REAL *c) {
  if (given->n == 1 && given->m > 1 && given->c_row == 1) {
    const Product other = turned(given);
    return product_REAL(&other, b, a, start, c);
  }
  const Product *z = given;
  const long products = z->batch[0] * z->batch[1] * z->batch[2], total = products * z->m * z->n * z->k;
  if (products == 1 && total <= LITTLE && needed_REAL(z, start) <= STACK) {
    REAL room[STACK] __attribute__((aligned(64)));
    REAL *panels = room + STRIPS_REAL(least(INNER, z->k));
    if (z->m == 1 && z->b_column == 1 && z->k <= INNER) row_REAL(z, a, b, start, c, room, panels);
    else part_of_REAL(z, z->m, z->n, a, b, start, c, room, panels);
    return 0;
  }
  const long threads = omp_in_parallel() ? 1 : most(least(TEAM, total / SHARE), 1);
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

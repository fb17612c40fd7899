/* Sums, products, extremes, sums of squares, of sizes and of what is not NaN over the middle one of three dimensions, compiled once for each
   machine. Threads share pieces whose sizes depend on the array alone, so values do not depend on their number. Sums go
   on in short runs of the own type, in several accumulators since one addition waits for the one before, and these in double;
   products are in double. NaN wins. */

#define WORTH (1L << 15) /* elements from which threads share the pieces */
#define PIECE (1L << 15) /* elements of a piece of a row */
#define PIECES 32        /* pieces of columns, at most */
#define FEWEST 8         /* and at least, where there are rows enough */
#define JOINED 8192      /* totals of all pieces of columns, which are quickly joined */
#define RUN 4096         /* elements of a run along a row */
#define FEW 64           /* rows of a run along columns */
#define NEAR 128         /* columns whose totals one thread joins */
#define SIDE 1024        /* columns at once: rows of some thousand bytes are separate pages, each read once */
#define INLINE static inline __attribute__((always_inline))

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define SELF(v) (v)
#define SQUARE(v) ((v) * (v))
#define PRESENT(v) ((v) == (v) ? (v) : 0)

/* What follows is written once for each REAL: float, double. */

INLINE REAL larger(REAL a, REAL b) {
  const REAL one = b > a ? b : a;
  return b != b ? b : one;
}
INLINE REAL smaller(REAL a, REAL b) {
  const REAL one = b < a ? b : a;
  return b != b ? b : one;
}
INLINE REAL size(REAL v) { return v < 0 ? -v : v; }
/* Halves of a row of accumulators joined, in vectors as long as there are some. */
#define HALF(JOIN, n)                                                                            \
  _Pragma("omp simd")                                                                            \
  for (int l = 0; l < n; l++) part[l] = JOIN(part[l], part[l + n]);
/* One row: NAME_row(x, n), in 64 accumulators. */
#define OVER_ROW(NAME, TYPE, START, JOIN, ONE)                                                   \
  static double NAME##_row(const REAL *x, long n) {                                              \
    double total = START;                                                                        \
    for (long b = 0; b < n; b += RUN) {                                                          \
      const long last = n - b < RUN ? n : b + RUN;                                               \
      long i = b;                                                                                \
      TYPE part[64];                                                                             \
      for (int l = 0; l < 64; l++) part[l] = START;                                              \
      for (; i + 64 <= last; i += 64) {                                                          \
        _Pragma("omp simd")                                                                      \
        for (int l = 0; l < 64; l++) part[l] = JOIN(part[l], (TYPE)ONE(x[i + l]));               \
      }                                                                                          \
      _Pragma("omp simd")                                                                        \
      for (long l = 0; l < last - i; l++) part[l] = JOIN(part[l], (TYPE)ONE(x[i + l]));          \
      HALF(JOIN, 32) HALF(JOIN, 16) HALF(JOIN, 8) HALF(JOIN, 4)                                  \
      total = JOIN(total, (double)JOIN(JOIN(part[0], part[2]), JOIN(part[1], part[3])));         \
    }                                                                                            \
    return total;                                                                                \
  }

/* Sums and products in vectors; the last vector of a row may overlap the one before. */
typedef REAL vec __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef __typeof__((vec){0} < (vec){0}) truth;
#define LANES ((long)(64 / sizeof(REAL)))

INLINE vec all(REAL v) { return (vec){0} + v; }
INLINE vec present_of(vec v) { return (vec)((truth)v & (v == v)); }
INLINE vec sizes_of(vec v) { return (vec)((truth)v & ~(truth)(-(vec){0})); }
/* The last `count` elements of a row at the end of a vector; `start` in the place of the others. */
INLINE vec last_of(const REAL *end, long count, REAL start) {
  REAL lane[LANES];
  for (long l = 0; l < LANES; l++) lane[l] = (REAL)l;
  const truth own = *(const vec *)lane >= all((REAL)(LANES - count));
  return (vec)(((truth) * (const vec *)(end - LANES) & own) | ((truth)all(start) & ~own));
}
/* At least LANES elements, in four vectors: one addition waits for the one before. */
#define OVER_RUN(NAME, START, JOIN, ONE)                                                         \
  INLINE void NAME##_run(const REAL *x, long n, vec *part) {                                     \
    vec a = all(START), b = a, c = a, d = a;                                                     \
    long i = 0;                                                                                  \
    for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                 \
      const vec *from = (const vec *)(x + i);                                                    \
      a = JOIN(a, ONE(from[0])), b = JOIN(b, ONE(from[1]));                                      \
      c = JOIN(c, ONE(from[2])), d = JOIN(d, ONE(from[3]));                                      \
    }                                                                                            \
    for (; i + LANES <= n; i += LANES) a = JOIN(a, ONE(*(const vec *)(x + i)));                  \
    if (i < n) b = JOIN(b, ONE(last_of(x + n, n - i, START)));                                   \
    part[0] = a, part[1] = b, part[2] = c, part[3] = d;                                          \
  }
/* The length of the run that begins at i: the last one is not shorter than a vector. */
INLINE long run_of(long i, long n, long most) { return n - i < most + LANES ? n - i : most; }
#define SUM_OVER_ROW(NAME, ONE, ONE_VECTOR)                                                      \
  OVER_RUN(NAME, 0, ADD, ONE_VECTOR)                                                             \
  static double NAME##_row(const REAL *x, long n) {                                              \
    double total = 0;                                                                            \
    if (n < LANES) {                                                                             \
      for (long i = 0; i < n; i++) total += ONE(x[i]);                                           \
      return total;                                                                              \
    }                                                                                            \
    for (long b = 0, m; b < n; b += m) {                                                         \
      m = run_of(b, n, RUN);                                                                     \
      vec found[4];                                                                              \
      NAME##_run(x + b, m, found);                                                               \
      REAL part[LANES];                                                                          \
      *(vec *)part = (found[0] + found[1]) + (found[2] + found[3]);                              \
      if (LANES == 16) HALF(ADD, 8)                                                              \
      HALF(ADD, 4)                                                                               \
      total += (part[0] + part[2]) + (part[1] + part[3]);                                        \
    }                                                                                            \
    return total;                                                                                \
  }
/* The totals of some rows of columns, four at once; and totals joined to others. */
#define OVER_COLUMNS(NAME, TYPE, JOIN, ONE)                                                      \
  static void NAME##_columns(const REAL *from, long rows, long step, long columns, double *total) { \
    for (long b = 0; b < rows; b += FEW) {                                                       \
      TYPE part[SIDE];                                                                           \
      const long last = rows < b + FEW ? rows : b + FEW;                                         \
      const REAL *own = from + b * step;                                                         \
      for (long c = 0; c < columns; c++) part[c] = (TYPE)ONE(own[c]);                            \
      long i = b + 1;                                                                            \
      for (; i + 4 <= last; i += 4) {                                                            \
        const REAL *f = from + i * step, *g = f + step, *h = g + step, *k = h + step;            \
        _Pragma("omp simd")                                                                      \
        for (long c = 0; c < columns; c++) {                                                     \
          const TYPE one = JOIN((TYPE)ONE(f[c]), (TYPE)ONE(g[c]));                               \
          const TYPE two = JOIN((TYPE)ONE(h[c]), (TYPE)ONE(k[c]));                               \
          const TYPE both = JOIN(one, two);                                                      \
          part[c] = JOIN(part[c], both);                                                         \
        }                                                                                        \
      }                                                                                          \
      for (; i < last; i++)                                                                      \
        for (long c = 0; c < columns; c++) part[c] = JOIN(part[c], (TYPE)ONE(from[i * step + c])); \
      if (!b)                                                                                    \
        for (long c = 0; c < columns; c++) total[c] = (double)part[c];                           \
      else                                                                                       \
        for (long c = 0; c < columns; c++) total[c] = JOIN(total[c], (double)part[c]);           \
    }                                                                                            \
  }
#define OVER_TOTALS(NAME, JOIN)                                                                  \
  static void NAME##_totals(long n, const double *more, double *total) {                         \
    for (long c = 0; c < n; c++) total[c] = JOIN(total[c], more[c]);                             \
  }

OVER_TOTALS(sum, ADD)
OVER_TOTALS(product, MULTIPLY)
OVER_TOTALS(largest, larger)
OVER_TOTALS(smallest, smaller)

SUM_OVER_ROW(sum, SELF, SELF)
OVER_COLUMNS(sum, REAL, ADD, SELF)
SUM_OVER_ROW(present, PRESENT, present_of)
OVER_COLUMNS(present, REAL, ADD, PRESENT)
SUM_OVER_ROW(squares, SQUARE, SQUARE)
OVER_COLUMNS(squares, REAL, ADD, SQUARE)
SUM_OVER_ROW(sizes, size, sizes_of)
OVER_COLUMNS(sizes, REAL, ADD, size)
OVER_ROW(largest, REAL, -__builtin_inf(), larger, SELF)
OVER_COLUMNS(largest, REAL, larger, SELF)
OVER_ROW(smallest, REAL, __builtin_inf(), smaller, SELF)
OVER_COLUMNS(smallest, REAL, smaller, SELF)

/* Products run in the type itself as long as no accumulator leaves the middle of its range. */
OVER_ROW(exact_product, double, 1, MULTIPLY, SELF)
OVER_COLUMNS(exact_product, double, MULTIPLY, SELF)
OVER_RUN(product, 1, MULTIPLY, SELF)

INLINE int is_far(const REAL *found, long n) {
  int far = 0;
#pragma omp simd reduction(| : far)
  for (long l = 0; l < n; l++) far |= !(size(found[l]) > (REAL)1e-30) | !(size(found[l]) < (REAL)1e30);
  return far && sizeof(REAL) < sizeof(double);
}

static double product_row(const REAL *x, long n) {
  if (n < LANES) return exact_product_row(x, n);
  double part[64];
  for (long l = 0; l < 64; l++) part[l] = 1;
  for (long b = 0, m; b < n; b += m) {
    m = run_of(b, n, 1024);
    vec found[4];
    product_run(x + b, m, found);
    const REAL *own = (const REAL *)found;
    if (is_far(own, 4 * LANES)) part[0] *= exact_product_row(x + b, m);
    else {
#pragma omp simd
      for (long l = 0; l < 4 * LANES; l++) part[l] *= own[l];
    }
  }
  HALF(MULTIPLY, 32) HALF(MULTIPLY, 16) HALF(MULTIPLY, 8) HALF(MULTIPLY, 4)
  return (part[0] * part[2]) * (part[1] * part[3]);
}

static void product_columns(const REAL *from, long rows, long step, long columns, double *total) {
  for (long c = 0; c < columns; c++) total[c] = 1;
  for (long b = 0; b < rows; b += FEW / 2, from += FEW / 2 * step) {
    REAL part[SIDE];
    const long few = rows - b < FEW / 2 ? rows - b : FEW / 2;
    for (long c = 0; c < columns; c++) part[c] = 1;
    long i = 0;
    for (; i + 4 <= few; i += 4) {
      const REAL *f = from + i * step, *g = f + step, *h = g + step, *k = h + step;
#pragma omp simd
      for (long c = 0; c < columns; c++) part[c] *= (f[c] * g[c]) * (h[c] * k[c]);
    }
    for (; i < few; i++)
      for (long c = 0; c < columns; c++) part[c] *= from[i * step + c];
    if (is_far(part, columns)) {
      double exact[SIDE];
      exact_product_columns(from, few, step, columns, exact);
      for (long c = 0; c < columns; c++) total[c] *= exact[c];
    } else
      for (long c = 0; c < columns; c++) total[c] *= part[c];
  }
}

typedef struct {
  double (*row)(const REAL *, long);
  void (*columns)(const REAL *, long, long, long, double *);
  void (*totals)(long, const double *, double *);
} Kind;
static const Kind kinds[] = {
    {sum_row, sum_columns, sum_totals},
    {product_row, product_columns, product_totals},
    {largest_row, largest_columns, largest_totals},
    {smallest_row, smallest_columns, smallest_totals},
    {squares_row, squares_columns, sum_totals},
    {sizes_row, sizes_columns, sum_totals},
    {present_row, present_columns, sum_totals},
};

/* Rows, in pieces of which there are several only where a row is long. */
static int reduce_rows(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], cuts = (n + PIECE - 1) / PIECE, step = sizes[4];
  const Kind own = kinds[sizes[3]];
  if (cuts == 1) {
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n > WORTH)
    for (long o = 0; o < outer; o++) y[o] = (REAL)own.row(x + o * step, n);
    return 0;
  }
  double *totals = malloc(sizeof(double) * (size_t)(outer * cuts));
  if (!totals) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n > WORTH)
  for (long o = 0; o < outer; o++)
    for (long cut = 0; cut < cuts; cut++)
      totals[o * cuts + cut] = own.row(x + o * step + cut * PIECE, least(n - cut * PIECE, PIECE));
  for (long o = 0; o < outer; o++) {
    double *total = totals + o * cuts;
    for (long k = 1; k < cuts; k++) own.totals(1, total + k, total);
    y[o] = (REAL)*total;
  }
  free(totals);
  return 0;
}

/* Columns, side by side, and cut only where there are too few of them for all threads. */
static int reduce_columns(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], *steps = sizes + 4;
  const Kind own = kinds[sizes[3]];
  const long sides = (inner + SIDE - 1) / SIDE, strips = outer * sides;
  const long many = JOINED / (outer * inner) < FEWEST ? FEWEST : least(JOINED / (outer * inner), PIECES);
  const long wanted = strips < PIECES ? least(many, (n + FEW - 1) / FEW) : 1;
  const long each = ((n + wanted - 1) / wanted + 3) / 4 * 4, cuts = (n + each - 1) / each;
  double *totals = cuts > 1 ? malloc(sizeof(double) * (size_t)(strips * cuts * SIDE)) : NULL;
  if (cuts > 1 && !totals) return 1;
#pragma omp parallel num_threads(TEAM) if (outer * n * inner > WORTH)
  {
#pragma omp for schedule(static) collapse(2)
    for (long strip = 0; strip < strips; strip++)
      for (long cut = 0; cut < cuts; cut++) {
        const long o = strip / sides, first = strip % sides * SIDE, columns = least(inner - first, SIDE);
        const REAL *from = x + o * steps[0] + cut * each * steps[1] + first;
        double found[SIDE], *total = totals ? totals + (strip * cuts + cut) * SIDE : found;
        own.columns(from, least(n - cut * each, each), steps[1], columns, total);
        if (!totals)
          for (long c = 0; c < columns; c++) y[o * inner + first + c] = (REAL)found[c];
      }
#pragma omp for schedule(static) collapse(2)
    for (long strip = 0; strip < (totals ? strips : 0); strip++)
      for (long c = 0; c < SIDE; c += NEAR) {
        const long o = strip / sides, first = strip % sides * SIDE + c, columns = least(inner - first, NEAR);
        double *total = totals + strip * cuts * SIDE + c;
        for (long k = 1; k < cuts && columns > 0; k++) own.totals(columns, total + k * SIDE, total);
        for (long i = 0; i < columns; i++) y[o * inner + first + i] = (REAL)total[i];
      }
  }
  free(totals);
  return 0;
}

/* sizes: the three dimensions, the kind, and the steps of the first two; the elements of the last one lie side by side,
   and so do those of rows, whose last dimension is 1. */
int reduce_REAL(const long *sizes, const REAL *x, REAL *y) {
  return sizes[2] == 1 ? reduce_rows(sizes, x, y) : reduce_columns(sizes, x, y);
}

/* Two totals of a piece, of its first, third, .. numbers and of the others. */
static void pairs_piece(const REAL *x, long n, double *total) {
  total[0] = total[1] = 0;
  for (long b = 0, m; b < n; b += m) {
    m = run_of(b, n, RUN);
    REAL part[LANES] = {0};
    if (m < LANES)
      for (long i = 0; i < m; i++) part[i] = x[b + i];
    else {
      vec found[4];
      sum_run(x + b, m, found);
      *(vec *)part = (found[0] + found[1]) + (found[2] + found[3]);
    }
    if (LANES == 16) HALF(ADD, 8)
    HALF(ADD, 4)
    total[0] += part[0] + part[2], total[1] += part[1] + part[3];
  }
}

/* The sum of complex numbers. sizes: how many. */
int pairs_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long n = 2 * sizes[0], cuts = (n + PIECE - 1) / PIECE;
  double *totals = malloc(2 * sizeof(double) * (size_t)(cuts + 1)), re = 0, im = 0;
  if (!totals) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (n > WORTH)
  for (long cut = 0; cut < cuts; cut++)
    pairs_piece(x + cut * PIECE, least(n - cut * PIECE, PIECE), totals + 2 * cut);
  for (long cut = 0; cut < cuts; cut++) re += totals[2 * cut], im += totals[2 * cut + 1];
  y[0] = (REAL)re, y[1] = (REAL)im;
  free(totals);
  return 0;
}

/* Products of a piece of two rows, added in runs of four vectors. */
static double dot_piece(const REAL *x, const REAL *y, long n) {
  double total = 0;
  for (long b = 0; b < n; b += RUN) {
    const long last = least(n, b + RUN);
    vec part[4] = {{0}, {0}, {0}, {0}};
    REAL sums[LANES], rest = 0;
    long i = b;
    for (; i + 4 * LANES <= last; i += 4 * LANES)
      for (int k = 0; k < 4; k++) part[k] += *(const vec *)(x + i + k * LANES) * *(const vec *)(y + i + k * LANES);
    for (; i < last; i++) rest += x[i] * y[i];
    *(vec *)sums = (part[0] + part[1]) + (part[2] + part[3]);
    for (long l = 0; l < LANES; l++) rest += sums[l];
    total += rest;
  }
  return total;
}

/* sizes: how many elements. */
int dot_REAL(const long *sizes, const REAL *x, const REAL *y, REAL *to) {
  const long n = sizes[0], cuts = (n + PIECE - 1) / PIECE;
  double *totals = malloc(sizeof(double) * (size_t)(cuts + 1)), total = 0;
  if (!totals) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (n > WORTH)
  for (long cut = 0; cut < cuts; cut++)
    totals[cut] = dot_piece(x + cut * PIECE, y + cut * PIECE, least(n - cut * PIECE, PIECE));
  for (long cut = 0; cut < cuts; cut++) total += totals[cut];
  *to = (REAL)total;
  free(totals);
  return 0;
}

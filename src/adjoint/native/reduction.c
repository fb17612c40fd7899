/* Sums, products, extremes, sums of squares and of sizes over the middle one of three dimensions, compiled once for each
   machine. Threads share pieces whose sizes depend on the array alone, so values do not depend on their number. Sums go
   on in short runs of the own type, in several accumulators since one addition waits for the one before, and these in double;
   products are in double. NaN wins. */

#define WORTH (1L << 15) /* elements from which threads share the pieces */
#define PIECE (1L << 15) /* elements of a piece */
#define RUN 4096         /* elements of a run along a row */
#define FEW 64           /* rows of a run along columns */
#define SIDE 1024        /* columns at once */
#define INLINE static inline __attribute__((always_inline))

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define SELF(v) (v)
#define SQUARE(v) ((v) * (v))

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

/* Sums and products in vectors, whose last part is read again where a row does not end with one. */
typedef REAL vec __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef __typeof__((vec){0} < (vec){0}) truth;
#define LANES ((long)(64 / sizeof(REAL)))

INLINE vec all(REAL v) { return (vec){0} + v; }
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
/* Some rows of `wide` columns, joined to totals, four at once; and totals joined to others. */
#define OVER_COLUMNS(NAME, TYPE, START, JOIN, ONE)                                               \
  static void NAME##_columns(const REAL *from, long rows, long step, long columns, double *total) { \
    for (long b = 0; b < rows; b += FEW) {                                                       \
      TYPE part[SIDE];                                                                           \
      const long last = rows < b + FEW ? rows : b + FEW;                                         \
      for (long c = 0; c < columns; c++) part[c] = START;                                        \
      long i = b;                                                                                \
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
      for (long c = 0; c < columns; c++) total[c] = JOIN(total[c], (double)part[c]);             \
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
OVER_COLUMNS(sum, REAL, 0, ADD, SELF)
SUM_OVER_ROW(squares, SQUARE, SQUARE)
OVER_COLUMNS(squares, REAL, 0, ADD, SQUARE)
SUM_OVER_ROW(sizes, size, sizes_of)
OVER_COLUMNS(sizes, REAL, 0, ADD, size)
OVER_ROW(largest, REAL, -__builtin_inf(), larger, SELF)
OVER_COLUMNS(largest, REAL, -__builtin_inf(), larger, SELF)
OVER_ROW(smallest, REAL, __builtin_inf(), smaller, SELF)
OVER_COLUMNS(smallest, REAL, __builtin_inf(), smaller, SELF)

/* Products go on in runs of the own type as long as none of its accumulators leaves the middle of its range. */
OVER_ROW(exact_product, double, 1, MULTIPLY, SELF)
OVER_COLUMNS(exact_product, double, 1, MULTIPLY, SELF)
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
    if (is_far(part, columns)) exact_product_columns(from, few, step, columns, total);
    else
      for (long c = 0; c < columns; c++) total[c] *= part[c];
  }
}

typedef struct {
  double start;
  double (*row)(const REAL *, long);
  void (*columns)(const REAL *, long, long, long, double *);
  void (*totals)(long, const double *, double *);
} Kind;
static const Kind kinds[] = {
    {0, sum_row, sum_columns, sum_totals},
    {1, product_row, product_columns, product_totals},
    {-__builtin_inf(), largest_row, largest_columns, largest_totals},
    {__builtin_inf(), smallest_row, smallest_columns, smallest_totals},
    {0, squares_row, squares_columns, sum_totals},
    {0, sizes_row, sizes_columns, sum_totals},
};

/* sizes: the three dimensions, and the kind. */
int reduce_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2];
  const Kind own = kinds[sizes[3]];
  const long sides = (inner + SIDE - 1) / SIDE, width = inner < SIDE ? inner : SIDE;
  const long each = PIECE / width, cuts = (n + each - 1) / each, pieces = outer * sides * cuts;
  double *totals = malloc(sizeof(double) * (size_t)(pieces * width));
  if (!totals) return 1;
#pragma omp parallel for schedule(static) collapse(3) if (outer * n * inner > WORTH)
  for (long o = 0; o < outer; o++)
    for (long side = 0; side < sides; side++)
      for (long cut = 0; cut < cuts; cut++) {
        const long first = cut * each, rows = n - first < each ? n - first : each;
        const long columns = inner - side * SIDE < width ? inner - side * SIDE : width;
        const REAL *from = x + (o * n + first) * inner + side * SIDE;
        double *total = totals + ((o * sides + side) * cuts + cut) * width;
        if (inner == 1) *total = own.row(from, rows);
        else {
          for (long c = 0; c < columns; c++) total[c] = own.start;
          own.columns(from, rows, inner, columns, total);
        }
      }
  double *total = totals;
  for (long o = 0; o < outer; o++)
    for (long side = 0; side < sides; side++, total += cuts * width) {
      const long columns = inner - side * SIDE < width ? inner - side * SIDE : width;
      REAL *to = y + o * inner + side * SIDE;
      for (long k = 1; k < cuts; k++) own.totals(columns, total + k * width, total);
      for (long c = 0; c < columns; c++) to[c] = (REAL)total[c];
    }
  free(totals);
  return 0;
}

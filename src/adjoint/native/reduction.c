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
/* Some rows of `wide` columns, joined to totals, four at once. */
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

#define OVER(NAME, TYPE, START, JOIN, ONE)                                                       \
  OVER_ROW(NAME, TYPE, START, JOIN, ONE)                                                         \
  OVER_COLUMNS(NAME, TYPE, START, JOIN, ONE)

OVER(sum, REAL, 0, ADD, SELF)
OVER(exact_product, double, 1, MULTIPLY, SELF)
OVER_COLUMNS(product, double, 1, MULTIPLY, SELF)

/* In runs of the own type as long as none of its accumulators leaves the middle of its range. */
static double product_row(const REAL *x, long n) {
  double total = 1;
  long b = 0;
  for (long m; b + 64 <= n; b += m) {
    m = n - b < 1024 ? (n - b) / 64 * 64 : 1024;
    REAL own[64];
    for (int l = 0; l < 64; l++) own[l] = 1;
    for (long i = b; i < b + m; i += 64) {
#pragma omp simd
      for (int l = 0; l < 64; l++) own[l] *= x[i + l];
    }
    double part[64];
    int far = 0;
#pragma omp simd reduction(| : far)
    for (int l = 0; l < 64; l++) {
      const REAL v = size(own[l]);
      far |= !(v > (REAL)1e-30) | !(v < (REAL)1e30);
      part[l] = own[l];
    }
    if (far) {
      total *= exact_product_row(x + b, m);
      continue;
    }
    HALF(MULTIPLY, 32) HALF(MULTIPLY, 16) HALF(MULTIPLY, 8) HALF(MULTIPLY, 4)
    total *= (part[0] * part[2]) * (part[1] * part[3]);
  }
  for (; b < n; b++) total *= x[b];
  return total;
}
OVER(largest, REAL, -__builtin_inf(), larger, SELF)
OVER(smallest, REAL, __builtin_inf(), smaller, SELF)
OVER(squares, REAL, 0, ADD, SQUARE)
OVER(sizes, REAL, 0, ADD, size)

typedef struct {
  double start;
  double (*row)(const REAL *, long);
  void (*columns)(const REAL *, long, long, long, double *);
} Kind;
enum { SUM, PRODUCT, LARGEST, SMALLEST, SQUARES, SIZES };
static const Kind kinds[] = {
    {0, sum_row, sum_columns},
    {1, product_row, product_columns},
    {-__builtin_inf(), largest_row, largest_columns},
    {__builtin_inf(), smallest_row, smallest_columns},
    {0, squares_row, squares_columns},
    {0, sizes_row, sizes_columns},
};

static double joined(long kind, double a, double b) {
  if (kind == PRODUCT) return a * b;
  if (kind == LARGEST) return larger(a, b);
  if (kind == SMALLEST) return smaller(a, b);
  return a + b;
}

/* sizes: the three dimensions, and the kind. */
int reduce_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], kind = sizes[3];
  const Kind own = kinds[kind];
  const long sides = (inner + SIDE - 1) / SIDE, width = inner < SIDE ? inner : SIDE;
  const long each = PIECE / width, cuts = (n + each - 1) / each, pieces = outer * sides * cuts;
  double *totals = malloc(sizeof(double) * (size_t)(pieces * width));
  if (!totals) return 1;
#pragma omp parallel for schedule(static) if (outer * n * inner > WORTH)
  for (long p = 0; p < pieces; p++) {
    const long side = p / cuts % sides, first = p % cuts * each, rows = n - first < each ? n - first : each;
    const long columns = inner - side * SIDE < width ? inner - side * SIDE : width;
    const REAL *from = x + (p / cuts / sides * n + first) * inner + side * SIDE;
    double *total = totals + p * width;
    for (long c = 0; c < columns; c++) total[c] = own.start;
    if (inner == 1) *total = own.row(from, rows);
    else own.columns(from, rows, inner, columns, total);
  }
  for (long q = 0; q < outer * sides; q++) {
    const long columns = inner - q % sides * SIDE < width ? inner - q % sides * SIDE : width;
    REAL *to = y + q / sides * inner + q % sides * SIDE;
    const double *part = totals + q * cuts * width;
    for (long c = 0; c < columns; c++) {
      double total = part[c];
      for (long k = 1; k < cuts; k++) total = joined(kind, total, part[k * width + c]);
      to[c] = (REAL)total;
    }
  }
  free(totals);
  return 0;
}

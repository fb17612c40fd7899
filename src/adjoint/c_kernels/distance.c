/* Distances of points, compiled once for each machine: exact differences, not products, so that points which coincide have
   the distance 0. The other points lie in blocks by coordinates, so that vectors run along them; threads share the points. */

#define ROWS 16 /* points for which a block of other points stays in the first cache */
#define RUN 128 /* coordinates of a sum in vectors */
#define WORTH (1L << 15)
#define LINES __attribute__((aligned(64)))

/* What follows is written once for each REAL: float, double. */

#define SIDE (256 / (long)sizeof(REAL)) /* other points at once */

/* Sums of STEP over the coordinates, joined to totals run by run. */
#define OVER(STEP)                                                   \
  for (long b = 0; b < width; b += RUN) {                            \
    REAL part[SIDE];                                                 \
    const long last = b + RUN < width ? b + RUN : width;             \
    for (int c = 0; c < SIDE; c++) part[c] = 0;                      \
    for (long k = b; k < last; k++) {                                \
      const REAL own = x[k], *from = other + k * SIDE;              \
      _Pragma("omp simd")                                            \
      for (int c = 0; c < SIDE; c++) {                               \
        const REAL d = own - from[c];                                \
        part[c] += STEP;                                             \
      }                                                              \
    }                                                                \
    for (int c = 0; c < SIDE; c++) total[c] += part[c];              \
  }

typedef REAL vec __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
#define LANES ((long)(64 / sizeof(REAL)))
#define VECS (SIDE * (long)sizeof(REAL) / 64)

/* Sums of a run for two points at once: each addition waits for the one before, so two chains run side by side. */
typedef union {
  vec each[2 * VECS];
  REAL lane[2 * SIDE];
} Sums;
static inline Sums squares_of(long count, const REAL *x, const REAL *second, const REAL *other) {
  Sums part = {.lane = {0}};
  for (long k = 0; k < count; k++) {
    const vec *from = (const vec *)(other + k * SIDE);
    const vec own = x[k] - (vec){0}, more = second[k] - (vec){0};
#pragma GCC unroll 8
    for (long v = 0; v < VECS; v++) {
      const vec d = own - from[v], e = more - from[v];
      part.each[v] += d * d, part.each[VECS + v] += e * e;
    }
  }
  return part;
}
static void squares(long width, const REAL *x, const REAL *second, const REAL *other, REAL *y) {
  Sums part = squares_of(width < RUN ? width : RUN, x, second, other);
  if (width <= RUN) {
#pragma omp simd
    for (int c = 0; c < 2 * SIDE; c++) y[c] = (REAL)__builtin_sqrt(part.lane[c]);
    return;
  }
  double total[2 * SIDE] LINES;
  for (int c = 0; c < 2 * SIDE; c++) total[c] = part.lane[c];
  for (long b = RUN; b < width; b += RUN) {
    part = squares_of(width - b < RUN ? width - b : RUN, x + b, second + b, other + b * SIDE);
    for (int c = 0; c < 2 * SIDE; c++) total[c] += part.lane[c];
  }
#pragma omp simd
  for (int c = 0; c < 2 * SIDE; c++) y[c] = (REAL)__builtin_sqrt(total[c]);
}
static void sizes_of(long width, const REAL *x, const REAL *other, REAL *y) {
  double total[SIDE] = {0};
  OVER(d < 0 ? -d : d)
  for (int c = 0; c < SIDE; c++) y[c] = (REAL)total[c];
}
static void largest(long width, const REAL *x, const REAL *other, REAL *y) {
  REAL most[SIDE] = {0};
  for (long k = 0; k < width; k++) {
    const REAL own = x[k], *from = other + k * SIDE;
#pragma omp simd
    for (int c = 0; c < SIDE; c++) {
      const REAL d = own - from[c], size = d < 0 ? -d : d, top = size > most[c] ? size : most[c];
      most[c] = d != d ? d : top;
    }
  }
  memcpy(y, most, sizeof most);
}

/* The distances of two points from a block of others. */
static void both(const long *sizes, const REAL *x, const REAL *second, const REAL *other, REAL *y) {
  if (sizes[3] == 2) squares(sizes[2], x, second, other, y);
  else {
    void (*one)(long, const REAL *, const REAL *, REAL *) = sizes[3] == 1 ? sizes_of : largest;
    one(sizes[2], x, other, y), one(sizes[2], second, other, y + SIDE);
  }
}

/* sizes: points, others, coordinates, and 1, 2, or 0 for the largest difference. The others are blocks of SIDE points, each
   by coordinates; the last one is filled up. */
int distances_REAL(const long *sizes, const REAL *x, const REAL *other, REAL *y) {
  const long rows = sizes[0], count = sizes[1], width = sizes[2];
#pragma omp parallel for num_threads(TEAM) schedule(static) if (rows * count * width > WORTH)
  for (long first = 0; first < rows; first += ROWS)
    for (long c = 0; c < count; c += SIDE)
      for (long r = first; r < rows && r < first + ROWS; r += 2) {
        const long s = r + 1 < rows ? r + 1 : r;
        const size_t bytes = (size_t)(count - c < SIDE ? count - c : SIDE) * sizeof(REAL);
        REAL found[2 * SIDE] LINES;
        both(sizes, x + r * width, x + s * width, other + c * width, found);
        memcpy(y + r * count + c, found, bytes), memcpy(y + s * count + c, found + SIDE, bytes);
      }
  return 0;
}

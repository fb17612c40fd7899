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
static void both(long width, long kind, const REAL *x, const REAL *second, const REAL *other, REAL *y) {
  if (kind == 2) squares(width, x, second, other, y);
  else {
    void (*one)(long, const REAL *, const REAL *, REAL *) = kind == 1 ? sizes_of : largest;
    one(width, x, other, y), one(width, second, other, y + SIDE);
  }
}

/* A Euclidean distance whose squares are too large or too small. */
static REAL scaled(long width, const REAL *x, const REAL *other) {
  REAL top = 0;
  double total = 0;
  for (long k = 0; k < width; k++) {
    const REAL d = x[k] - other[k * SIDE], size = d < 0 ? -d : d;
    top = size > top || d != d ? size : top;
    if (d != d) return d;
  }
  if (top == 0 || top - top != 0) return top;
  for (long k = 0; k < width; k++) {
    const double d = (x[k] - other[k * SIDE]) / top;
    total += d * d;
  }
  return (REAL)(top * __builtin_sqrt(total));
}

/* Compute again the distances of a point from `count` others whose squares may have lost something. */
static void mend(long width, long count, const REAL *x, const REAL *other, REAL *y) {
  const REAL least = sizeof(REAL) == 4 ? (REAL)0x1p-40 : (REAL)0x1p-400;
  const REAL most = sizeof(REAL) == 4 ? (REAL)0x1p60 : (REAL)0x1p500;
  int odd = 0;
#pragma omp simd reduction(| : odd)
  for (long c = 0; c < count; c++) odd |= !(y[c] > least) | !(y[c] < most);
  for (long c = 0; odd && c < count; c++)
    if (!(y[c] > least && y[c] < most)) y[c] = scaled(width, x, other + c);
}

/* The other points in blocks of SIDE, each by coordinates; the last one is filled up. */
static void pack(long count, long width, const REAL *from, REAL *to) {
  for (long first = 0; first < count; first += SIDE, to += width * SIDE)
    for (long c = 0; c < SIDE; c++)
      for (long k = 0; k < width; k++) to[k * SIDE + c] = first + c < count ? from[(first + c) * width + k] : 0;
}

/* Distances of points in each of some clouds. sizes: clouds, points, others, coordinates, and 1, 2, or 0 for the largest
   difference. */
int distances_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long rows = sizes[1], count = sizes[2], width = sizes[3], blocks = (count + SIDE - 1) / SIDE;
  REAL *others = aligned_alloc(64, (size_t)(blocks * width * SIDE + SIDE) * sizeof(REAL));
  if (!others) return 1;
  for (long cloud = 0; cloud < sizes[0]; cloud++) {
    const REAL *points = (const REAL *)given[0] + cloud * rows * width;
    REAL *y = (REAL *)made[0] + cloud * rows * count;
    pack(count, width, (const REAL *)given[1] + cloud * count * width, others);
#pragma omp parallel for num_threads(TEAM) schedule(static) if (rows * count * width > WORTH)
    for (long first = 0; first < rows; first += ROWS)
      for (long c = 0; c < count; c += SIDE)
        for (long r = first; r < rows && r < first + ROWS; r += 2) {
          const long s = r + 1 < rows ? r + 1 : r, here = count - c < SIDE ? count - c : SIDE;
          const REAL *other = others + c * width;
          REAL found[2 * SIDE] LINES;
          both(width, sizes[4], points + r * width, points + s * width, other, found);
          for (long k = 0; sizes[4] == 2 && k < 2; k++)
            mend(width, here, points + (k ? s : r) * width, other, found + k * SIDE);
          memcpy(y + r * count + c, found, here * sizeof(REAL));
          memcpy(y + s * count + c, found + SIDE, here * sizeof(REAL));
        }
  }
  free(others);
  return 0;
}

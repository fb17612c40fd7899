/* Distances of points, compiled once for each machine: exact differences, not products, so that points which coincide have
   the distance 0. The other points lie in blocks by coordinates, so that vectors run along them; threads share the points. */

#define SIDE 64 /* other points at once */
#define RUN 64  /* coordinates of a sum in vectors */
#define WORTH (1L << 15)

/* What follows is written once for each REAL: float, double. */

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

static void squares(long width, const REAL *x, const REAL *other, REAL *y) {
  double total[SIDE] = {0};
  for (long b = 0; b < width; b += RUN) {
    const long last = b + RUN < width ? b + RUN : width;
    vec part[VECS] = {{0}};
    for (long k = b; k < last; k++) {
      const vec *from = (const vec *)(other + k * SIDE);
      const vec own = (vec){0} + x[k];
#pragma GCC unroll 8
      for (long v = 0; v < VECS; v++) part[v] += (own - from[v]) * (own - from[v]);
    }
    for (long v = 0; v < VECS; v++)
      for (long l = 0; l < LANES; l++) total[v * LANES + l] += part[v][l];
  }
  for (int c = 0; c < SIDE; c++) y[c] = (REAL)__builtin_sqrt(total[c]);
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

/* sizes: points, others, coordinates, and 1, 2, or 0 for the largest difference. The others, a multiple of SIDE, are blocks of SIDE points, each by
   coordinates; rows of y are as long. */
int distances_REAL(const long *sizes, const REAL *x, const REAL *other, REAL *y) {
  const long rows = sizes[0], count = sizes[1], width = sizes[2];
#pragma omp parallel for schedule(static) if (rows * count * width > WORTH)
  for (long r = 0; r < rows; r++)
    for (long c = 0; c < count; c += SIDE) {
      const REAL *from = x + r * width;
      REAL *to = y + r * count + c;
      if (sizes[3] == 2) squares(width, from, other + c * width, to);
      else if (sizes[3] == 1) sizes_of(width, from, other + c * width, to);
      else largest(width, from, other + c * width, to);
    }
  return 0;
}

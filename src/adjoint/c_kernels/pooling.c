/* Max pooling of one to three dimensions, compiled once for each machine: `maxima` finds the largest element of each
   window and its index in the plane or volume, `back` adds gradients at these indices. Of equal elements the first
   one counts, of NaN the last, as in PyTorch. Each channel is a group by itself. */

#define PLANES(g) ((g)->images * (g)->groups)
#define WORTH (1L << 15) /* elements from which threads share the planes */
#define LANES 16         /* windows that a vector may hold */

/* What follows is written once for each REAL: float, double. */

/* Update the maxima of a row by one element of every window; in vectors if the step is a constant. */
static inline __attribute__((always_inline)) void each_REAL(const REAL *restrict x, const long step, long count,
                                                            int index, int index_step, REAL *restrict best,
                                                            int *restrict where) {
  for (long w = 0; w < count; w++) {
    REAL value = x[w * step];
    int better = (value > best[w]) | (value != value);
    best[w] = better ? value : best[w];
    where[w] = better ? index + (int)w * index_step : where[w];
  }
}

static void take_REAL(const REAL *x, long step, long low, long high, int index, int index_step, REAL *best, int *where) {
  x += low * step, index += (int)low * index_step, best += low, where += low;
  if (step == 1) each_REAL(x, 1, high - low, index, index_step, best, where);
  else if (step == 2) each_REAL(x, 2, high - low, index, index_step, best, where);
  else each_REAL(x, step, high - low, index, index_step, best, where);
}

/* The first element of a window along one dimension that is not padding. */
static inline long begin_REAL(const Geometry *g, int d, long place) {
  long at = place * g->stride[d] - g->padding[d];
  return at < 0 ? at + (-at + g->dilation[d] - 1) / g->dilation[d] * g->dilation[d] : at;
}

/* One or two rows of windows of a few columns that lie next to each other: with numbers that are known here, all of it is
   in registers, and no choice is a branch. (With three rows gcc makes branches.) `again` says that there were rows
   before. */
static inline __attribute__((always_inline)) void few_REAL(const REAL *const *lines, const int *starts, const int rows,
                                                           const int columns, const int step, const int again, long low,
                                                           long high, REAL *restrict best, int *restrict where) {
  const REAL *restrict line[2] = {lines[0], lines[1]};
  const int start[2] = {starts[0], starts[1]};
#pragma omp simd
  for (long w = low; w < high; w++) {
    REAL most = again ? best[w] : -(REAL)__builtin_inf();
    int at = again ? where[w] - (int)w * step : start[0];
#define TAKE(R, K)                                  \
  if (R < rows && K < columns) {                    \
    REAL value = line[R][w * step + K];             \
    int better = (value > most) | (value != value); \
    most = better ? value : most;                   \
    at = better ? start[R] + K : at;                \
  }
    TAKE(0, 0) TAKE(0, 1) TAKE(0, 2)
    TAKE(1, 0) TAKE(1, 1) TAKE(1, 2)
#undef TAKE
    best[w] = most;
    where[w] = at + (int)w * step;
  }
}

static inline __attribute__((always_inline)) void small_REAL(const REAL *const *lines, const int *starts, const int rows,
                                                             const int columns, const int step, long low, long high,
                                                             REAL *best, int *where) {
  few_REAL(lines, starts, 2, columns, step, 0, low, high, best, where);
  if (rows > 2) few_REAL(lines + 2, starts + 2, 1, columns, step, 1, low, high, best, where);
}

/* Windows of sizes that are frequent, from `low` to `high`; whether this is one of them. In whole vectors, of which the
   last two may overlap; gcc leaves one window out of vectors where windows end within a step. */
static int frequent_REAL(const REAL *const *lines, const int *starts, long rows, long columns, long step, long low,
                         long high, REAL *best, int *where) {
  const long one = columns % step != 0, count = LANES + one, whole = (high - low - one) / LANES * LANES + one;
  const long middle = high - low >= count ? low + whole : high;
#define SMALL(R, C, S)                                                                           \
  if (rows == R && columns == C && step == S) {                                                  \
    small_REAL(lines, starts, R, C, S, low, middle, best, where);                                \
    if (middle < high) small_REAL(lines, starts, R, C, S, high - count, high, best, where);      \
    return 1;                                                                                    \
  }
  SMALL(2, 2, 1);
  SMALL(2, 2, 2);
  SMALL(2, 3, 1);
  SMALL(2, 3, 2);
  SMALL(3, 3, 1);
  SMALL(3, 3, 2);
#undef SMALL
  return 0;
}

/* One row of windows of any kind. */
static void any_REAL(const Geometry *g, const REAL *plane, const long *begins, const long *ends, REAL *best, int *where) {
  const long *steps = g->large_steps, *size = g->large, places = g->small[2];
  int start = (int)((begins[0] * size[1] + begins[1]) * size[2]);
  for (long w = 0; w < places; w++) best[w] = -(REAL)__builtin_inf();
  for (long w = 0; w < places; w++) {
    long at = w * g->stride[2] - g->padding[2];
    where[w] = start + (int)(at < 0 ? begin_REAL(g, 2, w) : at);
  }
  for (long i = begins[0]; i < ends[0]; i += g->dilation[0])
    for (long j = begins[1]; j < ends[1]; j += g->dilation[1]) {
      const REAL *line = plane + i * steps[2] + j * steps[3];
      int index = (int)((i * size[1] + j) * size[2]);
      for (long k = 0; k < g->kernel[2]; k++) {
        long first = k * g->dilation[2] - g->padding[2], stride = g->stride[2];
        long low = first < 0 ? (-first + stride - 1) / stride : 0;
        long high = size[2] > first ? least(places, (size[2] - first + stride - 1) / stride) : 0;
        take_REAL(line + first * steps[4], stride * steps[4], low, high, index + (int)first, (int)stride, best, where);
      }
    }
}

/* One window of any kind. */
static void one_REAL(const Geometry *g, const REAL *plane, const long *begins, const long *ends, long w, REAL *best,
                     int *where) {
  const long *steps = g->large_steps, *size = g->large;
  long first = begin_REAL(g, 2, w), last = w * g->stride[2] - g->padding[2] + g->kernel[2] * g->dilation[2];
  REAL most = -(REAL)__builtin_inf();
  long at = (begins[0] * size[1] + begins[1]) * size[2] + first;
  if (last > size[2]) last = size[2];
  for (long i = begins[0]; i < ends[0]; i += g->dilation[0])
    for (long j = begins[1]; j < ends[1]; j += g->dilation[1])
      for (long k = first; k < last; k += g->dilation[2]) {
        REAL value = plane[i * steps[2] + j * steps[3] + k * steps[4]];
        if (value > most || value != value) most = value, at = (i * size[1] + j) * size[2] + k;
      }
  best[w] = most;
  where[w] = (int)at;
}

/* One row of places: `best` and `where` become the maxima and their indices. A window whose elements are all -inf has
   the index of its first element. `low` and `high` bound the windows that reach over no edge, if these are few. */
static void windows_REAL(const Geometry *g, const REAL *plane, long d, long h, long low, long high, REAL *best, int *where) {
  const long *steps = g->large_steps, *size = g->large, places = g->small[2];
  const long begins[2] = {begin_REAL(g, 0, d), begin_REAL(g, 1, h)};
  const long ends[2] = {least(size[0], d * g->stride[0] - g->padding[0] + g->kernel[0] * g->dilation[0]),
                        least(size[1], h * g->stride[1] - g->padding[1] + g->kernel[1] * g->dilation[1])};
  const REAL *lines[4] = {plane, plane, plane, plane};
  int starts[4] = {0, 0, 0, 0};
  long rows = 0;
  for (long i = begins[0]; i < ends[0]; i += g->dilation[0])
    for (long j = begins[1]; j < ends[1]; j += g->dilation[1], rows++)
      if (rows < 3) {
        lines[rows] = plane + i * steps[2] + j * steps[3] - g->padding[2];
        starts[rows] = (int)((i * size[1] + j) * size[2] - g->padding[2]);
      }
  if (low >= high || !frequent_REAL(lines, starts, rows, g->kernel[2], g->stride[2], low, high, best, where)) {
    any_REAL(g, plane, begins, ends, best, where);
    return;
  }
  for (long w = 0; w < low; w++) one_REAL(g, plane, begins, ends, w, best, where);
  for (long w = high; w < places; w++) one_REAL(g, plane, begins, ends, w, best, where);
}

/* The windows of a row that reach over no edge: from `low` to what is returned; 0 if their elements do not lie next to
   each other. */
static long inside_REAL(const Geometry *g, long *low) {
  *low = (g->padding[2] + g->stride[2] - 1) / g->stride[2];
  if (g->dilation[2] != 1 || g->large_steps[4] != 1 || g->large[2] < g->kernel[2]) return 0;
  return least(g->small[2], (g->large[2] + g->padding[2] - g->kernel[2]) / g->stride[2] + 1);
}

KERNEL int maxima_REAL(const Geometry *g, const REAL *large, REAL *small, long long *indices) {
  const long *steps = g->small_steps;
  long low, high = inside_REAL(g, &low);
  int failed = 0;
#pragma omp parallel num_threads(TEAM) if (PLANES(g) * g->large[0] * g->large[1] * g->large[2] > WORTH)
  {
    REAL *best = malloc((size_t)g->small[2] * sizeof(REAL));
    int *where = malloc((size_t)g->small[2] * sizeof(int));
    if (!best || !where) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(static)
    for (long n = 0; n < PLANES(g); n++) {
      if (!best || !where) continue;
      long image = n / g->groups, channel = n % g->groups;
      const REAL *plane = large + image * g->large_steps[0] + channel * g->large_steps[1];
      long start = image * steps[0] + channel * steps[1];
      for (long d = 0; d < g->small[0]; d++)
        for (long h = 0; h < g->small[1]; h++) {
          windows_REAL(g, plane, d, h, low, high, best, where);
          long to = start + d * steps[2] + h * steps[3];
          for (long w = 0; w < g->small[2]; w++) small[to + w * steps[4]] = best[w];
          if (indices)
            for (long w = 0; w < g->small[2]; w++) indices[to + w * steps[4]] = where[w];
        }
    }
    free(best), free(where);
  }
  return failed;
}

/* The largest of a window's columns, of which the maxima are known. */
static void across_REAL(const long *span, const REAL *best, const int *where, REAL *value, long long *index) {
  REAL most = best[span[0]];
  int at = where[span[0]];
  for (long k = span[0] + 1; k < span[1]; k++) {
    const int odd = most != most, later = where[k] > at;
    const int better = best[k] != best[k] ? (!odd) | later : (best[k] > most) | ((best[k] == most) & !later);
    most = better ? best[k] : most, at = better ? where[k] : at;
  }
  *value = most, *index = at;
}

/* Windows of any sizes. spans: where each begins and ends, along one dimension after the other. */
KERNEL int uneven_REAL(const Geometry *g, const long *spans, const REAL *large, REAL *small, long long *indices) {
  const long *to = g->small_steps, *steps = g->large_steps, *size = g->large;
  const long *rows = spans + 2 * g->small[0], *columns = rows + 2 * g->small[1];
  int failed = 0;
#pragma omp parallel num_threads(TEAM) if (PLANES(g) * size[0] * size[1] * size[2] > WORTH)
  {
    REAL *best = malloc((size_t)size[2] * sizeof(REAL));
    int *where = malloc((size_t)size[2] * sizeof(int));
    if (!best || !where) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(static) collapse(3)
    for (long n = 0; n < PLANES(g); n++)
      for (long d = 0; d < g->small[0]; d++)
        for (long h = 0; h < g->small[1]; h++) {
          if (!best || !where) continue;
          const long image = n / g->groups, channel = n % g->groups;
          const REAL *plane = large + image * steps[0] + channel * steps[1];
          const int start = (int)((spans[2 * d] * size[1] + rows[2 * h]) * size[2]);
          for (long k = 0; k < size[2]; k++) best[k] = -(REAL)__builtin_inf(), where[k] = start + (int)k;
          for (long i = spans[2 * d]; i < spans[2 * d + 1]; i++)
            for (long j = rows[2 * h]; j < rows[2 * h + 1]; j++) {
              const int index = (int)((i * size[1] + j) * size[2]);
              take_REAL(plane + i * steps[2] + j * steps[3], steps[4], 0, size[2], index, 1, best, where);
            }
          for (long w = 0; w < g->small[2]; w++) {
            const long at = image * to[0] + channel * to[1] + d * to[2] + h * to[3] + w * to[4];
            across_REAL(columns + 2 * w, best, where, small + at, indices + at);
          }
        }
    free(best), free(where);
  }
  return failed;
}

/* The address of element i of a plane or volume. */
static long placed_REAL(const Geometry *g, long i) {
  long columns = g->large[2], plane = g->large[1] * columns;
  return i / plane * g->large_steps[2] + i % plane / columns * g->large_steps[3] + i % columns * g->large_steps[4];
}

/* Add a row of gradients at their indices; return 1 if one is outside its plane. */
static int add_row_REAL(const Geometry *g, const REAL *from, const long long *indices, REAL *plane, long size, int contiguous) {
  long step = g->small_steps[4];
  int outside = 0;
  if (contiguous) {
    for (long w = 0; w < g->small[2]; w++) {
      long i = indices[w * step];
      if (i < 0 || i >= size) outside = 1;
      else plane[i] += from[w * step];
    }
    return outside;
  }
  for (long w = 0; w < g->small[2]; w++) {
    long i = indices[w * step];
    if (i < 0 || i >= size) outside = 1;
    else plane[placed_REAL(g, i)] += from[w * step];
  }
  return outside;
}

/* Return 1 if an index is outside its plane. The indices have the strides of the gradients. */
KERNEL int back_REAL(const Geometry *g, const REAL *small, const long long *indices, REAL *large) {
  const long *from = g->small_steps, *to = g->large_steps;
  long size = g->large[0] * g->large[1] * g->large[2];
  int contiguous = to[4] == 1 && to[3] == g->large[2] && to[2] == g->large[1] * g->large[2], failed = 0;
  if (g->large[0] == 1) contiguous = to[4] == 1 && to[3] == g->large[2];
#pragma omp parallel for num_threads(TEAM) schedule(static) reduction(| : failed) if (PLANES(g) * size > WORTH)
  for (long n = 0; n < PLANES(g); n++) {
    long image = n / g->groups, channel = n % g->groups;
    long start = image * from[0] + channel * from[1];
    REAL *plane = large + image * to[0] + channel * to[1];
    if (contiguous) memset(plane, 0, (size_t)size * sizeof(REAL));
    else
      for (long i = 0; i < size; i++) plane[placed_REAL(g, i)] = 0;
    for (long d = 0; d < g->small[0]; d++)
      for (long h = 0; h < g->small[1]; h++) {
        long at = start + d * from[2] + h * from[3];
        failed |= add_row_REAL(g, small + at, indices + at, plane, size, contiguous);
      }
  }
  return failed;
}

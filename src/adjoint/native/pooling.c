/* Max pooling of one to three dimensions, compiled once for each machine: `maxima` finds the largest element of each
   window and its index in the plane or volume, `back` adds gradients at these indices. Of equal elements the first
   one counts, of NaN the last, as in PyTorch. Each channel is a group by itself. */

static long least(long x, long y) { return x < y ? x : y; }

#define PLANES(g) ((g)->images * (g)->groups)
#define WORTH (1L << 15) /* elements from which threads share the planes */

/* What follows is written once for each REAL: float, double. */

/* Take one element of every window of a row in; with a step that is known, in vectors. */
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

/* One row of places: `best` and `where` become the maxima and their indices. A window whose elements are all -inf
   has the index of its first element. */
static void row_REAL(const Geometry *g, const REAL *plane, long d, long h, REAL *best, int *where) {
  const long *steps = g->large_steps, *size = g->large;
  long depth = begin_REAL(g, 0, d), top = begin_REAL(g, 1, h);
  long ends[2] = {least(size[0], d * g->stride[0] - g->padding[0] + g->kernel[0] * g->dilation[0]),
                  least(size[1], h * g->stride[1] - g->padding[1] + g->kernel[1] * g->dilation[1])};
  int start = (int)((depth * size[1] + top) * size[2]);
  for (long w = 0; w < g->small[2]; w++) best[w] = -(REAL)__builtin_inf();
  for (long w = 0; w < g->small[2]; w++) {
    long at = w * g->stride[2] - g->padding[2];
    where[w] = start + (int)(at < 0 ? begin_REAL(g, 2, w) : at);
  }
  for (long i = depth; i < ends[0]; i += g->dilation[0])
    for (long j = top; j < ends[1]; j += g->dilation[1]) {
      const REAL *line = plane + i * steps[2] + j * steps[3];
      int index = (int)((i * size[1] + j) * size[2]);
      for (long k = 0; k < g->kernel[2]; k++) {
        long first = k * g->dilation[2] - g->padding[2], stride = g->stride[2];
        long low = first < 0 ? (-first + stride - 1) / stride : 0;
        long high = size[2] > first ? least(g->small[2], (size[2] - first + stride - 1) / stride) : 0;
        take_REAL(line + first * steps[4], stride * steps[4], low, high, index + (int)first, (int)stride, best, where);
      }
    }
}

int maxima_REAL(const Geometry *g, const REAL *large, REAL *small, long long *indices) {
  const long *steps = g->small_steps;
  int failed = 0;
#pragma omp parallel if (PLANES(g) * g->large[0] * g->large[1] * g->large[2] > WORTH)
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
          row_REAL(g, plane, d, h, best, where);
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

/* Where element i of a plane or volume lies. */
static long placed_REAL(const Geometry *g, long i) {
  long columns = g->large[2], plane = g->large[1] * columns;
  return i / plane * g->large_steps[2] + i % plane / columns * g->large_steps[3] + i % columns * g->large_steps[4];
}

/* Add a row of gradients at their indices; return 1 if one is outside its plane. */
static int add_row_REAL(const Geometry *g, const REAL *from, const long long *indices, REAL *plane, long size, int dense) {
  long step = g->small_steps[4];
  int outside = 0;
  if (dense) {
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

/* Return 1 if an index is outside its plane. The indices lie in memory as the gradients do. */
int back_REAL(const Geometry *g, const REAL *small, const long long *indices, REAL *large) {
  const long *from = g->small_steps, *to = g->large_steps;
  long size = g->large[0] * g->large[1] * g->large[2];
  int dense = to[4] == 1 && to[3] == g->large[2] && to[2] == g->large[1] * g->large[2], failed = 0;
  if (g->large[0] == 1) dense = to[4] == 1 && to[3] == g->large[2];
#pragma omp parallel for schedule(static) reduction(| : failed) if (PLANES(g) * size > WORTH)
  for (long n = 0; n < PLANES(g); n++) {
    long image = n / g->groups, channel = n % g->groups;
    long start = image * from[0] + channel * from[1];
    REAL *plane = large + image * to[0] + channel * to[1];
    if (dense) memset(plane, 0, (size_t)size * sizeof(REAL));
    else
      for (long i = 0; i < size; i++) plane[placed_REAL(g, i)] = 0;
    for (long d = 0; d < g->small[0]; d++)
      for (long h = 0; h < g->small[1]; h++) {
        long at = start + d * from[2] + h * from[3];
        failed |= add_row_REAL(g, small + at, indices + at, plane, size, dense);
      }
  }
  return failed;
}

/* Max pooling of one to three dimensions, compiled once for each machine: `maxima` finds the largest element of each
   window and its index in the plane or volume, `back` adds gradients at these indices. Of equal elements the first
   one counts, of NaN the last, as in PyTorch. Each channel is a group by itself. */

#define PLANES(g) ((g)->images * (g)->groups)
#define WORTH (1L << 15) /* elements from which threads share the planes */

/* What follows is written once for each REAL: float, double. */

/* Take one element of every window of a row in. */
static void take_REAL(const REAL *x, long step, long low, long high, int index, int index_step, REAL *best, int *where) {
  for (long w = low; w < high; w++) {
    REAL value = x[w * step];
    int better = (value > best[w]) | (value != value);
    best[w] = better ? value : best[w];
    where[w] = better ? index + (int)w * index_step : where[w];
  }
}

/* One row of places: `best` and `where` become the maxima and their indices. */
static void row_REAL(const Geometry *g, const REAL *plane, long d, long h, REAL *best, int *where) {
  const long *steps = g->large_steps, *size = g->large, *stride = g->stride;
  int fresh = 1;
  for (long i = 0; i < g->kernel[0]; i++)
    for (long j = 0; j < g->kernel[1]; j++)
      for (long k = 0; k < g->kernel[2]; k++) {
        long at = d * stride[0] + i * g->dilation[0] - g->padding[0];
        long line = h * stride[1] + j * g->dilation[1] - g->padding[1];
        long first = k * g->dilation[2] - g->padding[2];
        if (at < 0 || at >= size[0] || line < 0 || line >= size[1]) continue;
        long low = first < 0 ? (-first + stride[2] - 1) / stride[2] : 0;
        long high = size[2] > first ? (size[2] - first + stride[2] - 1) / stride[2] : 0;
        high = high < g->small[2] ? high : g->small[2];
        const REAL *x = plane + at * steps[2] + line * steps[3] + first * steps[4];
        int index = (int)((at * size[1] + line) * size[2] + first);
        if (fresh) /* a window whose elements are all -inf has the index of its first */
          for (long w = 0; w < g->small[2]; w++) best[w] = -(REAL)__builtin_inf(), where[w] = -1;
        fresh = 0;
        for (long w = low; w < high; w++)
          if (where[w] < 0) where[w] = index + (int)(w * stride[2]);
        take_REAL(x, stride[2] * steps[4], low, high, index, (int)stride[2], best, where);
      }
  if (fresh)
    for (long w = 0; w < g->small[2]; w++) best[w] = -(REAL)__builtin_inf(), where[w] = 0;
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

/* Return 1 if an index is outside its plane. The indices lie in memory as the gradients do. */
int back_REAL(const Geometry *g, const REAL *small, const long long *indices, REAL *large) {
  const long *from = g->small_steps, *to = g->large_steps;
  long rows = g->large[1], columns = g->large[2], size = g->large[0] * rows * columns;
  int dense = to[4] == 1 && to[3] == columns && to[2] == rows * columns, failed = 0;
#pragma omp parallel for schedule(static) if (PLANES(g) * size > WORTH)
  for (long n = 0; n < PLANES(g); n++) {
    long image = n / g->groups, channel = n % g->groups;
    long start = image * from[0] + channel * from[1];
    REAL *plane = large + image * to[0] + channel * to[1];
    if (dense) memset(plane, 0, (size_t)size * sizeof(REAL));
    else
      for (long i = 0; i < size; i++)
        plane[i / (rows * columns) * to[2] + i / columns % rows * to[3] + i % columns * to[4]] = 0;
    for (long d = 0; d < g->small[0]; d++)
      for (long h = 0; h < g->small[1]; h++)
        for (long w = 0; w < g->small[2]; w++) {
          long at = start + d * from[2] + h * from[3] + w * from[4], i = indices[at];
          if (i < 0 || i >= size) {
#pragma omp atomic write
            failed = 1;
          } else if (dense)
            plane[i] += small[at];
          else
            plane[i / (rows * columns) * to[2] + i / columns % rows * to[3] + i % columns * to[4]] += small[at];
        }
  }
  return failed;
}

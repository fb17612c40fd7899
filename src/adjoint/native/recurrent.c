/* LSTM layers over time, compiled once for each machine. A thread goes over all steps with some of the sequences, so
   threads wait for nobody. Weights are packed into panels once: a step's product reads them in order. */

#pragma omp declare simd notinbranch
extern float expf(float);
#pragma omp declare simd notinbranch
extern double exp(double);
#pragma omp declare simd notinbranch
extern float tanhf(float);
#pragma omp declare simd notinbranch
extern double tanh(double);
#define exp_float expf
#define exp_double exp
#define tanh_float tanhf
#define tanh_double tanh

#define BYTES 64 /* of a vector */
#ifdef __AVX512F__
#define VECTORS 2 /* in a row of a panel */
#else
#define VECTORS 1
#endif
#define ROWS 4 /* of a product at once */
#define WORTH (1L << 18) /* multiplications from which threads share the sequences */

/* What follows is written once for each REAL: float, double. */

typedef REAL Vector_REAL __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
#define WIDE_REAL ((long)(VECTORS * BYTES / sizeof(REAL)))

static long panels_of_REAL(long columns) { return (columns + WIDE_REAL - 1) / WIDE_REAL; }

/* Element (k, n) of a matrix of `inner` rows is at w[k * row + n * column]; columns after the last one are 0. */
static REAL *packed_REAL(const REAL *w, long row, long column, long inner, long columns) {
  const long count = panels_of_REAL(columns);
  REAL *panels = aligned_alloc(BYTES, (size_t)(count * inner + 1) * VECTORS * BYTES);
  if (!panels) return 0;
  for (long p = 0; p < count; p++)
    for (long k = 0; k < inner; k++)
      for (long l = 0; l < WIDE_REAL; l++) {
        const long n = p * WIDE_REAL + l;
        panels[(p * inner + k) * WIDE_REAL + l] = n < columns ? w[k * row + n * column] : 0;
      }
  return panels;
}

/* One panel's columns of `rows` <= ROWS rows of start + a w; start may be 0. */
static inline __attribute__((always_inline)) void tile_REAL(const long rows, const REAL *a, long across,
                                                             const REAL *panel, long inner, const REAL *start, REAL *to,
                                                             long step, long columns) {
  Vector_REAL sum[ROWS][VECTORS];
  REAL edge[ROWS * VECTORS * BYTES / sizeof(REAL)];
  const int whole = columns >= WIDE_REAL;
  for (long r = 0; r < rows; r++) {
    const REAL *from = start ? start + r * step : 0;
    if (from && !whole) {
      for (long l = 0; l < WIDE_REAL; l++) edge[r * WIDE_REAL + l] = l < columns ? from[l] : 0;
      from = edge + r * WIDE_REAL;
    }
    for (long v = 0; v < VECTORS; v++) sum[r][v] = from ? ((const Vector_REAL *)from)[v] : (Vector_REAL){0};
  }
  for (long k = 0; k < inner; k++) {
    const Vector_REAL *w = (const Vector_REAL *)(panel + k * WIDE_REAL);
    for (long r = 0; r < rows; r++) {
      const REAL x = a[r * across + k];
      for (long v = 0; v < VECTORS; v++) sum[r][v] += x * w[v];
    }
  }
  for (long r = 0; r < rows; r++) {
    REAL *into = whole ? to + r * step : edge + r * WIDE_REAL;
    for (long v = 0; v < VECTORS; v++) ((Vector_REAL *)into)[v] = sum[r][v];
    if (!whole)
      for (long l = 0; l < columns; l++) to[r * step + l] = into[l];
  }
}

/* to = start + a w for rows of a that are `across` apart; start and to have rows of `columns`. */
static void product_REAL(long rows, const REAL *a, long across, const REAL *panels, long inner, const REAL *start,
                         REAL *to, long columns) {
  for (long p = 0; p < panels_of_REAL(columns); p++) {
    const REAL *panel = panels + p * inner * WIDE_REAL;
    const long at = p * WIDE_REAL, left = columns - at;
    long r = 0;
    for (; r + ROWS <= rows; r += ROWS)
      tile_REAL(ROWS, a + r * across, across, panel, inner, start ? start + r * columns + at : 0,
                to + r * columns + at, columns, left);
    for (; r < rows; r++)
      tile_REAL(1, a + r * across, across, panel, inner, start ? start + r * columns + at : 0, to + r * columns + at,
                columns, left);
  }
}

/* The sequences of a thread: `first` and the number of them, as many for each in whole tiles. */
static long share_REAL(long count, long *first) {
  const long tiles = (count + ROWS - 1) / ROWS, threads = omp_get_num_threads(), me = omp_get_thread_num();
  const long begin = tiles * me / threads * ROWS, end = tiles * (me + 1) / threads * ROWS;
  *first = begin < count ? begin : count;
  return (end < count ? end : count) - *first;
}

/* How many of `count` sequences from `first` on take part in a step. */
static long taking_part_REAL(const long *batch, long t, long first, long count) {
  if (!batch) return count;
  const long here = batch[t] - first;
  return here < 0 ? 0 : here < count ? here : count;
}

static void activate_REAL(long units, REAL *gates, const REAL *c, REAL *cell, REAL *h) {
  REAL *i = gates, *f = gates + units, *g = gates + 2 * units, *o = gates + 3 * units;
#pragma omp simd
  for (long u = 0; u < units; u++) {
    const REAL a = 1 / (1 + exp_REAL(-i[u])), b = 1 / (1 + exp_REAL(-f[u]));
    const REAL x = tanh_REAL(g[u]), d = 1 / (1 + exp_REAL(-o[u]));
    const REAL now = b * c[u] + a * x;
    i[u] = a, f[u] = b, g[u] = x, o[u] = d, cell[u] = now;
    h[u] = d * tanh_REAL(now);
  }
}

/* sizes: steps, sequences, units, whether in reverse. Gates (x), output, cells and workspace are (steps, sequences, ...)
   row by row; w is w_hh. */
int lstm_REAL(const long *sizes, const REAL *x, const REAL *hx, const REAL *cx, const REAL *w, const long *batch,
              REAL *output, REAL *cells, REAL *workspace) {
  const long steps = sizes[0], count = sizes[1], units = sizes[2], reverse = sizes[3], wide = 4 * units;
  REAL *panels = packed_REAL(w, 1, units, units, wide);
  if (!panels) return 1;
#pragma omp parallel if (count > ROWS && steps * count * units * wide > WORTH)
  {
    long first;
    const long mine = share_REAL(count, &first);
    const REAL *h = hx + first * units, *c = cx + first * units;
    for (long s = 0; s < steps && mine; s++) {
      const long t = reverse ? steps - 1 - s : s, n = taking_part_REAL(batch, t, first, mine);
      const long at = t * count + first;
      REAL *to = output + at * units, *cell = cells + at * units, *own = workspace + at * wide;
      product_REAL(n, h, units, panels, units, x + at * wide, own, wide);
      for (long b = 0; b < n; b++)
        activate_REAL(units, own + b * wide, c + b * units, cell + b * units, to + b * units);
      const size_t rest = (size_t)(mine - n) * sizeof(REAL);
      memcpy(to + n * units, h + n * units, rest * units);
      memcpy(cell + n * units, c + n * units, rest * units);
      memset(own + n * wide, 0, rest * wide);
      h = to, c = cell;
    }
  }
  free(panels);
  return 0;
}

static void slope_REAL(long units, const REAL *gates, const REAL *more, const REAL *c, const REAL *cell, const REAL *h_bar,
                       REAL *c_bar, REAL *to) {
  const REAL *gi = gates, *gf = gates + units, *gg = gates + 2 * units, *go = gates + 3 * units;
#pragma omp simd
  for (long u = 0; u < units; u++) {
    const REAL i = gi[u], f = gf[u], g = gg[u], o = go[u], high = tanh_REAL(cell[u]), bar = h_bar[u];
    const REAL now = c_bar[u] + bar * o * (1 - high * high);
    to[u] = now * g * i * (1 - i);
    to[u + units] = now * c[u] * f * (1 - f);
    to[u + 2 * units] = now * i * (1 - g * g);
    to[u + 3 * units] = bar * high * o * (1 - o);
    c_bar[u] = now * f;
  }
  if (more) {
    for (long u = 0; u < 4 * units; u++) {
      const REAL v = gates[u], slope = u / units == 2 ? 1 - v * v : v * (1 - v);
      to[u] += more[u] * slope;
    }
  }
}

/* The gradients of gates, hx and cx from those of output, cells and workspace, each of which may be missing. */
int lstm_back_REAL(const long *sizes, const REAL *grad_output, const REAL *grad_cells, const REAL *grad_workspace,
                   const REAL *cx, const REAL *w, const long *batch, const REAL *cells, const REAL *workspace,
                   REAL *grads, REAL *h_bar, REAL *c_bar) {
  const long steps = sizes[0], count = sizes[1], units = sizes[2], reverse = sizes[3], wide = 4 * units;
  REAL *panels = packed_REAL(w, units, 1, wide, units);
  if (!panels) return 1;
  memset(h_bar, 0, (size_t)(count * units) * sizeof(REAL));
  memset(c_bar, 0, (size_t)(count * units) * sizeof(REAL));
#pragma omp parallel if (count > ROWS && steps * count * units * wide > WORTH)
  {
    long first;
    const long mine = share_REAL(count, &first), size = mine * units;
    REAL *hb = h_bar + first * units, *cb = c_bar + first * units;
    for (long s = steps - 1; s >= 0 && mine; s--) {
      const long t = reverse ? steps - 1 - s : s, before = reverse ? t + 1 : t - 1;
      const long at = t * count + first, n = taking_part_REAL(batch, t, first, mine);
      const REAL *c = s ? cells + (before * count + first) * units : cx + first * units;
      if (grad_output)
        for (long u = 0; u < size; u++) hb[u] += grad_output[at * units + u];
      if (grad_cells)
        for (long u = 0; u < size; u++) cb[u] += grad_cells[at * units + u];
      for (long b = 0; b < n; b++)
        slope_REAL(units, workspace + (at + b) * wide, grad_workspace ? grad_workspace + (at + b) * wide : 0,
                   c + b * units, cells + (at + b) * units, hb + b * units, cb + b * units, grads + (at + b) * wide);
      memset(grads + (at + n) * wide, 0, (size_t)((mine - n) * wide) * sizeof(REAL));
      product_REAL(n, grads + at * wide, wide, panels, wide, 0, hb, units);
    }
  }
  free(panels);
  return 0;
}

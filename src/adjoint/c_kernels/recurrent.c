/* LSTM layers over time, compiled once for each machine. A thread goes over all steps with some of the sequences, so
   threads wait for nobody. Weights are packed into panels once: a step's product reads them in order. */

#include "product.c"

#pragma omp declare simd notinbranch
extern float tanhf(float);
#pragma omp declare simd notinbranch
extern double tanh(double);
#define tanh_float tanhf
#define tanh_double tanh

#define WORTH (1L << 18) /* multiplications from which threads share the sequences */
#define FEW 4            /* sequences that one thread takes */

static long threads_for(long sequences, long multiplications) {
  return multiplications > WORTH ? most(least(TEAM, sequences / FEW), 1) : 1;
}

/* Whether sizes never grow and lie between 1 and `count`, as those of packed sequences do. */
static int falls(const long *batch, long steps, long count) {
  for (long t = 0; t < steps; t++)
    if (batch[t] < 1 || batch[t] > (t ? batch[t - 1] : count)) return 0;
  return 1;
}

/* What follows is written once for each REAL: float, double. */

/* The sequences of a thread: `first` and the number of them. */
static long share_REAL(long count, long *first) {
  const long threads = omp_get_num_threads(), me = omp_get_thread_num();
  *first = count * me / threads;
  return count * (me + 1) / threads - *first;
}

/* How many of `count` sequences from `first` on take part in a step. */
static long taking_part_REAL(const long *batch, long t, long first, long count) {
  if (!batch) return count;
  const long here = batch[t] - first;
  return here < 0 ? 0 : here < count ? here : count;
}

static inline __attribute__((always_inline)) REAL sigmoid_REAL(REAL x) {
  const REAL e = exp_REAL(x < 0 ? x : -x);
  return (x < 0 ? e : 1) / (1 + e);
}

static void activate_REAL(long units, REAL *gates, const REAL *c, REAL *cell, REAL *h) {
  REAL *i = gates, *f = gates + units, *g = gates + 2 * units, *o = gates + 3 * units;
#pragma omp simd
  for (long u = 0; u < units; u++) {
    const REAL a = sigmoid_REAL(i[u]), b = sigmoid_REAL(f[u]);
    const REAL x = tanh_REAL(g[u]), d = sigmoid_REAL(o[u]);
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
  const long threads = threads_for(count, steps * count * units * wide);
  REAL *room = room_REAL(units * wide_REAL(wide) + threads * STRIPS_REAL(units));
  if (!room) return 1;
  const Panels_REAL panels = panels_REAL(units, wide, w, 1, units, room);
#pragma omp parallel num_threads(threads)
  {
    long first;
    REAL *strip = room + units * wide_REAL(wide) + omp_get_thread_num() * STRIPS_REAL(units);
    const long mine = share_REAL(count, &first);
    const REAL *h = hx + first * units, *c = cx + first * units;
    for (long s = 0; s < steps && mine; s++) {
      const long t = reverse ? steps - 1 - s : s, n = taking_part_REAL(batch, t, first, mine);
      const long at = t * count + first;
      REAL *to = output + at * units, *cell = cells + at * units, *own = workspace + at * wide;
      multiply_REAL(n, wide, units, h, units, 1, panels, x + at * wide, own, wide, strip);
      for (long b = 0; b < n; b++)
        activate_REAL(units, own + b * wide, c + b * units, cell + b * units, to + b * units);
      const size_t rest = (size_t)(mine - n) * sizeof(REAL);
      memcpy(to + n * units, h + n * units, rest * units);
      memcpy(cell + n * units, c + n * units, rest * units);
      memset(own + n * wide, 0, rest * wide);
      h = to, c = cell;
    }
  }
  free(room);
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
  const long threads = threads_for(count, steps * count * units * wide);
  REAL *room = room_REAL(wide * wide_REAL(units) + threads * STRIPS_REAL(wide));
  if (!room) return 1;
  const Panels_REAL panels = panels_REAL(wide, units, w, units, 1, room);
  memset(h_bar, 0, (size_t)(count * units) * sizeof(REAL));
  memset(c_bar, 0, (size_t)(count * units) * sizeof(REAL));
#pragma omp parallel num_threads(threads)
  {
    long first;
    REAL *strip = room + wide * wide_REAL(units) + omp_get_thread_num() * STRIPS_REAL(wide);
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
      multiply_REAL(n, units, wide, grads + at * wide, wide, 1, panels, 0, hb, units, strip);
    }
  }
  free(room);
  return 0;
}

/* The gradient of w_hh: a product over all steps and sequences of gradients of gates and earlier hidden states. */
static int weights_REAL(const long *sizes, const REAL *grads, const REAL *hx, const REAL *output, REAL *w_bar) {
  const long steps = sizes[0], units = sizes[2], reverse = sizes[3], wide = 4 * units, state = sizes[1] * units;
  REAL *before = room_REAL(steps * state);
  if (!before) return 1;
  memcpy(before + (reverse ? steps - 1 : 0) * state, hx, (size_t)state * sizeof(REAL));
  memcpy(before + (reverse ? 0 : state), output + (reverse ? state : 0), (size_t)((steps - 1) * state) * sizeof(REAL));
  const Product z = {.m = wide, .n = units, .k = steps * sizes[1], .batch = {1, 1, 1},
                     .a_row = 1, .a_column = wide, .b_row = units, .b_column = 1, .c_row = units};
  const int failed = product_REAL(&z, grads, before, 0, w_bar);
  free(before);
  return failed;
}

/* For compiled programs. A further size: whether there are batch sizes. */
int layer_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long *batch = sizes[4] ? given[4] : 0;
  if (batch && !falls(batch, sizes[0], sizes[1])) return 1;
  return lstm_REAL(sizes, given[0], given[1], given[2], given[3], batch, made[0], made[1], made[2]);
}

/* Further sizes: whether there are batch sizes; gradients of output, of cells, of workspace. */
int layer_back_REAL(const long *sizes, const void *const *given, void *const *made) {
  const REAL *grads[3];
  for (int k = 0; k < 3; k++) grads[k] = sizes[5 + k] ? *given++ : 0;
  const REAL *hx = *given++, *cx = *given++, *w = *given++;
  const long *batch = sizes[4] ? *given++ : 0;
  if (batch && !falls(batch, sizes[0], sizes[1])) return 1;
  const REAL *output = *given++, *cells = *given++, *workspace = *given++;
  return lstm_back_REAL(sizes, grads[0], grads[1], grads[2], cx, w, batch, cells, workspace, made[0], made[1], made[2]) ||
         weights_REAL(sizes, made[0], hx, output, made[3]);
}

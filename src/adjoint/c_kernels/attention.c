/* Attention in blocks of queries and keys, compiled once for each machine; kernels/attention.py has the equations.

   Threads share blocks of queries in the forward, matrices of the batch in the backward. */

#include <math.h>
#include <stdint.h>

#include "tiles.c"

#define QUERIES 128 /* in a block */
#define KEYS 256
#define AT_ONCE 1024 /* queries that a thread works on at a time */

/* The arrays of a call, in the order of their steps along the batch. */
enum { Q, K, V, O, G, DQ, DK, DV, BIAS, START, END, COIN, SUM, ARRAYS };

typedef struct {
  long batch[3], queries, keys, width, depth;             /* width of queries and keys, depth of values */
  long q_step, k_step, v_step, o_step, g_step;            /* from row to row; columns are contiguous */
  long dq_step, dk_step, dv_step;
  long bias_steps[2], start_step, end_step, coin_step;    /* from query to query (and from key to key) */
  long kind;                                              /* of the bias: 0 none, 1 numbers, 2 truth */
  long threshold;                                         /* coins below it drop a weight */
  long along[ARRAYS][3];                                  /* from matrix to matrix of the batch */
} Sizes;

static long matrices(const Sizes *z) { return z->batch[0] * z->batch[1] * z->batch[2]; }

/* Where each array of a matrix of the batch begins, in elements. */
static void begin(const Sizes *z, long matrix, long *at) {
  const long place[3] = {matrix / z->batch[2] / z->batch[1], matrix / z->batch[2] % z->batch[1], matrix % z->batch[2]};
  for (int n = 0; n < ARRAYS; n++)
    at[n] = place[0] * z->along[n][0] + place[1] * z->along[n][1] + place[2] * z->along[n][2];
}

typedef struct {
  const void *q, *k, *v, *bias;
  const long *starts, *ends;
  const uint32_t *coins;
  double scale, factor; /* of scores, and of weights that dropout keeps */
} Operands;

static uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x45D9F3Bu;
  x = (x ^ (x >> 16)) * 0x45D9F3Bu;
  return x ^ (x >> 16);
}

/* The range of keys that some query of a block sees. */
static void reach(const Sizes *z, const Operands *x, const long *at, long first, long rows, long *low, long *high) {
  *low = 0, *high = z->keys;
  if (x->starts) {
    *low = z->keys;
    for (long i = first; i < first + rows; i++) *low = least(*low, x->starts[at[START] + i * z->start_step]);
    *low = most(*low, 0);
  }
  if (x->ends) {
    *high = 0;
    for (long i = first; i < first + rows; i++) *high = most(*high, x->ends[at[END] + i * z->end_step]);
    *high = least(*high, z->keys);
  }
}

/* What follows is written once for each REAL: float, double. */

/* ---- scores ---- */

/* One row of scores: times the scale, plus the bias; -infinity for a masked key. */
static void finish_REAL(const Sizes *z, const Operands *x, const long *at, long query, long first, long keys, REAL *s) {
  const REAL scale = (REAL)x->scale;
  if (z->kind == 1) {
    const REAL *bias = (const REAL *)x->bias + at[BIAS] + query * z->bias_steps[0] + first * z->bias_steps[1];
    if (z->bias_steps[1] == 1)
      for (long j = 0; j < keys; j++) s[j] = s[j] * scale + bias[j];
    else
      for (long j = 0; j < keys; j++) s[j] = s[j] * scale + bias[j * z->bias_steps[1]];
  } else {
    for (long j = 0; j < keys; j++) s[j] *= scale;
  }
  if (z->kind == 2) {
    const uint8_t *mask = (const uint8_t *)x->bias + at[BIAS] + query * z->bias_steps[0] + first * z->bias_steps[1];
    for (long j = 0; j < keys; j++) s[j] = mask[j * z->bias_steps[1]] ? s[j] : (REAL)-HUGE_VAL;
  }
  if (x->starts) {
    const long start = least(x->starts[at[START] + query * z->start_step] - first, keys);
    for (long j = 0; j < start; j++) s[j] = (REAL)-HUGE_VAL;
  }
  if (x->ends) {
    const long end = most(x->ends[at[END] + query * z->end_step] - first, 0);
    for (long j = end; j < keys; j++) s[j] = (REAL)-HUGE_VAL;
  }
}

/* The factors by which dropout multiplies the weights of a query. */
static void kept_REAL(const Sizes *z, const Operands *x, const long *at, long query, long first, long keys, REAL *to) {
  const uint32_t coin = x->coins[at[COIN] + query * z->coin_step], least_kept = (uint32_t)z->threshold;
  const REAL factor = (REAL)x->factor;
  for (long j = 0; j < keys; j++) to[j] = mixed(coin + mixed((uint32_t)(first + j))) >= least_kept ? factor : 0;
}

/* ---- forward ---- */

typedef struct {
  REAL *scores, *keys, *values, *kept; /* a block, panels of keys and values, factors of a row */
  REAL *strip;
  Panels_REAL of_keys, of_values;
  REAL *sum, *largest, *total;         /* of each query in a thread's share: result, largest score, normaliser */
} Forward_REAL;

/* Add the first keys of a block to the results of a block of queries. */
static void meet_REAL(const Sizes *z, const Operands *x, const long *at, long first, long rows, long j, long keys,
                      Forward_REAL *room, REAL *result, REAL *largest, REAL *total) {
  const REAL *q = (const REAL *)x->q + at[Q] + first * z->q_step;
  multiply_REAL(rows, keys, z->width, q, z->q_step, 1, room->of_keys, 0, room->scores, KEYS, room->strip);
  for (long i = 0; i < rows; i++) {
    REAL *s = room->scores + i * KEYS, top = largest[i], part = 0;
    finish_REAL(z, x, at, first + i, j, keys, s);
#pragma omp simd reduction(max : top)
    for (long c = 0; c < keys; c++) top = s[c] > top ? s[c] : top;
    const REAL anchor = top == (REAL)-HUGE_VAL ? 0 : top;
#pragma omp simd reduction(+ : part)
    for (long c = 0; c < keys; c++) part += s[c] = exp_REAL(s[c] - anchor);
    if (largest[i] != top) {
      const REAL shrink = exp_REAL(largest[i] - anchor);
      REAL *sum = result + i * z->depth;
      for (long c = 0; c < z->depth; c++) sum[c] *= shrink;
      total[i] *= shrink;
    }
    largest[i] = top, total[i] += part;
    if (x->coins) {
      kept_REAL(z, x, at, first + i, j, keys, room->kept);
      for (long c = 0; c < keys; c++) s[c] *= room->kept[c];
    }
  }
  multiply_REAL(rows, z->depth, keys, room->scores, KEYS, 1, room->of_values, result, result, z->depth, room->strip);
}

/* Queries `first` to `last` of one matrix. */
static void forward_REAL(const Sizes *z, const Operands *x, const long *at, long first, long last, Forward_REAL *room,
                         REAL *output, REAL *sums) {
  const REAL *k = (const REAL *)x->k + at[K], *v = (const REAL *)x->v + at[V];
  for (long i = 0; i < last - first; i++) room->largest[i] = (REAL)-HUGE_VAL, room->total[i] = 0;
  memset(room->sum, 0, (size_t)((last - first) * z->depth) * sizeof(REAL));
  for (long j = 0; j < z->keys; j += KEYS) {
    const long keys = least(KEYS, z->keys - j);
    int packed = 0;
    for (long n = first; n < last; n += QUERIES) {
      const long rows = least(QUERIES, last - n);
      long low, high;
      reach(z, x, at, n, rows, &low, &high);
      if (high <= j || low >= j + keys) continue;
      if (!packed) {
        room->of_keys = panels_REAL(z->width, keys, k + j * z->k_step, 1, z->k_step, room->keys);
        room->of_values = panels_REAL(keys, z->depth, v + j * z->v_step, z->v_step, 1, room->values);
        packed = 1;
      }
      meet_REAL(z, x, at, n, rows, j, least(keys, high - j), room, room->sum + (n - first) * z->depth,
                room->largest + n - first, room->total + n - first);
    }
  }
  for (long i = 0; i < last - first; i++) {
    REAL *o = output + at[O] + (first + i) * z->o_step;
    const REAL *sum = room->sum + i * z->depth, total = room->total[i];
    const int empty = total == 0;
    for (long c = 0; c < z->depth; c++) o[c] = empty ? sum[c] : sum[c] / total;
    sums[at[SUM] + first + i] = empty ? 0 : room->largest[i] + (REAL)log((double)total);
  }
}

KERNEL int attend_REAL(const Sizes *z, const Operands *x, REAL *output, REAL *sums) {
  const long count = matrices(z);
  const int threads = count * z->queries * z->keys > 4096 ? TEAM : 1;
  const long each = count >= threads ? AT_ONCE : up((z->queries * count + threads - 1) / threads, QUERIES);
  const long share = most(least(z->queries, least(each, AT_ONCE)), 1);
  const long shares = (z->queries + share - 1) / share, work = count * shares;
  int failed = 0;
#pragma omp parallel num_threads(most(least(threads, work), 1))
  {
    const long strip = STRIPS_REAL(most(z->width, KEYS));
    REAL *whole = room_REAL(QUERIES * KEYS + z->width * wide_REAL(KEYS) + KEYS * wide_REAL(z->depth) + KEYS + strip +
                            share * (z->depth + 2) + 7 * 16);
    REAL *rest = whole;
    Forward_REAL room = {.scores = part_REAL(&rest, QUERIES * KEYS),
                         .keys = part_REAL(&rest, z->width * wide_REAL(KEYS)),
                         .values = part_REAL(&rest, KEYS * wide_REAL(z->depth)),
                         .kept = part_REAL(&rest, KEYS),
                         .strip = part_REAL(&rest, strip),
                         .sum = part_REAL(&rest, share * z->depth),
                         .largest = part_REAL(&rest, share),
                         .total = part_REAL(&rest, share)};
    if (!whole) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(dynamic)
    for (long n = 0; n < work; n++) {
      const long first = n % shares * share;
      long at[ARRAYS];
      begin(z, n / shares, at);
      if (whole) forward_REAL(z, x, at, first, least(first + share, z->queries), &room, output, sums);
    }
    free(whole);
  }
  return failed;
}

/* ---- backward ---- */

typedef struct {
  REAL *weights, *slopes, *kept;              /* blocks of weights and of the scores' gradient, factors of a row */
  REAL *turned_keys, *turned_values, *keys;   /* panels for scores, for products with values, for queries' gradients */
  REAL *queries, *grads;                      /* panels for the gradients of keys and of values */
  REAL *strip;
} Backward_REAL;

typedef struct {
  const REAL *grad, *output, *sums;
  REAL *of_query, *of_key, *of_value;
} Gradients_REAL;

/* The block's weights, and the gradient of its scores times the scale. */
static void slopes_REAL(const Sizes *z, const Operands *x, const Gradients_REAL *y, const long *at, long first,
                        long rows, long j, long keys, Backward_REAL *room) {
  const REAL scale = (REAL)x->scale;
  for (long i = 0; i < rows; i++) {
    REAL *p = room->weights + i * KEYS, *d = room->slopes + i * KEYS, along = 0;
    const REAL *g = y->grad + at[G] + (first + i) * z->g_step, *o = y->output + at[O] + (first + i) * z->o_step;
    const REAL logarithm = y->sums[at[SUM] + first + i];
#pragma omp simd reduction(+ : along)
    for (long c = 0; c < z->depth; c++) along += g[c] * o[c];
    finish_REAL(z, x, at, first + i, j, keys, p);
    for (long c = 0; c < keys; c++) p[c] = exp_REAL(p[c] - logarithm);
    if (x->coins) {
      kept_REAL(z, x, at, first + i, j, keys, room->kept);
      for (long c = 0; c < keys; c++) d[c] = p[c] * (d[c] * room->kept[c] - along) * scale;
      for (long c = 0; c < keys; c++) p[c] *= room->kept[c];
    } else {
      for (long c = 0; c < keys; c++) d[c] = p[c] * (d[c] - along) * scale;
    }
  }
}

static void backward_REAL(const Sizes *z, const Operands *x, const Gradients_REAL *y, const long *at,
                          Backward_REAL *room) {
  const REAL *q = (const REAL *)x->q + at[Q], *k = (const REAL *)x->k + at[K], *v = (const REAL *)x->v + at[V];
  for (long j = 0; j < z->keys; j += KEYS) {
    const long keys = least(KEYS, z->keys - j);
    const REAL *own = k + j * z->k_step;
    const Panels_REAL turned_keys = panels_REAL(z->width, keys, own, 1, z->k_step, room->turned_keys);
    const Panels_REAL turned_values = panels_REAL(z->depth, keys, v + j * z->v_step, 1, z->v_step, room->turned_values);
    Panels_REAL of_keys = {0};
    if (y->of_query) of_keys = panels_REAL(keys, z->width, own, z->k_step, 1, room->keys);
    for (long first = 0; first < z->queries; first += QUERIES) {
      const long rows = least(QUERIES, z->queries - first);
      const REAL *from = q + first * z->q_step, *grad = y->grad + at[G] + first * z->g_step;
      long low, high;
      reach(z, x, at, first, rows, &low, &high);
      if (high <= j || low >= j + keys) continue;
      const long seen = least(keys, high - j);
      multiply_REAL(rows, seen, z->width, from, z->q_step, 1, turned_keys, 0, room->weights, KEYS, room->strip);
      multiply_REAL(rows, seen, z->depth, grad, z->g_step, 1, turned_values, 0, room->slopes, KEYS, room->strip);
      slopes_REAL(z, x, y, at, first, rows, j, seen, room);
      if (y->of_value) {
        REAL *to = y->of_value + at[DV] + j * z->dv_step;
        const Panels_REAL grads = panels_REAL(rows, z->depth, grad, z->g_step, 1, room->grads);
        multiply_REAL(seen, z->depth, rows, room->weights, 1, KEYS, grads, to, to, z->dv_step, room->strip);
      }
      if (y->of_key) {
        REAL *to = y->of_key + at[DK] + j * z->dk_step;
        const Panels_REAL queries = panels_REAL(rows, z->width, from, z->q_step, 1, room->queries);
        multiply_REAL(seen, z->width, rows, room->slopes, 1, KEYS, queries, to, to, z->dk_step, room->strip);
      }
      if (y->of_query) {
        REAL *to = y->of_query + at[DQ] + first * z->dq_step;
        multiply_REAL(rows, z->width, seen, room->slopes, KEYS, 1, of_keys, to, to, z->dq_step, room->strip);
      }
    }
  }
}

/* The gradients, which begin as zeros; those that are not wanted are null. No two matrices of a batch may share one. */
KERNEL int attend_backward_REAL(const Sizes *z, const Operands *x, const Gradients_REAL *y) {
  const long count = matrices(z);
  const int threads = count > 1 && count * z->queries * z->keys > 4096 ? TEAM : 1;
  const long wide = wide_REAL(z->width), deep = wide_REAL(z->depth), keys = wide_REAL(KEYS);
  int failed = 0;
  (void)threads; /* without OpenMP */
#pragma omp parallel num_threads(threads)
  {
    const long strip = STRIPS_REAL(most(most(z->width, z->depth), KEYS));
    REAL *whole = room_REAL(2 * QUERIES * KEYS + KEYS + (z->width + z->depth) * keys + KEYS * wide + QUERIES * wide +
                            QUERIES * deep + strip + 9 * 16);
    REAL *rest = whole;
    Backward_REAL room = {.weights = part_REAL(&rest, QUERIES * KEYS),
                          .slopes = part_REAL(&rest, QUERIES * KEYS),
                          .kept = part_REAL(&rest, KEYS),
                          .turned_keys = part_REAL(&rest, z->width * keys),
                          .turned_values = part_REAL(&rest, z->depth * keys),
                          .keys = part_REAL(&rest, KEYS * wide),
                          .queries = part_REAL(&rest, QUERIES * wide),
                          .grads = part_REAL(&rest, QUERIES * deep),
                          .strip = part_REAL(&rest, strip)};
    if (!whole) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(dynamic)
    for (long n = 0; n < count; n++) {
      long at[ARRAYS];
      begin(z, n, at);
      if (whole) backward_REAL(z, x, y, at, &room);
    }
    free(whole);
  }
  return failed;
}

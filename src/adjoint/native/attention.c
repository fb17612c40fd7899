/* Attention in blocks of queries and keys, compiled once for each machine; kernels/attention.py has the equations.

   A product of matrices is made of tiles that stay in registers: ROWS rows of the left matrix, read element by
   element with any steps, times a panel of the right one, WIDE vectors wide, which has been copied so that its rows
   follow each other. Threads share blocks of queries in the forward, matrices of the batch in the backward. */

#include <math.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector */
#define ROWS 12  /* rows of a tile */
#elif defined(__AVX__)
#define BYTES 32
#define ROWS 6
#else
#define BYTES 16
#define ROWS 4
#endif
#define WIDE 2      /* vectors in a row of a tile */
#define QUERIES 128 /* in a block */
#define KEYS 256
#define SHARE 1024 /* queries that a thread works on at a time */

typedef struct {
  long matrices, queries, keys, width, depth;             /* width of queries and keys, depth of values */
  long q_step, k_step, v_step, o_step, g_step;            /* from row to row; columns follow each other */
  long dq_step, dk_step, dv_step;
  long bias_steps[2], start_step, end_step, coin_step;    /* from query to query (and from key to key) */
  long kind;                                              /* of the bias: 0 none, 1 numbers, 2 truth */
  long threshold;                                         /* coins below it drop a weight */
} Sizes;

/* Where each matrix of the batch begins, in elements: one row for each of q, k, v, o, g, dq, dk, dv, bias, starts,
   ends, coins, sums. */
enum { Q, K, V, O, G, DQ, DK, DV, BIAS, START, END, COIN, SUM };

typedef struct {
  const void *q, *k, *v, *bias;
  const long *starts, *ends;
  const uint32_t *coins;
  double scale, factor; /* of scores, and of weights that dropout keeps */
} Operands;

static long least(long x, long y) { return x < y ? x : y; }
static long most(long x, long y) { return x > y ? x : y; }
static long up(long x, long step) { return (x + step - 1) / step * step; }
static uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x45D9F3Bu;
  x = (x ^ (x >> 16)) * 0x45D9F3Bu;
  return x ^ (x >> 16);
}

/* What follows is written once for each REAL: float, double. */

typedef REAL vec_REAL __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
#define LANES_REAL ((long)(BYTES / sizeof(REAL)))
#define PANEL_REAL (WIDE * LANES_REAL)

static REAL *room_REAL(long count) {
  return aligned_alloc(64, (size_t)up(count * (long)sizeof(REAL) + 64, 64));
}

/* exp(x) for x that is not above 0 by more than rounding: 2^n · exp(r), |r| <= log(2)/2. */
static inline __attribute__((always_inline)) float exp_float(float x) {
  const float magic = 12582912.0f, n = (x * 1.44269504088896341f + magic) - magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9841270e-4f;
  p = p * r + 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = ((int32_t)n + 127) * (1 << 23);
  float power;
  memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : x > 88.0f ? HUGE_VALF : p * power;
}

static inline __attribute__((always_inline)) double exp_double(double x) {
  const double magic = 6755399441055744.0, n = (x * 1.44269504088896340736 + magic) - magic;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.6059043836821613e-10;
  p = p * r + 2.08767569878681e-9;
  p = p * r + 2.505210838544172e-8;
  p = p * r + 2.755731922398589e-7;
  p = p * r + 2.7557319223985893e-6;
  p = p * r + 2.48015873015873e-5;
  p = p * r + 1.984126984126984e-4;
  p = p * r + 1.388888888888889e-3;
  p = p * r + 8.333333333333333e-3;
  p = p * r + 4.1666666666666664e-2;
  p = p * r + 1.6666666666666666e-1;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const int64_t bits = ((int64_t)n + 1023) * ((int64_t)1 << 52);
  double power;
  memcpy(&power, &bits, sizeof power);
  return x < -708.0 ? 0.0 : x > 709.0 ? HUGE_VAL : p * power;
}

/* ---- products ---- */

/* c = a b, or c += a b, for `rows` rows; `b` is a panel of k rows, of which the first n columns count. */
static inline __attribute__((always_inline)) void tile_REAL(int rows, long k, const REAL *a, long across, long along,
                                                            const REAL *b, REAL *c, long step, long n, int add) {
  vec_REAL sum[ROWS][WIDE];
  for (int r = 0; r < rows; r++)
    for (int w = 0; w < WIDE; w++) sum[r][w] = (vec_REAL){0};
  for (long i = 0; i < k; i++) {
    const vec_REAL *row = (const vec_REAL *)(b + i * PANEL_REAL);
    for (int r = 0; r < rows; r++) {
      const REAL x = a[r * across + i * along];
      for (int w = 0; w < WIDE; w++) sum[r][w] += x * row[w];
    }
  }
  for (int r = 0; r < rows; r++) {
    if (n == PANEL_REAL) {
      vec_REAL *to = (vec_REAL *)(c + r * step);
      if (add)
        for (int w = 0; w < WIDE; w++) sum[r][w] += to[w];
      for (int w = 0; w < WIDE; w++) to[w] = sum[r][w];
    } else {
      const REAL *from = (const REAL *)sum[r];
      for (long j = 0; j < n; j++) c[r * step + j] = add ? c[r * step + j] + from[j] : from[j];
    }
  }
}

#define ROWS_OF_TILE(R)                                                                                        \
  static void tile_REAL_##R(long k, const REAL *a, long across, long along, const REAL *b, REAL *c, long step, \
                            long n, int add) {                                                                 \
    tile_REAL(R, k, a, across, along, b, c, step, n, add);                                                     \
  }
ROWS_OF_TILE(1) ROWS_OF_TILE(2) ROWS_OF_TILE(3) ROWS_OF_TILE(4)
#if ROWS > 4
ROWS_OF_TILE(5) ROWS_OF_TILE(6)
#endif
#if ROWS > 6
ROWS_OF_TILE(7) ROWS_OF_TILE(8) ROWS_OF_TILE(9) ROWS_OF_TILE(10) ROWS_OF_TILE(11) ROWS_OF_TILE(12)
#endif
#undef ROWS_OF_TILE
static void (*const tiles_REAL[])(long, const REAL *, long, long, const REAL *, REAL *, long, long, int) = {
    tile_REAL_1, tile_REAL_2, tile_REAL_3, tile_REAL_4,
#if ROWS > 4
    tile_REAL_5, tile_REAL_6,
#endif
#if ROWS > 6
    tile_REAL_7, tile_REAL_8, tile_REAL_9, tile_REAL_10, tile_REAL_11, tile_REAL_12,
#endif
};

/* c (m x n) = or += a (m x k) b; `b` in panels. */
static void multiply_REAL(long m, long n, long k, const REAL *a, long across, long along, const REAL *b, REAL *c,
                          long step, int add) {
  for (long j = 0; j < n; j += PANEL_REAL)
    for (long i = 0; i < m; i += ROWS)
      tiles_REAL[least(ROWS, m - i) - 1](k, a + i * across, across, along, b + j * k, c + i * step + j, step,
                                         least(PANEL_REAL, n - j), add);
}

/* Rows of a matrix as panels: the right-hand side of a product. */
static void pack_REAL(long k, long n, const REAL *from, long step, REAL *to) {
  for (long j = 0; j < n; j += PANEL_REAL, to += k * PANEL_REAL) {
    const long count = least(PANEL_REAL, n - j);
    for (long i = 0; i < k; i++) {
      memcpy(to + i * PANEL_REAL, from + i * step + j, (size_t)count * sizeof(REAL));
      for (long c = count; c < PANEL_REAL; c++) to[i * PANEL_REAL + c] = 0;
    }
  }
}

/* The transpose of a matrix (n x k) as panels. */
static void pack_turned_REAL(long k, long n, const REAL *from, long step, REAL *to) {
  for (long j = 0; j < n; j += PANEL_REAL, to += k * PANEL_REAL) {
    const long count = least(PANEL_REAL, n - j);
    for (long i = 0; i < k; i += 16)
      for (long c = 0; c < count; c++)
        for (long e = i; e < least(i + 16, k); e++) to[e * PANEL_REAL + c] = from[(j + c) * step + e];
    for (long c = count; c < PANEL_REAL; c++)
      for (long i = 0; i < k; i++) to[i * PANEL_REAL + c] = 0;
  }
}

/* ---- scores ---- */

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

/* One row of scores: times the scale, plus the bias, -infinity where a key does not count. */
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

/* What dropout multiplies the weights of a query by. */
static void kept_REAL(const Sizes *z, const Operands *x, const long *at, long query, long first, long keys, REAL *to) {
  const uint32_t coin = x->coins[at[COIN] + query * z->coin_step], least_kept = (uint32_t)z->threshold;
  const REAL factor = (REAL)x->factor;
  for (long j = 0; j < keys; j++) to[j] = mixed(coin + mixed((uint32_t)(first + j))) >= least_kept ? factor : 0;
}

/* ---- forward ---- */

typedef struct {
  REAL *scores, *keys, *values, *kept; /* a block, panels of keys and values, factors of a row */
  REAL *sum, *largest, *total;         /* of each query of a share of work: result, largest score, normaliser */
} Forward_REAL;

/* Take a block of keys into the results of a block of queries. */
static void meet_REAL(const Sizes *z, const Operands *x, const long *at, long first, long rows, long j, long keys,
                      Forward_REAL *room, REAL *result, REAL *largest, REAL *total) {
  const REAL *q = (const REAL *)x->q + at[Q] + first * z->q_step;
  multiply_REAL(rows, keys, z->width, q, z->q_step, 1, room->keys, room->scores, KEYS, 0);
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
  multiply_REAL(rows, z->depth, keys, room->scores, KEYS, 1, room->values, result, z->depth, 1);
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
        pack_turned_REAL(z->width, keys, k + j * z->k_step, z->k_step, room->keys);
        pack_REAL(keys, z->depth, v + j * z->v_step, z->v_step, room->values);
        packed = 1;
      }
      meet_REAL(z, x, at, n, rows, j, keys, room, room->sum + (n - first) * z->depth, room->largest + n - first,
                room->total + n - first);
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

int attend_REAL(const Sizes *z, const long *places, const Operands *x, REAL *output, REAL *sums) {
  const int threads = z->matrices * z->queries * z->keys > 4096 ? omp_get_max_threads() : 1;
  const long each = z->matrices >= threads ? SHARE : up((z->queries * z->matrices + threads - 1) / threads, QUERIES);
  const long share = most(least(z->queries, least(each, SHARE)), 1);
  const long shares = (z->queries + share - 1) / share, work = z->matrices * shares;
  int failed = 0;
#pragma omp parallel num_threads(most(least(threads, work), 1))
  {
    Forward_REAL room = {room_REAL(QUERIES * KEYS), room_REAL(z->width * up(KEYS, PANEL_REAL)),
                         room_REAL(KEYS * up(z->depth, PANEL_REAL)), room_REAL(KEYS),
                         room_REAL(share * z->depth), room_REAL(share), room_REAL(share)};
    const int ready =
        room.scores && room.keys && room.values && room.kept && room.sum && room.largest && room.total;
    if (!ready) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(dynamic)
    for (long n = 0; n < work; n++) {
      const long first = n % shares * share;
      if (ready)
        forward_REAL(z, x, places + n / shares * (SUM + 1), first, least(first + share, z->queries), &room, output,
                     sums);
    }
    free(room.scores), free(room.keys), free(room.values), free(room.kept), free(room.sum);
    free(room.largest), free(room.total);
  }
  return failed;
}

/* ---- backward ---- */

typedef struct {
  REAL *weights, *slopes, *kept;              /* blocks of weights and of the scores' gradient, factors of a row */
  REAL *turned_keys, *turned_values, *keys;   /* panels for scores, for products with values, for queries' gradients */
  REAL *queries, *grads;                      /* panels for the gradients of keys and of values */
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
    pack_turned_REAL(z->width, keys, k + j * z->k_step, z->k_step, room->turned_keys);
    pack_turned_REAL(z->depth, keys, v + j * z->v_step, z->v_step, room->turned_values);
    if (y->of_query) pack_REAL(keys, z->width, k + j * z->k_step, z->k_step, room->keys);
    for (long first = 0; first < z->queries; first += QUERIES) {
      const long rows = least(QUERIES, z->queries - first);
      const REAL *from = q + first * z->q_step, *grad = y->grad + at[G] + first * z->g_step;
      long low, high;
      reach(z, x, at, first, rows, &low, &high);
      if (high <= j || low >= j + keys) continue;
      multiply_REAL(rows, keys, z->width, from, z->q_step, 1, room->turned_keys, room->weights, KEYS, 0);
      multiply_REAL(rows, keys, z->depth, grad, z->g_step, 1, room->turned_values, room->slopes, KEYS, 0);
      slopes_REAL(z, x, y, at, first, rows, j, keys, room);
      if (y->of_value) {
        pack_REAL(rows, z->depth, grad, z->g_step, room->grads);
        multiply_REAL(keys, z->depth, rows, room->weights, 1, KEYS, room->grads,
                      y->of_value + at[DV] + j * z->dv_step, z->dv_step, 1);
      }
      if (y->of_key) {
        pack_REAL(rows, z->width, from, z->q_step, room->queries);
        multiply_REAL(keys, z->width, rows, room->slopes, 1, KEYS, room->queries, y->of_key + at[DK] + j * z->dk_step,
                      z->dk_step, 1);
      }
      if (y->of_query)
        multiply_REAL(rows, z->width, keys, room->slopes, KEYS, 1, room->keys,
                      y->of_query + at[DQ] + first * z->dq_step, z->dq_step, 1);
    }
  }
}

/* The gradients, which begin as zeros; those that are not wanted are null. No two matrices of a batch may share one. */
int attend_backward_REAL(const Sizes *z, const long *places, const Operands *x, const Gradients_REAL *y) {
  const int threads = z->matrices > 1 && z->matrices * z->queries * z->keys > 4096 ? omp_get_max_threads() : 1;
  const long wide = up(z->width, PANEL_REAL), deep = up(z->depth, PANEL_REAL), keys = up(KEYS, PANEL_REAL);
  int failed = 0;
#pragma omp parallel num_threads(threads)
  {
    Backward_REAL room = {room_REAL(QUERIES * KEYS), room_REAL(QUERIES * KEYS), room_REAL(KEYS),
                          room_REAL(z->width * keys), room_REAL(z->depth * keys), room_REAL(KEYS * wide),
                          room_REAL(QUERIES * wide), room_REAL(QUERIES * deep)};
    const int ready = room.weights && room.slopes && room.kept && room.turned_keys && room.turned_values &&
                      room.keys && room.queries && room.grads;
    if (!ready) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(dynamic)
    for (long n = 0; n < z->matrices; n++)
      if (ready) backward_REAL(z, x, y, places + n * (SUM + 1), &room);
    free(room.weights), free(room.slopes), free(room.kept), free(room.turned_keys), free(room.turned_values);
    free(room.keys), free(room.queries), free(room.grads);
  }
  return failed;
}

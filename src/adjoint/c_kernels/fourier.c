/* Fourier transforms along dimensions of row-major arrays. LANES lines are transformed at once, a number of each in a
   vector: a length whose prime factors are small is split into them, one pass after the other (Stockham's order, so
   that nothing is permuted), any other is a convolution of a length with small factors (Bluestein). A single line of
   rows times columns numbers is LANES columns at a time, then, turned, LANES rows at a time. What depends on a length
   alone is its plan, which is kept. */

#include <math.h>

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector */
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define MOST_FACTORS 64
#define LARGEST_FACTOR 127
#define TILE 16          /* elements of lines that are copied together */
#define PLANS 64         /* kept beyond those in use */
#define NEAR_CACHE (1 << 19) /* bytes of a block's rooms, beyond which its passes take FAR_COST of their time */
#define FAR_COST 1.6
#define SPLIT_COST 1.4   /* of the shorter loops of a split line; these four were measured on a Zen 5, lengths 16 to 4096 */
#define SPLIT_EVEN_COST 2.0 /* with even and odd numbers to be separated */
#define WORTH (1L << 14) /* numbers from which threads share them */

typedef struct {
  double re, im;
} Root;

/* exp(-2 pi i k / n), from an angle of at most an eighth of a turn. */
static Root root(long k, long n) {
  long eighths = 8 * k / n;
  const long rest = 8 * k - eighths * n, up = eighths % 2;
  const double angle = 0.78539816339744830962 * (double)(up ? n - rest : rest) / (double)n;
  double c = cos(angle), s = sin(angle), t;
  if (up) t = c, c = s, s = t; /* in the second eighth of a quarter */
  switch (eighths / 2 % 4) {
    case 0: return (Root){c, -s};
    case 1: return (Root){-s, -c};
    case 2: return (Root){-c, s};
    default: return (Root){s, c};
  }
}

/* The factors of the passes of a length, and how many there are; 0 if one is too large. */
static int factored(long n, int *factors) {
  int count = 0, twos = 0;
  for (; n % 2 == 0; n /= 2) twos++;
  while (twos > 0) {
    const int bits = twos == 4 || twos == 2 ? 2 : twos == 1 ? 1 : 3;
    factors[count++] = 1 << bits, twos -= bits;
  }
  for (long f = 3; n > 1; f = f * f > n ? n : f + 2)
    for (; n % f == 0; n /= f) {
      if (f > LARGEST_FACTOR) return 0;
      factors[count++] = (int)f;
    }
  return count;
}

static int is_smooth(long n) {
  int factors[MOST_FACTORS];
  return n == 1 || factored(n, factors) > 0;
}

/* The least length from n on without other factors than 2, 3 and 5. */
static long comfortable(long n) {
  long best = 1;
  while (best < n) best *= 2;
  for (long five = 1; five < best; five *= 5)
    for (long three = five; three < best; three *= 3) {
      long size = three;
      while (size < n) size *= 2;
      if (size < best) best = size;
    }
  return best;
}

/* Operations on vectors for each number of LANES lines. */
static double cost_of_block(long n) {
  int factors[MOST_FACTORS];
  const int count = factored(n, factors);
  double cost = 2;
  if (n > 1 && count == 0) {
    const long size = comfortable(2 * n - 1);
    return (double)size / n * (2 * cost_of_block(size) + 8);
  }
  for (int k = 0; k < count; k++) {
    const int f = factors[k];
    cost += f == 8 ? 14 : f == 4 ? 8 : f == 2 ? 6 : f == 3 ? 9 : f == 5 ? 13 : 2 * f + 5;
  }
  return cost;
}

/* 1, 1 / sqrt(n) or 1 / n: how, and n. */
static double scale_of(const long *sizes) {
  const double n = (double)sizes[1];
  return sizes[0] == 0 ? 1 : 1 / (sizes[0] == 1 ? sqrt(n) : n);
}

/* What follows is written once for each REAL: float, double. */

#define LANES ((long)(BYTES / sizeof(REAL)))
#define TURN (2 * LANES) /* what it costs to turn LANES numbers, in operations on vectors */
#define BLOCKS(n) (((n) + LANES - 1) / LANES)

typedef struct {
  REAL re, im;
} Number;
typedef REAL Vector __attribute__((vector_size(BYTES), may_alias));
typedef struct {
  Vector re, im;
} Pair; /* LANES numbers */

enum Kind { BLOCK, LINE, HALF };

typedef struct Plan {
  struct Plan *next;
  enum Kind kind; /* for LANES lines, for a single line, for a line of real numbers as half as many complex ones */
  long n;
  int users;
  double cost; /* of a line, in operations on vectors */
  int count, factors[MOST_FACTORS];
  Number *roots;              /* BLOCK: for each factor those between passes, then its own; HALF: up to a quarter turn */
  long rows, columns;         /* LINE: n, or 0 for a convolution */
  struct Plan *down, *across; /* LINE: for blocks of columns, and of rows */
  Pair *turns;                /* LINE: between them */
  struct Plan *inner;         /* of a convolution */
  Number *chirp, *bank;       /* exp(-pi i k^2 / n), and the transform of its conjugates */
} Plan;

static Plan *kept;
static int lock;

static void enter(void) {
  while (__sync_lock_test_and_set(&lock, 1)) {}
}
static void leave(void) { __sync_lock_release(&lock); }

static Plan *take_plan(enum Kind kind, long n);

static void give_back(Plan *plan) {
  if (!plan) return;
  enter();
  plan->users--;
  leave();
}

static void free_plan(Plan *plan) {
  give_back(plan->inner), give_back(plan->down), give_back(plan->across);
  free(plan->roots), free(plan->turns), free(plan->chirp), free(plan->bank), free(plan);
}

static void *room_for(long count, size_t size) {
  return aligned_alloc(64, ((size_t)(count > 0 ? count : 1) * size + 63) / 64 * 64);
}

/* -- numbers, LANES at once ------------------------------------------------------------------- */

#define SMALL _Pragma("GCC unroll 8") /* loops over few vectors, which are registers */
#define INLINE static inline __attribute__((always_inline))

INLINE Number rounded(Root r) { return (Number){(REAL)r.re, (REAL)r.im}; }
INLINE Number times(Number a, Number b) { return (Number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
INLINE Pair plus(Pair a, Pair b) { return (Pair){a.re + b.re, a.im + b.im}; }
INLINE Pair minus(Pair a, Pair b) { return (Pair){a.re - b.re, a.im - b.im}; }
INLINE Pair by(Pair a, Number w) { return (Pair){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }
INLINE Pair onto(Pair a, Pair w) { return (Pair){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }
INLINE Pair right(Pair a) { return (Pair){a.im, -a.re}; } /* -i a */
INLINE Pair swapped(Pair a, int back) { return back ? (Pair){a.im, a.re} : a; }
INLINE Pair spread(Number w) { return (Pair){(Vector){0} + w.re, (Vector){0} + w.im}; }

/* Up to LANES numbers side by side. */
INLINE Pair loaded(const REAL *from, long lanes) {
  Pair z = {{0}, {0}};
  if (lanes == LANES)
    for (long l = 0; l < LANES; l++) z.re[l] = from[2 * l], z.im[l] = from[2 * l + 1];
  else
    for (long l = 0; l < lanes; l++) z.re[l] = from[2 * l], z.im[l] = from[2 * l + 1];
  return z;
}

INLINE void stored(Pair z, REAL *to, long lanes) {
  if (lanes == LANES)
    for (long l = 0; l < LANES; l++) to[2 * l] = z.re[l], to[2 * l + 1] = z.im[l];
  else
    for (long l = 0; l < lanes; l++) to[2 * l] = z.re[l], to[2 * l + 1] = z.im[l];
}

/* -- passes: y[(p f + j) s + q] = w^(p j) sum over k of x[(p + k m) s + q] exp(-2 pi i j k / f) ---------------- */

typedef struct {
  long m, s;
  const Number *w; /* f - 1 for each p; not read for m = 1, where all are 1 */
} Pass;

#define EACH(pass)                                                   \
  for (long p = 0; p < pass.m; p++)                                  \
    for (long q = 0; q < pass.s; q++)
#define FROM(k) x[(p + (k) * pass.m) * pass.s + q]
#define TO(j, value) y[(p * f + (j)) * pass.s + q] = turned && (j) ? by(value, pass.w[p * (f - 1) + (j) - 1]) : (value)

INLINE void pass_2(Pass pass, const int turned, const Pair *x, Pair *y) {
  const long f = 2;
  EACH(pass) {
    const Pair a = FROM(0), b = FROM(1);
    TO(0, plus(a, b)), TO(1, minus(a, b));
  }
}

INLINE void pass_3(Pass pass, const int turned, const Pair *x, Pair *y) {
  const long f = 3;
  const REAL half = (REAL)0.5, high = (REAL)0.86602540378443864676;
  EACH(pass) {
    const Pair a = FROM(0), b = FROM(1), c = FROM(2), sum = plus(b, c), gap = right(minus(b, c));
    const Pair u = {a.re - half * sum.re, a.im - half * sum.im}, v = {high * gap.re, high * gap.im};
    TO(0, plus(a, sum)), TO(1, plus(u, v)), TO(2, minus(u, v));
  }
}

INLINE void four(Pair a, Pair b, Pair c, Pair d, Pair *z) {
  const Pair p = plus(a, c), q = minus(a, c), r = plus(b, d), s = right(minus(b, d));
  z[0] = plus(p, r), z[1] = plus(q, s), z[2] = minus(p, r), z[3] = minus(q, s);
}

INLINE void pass_4(Pass pass, const int turned, const Pair *x, Pair *y) {
  const long f = 4;
  EACH(pass) {
    Pair z[4];
    four(FROM(0), FROM(1), FROM(2), FROM(3), z);
    TO(0, z[0]), TO(1, z[1]), TO(2, z[2]), TO(3, z[3]);
  }
}

INLINE void pass_8(Pass pass, const int turned, const Pair *x, Pair *y) {
  const long f = 8;
  const REAL h = (REAL)0.70710678118654752440;
  EACH(pass) {
    Pair e[4], o[4];
    four(FROM(0), FROM(2), FROM(4), FROM(6), e), four(FROM(1), FROM(3), FROM(5), FROM(7), o);
    const Pair b = {h * (o[1].re + o[1].im), h * (o[1].im - o[1].re)}, c = right(o[2]);
    const Pair d = {h * (o[3].im - o[3].re), -h * (o[3].re + o[3].im)};
    TO(0, plus(e[0], o[0])), TO(1, plus(e[1], b)), TO(2, plus(e[2], c)), TO(3, plus(e[3], d));
    TO(4, minus(e[0], o[0])), TO(5, minus(e[1], b)), TO(6, minus(e[2], c)), TO(7, minus(e[3], d));
  }
}

/* Any odd factor f, whose roots are `own`: sums and differences of elements k and f - k take real factors. */
INLINE void pass_odd(const long f, Pass pass, const int turned, const Number *own, const Pair *x, Pair *y) {
  const long half = f / 2;
  Pair sums[LARGEST_FACTOR / 2 + 1], gaps[LARGEST_FACTOR / 2 + 1];
  EACH(pass) {
    const Pair first = FROM(0);
    Pair total = first;
    SMALL for (long k = 1; k <= half; k++) {
      sums[k] = plus(FROM(k), FROM(f - k)), gaps[k] = minus(FROM(k), FROM(f - k)), total = plus(total, sums[k]);
    }
    TO(0, total);
    SMALL for (long j = 1; j <= half; j++) {
      Pair even = first, odd = {{0}, {0}};
      long t = j; /* j k modulo f */
      SMALL for (long k = 1; k <= half; k++) {
        even = (Pair){even.re + sums[k].re * own[t].re, even.im + sums[k].im * own[t].re};
        odd = (Pair){odd.re + gaps[k].re * own[t].im, odd.im + gaps[k].im * own[t].im};
        t = t + j < f ? t + j : t + j - f;
      }
      TO(j, ((Pair){even.re - odd.im, even.im + odd.re})), TO(f - j, ((Pair){even.re + odd.im, even.im - odd.re}));
    }
  }
}

INLINE void pass_any(long f, Pass pass, const int turned, const Pair *x, Pair *y) {
  const Number *own = pass.w + pass.m * (f - 1);
  if (f == 2) pass_2(pass, turned, x, y);
  else if (f == 3) pass_3(pass, turned, x, y);
  else if (f == 4) pass_4(pass, turned, x, y);
  else if (f == 5) pass_odd(5, pass, turned, own, x, y);
  else if (f == 7) pass_odd(7, pass, turned, own, x, y);
  else if (f == 8) pass_8(pass, turned, x, y);
  else pass_odd(f, pass, turned, own, x, y);
}

static void middle_pass(long f, Pass pass, const Pair *x, Pair *y) { pass_any(f, pass, 1, x, y); }
static void last_pass(long f, Pass pass, const Pair *x, Pair *y) { pass_any(f, pass, 0, x, y); }

/* Pairs in each of the two rooms of a block. */
static long room_of(const Plan *block) { return block->inner ? room_of(block->inner) : block->n; }

/* Transform LANES lines that are in x; the result is in x or in y. */
static Pair *transform(const Plan *plan, Pair *x, Pair *y) {
  if (!plan->inner) {
    const Number *w = plan->roots;
    long m = plan->n, s = 1;
    for (int k = 0; k < plan->count; k++) {
      const long f = plan->factors[k];
      m /= f;
      const Pass pass = {m, s, w};
      if (m > 1) middle_pass(f, pass, x, y);
      else last_pass(f, pass, x, y);
      Pair *other = x;
      x = y, y = other, s *= f, w += m * (f - 1) + f;
    }
    return x;
  }
  const long n = plan->n, size = plan->inner->n;
  for (long k = 0; k < n; k++) x[k] = by(x[k], plan->chirp[k]);
  memset(x + n, 0, (size - n) * sizeof(Pair));
  Pair *spectrum = transform(plan->inner, x, y), *other = spectrum == x ? y : x;
  for (long k = 0; k < size; k++) { /* conjugates, so that a second transform goes back */
    const Pair product = by(spectrum[k], plan->bank[k]);
    spectrum[k] = (Pair){product.re, -product.im};
  }
  Pair *line = transform(plan->inner, spectrum, other);
  for (long k = 0; k < n; k++) line[k] = by((Pair){line[k].re, -line[k].im}, plan->chirp[k]);
  return line;
}

/* -- a single line ---------------------------------------------------------------------------- */

typedef struct {
  Pair *x, *y; /* for a block */
  long wide;   /* pairs in each of these, of which every thread has its own */
  Pair *line;  /* for what a line is between its columns and its rows */
  int threads;
} Room;

/* Pairs for a line between columns and rows, and for the numbers of a convolution. */
static long room_of_line(const Plan *line) {
  if (line->kind != LINE) return 0;
  if (line->inner) return room_of_line(line->inner) + 2 * BLOCKS(line->inner->n);
  return BLOCKS(line->rows) * line->columns;
}

static long room_of_blocks(const Plan *line) {
  if (line->kind == HALF) return room_of_blocks(line->inner);
  if (line->kind == BLOCK) return room_of(line);
  if (line->inner) return room_of_blocks(line->inner);
  const long down = room_of(line->down), across = room_of(line->across);
  return down > across ? down : across;
}

/* LANES columns of a line, transformed and turned. */
static void columns_of(const Plan *plan, long block, const REAL *from, int back, Room room) {
  const long a = plan->rows, b = plan->columns, first = block * LANES, lanes = least(LANES, b - first);
  for (long j = 0; j < a; j++) room.x[j] = swapped(loaded(from + 2 * (j * b + first), lanes), back);
  const Pair *found = transform(plan->down, room.x, room.y), *turns = plan->turns + block * a;
  for (long j = 0; j < a; j++) {
    const Pair z = onto(found[j], turns[j]);
    REAL *to = (REAL *)(room.line + j / LANES * b + first) + j % LANES;
    if (lanes == LANES)
      for (long l = 0; l < LANES; l++) to[2 * LANES * l] = z.re[l], to[2 * LANES * l + LANES] = z.im[l];
    else
      for (long l = 0; l < lanes; l++) to[2 * LANES * l] = z.re[l], to[2 * LANES * l + LANES] = z.im[l];
  }
}

/* LANES rows of what the columns have become. */
static void rows_of(const Plan *plan, long block, REAL *to, int back, REAL scale, Room room) {
  const long a = plan->rows, b = plan->columns, first = block * LANES, lanes = least(LANES, a - first);
  Pair *rows = room.line + block * b;
  if (plan->across->inner) rows = memcpy(room.x, rows, b * sizeof(Pair));
  const Pair *found = transform(plan->across, rows, rows == room.x ? room.y : room.x);
  for (long k = 0; k < b; k++) {
    const Pair z = swapped(found[k], back);
    stored((Pair){z.re * scale, z.im * scale}, to + 2 * (k * a + first), lanes);
  }
}

/* Rooms of one thread. */
static Room own(Room room) {
  const long place = 2 * room.wide * omp_get_thread_num();
  return (Room){room.x + place, room.y + place, room.wide, room.line, 1};
}

static void transform_line(const Plan *plan, const REAL *from, REAL *to, int back, REAL scale, Room room);

/* A line as a convolution. */
static void convolve_line(const Plan *plan, const REAL *from, REAL *to, int back, REAL scale, Room room) {
  const long n = plan->n, size = plan->inner->n;
  Number *line = (Number *)room.line, *spectrum = (Number *)(room.line + BLOCKS(size));
  room.line += 2 * BLOCKS(size);
  for (long k = 0; k < n; k++)
    line[k] = times((Number){from[2 * k + back], from[2 * k + 1 - back]}, plan->chirp[k]);
  memset(line + n, 0, (size - n) * sizeof(Number));
  transform_line(plan->inner, &line->re, &spectrum->re, 0, 1, room);
  for (long k = 0; k < size; k++) {
    const Number product = times(spectrum[k], plan->bank[k]);
    spectrum[k] = (Number){product.re, -product.im};
  }
  transform_line(plan->inner, &spectrum->re, &line->re, 0, 1, room);
  for (long k = 0; k < n; k++) {
    const Number z = times((Number){line[k].re, -line[k].im}, plan->chirp[k]);
    to[2 * k + back] = scale * z.re, to[2 * k + 1 - back] = scale * z.im;
  }
}

/* Transform one contiguous line, which may be where the result is. */
static void transform_line(const Plan *plan, const REAL *from, REAL *to, int back, REAL scale, Room room) {
  if (plan->inner) {
    convolve_line(plan, from, to, back, scale, room);
    return;
  }
  const long across = BLOCKS(plan->columns), down = BLOCKS(plan->rows);
  if (room.threads == 1) {
    for (long b = 0; b < across; b++) columns_of(plan, b, from, back, room);
    for (long b = 0; b < down; b++) rows_of(plan, b, to, back, scale, room);
    return;
  }
#pragma omp parallel num_threads(room.threads)
  {
#pragma omp for schedule(static)
    for (long b = 0; b < across; b++) columns_of(plan, b, from, back, own(room));
#pragma omp for schedule(static)
    for (long b = 0; b < down; b++) rows_of(plan, b, to, back, scale, own(room));
  }
}

/* -- plans ------------------------------------------------------------------------------------ */

/* The passes of a block, or its convolution; whether there was memory. */
static int plan_block(Plan *plan) {
  const long n = plan->n;
  plan->count = factored(n, plan->factors), plan->cost = cost_of_block(n) * n;
  if (n > 1 && plan->count == 0) return 0;
  long room = 0, m = n;
  for (int k = 0; k < plan->count; k++) m /= plan->factors[k], room += m * (plan->factors[k] - 1) + plan->factors[k];
  Number *w = plan->roots = room_for(room, sizeof(Number));
  if (!w) return 0;
  m = n;
  for (int k = 0; k < plan->count; k++) {
    const long f = plan->factors[k], whole = m;
    m /= f;
    for (long p = 0; p < m; p++)
      for (long j = 1; j < f; j++) *w++ = rounded(root(p * j, whole));
    for (long j = 0; j < f; j++) *w++ = rounded(root(j, f));
  }
  return 1;
}

/* Rows and columns of the least work; whether a line is worth being split. */
static int split_line(Plan *plan) {
  const long n = plan->n;
  for (long a = 2; a * a <= n; a++) {
    if (n % a) continue;
    for (int turn = 0; turn < 2; turn++) {
      const long rows = turn ? n / a : a, columns = n / rows;
      const double down = cost_of_block(rows) * rows + 3 * rows, across = cost_of_block(columns) * columns;
      const double cost = BLOCKS(columns) * (down + TURN * rows) + BLOCKS(rows) * across;
      if (plan->cost == 0 || cost < plan->cost) plan->cost = cost, plan->rows = rows, plan->columns = columns;
    }
  }
  return plan->rows > 0;
}

static int plan_turns(Plan *plan) {
  const long a = plan->rows, b = plan->columns;
  plan->down = take_plan(BLOCK, a), plan->across = take_plan(BLOCK, b);
  plan->turns = room_for(BLOCKS(b) * a, sizeof(Pair));
  if (!plan->down || !plan->across || !plan->turns) return 0;
  for (long block = 0; block < BLOCKS(b); block++)
    for (long j = 0; j < a; j++) {
      Pair *to = plan->turns + block * a + j;
      for (long l = 0; l < LANES; l++) {
        const Number w = rounded(root((block * LANES + l) * j % plan->n, plan->n));
        to->re[l] = w.re, to->im[l] = w.im;
      }
    }
  return 1;
}

/* The chirp of a convolution and its transform, which the inner plan makes. */
static int plan_chirp(Plan *plan) {
  const long n = plan->n, size = plan->inner->n, wide = room_of_blocks(plan->inner);
  plan->chirp = room_for(n, sizeof(Number)), plan->bank = room_for(size, sizeof(Number));
  const long numbers = 2 * BLOCKS(size);
  Pair *memory = room_for(2 * wide + room_of_line(plan->inner) + numbers, sizeof(Pair));
  if (!plan->chirp || !plan->bank || !memory) return free(memory), 0;
  Room room = {memory, memory + wide, wide, memory + 2 * wide + numbers, 1};
  Number *line = (Number *)(memory + 2 * wide);
  memset(line, 0, size * sizeof(Number));
  for (long k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
    const Root w = root(square, 2 * n);
    plan->chirp[k] = rounded(w);
    line[k] = rounded((Root){w.re / size, -w.im / size});
    if (k) line[size - k] = line[k];
  }
  if (plan->inner->kind == LINE) transform_line(plan->inner, &line->re, &plan->bank->re, 0, 1, room);
  else {
    for (long k = 0; k < size; k++) room.x[k] = spread(line[k]);
    const Pair *found = transform(plan->inner, room.x, room.y);
    for (long k = 0; k < size; k++) plan->bank[k] = (Number){found[k].re[0], found[k].im[0]};
  }
  free(memory);
  return 1;
}

/* The inner plan of a line of real numbers, and the turns between even and odd ones. */
static int plan_half(Plan *plan) {
  const long quarter = plan->n / 4;
  plan->roots = room_for(quarter + 1 + LANES, sizeof(Number));
  for (long k = 0; plan->roots && k <= quarter; k++) plan->roots[k] = rounded(root(k, plan->n));
  return plan->roots != 0;
}

static int plan_line(Plan *plan) {
  const long n = plan->n, size = comfortable(2 * n - 1);
  const int split = split_line(plan);
  const double convolved = size < 64 ? 0 : 2 * size * (cost_of_block(size) + 8) / LANES;
  if (split && (is_smooth(n) || plan->cost < 2 * convolved || !convolved)) return plan_turns(plan);
  plan->inner = size < 64 ? 0 : take_plan(LINE, size);
  if (!plan->inner) return 0;
  plan->cost = 2 * plan->inner->cost + 8 * n;
  return plan_chirp(plan);
}

static Plan *make_plan(enum Kind kind, long n) {
  Plan *plan = calloc(1, sizeof(Plan));
  if (!plan) return 0;
  plan->kind = kind, plan->n = n, plan->users = 1;
  int made;
  if (kind == LINE) made = plan_line(plan);
  else if (kind == HALF) made = plan_half(plan);
  else {
    made = plan_block(plan);
    if (!made && !plan->roots) {
      plan->inner = take_plan(BLOCK, comfortable(2 * n - 1));
      made = plan->inner && plan_chirp(plan);
    }
  }
  if (!made) return free_plan(plan), (Plan *)0;
  return plan;
}

/* Unlink the plans that are not in use but the latest PLANS; they are freed outside of the lock. */
static Plan *unlink_old(void) {
  Plan *old = 0;
  int count = 0;
  for (Plan **at = &kept; *at;) {
    Plan *plan = *at;
    if (plan->users || ++count <= PLANS) at = &plan->next;
    else *at = plan->next, plan->next = old, old = plan;
  }
  return old;
}

/* The plan of a length, which is then in use; 0 if there is no memory, or no way to split a line. */
static Plan *take_plan(enum Kind kind, long n) {
  enter();
  for (Plan **at = &kept; *at; at = &(*at)->next) {
    Plan *plan = *at;
    if (plan->n != n || plan->kind != kind) continue;
    plan->users++;
    *at = plan->next, plan->next = kept, kept = plan; /* the latest first */
    leave();
    return plan;
  }
  leave();
  Plan *made = make_plan(kind, n);
  if (!made) return 0;
  enter();
  made->next = kept, kept = made;
  Plan *old = unlink_old();
  leave();
  while (old) {
    Plan *next = old->next;
    free_plan(old), old = next;
  }
  return made;
}

/* -- lines of an array ------------------------------------------------------------------------ */

/* How the lines along a dimension are transformed: `line` by line, or LANES at once by `block`. */
typedef struct {
  Plan *block, *line;
  int shared; /* whether threads share a line, not the lines */
} Way;

/* The cheaper way for `count` lines; whether there is one. */
static int choose_way(Way *way, long n, long count, int contiguous, int real) {
  *way = (Way){0, 0, 0};
  const double fits = 2 * n * (double)sizeof(Pair) <= NEAR_CACHE ? 1 : FAR_COST;
  const double blocks = fits * BLOCKS(count) * (cost_of_block(n) + 2 * TURN) * n;
  if (contiguous && n >= 16 && count * (double)n < 9e15) {
    way->line = take_plan(LINE, n);
    if (way->line && count * (real ? SPLIT_EVEN_COST : SPLIT_COST) * way->line->cost < blocks) {
      way->shared = count < TEAM && n >= WORTH;
      return 1;
    }
    give_back(way->line);
    way->line = 0;
  }
  way->block = take_plan(BLOCK, n);
  return way->block != 0;
}

static void end_way(Way way) { give_back(way.block), give_back(way.line); }

/* Rooms for one thread or, where threads share a line, for all; `more` pairs for the numbers of a line. */
static int make_room(Way way, long more, Room *room) {
  const Plan *plan = way.line ? way.line : way.block;
  const long wide = room_of_blocks(plan) + 2, threads = way.shared ? TEAM : 1;
  Pair *memory = room_for(2 * wide * threads + room_of_line(plan) + more, sizeof(Pair));
  *room = (Room){memory, memory + wide, wide, memory + 2 * wide * threads + more, (int)threads};
  return memory != 0;
}

/* Some lines of an array: first … first + lanes - 1 of those that have n elements each, of which the first `count` are
   meant, `inner` elements apart. */
typedef struct {
  long n, inner, first, lanes, count;
} Lines;

/* Where line r of an array begins, in elements. */
INLINE long start_of(Lines a, long r) { return (r / a.inner * a.n * a.inner + r % a.inner); }

/* Whether there are LANES lines side by side. */
static int are_adjacent(Lines a) { return a.first % a.inner + LANES <= a.inner && a.lanes == LANES; }

/* Element k of `parts` numbers of each line to vectors k * every, …. A few elements of all lines are copied at a time, so
   that vectors are complete while they are in the cache. */
INLINE void gather(const REAL *from, REAL *to, Lines a, const long parts, const long every) {
  for (long start = 0; start < a.count; start += TILE)
    for (long l = 0; l < LANES; l++) {
      const REAL *line = from + parts * start_of(a, a.first + (l < a.lanes ? l : 0)); /* nothing is undefined */
      for (long k = start; k < least(a.count, start + TILE); k++)
        for (long c = 0; c < parts; c++) to[(k * every + c) * LANES + l] = line[parts * k * a.inner + c];
    }
}

INLINE void scatter(const REAL *from, REAL *to, Lines a, const long parts, const long every) {
  for (long start = 0; start < a.count; start += TILE)
    for (long l = 0; l < a.lanes; l++) {
      REAL *line = to + parts * start_of(a, a.first + l);
      for (long k = start; k < least(a.count, start + TILE); k++)
        for (long c = 0; c < parts; c++) line[parts * k * a.inner + c] = from[(k * every + c) * LANES + l];
    }
}

static void load_numbers(const REAL *from, Pair *to, Lines a) {
  if (!are_adjacent(a)) {
    gather(from, (REAL *)to, a, 2, 2);
    return;
  }
  const REAL *lines = from + 2 * start_of(a, a.first);
  for (long k = 0; k < a.count; k++) to[k] = loaded(lines + 2 * k * a.inner, LANES);
}

static void store_numbers(const Pair *from, REAL *to, Lines a) {
  if (!are_adjacent(a)) {
    scatter((const REAL *)from, to, a, 2, 2);
    return;
  }
  REAL *lines = to + 2 * start_of(a, a.first);
  for (long k = 0; k < a.count; k++) stored(from[k], lines + 2 * k * a.inner, LANES);
}

/* Real numbers into every vector, or into every second one. */
static void load_reals(const REAL *from, REAL *to, Lines a, long every) {
  const REAL *lines = from + start_of(a, a.first);
  if (are_adjacent(a))
    for (long k = 0; k < a.count; k++) memcpy(to + k * every * LANES, lines + k * a.inner, LANES * sizeof(REAL));
  else if (every == 1) gather(from, to, a, 1, 1);
  else gather(from, to, a, 1, 2);
}

static void store_reals(const REAL *from, REAL *to, Lines a, long every) {
  REAL *lines = to + start_of(a, a.first);
  if (are_adjacent(a))
    for (long k = 0; k < a.count; k++) memcpy(lines + k * a.inner, from + k * every * LANES, LANES * sizeof(REAL));
  else if (every == 1) scatter(from, to, a, 1, 1);
  else scatter(from, to, a, 1, 2);
}

/* Transform lines of complex numbers. */
static void block_of_lines(const Plan *plan, const REAL *from, REAL *to, Lines a, int back, REAL scale, Room room) {
  load_numbers(from, room.x, a);
  for (long k = 0; back && k < a.n; k++) room.x[k] = swapped(room.x[k], 1);
  Pair *found = transform(plan, room.x, room.y);
  if (back || scale != 1)
    for (long k = 0; k < a.n; k++) {
      const Pair z = swapped(found[k], back);
      found[k] = (Pair){z.re * scale, z.im * scale};
    }
  store_numbers(found, to, a);
}

/* Lines of an array of complex numbers: outer times inner of n numbers each. */
static int along(const REAL *from, REAL *to, const long *sizes, int back, REAL scale) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], count = outer * inner;
  Way way;
  int wrong = 0;
  if (count == 0 || n == 0) return 0;
  if (!choose_way(&way, n, count, inner == 1, 0)) return 1;
  const long size = way.line ? 1 : LANES, jobs = (count + size - 1) / size;
#pragma omp parallel num_threads(TEAM) if (!way.shared && jobs > 1 && count * n > WORTH)
  {
    Room room;
    const int ready = make_room(way, 0, &room);
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long j = 0; j < jobs; j++) {
      if (!ready) continue;
      if (way.line) transform_line(way.line, from + 2 * j * n, to + 2 * j * n, back, scale, room);
      else {
        const Lines lines = {n, inner, j * LANES, least(LANES, count - j * LANES), n};
        block_of_lines(way.block, from, to, lines, back, scale, room);
      }
    }
    free(room.x);
  }
  end_way(way);
  return wrong;
}

/* sizes: how many dimensions there are, then for each of them outer, n, inner. */
static int every(const long *sizes, const REAL *from, REAL *to, int back, double scale) {
  for (long d = 0; d < sizes[0]; d++)
    if (along(d ? to : from, to, sizes + 1 + 3 * d, back, d ? 1 : (REAL)scale)) return 1;
  return 0;
}

/* sizes: numbers, whether backward, the scale (two numbers), dimensions. */
int complex_REAL(const long *sizes, const void *const *given, void *const *made) {
  return every(sizes + 4, given[0], made[0], sizes[1] != 0, scale_of(sizes + 2));
}

/* -- real numbers: an even line is a complex one of half the length ------------------------------------ */

/* Numbers k and m - k of a spectrum of 2 m real numbers, from those of m complex ones; w: the root of k. */
INLINE void separated(Pair a, Pair b, Pair w, REAL scale, Pair *low, Pair *high) {
  const REAL half = scale / 2;
  const Pair even = {half * (a.re + b.re), half * (a.im - b.im)};
  const Pair odd = onto((Pair){half * (a.im + b.im), half * (b.re - a.re)}, w);
  *low = plus(even, odd), *high = (Pair){even.re - odd.re, odd.im - even.im};
}

/* The other way, without a factor of 1/2: numbers k and m - k of m complex ones from those of a spectrum. */
INLINE void joined(Pair a, Pair b, Pair w, Pair *low, Pair *high) {
  const Pair sum = {a.re + b.re, a.im - b.im};
  const Pair gap = onto((Pair){a.re - b.re, a.im + b.im}, (Pair){w.re, -w.im});
  *low = (Pair){sum.re - gap.im, sum.im + gap.re}, *high = (Pair){sum.re + gap.im, gap.re - sum.im};
}

/* Numbers from `at` on towards the first one. */
INLINE Pair loaded_down(const REAL *at, long lanes) {
  Pair z;
  if (lanes == LANES) {
    const REAL *low = at - 2 * (LANES - 1);
    for (long l = 0; l < LANES; l++) z.re[l] = low[2 * (LANES - 1 - l)], z.im[l] = low[2 * (LANES - 1 - l) + 1];
  } else {
    z = (Pair){{0}, {0}};
    for (long l = 0; l < lanes; l++) z.re[l] = at[-2 * l], z.im[l] = at[-2 * l + 1];
  }
  return z;
}

INLINE void stored_down(Pair z, REAL *at, long lanes) {
  for (long l = 0; l < lanes; l++) at[-2 * l] = z.re[l], at[-2 * l + 1] = z.im[l];
}

/* The spectrum of a real line in place of that of half as many complex numbers; there is room for one more. */
static void separate_line(REAL *line, long m, const Number *roots, REAL scale) {
  const REAL re = line[0], im = line[1];
  line[0] = scale * (re + im), line[1] = 0, line[2 * m] = scale * (re - im), line[2 * m + 1] = 0;
  for (long k = 1; k <= m / 2; k += LANES) {
    const long lanes = least(LANES, m / 2 + 1 - k);
    Pair low, high;
    const Pair a = loaded(line + 2 * k, lanes), b = loaded_down(line + 2 * (m - k), lanes);
    separated(a, b, loaded(&roots[k].re, lanes), scale, &low, &high);
    stored(low, line + 2 * k, lanes), stored_down(high, line + 2 * (m - k), lanes);
  }
}

static void join_line(const REAL *from, REAL *to, long m, const Number *roots) {
  to[0] = from[0] + from[2 * m], to[1] = from[0] - from[2 * m];
  for (long k = 1; k <= m / 2; k += LANES) {
    const long lanes = least(LANES, m / 2 + 1 - k);
    Pair low, high;
    const Pair a = loaded(from + 2 * k, lanes), b = loaded_down(from + 2 * (m - k), lanes);
    joined(a, b, loaded(&roots[k].re, lanes), &low, &high);
    stored(low, to + 2 * k, lanes), stored_down(high, to + 2 * (m - k), lanes);
  }
}

/* What the transforms of real lines have in common. */
typedef struct {
  long outer, n, inner, m, wanted; /* m: complex numbers of a line, n or n / 2 */
  REAL scale;
  Way way;
  const Number *roots; /* where m < n */
} Real;

/* The other half of a spectrum of which numbers 0 … n / 2 are there. */
static void mirror(REAL *line, long n, long wanted, long step) {
  for (long k = n / 2 + 1; k < wanted; k++)
    line[2 * k * step] = line[2 * (n - k) * step], line[2 * k * step + 1] = -line[2 * (n - k) * step + 1];
}

/* One contiguous line of real numbers; `line` has room for n + 2 numbers. */
static void forward_line(const Real *r, const REAL *from, REAL *to, REAL *line, Room room) {
  const long n = r->n, half = n / 2 + 1;
  if (r->m < n) {
    transform_line(r->way.line, from, line, 0, 1, room);
    separate_line(line, r->m, r->roots, r->scale);
  } else {
    for (long k = 0; k < n; k++) line[2 * k] = from[k], line[2 * k + 1] = 0;
    transform_line(r->way.line, line, line, 0, r->scale, room);
  }
  memcpy(to, line, 2 * half * sizeof(REAL));
  mirror(to, n, r->wanted, 1);
}

/* Real lines first … first + lanes - 1. */
static void forward_block(const Real *r, const REAL *from, REAL *to, long first, long lanes, Room room) {
  const long n = r->n, inner = r->inner, m = r->m;
  const Lines given = {n, inner, first, lanes, n}, wanted = {r->wanted, inner, first, lanes, n / 2 + 1};
  if (m == n) memset(room.x, 0, (size_t)m * sizeof(Pair));
  load_reals(from, (REAL *)room.x, given, m < n ? 1 : 2);
  Pair *found = transform(r->way.block, room.x, room.y), *spectrum = found == room.x ? room.y : room.x;
  for (long k = 0; m == n && k <= n / 2; k++)
    spectrum[k] = (Pair){found[k].re * r->scale, found[k].im * r->scale};
  for (long k = 0; m < n && k <= m / 2; k++)
    separated(found[k], found[k ? m - k : 0], spread(r->roots[k]), r->scale, spectrum + k, spectrum + m - k);
  store_numbers(spectrum, to, wanted);
  for (long l = 0; l < lanes; l++) mirror(to + 2 * start_of(wanted, first + l), n, r->wanted, inner);
}

/* Half a spectrum to a line of real numbers; `line` has room for n + 2 numbers. */
static void backward_line(const Real *r, const REAL *from, REAL *to, REAL *line, Room room) {
  const long n = r->n;
  if (r->m < n) {
    join_line(from, line, r->m, r->roots);
    transform_line(r->way.line, line, to, 1, r->scale, room);
    return;
  }
  memcpy(line, from, 2 * (n / 2 + 1) * sizeof(REAL));
  line[1] = 0;
  mirror(line, n, n, 1);
  transform_line(r->way.line, line, line, 1, r->scale, room);
  for (long k = 0; k < n; k++) to[k] = line[2 * k];
}

/* Half the spectra of lines first … first + lanes - 1 to real numbers: backward is forward with both parts swapped. */
static void backward_block(const Real *r, const REAL *from, REAL *to, long first, long lanes, Room room) {
  const long n = r->n, m = r->m, half = n / 2 + 1;
  load_numbers(from, room.y, (Lines){half, r->inner, first, lanes, half});
  room.y[0].im = (Vector){0};
  if (m < n) {
    room.y[m].im = (Vector){0};
    for (long k = 0; k <= m / 2; k++) {
      Pair low, high;
      joined(room.y[k], room.y[m - k], spread(r->roots[k]), &low, &high);
      room.x[m - k] = swapped(high, 1), room.x[k] = swapped(low, 1);
    }
  } else
    for (long k = 0; k <= n / 2; k++) {
      const Pair z = room.y[k];
      if (k) room.x[n - k] = (Pair){-z.im, z.re};
      room.x[k] = (Pair){z.im, z.re};
    }
  Pair *found = transform(r->way.block, room.x, room.y);
  for (long k = 0; k < m; k++) found[k] = (Pair){found[k].im * r->scale, found[k].re * r->scale};
  store_reals((const REAL *)found, to, (Lines){n, r->inner, first, lanes, n}, m < n ? 1 : 2);
}

/* All real lines of an array, forward or backward. sizes: outer, n, inner. */
static int real_lines(const REAL *from, REAL *to, const long *sizes, long wanted, double scale, int back) {
  const long n = sizes[1], inner = sizes[2], m = n % 2 ? n : n / 2, count = sizes[0] * inner, half = n / 2 + 1;
  Real r = {sizes[0], n, inner, m, wanted, (REAL)scale, {0, 0, 0}, 0};
  int wrong = 0;
  if (count == 0 || n == 0) return 0;
  Plan *turns = m < n ? take_plan(HALF, n) : 0;
  if ((m < n && !turns) || !choose_way(&r.way, m, count, inner == 1, 1)) return give_back(turns), 1;
  r.roots = turns ? turns->roots : 0;
  const long size = r.way.line ? 1 : LANES, jobs = (count + size - 1) / size, more = r.way.line ? BLOCKS(m + 2) : 0;
#pragma omp parallel num_threads(TEAM) if (!r.way.shared && jobs > 1 && count * n > WORTH)
  {
    Room room;
    const int ready = make_room(r.way, more, &room);
    REAL *line = ready ? (REAL *)(room.line - more) : 0;
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long j = 0; j < jobs; j++) {
      const long first = j * LANES, lanes = least(LANES, count - first);
      if (!ready) continue;
      if (r.way.line && !back) forward_line(&r, from + j * n, to + 2 * j * wanted, line, room);
      else if (r.way.line) backward_line(&r, from + 2 * j * half, to + j * n, line, room);
      else if (!back) forward_block(&r, from, to, first, lanes, room);
      else backward_block(&r, from, to, first, lanes, room);
    }
    free(room.x);
  }
  give_back(turns), end_way(r.way);
  return wrong;
}

/* Real to complex. sizes: outer, n, inner of the last dimension, how many of its numbers are wanted, the scale, other
   dimensions of the result. */
int forward_REAL(const long *sizes, const void *const *given, void *const *made) {
  const int wrong = real_lines(given[0], made[0], sizes, sizes[3], scale_of(sizes + 4), 0);
  return wrong || every(sizes + 6, made[0], made[0], 0, 1);
}

/* Half a spectrum to real numbers. sizes: outer, n, inner of the last dimension, numbers of the spectrum, the scale,
   other dimensions of the spectrum. */
int backward_REAL(const long *sizes, const void *const *given, void *const *made) {
  if (sizes[6] == 0) return real_lines(given[0], made[0], sizes, 0, scale_of(sizes + 4), 1);
  REAL *copy = room_for(2 * sizes[3], sizeof(REAL));
  const int wrong = !copy || every(sizes + 6, given[0], copy, 1, 1)
                    || real_lines(copy, made[0], sizes, 0, scale_of(sizes + 4), 1);
  free(copy);
  return wrong;
}

/* Fourier transforms along dimensions of arrays that lie row by row. Lines are copied, transformed in double, and
   copied back. A length whose prime factors are small is split into them, one after the other; any other is a
   convolution of a length that is a power of two (Bluestein). Roots of unity are computed once for each length. */

#include <math.h>

typedef struct {
  double re, im;
} Number;

#define MOST_FACTORS 64
#define LARGEST_FACTOR 31
#define PLANS 64 /* lengths whose roots are kept */

typedef struct Plan {
  long n;
  int count, factors[MOST_FACTORS];
  struct Plan *inner;   /* of the convolution */
  int owns;             /* whether it owns that plan */
  Number *roots;        /* exp(-2 pi i k / n) */
  Number *chirp, *bank; /* exp(-pi i k^2 / n), and the transform of its conjugates */
} Plan;

static Plan *kept[PLANS];
static int lock;

/* exp(-2 pi i k / n), from an angle of at most an eighth of a turn. */
static Number root(long k, long n) {
  long eighths = 8 * k / n;
  const long rest = 8 * k - eighths * n, up = eighths % 2;
  const double angle = 0.78539816339744830962 * (double)(up ? n - rest : rest) / (double)n;
  double c = cos(angle), s = sin(angle), t;
  if (up) t = c, c = s, s = t; /* in the second eighth of a quarter */
  switch (eighths / 2 % 4) {
    case 0: return (Number){c, -s};
    case 1: return (Number){-s, -c};
    case 2: return (Number){-c, s};
    default: return (Number){s, c};
  }
}

static Number times(Number a, Number b) { return (Number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static void free_plan(Plan *plan) {
  if (!plan) return;
  if (plan->owns) free_plan(plan->inner);
  free(plan->roots), free(plan->chirp), free(plan->bank), free(plan);
}

static void transform(const Plan *plan, const Number *from, long step, Number *to, Number *room);

static Plan *find_plan(long n, int *owned);

static int is_smooth(Plan *plan) {
  long left = plan->n;
  for (long f = 4; left > 1;) {
    if (left % f == 0) {
      if (f > LARGEST_FACTOR) return 0;
      plan->factors[plan->count++] = (int)f, left /= f;
    } else
      f = f == 4 ? 2 : f == 2 ? 3 : f * f > left ? left : f + 2;
  }
  return 1;
}

static Plan *make_plan(long n) {
  Plan *plan = calloc(1, sizeof(Plan));
  if (!plan) return 0;
  plan->n = n;
  if (is_smooth(plan)) {
    plan->roots = malloc(n * sizeof(Number));
    if (!plan->roots) return free_plan(plan), (Plan *)0;
    for (long k = 0; k < n; k++) plan->roots[k] = root(k, n);
    return plan;
  }
  long size = 1;
  while (size < 2 * n - 1) size *= 2;
  plan->inner = find_plan(size, &plan->owns);
  plan->chirp = malloc(n * sizeof(Number)), plan->bank = malloc(size * sizeof(Number));
  Number *line = calloc(2 * size, sizeof(Number));
  if (!plan->inner || !plan->chirp || !plan->bank || !line) return free(line), free_plan(plan), (Plan *)0;
  for (long k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++)
    plan->chirp[k] = root(square, 2 * n);
  for (long k = 0; k < n; k++) {
    const Number turned = {plan->chirp[k].re / size, -plan->chirp[k].im / size};
    line[k] = turned;
    if (k) line[size - k] = turned;
  }
  transform(plan->inner, line, 1, plan->bank, line + size);
  free(line);
  return plan;
}

/* The plan of a length; `owned` says whether it is the caller's to free. */
static Plan *find_plan(long n, int *owned) {
  *owned = 0;
  while (__sync_lock_test_and_set(&lock, 1)) {}
  Plan *found = 0;
  for (int k = 0; k < PLANS && !found; k++)
    if (kept[k] && kept[k]->n == n) found = kept[k];
  __sync_lock_release(&lock);
  if (found) return found;
  found = make_plan(n);
  if (!found) return 0;
  *owned = 1;
  while (__sync_lock_test_and_set(&lock, 1)) {}
  for (int k = 0; k < PLANS && *owned; k++)
    if (!kept[k]) kept[k] = found, *owned = 0;
  __sync_lock_release(&lock);
  return found;
}

/* Elements of room beside the result. */
static long room_of(const Plan *plan) { return plan->roots ? LARGEST_FACTOR : 2 * plan->inner->n + LARGEST_FACTOR; }

/* Transform n = f m numbers `step` apart: f transforms of m, then m of f. `turn` steps from root to root. */
static void split(const Plan *plan, const int *factors, const Number *from, long step, Number *to, long n,
                  Number *room) {
  const long f = n > 1 ? *factors : 1, m = n / f, turn = plan->n / n;
  if (n == 1) {
    to[0] = from[0];
    return;
  }
  for (long q = 0; q < f; q++) split(plan, factors + 1, from + q * step, step * f, to + q * m, m, room);
  for (long k = 0; k < m; k++) {
    if (f == 2) {
      const Number a = to[k], b = times(to[m + k], plan->roots[turn * k]);
      to[k] = (Number){a.re + b.re, a.im + b.im}, to[m + k] = (Number){a.re - b.re, a.im - b.im};
    } else if (f == 4) {
      const Number a = to[k], b = times(to[m + k], plan->roots[turn * k]);
      const Number c = times(to[2 * m + k], plan->roots[2 * turn * k]);
      const Number d = times(to[3 * m + k], plan->roots[3 * turn * k]);
      const Number p = {a.re + c.re, a.im + c.im}, q = {a.re - c.re, a.im - c.im};
      const Number r = {b.re + d.re, b.im + d.im}, s = {b.im - d.im, d.re - b.re}; /* -i (b - d) */
      to[k] = (Number){p.re + r.re, p.im + r.im}, to[m + k] = (Number){q.re + s.re, q.im + s.im};
      to[2 * m + k] = (Number){p.re - r.re, p.im - r.im}, to[3 * m + k] = (Number){q.re - s.re, q.im - s.im};
    } else {
      for (long q = 0; q < f; q++) room[q] = times(to[q * m + k], plan->roots[turn * q * k]);
      for (long p = 0; p < f; p++) {
        Number total = room[0];
        for (long q = 1; q < f; q++) {
          const Number term = times(room[q], plan->roots[plan->n / f * (p * q % f)]);
          total.re += term.re, total.im += term.im;
        }
        to[p * m + k] = total;
      }
    }
  }
}

static void transform(const Plan *plan, const Number *from, long step, Number *to, Number *room) {
  if (plan->roots) {
    split(plan, plan->factors, from, step, to, plan->n, room);
    return;
  }
  const long n = plan->n, size = plan->inner->n;
  Number *line = room, *spectrum = room + size;
  memset(line, 0, size * sizeof(Number));
  for (long k = 0; k < n; k++) line[k] = times(from[k * step], plan->chirp[k]);
  transform(plan->inner, line, 1, spectrum, room + 2 * size);
  for (long k = 0; k < size; k++) { /* conjugates, so that a second transform goes back */
    const Number product = times(spectrum[k], plan->bank[k]);
    spectrum[k] = (Number){product.re, -product.im};
  }
  transform(plan->inner, spectrum, 1, line, room + 2 * size);
  for (long k = 0; k < n; k++) to[k] = times((Number){line[k].re, -line[k].im}, plan->chirp[k]);
}

/* 1, 1 / sqrt(n) or 1 / n: how, and n. */
static double scale_of(const long *sizes) {
  const double n = (double)sizes[1];
  return sizes[0] == 0 ? 1 : 1 / (sizes[0] == 1 ? sqrt(n) : n);
}

/* What follows is written once for each REAL: float, double. */

/* Lines of an array of complex numbers, transformed in place: outer times n times inner of them. */
static int along_REAL(REAL *x, long outer, long n, long inner, int backward, double scale) {
  int owned = 0, wrong = 0;
  Plan *plan = find_plan(n, &owned);
  if (!plan) return 1;
#pragma omp parallel num_threads(TEAM) if (outer * inner > 1 && outer * n * inner > 1 << 14)
  {
    Number *line = malloc((2 * n + room_of(plan)) * sizeof(Number)), *result = line + n;
    if (!line) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static) nowait
    for (long r = 0; r < outer * inner; r++) {
      if (!line) continue;
      REAL *at = x + 2 * (r / inner * n * inner + r % inner);
      const double sign = backward ? -1 : 1;
      for (long k = 0; k < n; k++) line[k] = (Number){at[2 * k * inner], sign * at[2 * k * inner + 1]};
      transform(plan, line, 1, result, result + n);
      for (long k = 0; k < n; k++)
        at[2 * k * inner] = (REAL)(scale * result[k].re), at[2 * k * inner + 1] = (REAL)(sign * scale * result[k].im);
    }
    free(line);
  }
  if (owned) free_plan(plan);
  return wrong;
}

/* sizes: how many dimensions there are, then for each of them outer, n, inner. */
static int every_REAL(const long *sizes, REAL *x, int backward, double scale) {
  for (long d = 0; d < sizes[0]; d++) {
    const long *s = sizes + 1 + 3 * d;
    if (along_REAL(x, s[0], s[1], s[2], backward, d ? 1 : scale)) return 1;
  }
  return 0;
}

/* sizes: numbers, whether backward, the scale (two numbers), dimensions. */
int complex_REAL(const long *sizes, const void *const *given, void *const *made) {
  memcpy(made[0], given[0], 2 * sizes[0] * sizeof(REAL));
  return every_REAL(sizes + 4, made[0], sizes[1], scale_of(sizes + 2));
}

/* Real to complex. sizes: outer, n, inner of the last dimension, how many of its numbers are wanted, the scale, other
   dimensions of the result. An even line is a complex one of half the length. */
int forward_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], wanted = sizes[3], m = n % 2 ? n : n / 2;
  const double scale = scale_of(sizes + 4);
  int owned = 0, wrong = 0;
  Plan *plan = find_plan(m, &owned);
  Number *turns = malloc((m + 1) * sizeof(Number));
  if (!plan || !turns) return free(turns), 1;
  for (long k = 0; m < n && k <= m; k++) turns[k] = root(k, n);
#pragma omp parallel num_threads(TEAM) if (sizes[0] * inner > 1 && sizes[0] * n * inner > 1 << 14)
  {
    Number *line = malloc((2 * m + room_of(plan) + n) * sizeof(Number)), *result = line + m, *whole = result + m;
    if (!line) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static) nowait
    for (long r = 0; r < sizes[0] * inner; r++) {
      if (!line) continue;
      const REAL *from = (const REAL *)given[0] + r / inner * n * inner + r % inner;
      REAL *to = (REAL *)made[0] + 2 * (r / inner * wanted * inner + r % inner);
      for (long k = 0; k < m; k++)
        line[k] = m == n ? (Number){from[k * inner], 0} : (Number){from[2 * k * inner], from[(2 * k + 1) * inner]};
      transform(plan, line, 1, result, whole + n);
      if (m == n) memcpy(whole, result, n * sizeof(Number));
      for (long k = 0; m < n && k <= m; k++) { /* even and odd elements separated */
        const Number a = result[k % m], b = result[(m - k) % m];
        const Number even = {0.5 * (a.re + b.re), 0.5 * (a.im - b.im)};
        const Number odd = {0.5 * (a.im + b.im), 0.5 * (b.re - a.re)}, turned = times(odd, turns[k]);
        whole[k % n] = (Number){even.re + turned.re, even.im + turned.im};
      }
      for (long k = 0; k < wanted; k++) {
        const int beyond = k > n / 2;
        const Number value = whole[beyond ? n - k : k];
        to[2 * k * inner] = (REAL)(scale * value.re);
        to[2 * k * inner + 1] = (REAL)(scale * (beyond ? -value.im : value.im));
      }
    }
    free(line);
  }
  free(turns);
  if (owned) free_plan(plan);
  return wrong || every_REAL(sizes + 6, made[0], 0, 1);
}

/* Half a spectrum to real numbers. sizes: outer, n, inner of the last dimension, numbers of the spectrum, the scale,
   other dimensions of the spectrum. */
int backward_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], half = n / 2 + 1;
  const double scale = scale_of(sizes + 4);
  REAL *copy = malloc((2 * sizes[3] + 1) * sizeof(REAL));
  int owned = 0;
  Plan *plan = find_plan(n, &owned);
  Number *line = plan ? malloc((2 * n + room_of(plan)) * sizeof(Number)) : 0, *result = line + n;
  int wrong = !copy || !line;
  if (!wrong) {
    memcpy(copy, given[0], 2 * sizes[3] * sizeof(REAL));
    wrong = every_REAL(sizes + 6, copy, 1, 1);
  }
  for (long r = 0; r < sizes[0] * inner && !wrong; r++) {
    const REAL *from = copy + 2 * (r / inner * half * inner + r % inner);
    REAL *to = (REAL *)made[0] + r / inner * n * inner + r % inner;
    for (long k = 0; k < n; k++) { /* the conjugate of a spectrum that is its own mirror image */
      const int beyond = k >= half, single = k == 0 || 2 * k == n;
      const long at = 2 * (beyond ? n - k : k) * inner;
      line[k] = (Number){from[at], single ? 0 : beyond ? from[at + 1] : -from[at + 1]};
    }
    transform(plan, line, 1, result, result + n);
    for (long k = 0; k < n; k++) to[k * inner] = (REAL)(scale * result[k].re);
  }
  free(copy), free(line);
  if (owned) free_plan(plan);
  return wrong;
}

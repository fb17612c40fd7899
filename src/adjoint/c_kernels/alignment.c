/* The recursion of connectionist temporal classification (Graves et al. 2006, section 4.1) over places of texts, in double,
   and the gradient of what it emits. Arrays are steps times samples times places; threads share the samples. */

#define WORTH (1L << 13)
#define AWAY (-__builtin_inf())

/* log(exp(a) + exp(b) + exp(c)), from the two smaller ones; without a call, for vectors. */
static inline __attribute__((always_inline)) double log_of_three(double a, double b, double c) {
  const double high = a > b ? a : b, low = a > b ? b : a, top = c > high ? c : high, rest = c > high ? high : c;
  const double base = top - top == 0 ? top : 0, more = exp_double(low - base) + exp_double(rest - base);
  const double part = more > 1 ? (more - 1) / 2 : more;
  const double found = top + ((more > 1 ? 0.69314718055994530942 : 0) + log1p_of_part(part));
  return (a != a) | (b != b) | (c != c) ? a + b + c : top - top == 0 ? found : top;
}

/* What follows is written once for each REAL: float, double. */

/* What is added to where two places cannot be skipped. */
static void bars(const uchar *blocked, long size, double *to) {
  for (long s = 0; s < size; s++) to[s] = blocked[s] ? AWAY : 0;
}

/* sizes: steps, samples, places. given: what is emitted, where two places cannot be skipped, steps of each sample. */
int alphas_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long steps = sizes[0], count = sizes[1], size = sizes[2];
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (steps * count * size > WORTH)
  for (long n = 0; n < count; n++) {
    const long last = ((const long long *)given[2])[n];
    double *rows = malloc((3 * size + 4) * sizeof(double)), *row = rows, *next = rows + size + 2;
    double *barred = next + size + 2;
    if (!rows) {
#pragma omp atomic write
      wrong = 1;
      continue;
    }
    row[0] = row[1] = next[0] = next[1] = AWAY;
    bars((const uchar *)given[1] + n * size, size, barred);
    for (long t = 0; t < steps; t++) {
      const REAL *emitted = (const REAL *)given[0] + (t * count + n) * size;
      REAL *to = (REAL *)made[0] + (t * count + n) * size;
      if (t == 0)
        for (long s = 0; s < size; s++) next[s + 2] = s < 2 ? emitted[s] : AWAY;
      else if (t >= last) memcpy(next + 2, row + 2, size * sizeof(double));
      else
#pragma omp simd
        for (long s = 0; s < size; s++)
          next[s + 2] = log_of_three(row[s + 2], row[s + 1], row[s] + barred[s]) + emitted[s];
      for (long s = 0; s < size; s++) to[s] = (REAL)next[s + 2];
      double *other = row;
      row = next, next = other;
    }
    free(rows);
  }
  return wrong;
}

/* sizes: steps, samples, places. given: the gradient of the alphas, what was emitted, where two places cannot be skipped,
   steps of each sample, the alphas. */
int alphas_back_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long steps = sizes[0], count = sizes[1], size = sizes[2], wide = size + 2;
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (steps * count * size > WORTH)
  for (long n = 0; n < count; n++) {
    const long last = ((const long long *)given[3])[n];
    double *room = calloc(6 * wide, sizeof(double)), *row = room, *carried = room + wide, *barred = carried + wide;
    double *stay = barred + wide, *step = stay + wide, *skip = step + wide; /* what goes to each place before */
    if (!room) {
#pragma omp atomic write
      wrong = 1;
      continue;
    }
    row[0] = row[1] = AWAY;
    bars((const uchar *)given[2] + n * size, size, barred);
    for (long t = steps - 1; t >= 0; t--) {
      const long at = (t * count + n) * size;
      const REAL *grad = (const REAL *)given[0] + at, *before = (const REAL *)given[4] + at - count * size;
      REAL *to = (REAL *)made[0] + at;
      for (long s = 0; s < size; s++) {
        carried[s] += grad[s];
        to[s] = (REAL)(t ? (t < last ? carried[s] : 0) : s < 2 ? carried[s] : 0);
      }
      if (t == 0 || t >= last) continue;
      for (long s = 0; s < size; s++) row[s + 2] = before[s];
#pragma omp simd
      for (long s = 0; s < size; s++) {
        const double a = row[s + 2], b = row[s + 1], c = row[s] + barred[s];
        const double high = a > b ? a : b, top = c > high ? c : high, base = top == AWAY ? 0 : top;
        const double x = exp_double(a - base), y = exp_double(b - base), z = exp_double(c - base);
        const double each = top == AWAY ? 0 : carried[s] / (x + y + z);
        stay[s] = each * x, step[s] = each * y, skip[s] = each * z;
      }
      for (long s = 0; s < size; s++) carried[s] = stay[s] + step[s + 1] + skip[s + 2]; /* 0 beyond the last place */
    }
    free(room);
  }
  return wrong;
}

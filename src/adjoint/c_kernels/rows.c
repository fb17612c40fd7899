/* Softmax, layer normalisation, running totals and extremes of rows that lie one after the other, compiled once for each machine.
   A row stays in the cache between its passes, threads share the rows. Sums are in double, of short sums in vectors. */

#define WORTH (1L << 15) /* elements from which threads share the rows */
#define SIDE 1024        /* columns at once */
#define NEAR 32          /* columns at once if threads share a row */
#define RUN 4096         /* elements of a sum in REAL itself */
#define WIDE 64          /* accumulators of such a sum */
#define LINES 8          /* rows whose running totals go on at once */
#define INLINE static inline __attribute__((always_inline))
#define LOG_HALF -0.6931471805599453
#define LEAST 4          /* runs that are added one by one */
#define FEW 32           /* rows whose gradients are added up before others are, at most; parts of few rows, about */

/* What follows is written once for each REAL: float, double. */

/* A sum of ONE over the elements i of a row, in runs of REAL: doubles would halve the vectors. */
#define SUM(ONE, total)                                     \
  for (long b = 0; b < n; b += RUN) {                       \
    const long last = n - b < RUN ? n : b + RUN;            \
    REAL part = 0;                                          \
    _Pragma("omp simd reduction(+ : part)")                 \
    for (long i = b; i < last; i++) part += ONE;            \
    total += part;                                          \
  }

/* Two sums over a row at once, ONE and TWO of its element i, in runs of many accumulators: one addition waits for the one
   before. */
#define SUMS(ONE, TWO, first, second)                                                       \
  for (long b = 0; b < n; b += RUN) {                                                       \
    const long last = n - b < RUN ? n : b + RUN;                                            \
    REAL one[WIDE] = {0}, two[WIDE] = {0}, rest = 0, other = 0;                             \
    long s = b;                                                                             \
    for (; s + WIDE <= last; s += WIDE) {                                                   \
      _Pragma("omp simd")                                                                   \
      for (long l = 0; l < WIDE; l++) {                                                     \
        const long i = s + l;                                                               \
        one[l] += ONE, two[l] += TWO;                                                       \
      }                                                                                     \
    }                                                                                       \
    _Pragma("omp simd reduction(+ : rest, other)")                                          \
    for (long i = s; i < last; i++) rest += ONE, other += TWO;                              \
    for (long m = WIDE / 2; m >= LEAST; m /= 2) {                                           \
      _Pragma("omp simd")                                                                   \
      for (long l = 0; l < m; l++) one[l] += one[l + m], two[l] += two[l + m];              \
    }                                                                                       \
    for (long l = 0; l < LEAST; l++) rest += one[l], other += two[l];                       \
    first += rest, second += other;                                                         \
  }

/* exp(x - top): the difference to twice the precision (Knuth), since exp turns its digits into magnitude. */
INLINE REAL power_below(REAL x, REAL top) {
  const REAL d = x - top, moved = d - x, lost = (x - (d - moved)) - (top + moved), e = exp_REAL(d);
  return e + e * (lost - lost == 0 ? lost : 0);
}

static void softmax_row(long n, long logarithm, const REAL *from, const REAL *none, const REAL *nor, REAL *to) {
  REAL top = from[0];
  int whole = 1; /* no NaN */
#pragma omp simd reduction(max : top) reduction(& : whole)
  for (long i = 0; i < n; i++) top = from[i] > top ? from[i] : top, whole &= from[i] == from[i];
  if (!whole) top = (REAL)__builtin_nan("");
  double total = 0;
  if (logarithm) { /* the largest term is 1: small terms would vanish when added to it */
    double ones = 0;
    for (long b = 0; b < n; b += RUN) {
      const long last = n - b < RUN ? n : b + RUN;
      REAL part = 0, equal = 0;
#pragma omp simd reduction(+ : part, equal)
      for (long i = b; i < last; i++) {
        const REAL away = from[i] - top, power = power_below(from[i], top);
        part += away == 0 ? 0 : power, equal += away == 0 ? 1 : 0;
      }
      total += part, ones += equal;
    }
    const REAL shift = (REAL)__builtin_log1p(total + (ones - 1));
    for (long i = 0; i < n; i++) to[i] = (from[i] - top) - shift;
  } else {
    SUM((to[i] = power_below(from[i], top)), total)
    const REAL scale = (REAL)total;
    for (long i = 0; i < n; i++) to[i] /= scale;
  }
}

/* The logarithm of a share keeps fewer digits of the share the smaller that is. Below exp(FEW_DIGITS) what rounding took is found
   from x: the difference of x from the largest, and the logarithm of the largest share. */
#define FEW_DIGITS -16
INLINE REAL share_of(REAL own, REAL most, REAL x, REAL top) {
  const REAL d = x - top, moved = d - x, lost = (x - (d - moved)) - (top + moved), more = ((d - own) + most) + lost;
  const REAL bound = (sizeof(REAL) == 4 ? 0x1p-21 : 0x1p-50) * (REAL)(-own - most), share = exp_REAL(own);
  return more <= bound && -more <= bound ? share + share * more : share;
}

/* The gradient of a row of x from that of y, and y. An element of y that is 0 has none, whatever arrives there; that of one
   above 1/2 is minus the sum of the others, since they add up to 0: its own formula would cancel. */
static void softmax_row_back(long n, long logarithm, const REAL *g, const REAL *own, const REAL *x, REAL *to) {
  double total = 0, none = 0;
  REAL top = own[0], least = own[0];
  if (logarithm) {
    SUMS(g[i], 0, total, none)
    const REAL sum = (REAL)total;
#pragma omp simd reduction(max : top) reduction(min : least)
    for (long i = 0; i < n; i++) {
      to[i] = g[i] - exp_REAL(own[i]) * sum;
      top = own[i] > top ? own[i] : top, least = own[i] < least ? own[i] : least;
    }
    if (least < FEW_DIGITS) {
      REAL largest = x[0];
#pragma omp simd reduction(max : largest)
      for (long i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
#pragma omp simd
      for (long i = 0; i < n; i++) to[i] = g[i] - share_of(own[i], top, x[i], largest) * sum;
    }
  } else {
    SUMS(g[i] * own[i], 0, total, none)
    if (total - total != 0) { /* an infinity, perhaps at a y of 0 */
      total = 0;
      SUMS((own[i] == 0 ? 0 : g[i] * own[i]), 0, total, none)
      for (long i = 0; i < n; i++) to[i] = own[i] == 0 ? 0 : own[i] * (g[i] - (REAL)total);
      return;
    }
    const REAL sum = (REAL)total;
#pragma omp simd reduction(max : top)
    for (long i = 0; i < n; i++) to[i] = own[i] * (g[i] - sum), top = own[i] > top ? own[i] : top;
  }
  const REAL most = (REAL)(logarithm ? LOG_HALF : 0.5);
  if (!(top > most)) return;
  double others = 0;
  none = 0;
  SUMS((own[i] > most ? 0 : to[i]), 0, others, none)
  const REAL rest = (REAL)-others;
#pragma omp simd
  for (long i = 0; i < n; i++) to[i] = own[i] > most ? rest : to[i];
}

/* Sums over columns, ONE of the element at `at` in column c, in runs of FEW rows of the own type. */
#define SUM_COLUMNS(ONE, total)                                            \
  for (long b = 0; b < n; b += FEW) {                                      \
    REAL part[SIDE] = {0};                                                 \
    for (long i = b; i < n && i < b + FEW; i++) {                          \
      const long at = i * step;                                            \
      _Pragma("omp simd")                                                  \
      for (long c = 0; c < wide; c++) part[c] += ONE;                      \
    }                                                                      \
    for (long c = 0; c < wide; c++) total[c] += part[c];                   \
  }

/* The sums of `wide` columns at once. */
static void softmax_columns(long n, long wide, long step, long logarithm, const REAL *from, const REAL *none, const REAL *nor,
                            REAL *to) {
  REAL top[SIDE];
  double total[SIDE] = {0};
  for (long c = 0; c < wide; c++) top[c] = from[c];
  for (long i = 1; i < n; i++)
#pragma omp simd
    for (long c = 0; c < wide; c++) {
      const REAL v = from[i * step + c], one = v > top[c] ? v : top[c];
      top[c] = v != v ? v : one;
    }
  if (logarithm) { /* the largest terms are 1: small terms would vanish when added to them */
    REAL ones[SIDE] = {0}, shift[SIDE];
    SUM_COLUMNS((ones[c] += from[at + c] - top[c] == 0, from[at + c] - top[c] == 0 ? 0 : power_below(from[at + c], top[c])), total)
    for (long c = 0; c < wide; c++) shift[c] = (REAL)__builtin_log1p(total[c] + (ones[c] - 1));
    for (long i = 0; i < n; i++)
#pragma omp simd
      for (long c = 0; c < wide; c++) to[i * step + c] = (from[i * step + c] - top[c]) - shift[c];
    return;
  }
  SUM_COLUMNS((to[at + c] = power_below(from[at + c], top[c])), total)
  for (long c = 0; c < wide; c++) top[c] = (REAL)total[c];
  for (long i = 0; i < n; i++)
#pragma omp simd
    for (long c = 0; c < wide; c++) to[i * step + c] /= top[c];
}

/* The same again of columns where shares are small. */
static void small_shares(long n, long wide, long step, const REAL *g, const REAL *own, const REAL *x, const REAL *sum, REAL *to) {
  REAL top[SIDE], largest[SIDE];
  for (long c = 0; c < wide; c++) top[c] = own[c], largest[c] = x[c];
  for (long i = 1; i < n; i++)
#pragma omp simd
    for (long c = 0; c < wide; c++) {
      const long at = i * step + c;
      top[c] = own[at] > top[c] ? own[at] : top[c], largest[c] = x[at] > largest[c] ? x[at] : largest[c];
    }
  for (long i = 0; i < n; i++)
#pragma omp simd
    for (long c = 0; c < wide; c++) {
      const long at = i * step + c;
      to[at] = g[at] - share_of(own[at], top[c], x[at], largest[c]) * sum[c];
    }
}

static void softmax_columns_back(long n, long wide, long step, long logarithm, const REAL *g, const REAL *own, const REAL *x,
                                 REAL *to) {
  double total[SIDE] = {0};
  REAL sum[SIDE];
  if (logarithm) {
    SUM_COLUMNS(g[at + c], total)
  } else {
    SUM_COLUMNS((own[at + c] == 0 ? 0 : g[at + c] * own[at + c]), total)
  }
  const REAL most = (REAL)(logarithm ? LOG_HALF : 0.5);
  int large = 0, small = 0;
  for (long c = 0; c < wide; c++) sum[c] = (REAL)total[c];
  for (long i = 0; i < n; i++) {
    const long at = i * step;
    if (logarithm) {
#pragma omp simd
      for (long c = 0; c < wide; c++) to[at + c] = g[at + c] - exp_REAL(own[at + c]) * sum[c];
    } else {
#pragma omp simd
      for (long c = 0; c < wide; c++) to[at + c] = own[at + c] == 0 ? 0 : own[at + c] * (g[at + c] - sum[c]);
    }
#pragma omp simd reduction(| : large, small)
    for (long c = 0; c < wide; c++) large |= own[at + c] > most, small |= own[at + c] < FEW_DIGITS;
  }
  if (logarithm && small) small_shares(n, wide, step, g, own, x, sum, to);
  if (!large) return;
  for (long c = 0; c < wide; c++) total[c] = 0;
  SUM_COLUMNS((own[at + c] > most ? 0 : to[at + c]), total)
  for (long i = 0; i < n; i++)
    for (long c = 0; c < wide; c++)
      if (own[i * step + c] > most) to[i * step + c] = (REAL)-total[c];
}

/* Columns that are taken at once, in whole lines of the cache. One thread takes whole rows, which may be pages of their own.
   Several take a few columns one after the other: what a core fetches ahead, beyond them, is then its own next ones, and not
   what another core writes. A column's values do not depend on those beside it. */
static long side_of(long outer, long inner) {
  const long alone = outer >= TEAM, side = (inner + 15) / 16 * 16, most = alone ? SIDE : NEAR;
  return side < most ? side : most;
}

/* A function of rows, or of several columns at once, along the middle one of three dimensions. sizes: those three, and whether
   the logarithm is wanted. */
typedef void Rows(long n, long logarithm, const REAL *one, const REAL *other, const REAL *third, REAL *to);
typedef void Columns(long n, long wide, long step, long logarithm, const REAL *one, const REAL *other, const REAL *third,
                     REAL *to);
static int along_middle(const long *sizes, Rows *row, Columns *columns, const REAL *one, const REAL *other, const REAL *third,
                        REAL *to) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], logarithm = sizes[3];
  const long side = side_of(outer, inner);
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n * inner > WORTH)
  for (long o = 0; o < outer; o++)
    for (long c = 0; c < inner; c += side) {
      const long start = o * n * inner + c, wide = inner - c < side ? inner - c : side;
      const REAL *second = other ? other + start : other, *last = third ? third + start : third;
      if (inner == 1) row(n, logarithm, one + start, second, last, to + start);
      else columns(n, wide, inner, logarithm, one + start, second, last, to + start);
    }
  return 0;
}

int softmax_REAL(const long *sizes, const REAL *x, REAL *y) {
  return along_middle(sizes, softmax_row, softmax_columns, x, NULL, NULL, y);
}

/* The gradient of x from that of y, and y; of the logarithm from x, too. */
int softmax_back_REAL(const long *sizes, const REAL *grad, const REAL *y, const REAL *x, REAL *of_x) {
  return along_middle(sizes, softmax_row_back, softmax_columns_back, grad, y, x, of_x);
}

/* Mean squares between these bounds have not overflowed or underflowed. */
#define LOWEST (sizeof(REAL) == 4 ? 0x1p-90 : 0x1p-960)
#define HIGHEST (sizeof(REAL) == 4 ? 0x1p+126 : 0x1p+1022)

/* 1 / sqrt(mean((x - mean)^2) + eps) outside these bounds: computed after a division by the largest element. */
static __attribute__((noinline)) double careful_rstd(long n, const REAL *from, double mean, double eps) {
  double top = 0, square = 0;
  for (long i = 0; i < n; i++) {
    const double away = __builtin_fabs(from[i] - mean);
    top = away > top || away != away ? away : top;
  }
  if (top > 0)
    for (long i = 0; i < n; i++) square += (from[i] - mean) / top * ((from[i] - mean) / top);
  return 1 / __builtin_hypot(__builtin_sqrt(square / (double)n) * (top > 0 ? top : 1), __builtin_sqrt(eps));
}

/* y = (x - mean) * rstd * weight + bias; sizes: rows, columns, whether there is a mean (else it is 0). */
int layer_REAL(const long *sizes, double eps, const REAL *x, const REAL *weight, const REAL *bias, REAL *y, REAL *means,
               REAL *rstds) {
  const long rows = sizes[0], n = sizes[1];
#pragma omp parallel for num_threads(TEAM) schedule(static) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) {
    const REAL *from = x + r * n;
    REAL *to = y + r * n;
    double total = 0, square = 0, none = 0;
    if (sizes[2]) SUMS(from[i], 0, total, none)
    REAL mean = (REAL)(total / (double)n);
    SUMS((from[i] - mean) * (from[i] - mean), 0, square, none)
    REAL rstd = (REAL)(1 / __builtin_sqrt(square / (double)n + eps));
    if (!(square < HIGHEST) || square / (double)n + eps < LOWEST) {
      total = 0;
      for (long i = 0; i < n && sizes[2]; i++) total += from[i] / (double)n;
      mean = (REAL)total, rstd = (REAL)careful_rstd(n, from, mean, eps);
    }
    if (weight && bias)
      for (long i = 0; i < n; i++) to[i] = (from[i] - mean) * rstd * weight[i] + bias[i];
    else if (weight)
      for (long i = 0; i < n; i++) to[i] = (from[i] - mean) * rstd * weight[i];
    else if (bias)
      for (long i = 0; i < n; i++) to[i] = (from[i] - mean) * rstd + bias[i];
    else
      for (long i = 0; i < n; i++) to[i] = (from[i] - mean) * rstd;
    means[r] = mean, rstds[r] = rstd;
  }
  return 0;
}

/* The gradient of a row of x: rstd * (h - mean(h) - x̂ mean(h x̂)) with h = g * weight. */
static void layer_row(long n, const REAL *from, const REAL *g, const REAL *weight, int centred, REAL mean, REAL rstd, REAL *to) {
  double plain = 0, along = 0;
  if (weight) {
    SUMS(g[i] * weight[i], g[i] * weight[i] * (from[i] - mean), plain, along)
  } else {
    SUMS(g[i], g[i] * (from[i] - mean), plain, along)
  }
  const REAL middle = centred ? (REAL)(plain / (double)n) : 0, slope = (REAL)(along / (double)n * rstd * rstd);
  if (weight)
    for (long i = 0; i < n; i++) to[i] = (g[i] * weight[i] - middle - (from[i] - mean) * slope) * rstd;
  else
    for (long i = 0; i < n; i++) to[i] = (g[i] - middle - (from[i] - mean) * slope) * rstd;
}

/* The gradient of x, by its rows' means (null: they are 0) and 1/sigma; and those of weight and bias, where the last is wanted: Σ g x̂ and Σ g over the rows, first over
   some, whose number does not depend on threads. */
int layer_back_REAL(const long *sizes, const REAL *grad, const REAL *x, const REAL *weight, const REAL *means,
                    const REAL *rstds, REAL *of_x, REAL *of_weight, REAL *of_bias) {
  const long rows = sizes[0], n = sizes[1], few = rows < FEW * FEW ? (rows + FEW - 1) / FEW : FEW;
  const long parts = (rows + few - 1) / few;
  REAL *sums = of_bias ? calloc((size_t)(2 * parts * n), sizeof(REAL)) : 0;
  if (of_bias && !sums) return 1;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (rows * n > WORTH)
  for (long p = 0; p < parts; p++)
    for (long r = p * few; r < rows && r < (p + 1) * few; r++) {
      const REAL *from = x + r * n, *g = grad + r * n, mean = means ? means[r] : 0, rstd = rstds[r];
      layer_row(n, from, g, weight, means != 0, mean, rstd, of_x + r * n);
      if (!sums) continue;
      REAL *along = sums + 2 * p * n, *plain = along + n;
#pragma omp simd
      for (long i = 0; i < n; i++) along[i] += g[i] * ((from[i] - mean) * rstd), plain[i] += g[i];
    }
  if (!sums) return 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (parts * n > WORTH)
  for (long c = 0; c < n; c += SIDE) {
    const long wide = n - c < SIDE ? n - c : SIDE;
    double along[SIDE] = {0}, plain[SIDE] = {0};
    for (long p = 0; p < parts; p++)
      for (long i = 0; i < wide; i++) along[i] += sums[2 * p * n + c + i], plain[i] += sums[(2 * p + 1) * n + c + i];
    for (long i = 0; i < wide; i++) of_weight[c + i] = (REAL)along[i], of_bias[c + i] = (REAL)plain[i];
  }
  free(sums);
  return 0;
}

/* Running totals, or products, of LINES rows at once, or of one: an addition waits for the one before in its row. */
INLINE void running_rows(long rows, long n, long product, const REAL *from, long across, long along, REAL *to, long step) {
  double total[LINES];
  for (long r = 0; r < rows; r++) total[r] = (double)product;
  for (long i = 0; i < n; i++, from += along, to += step)
    for (long r = 0; r < rows; r++) {
      const REAL v = from[r * across];
      to[r * n] = (REAL)(total[r] = product ? total[r] * v : total[r] + v);
    }
}

static void running_columns(long n, long wide, long step, long product, const REAL *from, REAL *to) {
  double total[SIDE];
  for (long c = 0; c < wide; c++) total[c] = (double)product;
  for (long i = 0; i < n; i++, from += step, to += step) {
    if (product)
      for (long c = 0; c < wide; c++) to[c] = (REAL)(total[c] *= from[c]);
    else
      for (long c = 0; c < wide; c++) to[c] = (REAL)(total[c] += from[c]);
  }
}

/* Running totals, or products, along the middle one of three dimensions. sizes: those three, whether products are
   wanted, whether it begins at the end; and how many elements of x are between those of a row, where rows are reduced: 1, or
   as many as there are rows, which then lie side by side. */
int running_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], product = sizes[3];
  const long step = sizes[4] ? -inner : inner, start = sizes[4] ? (n - 1) * inner : 0;
  if (inner == 1) {
    const long lines = outer >= LINES * TEAM ? LINES : 1, turned = sizes[5] != 1;
    const long across = turned ? 1 : n, along = sizes[4] ? -sizes[5] : sizes[5], first = sizes[4] ? (n - 1) * sizes[5] : 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n > WORTH)
    for (long r = 0; r < outer; r += lines) {
      const REAL *from = x + r * across + first;
      REAL *to = y + r * n + start;
      if (lines == 1 || outer - r < LINES)
        for (long k = 0; k < lines && r + k < outer; k++)
          running_rows(1, n, product, from + k * across, across, along, to + k * n, step);
      else if (product) running_rows(LINES, n, 1, from, across, along, to, step);
      else if (turned) running_rows(LINES, n, 0, from, 1, along, to, step);
      else running_rows(LINES, n, 0, from, n, step, to, step);
    }
    return 0;
  }
  const long side = side_of(outer, inner), sides = (inner + side - 1) / side;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n * inner > WORTH)
  for (long p = 0; p < outer * sides; p++) {
    const long first = p % sides * side, place = p / sides * n * inner + first + start;
    running_columns(n, inner - first < side ? inner - first : side, step, product, x + place, y + place);
  }
  return 0;
}

/* Running maxima along the middle one of three dimensions, or minima, and where the latest one stands; NaN wins. sizes:
   those three, and whether minima are wanted. */
int extremes_REAL(const long *sizes, const REAL *x, REAL *y, long *places) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], least = sizes[3];
  const long side = side_of(outer, inner), sides = (inner + side - 1) / side;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n * inner > WORTH)
  for (long p = 0; p < outer * sides; p++) {
    const long first = p % sides * side, wide = inner - first < side ? inner - first : side;
    const long start = p / sides * n * inner + first;
    const REAL *from = x + start;
    REAL *to = y + start, best[SIDE];
    long *at = places + start, place[SIDE];
    if (inner == 1) {
      REAL top = from[0];
      long own = 0;
      for (long i = 0; i < n; i++) {
        const REAL v = from[i * inner];
        /* a branch that is rarely taken: a choice would wait for the one before */
        if (__builtin_expect(least ? !(v > top) : !(v < top), 0) && (v == v ? top == top : 1)) top = v, own = i;
        to[i * inner] = top, at[i * inner] = own;
      }
      continue;
    }
    for (long c = 0; c < wide; c++) best[c] = from[c], place[c] = 0;
    for (long i = 0; i < n; i++, from += inner, to += inner, at += inner) {
#pragma omp simd
      for (long c = 0; c < wide; c++) {
        const REAL v = from[c], b = best[c];
        const int ahead = least ? v <= b : v >= b, odd = v != v;
        const int later = ahead | odd;
        to[c] = best[c] = later ? v : b;
        at[c] = place[c] = later ? i : place[c];
      }
    }
  }
  return 0;
}

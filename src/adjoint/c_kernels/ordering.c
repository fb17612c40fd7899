/* What depends on the order of elements along a dimension: searching, counting in bins, running extrema and recurrences.
   Arrays are `outer` times n times `inner` elements, of which those along n belong together. A function takes numbers, operands and results; it returns whether it failed. */

#define WORTH (1L << 15) /* elements from which threads share them */
#define BLOCK 4096       /* values up to which a search takes one after another */
#define PLACES 8         /* values searched for at once */
#define LANES 16         /* elements in vectors */
#define WIDE 64          /* lines side by side */

/* A real number among the integers of `sizes`. */
static double real_of(long bits) {
  double found;
  memcpy(&found, &bits, sizeof found);
  return found;
}

/* What follows is written once for each REAL: float, double. */

typedef __typeof__(__builtin_choose_expr(sizeof(REAL) == 4, 1u, 1ull)) Bits_REAL; /* those of a number */

static int is_nan_REAL(REAL x) { return x != x; }

/* The position of a value in a sequence sorted by an order of indices; -1 if an index is out of range. */
static long place_REAL(const REAL *sequence, const long long *order, long n, REAL value, long right) {
  long low = 0, high = n;
  while (low < high) {
    const long middle = low + (high - low) / 2, place = order ? order[middle] : middle;
    if (place < 0 || place >= n) return -1;
    const int after = right ? !(sequence[place] > value) : !(sequence[place] >= value);
    low = after ? middle + 1 : low, high = after ? high : middle;
  }
  return low;
}

/* The positions of PLACES values at once, in a sequence without NaN, without branches. */
static void places_REAL(const REAL *sequence, long n, const REAL *values, long right, long *places) {
  const REAL *at[PLACES];
  for (int l = 0; l < PLACES; l++) at[l] = sequence;
  for (long left = n; left > 1; left -= left / 2)
#pragma GCC unroll 8
    for (int l = 0; l < PLACES; l++) {
      const REAL here = at[l][left / 2 - 1];
      at[l] += -(long)(right ? !(here > values[l]) : !(here >= values[l])) & (left / 2);
    }
  for (int l = 0; l < PLACES; l++)
    places[l] = at[l] - sequence + (right ? !(*at[l] > values[l]) : !(*at[l] >= values[l]));
}

static int has_nan_REAL(const REAL *x, long n) {
  int odd = 0;
#pragma omp parallel for simd num_threads(TEAM) schedule(static) reduction(| : odd) if (n > WORTH)
  for (long i = 0; i < n; i++) odd |= is_nan_REAL(x[i]);
  return odd;
}

/* Where values belong in sorted sequences. sizes: sequences, their length, values for each, whether after equal ones,
   whether the places are of 32 bits, whether an order is given. */
int search_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], count = sizes[2], right = sizes[3], blocks = (count + BLOCK - 1) / BLOCK;
  const int quick = !sizes[5] && n && n <= 128 * count && !has_nan_REAL(given[0], sizes[0] * n);
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) reduction(| : wrong) if (sizes[0] * count > WORTH)
  for (long b = 0; b < sizes[0] * blocks; b++) {
    const long row = b / blocks, start = row * count + b % blocks * BLOCK;
    const long end = (row + 1) * count < start + BLOCK ? (row + 1) * count : start + BLOCK;
    const REAL *sequence = (const REAL *)given[0] + row * n, *values = given[1];
    const long long *order = sizes[5] ? (const long long *)given[2] + row * n : 0;
    for (long k = start; k < end; k += PLACES) {
      const long lanes = end - k < PLACES ? end - k : PLACES;
      long found[PLACES];
      if (quick && lanes == PLACES) places_REAL(sequence, n, values + k, right, found);
      else
        for (long l = 0; l < lanes; l++) found[l] = place_REAL(sequence, order, n, values[k + l], right);
      for (long l = 0; l < lanes; l++) {
        wrong |= found[l] < 0;
        if (sizes[4]) ((int *)made[0])[k + l] = (int)found[l];
        else ((long long *)made[0])[k + l] = found[l];
      }
    }
  }
  return wrong;
}

/* The ends of a row; NaN where there is one. */
static void ends_REAL(const REAL *row, long n, REAL *low, REAL *high) {
  REAL least = row[0], most = row[0];
  int odd = 0;
#pragma omp parallel for simd num_threads(TEAM) schedule(static) reduction(min : least) reduction(max : most) reduction(| : odd) if (n > WORTH)
  for (long i = 0; i < n; i++) {
    least = row[i] < least ? row[i] : least, most = row[i] > most ? row[i] : most;
    odd |= row[i] != row[i];
  }
  *low = odd ? (REAL)__builtin_nan("") : least, *high = odd ? (REAL)__builtin_nan("") : most;
}

/* Count elements in bins; a last bin counts elements outside all bins. */
static void counted_REAL(const REAL *x, long n, REAL low, REAL high, long bins, long *counts) {
  const REAL scale = bins / (high - low);
  for (long b = 0; b < n; b += LANES) {
    const long lanes = n - b < LANES ? n - b : LANES;
    long places[LANES];
#pragma omp simd
    for (long l = 0; l < lanes; l++) {
      const int inside = (x[b + l] >= low) & (x[b + l] <= high);
      const long place = (long)(inside ? (x[b + l] - low) * scale : 0), last = place < bins ? place : bins - 1;
      places[l] = inside ? last : bins;
    }
    for (long l = 0; l < lanes; l++) counts[places[l]]++;
  }
}

/* How many elements of each row fall in each of `bins` equal parts. sizes: rows, n, bins, low, high, whether the range
   is that of the row. */
int count_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], bins = sizes[2], shares = n > WORTH ? TEAM : 1, share = (n + shares - 1) / shares;
  REAL *made_counts = made[0];
  long *counts = malloc((size_t)(shares * (bins + 1)) * sizeof(long));
  if (!counts) return 1;
  for (long r = 0; r < sizes[0]; r++) {
    const REAL *row = (const REAL *)given[0] + r * n;
    REAL low = (REAL)real_of(sizes[3]), high = (REAL)real_of(sizes[4]);
    if (sizes[5] && n) ends_REAL(row, n, &low, &high);
    if (low == high) low -= 1, high += 1;
    if (low - low != 0 || high - high != 0) {
      free(counts);
      return 1;
    }
    memset(counts, 0, (size_t)(shares * (bins + 1)) * sizeof(long));
#pragma omp parallel for num_threads(TEAM) schedule(static) if (shares > 1)
    for (long s = 0; s < shares; s++) {
      const long start = s * share < n ? s * share : n, end = start + share < n ? start + share : n;
      counted_REAL(row + start, end - start, low, high, bins, counts + s * (bins + 1));
    }
    for (long k = 0; k < bins; k++) {
      long total = 0;
      for (long s = 0; s < shares; s++) total += counts[s * (bins + 1) + k];
      made_counts[r * bins + k] = (REAL)total;
    }
  }
  free(counts);
  return 0;
}

/* A copy; fails if an element is out of range. sizes: elements, low, high. */
int within_REAL(const long *sizes, const void *const *given, void *const *made) {
  const REAL *x = given[0];
  const double low = real_of(sizes[1]), high = real_of(sizes[2]);
  for (long i = 0; i < sizes[0]; i++)
    if (!(x[i] >= low && x[i] <= high)) return 1;
  memcpy(made[0], x, sizes[0] * sizeof(REAL));
  return 0;
}

/* Running extrema of a line and where the latest one stands; y or places may be missing. */
static inline __attribute__((always_inline)) void running_REAL(const REAL *x, REAL *y, long long *places, long n,
                                                               const int least) {
  REAL best = x[0];
  long place = 0;
  for (long i = 0; i < n; i++) {
    const REAL v = x[i];
    if (is_nan_REAL(v) || (least ? v <= best : v >= best)) best = v, place = i;
    if (y) y[i] = best;
    if (places) places[i] = place;
  }
}

/* Up to WIDE lines side by side, `step` elements from one element to the next. */
static inline __attribute__((always_inline)) void abreast_REAL(const REAL *x, REAL *y, long long *places, long n,
                                                               long step, long lanes, const int least) {
  REAL best[WIDE];
  long long at[WIDE];
  for (long l = 0; l < lanes; l++) best[l] = x[l], at[l] = 0;
  for (long i = 0; i < n; i++) {
    const REAL *row = x + i * step;
#pragma omp simd
    for (long l = 0; l < lanes; l++) {
      const REAL v = row[l];
      const int later = is_nan_REAL(v) | (least ? v <= best[l] : v >= best[l]);
      best[l] = later ? v : best[l], at[l] = later ? i : at[l];
    }
    if (y) memcpy(y + i * step, best, lanes * sizeof(REAL));
    if (places) memcpy(places + i * step, at, lanes * sizeof(long long));
  }
}

/* Running extrema and where the latest one stands. sizes: outer, n, inner, whether minima. */
int extrema_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], strips = (inner + WIDE - 1) / WIDE, least = sizes[3];
#pragma omp parallel for num_threads(TEAM) schedule(static) if (sizes[0] * n * inner > WORTH)
  for (long job = 0; job < sizes[0] * strips; job++) {
    const long first = job % strips * WIDE, lanes = inner - first < WIDE ? inner - first : WIDE;
    const long start = job / strips * n * inner + first;
    const REAL *x = (const REAL *)given[0] + start;
    REAL *y = made[0] ? (REAL *)made[0] + start : 0;
    long long *places = made[1] ? (long long *)made[1] + start : 0;
    if (n == 0) continue;
    if (inner == 1 && least) running_REAL(x, y, places, n, 1);
    else if (inner == 1) running_REAL(x, y, places, n, 0);
    else if (least) abreast_REAL(x, y, places, n, inner, lanes, 1);
    else abreast_REAL(x, y, places, n, inner, lanes, 0);
  }
  return 0;
}

/* y[k] = a[k] y[k-1] + b[k]. sizes: outer, n, inner, whether from the end. */
int recurrence_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2];
  const REAL *a = given[0], *b = given[1];
  REAL *y = made[0];
  for (long o = 0; o < sizes[0]; o++)
    for (long k = 0; k < n; k++) {
      const long at = (o * n + (sizes[3] ? n - 1 - k : k)) * inner, last = sizes[3] ? at + inner : at - inner;
      for (long i = 0; i < inner; i++) {
        const REAL step = k ? a[at + i] * y[last + i] : 0;
        y[at + i] = k ? step + b[at + i] : b[at + i];
      }
    }
  return 0;
}

/* log(exp(a) + exp(b)), the larger one and log1p of what the other adds; without a call, for vectors. */
static inline __attribute__((always_inline)) double log_of_sum_REAL(double a, double b) {
  const double gap = a == b ? 0 : a - b, top = (a > b) | (a != a) ? a : b;
  return top + log1p_of_part(exp_double(gap > 0 ? -gap : gap));
}

/* Logarithms of running sums of exponentials. sizes: outer, n, inner. Rows go on LANES at a time, columns side by side. */
int logarithms_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], strips = (inner + LANES - 1) / LANES;
  const long groups = (outer + LANES - 1) / LANES;
  if (inner == 1) {
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * n > WORTH)
    for (long g = 0; g < groups; g++) {
      const long lanes = outer - g * LANES < LANES ? outer - g * LANES : LANES;
      const REAL *x = (const REAL *)given[0] + g * LANES * n;
      REAL *y = (REAL *)made[0] + g * LANES * n;
      double total[LANES];
      for (long k = 0; k < n; k++) {
        double next[LANES] = {0};
        for (long l = 0; l < lanes; l++) next[l] = x[l * n + k];
#pragma omp simd
        for (long l = 0; l < LANES; l++) total[l] = k ? (double)(REAL)log_of_sum_REAL(total[l], next[l]) : next[l];
        for (long l = 0; l < lanes; l++) y[l * n + k] = (REAL)total[l];
      }
    }
    return 0;
  }
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * n * inner > WORTH)
  for (long o = 0; o < outer; o++)
    for (long s = 0; s < strips; s++) {
      const long lanes = inner - s * LANES < LANES ? inner - s * LANES : LANES;
      const REAL *x = (const REAL *)given[0] + o * n * inner + s * LANES;
      REAL *y = (REAL *)made[0] + o * n * inner + s * LANES;
      for (long k = 0; k < n; k++)
#pragma omp simd
        for (long l = 0; l < lanes; l++) {
          const REAL *before = y + (k ? k - 1 : 0) * inner + l;
          const double b = x[k * inner + l], a = k ? (double)*before : b;
          y[k * inner + l] = k ? (REAL)log_of_sum_REAL(a, b) : x[k * inner + l];
        }
    }
  return 0;
}

/* Integer division; fails for a divisor 0. sizes: elements, whether the quotient is rounded down, whether the rest is
   wanted instead. */
int divide_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long down = sizes[1], rest = sizes[2];
  for (long i = 0; i < sizes[0]; i++) {
    const long a = (long)((const REAL *)given[0])[i], b = (long)((const REAL *)given[1])[i];
    if (b == 0) return 1;
    const long q = b == -1 ? (long)(0 - (unsigned long)a) : a / b, r = b == -1 ? 0 : a % b;
    const long above = down & (r != 0) & ((r < 0) != (b < 0)); /* a branch would be guessed wrong */
    ((REAL *)made[0])[i] = (REAL)(rest ? r + (b & -above) : q - above);
  }
  return 0;
}

/* Whether each element is among some whole numbers, by a table: of all numbers between these if that is short, else of
   these, at places by their bits. Where the table has nothing it has the first of them. sizes: elements, numbers,
   whether the answer is turned round. */
int member_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[0], count = sizes[1];
  const REAL *x = given[0], *numbers = given[1];
  unsigned char *found = made[0], otherwise = sizes[2] != 0;
  if (count == 0) return memset(found, otherwise, (size_t)n), 0;
  const REAL first = numbers[0];
  REAL low = first, high = first;
  for (long k = 1; k < count; k++) low = numbers[k] < low ? numbers[k] : low, high = numbers[k] > high ? numbers[k] : high;
  const unsigned long range = (unsigned long)high - (unsigned long)low;
  if (range / 8 <= (unsigned long)(n + count)) {
    unsigned char *table = calloc(range + 1, 1);
    if (!table) return 1;
    for (long k = 0; k < count; k++) table[(unsigned long)numbers[k] - (unsigned long)low] = 1;
    for (long i = 0; i < n; i++) {
      const unsigned long at = (unsigned long)x[i] - (unsigned long)low;
      found[i] = (unsigned char)((at <= range ? table[at] : 0) ^ otherwise);
    }
    free(table);
    return 0;
  }
  int bits = 1;
  while (1L << bits < (count < WORTH / 8 ? 8 : 2) * count) bits++; /* short chains while the table is in the cache */
  const long places = 1L << bits;
  REAL *table = malloc((size_t)places * sizeof *table);
  if (!table) return 1;
  for (long k = 0; k < places; k++) table[k] = first;
#define PLACE(value) (long)((unsigned long)(value) * 0x9E3779B97F4A7C15ul >> (64 - bits))
  for (long k = 1; k < count; k++) {
    long at = PLACE(numbers[k]);
    while (table[at] != first && table[at] != numbers[k]) at = (at + 1) & (places - 1);
    table[at] = numbers[k];
  }
  for (long i = 0; i < n; i++) {
    long at = PLACE(x[i]);
    while (table[at] != first && table[at] != x[i]) at = (at + 1) & (places - 1);
    found[i] = (unsigned char)((table[at] == x[i]) ^ otherwise);
  }
#undef PLACE
  free(table);
  return 0;
}

/* x = mantissa 2^exponent, by the bits of x: subnormal numbers are made larger before. sizes: elements. */
int frexp_REAL(const long *sizes, const void *const *given, void *const *made) {
  const int digits = sizeof(REAL) == 4 ? 23 : 52, most = sizeof(REAL) == 4 ? 255 : 2047, bias = most / 2 - 1;
  const int raised = sizeof(REAL) == 4 ? 25 : 54;
  const REAL up = sizeof(REAL) == 4 ? 0x1p25 : 0x1p54, tiny = sizeof(REAL) == 4 ? 0x1p-126 : 0x1p-1022;
  const REAL *from = given[0];
  REAL *mantissas = made[0];
  int *powers = made[1];
#pragma omp simd
  for (long i = 0; i < sizes[0]; i++) {
    const REAL x = from[i], size = x < 0 ? -x : x;
    const int small = size < tiny, odd = (x == 0) | !(x - x == 0);
    const union { REAL x; Bits_REAL bits; } given_bits = {.x = small ? x * up : x};
    const Bits_REAL exponent = given_bits.bits >> digits & most, all = (Bits_REAL)most << digits;
    const union { Bits_REAL bits; REAL x; } found = {.bits = (given_bits.bits & ~all) | (Bits_REAL)bias << digits};
    if (mantissas) mantissas[i] = odd ? x : found.x;
    if (powers) powers[i] = odd ? 0 : (int)exponent - bias - (small ? raised : 0);
  }
  return 0;
}

static REAL joined_REAL(REAL a, REAL b, long how) {
  if (how == 2) return a * b;
  if (how < 2) return a + b;
  return is_nan_REAL(a) || (how == 3 ? a > b : a < b) ? a : b;
}

/* Each segment of rows reduced to one. sizes: outer, n, inner, segments, how (sum, mean, product, maximum, minimum),
   whether what is given are offsets, whether the sum of lengths is checked, whether there is a start, the start. */
int segments_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], count = sizes[3], how = sizes[4], width = count + (sizes[5] != 0);
  const REAL start = (REAL)real_of(sizes[8]), infinity = (REAL)__builtin_inf();
  const REAL identity = how < 2 ? 0 : how == 2 ? 1 : how == 3 ? -infinity : infinity;
  for (long o = 0; o < sizes[0]; o++) {
    const long long *bounds = (const long long *)given[1] + o * width;
    long low = 0, high = 0;
    for (long s = 0; s < count; s++) {
      low = sizes[5] ? bounds[s] : high;
      high = sizes[5] ? bounds[s + 1] : low + bounds[s];
      if (low < 0 || high > n || low > high) return 1;
      for (long i = 0; i < inner; i++) {
        REAL *to = (REAL *)made[0] + (o * count + s) * inner + i, total = sizes[7] ? start : identity;
        const REAL *from = (const REAL *)given[0] + o * n * inner + i;
        if (low < high) {
          REAL found = from[low * inner];
          for (long k = low + 1; k < high; k++) found = joined_REAL(found, from[k * inner], how);
          total = sizes[7] ? joined_REAL(found, start, how) : found;
          if (how == 1) total /= high - low;
        } else if (how == 1 && !sizes[7])
          total = (REAL)__builtin_nan("");
        *to = total;
      }
    }
    if (!sizes[5] && sizes[6] && high != n) return 1;
  }
  return 0;
}

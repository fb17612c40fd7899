/* Sorting along a dimension, and elements chosen by rank: medians, the k-th, the k best, quantiles, the most frequent.
   Arrays are `outer` times n times `inner` elements, of which those along n belong together. NaN counts as greater than
   every number, equal elements keep their order. A function takes numbers, operands and results; it returns whether it
   failed.

   An element becomes a key, a whole number of the same order. Its leading bits and the element's place fill an item of
   64 bits, so that sorting items is stable. They are sorted by as many leading digits as tell most of them apart. */

#define WORTH (1L << 14) /* elements from which threads share the rows */
#define SHORT 128        /* items that are sorted by counting how many are less */
#define FEW_TIES 32      /* items of equal leading bits that insertion sorts */
#define LONG 4096        /* items from which digits have 11 bits */
#define SPARE 12         /* leading bits beyond those of the number of items, by which items are sorted at first */
#define MOVES 8          /* for each item, up to which insertion may finish the sort */
#define SAMPLE 512       /* elements that bound where a rank is */
#define FEW 128          /* best elements in a list */
#define SEVERAL 4        /* quantiles from which a row is sorted */
#define BLOCK 32         /* elements that are passed over together */

typedef unsigned long long Key;

static int bits_of(Key x) { return x ? 64 - __builtin_clzll(x) : 0; }

/* Finish sorting items that are nearly in order; fails after too many moves. */
static int settle(Key *items, long n, long moves) {
  for (long i = 1; i < n; i++) {
    const Key item = items[i];
    long k = i;
    for (; k > 0 && items[k - 1] > item; k--) items[k] = items[k - 1];
    items[k] = item, moves -= i - k;
    if (moves < 0) return 1;
  }
  return 0;
}

/* Sort few items, no two of them equal. */
static void by_counting(const Key *items, Key *sorted, long n) {
  long i = 0;
  for (; i + 4 <= n; i += 4) {
    const Key a = items[i], b = items[i + 1], c = items[i + 2], d = items[i + 3];
    Key p = 0, q = 0, r = 0, s = 0;
#pragma omp simd reduction(+ : p, q, r, s)
    for (long k = 0; k < n; k++) p += items[k] < a, q += items[k] < b, r += items[k] < c, s += items[k] < d;
    sorted[p] = a, sorted[q] = b, sorted[r] = c, sorted[s] = d;
  }
  for (; i < n; i++) {
    const Key a = items[i];
    Key p = 0;
    for (long k = 0; k < n; k++) p += items[k] < a;
    sorted[p] = a;
  }
}

/* Sort items by `count` bits from bit `low` on, the last digits first; the result is in items or in room. */
static Key *by_digits(Key *items, Key *room, long n, int low, int count) {
  const int width = n < LONG ? 8 : 11, digits = (count + width - 1) / width, size = 1 << width;
  const Key mask = (Key)size - 1;
  unsigned long starts[6 << 11];
  memset(starts, 0, sizeof starts[0] * digits * size);
  for (long i = 0; i < n; i++)
    for (int d = 0; d < digits; d++) starts[d * size + (items[i] >> (low + d * width) & mask)]++;
  for (int d = 0; d < digits; d++) {
    const int shift = low + d * width;
    unsigned long *places = starts + d * size, total = 0;
    if (places[items[0] >> shift & mask] == (unsigned long)n) continue;
    for (int k = 0; k < size; k++) {
      const unsigned long own = places[k];
      places[k] = total, total += own;
    }
    for (long i = 0; i < n; i++) room[places[items[i] >> shift & mask]++] = items[i];
    Key *other = items;
    items = room, room = other;
  }
  return items;
}

/* What follows is written once for each REAL: float, double. */

#define IS_FLOAT ((REAL)0.5 != 0)

static int is_nan_REAL(REAL x) { return x != x; }

static int less_REAL(REAL a, REAL b) { return a < b || (is_nan_REAL(b) && !is_nan_REAL(a)); }

/* A whole number for each element, in their order. */
static inline __attribute__((always_inline)) Key key_REAL(REAL x) {
  if (!IS_FLOAT) return (Key)(long long)x + (1ULL << 63);
  const REAL given = x + 0; /* 0 for -0 */
  Key bits = 0;
  if (sizeof(REAL) == 8) memcpy(&bits, &given, sizeof(REAL));
  else {
    unsigned half;
    memcpy(&half, &given, 4);
    bits = (Key)half << 32;
  }
  const Key found = bits ^ ((Key)((long long)bits >> 63) | 1ULL << 63);
  return x != x ? ~0ULL : found;
}

/* Rooms of one thread, for rows of n elements. */
typedef struct {
  Key *keys, *items, *room;
  REAL *row, *line;           /* as wide as the others */
  long long *places, *chosen; /* what is found; some of them */
} Room;

static int make_room(long n, Room *room) {
  Key *memory = malloc((size_t)(7 * n + 1) * sizeof(Key));
  *room = (Room){memory, memory + n, memory + 2 * n, (REAL *)(memory + 3 * n), (REAL *)(memory + 4 * n),
                 (long long *)(memory + 5 * n), (long long *)(memory + 6 * n)};
  return memory != 0;
}

/* How the keys of a row and the places of its elements share an item. */
typedef struct {
  int up, used, places; /* leading bits that all keys share; the ones after them, up to the last that differ; of places */
} Layout;

/* The keys of a row, without the leading bits that all share. */
static Layout keys_REAL(const REAL *row, long step, long n, long descending, Key *keys) {
  const Key turned = descending ? ~0ULL : 0, first = key_REAL(row[0]);
  Key differ = 0;
  for (long i = 0; i < n; i++) {
    const Key key = key_REAL(row[i * step]);
    keys[i] = key ^ turned, differ |= key ^ first;
  }
  const int all = bits_of(differ), up = all ? 64 - all : 63;
  for (long i = 0; up && i < n; i++) keys[i] <<= up;
  if (!all) memset(keys, 0, (size_t)n * sizeof(Key));
  return (Layout){up, all ? all - __builtin_ctzll(differ) : 0, bits_of(n > 1 ? n - 1 : 1)};
}

/* The items of keys in the order of `places`; then sort them by `leading` bits. */
static Key *sorted_items(const Key *keys, const long long *places, long n, Layout l, int leading, Room room) {
  const Key mask = ~0ULL << l.places;
  for (long i = 0; i < n; i++) room.items[i] = (keys[places ? places[i] : i] & mask) | (Key)i;
  return by_digits(room.items, room.room, n, 64 - leading, leading);
}

/* The order by whole keys: first by the bits for which there is no room in an item beside the place, then by the others. */
static void order_fully(long n, Layout l, Room room) {
  const Key mask = ~(~0ULL << l.places);
  for (long i = 0; i < n; i++) room.items[i] = room.keys[i] << (64 - l.places) | (Key)i;
  const Key *found = by_digits(room.items, room.room, n, 64 - l.places, l.places);
  long long *first = (long long *)room.row;
  for (long i = 0; i < n; i++) first[i] = (long long)(found[i] & mask);
  found = sorted_items(room.keys, first, n, l, l.used < 64 - l.places ? l.used : 64 - l.places, room);
  for (long i = 0; i < n; i++) room.places[i] = first[found[i] & mask];
}

/* Sort items of equal leading bits by their whole keys; fails where they are many. */
static int untie(Key *items, long n, const Key *keys, Key mask) {
  for (long start = 0, end; start < n; start = end) {
    for (end = start + 1; end < n && (items[end] | mask) == (items[start] | mask);) end++;
    if (end > start + FEW_TIES) return 1;
    for (long i = start + 1; i < end; i++) {
      const Key item = items[i], key = keys[item & mask];
      long k = i;
      for (; k > start && keys[items[k - 1] & mask] > key; k--) items[k] = items[k - 1];
      items[k] = item;
    }
  }
  return 0;
}

/* The order of a row: where its elements are that come first, second, …, in room.places. */
static void order_REAL(const REAL *row, long step, long n, long descending, Room room) {
  if (n == 0) return;
  const Layout l = keys_REAL(row, step, n, descending, room.keys);
  const int whole = l.used + l.places <= 64, used = whole ? l.used : 64 - l.places;
  const int leading = l.places + SPARE < used ? l.places + SPARE : used;
  const Key mask = ~(~0ULL << l.places);
  Key *found = room.room;
  if (n <= SHORT) {
    for (long i = 0; i < n; i++) room.items[i] = (room.keys[i] & ~mask) | (Key)i;
    by_counting(room.items, found, n);
  } else {
    found = sorted_items(room.keys, 0, n, l, leading, room);
    if (leading < used && settle(found, n, MOVES * n)) /* too many are alike in these bits */
      found = sorted_items(room.keys, 0, n, l, used, room);
  }
  if (!whole && untie(found, n, room.keys, mask)) order_fully(n, l, room);
  else
    for (long i = 0; i < n; i++) room.places[i] = (long long)(found[i] & mask);
}

/* sizes: outer, n, inner, whether descending. */
int sort_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], rows = sizes[0] * inner;
  int wrong = 0;
#pragma omp parallel num_threads(TEAM) if (rows > 1 && rows * n > WORTH)
  {
    Room room;
    const int ready = make_room(n, &room);
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long r = 0; r < rows; r++) {
      if (!ready) continue;
      const long at = r / inner * n * inner + r % inner;
      const REAL *row = (const REAL *)given[0] + at;
      order_REAL(row, inner, n, sizes[3], room);
      for (long i = 0; made[0] && i < n; i++) ((REAL *)made[0])[at + i * inner] = row[room.places[i] * inner];
      for (long i = 0; made[1] && i < n; i++) ((long long *)made[1])[at + i * inner] = room.places[i];
    }
    free(room.keys);
  }
  return wrong;
}

/* -- elements chosen by rank ------------------------------------------------------------------ */

enum { MEDIAN = -1, MEDIAN_OF_NUMBERS = -2, MODE = -3 }; /* in place of a rank */

/* How many numbers are less than x, and how many equal it. */
static void compared_REAL(const REAL *a, long n, REAL x, long *less, long *equal) {
  long before = 0, same = 0;
#pragma omp simd reduction(+ : before, same)
  for (long i = 0; i < n; i++) before += a[i] < x, same += a[i] == x;
  *less = before, *equal = same;
}

static REAL middle_REAL(REAL x, REAL y, REAL z) {
  const REAL low = x < y ? x : y, high = x < y ? y : x;
  return z < low ? low : z > high ? high : z;
}

/* The number of rank k. Parts that lie on one side of a pivot are copied into two of the rooms, so that there are no
   branches. */
static REAL ranked_REAL(const REAL *a, REAL *b, REAL *c, REAL *d, long n, long k) {
  for (unsigned long drawn = 1;; drawn = drawn * 6364136223846793005UL + 1442695040888963407UL) {
    const long at = (long)((drawn >> 33) % (unsigned long)n);
    const REAL pivot = middle_REAL(a[at], a[n / 2], a[n - 1 - at]);
    long less = 0, more = 0;
    for (long i = 0; i < n; i++) {
      const REAL x = a[i];
      b[less] = x, less += x < pivot;
      c[more] = x, more += x > pivot;
    }
    if (k >= less && k < n - more) return pivot;
    REAL **part = k < less ? &b : &c, *free = d;
    if (k >= less) k -= n - more, n = more;
    else n = less;
    a = d = *part, *part = free;
  }
}

/* As ranked_REAL, for long rows: two elements of a sample bound the number, and leave few others. */
static REAL selected_REAL(const REAL *a, Room room, long n, long k) {
  REAL *b = (REAL *)room.keys, *c = (REAL *)room.items, *d = (REAL *)room.room;
  if (n < 8 * SAMPLE) return ranked_REAL(a, b, c, d, n, k);
  REAL sample[SAMPLE];
  for (long i = 0; i < SAMPLE; i++) sample[i] = a[i * (n / SAMPLE)];
  const long near = (long)((double)k / n * SAMPLE), low = near - SAMPLE / 16, high = near + SAMPLE / 16;
  const int from = low >= 0, to = high < SAMPLE;
  const REAL least = from ? ranked_REAL(sample, b, c, d, SAMPLE, low) : a[0];
  const REAL most = to ? ranked_REAL(sample, b, c, d, SAMPLE, high) : a[0];
  long below = 0, inside = 0;
  for (long i = 0; i < n; i++) {
    const REAL x = a[i];
    const int before = from & (x < least), after = to & (x > most);
    b[inside] = x, inside += !(before | after), below += before;
  }
  if (k < below || k >= below + inside) return ranked_REAL(a, b, c, d, n, k);
  return ranked_REAL(b, c, d, (REAL *)room.places, inside, k - below);
}

/* The numbers of a row, without NaN: the row itself, if it has none and lies in one piece. */
static const REAL *numbers_REAL(const REAL *row, long step, long n, REAL *room, long *count) {
  long have = 0;
  int odd = 0;
  if (step == 1)
    for (long i = 0; i < n; i++) odd |= is_nan_REAL(row[i]);
  *count = n;
  if (step == 1 && !odd) return row;
  for (long i = 0; i < n; i++) {
    const REAL x = row[i * step];
    room[have] = x, have += x == x;
  }
  *count = have;
  return room;
}

/* The place of the element of rank k in a row, NaN last, equal ones in their order. */
static long place_of_REAL(const REAL *row, long step, long n, long k, const REAL *numbers, long count, Room room) {
  long less, equal, place = 0;
  if (k >= count) {
    for (long odd = k - count; odd >= 0; place++) odd -= is_nan_REAL(row[place * step]);
    return place - 1;
  }
  const REAL found = selected_REAL(numbers, room, count, k);
  compared_REAL(numbers, count, found, &less, &equal);
  for (long left = k - less; left >= 0; place++) left -= row[place * step] == found;
  return place - 1;
}

/* The place of the element of a rank, or of the median; the first NaN is the median if there is one, but for that of numbers. */
static long chosen_REAL(const REAL *row, long step, long n, long what, Room room) {
  long count;
  const REAL *numbers = numbers_REAL(row, step, n, room.row, &count);
  const long middle = count < n && what == MEDIAN ? count : count > 0 ? (count - 1) / 2 : 0;
  return place_of_REAL(row, step, n, what < 0 ? middle : what, numbers, count, room);
}

/* The place of the most frequent element, its last one. */
static long frequent_REAL(const REAL *row, long step, long n, Room room) {
  long best = 0, most = -1, run = 0;
  order_REAL(row, step, n, 0, room);
  for (long i = 0; i < n; i++) {
    run = i && row[room.places[i] * step] == row[room.places[i - 1] * step] ? run + 1 : 0;
    if (run > most) most = run, best = i;
  }
  return most == 0 && is_nan_REAL(row[0]) ? 0 : room.places[best];
}

/* One element of each row. sizes: outer, n, inner, its rank or one of the above, whether places are wanted. */
int choose_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], what = sizes[3], rows = sizes[0] * inner;
  int wrong = 0;
#pragma omp parallel num_threads(TEAM) if (rows > 1 && rows * n > WORTH)
  {
    Room room;
    const int ready = make_room(n, &room);
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long r = 0; r < rows; r++) {
      if (!ready) continue;
      const REAL *row = (const REAL *)given[0] + r / inner * n * inner + r % inner;
      const long found = what == MODE ? frequent_REAL(row, inner, n, room) : chosen_REAL(row, inner, n, what, room);
      if (made[0]) ((REAL *)made[0])[r] = row[found * inner];
      if (sizes[4] && made[1]) ((long long *)made[1])[r] = found;
    }
    free(room.keys);
  }
  return wrong;
}

/* The places of the k best of a row, in a list that is kept in order; as soon as it is full, blocks in which none is better
   than its last one are passed over. Whether there was no NaN. */
static int listed_REAL(const REAL *x, long n, long k, long largest, long long *places) {
  REAL best[FEW];
  long have = 0;
  for (long b = 0; b < n; b += BLOCK) {
    const long end = n - b < BLOCK ? n : b + BLOCK;
    const REAL last = have == k ? best[k - 1] : x[b];
    int better = have < k, odd = 0;
#pragma omp simd reduction(| : better, odd)
    for (long i = b; i < end; i++) {
      const int ahead = largest ? x[i] > last : x[i] < last;
      better |= ahead, odd |= x[i] != x[i];
    }
    if (odd) return 0;
    if (!better) continue;
    for (long i = b; i < end; i++) {
      const REAL v = x[i];
      if (have == k && !(largest ? v > best[k - 1] : v < best[k - 1])) continue;
      long j = have < k ? have++ : k - 1;
      for (; j > 0 && (largest ? best[j - 1] < v : best[j - 1] > v); j--)
        best[j] = best[j - 1], places[j] = places[j - 1];
      best[j] = v, places[j] = i;
    }
  }
  return 1;
}

/* The places of the k best, of which there are many: those beyond the k-th and the first that equal it, put in order. */
static void gathered_REAL(const REAL *x, long n, long k, long largest, Room room) {
  const REAL last = selected_REAL(x, room, n, largest ? n - k : k - 1);
  long less, equal, have = 0;
  compared_REAL(x, n, last, &less, &equal);
  long ties = k - (largest ? n - less - equal : less);
  for (long i = 0; have < k; i++) {
    const int tied = x[i] == last, ahead = largest ? x[i] > last : x[i] < last;
    room.chosen[have] = i, have += ahead | (tied & (ties > 0)), ties -= tied;
  }
  for (long i = 0; i < k; i++) room.row[i] = x[room.chosen[i]];
  order_REAL(room.row, 1, k, largest, room);
  for (long i = 0; i < k; i++) room.places[i] = room.chosen[room.places[i]];
}

/* The places of the k best of a row, in order. */
static void best_REAL(const REAL *row, long step, long n, long k, long largest, Room room) {
  if (step != 1) {
    REAL *line = room.line;
    for (long i = 0; i < n; i++) line[i] = row[i * step];
    row = line;
  }
  if (k <= FEW && listed_REAL(row, n, k, largest, room.places)) return;
  int odd = 0;
  for (long i = 0; i < n; i++) odd |= is_nan_REAL(row[i]);
  if (odd || 4 * k > n) order_REAL(row, 1, n, largest, room);
  else gathered_REAL(row, n, k, largest, room);
}

/* sizes: outer, n, inner, k, whether large elements are the best. */
int top_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], k = sizes[3], rows = sizes[0] * inner;
  int wrong = 0;
  if (k == 0) return 0;
#pragma omp parallel num_threads(TEAM) if (rows > 1 && rows * n > WORTH)
  {
    Room room;
    const int ready = make_room(n, &room);
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long r = 0; r < rows; r++) {
      if (!ready) continue;
      const REAL *row = (const REAL *)given[0] + r / inner * n * inner + r % inner;
      const long to = r / inner * k * inner + r % inner;
      best_REAL(row, inner, n, k, sizes[4], room);
      for (long i = 0; made[0] && i < k; i++) ((REAL *)made[0])[to + i * inner] = row[room.places[i] * inner];
      for (long i = 0; made[1] && i < k; i++) ((long long *)made[1])[to + i * inner] = room.places[i];
    }
    free(room.keys);
  }
  return wrong;
}

/* -- quantiles -------------------------------------------------------------------------------- */

enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST };

/* below + weight (above - below) from the nearer end, without NaN where one is infinite. */
static REAL between_REAL(REAL below, REAL above, REAL weight, int same) {
  const REAL step = above - below;
  if (below - below != 0 || above - above != 0) return same ? below : below + above;
  return weight < (REAL)0.5 ? below + weight * step : above - step * (1 - weight);
}

/* The number of rank k and the one after it, of numbers that stay as they are. */
static void pair_REAL(const REAL *numbers, long count, long k, Room room, REAL *low, REAL *high) {
  const REAL found = selected_REAL(numbers, room, count, k);
  REAL next = (REAL)__builtin_inf();
  long ahead = 0;
#pragma omp simd reduction(+ : ahead) reduction(min : next)
  for (long i = 0; i < count; i++) {
    ahead += numbers[i] <= found;
    const REAL x = numbers[i] > found ? numbers[i] : (REAL)__builtin_inf();
    next = x < next ? x : next;
  }
  *low = found, *high = ahead > k + 1 ? found : next;
}

/* Quantile q of a row of numbers, which are in order if `ordered`. */
static REAL quantile_REAL(const REAL *numbers, long count, REAL q, int how, int ordered, Room room) {
  if (count == 0) return (REAL)__builtin_nan("");
  REAL rank = q * (REAL)(count - 1), low, high;
  if (how == NEAREST) rank = (REAL)__builtin_rint(rank);
  const long under = (long)rank, over = under + (rank > (REAL)under);
  if (ordered) low = numbers[under], high = numbers[over];
  else {
    pair_REAL(numbers, count, under, room, &low, &high);
    if (over == under) high = low;
  }
  if (how == LOWER || how == NEAREST) return low;
  if (how == HIGHER) return high;
  return between_REAL(low, high, how == LINEAR ? rank - (REAL)under : (REAL)0.5, under == over);
}

/* sizes: outer, n, inner, how many quantiles, how to choose between two elements, whether to pass over NaN. */
int quantiles_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], inner = sizes[2], count = sizes[3], rows = sizes[0] * inner;
  const REAL *q = given[1];
  int wrong = 0;
  for (long k = 0; k < count; k++) wrong |= !(q[k] >= 0 && q[k] <= 1);
  if (wrong) return 1;
#pragma omp parallel num_threads(TEAM) if (rows > 1 && rows * n > WORTH)
  {
    Room room;
    const int ready = make_room(n, &room);
    if (!ready) {
#pragma omp atomic write
      wrong = 1;
    }
#pragma omp for schedule(static)
    for (long r = 0; r < rows; r++) {
      if (!ready) continue;
      const REAL *row = (const REAL *)given[0] + r / inner * n * inner + r % inner;
      long numbers;
      const REAL *line = numbers_REAL(row, inner, n, room.line, &numbers);
      const int ordered = count > SEVERAL && numbers > 0;
      if (ordered) {
        order_REAL(line, 1, numbers, 0, room);
        for (long i = 0; i < numbers; i++) room.row[i] = line[room.places[i]];
        line = room.row;
      }
      if (numbers < n && !sizes[5]) numbers = 0;
      for (long k = 0; k < count; k++)
        ((REAL *)made[0])[k * rows + r] = quantile_REAL(line, numbers, q[k], (int)sizes[4], ordered, room);
    }
    free(room.keys);
  }
  return wrong;
}

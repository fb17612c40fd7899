/* Products of matrices from tiles that stay in registers; files that multiply include this one.

   A tile is ROWS rows high and WIDE vectors wide. It is the product of a strip of the left matrix and a panel of the
   right one. Where they are read often, or lie badly, they are copied first, so that what one step along the inner
   dimension needs lies together. */

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector */
#define ROWS 12  /* rows of a tile: with two vectors each, as many sums as registers hold */
#elif defined(__AVX__)
#define BYTES 32
#define ROWS 6
#else
#define BYTES 16
#define ROWS 6
#endif
#define WIDE 2   /* vectors in a row of a tile */
#define AHEAD 8  /* steps of a panel that are asked for early */
#define LONG 32  /* steps of a tile in whose time the lines arrive that it is written to */
#define SELDOM 2 /* panels for which columns of the left matrix are not copied */
#define ALIAS 4096 /* bytes between rows that share the lines of the first cache */
#define STRIPS 4 /* strips that are copied together */
#define ALL _Pragma("GCC unroll 16") /* rows of a tile are no loop: its sums are registers */

/* Two vectors of four, mixed into a third. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define FOURS 1
#define MIX(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#endif
#endif
#ifndef FOURS
#define FOURS 0
#define MIX(x, y, ...) (x)
#endif


/* What follows is written once for each REAL: float, double. */

typedef REAL vec_REAL __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
#define LANES_REAL ((long)(BYTES / sizeof(REAL)))
typedef REAL four_REAL __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define PANEL_REAL (WIDE * LANES_REAL)
#define STRIPS_REAL(k) (STRIPS * ROWS * (k)) /* elements of strips */

static REAL *room_REAL(long count) { return aligned_alloc(64, (size_t)up(count * (long)sizeof(REAL), 64) + 64); }

/* The next `count` elements of a room, from an aligned address. */
static inline REAL *part_REAL(REAL **room, long count) {
  REAL *part = *room;
  *room += up(count, 64 / (long)sizeof(REAL));
  return part;
}

/* How many elements the panels of n columns take, for each step along the inner dimension. */
static long wide_REAL(long n) { return up(n, PANEL_REAL); }

/* The right matrix of a product, panel after panel. */
typedef struct {
  const REAL *first;
  long next, between; /* elements from one step to the next in a panel, and from panel to panel */
} Panels_REAL;

/* to[i * step + r] = from[r * row + i], for `rows` rows of k elements each: four of four at once, in registers. */
static void turn_REAL(long rows, long k, const REAL *from, long row, REAL *to, long step) {
  const long four = FOURS ? rows / 4 * 4 : 0, whole = k / 4 * 4;
  for (long r = 0; r < four; r += 4) {
    const REAL *a = from + r * row, *b = a + row, *c = b + row, *d = c + row;
    for (long i = 0; i < whole; i += 4) {
      const four_REAL w = *(const four_REAL *)(a + i), x = *(const four_REAL *)(b + i);
      const four_REAL y = *(const four_REAL *)(c + i), z = *(const four_REAL *)(d + i);
      const four_REAL p = MIX(w, x, 0, 4, 1, 5), q = MIX(y, z, 0, 4, 1, 5);
      const four_REAL s = MIX(w, x, 2, 6, 3, 7), t = MIX(y, z, 2, 6, 3, 7);
      REAL *own = to + i * step + r;
      *(four_REAL *)own = MIX(p, q, 0, 1, 4, 5);
      *(four_REAL *)(own + step) = MIX(p, q, 2, 3, 6, 7);
      *(four_REAL *)(own + 2 * step) = MIX(s, t, 0, 1, 4, 5);
      *(four_REAL *)(own + 3 * step) = MIX(s, t, 2, 3, 6, 7);
    }
    for (long i = whole; i < k; i++)
      for (long q = r; q < r + 4; q++) to[i * step + q] = from[q * row + i];
  }
  for (long r = four; r < rows; r++)
    for (long i = 0; i < k; i++) to[i * step + r] = from[r * row + i];
}

/* Strips of `count` rows each: for each of k steps, the elements of its rows. Element (r, i) is a[r * row + i * column].
   Rows that lie side by side are read across all strips, so that a line of the cache is read once. */
static void strips_REAL(int strips, const long *count, long k, const REAL *a, long row, long column, REAL *to) {
  if (row == 1) {
    for (long i = 0; i < k; i++) {
      const REAL *from = a + i * column;
      for (int s = 0; s < strips; from += count[s], s++) {
        REAL *own = to + s * ROWS * k + i * count[s];
        if (count[s] == ROWS) memcpy(own, from, ROWS * sizeof(REAL));
        else
          for (long r = 0; r < count[s]; r++) own[r] = from[r];
      }
    }
    return;
  }
  for (int s = 0; s < strips; a += count[s] * row, s++) {
    REAL *own = to + s * ROWS * k;
    if (column == 1) turn_REAL(count[s], k, a, row, own, count[s]);
    else
      for (long r = 0; r < count[s]; r++)
        for (long i = 0; i < k; i++) own[i * count[s] + r] = a[r * row + i * column];
  }
}

/* Panels of n columns: for each of k steps, the elements of PANEL columns, zeros after the last one.
   Element (i, j) is b[i * row + j * column]. */
static Panels_REAL panels_REAL(long k, long n, const REAL *b, long row, long column, REAL *to) {
  const Panels_REAL made = {to, PANEL_REAL, k * PANEL_REAL};
  for (long j = 0; j < n; j += PANEL_REAL, to += k * PANEL_REAL) {
    const long count = least(PANEL_REAL, n - j);
    const REAL *from = b + j * column;
    if (column == 1 && count == PANEL_REAL) {
      for (long i = 0; i < k; i++)
        ALL for (int w = 0; w < WIDE; w++)
          ((vec_REAL *)(to + i * PANEL_REAL))[w] = ((const vec_REAL *)(from + i * row))[w];
      continue;
    }
    for (long w = count / LANES_REAL; w < WIDE; w++)
      for (long i = 0; i < k; i++) ((vec_REAL *)(to + i * PANEL_REAL))[w] = (vec_REAL){0};
    if (row == 1) turn_REAL(count, k, from, column, to, PANEL_REAL);
    else
      for (long i = 0; i < k; i++)
        for (long c = 0; c < count; c++) to[i * PANEL_REAL + c] = from[i * row + c * column];
  }
  return made;
}

/* c = start + x, `rows` rows of n elements, those of x PANEL apart: vectors as long as there are whole ones. */
static __attribute__((noinline)) void ends_REAL(long rows, long n, const REAL *x, const REAL *start, REAL *c, long step) {
  for (long r = 0; r < rows; r++, x += PANEL_REAL, c += step) {
    long j = 0;
    for (; j + LANES_REAL <= n; j += LANES_REAL) {
      vec_REAL sum = *(const vec_REAL *)(x + j);
      if (start) sum += *(const vec_REAL *)(start + j);
      *(vec_REAL *)(c + j) = sum;
    }
    for (; j + 4 <= n; j += 4) {
      four_REAL sum = *(const four_REAL *)(x + j);
      if (start) sum += *(const four_REAL *)(start + j);
      *(four_REAL *)(c + j) = sum;
    }
    for (; j < n; j++) c[j] = start ? start[j] + x[j] : x[j];
    if (start) start += step;
  }
}

/* c = start + strip times panel, `wide` vectors of each row; the rows of both c and start are `step` apart. No start: 0.
   Element (r, i) of the strip is a[r * row + i * column]. */
static inline __attribute__((always_inline)) void tile_REAL(const int rows, const int wide, long k, const REAL *a,
                                                            long row, long column, const REAL *b, long next,
                                                            const REAL *start, REAL *c, long step) {
  vec_REAL sum[ROWS][WIDE];
  ALL for (int r = 0; r < rows; r++)
    ALL for (int w = 0; w < wide; w++) sum[r][w] = (vec_REAL){0};
  if (start)
    ALL for (int r = 0; r < rows; r++)
      ALL for (int w = 0; w < wide; w++) __builtin_prefetch(start + r * step + w * LANES_REAL);
  if (k >= LONG && c != start)
    ALL for (int r = 0; r < rows; r++)
      ALL for (int w = 0; w < wide; w++) __builtin_prefetch(c + r * step + w * LANES_REAL, 1);
  for (long i = 0; i < k; i++, a += column, b += next) {
    ALL for (int w = 0; w < wide; w++) __builtin_prefetch(b + AHEAD * next + w * LANES_REAL);
    ALL for (int r = 0; r < rows; r++)
      ALL for (int w = 0; w < wide; w++) sum[r][w] += a[r * row] * ((const vec_REAL *)b)[w];
  }
  ALL for (int r = 0; r < rows; r++) {
    if (start)
      ALL for (int w = 0; w < wide; w++) sum[r][w] += ((const vec_REAL *)(start + r * step))[w];
    ALL for (int w = 0; w < wide; w++) ((vec_REAL *)(c + r * step))[w] = sum[r][w];
  }
}

/* Tiles of all heights and widths, of a strip whose columns (`standing`) or rows (`lying`) are `apart` from each other. */
#define ONE(NAME, ROW, COLUMN, R, W)                                                                               \
  static void NAME##_REAL_##R##_##W(long k, const REAL *a, long apart, const REAL *b, long next, const REAL *start, \
                                    REAL *c, long step) {                                                          \
    tile_REAL(R, W, k, a, ROW, COLUMN, b, next, start, c, step);                                                   \
  }
#define TILE(R)                                                                  \
  ONE(standing, 1, apart, R, 1) ONE(standing, 1, apart, R, 2)                    \
  ONE(lying, apart, 1, R, 1) ONE(lying, apart, 1, R, 2)
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if ROWS > 6
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#endif
#undef TILE
#undef ONE
#define TILE(R) {{standing_REAL_##R##_1, standing_REAL_##R##_2}, {lying_REAL_##R##_1, lying_REAL_##R##_2}}
static void (*const tiles_REAL[][2][WIDE])(long, const REAL *, long, const REAL *, long, const REAL *, REAL *,
                                           long) = {
    TILE(1), TILE(2), TILE(3), TILE(4), TILE(5), TILE(6),
#if ROWS > 6
    TILE(7), TILE(8), TILE(9), TILE(10), TILE(11), TILE(12),
#endif
};
#undef TILE

/* c (m x n) = start + a (m x k) b; `room` is for STRIPS_REAL(k) elements. A rest of rows is shared with the strip before,
   so that no tile is much lower than the others. Rows are read where they lie, but those that share the lines of the
   first cache; columns where they stand, if they are needed a few times. */
static void multiply_REAL(long m, long n, long k, const REAL *a, long row, long column, Panels_REAL b,
                          const REAL *start, REAL *c, long step, REAL *room) {
  const int lying = column == 1 && row * (long)sizeof(REAL) % ALIAS;
  const int there = lying || (row == 1 && n <= SELDOM * PANEL_REAL);
  for (long i = 0; i < m;) {
    long count[STRIPS], total = 0;
    int strips = 0;
    for (; strips < STRIPS && i + total < m; total += count[strips++]) {
      const long left = m - i - total;
      count[strips] = left >= 2 * ROWS || left <= ROWS ? least(left, ROWS) : (left + 1) / 2;
    }
    if (!there) strips_REAL(strips, count, k, a + i * row, row, column, room);
    for (int s = 0; s < strips; i += count[s], s++) {
      const REAL *strip = there ? a + i * row : room + s * ROWS * k;
      const long apart = !there ? count[s] : lying ? row : column;
      for (long j = 0; j < n; j += PANEL_REAL) {
        const long place = i * step + j, left = least(PANEL_REAL, n - j), whole = left % LANES_REAL == 0;
        REAL own[ROWS * PANEL_REAL];
        tiles_REAL[count[s] - 1][lying][left > LANES_REAL](k, strip, apart, b.first + j / PANEL_REAL * b.between, b.next,
                                                           whole && start ? start + place : 0, whole ? c + place : own,
                                                           whole ? step : PANEL_REAL);
        if (!whole) ends_REAL(count[s], left, own, start ? start + place : 0, c + place, step);
      }
    }
  }
}

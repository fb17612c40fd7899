/* Products of matrices from tiles that stay in registers; files that multiply include this one.

   A tile is ROWS rows high and WIDE vectors wide. It is the product of a strip of the left matrix and a panel of the
   right one, both copied so that what one step along the inner dimension needs lies together. */

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
#define STRIPS 4 /* strips that are copied together */
#define ALL _Pragma("GCC unroll 16") /* rows of a tile are no loop: its sums are registers */

static long least(long x, long y) { return x < y ? x : y; }
static long most(long x, long y) { return x > y ? x : y; }
static long up(long x, long step) { return (x + step - 1) / step * step; }

/* What follows is written once for each REAL: float, double. */

typedef REAL vec_REAL __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
#define LANES_REAL ((long)(BYTES / sizeof(REAL)))
#define PANEL_REAL (WIDE * LANES_REAL)
#define STRIPS_REAL(k) (STRIPS * ROWS * (k)) /* elements of strips */

static REAL *room_REAL(long count) { return aligned_alloc(64, (size_t)up(count * (long)sizeof(REAL), 64) + 64); }

/* The next `count` elements of a room, from an aligned address. */
static REAL *part_REAL(REAL **room, long count) {
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

/* Strips of `count` rows each: for each of k steps, the elements of its rows. Element (r, i) is a[r * row + i * column].
   Rows that lie side by side are read across all strips, so that a line of the cache is read once. */
static void strips_REAL(int strips, const long *count, long k, const REAL *a, long row, long column, REAL *to) {
  for (long i = 0; row == 1 && i < k; i++) {
    const REAL *from = a + i * column;
    for (int s = 0; s < strips; from += count[s], s++) {
      REAL *own = to + s * ROWS * k + i * count[s];
      if (count[s] == ROWS) memcpy(own, from, ROWS * sizeof(REAL));
      else
        for (long r = 0; r < count[s]; r++) own[r] = from[r];
    }
  }
  for (int s = 0; row != 1 && s < strips; a += count[s] * row, s++)
    for (long r = 0; r < count[s]; r++)
      for (long i = 0; i < k; i++) to[s * ROWS * k + i * count[s] + r] = a[r * row + i * column];
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
    if (count < PANEL_REAL) memset(to, 0, (size_t)(k * PANEL_REAL) * sizeof(REAL));
    for (long first = 0; first < k; first += 16)
      for (long c = 0; c < count; c++)
        for (long i = first; i < least(first + 16, k); i++) to[i * PANEL_REAL + c] = from[i * row + c * column];
  }
  return made;
}

/* c = start + strip times panel: n columns of a tile; the rows of both c and start are `step` apart. No start: 0. */
static inline __attribute__((always_inline)) void tile_REAL(const int rows, long k, const REAL *a, const REAL *b,
                                                            long next, const REAL *start, REAL *c, long step, long n) {
  vec_REAL sum[ROWS][WIDE];
  ALL for (int r = 0; r < rows; r++)
    ALL for (int w = 0; w < WIDE; w++) sum[r][w] = (vec_REAL){0};
  for (long i = 0; i < k; i++, a += rows, b += next)
    ALL for (int r = 0; r < rows; r++)
      ALL for (int w = 0; w < WIDE; w++) sum[r][w] += a[r] * ((const vec_REAL *)b)[w];
  if (n == PANEL_REAL) {
    ALL for (int r = 0; r < rows; r++) {
      if (start)
        ALL for (int w = 0; w < WIDE; w++) sum[r][w] += ((const vec_REAL *)(start + r * step))[w];
      ALL for (int w = 0; w < WIDE; w++) ((vec_REAL *)(c + r * step))[w] = sum[r][w];
    }
  } else {
    REAL row[2 * BYTES / sizeof(REAL)];
    ALL for (int r = 0; r < rows; r++) {
      ALL for (int w = 0; w < WIDE; w++) ((vec_REAL *)row)[w] = sum[r][w];
      for (long j = 0; j < n; j++) c[r * step + j] = start ? start[r * step + j] + row[j] : row[j];
    }
  }
}

#define TILE(R)                                                                                                  \
  static void tile_REAL_##R(long k, const REAL *a, const REAL *b, long next, const REAL *start, REAL *c, long step, \
                            long n) {                                                                            \
    tile_REAL(R, k, a, b, next, start, c, step, n);                                                              \
  }
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if ROWS > 6
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#endif
#undef TILE
static void (*const tiles_REAL[])(long, const REAL *, const REAL *, long, const REAL *, REAL *, long, long) = {
    tile_REAL_1, tile_REAL_2, tile_REAL_3, tile_REAL_4, tile_REAL_5, tile_REAL_6,
#if ROWS > 6
    tile_REAL_7, tile_REAL_8, tile_REAL_9, tile_REAL_10, tile_REAL_11, tile_REAL_12,
#endif
};

/* c (m x n) = start + a (m x k) b; `room` is for STRIPS_REAL(k) elements. A rest of rows is shared with the strip before,
   so that no tile is much lower than the others. */
static void multiply_REAL(long m, long n, long k, const REAL *a, long row, long column, Panels_REAL b,
                          const REAL *start, REAL *c, long step, REAL *room) {
  for (long i = 0; i < m;) {
    long count[STRIPS], total = 0;
    int strips = 0;
    for (; strips < STRIPS && i + total < m; total += count[strips++]) {
      const long left = m - i - total;
      count[strips] = left >= 2 * ROWS || left <= ROWS ? least(left, ROWS) : (left + 1) / 2;
    }
    strips_REAL(strips, count, k, a + i * row, row, column, room);
    for (int s = 0; s < strips; i += count[s], s++)
      for (long j = 0; j < n; j += PANEL_REAL)
        tiles_REAL[count[s] - 1](k, room + s * ROWS * k, b.first + j / PANEL_REAL * b.between, b.next,
                                 start ? start + i * step + j : 0, c + i * step + j, step, least(PANEL_REAL, n - j));
  }
}

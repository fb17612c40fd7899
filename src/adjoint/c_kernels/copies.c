/* Elements moved: between arrays that lie otherwise, rows joined to longer ones, and parts of triangles. REAL stands for
   any type of its size. */

#define WORTH (1L << 18) /* bytes from which threads share the work */
#define BLOCK 4096       /* elements that one thread moves at least, where rows are shorter or longer */
#define LINE 64          /* bytes of a line of the cache */
#define INLINE static inline __attribute__((always_inline))

/* Bytes of a vector; the lanes of two vectors interleaved: their first halves, then their second halves. */
#define BYTES_double 32
#define BYTES_float 16
#define BYTES_short 16
#define BYTES_uchar 16
#define LOW_double 0, 4, 1, 5
#define HIGH_double 2, 6, 3, 7
#define LOW_float 0, 4, 1, 5
#define HIGH_float 2, 6, 3, 7
#define LOW_short 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_short 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_uchar 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_uchar 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif

/* Lines of bytes, the last of which may overlap the one before. For rows of this length memcpy() may take an instruction for
   strings, which some processors are slow at where addresses are odd; the compiler must not see that this is memcpy(). */
typedef char line __attribute__((vector_size(LINE), aligned(1), may_alias));
INLINE void copy_lines(char *to, const char *from, long bytes) {
  long i = 0;
  for (; i + LINE <= bytes; i += LINE) {
    *(line *)(to + i) = *(const line *)(from + i);
    __asm__ volatile("" ::: "memory");
  }
  if (i < bytes) *(line *)(to + bytes - LINE) = *(const line *)(from + bytes - LINE);
}

/* A few bytes, without a call where their number is a usual one. */
INLINE void copy(char *to, const char *from, long bytes) {
  switch (bytes) {
    case 4: __builtin_memcpy(to, from, 4); break;
    case 8: __builtin_memcpy(to, from, 8); break;
    case 16: __builtin_memcpy(to, from, 16); break;
    case 32: __builtin_memcpy(to, from, 32); break;
    default:
      if (bytes >= 8 * LINE && bytes <= 256 * LINE) copy_lines(to, from, bytes);
      else memcpy(to, from, (size_t)bytes);
  }
}

/* What follows is written once for each REAL: float, double. */

#define SIDE (LINE / (long)sizeof(REAL)) /* rows and columns of a tile: lines of the cache, read and written as a whole */
#define TILES 8                          /* tiles in a row of a patch, whose pages the TLB holds */
#define LANES (BYTES_REAL / (long)sizeof(REAL))
typedef REAL lanes __attribute__((vector_size(BYTES_REAL), aligned(sizeof(REAL)), may_alias));

/* t[i][j] = x[j * step + i] for as many rows and columns as a vector has lanes. */
INLINE void turn(const REAL *x, long step, REAL *t, long down) {
#ifdef MIX
  lanes a[LANES], b[LANES];
  for (long i = 0; i < LANES; i++) a[i] = *(const lanes *)(x + i * step);
  for (long turns = 1; turns < LANES; turns *= 2) {
    for (long i = 0; i < LANES / 2; i++) {
      b[2 * i] = MIX(a[i], a[i + LANES / 2], LOW_REAL);
      b[2 * i + 1] = MIX(a[i], a[i + LANES / 2], HIGH_REAL);
    }
    for (long i = 0; i < LANES; i++) a[i] = b[i];
  }
  for (long i = 0; i < LANES; i++) *(lanes *)(t + i * down) = a[i];
#else
  for (long i = 0; i < LANES; i++)
    for (long j = 0; j < LANES; j++) t[i * down + j] = x[j * step + i];
#endif
}

/* y[k * down + c] = x[c * across + k] for a tile of `high` rows and `wide` columns. */
static void move_tile(long high, long wide, const REAL *x, long across, REAL *y, long down) {
  if (high == SIDE && wide == SIDE) {
    REAL t[SIDE][SIDE];
    for (long c = 0; c < SIDE; c += LANES)
      for (long k = 0; k < SIDE; k += LANES) turn(x + c * across + k, across, &t[k][c], SIDE);
    for (long k = 0; k < SIDE; k++) __builtin_memcpy(y + k * down, t[k], LINE);
    return;
  }
  const long rows = high / LANES * LANES, columns = wide / LANES * LANES;
  for (long k = 0; k < rows; k += LANES)
    for (long c = 0; c < columns; c += LANES) turn(x + c * across + k, across, y + k * down + c, down);
  for (long k = 0; k < high; k++)
    for (long c = k < rows ? columns : 0; c < wide; c++) y[k * down + c] = x[c * across + k];
}

/* Like the tile above, for any number of rows and columns. */
static void move_patch(long high, long wide, const REAL *x, long across, REAL *y, long down) {
  for (long c = 0; c < wide; c += SIDE)
    for (long k = 0; k < high; k += SIDE)
      move_tile(least(high - k, SIDE), least(wide - c, SIDE), x + c * across + k, across, y + k * down + c, down);
}

/* Whether all bits are 0; those of -0.0 are not. */
INLINE int is_zero(const REAL *x) {
  unsigned long bits = 0;
  __builtin_memcpy(&bits, x, sizeof(REAL));
  return !bits;
}

static void move_row(long n, const REAL *x, long s, REAL *y, long d) {
  const REAL first = x[0];
  if (d != 1)
    for (long i = 0; i < n; i++) y[i * d] = x[i * s];
  else if (s == 1) copy((char *)y, (const char *)x, n * (long)sizeof(REAL));
  else if (s == 0) {
    if (is_zero(&first)) memset(y, 0, (size_t)n * sizeof(REAL));
    else
      for (long i = 0; i < n; i++) y[i] = first;
  } else if (s == -1)
    for (long i = 0; i < n; i++) y[i] = x[-i];
  else if (s == 2)
    for (long i = 0; i < n; i++) y[i] = x[2 * i];
  else
    for (long i = 0; i < n; i++) y[i] = x[i * s];
}

/* Short rows: the first element of every row, then every second element, … */
static void move_columns(long rows, long n, const REAL *x, const long *s, REAL *y, const long *d) {
  for (long i = 0; i < n; i++)
    for (long r = 0; r < rows; r++) y[r * d[2] + i * d[3]] = x[r * s[2] + i * s[3]];
}

/* z: four sizes, the steps of x along them, the steps of y twice, the last of which is the shortest; then the objects of
   both arrays. */
int move_REAL(const long *z, void *const *objects) {
  const REAL *x = *(REAL **)((char *)objects[0] + DATA);
  REAL *y = *(REAL **)((char *)objects[1] + DATA);
  const long *s = z + 4, *d = z + 12, n = z[3];
  const int shared = z[0] * z[1] * z[2] * n * (long)sizeof(REAL) > WORTH;
  if (((unsigned long)x | (unsigned long)y) % sizeof(REAL)) return 1;
  int turned = -1; /* the dimension in which x is contiguous, if that is not the last one of y; else -1 */
  if (d[3] == 1 && n > 1 && s[3] != 0 && s[3] != 1 && s[3] != -1)
    for (int k = 0; k < 3; k++)
      if (s[k] == 1 && z[k] > 1) turned = k;
  if (turned >= 0) {
    const int a = turned == 0, b = turned == 2 ? 1 : 2; /* the other two dimensions */
    const long patch = TILES * SIDE;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(4) if (shared)
    for (long i = 0; i < z[a]; i++)
      for (long j = 0; j < z[b]; j++)
        for (long k = 0; k < z[turned]; k += patch)
          for (long c = 0; c < n; c += patch)
            move_patch(least(z[turned] - k, patch), least(n - c, patch),
                       x + i * s[a] + j * s[b] + k + c * s[3], s[3],
                       y + i * d[a] + j * d[b] + k * d[turned] + c, d[turned]);
    return 0;
  }
  const long across = n < BLOCK ? BLOCK / n : 1, block = n < 8 * BLOCK ? n : 4 * BLOCK;
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(4) if (shared)
  for (long i = 0; i < z[0]; i++)
    for (long j = 0; j < z[1]; j++)
      for (long first = 0; first < z[2]; first += across)
        for (long c = 0; c < n; c += block) {
          const long rows = least(z[2] - first, across), count = least(n - c, block);
          const REAL *from = x + i * s[0] + j * s[1] + first * s[2] + c * s[3];
          REAL *to = y + i * d[0] + j * d[1] + first * d[2] + c * d[3];
          if (n <= 4 && rows > n && s[3] != 1) move_columns(rows, n, from, s, to, d);
          else
            for (long r = 0; r < rows; r++) move_row(count, from + r * s[2], s[3], to + r * d[2], d[3]);
        }
  return 0;
}

/* sizes, in bytes but for the first and the third: rows, a row of the result, parts, a row of each part, and from one row
   of a part to the next. Each thread has a share of the result. */
int join_REAL(const long *sizes, const char *const *parts, char *y) {
  const long rows = sizes[0], width = sizes[1], count = sizes[2], *widths = sizes + 3, *steps = widths + count;
  if (rows * width == 0) return 0;
#pragma omp parallel num_threads(TEAM) if (rows * width > WORTH)
  {
    const long threads = omp_get_num_threads(), own = omp_get_thread_num();
    const long share = (rows * width / threads + LINE) / LINE * LINE;
    const long end = (own + 1) * share < rows * width ? (own + 1) * share : rows * width;
    long at = own * share, row = at / width, place = at % width, k = 0;
    while (at < end && place >= widths[k]) place -= widths[k++];
    while (at < end) {
      const long left = widths[k] - place, bytes = end - at < left ? end - at : left;
      copy(y + at, parts[k] + row * steps[k] + place, bytes);
      at += bytes, place = 0;
      if (++k == count) k = 0, row++;
    }
  }
  return 0;
}

/* y[i, j, ..] = x[offsets of i + offsets of j + ..] for five dimensions, whose offsets stand one after the other. sizes: those
   of y, and where in the last dimension offsets go up by ones: from which place on, and how often. */
int take_REAL(const long *sizes, const long *offsets, const REAL *x, REAL *y) {
  const long n = sizes[4], rows = sizes[0] * sizes[1] * sizes[2] * sizes[3], start = sizes[5], end = start + sizes[6];
  const long *o[5] = {offsets};
  for (int k = 0; k < 4; k++) o[k + 1] = o[k] + sizes[k];
  if (!n) return 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (rows * n * (long)sizeof(REAL) > WORTH)
  for (long r = 0; r < rows; r++) {
    const long i = r / sizes[3], j = i / sizes[2];
    const REAL *from = x + o[0][j / sizes[1]] + o[1][j % sizes[1]] + o[2][i % sizes[2]] + o[3][r % sizes[3]];
    REAL *to = y + r * n;
    for (long c = 0; c < start; c++) to[c] = from[o[4][c]];
    copy((char *)(to + start), (const char *)(from + o[4][start]), (end - start) * (long)sizeof(REAL));
    for (long c = end; c < n; c++) to[c] = from[o[4][c]];
  }
  return 0;
}

/* sizes: matrices, rows, columns, the diagonal (with it, elements right of it count as right), whether the right is kept. */
int triangle_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long rows = sizes[1], columns = sizes[2], diagonal = sizes[3], right = sizes[4];
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (sizes[0] * rows * columns * (long)sizeof(REAL) > WORTH)
  for (long m = 0; m < sizes[0]; m++)
    for (long r = 0; r < rows; r++) {
      const long place = r + diagonal < 0 ? 0 : r + diagonal < columns ? r + diagonal : columns;
      const size_t before = (size_t)place * sizeof(REAL), after = (size_t)(columns - place) * sizeof(REAL);
      const REAL *from = x + (m * rows + r) * columns;
      REAL *to = y + (m * rows + r) * columns;
      if (right) memset(to, 0, before), memcpy(to + place, from + place, after);
      else memcpy(to, from, before), memset(to + place, 0, after);
    }
  return 0;
}

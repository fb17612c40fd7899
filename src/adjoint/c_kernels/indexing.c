/* Elements and rows at indices, compiled once for each machine. Arrays are [outer, size, inner]; every index is compared
   with the size before it is used, and a wrong one is told by the result: nothing outside is read or written. Threads
   share what no two indices can both write to, so that repeated indices are served in their order. */

#define WORTH (1L << 15) /* elements from which threads share the work */
#define SIDE 512         /* columns that one thread takes */
#define LONG 16          /* elements of a row from which checking each index costs nothing */
#define FEW 4            /* elements at once: the time of a shorter loop depends on the alignment of its code */

/* What follows is written once for each REAL: float, double. */

/* y[o, j, c] = x[o, index[o, j, c], c]; sizes: outer, size, inner, how many j. */
int gather_REAL(const long *sizes, const REAL *x, const long *index, REAL *y) {
  const long outer = sizes[0], size = sizes[1], inner = sizes[2], count = sizes[3];
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) reduction(| : wrong) if (outer * count * inner > WORTH)
  for (long r = 0; r < outer * count; r++) {
    const REAL *from = x + r / count * size * inner;
    const long *own = index + r * inner;
    REAL *to = y + r * inner;
    for (long c = 0; c < inner; c++) {
      const int outside = (unsigned long)own[c] >= (unsigned long)size;
      wrong |= outside;
      to[c] = from[(outside ? 0 : own[c]) * inner + c];
    }
  }
  return wrong;
}
/* The same along the last dimension, inner = 1. */
int gather_last_REAL(const long *sizes, const REAL *x, const long *index, REAL *y) {
  const long outer = sizes[0], size = sizes[1], count = sizes[3];
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) reduction(| : wrong) if (outer * count > WORTH)
  for (long o = 0; o < outer; o++) {
    const REAL *from = x + o * size;
    const long *own = index + o * count;
    REAL *to = y + o * count;
    for (long j = 0; j < count; j++) {
      const int outside = (unsigned long)own[j] >= (unsigned long)size;
      wrong |= outside;
      to[j] = from[outside ? 0 : own[j]];
    }
  }
  return wrong;
}

/* One line of y[index[j]] = x[j], or added to it; whether an index was wrong. */
static int scatter_line(long size, long count, long adds, const REAL *x, const long *index, REAL *y) {
  int wrong = 0;
  if (adds)
    for (long j = 0; j < count; j++) {
      if ((unsigned long)index[j] >= (unsigned long)size) wrong = 1;
      else y[index[j]] += x[j];
    }
  else
    for (long j = 0; j < count; j++) {
      if ((unsigned long)index[j] >= (unsigned long)size) wrong = 1;
      else y[index[j]] = x[j];
    }
  return wrong;
}

/* y[o, index[o, j, c], c] = x[o, j, c], or added to it; sizes: outer, size, inner, how many j, whether it is added. */
int scatter_REAL(const long *sizes, const REAL *x, const long *index, REAL *y) {
  const long outer = sizes[0], size = sizes[1], inner = sizes[2], count = sizes[3], adds = sizes[4];
  const long sides = (inner + SIDE - 1) / SIDE;
  int wrong = 0;
#pragma omp parallel for num_threads(TEAM) schedule(static) reduction(| : wrong) if (outer * count * inner > WORTH)
  for (long p = 0; p < outer * sides; p++) {
    const long first = p % sides * SIDE, last = inner - first < SIDE ? inner : first + SIDE, o = p / sides;
    REAL *to = y + o * size * inner;
    if (inner == 1) {
      wrong |= scatter_line(size, count, adds, x + o * count, index + o * count, to);
      continue;
    }
    for (long j = 0; j < count; j++) {
      const REAL *from = x + (o * count + j) * inner;
      const long *own = index + (o * count + j) * inner;
      for (long c = first; c < last; c++) {
        if ((unsigned long)own[c] >= (unsigned long)size) {
          wrong = 1;
          continue;
        }
        REAL *place = to + own[c] * inner + c;
        *place = adds ? *place + from[c] : from[c];
      }
    }
  }
  return wrong;
}

/* y[o, j, c] = x[o, index[j], c]; sizes: outer, size, inner, how many j. */
int select_REAL(const long *sizes, const REAL *x, const long *index, REAL *y) {
  const long outer = sizes[0], size = sizes[1], inner = sizes[2], count = sizes[3];
  for (long j = 0; j < count; j++)
    if ((unsigned long)index[j] >= (unsigned long)size) return 1;
  if (inner == 1) {
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * count > WORTH)
    for (long o = 0; o < outer; o++) {
      const REAL *from = x + o * size;
      REAL *to = y + o * count;
      long j = 0;
      for (; j + FEW <= count; j += FEW)
        for (int k = 0; k < FEW; k++) to[j + k] = from[index[j + k]];
      for (; j < count; j++) to[j] = from[index[j]];
    }
    return 0;
  }
#pragma omp parallel for num_threads(TEAM) schedule(static) collapse(2) if (outer * count * inner > WORTH)
  for (long o = 0; o < outer; o++)
    for (long j = 0; j < count; j++)
      memcpy(y + (o * count + j) * inner, x + (o * size + index[j]) * inner, sizeof(REAL) * (size_t)inner);
  return 0;
}

/* y[index[j], c] += x[j, c] for the rows of y from `low` on, `rows` of them. */
static void add_rows(long low, long rows, long inner, long count, const REAL *x, const long *index, REAL *y) {
  for (long j = 0; j < count; j++) {
    if ((unsigned long)(index[j] - low) >= (unsigned long)rows) continue;
    const REAL *from = x + j * inner;
    REAL *to = y + index[j] * inner;
#pragma omp simd
    for (long c = 0; c < inner; c++) to[c] += from[c];
  }
}

/* y[o, index[j], c] += x[o, j, c]; sizes: outer, size, inner, how many j. Threads share the outer ones; where there is but
   one, and rows are long, each has a range of rows of y, which are near it if it wrote them before. */
int add_rows_REAL(const long *sizes, const REAL *x, const long *index, REAL *y) {
  const long outer = sizes[0], size = sizes[1], inner = sizes[2], count = sizes[3];
  const int worth = outer * count * inner > WORTH;
  for (long j = 0; j < count; j++)
    if ((unsigned long)index[j] >= (unsigned long)size) return 1;
  if (outer == 1 && inner >= LONG) {
#pragma omp parallel num_threads(TEAM) if (worth)
    {
      const long shares = omp_get_num_threads(), own = omp_get_thread_num(), low = size * own / shares;
      add_rows(low, size * (own + 1) / shares - low, inner, count, x, index, y);
    }
    return 0;
  }
#pragma omp parallel for num_threads(TEAM) schedule(static) if (worth && outer > 1)
  for (long o = 0; o < outer; o++) {
    const REAL *from = x + o * count * inner;
    REAL *to = y + o * size * inner;
    if (inner == 1)
      for (long j = 0; j < count; j++) to[index[j]] += from[j];
    else add_rows(0, size, inner, count, from, index, to);
  }
  return 0;
}

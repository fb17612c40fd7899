/* Elements moved to and from places that indices choose. A function takes numbers, operands that lie row by row, and
   results; it returns whether an index was out of range. */

/* An index of 64 or of 32 bits. */
static long index_at(const void *index, long i, long wide) {
  return wide ? (long)((const long long *)index)[i] : (long)((const int *)index)[i];
}

/* Where the elements of an array lie in a larger one of other sizes, an index along one dimension aside. sizes: rank,
   sizes of the index, steps of the large array. */
static long corner(long number, long rank, const long *shape, const long *steps, long skip) {
  long found = 0;
  for (long d = rank - 1; d >= 0; d--) {
    if (d != skip) found += number % shape[d] * steps[d];
    number /= shape[d];
  }
  return found;
}

/* What follows is written once for each REAL: float, double. */

/* A mean of whole numbers, rounded down. */
static REAL floored_REAL(REAL total, REAL count) {
  const REAL q = (REAL)((long)total / (long)count);
  return (long)total % (long)count < 0 ? q - 1 : q;
}

/* sizes: elements of the index, whether it is of 64 bits, dim, size along dim, rank, sizes of the index, steps. */
int gather_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long dim = sizes[2], rank = sizes[4], *shape = sizes + 5, *steps = shape + rank;
  const long row = rank ? shape[rank - 1] : 1, next = dim == rank - 1 ? 0 : 1; /* steps of row-major arrays end in 1 */
  for (long start = 0; start < sizes[0]; start += row) {
    const REAL *from = (const REAL *)given[0] + corner(start, rank, shape, steps, dim);
    for (long k = 0; k < row; k++) {
      const long at = index_at(given[1], start + k, sizes[1]);
      if (at < 0 || at >= sizes[3]) return 1;
      ((REAL *)made[0])[start + k] = from[k * next + at * steps[dim]];
    }
  }
  return 0;
}

/* Elements written or joined to those of a copy. sizes: elements of the index, whether it is of 64 bits, dim, size
   along dim, elements of the whole, how (write, sum, mean, product, maximum, minimum), whether what was there counts,
   rank, sizes of the index, steps of the whole, steps of the source, whether means are rounded down. */
int scatter_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long dim = sizes[2], total = sizes[4], how = sizes[5], own = sizes[6], rank = sizes[7], *shape = sizes + 8;
  const long *steps = shape + rank, *from = steps + rank;
  const REAL *source = given[2];
  REAL *to = made[0];
  int *counts = how == 2 || !own ? calloc(total + 1, sizeof(int)) : 0;
  int wrong = (how == 2 || !own) && !counts;
  memcpy(to, given[0], total * sizeof(REAL));
  const long row = rank ? shape[rank - 1] : 1, next = dim == rank - 1 ? 0 : 1; /* steps of row-major arrays end in 1 */
  for (long start = 0; start < sizes[0] && !wrong; start += row) {
    const long base = corner(start, rank, shape, steps, dim);
    const REAL *values = source + corner(start, rank, shape, from, -1);
    for (long k = 0; k < row; k++) {
      const long at = index_at(given[1], start + k, sizes[1]);
      wrong = at < 0 || at >= sizes[3];
      if (wrong) break;
      const long place = base + k * next + at * steps[dim];
      const REAL x = values[k], here = to[place];
      const int first = counts && counts[place]++ == 0 && !own;
      if (how == 0 || first) to[place] = x;
      else if (how < 3) to[place] = here + x;
      else if (how == 3) to[place] = here * x;
      else to[place] = here != here || (how == 4 ? here > x : here < x) ? here : x;
    }
  }
  for (long i = 0; how == 2 && i < total && !wrong; i++) {
    const REAL count = (REAL)(counts[i] + (own && counts[i] ? 1 : 0));
    if (counts[i]) to[i] = sizes[8 + 3 * rank] ? floored_REAL(to[i], count) : to[i] / count;
  }
  free(counts);
  return wrong;
}

/* The places of elements that are not 0. sizes: elements, rows of the result, what fills it, rank, sizes. */
int nonzero_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long rank = sizes[3];
  long long *to = made[0];
  long found = 0;
  for (long i = 0; i < sizes[0] && found < sizes[1]; i++)
    if (((const REAL *)given[0])[i] != 0) {
      for (long d = rank - 1, rest = i; d >= 0; d--) to[found * rank + d] = rest % sizes[4 + d], rest /= sizes[4 + d];
      found++;
    }
  for (long i = found * rank; i < sizes[1] * rank; i++) to[i] = sizes[2];
  return 0;
}

/* A copy, and elements written at strides. sizes: elements of the whole, elements written, first place, rank, sizes,
   strides. */
int strides_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long rank = sizes[3], *shape = sizes + 4;
  memcpy(made[0], given[0], sizes[0] * sizeof(REAL));
  for (long i = 0; i < sizes[1]; i++)
    ((REAL *)made[0])[sizes[2] + corner(i, rank, shape, shape + rank, -1)] = ((const REAL *)given[1])[i];
  return 0;
}

/* A copy of bytes. sizes: bytes. */
int bits_REAL(const long *sizes, const void *const *given, void *const *made) {
  memcpy(made[0], given[0], sizes[0]);
  return 0;
}

/* The index of each number, repeated as often as the number says. sizes: numbers, results. */
int repeat_REAL(const long *sizes, const void *const *given, void *const *made) {
  long at = 0;
  for (long i = 0; i < sizes[0]; i++) {
    const long times = (long)((const REAL *)given[0])[i];
    if (times < 0 || times > sizes[1] - at) return 1;
    for (long k = 0; k < times; k++) ((REAL *)made[0])[at++] = (REAL)i;
  }
  return at != sizes[1];
}

/* The permutation made by LAPACK's row swaps. sizes: batches, swaps, rows. */
int permutation_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long count = sizes[1], rows = sizes[2];
  for (long b = 0; b < sizes[0]; b++) {
    long long *order = (long long *)made[0] + b * rows;
    const REAL *swaps = (const REAL *)given[0] + b * count;
    for (long i = 0; i < rows; i++) order[i] = i;
    for (long k = 0; k < count; k++) {
      const long other = (long)swaps[k] - 1;
      if (other < 0 || other >= rows || k >= rows) return 1;
      const long long kept = order[k];
      order[k] = order[other], order[other] = kept;
    }
  }
  return 0;
}

/* The positions of the packed factors of L D L'. sizes: batches, size. */
int layout_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1];
  for (long b = 0; b < sizes[0]; b++) {
    const REAL *swaps = (const REAL *)given[0] + b * n;
    long long *order = (long long *)made[0] + b * n, *rows = (long long *)made[1] + b * n * n;
    long long *block = (long long *)made[2] + b * n;
    for (long i = 0; i < n; i++) {
      if (made[0]) order[i] = i;
      if (made[2]) block[i] = i;
      for (long j = 0; made[1] && j < n; j++) rows[i * n + j] = i;
    }
    for (long k = 0; k < n;) {
      const long twice = swaps[k] < 0, last = k + twice, other = (swaps[k] < 0 ? -(long)swaps[k] : (long)swaps[k]) - 1;
      if (other < 0 || other >= n || last >= n || (twice && swaps[last] >= 0)) return 1;
      if (made[0]) {
        const long long kept = order[last];
        order[last] = order[other], order[other] = kept;
      }
      for (long j = 0; made[1] && j < k; j++) {
        const long long kept = rows[last * n + j];
        rows[last * n + j] = rows[other * n + j], rows[other * n + j] = kept;
      }
      if (made[2]) block[last] = k;
      k = last + 1;
    }
  }
  return 0;
}

/* Windows added back to the elements they were taken from. sizes: outer, windows, inner, size of a window, step, n. */
int windows_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long count = sizes[1], inner = sizes[2], size = sizes[3], n = sizes[5];
  memset(made[0], 0, sizes[0] * n * inner * sizeof(REAL));
  for (long o = 0; o < sizes[0]; o++)
    for (long k = 0; k < count; k++)
      for (long i = 0; i < inner; i++)
        for (long s = 0; s < size; s++)
          ((REAL *)made[0])[(o * n + k * sizes[4] + s) * inner + i] +=
              ((const REAL *)given[0])[((o * count + k) * inner + i) * size + s];
  return 0;
}

/* Rows of different lengths padded to one size. sizes: rows, size, inner, packed rows, the padding. */
int pad_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long size = sizes[1], inner = sizes[2];
  double padding;
  memcpy(&padding, &sizes[4], sizeof padding);
  for (long r = 0; r < sizes[0]; r++) {
    const long start = ((const long long *)given[1])[r], length = ((const long long *)given[2])[r];
    if (start < 0 || length < 0 || start > sizes[3] - length) return 1;
    for (long k = 0; k < size * inner; k++)
      ((REAL *)made[0])[r * size * inner + k] =
          k < length * inner ? ((const REAL *)given[0])[start * inner + k] : (REAL)padding;
  }
  return 0;
}

/* Padded rows packed again; rows at one place are added. sizes: rows, size, inner, packed rows. */
int pack_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long size = sizes[1], inner = sizes[2];
  memset(made[0], 0, sizes[3] * inner * sizeof(REAL));
  for (long r = 0; r < sizes[0]; r++) {
    const long start = ((const long long *)given[1])[r], length = ((const long long *)given[2])[r];
    if (start < 0 || length < 0 || start > sizes[3] - length) return 1;
    for (long k = 0; k < size * inner && k < length * inner; k++)
      ((REAL *)made[0])[start * inner + k] += ((const REAL *)given[0])[r * size * inner + k];
  }
  return 0;
}

/* The number of the segment of each row, -1 for none. sizes: outer, n, segments, whether offsets are given. */
int numbers_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], count = sizes[2], width = count + (sizes[3] != 0);
  long long *to = made[0];
  for (long i = 0; i < sizes[0] * n; i++) to[i] = -1;
  for (long o = 0; o < sizes[0]; o++) {
    long low = 0, high = 0;
    for (long s = 0; s < count; s++) {
      const REAL *bounds = (const REAL *)given[0] + o * width;
      low = sizes[3] ? (long)bounds[s] : high;
      high = sizes[3] ? (long)bounds[s + 1] : low + (long)bounds[s];
      if (low < 0 || high > n || low > high) return 1;
      for (long i = low; i < high; i++) to[o * n + i] = o * count + s;
    }
  }
  return 0;
}

/* Products with sparse matrices, compiled once for each machine. Dense matrices are row-major. */

#define WORTH (1L << 15) /* products from which threads share the rows or elements */

/* What follows is written once for each REAL: float, double. */

/* Columns and values sorted by row; next[r] is the start of row r, and is advanced. */
int by_rows_REAL(const long *sizes, long *next, const long *rows, const long *columns, const REAL *values,
                 long *sorted_columns, REAL *sorted_values) {
  for (long k = 0; k < sizes[0]; k++) {
    const long place = next[rows[k]]++;
    sorted_columns[place] = columns[k], sorted_values[place] = values[k];
  }
  return 0;
}

/* out[r] = Σ values[k] dense[columns[k]], k from starts[r] on. sizes: rows of the result, its width. */
int product_REAL(const long *sizes, const long *starts, const long *columns, const REAL *values, const REAL *dense,
                 REAL *out) {
  const long rows = sizes[0], width = sizes[1];
#pragma omp parallel for num_threads(TEAM) schedule(static, 64) if (starts[rows] * width > WORTH)
  for (long r = 0; r < rows; r++) {
    REAL *to = out + r * width;
    memset(to, 0, width * sizeof(REAL));
    for (long k = starts[r]; k < starts[r + 1]; k++) {
      const REAL value = values[k], *from = dense + columns[k] * width;
#pragma omp simd
      for (long j = 0; j < width; j++) to[j] += value * from[j];
    }
  }
  return 0;
}

/* out[k] = Σ left[rows[k]] right[columns[k]]. sizes: the number of elements, the width of both matrices. */
int sample_REAL(const long *sizes, const long *rows, const long *columns, const REAL *left, const REAL *right,
                REAL *out) {
  const long count = sizes[0], width = sizes[1];
#pragma omp parallel for num_threads(TEAM) schedule(static) if (count * width > WORTH)
  for (long k = 0; k < count; k++) {
    const REAL *one = left + rows[k] * width, *other = right + columns[k] * width;
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long j = 0; j < width; j++) sum += one[j] * other[j];
    out[k] = sum;
  }
  return 0;
}

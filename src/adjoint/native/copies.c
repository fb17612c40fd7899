/* Rows copied: joined to longer ones, and parts of triangles. Elements are only moved, so REAL stands for any type of its size.
   Results are written from their beginning to their end. */

#define WORTH (1L << 15) /* elements from which threads share the rows */

/* What follows is written once for each REAL: float, double. */

/* sizes: rows, elements of a row of the result, parts, and elements of a row of each part. */
int join_REAL(const long *sizes, const REAL *const *parts, REAL *y) {
  const long rows = sizes[0], width = sizes[1], count = sizes[2], *widths = sizes + 3;
#pragma omp parallel for schedule(static) if (rows * width > WORTH)
  for (long r = 0; r < rows; r++) {
    REAL *to = y + r * width;
    for (long k = 0; k < count; to += widths[k], k++)
      memcpy(to, parts[k] + r * widths[k], (size_t)widths[k] * sizeof(REAL));
  }
  return 0;
}

/* sizes: matrices, rows, columns, the diagonal from which on elements are on the right, and whether those are kept. */
int triangle_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long rows = sizes[1], columns = sizes[2], diagonal = sizes[3], right = sizes[4];
#pragma omp parallel for schedule(static) collapse(2) if (sizes[0] * rows * columns > WORTH)
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

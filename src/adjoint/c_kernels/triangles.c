/* Cholesky factors and solutions of triangular systems, of one matrix stored with any strides: by LAPACK and BLAS, whose
   functions are arguments; by loops where these are null, as in exported code. BLAS and LAPACK read a row-major matrix as
   the transpose of a column-major one. A function returns whether it failed. */

typedef void (*Potrf)(const char *, int *, void *, int *, int *);
typedef void (*Trsm)(const char *, const char *, const char *, const char *, int *, int *, void *, const void *, int *,
                     void *, int *);

typedef struct {
  long n, upper, check; /* whether the upper triangle is read, whether failing is an error */
  long row, column;     /* steps of A; the factor is row-major */
} Factor;

typedef struct {
  long m, n, upper, left, unit;      /* A X = B, or X A = B, for m rows and n columns; whether the diagonal is 1 */
  long a_row, a_column, b_row, b_column; /* steps; X is row-major */
} Triangle;

/* What follows is written once for each REAL: float, double. */

/* The factor in place of one triangle of x; the order of the first minor that is not positive, or 0. */
static int factor_REAL(long n, int upper, REAL *x) {
  const long row = upper ? 1 : n, column = upper ? n : 1;
  for (long j = 0; j < n; j++)
    for (long i = j; i < n; i++) {
      double total = x[i * row + j * column];
      for (long k = 0; k < j; k++) total -= (double)x[i * row + k * column] * x[j * row + k * column];
      if (i == j && !(total > 0)) return (int)j + 1;
      x[i * row + j * column] = (REAL)(i == j ? __builtin_sqrt(total) : total / x[j * row + j * column]);
    }
  return 0;
}

/* Either result may be null. */
KERNEL int cholesky_REAL(const Factor *z, const REAL *a, REAL *factor, int *result, Potrf potrf) {
  REAL *x = factor ? factor : malloc((size_t)(z->n * z->n + 1) * sizeof(REAL));
  int n = (int)z->n, info = 0;
  if (!x) return 1;
  for (long i = 0; i < z->n; i++)
    for (long j = 0; j < z->n; j++)
      x[i * z->n + j] = (z->upper ? j >= i : j <= i) ? a[i * z->row + j * z->column] : 0;
  if (!potrf) info = factor_REAL(z->n, (int)z->upper, x);
  else if (n) potrf(z->upper ? "L" : "U", &n, x, &n, &info);
  if (result) *result = info;
  if (!factor) free(x);
  return info < 0 || (info && (z->check || !result));
}

/* X in place of B. */
static void substitute_REAL(const Triangle *z, const REAL *a, REAL *x) {
  const long m = z->m, n = z->n, size = z->left ? m : n, down = z->upper == z->left;
  for (long s = 0; s < size; s++) {
    const long i = down ? size - 1 - s : s, first = down ? i + 1 : 0, last = down ? size : i;
    const REAL pivot = z->unit ? 1 : a[i * (z->a_row + z->a_column)];
    if (z->left) {
      for (long k = first; k < last; k++)
        for (long j = 0; j < n; j++) x[i * n + j] -= a[i * z->a_row + k * z->a_column] * x[k * n + j];
      for (long j = 0; j < n; j++) x[i * n + j] /= pivot;
    } else
      for (long r = 0; r < m; r++) {
        for (long k = first; k < last; k++) x[r * n + i] -= x[r * n + k] * a[k * z->a_row + i * z->a_column];
        x[r * n + i] /= pivot;
      }
  }
}

KERNEL int triangular_REAL(const Triangle *z, const REAL *a, const REAL *b, REAL *x, Trsm trsm) {
  const long size = z->left ? z->m : z->n;
  const int straight = (z->a_column == 1 || size == 1) && (z->a_row >= size || size == 1);
  const long step = straight ? z->a_row : z->a_column; /* of a single row it only has to be large enough */
  int m = (int)z->n, n = (int)z->m, lda = (int)(step > size ? step : size), ldb = m;
  REAL one = 1;
  for (long i = 0; i < z->m; i++)
    for (long j = 0; j < z->n; j++) x[i * z->n + j] = b[i * z->b_row + j * z->b_column];
  if (!m || !n) return 0;
  if (!trsm) substitute_REAL(z, a, x);
  else /* it sees the rows of X as columns: X' A' = B' */
    trsm(z->left ? "R" : "L", (z->upper != 0) == straight ? "L" : "U", straight ? "N" : "T", z->unit ? "U" : "N", &m, &n,
         &one, a, &lda, x, &ldb);
  return 0;
}

/* Factors of small and large matrices, one after the other: LAPACK's routines, whose addresses come after the operands,
   on copies that lie column by column. A function takes numbers, operands that lie row by row, and results, of which
   those that nobody wants are null; it returns whether it failed. */

/* LAPACK's routines: sizes, numbers and results by address, and at the end whether all went well */
typedef void (*Getrf)(int *, int *, void *, int *, int *, int *);
typedef void (*Gesv)(int *, int *, void *, int *, int *, void *, int *, int *);
typedef void (*Geqrf)(int *, int *, void *, int *, void *, void *, int *, int *);
typedef void (*Orgqr)(int *, int *, int *, void *, int *, void *, void *, int *, int *);
typedef void (*Syevd)(const char *, const char *, int *, void *, int *, void *, void *, int *, int *, int *, int *);
typedef void (*Gesdd)(const char *, int *, int *, void *, int *, void *, void *, int *, void *, int *, void *, int *,
                      int *, int *);
typedef void (*Sytrf)(const char *, int *, void *, int *, int *, void *, int *, int *);

#define EPS_float __FLT_EPSILON__
#define EPS_double __DBL_EPSILON__

/* The place of a batch's matrix in an operand: the sizes of the batch, and the steps of the operand, 0 where it is
   repeated. */
static long place(long number, long rank, const long *batch, const long *steps) {
  long found = 0;
  for (long d = rank - 1; d >= 0; d--) found += number % batch[d] * steps[d], number /= batch[d];
  return found;
}

/* What follows is written once for each REAL: float, double. */

static REAL size_REAL(REAL x) { return x < 0 ? -x : x; }

static REAL largest_REAL(const REAL *values, long n) {
  REAL top = 0;
  for (long i = 0; i < n; i++) top = size_REAL(values[i]) > top ? size_REAL(values[i]) : top;
  return top;
}

/* Values that are closer count as equal. */
static REAL equal_REAL(const REAL *values, long n) { return 100 * EPS_REAL * largest_REAL(values, n); }

/* The largest rounding error of numbers of this size, or of size 1. */
static REAL gauge_REAL(const REAL *values, long n) {
  return (REAL)(__builtin_sqrt(EPS_REAL) * largest_REAL(values, n) + 1e4 * EPS_REAL);
}

static void turned_REAL(const REAL *from, REAL *to, long rows, long columns) {
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

/* sizes: matrices, rows, columns, whether rows are exchanged, whether a zero on the diagonal is an error. */
int lu_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long count = sizes[0], m = sizes[1], n = sizes[2], k = least(m, n);
  const Getrf getrf = (Getrf)given[1];
  REAL *work = malloc((m * n + 1) * sizeof(REAL));
  int *swaps = malloc((k + 1) * sizeof(int)), wrong = !work || !swaps;
  for (long c = 0; c < count && !wrong; c++) {
    int rows = m, columns = n, info = 0;
    turned_REAL((const REAL *)given[0] + c * m * n, work, m, n);
    if (sizes[3]) {
      if (k) getrf(&rows, &columns, work, &rows, swaps, &info);
    } else
      for (long p = 0; p < k; p++) {
        const REAL pivot = work[p * m + p];
        swaps[p] = p + 1;
        if (pivot == 0 && !info) info = p + 1;
        for (long i = p + 1; i < m; i++) work[p * m + i] /= pivot;
        for (long j = p + 1; j < n; j++)
          for (long i = p + 1; i < m; i++) work[j * m + i] -= work[p * m + i] * work[j * m + p];
      }
    wrong = info < 0 || (info && sizes[4]);
    if (made[0]) turned_REAL(work, (REAL *)made[0] + c * m * n, n, m);
    if (made[1]) memcpy((int *)made[1] + c * k, swaps, k * sizeof(int));
    if (made[2]) ((int *)made[2])[c] = info;
  }
  free(work), free(swaps);
  return wrong;
}

/* sizes: matrices, size, columns of B, whether failing is an error, rank and sizes of the batch, steps of A and of B.
   Without B the inverse. */
int solve_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], k = sizes[2], rank = sizes[4], *batch = sizes + 5;
  const int inverse = sizes[2] < 0;
  const long columns_of_b = inverse ? n : k;
  const Gesv gesv = (Gesv)given[inverse ? 1 : 2];
  REAL *work = malloc((n * n + n * columns_of_b + 1) * sizeof(REAL)), *right = work + n * n;
  int *swaps = malloc((n + 1) * sizeof(int)), wrong = !work || !swaps;
  for (long c = 0; c < sizes[0] && !wrong; c++) {
    int size = n, columns = columns_of_b, info = 0;
    const long at = place(c, rank, batch, batch + rank);
    turned_REAL((const REAL *)given[0] + at * n * n, work, n, n);
    if (inverse)
      for (long i = 0; i < n * n; i++) right[i] = i % (n + 1) == 0;
    else
      turned_REAL((const REAL *)given[1] + place(c, rank, batch, batch + 2 * rank) * n * k, right, n, k);
    if (n && columns) gesv(&size, &columns, work, &size, swaps, right, &size, &info);
    wrong = info < 0 || (info && sizes[3]);
    for (long i = 0; info && i < n * columns_of_b; i++) right[i] = (REAL)__builtin_nan("");
    if (made[0]) turned_REAL(right, (REAL *)made[0] + c * n * columns_of_b, columns_of_b, n);
    if (made[1]) ((int *)made[1])[at] = info;
  }
  free(work), free(swaps);
  return wrong;
}

/* sizes: matrices, rows, columns, columns of Q, 0 if only R is wanted, rows of R. */
int qr_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long m = sizes[1], n = sizes[2], wide = sizes[3], k = least(m, n), most = wide > n ? wide : n;
  const Geqrf geqrf = (Geqrf)given[1];
  const Orgqr orgqr = (Orgqr)given[2];
  const long room = 64 * (most + 1), height = sizes[4];
  REAL *a = calloc(m * most + k + 1, sizeof(REAL)), *factors = a + m * most, *work = malloc(room * sizeof(REAL));
  int wrong = !a || !work;
  for (long c = 0; c < sizes[0] && !wrong; c++) {
    int rows = m, columns = n, reflections = k, info = 0, size = room, all = wide;
    turned_REAL((const REAL *)given[0] + c * m * n, a, m, n);
    if (k) geqrf(&rows, &columns, a, &rows, factors, work, &size, &info);
    REAL *r = (REAL *)made[1] + c * height * n;
    for (long i = 0; made[1] && i < height; i++)
      for (long j = 0; j < n; j++) r[i * n + j] = i > j ? 0 : a[j * m + i];
    if (info == 0 && wide && m) {
      for (long j = k; !k && j < wide; j++) memset(a + j * m, 0, m * sizeof(REAL));
      orgqr(&rows, &all, &reflections, a, &rows, factors, work, &size, &info);
    }
    if (made[0] && wide) turned_REAL(a, (REAL *)made[0] + c * m * wide, wide, m);
    wrong = info != 0;
  }
  free(a), free(work);
  return wrong;
}

/* sizes: matrices, size, whether the upper triangle is read, whether vectors are wanted. */
int eigh_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], room = 1 + 6 * n + 2 * n * n, whole = 3 + 5 * n;
  const Syevd syevd = (Syevd)given[1];
  REAL *a = malloc((n * n + n + 1) * sizeof(REAL)), *values = a + n * n, *work = malloc(room * sizeof(REAL));
  int *more = malloc(whole * sizeof(int)), wrong = !a || !work || !more;
  for (long c = 0; c < sizes[0] && !wrong; c++) {
    int size = n, real = room, integer = whole, info = 0;
    turned_REAL((const REAL *)given[0] + c * n * n, a, n, n);
    const char *what = sizes[3] ? "V" : "N", *triangle = sizes[2] ? "U" : "L";
    if (n) syevd(what, triangle, &size, a, &size, values, work, &real, more, &integer, &info);
    if (made[0]) memcpy((REAL *)made[0] + c * n, values, n * sizeof(REAL));
    if (made[1] && sizes[3]) turned_REAL(a, (REAL *)made[1] + c * n * n, n, n);
    wrong = info != 0;
  }
  free(a), free(work), free(more);
  return wrong;
}

/* sizes: matrices, rows, columns, how many vectors (0 none, 1 as many as values, 2 all). */
int svd_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long m = sizes[1], n = sizes[2], k = least(m, n), left = sizes[3] == 2 ? m : k, right = sizes[3] == 2 ? n : k;
  const long most = m > n ? m : n, room = 4 * k * k + 7 * k + most + 64 * (most + k) + 4 * k * k;
  const Gesdd gesdd = (Gesdd)given[1];
  REAL *a = malloc((m * n + k + m * left + right * n + 1) * sizeof(REAL));
  REAL *s = a + m * n, *u = s + k, *v = u + m * left;
  REAL *work = malloc((room + 1) * sizeof(REAL));
  int *more = malloc((8 * k + 1) * sizeof(int)), wrong = !a || !work || !more;
  for (long c = 0; c < sizes[0] && !wrong; c++) {
    int rows = m, columns = n, size = room, info = 0, step = right > 1 ? right : 1;
    turned_REAL((const REAL *)given[0] + c * m * n, a, m, n);
    if (k)
      gesdd(sizes[3] == 0 ? "N" : sizes[3] == 1 ? "S" : "A", &rows, &columns, a, &rows, s, u, &rows, v, &step, work,
            &size, more, &info);
    else { /* an empty matrix: any basis */
      for (long i = 0; i < m * left; i++) u[i] = i % (m + 1) == 0;
      for (long i = 0; i < n * right; i++) v[i] = i % (right + 1) == 0;
    }
    if (made[0] && sizes[3]) turned_REAL(u, (REAL *)made[0] + c * m * left, left, m);
    if (made[1]) memcpy((REAL *)made[1] + c * k, s, k * sizeof(REAL));
    if (made[2] && sizes[3]) turned_REAL(v, (REAL *)made[2] + c * right * n, n, right);
    wrong = info != 0;
  }
  free(a), free(work), free(more);
  return wrong;
}

/* sizes: matrices, size, whether failing is an error. */
int ldl_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], room = 64 * (n + 1);
  const Sytrf sytrf = (Sytrf)given[1];
  REAL *a = malloc((n * n + 1) * sizeof(REAL)), *work = malloc(room * sizeof(REAL));
  int *swaps = malloc((n + 1) * sizeof(int)), wrong = !a || !work || !swaps;
  for (long c = 0; c < sizes[0] && !wrong; c++) {
    int size = n, real = room, info = 0;
    turned_REAL((const REAL *)given[0] + c * n * n, a, n, n);
    if (n) sytrf("L", &size, a, &size, swaps, work, &real, &info);
    wrong = info < 0 || (info && sizes[2]);
    REAL *to = (REAL *)made[0] + c * n * n;
    for (long i = 0; made[0] && i < n; i++)
      for (long j = 0; j < n; j++) to[i * n + j] = j > i ? 0 : a[j * n + i];
    if (made[1]) memcpy((int *)made[1] + c * n, swaps, n * sizeof(int));
    if (made[2]) ((int *)made[2])[c] = info;
  }
  free(a), free(work), free(swaps);
  return wrong;
}

typedef void (*Gemm_REAL)(char *, char *, int *, int *, int *, REAL *, const REAL *, int *, const REAL *, int *, REAL *,
                          REAL *, int *);

/* out = a b, for BLAS, whose matrices lie column by column, the product of the transposes. */
static void product_REAL(Gemm_REAL gemm, const REAL *a, const REAL *b, REAL *out, long n) {
  int size = (int)n;
  REAL one = 1, zero = 0;
  if (n) gemm("N", "N", &size, &size, &size, &one, b, &size, a, &size, &zero, out, &size);
}

static double norm_REAL(const REAL *a, long n) { /* the largest sum of a column */
  double norm = 0;
  for (long j = 0; j < n; j++) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += __builtin_fabs(a[i * n + j]);
    norm = sum > norm || sum != sum ? sum : norm;
  }
  return norm;
}

static double log2_of(double x) { /* above, by less than one */
  int e;
  __builtin_frexp(x, &e);
  return x > 0 ? e : -4000;
}

/* How often to halve the matrix 2^size `a`, where `a` has a norm of at most 1: kernels/linalg/exponential.py. */
static long halvings_REAL(Gemm_REAL gemm, const REAL *a, const REAL *a4, const REAL *a6, REAL *spare, long n, long size) {
  double d[3], sums[2], *v = malloc(2 * n * sizeof(double)), *w = v + n;
  if (!v) return -1;
  d[0] = __builtin_pow(norm_REAL(a6, n), 1. / 6);
  product_REAL(gemm, a4, a4, spare, n), d[1] = __builtin_pow(norm_REAL(spare, n), 1. / 8);
  product_REAL(gemm, a4, a6, spare, n), d[2] = __builtin_pow(norm_REAL(spare, n), 1. / 10);
  for (int i = 0; i < 2; i++) sums[i] = d[i] > d[i + 1] ? d[i] : d[i + 1];
  const double reach = sums[0] < sums[1] ? sums[0] : sums[1];
  double count = reach > 0 ? size + __builtin_ceil(__builtin_log2(reach / 4.25)) : 0, top = 0;
  if (count < 0) count = 0;
  for (long i = 0; i < n; i++) v[i] = 1;
  for (int k = 0; k < 27; k++) {
    for (long j = 0; j < n; j++) w[j] = 0;
    for (long i = 0; i < n; i++)
      for (long j = 0; j < n; j++) w[j] += __builtin_fabs(a[i * n + j]) * v[i];
    double *other = v;
    v = w, w = other;
  }
  for (long i = 0; i < n; i++) top = v[i] > top ? v[i] : top;
  const double rest = log2_of(top) - log2_of(norm_REAL(a, n)) + 26 * (size - count);
  const double more = __builtin_ceil((rest - 126.4 + 53) / 26);
  free(v < w ? v : w);
  return (long)(count + (more > 0 ? more : 0));
}

#define EXACT 8 /* halvings by which powers of a matrix may differ without being computed again */

/* The exponential: Pade's approximant of order 13 of A / 2^s, squared s times (Al-Mohy and Higham 2009). sizes: matrices,
   size. */
int exponential_REAL(const long *sizes, const void *const *given, void *const *made) {
  static const double c[14] = {1.,           1. / 2,        3. / 25,          11. / 600,          11. / 5520,
                               3. / 18400,   1. / 96600,    1. / 1932000,     1. / 48944000,      1. / 1585785600,
                               1. / 67395888000, 1. / 3953892096000, 1. / 355850288640000, 1. / 64764752532480000};
  const long n = sizes[1], area = n * n;
  const Gesv gesv = (Gesv)given[1];
  const Gemm_REAL gemm = (Gemm_REAL)given[2];
  REAL *room = malloc((8 * area + 1) * sizeof(REAL));
  int *swaps = malloc((n + 1) * sizeof(int)), wrong = !room || !swaps;
  for (long m = 0; m < sizes[0] && !wrong; m++) {
    const REAL *from = (const REAL *)given[0] + m * area;
    REAL *a = room, *a2 = a + area, *a4 = a2 + area, *a6 = a4 + area, *u = a6 + area, *v = u + area, *w = v + area;
    REAL *out = (REAL *)made[0] + m * area;
    const double norm = norm_REAL(from, n);
    if (norm - norm != 0) { /* infinite numbers, or an empty matrix */
      for (long i = 0; i < area; i++) out[i] = (REAL)__builtin_nan("");
      continue;
    }
    int exponent = 0, size = n, info = 0;
    long squares = 0;
    if (norm > 4.25) { /* so that no power overflows */
      __builtin_frexp(norm, &exponent);
      for (long i = 0; i < area; i++) a[i] = (REAL)__builtin_ldexp(from[i], -exponent);
      product_REAL(gemm, a, a, a2, n), product_REAL(gemm, a2, a2, a4, n), product_REAL(gemm, a4, a2, a6, n);
      squares = halvings_REAL(gemm, a, a4, a6, w, n, exponent);
      if (squares < 0) {
        wrong = 1;
        break;
      }
    }
    for (long i = 0; i < area; i++) a[i] = (REAL)__builtin_ldexp(from[i], (int)-squares);
    const int more = (int)(exponent - squares);
    if (norm > 4.25 && more >= 0 && more <= EXACT) {
      const REAL two = (REAL)__builtin_ldexp(1., 2 * more), four = two * two, six = four * two;
      for (long i = 0; i < area; i++) a2[i] *= two, a4[i] *= four, a6[i] *= six;
    } else
      product_REAL(gemm, a, a, a2, n), product_REAL(gemm, a2, a2, a4, n), product_REAL(gemm, a4, a2, a6, n);
    for (long i = 0; i < area; i++) w[i] = c[13] * a6[i] + c[11] * a4[i] + c[9] * a2[i];
    product_REAL(gemm, a6, w, v, n);
    for (long i = 0; i < area; i++) v[i] += c[7] * a6[i] + c[5] * a4[i] + c[3] * a2[i] + (i % (n + 1) ? 0 : c[1]);
    product_REAL(gemm, a, v, u, n); /* the odd part */
    for (long i = 0; i < area; i++) w[i] = c[12] * a6[i] + c[10] * a4[i] + c[8] * a2[i];
    product_REAL(gemm, a6, w, v, n);
    for (long i = 0; i < area; i++) v[i] += c[6] * a6[i] + c[4] * a4[i] + c[2] * a2[i] + (i % (n + 1) ? 0 : c[0]);
    for (long i = 0; i < n; i++) /* 1 + 2 (V - U)^-1 U, column by column */
      for (long j = 0; j < n; j++) {
        const REAL even = v[i * n + j], odd = u[i * n + j];
        a[j * n + i] = even - odd, w[j * n + i] = 2 * odd;
      }
    if (n) gesv(&size, &size, a, &size, swaps, w, &size, &info);
    wrong = info != 0;
    turned_REAL(w, out, n, n);
    for (long i = 0; i < area; i += n + 1) out[i] += 1;
    for (long s = 0; s < squares; s++) product_REAL(gemm, out, out, w, n), memcpy(out, w, area * sizeof(REAL));
  }
  free(room), free(swaps);
  return wrong;
}

/* The distance of a run of ascending values to those beside it; of all values, to 0. */
static REAL reach_REAL(const REAL *v, long n, long start, long stop) {
  if (start == 0 && stop == n) {
    const REAL middle = size_REAL(v[0] + (v[n - 1] - v[0]) / 2);
    return middle > 0 ? middle : 1;
  }
  const REAL below = start ? v[start] - v[start - 1] : 0, above = stop < n ? v[stop] - v[stop - 1] : 0;
  return !start || (stop < n && above < below) ? above : below;
}

/* Whether there is a cluster in a run of ascending values: clusters.py, _runs. `zeros` singular values next to the 0 in
   front are one. */
static int clustered_REAL(const REAL *v, long n, long start, long stop, REAL top, REAL closeness, long zeros) {
  if (stop - start < 2) return 0;
  const REAL equal = 100 * EPS_REAL * top, reach = reach_REAL(v, n, start, stop);
  REAL small = v[start + 1] - v[start], large = small;
  long widest = start + 1;
  for (long i = start + 2; i < stop; i++) {
    const REAL gap = v[i] - v[i - 1];
    if (gap > large) large = gap, widest = i;
    small = gap < small ? gap : small;
  }
  const REAL wide = closeness * (reach > large ? reach : large), part = closeness * reach / (stop - start - 1);
  if (!(small <= (equal > wide ? equal : wide))) return 0; /* clusters reach no farther */
  const int close = small <= (equal > part ? equal : part) && v[stop - 1] - v[start] <= reach / 2;
  if (close || large <= equal) return !(zeros && start == 0 && stop <= zeros);
  return clustered_REAL(v, n, start, widest, top, closeness, zeros) ||
         clustered_REAL(v, n, widest, stop, top, closeness, zeros);
}

/* Copies of values in order; failing where some are close together. sizes: rows, values in a row, 1 / closeness or 0, how
   many singular values may not be near 0 or 0. */
int distinct_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1], front = sizes[3] > 0;
  const REAL closeness = sizes[2] ? 1 / (REAL)sizes[2] : 0;
  REAL *v = malloc((n + 2) * sizeof(REAL));
  int wrong = !v;
  for (long r = 0; r < sizes[0] && !wrong; r++) {
    const REAL *values = (const REAL *)given[0] + r * n;
    const int falls = n > 1 && values[0] > values[n - 1];
    v[0] = 0;
    for (long i = 0; i < n; i++) v[front + i] = falls ? values[n - 1 - i] : values[i];
    const REAL top = largest_REAL(values, n);
    wrong = top - top == 0 && clustered_REAL(v, n + front, 0, n + front, top, closeness, sizes[3]);
  }
  free(v);
  memcpy(made[0], given[0], sizes[0] * n * sizeof(REAL));
  return wrong;
}

/* Copies of triangular matrices; failing where an element of a diagonal is small beside its column. sizes: matrices,
   rows, columns, 1 / closeness or 0. */
int rank_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long m = sizes[1], n = sizes[2], k = least(m, n);
  const double closeness = sizes[3] ? 1. / sizes[3] : 0, rounding = 10 * k * (double)EPS_REAL;
  const double part = closeness * closeness > rounding ? closeness * closeness : rounding;
  for (long c = 0; c < sizes[0]; c++) {
    const REAL *r = (const REAL *)given[0] + c * m * n;
    for (long j = 0; j < k; j++) {
      REAL top = 0;
      double sum = 0;
      for (long i = 0; i <= j; i++) top = size_REAL(r[i * n + j]) > top ? size_REAL(r[i * n + j]) : top;
      for (long i = 0; i <= j && top > 0; i++) sum += (double)(r[i * n + j] / top) * (double)(r[i * n + j] / top);
      if (!((double)size_REAL(r[j * n + j]) > part * __builtin_sqrt(sum) * (double)top)) return 1;
    }
  }
  memcpy(made[0], given[0], sizes[0] * m * n * sizeof(REAL));
  return 0;
}

/* How many singular values of a row, in descending order, are in a cluster at 0. */
static long at_zero_REAL(const REAL *v, long n, REAL top, REAL closeness) {
  REAL small = top;
  long found = 0;
  for (long m = 1; m <= n; m++) {
    const REAL here = v[n - m], gap = m > 1 ? here - v[n - m + 1] : here;
    small = gap < small ? gap : small;
    const REAL reach = m < n ? v[n - m - 1] - here : here / 2, part = closeness * reach / m, equal = 100 * EPS_REAL * top;
    if (small <= (equal > part ? equal : part) && here <= reach / 8) found = m;
  }
  return found;
}

/* 1 / s, and 0 for those that vanish; failing where values are close to 0, and what they are for is not. sizes: rows,
   values, numbers, 1 / closeness or 0. */
int inverses_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[1];
  const REAL *of = sizes[2] ? given[1] : 0, limit = of ? gauge_REAL(of, sizes[2]) : 0;
  for (long r = 0; r < sizes[0]; r++) {
    const REAL *values = (const REAL *)given[0] + r * n;
    REAL top = 0;
    for (long i = 0; i < n; i++) top = values[i] > top ? values[i] : top;
    const long near = sizes[3] ? at_zero_REAL(values, n, top, 1 / (REAL)sizes[3]) : 0;
    for (long i = 0; i < n; i++) {
      const int zero = values[i] <= 100 * EPS_REAL * top;
      if ((zero || i >= n - near) && (!of || size_REAL(of[r * n + i]) > limit)) return 1;
      ((REAL *)made[0])[r * n + i] = zero ? 0 : 1 / values[i];
    }
  }
  return 0;
}

/* A copy; failing where `turn` does not vanish for equal values. sizes: numbers, rows, values in a row. */
int gauge_of_pairs_REAL(const long *sizes, const void *const *given, void *const *made) {
  const long n = sizes[2];
  const REAL limit = gauge_REAL(given[0], sizes[0]), *turn = given[1];
  for (long r = 0; r < sizes[1]; r++) {
    const REAL *values = (const REAL *)given[2] + r * n, near = equal_REAL(values, n);
    for (long i = 0; i < n; i++)
      for (long j = 0; j < n; j++) {
        const int together = i == j || size_REAL(values[i] - values[j]) <= near;
        if (together && size_REAL(turn[(r * n + i) * n + j]) > limit) return 1;
      }
  }
  memcpy(made[0], given[0], sizes[0] * sizeof(REAL));
  return 0;
}

"""The routines of BLAS and LAPACK that programs call, in plain C: for code that must stand alone.

They take what the libraries' own take (column-major matrices, everything by address), and are as
simple as can be: exported programs are small.
"""

from __future__ import annotations

_GEMM = """static void plain_{r}(char *ta, char *tb, int *m, int *n, int *k, {t} *alpha, {t} *a, int
*lda,
                       {t} *b, int *ldb, {t} *beta, {t} *c, int *ldc) {
  (void)beta;
  for (long j = 0; j < *n; j++) for (long i = 0; i < *m; i++) {
    double total = 0;
    for (long l = 0; l < *k; l++)
      total += (double)(*ta == 'N' ? a[i + l * *lda] : a[l + i * *lda])
             * (*tb == 'N' ? b[l + j * *ldb] : b[j + l * *ldb]);
    c[i + j * *ldc] = *alpha * total;
  }
}
"""

# X op(A) = B from the right, or op(A) X = B from the left, X in the place of B
_TRSM = """static void plain_{r}(char *side, char *uplo, char *trans, char *diag, int *m, int *n,
{t} *alpha,
                       {t} *a, int *lda, {t} *b, int *ldb) {
  const int left = *side == 'L', size = left ? *m : *n, others = left ? *n : *m;
  const int lower = (*uplo == 'L') == (*trans == 'N');
  const int forward = left ? lower : !lower;
  (void)alpha;
  for (long o = 0; o < others; o++) for (long s = 0; s < size; s++) {
    const long i = forward ? s : size - 1 - s;
    double total = left ? b[i + o * *ldb] : b[o + i * *ldb];
    for (long d = 0; d < s; d++) {
      const long j = forward ? d : size - 1 - d;
      const long row = left ? i : j, column = left ? j : i;
      const double x = left ? b[j + o * *ldb] : b[o + j * *ldb];
      total -= x * (*trans == 'N' ? a[row + column * *lda] : a[column + row * *lda]);
    }
    if (*diag != 'U') total /= a[i + i * *lda];
    if (left) b[i + o * *ldb] = total; else b[o + i * *ldb] = total;
  }
}
"""

_POTRF = """static void plain_{r}(char *uplo, int *n, {t} *a, int *lda, int *info) {
  const int lower = *uplo == 'L';
  *info = 0;
  for (long j = 0; j < *n; j++) for (long i = j; i < *n; i++) {
    double total = lower ? a[i + j * *lda] : a[j + i * *lda];
    for (long k = 0; k < j; k++)
      total -= lower ? (double)a[i + k * *lda] * a[j + k * *lda]
                     : (double)a[k + i * *lda] * a[k + j * *lda];
    if (i == j && !(total > 0)) { *info = j + 1; return; }
    const double root = i == j ? sqrt(total) : total / a[j + j * *lda];
    if (lower) a[i + j * *lda] = root; else a[j + i * *lda] = root;
  }
}
"""


def _both(name: str, text: str) -> dict[str, str]:
    return {
        letter + name: text.replace("{r}", letter + name).replace("{t}", c_type)
        for letter, c_type in (("s", "float"), ("d", "double"))
    }


ROUTINES = _both("gemm", _GEMM) | _both("trsm", _TRSM) | _both("potrf", _POTRF)

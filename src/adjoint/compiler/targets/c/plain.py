"""The routines that programs call (products, triangles, convolutions, pooling, attention) in plain
C, for exported code that must stand alone.

They take the same arguments as the originals. They are as simple as possible, since exported
programs are small.
"""

from __future__ import annotations

_PRODUCT = """static int plain_{r}(const long *z, const {t} *a, const {t} *b, const {t} *start,
                       {t} *c) {
  const long *batch = z + 3, *steps = z + 6;
  const long *a_batch = z + 11, *b_batch = z + 14, *c_batch = z + 17;
  for (long p = 0; p < batch[0]; p++) for (long q = 0; q < batch[1]; q++)
  for (long r = 0; r < batch[2]; r++) {
    const {t} *x = a + p * a_batch[0] + q * a_batch[1] + r * a_batch[2];
    const {t} *y = b + p * b_batch[0] + q * b_batch[1] + r * b_batch[2];
    const long place = p * c_batch[0] + q * c_batch[1] + r * c_batch[2];
    for (long i = 0; i < z[0]; i++) for (long j = 0; j < z[1]; j++) {
      const long at = place + i * steps[4] + j;
      double total = start ? start[at] : 0;
      for (long l = 0; l < z[2]; l++)
        total += (double)x[i * steps[0] + l * steps[1]] * y[l * steps[2] + j * steps[3]];
      c[at] = total;
    }
  }
  return 0;
}
"""

# B becomes X with X op(A) = B (right) or op(A) X = B (left)
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

# the maps of a convolution (c_kernels/convolution.c): each weight at each place of the small image
_WINDOWS = """static int plain_{r}({arguments}) {
  const long images = g[0], groups = g[1], a = g[2], b = g[3], *large = g + 4, *small = g + 7;
  const long *kernel = g + 10, *stride = g + 13, *padding = g + 16, *dilation = g + 19;
  const long *large_steps = g + 22, *small_steps = g + 27;
{start}
  for (long n = 0; n < images; n++) for (long group = 0; group < groups; group++)
  for (long to = 0; to < b; to++) for (long from = 0; from < a; from++)
  for (long k0 = 0; k0 < kernel[0]; k0++) for (long k1 = 0; k1 < kernel[1]; k1++)
  for (long k2 = 0; k2 < kernel[2]; k2++)
  for (long o0 = 0; o0 < small[0]; o0++) for (long o1 = 0; o1 < small[1]; o1++)
  for (long o2 = 0; o2 < small[2]; o2++) {
    const long i0 = o0 * stride[0] + k0 * dilation[0] - padding[0];
    const long i1 = o1 * stride[1] + k1 * dilation[1] - padding[1];
    const long i2 = o2 * stride[2] + k2 * dilation[2] - padding[2];
    if (i0 < 0 || i0 >= large[0] || i1 < 0 || i1 >= large[1] || i2 < 0 || i2 >= large[2]) continue;
    const long w = (((group * b + to) * a + from) * kernel[0] + k0) * kernel[1] * kernel[2]
                 + k1 * kernel[2] + k2;
    const long x = n * large_steps[0] + (group * a + from) * large_steps[1] + i0 * large_steps[2]
                 + i1 * large_steps[3] + i2 * large_steps[4];
    const long y = n * small_steps[0] + (group * b + to) * small_steps[1] + o0 * small_steps[2]
                 + o1 * small_steps[3] + o2 * small_steps[4];
    {add}
  }
  return 0;
}
"""
# Each element of an image starts as the bias of its channel, or 0.
_BEGIN = """  for (long n = 0; n < images; n++) for (long c = 0; c < groups * {channels}; c++)
  for (long i0 = 0; i0 < {image}[0]; i0++) for (long i1 = 0; i1 < {image}[1]; i1++)
  for (long i2 = 0; i2 < {image}[2]; i2++)
    out[n * {image}_steps[0] + c * {image}_steps[1] + i0 * {image}_steps[2] + i1 * {image}_steps[3]
        + i2 * {image}_steps[4]] = bias ? bias[c] : 0;"""
_IMAGE = "const long *g, const {t} *in, const {t} *weights, const {t} *bias, {t} *out"


def _windows(arguments: str, start: str, add: str) -> str:
    text = _WINDOWS.replace("{arguments}", arguments)
    return text.replace("{start}", start).replace("{add}", add)


def _begin(image: str, channels: str) -> str:
    return _BEGIN.replace("{image}", image).replace("{channels}", channels)


_CONVOLVE = _windows(_IMAGE, _begin("small", "b"), "out[y] += in[x] * weights[w];")
_SPREAD = _windows(_IMAGE, _begin("large", "a"), "out[x] += in[y] * weights[w];")
_CORRELATE = _windows(
    "const long *g, const {t} *x_, const {t} *y_, {t} *out",
    "  for (long w = 0; w < groups * b * a * kernel[0] * kernel[1] * kernel[2]; w++) out[w] = 0;",
    "out[w] += x_[x] * y_[y];",
)

_MAXIMA = """static int plain_{r}(const long *g, const {t} *in, {t} *out, long long *indices) {
  const long *large = g + 4, *small = g + 7, *kernel = g + 10, *stride = g + 13, *padding = g + 16;
  const long *dilation = g + 19, *from = g + 22, *to = g + 27;
  for (long n = 0; n < g[0]; n++) for (long c = 0; c < g[1]; c++)
  for (long o0 = 0; o0 < small[0]; o0++) for (long o1 = 0; o1 < small[1]; o1++)
  for (long o2 = 0; o2 < small[2]; o2++) {
    {t} best = -HUGE_VAL;
    long where = -1;
    for (long k0 = 0; k0 < kernel[0]; k0++) for (long k1 = 0; k1 < kernel[1]; k1++)
    for (long k2 = 0; k2 < kernel[2]; k2++) {
      const long i0 = o0 * stride[0] + k0 * dilation[0] - padding[0];
      const long i1 = o1 * stride[1] + k1 * dilation[1] - padding[1];
      const long i2 = o2 * stride[2] + k2 * dilation[2] - padding[2];
      if (i0 < 0 || i0 >= large[0] || i1 < 0 || i1 >= large[1]) continue;
      if (i2 < 0 || i2 >= large[2]) continue;
      const {t} x = in[n * from[0] + c * from[1] + i0 * from[2] + i1 * from[3] + i2 * from[4]];
      if (where < 0 || x > best || x != x) {
        best = x;
        where = (i0 * large[1] + i1) * large[2] + i2;
      }
    }
    const long y = n * to[0] + c * to[1] + o0 * to[2] + o1 * to[3] + o2 * to[4];
    out[y] = best;
    if (indices) indices[y] = where;
  }
  return 0;
}
"""
_BACK = """static int plain_{r}(const long *g, const {t} *in, const long long *indices, {t} *out) {
  const long *large = g + 4, *small = g + 7, *to = g + 22, *from = g + 27;
  const long size = large[0] * large[1] * large[2];
  for (long n = 0; n < g[0]; n++) for (long c = 0; c < g[1]; c++) {
    {t} *plane = out + n * to[0] + c * to[1];
    for (long i = 0; i < size; i++) plane[i] = 0;
    for (long o0 = 0; o0 < small[0]; o0++) for (long o1 = 0; o1 < small[1]; o1++)
    for (long o2 = 0; o2 < small[2]; o2++) {
      const long y = n * from[0] + c * from[1] + o0 * from[2] + o1 * from[3] + o2 * from[4];
      if (indices[y] < 0 || indices[y] >= size) return 1;
      plane[indices[y]] += in[y];
    }
  }
  return 0;
}
"""

# the offsets of a batch's matrices; c_kernels/attention.c has the order of the fields
_AT = """  const long *z = s + 3, *steps = s + 7, *along = s + 22;
  const long queries = z[0], keys = z[1], width = z[2], depth = z[3], kind = s[20];
  for (long p = 0; p < s[0]; p++) for (long b = 0; b < s[1]; b++) for (long r = 0; r < s[2]; r++) {
    long at[13];
    for (int n = 0; n < 13; n++)
      at[n] = p * along[3 * n] + b * along[3 * n + 1] + r * along[3 * n + 2];
    for (long i = 0; i < queries; i++) {
      const {t} *q = x->q + at[0] + i * steps[0];
      const long first = x->starts ? x->starts[at[9] + i * steps[10]] : 0;
      const long last = x->ends ? x->ends[at[10] + i * steps[11]] : keys;
      const long from = first < 0 ? 0 : first, to = last > keys ? keys : last;
"""
# the score of query i and key j; -infinity if the pair does not count
_SCORE = """      double score = 0;
      for (long c = 0; c < width; c++)
        score += (double)q[c] * x->k[at[1] + j * steps[1] + c];
      score *= x->scale;
      const long place = at[8] + i * steps[8] + j * steps[9];
      if (kind == 1) score += (({t} *)x->bias)[place];
      if (kind == 2 && !((unsigned char *)x->bias)[place]) score = -HUGE_VAL;
"""
_OPERANDS = """typedef struct {
  const {t} *q, *k, *v;
  const void *bias;
  const long *starts, *ends;
  const void *coins;
  double scale, factor;
} {r}_operands;
"""
_ATTEND = (
    _OPERANDS
    + """static int plain_{r}(const long *s, const void *given, {t} *out, {t} *sums) {
  const {r}_operands *x = given;
"""
    + _AT
    + """      double top = -HUGE_VAL, total = 0;
      {t} *o = out + at[3] + i * steps[3];
      for (long c = 0; c < depth; c++) o[c] = 0;
      for (long j = from; j < to; j++) {
"""
    + _SCORE
    + """        if (score == -HUGE_VAL) continue;
        const double high = score > top ? score : top, shrink = exp(top - high);
        const double weight = exp(score - high);
        total = total * shrink + weight;
        for (long c = 0; c < depth; c++)
          o[c] = o[c] * shrink + weight * x->v[at[2] + j * steps[2] + c];
        top = high;
      }
      for (long c = 0; c < depth; c++) o[c] = total == 0 ? 0 : o[c] / total;
      sums[at[12] + i] = total == 0 ? 0 : top + log(total);
    }
  }
  return 0;
}
"""
)
_ATTEND_BACKWARD = (
    _OPERANDS
    + """static int plain_{r}(const long *s, const void *given, const void *gradients) {
  const {r}_operands *x = given;
  {t} *const *y = gradients;
"""
    + _AT
    + """      const {t} *g = y[0] + at[4] + i * steps[4], *o = y[1] + at[3] + i * steps[3];
      double inner = 0;
      for (long c = 0; c < depth; c++) inner += (double)g[c] * o[c];
      for (long j = from; j < to; j++) {
"""
    + _SCORE
    + """        if (score == -HUGE_VAL) continue;
        const double weight = exp(score - y[2][at[12] + i]);
        double along_value = 0;
        for (long c = 0; c < depth; c++)
          along_value += (double)g[c] * x->v[at[2] + j * steps[2] + c];
        const double slope = weight * (along_value - inner) * x->scale;
        for (long c = 0; c < width && y[3]; c++)
          y[3][at[5] + i * steps[5] + c] += slope * x->k[at[1] + j * steps[1] + c];
        for (long c = 0; c < width && y[4]; c++) y[4][at[6] + j * steps[6] + c] += slope * q[c];
        for (long c = 0; c < depth && y[5]; c++) y[5][at[7] + j * steps[7] + c] += weight * g[c];
      }
    }
  }
  return 0;
}
"""
)


def _both(name: str, text: str) -> dict[str, str]:
    return {
        letter + name: text.replace("{r}", letter + name).replace("{t}", c_type)
        for letter, c_type in (("s", "float"), ("d", "double"))
    }


ROUTINES = (
    _both("product", _PRODUCT)
    | _both("trsm", _TRSM)
    | _both("potrf", _POTRF)
    | _both("convolve", _CONVOLVE)
    | _both("spread", _SPREAD)
    | _both("correlate", _CORRELATE)
    | _both("maxima", _MAXIMA)
    | _both("back", _BACK)
    | _both("attend", _ATTEND)
    | _both("attend_backward", _ATTEND_BACKWARD)
)

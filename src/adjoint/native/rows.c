/* Softmax, layer normalisation, running totals and extremes of rows that lie one after the other, compiled once for each machine.
   A row stays in the cache between its passes, threads share the rows. Sums are in double, of short sums in vectors. */

#pragma omp declare simd notinbranch
extern float expf(float);
#pragma omp declare simd notinbranch
extern double exp(double);
#define exp_float expf
#define exp_double exp

#define WORTH (1L << 15) /* elements from which threads share the rows */
#define SHORT 512        /* elements of a sum in vectors */
#define SIDE 256         /* totals that go on at once */

static long end(long start, long n) { return start + SHORT < n ? start + SHORT : n; }

/* What follows is written once for each REAL: float, double. */

/* sizes: rows, columns, whether the logarithm is wanted. */
int softmax_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long rows = sizes[0], n = sizes[1];
#pragma omp parallel for schedule(static) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) {
    const REAL *from = x + r * n;
    REAL *to = y + r * n, top = from[0];
    int whole = 1; /* no NaN */
#pragma omp simd reduction(max : top) reduction(& : whole)
    for (long i = 0; i < n; i++) top = from[i] > top ? from[i] : top, whole &= from[i] == from[i];
    if (!whole) top = (REAL)__builtin_nan("");
    double total = 0;
    if (sizes[2]) {
#pragma omp simd reduction(+ : total)
      for (long i = 0; i < n; i++) total += exp_REAL(from[i] - top);
      const REAL shift = (REAL)__builtin_log(total);
      for (long i = 0; i < n; i++) to[i] = (from[i] - top) - shift;
    } else {
#pragma omp simd reduction(+ : total)
      for (long i = 0; i < n; i++) total += to[i] = exp_REAL(from[i] - top);
      const REAL scale = (REAL)total;
      for (long i = 0; i < n; i++) to[i] /= scale;
    }
  }
  return 0;
}

/* The gradient of x from that of y, and y. */
int softmax_back_REAL(const long *sizes, const REAL *grad, const REAL *y, REAL *of_x) {
  const long rows = sizes[0], n = sizes[1];
#pragma omp parallel for schedule(static) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) {
    const REAL *g = grad + r * n, *own = y + r * n;
    REAL *to = of_x + r * n;
    double total = 0;
    if (sizes[2]) {
#pragma omp simd reduction(+ : total)
      for (long i = 0; i < n; i++) total += g[i];
      const REAL sum = (REAL)total;
#pragma omp simd
      for (long i = 0; i < n; i++) to[i] = g[i] - exp_REAL(own[i]) * sum;
    } else {
#pragma omp simd reduction(+ : total)
      for (long i = 0; i < n; i++) total += (double)(g[i] * own[i]);
      const REAL sum = (REAL)total;
      for (long i = 0; i < n; i++) to[i] = own[i] * (g[i] - sum);
    }
  }
  return 0;
}

/* y = (x - mean) * rstd * weight + bias; sizes: rows, columns. */
int layer_REAL(const long *sizes, double eps, const REAL *x, const REAL *weight, const REAL *bias, REAL *y, REAL *means,
               REAL *rstds) {
  const long rows = sizes[0], n = sizes[1];
#pragma omp parallel for schedule(static) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) {
    const REAL *from = x + r * n;
    REAL *to = y + r * n;
    double total = 0, square = 0;
    for (long b = 0; b < n; b += SHORT) {
      REAL sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long i = b; i < end(b, n); i++) sum += from[i];
      total += sum;
    }
    const REAL mean = (REAL)(total / (double)n);
    for (long b = 0; b < n; b += SHORT) {
      REAL sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long i = b; i < end(b, n); i++) sum += (from[i] - mean) * (from[i] - mean);
      square += sum;
    }
    const REAL rstd = (REAL)(1 / __builtin_sqrt(square / (double)n + eps));
    for (long i = 0; i < n; i++) to[i] = (from[i] - mean) * rstd;
    if (weight)
      for (long i = 0; i < n; i++) to[i] *= weight[i];
    if (bias)
      for (long i = 0; i < n; i++) to[i] += bias[i];
    means[r] = mean, rstds[r] = rstd;
  }
  return 0;
}

/* The gradient of x: rstd * (h - mean(h) - x̂ mean(h x̂)) with h = grad * weight. */
int layer_back_REAL(const long *sizes, const REAL *grad, const REAL *x, const REAL *weight, const REAL *means,
                    const REAL *rstds, REAL *of_x) {
  const long rows = sizes[0], n = sizes[1];
#pragma omp parallel for schedule(static) if (rows * n > WORTH)
  for (long r = 0; r < rows; r++) {
    const REAL *from = x + r * n, *g = grad + r * n, mean = means[r], rstd = rstds[r];
    REAL *to = of_x + r * n;
    double plain = 0, along = 0;
    if (weight)
      for (long i = 0; i < n; i++) to[i] = g[i] * weight[i];
    else
      for (long i = 0; i < n; i++) to[i] = g[i];
    for (long b = 0; b < n; b += SHORT) {
      REAL one = 0, two = 0;
#pragma omp simd reduction(+ : one, two)
      for (long i = b; i < end(b, n); i++) one += to[i], two += to[i] * (from[i] - mean);
      plain += one, along += two;
    }
    const REAL middle = (REAL)(plain / (double)n), slope = (REAL)(along / (double)n * rstd * rstd);
    for (long i = 0; i < n; i++) to[i] = (to[i] - middle - (from[i] - mean) * slope) * rstd;
  }
  return 0;
}

/* Running totals, or products, along the middle one of three dimensions. sizes: those three, whether products are
   wanted, and whether it begins at the end. */
int running_REAL(const long *sizes, const REAL *x, REAL *y) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], product = sizes[3];
  const long sides = (inner + SIDE - 1) / SIDE, step = sizes[4] ? -inner : inner, start = sizes[4] ? (n - 1) * inner : 0;
#pragma omp parallel for schedule(static) if (outer * n * inner > WORTH)
  for (long p = 0; p < outer * sides; p++) {
    const long first = p % sides * SIDE, wide = inner - first < SIDE ? inner - first : SIDE;
    const REAL *from = x + p / sides * n * inner + first + start;
    REAL *to = y + p / sides * n * inner + first + start;
    if (wide == 1) {
      double total = (double)product;
      for (long i = 0; i < n; i++) to[i * step] = (REAL)(total = product ? total * from[i * step] : total + from[i * step]);
      continue;
    }
    double total[SIDE];
    for (long c = 0; c < wide; c++) total[c] = (double)product;
    for (long i = 0; i < n; i++, from += step, to += step) {
      if (product)
        for (long c = 0; c < wide; c++) to[c] = (REAL)(total[c] *= from[c]);
      else
        for (long c = 0; c < wide; c++) to[c] = (REAL)(total[c] += from[c]);
    }
  }
  return 0;
}

/* Running maxima along the middle one of three dimensions, or minima, and where the latest one stands; NaN wins. sizes:
   those three, and whether minima are wanted. */
int extremes_REAL(const long *sizes, const REAL *x, REAL *y, long *places) {
  const long outer = sizes[0], n = sizes[1], inner = sizes[2], least = sizes[3];
  const long sides = (inner + SIDE - 1) / SIDE;
#pragma omp parallel for schedule(static) if (outer * n * inner > WORTH)
  for (long p = 0; p < outer * sides; p++) {
    const long first = p % sides * SIDE, wide = inner - first < SIDE ? inner - first : SIDE;
    const long start = p / sides * n * inner + first;
    const REAL *from = x + start;
    REAL *to = y + start, best[SIDE];
    long *at = places + start, place[SIDE];
    if (wide == 1) {
      REAL top = from[0];
      long own = 0;
      for (long i = 0; i < n; i++) {
        const REAL v = from[i * inner];
        /* a branch that is rarely taken: a choice would wait for the one before */
        if (__builtin_expect(least ? !(v > top) : !(v < top), 0) && (v == v ? top == top : 1)) top = v, own = i;
        to[i * inner] = top, at[i * inner] = own;
      }
      continue;
    }
    for (long c = 0; c < wide; c++) best[c] = from[c], place[c] = 0;
    for (long i = 0; i < n; i++, from += inner, to += inner, at += inner) {
#pragma omp simd
      for (long c = 0; c < wide; c++) {
        const REAL v = from[c], b = best[c];
        const int ahead = least ? v <= b : v >= b, odd = v != v;
        const int later = ahead | odd;
        to[c] = best[c] = later ? v : b;
        at[c] = place[c] = later ? i : place[c];
      }
    }
  }
  return 0;
}

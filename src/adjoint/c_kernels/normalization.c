/* Normalisation of the channels of a batch, compiled once for each machine. Sums are in double. Elements of one image
   and one channel lie next to each other. */

#define WORTH (1L << 15) /* elements from which threads share the channels */

/* What follows is written once for each REAL: float, double. */

/* 1 / sqrt(mean((x - mean)^2) + eps) of a channel whose squares overflow or underflow: computed after a division by the largest element. */
static __attribute__((noinline)) double careful_rstd(const long *sizes, const REAL *x, double mean, double eps) {
  const long images = sizes[0], places = sizes[2];
  double top = 0, square = 0;
  for (long n = 0; n < images; n++)
    for (long p = 0; p < places; p++) {
      const double away = __builtin_fabs(x[n * sizes[3] + p] - mean);
      top = away > top || away != away ? away : top;
    }
  for (long n = 0; n < images && top > 0; n++)
    for (long p = 0; p < places; p++) {
      const double away = (x[n * sizes[3] + p] - mean) / top;
      square += away * away;
    }
  return 1 / __builtin_hypot(__builtin_sqrt(square / (double)(images * places)) * (top > 0 ? top : 1), __builtin_sqrt(eps));
}

/* y = (x - mean) * rstd * weight + bias with the mean and the variance of each channel. sizes: images, channels,
   places; steps of x from image to image and from channel to channel, then those of y. */
int normalize_REAL(const long *sizes, double eps, const REAL *x, const REAL *weight, const REAL *bias, REAL *y,
                   REAL *means, REAL *rstds, REAL *variances) {
  const long images = sizes[0], channels = sizes[1], places = sizes[2];
  const double count = (double)(images * places);
#pragma omp parallel for num_threads(TEAM) schedule(static) if (images * channels * places > WORTH)
  for (long c = 0; c < channels; c++) {
    double total = 0, square = 0;
    for (long n = 0; n < images; n++) {
      const REAL *from = x + n * sizes[3] + c * sizes[4];
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long p = 0; p < places; p++) sum += from[p];
      total += sum;
    }
    REAL mean = (REAL)(total / count);
    for (long n = 0; n < images; n++) {
      const REAL *from = x + n * sizes[3] + c * sizes[4];
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long p = 0; p < places; p++) {
        double away = from[p] - mean;
        sum += away * away;
      }
      square += sum;
    }
    const double variance = square / count;
    double rstd = 1 / __builtin_sqrt(variance + eps);
    if (!(square < 0x1p+1022) || variance + eps < 0x1p-960) {
      total = 0;
      for (long n = 0; n < images; n++)
        for (long p = 0; p < places; p++) total += x[n * sizes[3] + c * sizes[4] + p] / count;
      mean = (REAL)total, rstd = careful_rstd(sizes, x + c * sizes[4], mean, eps);
    }
    const REAL scale = (REAL)(weight ? rstd * weight[c] : rstd), shift = bias ? bias[c] : 0;
    for (long n = 0; n < images; n++) {
      const REAL *from = x + n * sizes[3] + c * sizes[4];
      REAL *to = y + n * sizes[5] + c * sizes[6];
      for (long p = 0; p < places; p++) to[p] = (from[p] - mean) * scale + shift;
    }
    means[c] = mean, rstds[c] = (REAL)rstd, variances[c] = (REAL)variance;
  }
  return 0;
}

/* The gradients of x, weight and bias; sizes as above, with the steps of the gradient in place of those of y. */
int normalize_back_REAL(const long *sizes, const REAL *grad, const REAL *x, const REAL *weight, const REAL *means,
                        const REAL *rstds, REAL *of_x, REAL *of_weight, REAL *of_bias) {
  const long images = sizes[0], channels = sizes[1], places = sizes[2];
  const double count = (double)(images * places);
#pragma omp parallel for num_threads(TEAM) schedule(static) if (images * channels * places > WORTH)
  for (long c = 0; c < channels; c++) {
    const REAL mean = means[c], rstd = rstds[c];
    double plain = 0, along = 0;
    for (long n = 0; n < images; n++) {
      const REAL *from = x + n * sizes[3] + c * sizes[4], *given = grad + n * sizes[5] + c * sizes[6];
      double one = 0, two = 0;
#pragma omp simd reduction(+ : one, two)
      for (long p = 0; p < places; p++) one += given[p], two += (double)given[p] * (from[p] - mean);
      plain += one, along += two;
    }
    of_bias[c] = (REAL)plain, of_weight[c] = (REAL)(along * rstd);
    const REAL scale = weight ? weight[c] * rstd : rstd;
    const REAL middle = (REAL)(plain / count), slope = (REAL)(along / count * rstd * rstd);
    for (long n = 0; n < images; n++) {
      const REAL *from = x + n * sizes[3] + c * sizes[4], *given = grad + n * sizes[5] + c * sizes[6];
      REAL *to = of_x + (n * channels + c) * places;
      for (long p = 0; p < places; p++) to[p] = (given[p] - middle - (from[p] - mean) * slope) * scale;
    }
  }
  return 0;
}

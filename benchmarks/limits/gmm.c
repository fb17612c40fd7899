/* Log likelihood of a Gaussian mixture (without its constant) and the gradient, points in blocks of W.

   Points lie transposed in a block, so that the innermost loop runs over points and is a vector:
     z_k = Q_k (x - mu_k), Q_k lower triangular with exp(q_k) on its diagonal,
     f = sum_n logsumexp_k(alpha_k + sum(q_k) - |z_k|^2 / 2).
   With w = softmax: alpha_k' = sum w, Q_k' = -sum w z (x - mu)^T, mu_k' = Q_k^T sum w z.
   Z of a block is kept between the two sweeps; Q' and mu' are formed from sums over the block. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#pragma omp declare simd notinbranch
double exp(double);
#pragma omp declare simd notinbranch
double log(double);
#define W 32

/* One block: adds to value, galpha (also the gradient in sum(q)), gQ (K x d x d), gz (K x d). */
static void block(long count, long d, long K, const double *restrict x, const double *restrict weight,
                  const double *restrict means, const double *restrict Q, double *restrict value,
                  double *restrict galpha, double *restrict gQ, double *restrict gz, double *restrict room) {
  double *restrict X = room, *restrict C = X + d * W, *restrict Z = C + K * d * W, *restrict T = Z + K * d * W;
  double top[W], sum[W];
  for (long i = 0; i < d; i++)
    for (long w = 0; w < W; w++) X[i * W + w] = x[(w < count ? w : 0) * d + i];
  for (long w = 0; w < W; w++) top[w] = -INFINITY, sum[w] = 0;
  for (long k = 0; k < K; k++) {
    double *restrict c = C + k * d * W, *restrict z = Z + k * d * W, *restrict t = T + k * W;
    for (long i = 0; i < d; i++)
#pragma omp simd
      for (long w = 0; w < W; w++) c[i * W + w] = X[i * W + w] - means[k * d + i];
    for (long w = 0; w < W; w++) t[w] = 0;
    for (long i = 0; i < d; i++) {
      double a[W] = {0};
      for (long j = 0; j <= i; j++) {
        const double q = Q[(k * d + i) * d + j];
#pragma omp simd
        for (long w = 0; w < W; w++) a[w] += q * c[j * W + w];
      }
#pragma omp simd
      for (long w = 0; w < W; w++) z[i * W + w] = a[w], t[w] += a[w] * a[w];
    }
#pragma omp simd
    for (long w = 0; w < W; w++) t[w] = weight[k] - 0.5 * t[w], top[w] = top[w] > t[w] ? top[w] : t[w];
  }
  for (long k = 0; k < K; k++)
#pragma omp simd
    for (long w = 0; w < W; w++) T[k * W + w] = exp(T[k * W + w] - top[w]), sum[w] += T[k * W + w];
  for (long w = 0; w < count; w++) *value += top[w] + log(sum[w]);
  for (long w = 0; w < W; w++) sum[w] = w < count ? 1 / sum[w] : 0;
  for (long k = 0; k < K; k++) {
    const double *restrict c = C + k * d * W, *restrict z = Z + k * d * W;
    double *restrict t = T + k * W, total = 0;
#pragma omp simd reduction(+ : total)
    for (long w = 0; w < W; w++) t[w] *= sum[w], total += t[w];
    galpha[k] += total;
    for (long i = 0; i < d; i++) {
      double wz[W], all = 0;
#pragma omp simd reduction(+ : all)
      for (long w = 0; w < W; w++) wz[w] = t[w] * z[i * W + w], all += wz[w];
      gz[k * d + i] += all;
      for (long j = 0; j <= i; j++) {
        double dot = 0;
#pragma omp simd reduction(+ : dot)
        for (long w = 0; w < W; w++) dot += wz[w] * c[j * W + w];
        gQ[(k * d + i) * d + j] -= dot;
      }
    }
  }
}

void gmm(long n, long d, long K, const double *alpha, const double *means, const double *icf, const double *x,
         double gamma, double constant, double *value, double *galpha, double *gmeans, double *gicf) {
  const long rest = d * (d - 1) / 2, wide = d + rest, sizeQ = K * d * d, sums = 1 + K + K * d + sizeQ;
  double *Q = calloc(sizeQ + K + sums, sizeof(double)), *weight = Q + sizeQ, *all = weight + K;
  double prior = 0;
  for (long k = 0; k < K; k++) {
    const double *q = icf + k * wide;
    double trace = 0, squares = 0;
    for (long i = 0; i < d; i++) trace += q[i], Q[(k * d + i) * d + i] = exp(q[i]), squares += exp(2 * q[i]);
    for (long j = 0, at = d; j < d; j++)
      for (long i = j + 1; i < d; i++, at++) Q[(k * d + i) * d + j] = q[at], squares += q[at] * q[at];
    weight[k] = alpha[k] + trace;
    prior += 0.5 * gamma * gamma * squares;
  }
#pragma omp parallel if (n * K * d * d > 200000)
  {
    double *mine = calloc(sums, sizeof(double)), *room = malloc((d * W + 2 * K * d * W + K * W) * sizeof(double));
#pragma omp for schedule(static)
    for (long at = 0; at < n; at += W)
      block(n - at < W ? n - at : W, d, K, x + at * d, weight, means, Q, mine, mine + 1, mine + 1 + K + K * d,
            mine + 1 + K, room);
#pragma omp critical
    for (long i = 0; i < sums; i++) all[i] += mine[i];
    free(mine);
    free(room);
  }
  double top = -INFINITY, sum = 0;
  for (long k = 0; k < K; k++) top = top > alpha[k] ? top : alpha[k];
  for (long k = 0; k < K; k++) sum += exp(alpha[k] - top);
  *value = all[0] - n * (top + log(sum)) + prior + constant;
  const double *gz = all + 1 + K, *gQ = gz + K * d;
  for (long k = 0; k < K; k++) {
    galpha[k] = all[1 + k] - n * exp(alpha[k] - top) / sum;
    for (long j = 0; j < d; j++) {
      double total = 0;
      for (long i = j; i < d; i++) total += Q[(k * d + i) * d + j] * gz[k * d + i];
      gmeans[k * d + j] = total;
    }
    const double *q = icf + k * wide;
    double *g = gicf + k * wide;
    for (long i = 0; i < d; i++) {
      const double e = Q[(k * d + i) * d + i];
      g[i] = all[1 + k] + gQ[(k * d + i) * d + i] * e + gamma * gamma * e * e;
    }
    for (long j = 0, at = d; j < d; j++)
      for (long i = j + 1; i < d; i++, at++) g[at] = gQ[(k * d + i) * d + j] + gamma * gamma * q[at];
  }
  free(Q);
}

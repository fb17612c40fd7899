/* Residuals' 2 x 15 Jacobian blocks of bundle adjustment, each observation in one go, by hand in reverse.

   With axis k = r / t, t = |r|, p = X - C:  q = R p = p cos t + (k x p) sin t + k (k.p) (1 - cos t),
   u = q0 / q2, v = q1 / q2, s = u^2 + v^2, L = 1 + k1 s + k2 s^2,  e = w (f L (u, v) + x0 - feature).
   For a cotangent g of q:  p' = R^T g,  t' = g.(-p sin t + (k x p) cos t + k (k.p) sin t),
   k' = sin t (p x g) + (1 - cos t) (g (k.p) + p (k.g)),  r' = (k' - k (k.k')) / t + k t'. */
#include <math.h>
#include <omp.h>

#pragma omp declare simd notinbranch
double sin(double);
#pragma omp declare simd notinbranch
double cos(double);

static void part(long first, long last, const double *restrict cam, const double *restrict X,
                 const double *restrict weight, const double *restrict feature, double *restrict gcam,
                 double *restrict gX, double *restrict gw) {
#pragma omp simd
  for (long n = first; n < last; n++) {
    const double *c = cam + 11 * n, *x = X + 3 * n;
    const double w = weight[n], p0 = x[0] - c[3], p1 = x[1] - c[4], p2 = x[2] - c[5];
    const double t = sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]), inverse = 1 / t;
    const double co = cos(t), si = sin(t), k0 = c[0] * inverse, k1 = c[1] * inverse, k2 = c[2] * inverse;
    const double kp = k0 * p0 + k1 * p1 + k2 * p2, along = kp * (1 - co);
    const double x0 = k1 * p2 - k2 * p1, x1 = k2 * p0 - k0 * p2, x2 = k0 * p1 - k1 * p0;
    const double q0 = p0 * co + x0 * si + k0 * along, q1 = p1 * co + x1 * si + k1 * along;
    const double depth = 1 / (p2 * co + x2 * si + k2 * along), u = q0 * depth, v = q1 * depth;
    const double s = u * u + v * v, f = c[6], L = 1 + s * (c[9] + c[10] * s), dL = c[9] + 2 * c[10] * s;
    const double turn0 = x0 * co + (k0 * kp - p0) * si, turn1 = x1 * co + (k1 * kp - p1) * si,
                 turn2 = x2 * co + (k2 * kp - p2) * si;
#pragma GCC unroll 2
    for (int row = 0; row < 2; row++) {
      const double here = row == 0 ? u : v, gs = 2 * w * here * f * dL;
      const double gu = gs * u + (row == 0 ? w * f * L : 0), gv = gs * v + (row == 1 ? w * f * L : 0);
      const double g0 = gu * depth, g1 = gv * depth, g2 = -(u * gu + v * gv) * depth;
      const double kg = k0 * g0 + k1 * g1 + k2 * g2, rest = 1 - co;
      const double back0 = g0 * co - (k1 * g2 - k2 * g1) * si + k0 * kg * rest;
      const double back1 = g1 * co - (k2 * g0 - k0 * g2) * si + k1 * kg * rest;
      const double back2 = g2 * co - (k0 * g1 - k1 * g0) * si + k2 * kg * rest;
      const double a0 = si * (p1 * g2 - p2 * g1) + rest * (g0 * kp + p0 * kg);
      const double a1 = si * (p2 * g0 - p0 * g2) + rest * (g1 * kp + p1 * kg);
      const double a2 = si * (p0 * g1 - p1 * g0) + rest * (g2 * kp + p2 * kg);
      const double ka = k0 * a0 + k1 * a1 + k2 * a2, gt = g0 * turn0 + g1 * turn1 + g2 * turn2;
      double *o = gcam + 22 * n + 11 * row, *oX = gX + 6 * n + 3 * row;
      o[0] = (a0 - k0 * ka) * inverse + k0 * gt;
      o[1] = (a1 - k1 * ka) * inverse + k1 * gt;
      o[2] = (a2 - k2 * ka) * inverse + k2 * gt;
      o[3] = -back0, o[4] = -back1, o[5] = -back2;
      o[6] = w * here * L;
      o[7] = row == 0 ? w : 0, o[8] = row == 1 ? w : 0;
      o[9] = w * here * f * s, o[10] = w * here * f * s * s;
      oX[0] = back0, oX[1] = back1, oX[2] = back2;
      gw[2 * n + row] = here * f * L + c[7 + row] - feature[2 * n + row];
    }
  }
}

void blocks(long n, const double *cam, const double *X, const double *weight, const double *feature, double *gcam,
            double *gX, double *gw) {
#pragma omp parallel if (n > 4096)
  {
    const long count = omp_get_num_threads(), me = omp_get_thread_num();
    part(n * me / count, n * (me + 1) / count, cam, X, weight, feature, gcam, gX, gw);
  }
}

/* x <- 0.9 tanh(1.1 sin(x) + x), twenty times on ten numbers, the sum and its gradient, by hand: two vectors of eight,
   whose six idle elements compute with 0. */
#include <math.h>
#include <string.h>

#pragma omp declare simd notinbranch
double sin(double);
#pragma omp declare simd notinbranch
double cos(double);
#pragma omp declare simd notinbranch
double tanh(double);

enum { NUMBERS = 10, ROOM = 16, ROUNDS = 20 };

void chain(const double *x, double *value, double *gradient) {
  double now[ROOM] __attribute__((aligned(64))) = {0}, back[ROOM] __attribute__((aligned(64)));
  memcpy(now, x, NUMBERS * sizeof(double));
#pragma omp simd
  for (int i = 0; i < ROOM; i++) {
    double slope = 1, y = now[i];
#pragma GCC unroll 20
    for (int r = 0; r < ROUNDS; r++) {
      const double t = tanh(sin(y) * 1.1 + y);
      slope *= (1 - t * t) * 0.9 * (cos(y) * 1.1 + 1);
      y = t * 0.9;
    }
    now[i] = y, back[i] = slope;
  }
  double total = 0;
  for (int i = 0; i < NUMBERS; i++) total += now[i];
  *value = total;
  memcpy(gradient, back, NUMBERS * sizeof(double));
}

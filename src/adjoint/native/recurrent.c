/* One step of an LSTM, compiled once for each machine: everything but the products of matrices. sizes: sequences, units;
   then steps from sequence to sequence, in the order of the arrays. */

#pragma omp declare simd notinbranch
extern float expf(float);
#pragma omp declare simd notinbranch
extern float tanhf(float);
#pragma omp declare simd notinbranch
extern double exp(double);
#pragma omp declare simd notinbranch
extern double tanh(double);
#define exp_float expf
#define tanh_float tanhf
#define exp_double exp
#define tanh_double tanh
#define WORTH (1L << 13) /* gates from which threads share the sequences */

/* What follows is written once for each REAL: float, double. */

/* gates holds the products with the hidden state, and becomes the activated gates i, f, g, o; x the products with the
   input. cell = f * before + i * g; hidden = o * tanh(cell). */
int lstm_step_REAL(const long *sizes, REAL *gates, const REAL *x, const REAL *before, REAL *cell, REAL *hidden) {
  const long units = sizes[1];
#pragma omp parallel for schedule(static) if (4 * sizes[0] * units > WORTH)
  for (long n = 0; n < sizes[0]; n++) {
    REAL *restrict own = gates + n * sizes[2], *restrict c = cell + n * sizes[5], *restrict h = hidden + n * sizes[6];
    const REAL *restrict given = x + n * sizes[3], *restrict old = before + n * sizes[4];
#pragma omp simd
    for (long u = 0; u < units; u++) {
      REAL i = 1 / (1 + exp_REAL(-(own[u] + given[u])));
      REAL f = 1 / (1 + exp_REAL(-(own[units + u] + given[units + u])));
      REAL g = tanh_REAL(own[2 * units + u] + given[2 * units + u]);
      REAL o = 1 / (1 + exp_REAL(-(own[3 * units + u] + given[3 * units + u])));
      REAL now = f * old[u] + i * g;
      own[u] = i, own[units + u] = f, own[2 * units + u] = g, own[3 * units + u] = o;
      c[u] = now, h[u] = o * tanh_REAL(now);
    }
  }
  return 0;
}

/* From the gradients of hidden state and cell to those of the gates before their activations; that of the cell becomes
   that of the cell before. */
int lstm_step_back_REAL(const long *sizes, const REAL *gates, const REAL *before, const REAL *cell, const REAL *of_hidden,
                        REAL *of_cell, REAL *of_gates) {
  const long units = sizes[1];
#pragma omp parallel for schedule(static) if (4 * sizes[0] * units > WORTH)
  for (long n = 0; n < sizes[0]; n++) {
    const REAL *restrict own = gates + n * sizes[2], *restrict old = before + n * sizes[3];
    const REAL *restrict c = cell + n * sizes[4], *restrict hidden = of_hidden + n * sizes[5];
    REAL *restrict c_bar = of_cell + n * sizes[6], *restrict out = of_gates + n * sizes[7];
#pragma omp simd
    for (long u = 0; u < units; u++) {
      REAL i = own[u], f = own[units + u], g = own[2 * units + u], o = own[3 * units + u], tall = tanh_REAL(c[u]);
      REAL through = c_bar[u] + hidden[u] * o * (1 - tall * tall);
      out[u] = through * g * i * (1 - i);
      out[units + u] = through * old[u] * f * (1 - f);
      out[2 * units + u] = through * i * (1 - g * g);
      out[3 * units + u] = hidden[u] * tall * o * (1 - o);
      c_bar[u] = through * f;
    }
  }
  return 0;
}

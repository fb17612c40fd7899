/* ADBench's LSTM: the mean score of predictions, and its gradient in the weights, by hand.

   Units do not mix, so a step is a loop over them, two vectors of eight long: 14 units and two idle ones.
   With f = s(x w0 + b0), i = s(h w1 + b1), o = s(x w2 + b2), g = tanh(h w3 + b3):
     c' = c f + i g,  h' = o tanh(c'),  y = h' e1 + e2 of the last layer,
     score = sum(gold (y - log(sum(exp(y)) + 2))).
   The way back reads the gates of every step from a tape, and computes no function again. */
#include <math.h>
#include <string.h>

#pragma omp declare simd notinbranch
double exp(double);
#pragma omp declare simd notinbranch
double tanh(double);

enum { UNITS = 14, ROOM = 16, LAYERS = 2, STEPS = 1023 };
typedef double row[ROOM] __attribute__((aligned(64)));
typedef struct { row x, h, c, f, i, o, g, t; } gates;

static gates tape[STEPS][LAYERS];
static row raised[STEPS], predicted[STEPS];

#define EACH _Pragma("omp simd") for (int u = 0; u < ROOM; u++)

static void cell(const row *w, const row *b, gates *now, const row x, row h, row c) {
  EACH {
    now->x[u] = x[u], now->h[u] = h[u], now->c[u] = c[u];
    const double f = 1 / (1 + exp(-(x[u] * w[0][u] + b[0][u])));
    const double i = 1 / (1 + exp(-(h[u] * w[1][u] + b[1][u])));
    const double o = 1 / (1 + exp(-(x[u] * w[2][u] + b[2][u])));
    const double g = tanh(h[u] * w[3][u] + b[3][u]);
    const double after = c[u] * f + i * g, t = tanh(after);
    now->f[u] = f, now->i[u] = i, now->o[u] = o, now->g[u] = g, now->t[u] = t;
    c[u] = after, h[u] = o * t;
  }
}

static void back(const row *w, row *gw, row *gb, const gates *at, row gx, row gh, row gc) {
  EACH {
    const double f = at->f[u], i = at->i[u], o = at->o[u], g = at->g[u], t = at->t[u];
    const double go = gh[u] * t * o * (1 - o), after = gc[u] + gh[u] * o * (1 - t * t);
    const double gf = after * at->c[u] * f * (1 - f), gi = after * g * i * (1 - i), gg = after * i * (1 - g * g);
    gw[0][u] += gf * at->x[u], gb[0][u] += gf;
    gw[1][u] += gi * at->h[u], gb[1][u] += gi;
    gw[2][u] += go * at->x[u], gb[2][u] += go;
    gw[3][u] += gg * at->h[u], gb[3][u] += gg;
    gx[u] = gf * w[0][u] + go * w[2][u];
    gh[u] = gi * w[1][u] + gg * w[3][u];
    gc[u] = after * f;
  }
}

static void spread(const double *from, row *to, int rows) {
  memset(to, 0, rows * sizeof(row));
  for (int r = 0; r < rows; r++) memcpy(to[r], from + r * UNITS, UNITS * sizeof(double));
}

static void gather(row *from, double *to, int rows) {
  for (int r = 0; r < rows; r++) memcpy(to + r * UNITS, from[r], UNITS * sizeof(double));
}

void lstm(const double *weights, const double *around, const double *inputs, const double *wanted,
          const double *start, double *value, double *gradient, double *other) {
  row main[LAYERS * 8], extra[3], state[LAYERS * 2], gmain[LAYERS * 8], gextra[3], gstate[LAYERS * 2];
  double total = 0, rest[STEPS];
  spread(weights, main, LAYERS * 8), spread(around, extra, 3), spread(start, state, LAYERS * 2);
  memset(gmain, 0, sizeof gmain), memset(gextra, 0, sizeof gextra), memset(gstate, 0, sizeof gstate);
  for (int s = 0; s < STEPS; s++) {
    row x = {0};
    for (int u = 0; u < UNITS; u++) x[u] = inputs[s * UNITS + u] * extra[0][u];
    const double *in = x;
    for (int l = 0; l < LAYERS; l++) {
      cell(main + 8 * l, main + 8 * l + 4, &tape[s][l], in, state[2 * l], state[2 * l + 1]);
      in = state[2 * l];
    }
    double sum = 2, gold = 0, score = 0;
    EACH {
      predicted[s][u] = in[u] * extra[1][u] + extra[2][u];
      raised[s][u] = exp(predicted[s][u]);
    }
    for (int u = 0; u < UNITS; u++) {
      const double g = wanted[s * UNITS + u];
      sum += raised[s][u], gold += g, score += g * predicted[s][u];
    }
    total += score - gold * log(sum);
    rest[s] = gold / sum;
  }
  *value = -total / STEPS;
  for (int s = STEPS - 1; s >= 0; s--) {
    row gold = {0}, gx;
    memcpy(gold, wanted + s * UNITS, UNITS * sizeof(double));
    const gates *last = &tape[s][LAYERS - 1];
    EACH {
      const double gy = (rest[s] * raised[s][u] - gold[u]) / STEPS, h = last->o[u] * last->t[u];
      gextra[1][u] += gy * h, gextra[2][u] += gy;
      gx[u] = gy * extra[1][u];
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
      EACH gstate[2 * l][u] += gx[u];
      back(main + 8 * l, gmain + 8 * l, gmain + 8 * l + 4, &tape[s][l], gx, gstate[2 * l], gstate[2 * l + 1]);
    }
    for (int u = 0; u < UNITS; u++) gextra[0][u] += gx[u] * inputs[s * UNITS + u];
  }
  gather(gmain, gradient, LAYERS * 8), gather(gextra, other, 3);
}

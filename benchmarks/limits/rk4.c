/* Lotka-Volterra x' = a x - b x y, y' = d x y - c y with classical Runge-Kutta, and the gradient of
   x^2 + y^2 at the end in (a, b, c, d) and the start. The states are kept; stages are computed again. */

typedef struct { double a, b, c, d; } Rates;
typedef struct { double x, y; } State;

static inline State field(Rates p, State s) {
  return (State){p.a * s.x - p.b * s.x * s.y, p.d * s.x * s.y - p.c * s.y};
}
static inline State ahead(State s, double h, State k) { return (State){s.x + h * k.x, s.y + h * k.y}; }

/* The pullback of `field`: adds to the rates' gradient, returns the state's. */
static inline State pull(Rates p, State s, State g, Rates *gp) {
  const double xy = s.x * s.y;
  gp->a += g.x * s.x;
  gp->b -= g.x * xy;
  gp->c -= g.y * s.y;
  gp->d += g.y * xy;
  return (State){g.x * (p.a - p.b * s.y) + g.y * p.d * s.y, -g.x * p.b * s.x + g.y * (p.d * s.x - p.c)};
}

void rk4(long steps, double h, const double *rates, const double *start, double *value, double *grates,
         double *gstart, double *states) {
  const Rates p = {rates[0], rates[1], rates[2], rates[3]};
  State s = {start[0], start[1]}, *kept = (State *)states;
  for (long i = 0; i < steps; i++) {
    kept[i] = s;
    const State k1 = field(p, s), k2 = field(p, ahead(s, h / 2, k1)), k3 = field(p, ahead(s, h / 2, k2)),
                k4 = field(p, ahead(s, h, k3));
    s.x += h / 6 * (k1.x + 2 * k2.x + 2 * k3.x + k4.x);
    s.y += h / 6 * (k1.y + 2 * k2.y + 2 * k3.y + k4.y);
  }
  *value = s.x * s.x + s.y * s.y;
  State g = {2 * s.x, 2 * s.y};
  Rates gp = {0, 0, 0, 0};
  for (long i = steps - 1; i >= 0; i--) {
    s = kept[i];
    const State k1 = field(p, s), s2 = ahead(s, h / 2, k1), k2 = field(p, s2), s3 = ahead(s, h / 2, k2),
                k3 = field(p, s3), s4 = ahead(s, h, k3);
    const State g4 = pull(p, s4, (State){h / 6 * g.x, h / 6 * g.y}, &gp);
    const State g3 = pull(p, s3, (State){h / 3 * g.x + h * g4.x, h / 3 * g.y + h * g4.y}, &gp);
    const State g2 = pull(p, s2, (State){h / 3 * g.x + h / 2 * g3.x, h / 3 * g.y + h / 2 * g3.y}, &gp);
    const State g1 = pull(p, s, (State){h / 6 * g.x + h / 2 * g2.x, h / 6 * g.y + h / 2 * g2.y}, &gp);
    g.x += g1.x + g2.x + g3.x + g4.x;
    g.y += g1.y + g2.y + g3.y + g4.y;
  }
  grates[0] = gp.a, grates[1] = gp.b, grates[2] = gp.c, grates[3] = gp.d;
  gstart[0] = g.x, gstart[1] = g.y;
}

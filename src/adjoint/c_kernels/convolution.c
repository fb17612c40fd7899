/* Convolutions of one to three dimensions, compiled once for each machine.

   A convolution is one bilinear relation between three arrays, an image `large`, an image `small` and weights w; in
   each group of channels
       small[n, b, o] = sum over a, k of large[n, a, o * stride + k * dilation - padding] * w[b, a, k].
   `convolve` is a convolution, `spread` is a transposed one and the gradient of the large image, `correlate` is the
   gradient of the weights.

   No matrix of windows is made. A piece of the image is copied with its padding, one plane for each remainder of the
   stride; then the elements that one weight meets at neighbouring places are neighbours, at a fixed distance from the
   place: its tap. Places are counted along whole rows of the copy. The results at the ends of rows belong to no place
   and are dropped when rows are copied to where they belong. */

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector */
#define CHANNELS 8   /* channels whose sums are in registers at once */
#elif defined(__AVX__)
#define BYTES 32
#define CHANNELS 4
#else
#define BYTES 16
#define CHANNELS 4
#endif
#define VECTORS 3           /* vectors of places, or taps, combined with them */
#define WIDEST 6         /* vectors of places combined with one channel: enough sums to keep the adders busy */
#define ROOM (1L << 18)  /* bytes of copied image in one piece of work */

/* A piece of work: some depths and rows of one image and one group, with the copied image that they read. */
typedef struct {
  long image, group, start[3], count[3];       /* places: first, and how many */
  long extent[3], plane;                       /* of one copied plane */
} Piece;

/* How work is cut into pieces. */
typedef struct {
  long first[3], places[3], each[3], pieces[3];  /* first place, places, places in a piece, pieces */
  long reach[3], planes, channels, count;        /* rows beyond the places that taps reach, copies, pieces in all */
} Cut;

static long taps_of(const Geometry *g) { return g->kernel[0] * g->kernel[1] * g->kernel[2]; }
static long span(const Geometry *g, int d) { return (g->kernel[d] - 1) * g->dilation[d]; }

static long piece_elements(const Cut *c) {
  long size = c->planes * c->channels;
  for (int d = 0; d < 3; d++) size *= c->each[d] + c->reach[d];
  return size;
}

/* Halve depths, then rows, until a piece fits into the cache and every thread has one. */
static void cut_image(const Geometry *g, Cut *c, long element) {
  long around = g->images * g->groups;
  for (int d = 0; d < 3; d++) c->each[d] = c->places[d], c->pieces[d] = 1;
  for (;;) {
    int fits = piece_elements(c) * element <= ROOM;
    int busy = around * c->pieces[0] * c->pieces[1] >= TEAM;
    int d = c->each[0] > 1 ? 0 : 1;
    if ((fits && busy) || c->each[d] <= (fits ? 4 : 1)) break;
    c->each[d] = (c->each[d] + 1) / 2;
    c->pieces[d] = (c->places[d] + c->each[d] - 1) / c->each[d];
  }
  c->count = around * c->pieces[0] * c->pieces[1];
}

static Piece piece(const Geometry *g, const Cut *c, long number) {
  Piece p;
  long at[3] = {0, 0, 0};
  at[1] = number % c->pieces[1], number /= c->pieces[1];
  at[0] = number % c->pieces[0], number /= c->pieces[0];
  p.group = number % g->groups, p.image = number / g->groups;
  p.plane = 1;
  for (int d = 0; d < 3; d++) {
    p.start[d] = c->first[d] + at[d] * c->each[d];
    p.count[d] = least(c->each[d], c->first[d] + c->places[d] - p.start[d]);
    p.extent[d] = p.count[d] + c->reach[d];
    p.plane *= p.extent[d];
  }
  return p;
}

static Cut cut_small(const Geometry *g, long element) {
  Cut c;
  c.planes = 1, c.channels = g->a;
  for (int d = 0; d < 3; d++) {
    c.first[d] = 0, c.places[d] = g->small[d], c.reach[d] = span(g, d) / g->stride[d];
    c.planes *= least(g->stride[d], span(g, d) + 1);
  }
  cut_image(g, &c, element);
  return c;
}

static Cut cut_large(const Geometry *g, long element) {
  Cut c;
  c.planes = 1, c.channels = g->b;
  for (int d = 0; d < 3; d++) {
    c.first[d] = g->padding[d] / g->stride[d];
    c.places[d] = (g->large[d] - 1 + g->padding[d]) / g->stride[d] + 1 - c.first[d];
    c.reach[d] = span(g, d) / g->stride[d];
  }
  cut_image(g, &c, element);
  return c;
}

/* The distance of each tap from its place in a copy of the large image. */
static void small_taps(const Geometry *g, const Piece *p, long *taps) {
  long planes[3], k[3];
  for (int d = 0; d < 3; d++) planes[d] = least(g->stride[d], span(g, d) + 1);
  for (k[0] = 0; k[0] < g->kernel[0]; k[0]++)
    for (k[1] = 0; k[1] < g->kernel[1]; k[1]++)
      for (k[2] = 0; k[2] < g->kernel[2]; k[2]++) {
        long which = 0, shift = 0;
        for (int d = 0; d < 3; d++) {
          long reach = k[d] * g->dilation[d];
          which = which * planes[d] + reach % g->stride[d];
          shift = shift * p->extent[d] + reach / g->stride[d];
        }
        *taps++ = which * g->a * p->plane + shift;
      }
}

/* The distances of the taps of one remainder in a copy of the small image, and which weights they are. */
static long large_taps(const Geometry *g, const Piece *p, const long *rest, long *taps, long *which) {
  long found = 0, number = 0, k[3];
  for (k[0] = 0; k[0] < g->kernel[0]; k[0]++)
    for (k[1] = 0; k[1] < g->kernel[1]; k[1]++)
      for (k[2] = 0; k[2] < g->kernel[2]; k[2]++, number++) {
        long shift = 0;
        int meets = 1;
        for (int d = 0; d < 3; d++) {
          long reach = k[d] * g->dilation[d];
          meets &= reach % g->stride[d] == rest[d];
          shift = shift * p->extent[d] + span(g, d) / g->stride[d] - reach / g->stride[d];
        }
        if (meets) taps[found] = shift, which[found++] = number;
      }
  return found;
}
/* What follows is written once for each REAL: float, double. */
typedef REAL vector_REAL __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
#define LANES_REAL ((long)(BYTES / sizeof(REAL)))

static REAL *space_REAL(long elements) {
  return aligned_alloc(64, (size_t)up((elements + 4 * VECTORS * LANES_REAL) * (long)sizeof(REAL), 64));
}

/* Copy elements first, first + stride, ... of a row of `size` elements; zeros beyond its ends. */
static void copy_row_REAL(REAL *to, long count, const REAL *from, long step, long size, long first, long stride) {
  long low = first < 0 ? (-first + stride - 1) / stride : 0;
  long high = size > first ? (size - first + stride - 1) / stride : 0;
  low = least(low, count), high = most(low, least(high, count));
  for (long k = 0; k < low; k++) to[k] = 0;
  if (step * stride == 1) memcpy(to + low, from + first + low, (size_t)(high - low) * sizeof(REAL));
  else
    for (long k = low; k < high; k++) to[k] = from[(first + k * stride) * step];
  for (long k = high; k < count; k++) to[k] = 0;
}

/* Copy one plane: elements first + place * stride in every dimension. */
static void copy_plane_REAL(REAL *to, const Piece *p, const REAL *from, const long *steps, const long *sizes,
                            const long *first, const long *stride) {
  for (long d = 0; d < p->extent[0]; d++)
    for (long h = 0; h < p->extent[1]; h++, to += p->extent[2]) {
      long at = first[0] + d * stride[0], row = first[1] + h * stride[1];
      if (at < 0 || at >= sizes[0] || row < 0 || row >= sizes[1]) memset(to, 0, (size_t)p->extent[2] * sizeof(REAL));
      else
        copy_row_REAL(to, p->extent[2], from + at * steps[2] + row * steps[3], steps[4], sizes[2], first[2],
                      stride[2]);
    }
}

static void copy_large_REAL(const Geometry *g, const Piece *p, const REAL *large, REAL *to) {
  long rest[3], first[3], planes[3];
  for (int d = 0; d < 3; d++) planes[d] = least(g->stride[d], span(g, d) + 1);
  large += p->image * g->large_steps[0] + p->group * g->a * g->large_steps[1];
  for (rest[0] = 0; rest[0] < planes[0]; rest[0]++)
    for (rest[1] = 0; rest[1] < planes[1]; rest[1]++)
      for (rest[2] = 0; rest[2] < planes[2]; rest[2]++) {
        for (int d = 0; d < 3; d++) first[d] = p->start[d] * g->stride[d] + rest[d] - g->padding[d];
        for (long a = 0; a < g->a; a++, to += p->plane)
          copy_plane_REAL(to, p, large + a * g->large_steps[1], g->large_steps, g->large, first, g->stride);
      }
}

static void copy_small_REAL(const Geometry *g, const Piece *p, const REAL *small, REAL *to) {
  long first[3], stride[3] = {1, 1, 1};
  for (int d = 0; d < 3; d++) first[d] = p->start[d] - span(g, d) / g->stride[d];
  small += p->image * g->small_steps[0] + p->group * g->b * g->small_steps[1];
  for (long b = 0; b < g->b; b++, to += p->plane)
    copy_plane_REAL(to, p, small + b * g->small_steps[1], g->small_steps, g->small, first, stride);
}

/* Sums of `rows` channels at `wide` vectors of places, over all channels and taps. */
static inline __attribute__((always_inline)) void sums_REAL(
    const int rows, const int wide, const REAL *image, long channels, long plane, const long *taps, long count,
    const REAL *weights, REAL *out, long out_step) {
  vector_REAL sum[CHANNELS][WIDEST];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) sum[r][v] = (vector_REAL){0};
  for (long c = 0; c < channels; c++, image += plane)
    for (long t = 0; t < count; t++, weights += rows) {
      vector_REAL here[WIDEST];
#pragma GCC unroll 8
      for (int v = 0; v < wide; v++) here[v] = *(const vector_REAL *)(image + taps[t] + v * LANES_REAL);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) sum[r][v] += here[v] * weights[r];
    }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) *(vector_REAL *)(out + r * out_step + v * LANES_REAL) = sum[r][v];
}

#define SUMS_REAL(rows, wide)                                                                                        \
  static __attribute__((noinline)) void sums_##rows##_##wide##_REAL(                                                 \
      const REAL *image, long channels, long plane, const long *taps, long count, const REAL *weights, REAL *out,    \
      long out_step) {                                                                                               \
    sums_REAL(rows, wide, image, channels, plane, taps, count, weights, out, out_step);                              \
  }
SUMS_REAL(1, 1) SUMS_REAL(1, 2) SUMS_REAL(1, 3) SUMS_REAL(1, 6) SUMS_REAL(2, 1) SUMS_REAL(2, 2) SUMS_REAL(2, 3)
SUMS_REAL(4, 1) SUMS_REAL(4, 2) SUMS_REAL(4, 3)
#if CHANNELS == 8
SUMS_REAL(8, 1) SUMS_REAL(8, 2) SUMS_REAL(8, 3)
#endif
typedef void (*Sums_REAL)(const REAL *, long, long, const long *, long, const REAL *, REAL *, long);
static const Sums_REAL sums_table_REAL[][VECTORS] = {
    {sums_1_1_REAL, sums_1_2_REAL, sums_1_3_REAL}, {sums_2_1_REAL, sums_2_2_REAL, sums_2_3_REAL},
    {sums_4_1_REAL, sums_4_2_REAL, sums_4_3_REAL},
#if CHANNELS == 8
    {sums_8_1_REAL, sums_8_2_REAL, sums_8_3_REAL},
#endif
};

/* Channels come in groups of CHANNELS, the rest in smaller powers of two; return how many, and which kernel. */
#ifndef TAKEN
#define TAKEN
static long taken(long left, int *which) {
  int log = CHANNELS == 8 ? 3 : 2;
  while ((1L << log) > left) log--;
  *which = log;
  return 1L << log;
}
#endif

/* All places of one depth: out[row][place], for `rows` channels. */
static void combine_along_REAL(int which, const REAL *image, long channels, long plane, const long *taps, long count,
                       const REAL *weights, REAL *out, long out_step, long places) {
  long at = 0;
  for (; which == 0 && at + WIDEST * LANES_REAL <= places; at += WIDEST * LANES_REAL)
    sums_1_6_REAL(image + at, channels, plane, taps, count, weights, out + at, out_step);
  for (; at < places; at += VECTORS * LANES_REAL) {
    long vectors = least(VECTORS, (places - at + LANES_REAL - 1) / LANES_REAL);
    sums_table_REAL[which][vectors - 1](image + at, channels, plane, taps, count, weights, out + at, out_step);
  }
}

/* Weights in the order in which `sums` meets them: blocks of output channels, input channels, taps, rows.
   An element of output channel o, input channel c and tap k lies at o * outer + c * inner + k. */
static void pack_REAL(REAL *to, const REAL *weights, long outputs, long outer, long inputs, long inner,
                      const long *which_taps, long count) {
  for (long o = 0; o < outputs;) {
    int which;
    long rows = taken(outputs - o, &which);
    for (long c = 0; c < inputs; c++)
      for (long t = 0; t < count; t++)
        for (long r = 0; r < rows; r++)
          *to++ = weights[(o + r) * outer + c * inner + (which_taps ? which_taps[t] : t)];
    o += rows;
  }
}

KERNEL int convolve_REAL(const Geometry *g, const REAL *large, const REAL *weights, const REAL *bias, REAL *small) {
  long taps_count = taps_of(g), per_group = g->b * g->a * taps_count;
  Cut c = cut_small(g, sizeof(REAL));
  long widest = up((c.each[1] - 1) * (c.each[2] + c.reach[2]) + c.each[2], LANES_REAL) + VECTORS * LANES_REAL;
  REAL *packed = space_REAL(g->groups * per_group);
  int failed = packed == NULL;
  if (failed) return 1;
  for (long n = 0; n < g->groups; n++)
    pack_REAL(packed + n * per_group, weights + n * per_group, g->b, g->a * taps_count, g->a, taps_count, NULL,
              taps_count);
#pragma omp parallel num_threads(TEAM) if (c.count > 1)
  {
    REAL *image = space_REAL(piece_elements(&c)), *out = space_REAL(CHANNELS * widest);
    long *taps = malloc((size_t)taps_count * sizeof(long));
    if (!image || !out || !taps) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(static)
    for (long number = 0; number < c.count; number++) {
      if (!image || !out || !taps) continue;
      Piece p = piece(g, &c, number);
      copy_large_REAL(g, &p, large, image);
      small_taps(g, &p, taps);
      long row = p.extent[2], places = (p.count[1] - 1) * row + p.count[2];
      const REAL *panel = packed + p.group * per_group;
      for (long b = 0; b < g->b;) {
        int which;
        long rows = taken(g->b - b, &which);
        for (long d = 0; d < p.count[0]; d++) {
          combine_along_REAL(which, image + d * p.extent[1] * row, g->a, p.plane, taps, taps_count, panel, out, widest,
                     places);
          for (long r = 0; r < rows; r++) {
            long channel = p.group * g->b + b + r;
            REAL more = bias ? bias[channel] : 0;
            for (long h = 0; h < p.count[1]; h++) {
              const REAL *from = out + r * widest + h * row;
              REAL *to = small + p.image * g->small_steps[0] + channel * g->small_steps[1] +
                         (p.start[0] + d) * g->small_steps[2] + (p.start[1] + h) * g->small_steps[3];
              long step = g->small_steps[4];
              if (step == 1)
                for (long w = 0; w < p.count[2]; w++) to[w] = from[w] + more;
              else
                for (long w = 0; w < p.count[2]; w++) to[w * step] = from[w] + more;
            }
          }
        }
        b += rows, panel += rows * g->a * taps_count;
      }
    }
    free(image), free(out), free(taps);
  }
  free(packed);
  return failed;
}

KERNEL int spread_REAL(const Geometry *g, const REAL *small, const REAL *weights, const REAL *bias, REAL *large) {
  long taps_count = taps_of(g), per_group = g->b * g->a * taps_count;
  Cut c = cut_large(g, sizeof(REAL));
  long widest = up((c.each[1] - 1) * (c.each[2] + c.reach[2]) + c.each[2], LANES_REAL) + VECTORS * LANES_REAL;
  REAL *packed = space_REAL(g->groups * per_group);
  long *spare = malloc((size_t)(2 * taps_count) * sizeof(long));
  int failed = packed == NULL || spare == NULL;
  if (failed) { free(packed), free(spare); return 1; }
  long rest[3];
  Piece any = piece(g, &c, 0);
  for (long n = 0; n < g->groups; n++) {
    REAL *to = packed + n * per_group;
    for (rest[0] = 0; rest[0] < g->stride[0]; rest[0]++)
      for (rest[1] = 0; rest[1] < g->stride[1]; rest[1]++)
        for (rest[2] = 0; rest[2] < g->stride[2]; rest[2]++) {
          long count = large_taps(g, &any, rest, spare, spare + taps_count);
          pack_REAL(to, weights + n * per_group, g->a, taps_count, g->b, g->a * taps_count, spare + taps_count,
                    count);
          to += g->a * g->b * count;
        }
  }
  free(spare);
#pragma omp parallel num_threads(TEAM) if (c.count > 1) private(rest)
  {
    REAL *image = space_REAL(piece_elements(&c)), *out = space_REAL(CHANNELS * widest);
    long *taps = malloc((size_t)(2 * taps_count) * sizeof(long));
    if (!image || !out || !taps) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(static)
    for (long number = 0; number < c.count; number++) {
      if (!image || !out || !taps) continue;
      Piece p = piece(g, &c, number);
      copy_small_REAL(g, &p, small, image);
      long row = p.extent[2], places = (p.count[1] - 1) * row + p.count[2];
      const REAL *panel = packed + p.group * per_group;
      for (rest[0] = 0; rest[0] < g->stride[0]; rest[0]++)
        for (rest[1] = 0; rest[1] < g->stride[1]; rest[1]++)
          for (rest[2] = 0; rest[2] < g->stride[2]; rest[2]++) {
            long count = large_taps(g, &p, rest, taps, taps + taps_count);
            long first = p.start[2] * g->stride[2] + rest[2] - g->padding[2], stride = g->stride[2];
            long low = first < 0 ? (-first + stride - 1) / stride : 0;
            long high = g->large[2] > first ? least(p.count[2], (g->large[2] - first + stride - 1) / stride) : 0;
            for (long a = 0; a < g->a;) {
              int which;
              long rows = taken(g->a - a, &which);
              for (long d = 0; d < p.count[0]; d++) {
                long depth = (p.start[0] + d) * g->stride[0] + rest[0] - g->padding[0];
                if (depth < 0 || depth >= g->large[0]) continue;
                combine_along_REAL(which, image + d * p.extent[1] * row, g->b, p.plane, taps, count, panel, out, widest,
                           places);
                for (long r = 0; r < rows; r++) {
                  long channel = p.group * g->a + a + r;
                  REAL more = bias ? bias[channel] : 0;
                  for (long h = 0; h < p.count[1]; h++) {
                    long line = (p.start[1] + h) * g->stride[1] + rest[1] - g->padding[1];
                    if (line < 0 || line >= g->large[1]) continue;
                    const REAL *from = out + r * widest + h * row;
                    REAL *to = large + p.image * g->large_steps[0] + channel * g->large_steps[1] +
                               depth * g->large_steps[2] + line * g->large_steps[3];
                    long step = g->large_steps[4];
                    if (step * stride == 1)
                      for (long w = low; w < high; w++) to[first + w] = from[w] + more;
                    else
                      for (long w = low; w < high; w++) to[(first + w * stride) * step] = from[w] + more;
                  }
                }
              }
              a += rows, panel += rows * g->b * count;
            }
          }
    }
    free(image), free(out), free(taps);
  }
  free(packed);
  return failed;
}

/* sums[r][t] += the products of row r and the image at tap t, at all places that the mask keeps. */
static inline __attribute__((always_inline)) void products_REAL(
    const int rows, const int wide, const REAL *left, long left_step, const REAL *image, const long *taps,
    const REAL *mask, long places, REAL *sums, long sums_step) {
  typedef long long whole __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
  vector_REAL sum[CHANNELS][WIDEST];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int t = 0; t < wide; t++) sum[r][t] = (vector_REAL){0};
  for (long at = 0; at < places; at += LANES_REAL) {
    whole kept = *(const whole *)(mask + at);
    vector_REAL here[WIDEST];
#pragma GCC unroll 8
    for (int t = 0; t < wide; t++) here[t] = (vector_REAL)(*(const whole *)(image + taps[t] + at) & kept);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      vector_REAL mine = *(const vector_REAL *)(left + r * left_step + at);
#pragma GCC unroll 8
      for (int t = 0; t < wide; t++) sum[r][t] += here[t] * mine;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int t = 0; t < wide; t++) {
      REAL total = 0;
      for (int l = 0; l < LANES_REAL; l++) total += sum[r][t][l];
      sums[r * sums_step + t] += total;
    }
}

#define PRODUCTS_REAL(rows, wide)                                                                                    \
  static __attribute__((noinline)) void products_##rows##_##wide##_REAL(                                             \
      const REAL *left, long left_step, const REAL *image, const long *taps, const REAL *mask, long places,          \
      REAL *sums, long sums_step) {                                                                                  \
    products_REAL(rows, wide, left, left_step, image, taps, mask, places, sums, sums_step);                          \
  }
PRODUCTS_REAL(1, 1) PRODUCTS_REAL(1, 2) PRODUCTS_REAL(1, 3) PRODUCTS_REAL(1, 6) PRODUCTS_REAL(2, 1) PRODUCTS_REAL(2, 2)
PRODUCTS_REAL(2, 3) PRODUCTS_REAL(4, 1) PRODUCTS_REAL(4, 2) PRODUCTS_REAL(4, 3)
#if CHANNELS == 8
PRODUCTS_REAL(8, 1) PRODUCTS_REAL(8, 2) PRODUCTS_REAL(8, 3)
#endif
typedef void (*Products_REAL)(const REAL *, long, const REAL *, const long *, const REAL *, long, REAL *, long);
static const Products_REAL products_table_REAL[][VECTORS] = {
    {products_1_1_REAL, products_1_2_REAL, products_1_3_REAL},
    {products_2_1_REAL, products_2_2_REAL, products_2_3_REAL},
    {products_4_1_REAL, products_4_2_REAL, products_4_3_REAL},
#if CHANNELS == 8
    {products_8_1_REAL, products_8_2_REAL, products_8_3_REAL},
#endif
};

/* A piece of the small image in rows as long as those of the copied large one, zeros at their ends. */
static void copy_rows_REAL(const Geometry *g, const Piece *p, const REAL *small, REAL *to, long places) {
  long row = p->extent[2];
  small += p->image * g->small_steps[0] + p->group * g->b * g->small_steps[1];
  for (long b = 0; b < g->b; b++)
    for (long d = 0; d < p->count[0]; d++, to += places) {
      memset(to, 0, (size_t)places * sizeof(REAL));
      for (long h = 0; h < p->count[1]; h++)
        copy_row_REAL(to + h * row, p->count[2],
                      small + b * g->small_steps[1] + (p->start[0] + d) * g->small_steps[2] +
                          (p->start[1] + h) * g->small_steps[3],
                      g->small_steps[4], p->count[2], 0, 1);
    }
}

/* The same sums where there are many rows: vectors of rows, so that no lane is added to another.
   sums[t][row] += the products of left[place][row] and the image at tap t, at all places. */
static inline __attribute__((always_inline)) void outer_REAL(
    const int taps_count, const int wide, const REAL *left, long left_step, const REAL *image, const long *taps,
    const long *count, const long *extent, REAL *sums, long sums_step) {
  vector_REAL sum[CHANNELS][VECTORS];
#pragma GCC unroll 8
  for (int t = 0; t < taps_count; t++)
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) sum[t][v] = *(const vector_REAL *)(sums + t * sums_step + v * LANES_REAL);
  const REAL *met[CHANNELS];
#pragma GCC unroll 8
  for (int t = 0; t < taps_count; t++) met[t] = image + taps[t];
  for (long d = 0; d < count[0]; d++)
    for (long h = 0; h < count[1]; h++) {
      long row = (d * extent[1] + h) * extent[2];
      for (long w = 0; w < count[2]; w++, left += left_step) {
        vector_REAL here[VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) here[v] = *(const vector_REAL *)(left + v * LANES_REAL);
#pragma GCC unroll 8
        for (int t = 0; t < taps_count; t++)
#pragma GCC unroll 8
          for (int v = 0; v < wide; v++) sum[t][v] += here[v] * met[t][row + w];
      }
    }
#pragma GCC unroll 8
  for (int t = 0; t < taps_count; t++)
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) *(vector_REAL *)(sums + t * sums_step + v * LANES_REAL) = sum[t][v];
}

#define OUTER_REAL(taps_count, wide)                                                                                 \
  static __attribute__((noinline)) void outer_##taps_count##_##wide##_REAL(                                          \
      const REAL *left, long left_step, const REAL *image, const long *taps, const long *count, const long *extent,  \
      REAL *sums, long sums_step) {                                                                                  \
    outer_REAL(taps_count, wide, left, left_step, image, taps, count, extent, sums, sums_step);                      \
  }
OUTER_REAL(1, 1) OUTER_REAL(1, 2) OUTER_REAL(1, 3) OUTER_REAL(2, 1) OUTER_REAL(2, 2) OUTER_REAL(2, 3)
OUTER_REAL(4, 1) OUTER_REAL(4, 2) OUTER_REAL(4, 3)
#if CHANNELS == 8
OUTER_REAL(8, 1) OUTER_REAL(8, 2) OUTER_REAL(8, 3)
#endif
typedef void (*Outer_REAL)(const REAL *, long, const REAL *, const long *, const long *, const long *, REAL *, long);
static const Outer_REAL outer_table_REAL[][VECTORS] = {
    {outer_1_1_REAL, outer_1_2_REAL, outer_1_3_REAL}, {outer_2_1_REAL, outer_2_2_REAL, outer_2_3_REAL},
    {outer_4_1_REAL, outer_4_2_REAL, outer_4_3_REAL},
#if CHANNELS == 8
    {outer_8_1_REAL, outer_8_2_REAL, outer_8_3_REAL},
#endif
};

/* A piece of the small image, channels last, `step` elements from place to place. */
static void copy_channels_last_REAL(const Geometry *g, const Piece *p, const REAL *small, REAL *to, long step) {
  small += p->image * g->small_steps[0] + p->group * g->b * g->small_steps[1];
  for (long d = 0; d < p->count[0]; d++)
    for (long h = 0; h < p->count[1]; h++, to += p->count[2] * step)
      for (long first = 0; first < g->b; first += 16) {
        const REAL *from = small + (p->start[0] + d) * g->small_steps[2] + (p->start[1] + h) * g->small_steps[3];
        for (long w = 0; w < p->count[2]; w++)
          for (long b = first; b < least(first + 16, g->b); b++)
            to[w * step + b] = from[w * g->small_steps[4] + b * g->small_steps[1]];
      }
}

static void weigh_many_REAL(const Geometry *g, const Piece *p, const REAL *small, REAL *rows, long step,
                            const REAL *image, const long *taps, long columns, REAL *share) {
  copy_channels_last_REAL(g, p, small, rows, step);
  for (long b = 0; b < step; b += VECTORS * LANES_REAL)
    for (long k = 0; k < columns;) {
      int which;
      long some = taken(columns - k, &which), vectors = least(VECTORS, (step - b) / LANES_REAL);
      outer_table_REAL[which][vectors - 1](rows + b, step, image, taps + k, p->count, p->extent, share + k * step + b,
                                           step);
      k += some;
    }
}

/* A mask with ones at places, zeros at the ends of rows. */
static void keep_places_REAL(const Piece *p, REAL *mask) {
  long row = p->extent[2], places = up((p->count[1] - 1) * row + p->count[2], LANES_REAL);
  memset(mask, 0, (size_t)places * sizeof(REAL));
  for (long h = 0; h < p->count[1]; h++) memset(mask + h * row, -1, (size_t)p->count[2] * sizeof(REAL));
}

static void weigh_few_REAL(const Geometry *g, const Piece *p, const REAL *small, REAL *rows, const REAL *mask,
                           const REAL *image, const long *taps, long columns, REAL *share) {
  long row = p->extent[2], places = up((p->count[1] - 1) * row + p->count[2], LANES_REAL);
  copy_rows_REAL(g, p, small, rows, places);
  for (long b = 0; b < g->b;) {
    int which;
    long some = taken(g->b - b, &which);
    for (long k = 0, met; k < columns; k += met) {
      met = which == 0 && k + WIDEST <= columns ? WIDEST : least(VECTORS, columns - k);
      Products_REAL run = met == WIDEST ? products_1_6_REAL : products_table_REAL[which][met - 1];
      for (long d = 0; d < p->count[0]; d++)
        run(rows + (b * p->count[0] + d) * places, p->count[0] * places, image + d * p->extent[1] * row, taps + k, mask,
            places, share + b * columns + k, columns);
    }
    b += some;
  }
}

KERNEL int correlate_REAL(const Geometry *g, const REAL *large, const REAL *small, REAL *weights) {
  long taps_count = taps_of(g), columns = g->a * taps_count;
  /* Vectors of channels, if there are enough for them; else vectors of places. */
  int many = g->b >= 2 * LANES_REAL || (g->b >= LANES_REAL && g->small[1] * g->small[2] < 256);
  long step = many ? up(g->b, LANES_REAL) : g->b, group = step * columns, all = g->groups * group;
  Cut c = cut_small(g, sizeof(REAL));
  long widest = up((c.each[1] - 1) * (c.each[2] + c.reach[2]) + c.each[2], LANES_REAL);
  int threads = c.count > 1 ? TEAM : 1, failed = 0;
  REAL *shares = space_REAL(threads * all);
  if (!shares) return 1;
  memset(shares, 0, (size_t)(threads * all) * sizeof(REAL));
#pragma omp parallel num_threads(threads)
  {
    REAL *image = space_REAL(piece_elements(&c)), *rows = space_REAL(step * c.each[0] * widest);
    REAL *mask = space_REAL(widest), *share = shares + omp_get_thread_num() * all;
    long *taps = malloc((size_t)(columns + taps_count) * sizeof(long));
    long masked = -1; /* rows of the piece that the mask is for; all rows are as long */
    int ready = image && rows && mask && taps;
    if (!ready) {
#pragma omp atomic write
      failed = 1;
    } else if (many)
      memset(rows, 0, (size_t)(step * c.each[0] * widest) * sizeof(REAL));
#pragma omp for schedule(static)
    for (long number = 0; number < c.count; number++) {
      if (!ready) continue;
      Piece p = piece(g, &c, number);
      copy_large_REAL(g, &p, large, image);
      small_taps(g, &p, taps + columns);
      for (long k = 0; k < columns; k++) taps[k] = k / taps_count * p.plane + taps[columns + k % taps_count];
      if (many) weigh_many_REAL(g, &p, small, rows, step, image, taps, columns, share + p.group * group);
      else {
        if (p.count[1] != masked) keep_places_REAL(&p, mask), masked = p.count[1];
        weigh_few_REAL(g, &p, small, rows, mask, image, taps, columns, share + p.group * group);
      }
    }
    free(image), free(rows), free(taps), free(mask);
  }
  for (int n = 1; n < threads; n++)
    for (long k = 0; k < all; k++) shares[k] += shares[n * all + k];
  for (long n = 0; n < g->groups; n++)
    for (long b = 0; b < g->b; b++)
      for (long k = 0; k < columns; k++)
        weights[(n * g->b + b) * columns + k] = shares[n * group + (many ? k * step + b : b * columns + k)];
  free(shares);
  return failed;
}

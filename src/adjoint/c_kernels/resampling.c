/* Sampling at places, compiled once for each machine. Each place has some taps: the number of an element of a plane (or
   volume) and a weight. The number behind the last stands for zeros outside: planes are copied to a room with one
   element more, so that no place asks. Taps lie one after the other: those of all places for the first tap, then for
   the second. sizes: images, channels, elements of a plane, places of an image, taps. 1 is returned without memory. */

#define WORTH (1L << 15) /* products from which threads share the planes */
#define UNPACK(sizes) \
  const long images = sizes[0], channels = sizes[1], size = sizes[2], places = sizes[3], taps = sizes[4]; \
  const int many = images * channels * places * taps > WORTH; \
  int failed = 0

/* What follows is written once for each REAL: float, double. */

/* y = the sum over the taps of weight * x there. */
int sample_REAL(const long *sizes, const int *indices, const REAL *weights, const REAL *x, REAL *y) {
  UNPACK(sizes);
#pragma omp parallel num_threads(TEAM) if (many) reduction(| : failed)
  {
    REAL *room = malloc((size_t)(size + 1) * sizeof(REAL));
    failed = !room;
#pragma omp for schedule(static) nowait
    for (long plane = 0; plane < images * channels; plane++) {
      if (!room) continue;
      REAL *restrict to = y + plane * places;
      memcpy(room, x + plane * size, (size_t)size * sizeof(REAL));
      room[size] = 0;
      for (long p = 0; p < places; p++) to[p] = 0;
      for (long k = 0; k < taps; k++) {
        const long start = (k * images + plane / channels) * places;
        const int *restrict index = indices + start;
        const REAL *restrict weight = weights + start, *restrict from = room;
        for (long p = 0; p < places; p++) to[p] += weight[p] * from[index[p]];
      }
    }
    free(room);
  }
  return failed;
}

/* The transpose: x = the sum of weight * y over the taps that are there. */
int spread_REAL(const long *sizes, const int *indices, const REAL *weights, const REAL *y, REAL *x) {
  UNPACK(sizes);
#pragma omp parallel num_threads(TEAM) if (many) reduction(| : failed)
  {
    REAL *room = malloc((size_t)(size + 1) * sizeof(REAL));
    failed = !room;
#pragma omp for schedule(static) nowait
    for (long plane = 0; plane < images * channels; plane++) {
      if (!room) continue;
      const REAL *from = y + plane * places;
      memset(room, 0, (size_t)(size + 1) * sizeof(REAL));
      for (long k = 0; k < taps; k++) {
        const long start = (k * images + plane / channels) * places;
        for (long p = 0; p < places; p++) room[indices[start + p]] += weights[start + p] * from[p];
      }
      memcpy(x + plane * size, room, (size_t)size * sizeof(REAL));
    }
    free(room);
  }
  return failed;
}

/* products = for each tap of each place the sum over the channels of x there times y. */
int products_REAL(const long *sizes, const int *indices, const REAL *x, const REAL *y, REAL *products) {
  UNPACK(sizes);
#pragma omp parallel num_threads(TEAM) if (many) reduction(| : failed)
  {
    REAL *room = malloc((size_t)(size + 1) * sizeof(REAL));
    failed = !room;
#pragma omp for schedule(static) nowait
    for (long image = 0; image < images; image++) {
      if (!room) continue;
      for (long k = 0; k < taps; k++) memset(products + (k * images + image) * places, 0, (size_t)places * sizeof(REAL));
      room[size] = 0;
      for (long plane = image * channels; plane < (image + 1) * channels; plane++) {
        memcpy(room, x + plane * size, (size_t)size * sizeof(REAL));
        for (long k = 0; k < taps; k++) {
          const long start = (k * images + image) * places;
          const int *restrict index = indices + start;
          const REAL *restrict with = y + plane * places, *restrict from = room;
          REAL *restrict to = products + start;
          for (long p = 0; p < places; p++) to[p] += with[p] * from[index[p]];
        }
      }
    }
    free(room);
  }
  return failed;
}

/* y[o, r] = the sum over the entries k of row r of a sparse matrix of weight[k] * x[o, index[k]], the elements of which are
   numbers, or rows of them. sizes: outer, elements along the dimension before, and after, and numbers in each. */
int along_REAL(const long *sizes, const int *ends, const int *index, const REAL *weight, const REAL *x, REAL *y) {
  const long outer = sizes[0], before = sizes[1], after = sizes[2], inner = sizes[3];
#pragma omp parallel for num_threads(TEAM) schedule(static) if (outer * ends[after] * inner > WORTH)
  for (long o = 0; o < outer; o++) {
    const REAL *restrict from = x + o * before * inner;
    for (long r = 0; r < after; r++) {
      REAL *restrict to = y + (o * after + r) * inner;
      if (inner == 1) {
        REAL total = 0;
        for (long k = ends[r]; k < ends[r + 1]; k++) total += weight[k] * from[index[k]];
        to[0] = total;
        continue;
      }
      const REAL *restrict one = ends[r] < ends[r + 1] ? from + index[ends[r]] * inner : 0;
      const REAL first = one ? weight[ends[r]] : 0;
      for (long c = 0; c < inner; c++) to[c] = one ? first * one[c] : 0;
      for (long k = ends[r] + 1; k < ends[r + 1]; k++) {
        const REAL *restrict other = from + index[k] * inner, w = weight[k];
        for (long c = 0; c < inner; c++) to[c] += w * other[c];
      }
    }
  }
  return 0;
}

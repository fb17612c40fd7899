/* What every file of kernels begins with, the geometry of windows that slide over images among it. */

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_max_threads() 1
#define omp_get_num_threads() 1
#define omp_get_thread_num() 0
#define omp_in_parallel() 0
#endif

/* Products are added without rounding in between, which compiled programs must not do. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

typedef signed char schar;
typedef unsigned char uchar;

/* Places of the small image look through windows of `kernel` elements at the large one: place o sees the elements
   o * stride + k * dilation - padding. */
typedef struct {
  long images, groups, a, b;                       /* channels in a group: a of the large image, b of the small one */
  long large[3], small[3], kernel[3];            /* sizes */
  long stride[3], padding[3], dilation[3];
  long large_steps[5], small_steps[5];           /* between elements: image, channel, and three dimensions */
} Geometry;

/* Eight floats at once. On x86-64 these files use AVX2 and FMA; `kernels_supported` asks for both before anybody calls. */
#ifndef SORDINO_LANES_H
#define SORDINO_LANES_H

#include <stdint.h>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif

#define LANES 8
#define BLOCK (2 * LANES) /* channels handled together: one cache line */
#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(4 * LANES)));

#define LOAD(address) (*(const lanes *)(address))
#define STORE(address, value) (*(lanes *)(address) = (value))

#endif

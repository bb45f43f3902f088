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

/* lanes of two vectors in the order given: 0 to 7 are the first's, 8 to 15 the second's */
#if defined(__clang__)
#define MERGE(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define MERGE(one, other, ...) __builtin_shuffle(one, other, (masks){__VA_ARGS__})
#endif

#endif

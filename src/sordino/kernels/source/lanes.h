/* Eight floats at once, by the compiler's vectors: whatever instructions it may use, it makes of them. */
#ifndef SORDINO_LANES_H
#define SORDINO_LANES_H

#include <stdint.h>

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

/* eight rows become eight columns */
INLINE void transpose_lanes(const float *from, int64_t from_row, float *to, int64_t to_row) {
    lanes a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++)
        a[i] = LOAD(from + i * from_row);
    for (int i = 0; i < LANES; i += 2) {
        b[i] = MERGE(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = MERGE(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 4; i++) {
        const int k = i / 2 * 4 + i % 2;
        a[k] = MERGE(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[k + 2] = MERGE(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        STORE(to + i * to_row, MERGE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
        STORE(to + (i + 4) * to_row, MERGE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
    }
}

#endif

/* As many floats at once as one register holds, by the compiler's vectors: whatever instructions it may use, it makes of them. */
#ifndef SORDINO_LANES_H
#define SORDINO_LANES_H

#include <stdint.h>

#define BLOCK 16 /* floats handled together: one cache line */
#define INLINE static inline __attribute__((always_inline))

/* TILE: how many blocks of sums stay in registers, beside what is multiplied */
#define ONE_TO_6(MAKE) MAKE(1) MAKE(2) MAKE(3) MAKE(4) MAKE(5) MAKE(6)
#define TABLE_TO_6(name) 0, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6
#if defined(__AVX512F__)
#define LANES 16
#define TILE 16
#define EACH_TILE(MAKE)                                                                                      \
    ONE_TO_6(MAKE) MAKE(7) MAKE(8) MAKE(9) MAKE(10) MAKE(11) MAKE(12) MAKE(13) MAKE(14) MAKE(15) MAKE(16)
#define TABLE_OF(name)                                                                                       \
    {TABLE_TO_6(name), name##_7,  name##_8,  name##_9,  name##_10, name##_11,                                \
     name##_12,        name##_13, name##_14, name##_15, name##_16}
#else
#define LANES 8
#define TILE 6
#define EACH_TILE(MAKE) ONE_TO_6(MAKE)
#define TABLE_OF(name) {TABLE_TO_6(name)}
#endif
#define VECTORS (BLOCK / LANES)

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(4 * LANES)));

#define LOAD(address) (*(const lanes *)(address))
#define STORE(address, value) (*(lanes *)(address) = (value))

typedef struct {
    lanes part[VECTORS];
} block;

INLINE block load_block(const float *from) {
    block b;
    for (int v = 0; v < VECTORS; v++)
        b.part[v] = LOAD(from + v * LANES);
    return b;
}

INLINE void store_block(float *to, block b) {
    for (int v = 0; v < VECTORS; v++)
        STORE(to + v * LANES, b.part[v]);
}

INLINE block no_block(void) {
    block b;
    for (int v = 0; v < VECTORS; v++)
        b.part[v] = (lanes){0};
    return b;
}

INLINE void add_times(block *sum, float factor, block b) {
    for (int v = 0; v < VECTORS; v++)
        sum->part[v] += factor * b.part[v];
}

#define SIDE 8 /* of the squares that are transposed */

typedef float eight __attribute__((vector_size(4 * SIDE), aligned(4), may_alias));
typedef int32_t order_of_eight __attribute__((vector_size(4 * SIDE)));

/* numbers of two vectors in the order given: 0 to 7 are the first's, 8 to 15 the second's */
#if defined(__clang__)
#define MERGE(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define MERGE(one, other, ...) __builtin_shuffle(one, other, (order_of_eight){__VA_ARGS__})
#endif

/* eight rows become eight columns */
INLINE void transpose_square(const float *from, int64_t from_row, float *to, int64_t to_row) {
    eight a[SIDE], b[SIDE];
    for (int i = 0; i < SIDE; i++)
        a[i] = *(const eight *)(from + i * from_row);
    for (int i = 0; i < SIDE; i += 2) {
        b[i] = MERGE(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = MERGE(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 4; i++) {
        const int k = i / 2 * 4 + i % 2;
        a[k] = MERGE(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[k + 2] = MERGE(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        *(eight *)(to + i * to_row) = MERGE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(eight *)(to + (i + 4) * to_row) = MERGE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

#endif

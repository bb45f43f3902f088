/* Lengths of rows, and sums of rows that are each multiplied by a factor. */
#include "lanes.h"

/* products are rounded before they are added, as torch rounds them */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#define CHUNK 4096 /* numbers of the sum that stay in the nearest cache while all rows pass by */
#define SUMS 16    /* running sums, so that one addition need not wait for the one before */

static double squares_of(const float *row, int64_t count) {
    double sums[SUMS] = {0}, total = 0;
    int64_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (int k = 0; k < SUMS; k++)
            sums[k] += (double)row[i + k] * (double)row[i + k];
    for (; i < count; i++)
        sums[i % SUMS] += (double)row[i] * (double)row[i];
    for (int k = 0; k < SUMS; k++)
        total += sums[k];
    return total;
}

/* each row's sum of squares in double precision, by one thread from start to end */
void sums_of_squares(const float *const *rows, double *sums, int64_t count, int64_t numbers, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < count; i++)
        sums[i] = squares_of(rows[i], numbers);
}

static void add_chunk(float *total, const float *row, float factor, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        total[i] += factor * row[i];
}

/* total += factors[0] * rows[0] + factors[1] * rows[1] + ..., added one after the other */
void add_products(float *total, const float *const *rows, const float *factors, int64_t count, int64_t numbers,
                  int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t start = 0; start < numbers; start += CHUNK) {
        const int64_t length = numbers - start < CHUNK ? numbers - start : CHUNK;
        for (int64_t i = 0; i < count; i++)
            add_chunk(total + start, rows[i] + start, factors[i], length);
    }
}

/* Group normalisation of channels-last images: examples x positions x channels, channels a multiple of BLOCK; if
   asked, with something added to the result, and with negative results made zero.

   Every example is handled by itself and in the same order whatever the number of threads, so results have the same
   bits. Sums run in float over ROWS positions and in double beyond; moments are taken about the mean of a few of each
   channel's values, so that neither a large mean nor one far value drowns a small variance. */
#include <math.h>
#include <string.h>

#include "lanes.h"

#define ROWS 64
#define MOST_CHANNELS 4096
#define GUESSED_FROM 8 /* positions whose mean the moments are taken about */

typedef struct {
    int64_t positions, channels, groups;
    double eps;
} shape;

/* how many positions from value `start` on are handled together: few enough for the nearest cache, so that memory is
   read in order */
INLINE int64_t rows_from(int64_t start, const shape *s) {
    const int64_t left = s->positions - start / s->channels;
    return left < ROWS ? left : ROWS;
}

INLINE void flush(block sums, double *total) {
    float values[BLOCK];
    store_block(values, sums);
    for (int k = 0; k < BLOCK; k++)
        total[k] += values[k];
}

/* adds up (x - x0) and its square over a few rows, for BLOCK channels */
INLINE void moments(const float *x, const float *x0, int64_t rows, int64_t channels, double *first, double *second) {
    const block origin = load_block(x0);
    block sums = no_block(), squares = no_block();
    for (int64_t at = 0; at < rows * channels; at += channels)
        for (int v = 0; v < VECTORS; v++) {
            const lanes value = LOAD(x + at + v * LANES) - origin.part[v];
            sums.part[v] += value;
            squares.part[v] += value * value;
        }
    flush(sums, first);
    flush(squares, second);
}

/* g where y is above zero; g itself where there is no y */
INLINE lanes passed(const float *g, const float *y) {
    if (!y)
        return LOAD(g);
    return (lanes)((masks)LOAD(g) & (masks)(LOAD(y) > 0));
}

/* adds up what passes of g, and that times x, over a few rows, for BLOCK channels */
INLINE void products(const float *x, const float *g, const float *y, int64_t rows, int64_t channels, double *sums,
                     double *inner) {
    block passing = no_block(), products = no_block();
    for (int64_t at = 0; at < rows * channels; at += channels)
        for (int v = 0; v < VECTORS; v++) {
            const int64_t here = at + v * LANES;
            const lanes value = passed(g + here, y ? y + here : y);
            passing.part[v] += value;
            products.part[v] += value * LOAD(x + here);
        }
    flush(passing, sums);
    flush(products, inner);
}

INLINE void all_products(const float *x, const float *g, const float *y, double *sums, double *inner, const shape *s) {
    memset(sums, 0, s->channels * sizeof(double)), memset(inner, 0, s->channels * sizeof(double));
    for (int64_t start = 0; start < s->positions * s->channels; start += ROWS * s->channels)
        for (int64_t c = 0, rows = rows_from(start, s); c < s->channels; c += BLOCK)
            products(x + start + c, g + start + c, y ? y + start + c : y, rows, s->channels, sums + c, inner + c);
}

INLINE void write_normalised(const float *x, const float *plus, const float *centres, const float *scale,
                             const float *bias, float *y, int rectify, const shape *s) {
    const lanes zero = {0};
    for (int64_t start = 0; start < s->positions * s->channels; start += ROWS * s->channels)
        for (int64_t c = 0, rows = rows_from(start, s); c < s->channels; c += LANES) {
            const lanes centre = LOAD(centres + c), slope = LOAD(scale + c), shift = LOAD(bias + c);
            for (int64_t at = start + c; at < start + rows * s->channels; at += s->channels) {
                lanes value = (LOAD(x + at) - centre) * slope + shift;
                if (plus)
                    value += LOAD(plus + at);
                if (rectify)
                    value = (lanes)((masks)value & ~(masks)(value < zero)); /* NaN stays NaN */
                STORE(y + at, value);
            }
        }
}

INLINE void write_passed_on(const float *x, const float *g, const float *y, const float *centres, const float *scale,
                            const float *slope, const float *shift, float *dx, float *dplus, const shape *s) {
    for (int64_t start = 0; start < s->positions * s->channels; start += ROWS * s->channels)
        for (int64_t c = 0, rows = rows_from(start, s); c < s->channels; c += LANES) {
            const lanes of_g = LOAD(scale + c), of_x = LOAD(slope + c);
            const lanes rest = LOAD(shift + c), centre = LOAD(centres + c);
            for (int64_t at = start + c; at < start + rows * s->channels; at += s->channels) {
                const lanes grad = passed(g + at, y ? y + at : y);
                if (dplus)
                    STORE(dplus + at, grad);
                STORE(dx + at, grad * of_g + ((LOAD(x + at) - centre) * of_x + rest));
            }
        }
}

static void guess_means(const float *x, float *guesses, const shape *s) {
    const int64_t count = s->positions < GUESSED_FROM ? s->positions : GUESSED_FROM;
    for (int64_t c = 0; c < s->channels; c++)
        guesses[c] = x[c] / count;
    for (int64_t i = 1; i < count; i++)
        for (int64_t c = 0, row = i * s->positions / count * s->channels; c < s->channels; c++)
            guesses[c] += x[row + c] / count;
}

static void forward_one(const float *x, const float *plus, const float *weight, const float *bias, float *y,
                        float *mean, float *inverse_std, int rectify, const shape *s) {
    float scale[MOST_CHANNELS], centres[MOST_CHANNELS], guesses[MOST_CHANNELS];
    double first[MOST_CHANNELS], second[MOST_CHANNELS];
    memset(first, 0, s->channels * sizeof(double)), memset(second, 0, s->channels * sizeof(double));
    const int64_t wide = s->channels / s->groups;
    guess_means(x, guesses, s);
    for (int64_t start = 0; start < s->positions * s->channels; start += ROWS * s->channels)
        for (int64_t c = 0, rows = rows_from(start, s); c < s->channels; c += BLOCK)
            moments(x + start + c, guesses + c, rows, s->channels, first + c, second + c);
    for (int64_t group = 0; group < s->groups; group++) {
        const int64_t from = group * wide, to = from + wide;
        double centre = 0, spread = 0;
        for (int64_t c = from; c < to; c++) {
            first[c] /= s->positions;
            second[c] -= s->positions * first[c] * first[c];
            first[c] += guesses[c];
            centre += first[c] / wide;
        }
        for (int64_t c = from; c < to; c++)
            spread += second[c] + s->positions * (first[c] - centre) * (first[c] - centre);
        const double inverse = 1 / sqrt((spread > 0 ? spread : spread * 0) / (wide * s->positions) + s->eps);
        mean[group] = (float)centre, inverse_std[group] = (float)inverse;
        for (int64_t c = from; c < to; c++)
            scale[c] = (float)(weight[c] * inverse), centres[c] = (float)centre;
    }
    if (plus && rectify)
        write_normalised(x, plus, centres, scale, bias, y, 1, s);
    else if (rectify)
        write_normalised(x, 0, centres, scale, bias, y, 1, s);
    else
        write_normalised(x, plus, centres, scale, bias, y, 0, s);
}

static void sums_one(const float *x, const float *g, float *sums, float *inner, const shape *s) {
    double first[MOST_CHANNELS], second[MOST_CHANNELS];
    all_products(x, g, 0, first, second, s);
    for (int64_t c = 0; c < s->channels; c++)
        sums[c] = (float)first[c], inner[c] = (float)second[c];
}

static void backward_one(const float *x, const float *g, const float *y, const float *weight, const float *mean,
                         const float *inverse_std, float *dx, float *dplus, float *dweight, float *dbias,
                         const shape *s) {
    float scale[MOST_CHANNELS], slope[MOST_CHANNELS], shift[MOST_CHANNELS], centres[MOST_CHANNELS];
    double sums[MOST_CHANNELS], inner[MOST_CHANNELS];
    const int64_t wide = s->channels / s->groups;
    if (y)
        all_products(x, g, y, sums, inner, s);
    else
        all_products(x, g, 0, sums, inner, s);
    for (int64_t group = 0; group < s->groups; group++) {
        const int64_t from = group * wide, to = from + wide;
        const double centre = mean[group], inverse = inverse_std[group], count = (double)(wide * s->positions);
        double total = 0, along = 0;
        for (int64_t c = from; c < to; c++) {
            const double normalised = (inner[c] - centre * sums[c]) * inverse;
            dweight[c] = (float)normalised, dbias[c] = (float)sums[c];
            total += weight[c] * sums[c], along += weight[c] * normalised;
        }
        for (int64_t c = from; c < to; c++) {
            scale[c] = (float)(weight[c] * inverse), centres[c] = mean[group];
            slope[c] = (float)(-along * inverse * inverse / count);
            shift[c] = (float)(-total * inverse / count);
        }
    }
    if (y && dplus)
        write_passed_on(x, g, y, centres, scale, slope, shift, dx, dplus, s);
    else if (y)
        write_passed_on(x, g, y, centres, scale, slope, shift, dx, 0, s);
    else
        write_passed_on(x, g, 0, centres, scale, slope, shift, dx, dplus, s);
}

/* plus: what is added, or none */
void group_norm_forward(const float *x, const float *plus, const float *weight, const float *bias, float *y,
                        float *mean, float *inverse_std, int64_t examples, int64_t positions, int64_t channels,
                        int64_t groups, double eps, int rectify, int threads) {
    const shape s = {positions, channels, groups, eps};
    const int64_t size = positions * channels;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t n = 0; n < examples; n++)
        forward_one(x + n * size, plus ? plus + n * size : 0, weight, bias, y + n * size, mean + n * groups,
                    inverse_std + n * groups, rectify, &s);
}

/* y: the result, where negative ones were made zero, or none; dplus: room for the gradient of what was added, or none;
   dweight and dbias come example by example */
void group_norm_backward(const float *x, const float *g, const float *y, const float *weight, const float *mean,
                         const float *inverse_std, float *dx, float *dplus, float *dweight, float *dbias,
                         int64_t examples, int64_t positions, int64_t channels, int64_t groups, int threads) {
    const shape s = {positions, channels, groups, 0};
    const int64_t size = positions * channels;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t n = 0; n < examples; n++)
        backward_one(x + n * size, g + n * size, y ? y + n * size : 0, weight, mean + n * groups,
                     inverse_std + n * groups, dx + n * size, dplus ? dplus + n * size : 0, dweight + n * channels,
                     dbias + n * channels, &s);
}

/* sum over positions of g and of g x, example by example */
void channel_sums(const float *x, const float *g, float *sums, float *inner, int64_t examples, int64_t positions,
                  int64_t channels, int threads) {
    const shape s = {positions, channels, 1, 0};
    const int64_t size = positions * channels;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t n = 0; n < examples; n++)
        sums_one(x + n * size, g + n * size, sums + n * channels, inner + n * channels, &s);
}

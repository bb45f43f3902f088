/* The gradient of a convolution's weight, summed over the batch or example by example, from channels-last images.

   For each row `ky` of the kernel, the fan_in = kernel width x channels values under it lie side by side in memory. A
   tile of up to TILE of them against BLOCK output channels stays in registers while the positions of a band of rows go
   by; bands are chosen so that what a tile reads comes from the nearest caches. */
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define CACHE_BYTES 45056
#define PARTS 4 /* runs of examples summed by themselves, whatever the number of threads, so that it changes no bit */

typedef struct {
    int64_t height, width, channels;             /* of the input, without padding */
    int64_t out_height, out_width, out_channels; /* of the output */
    int64_t kernel_height, kernel_width, stride, padding;
} geometry;

typedef struct {
    int64_t rows, columns, x_row, x_column, g_row, g_column, total_row;
    int begins; /* whether totals begin at zero here, whatever lies there */
} band;

INLINE void accumulate_tile(int wide, const float *x, const float *g, float *total, const band *b) {
    block sums[TILE];
    for (int j = 0; j < wide; j++)
        sums[j] = b->begins ? no_block() : load_block(total + j * b->total_row);
    for (int64_t row = 0; row < b->rows; row++) {
        const float *xs = x + row * b->x_row, *gs = g + row * b->g_row;
        for (int64_t column = 0; column < b->columns; column++, xs += b->x_column, gs += b->g_column) {
            const block of_g = load_block(gs);
            for (int j = 0; j < wide; j++)
                add_times(&sums[j], xs[j], of_g);
        }
    }
    for (int j = 0; j < wide; j++)
        store_block(total + j * b->total_row, sums[j]);
}

#define ACCUMULATE(WIDE)                                                                                     \
    static void accumulate_##WIDE(const float *x, const float *g, float *total, const band *b) {             \
        accumulate_tile(WIDE, x, g, total, b);                                                               \
    }

EACH_TILE(ACCUMULATE)

typedef void accumulate(const float *, const float *, float *, const band *);
static accumulate *const of_width[TILE + 1] = TABLE_OF(accumulate);

static int64_t rows_per_band(const geometry *s) {
    const int64_t row_bytes = s->stride * (s->width + 2 * s->padding) * s->channels * 4 + s->out_width * BLOCK * 4;
    const int64_t rest = s->kernel_height * (s->width + 2 * s->padding) * s->channels * 4;
    const int64_t rows = (CACHE_BYTES - rest) / row_bytes;
    return rows < 1 ? 1 : rows;
}

/* the image with its zero border; itself where there is none */
static const float *padded(const float *x, float *scratch, const geometry *s) {
    if (!s->padding)
        return x;
    const int64_t wide = (s->width + 2 * s->padding) * s->channels;
    for (int64_t row = 0; row < s->height; row++)
        memcpy(scratch + (row + s->padding) * wide + s->padding * s->channels, x + row * s->width * s->channels,
               s->width * s->channels * sizeof(float));
    return scratch;
}

/* total: kernel rows x fan_in x output channels; it begins at zero or is added to */
static void add_one(const float *x, const float *g, float *total, int begins, const geometry *s) {
    const int64_t fan_in = s->kernel_width * s->channels, x_row = (s->width + 2 * s->padding) * s->channels;
    const int64_t most = rows_per_band(s), outs = s->out_channels;
    for (int64_t first = 0; first < s->out_height; first += most) {
        const band b = {.rows = first + most < s->out_height ? most : s->out_height - first,
                        .columns = s->out_width,
                        .x_row = s->stride * x_row,
                        .x_column = s->stride * s->channels,
                        .g_row = s->out_width * outs,
                        .g_column = outs,
                        .total_row = outs,
                        .begins = begins && !first};
        for (int64_t out = 0; out < outs; out += BLOCK)
            for (int64_t ky = 0; ky < s->kernel_height; ky++)
                for (int64_t j = 0; j < fan_in; j += TILE)
                    of_width[fan_in - j < TILE ? fan_in - j : TILE](
                        x + (first * s->stride + ky) * x_row + j, g + first * b.g_row + out,
                        total + (ky * fan_in + j) * outs + out, &b);
    }
}

/* totals: one for each of `parts` runs of examples that follow each other; returns 0 if done */
static int add_parts(const float *x, const float *g, float *totals, int64_t examples, int64_t parts, const geometry *s,
                     int threads) {
    const int64_t size = s->kernel_height * s->kernel_width * s->channels * s->out_channels;
    const int64_t x_size = s->height * s->width * s->channels;
    const int64_t g_size = s->out_height * s->out_width * s->out_channels;
    int lacking_memory = 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        float *scratch =
            calloc((s->height + 2 * s->padding) * (s->width + 2 * s->padding) * s->channels, sizeof(float));
        if (!scratch) {
#pragma omp atomic write
            lacking_memory = 1;
        }
#pragma omp for
        for (int64_t part = 0; part < parts; part++)
            for (int64_t n = part * examples / parts; scratch && n < (part + 1) * examples / parts; n++)
                add_one(padded(x + n * x_size, scratch, s), g + n * g_size, totals + part * size,
                        parts == examples, s);
        free(scratch);
    }
    return lacking_memory;
}

/* rows: examples x (kernel rows x fan_in) x output channels; returns 0 if done */
int conv_weight_rows(const float *x, const float *g, float *rows, int64_t examples, int64_t height, int64_t width,
                     int64_t channels, int64_t out_height, int64_t out_width, int64_t out_channels,
                     int64_t kernel_height, int64_t kernel_width, int64_t stride, int64_t padding, int threads) {
    const geometry s = {height,       width,         channels,     out_height, out_width,
                        out_channels, kernel_height, kernel_width, stride,     padding};
    return add_parts(x, g, rows, examples, examples, &s, threads);
}

/* weight: output channels x (kernel rows x fan_in), the sum over all examples; returns 0 if done */
int conv_weight_sum(const float *x, const float *g, float *weight, int64_t examples, int64_t height, int64_t width,
                    int64_t channels, int64_t out_height, int64_t out_width, int64_t out_channels,
                    int64_t kernel_height, int64_t kernel_width, int64_t stride, int64_t padding, int threads) {
    const geometry s = {height,       width,         channels,     out_height, out_width,
                        out_channels, kernel_height, kernel_width, stride,     padding};
    const int64_t inner = kernel_height * kernel_width * channels, size = inner * out_channels;
    float *totals = calloc(PARTS * size, sizeof(float));
    if (!totals)
        return 1;
    const int lacking_memory = add_parts(x, g, totals, examples, PARTS, &s, threads);
    for (int64_t at = 0; at < inner; at++)
        for (int64_t out = 0; out < out_channels; out += LANES) {
            lanes sum = LOAD(totals + at * out_channels + out);
            for (int part = 1; part < PARTS; part++)
                sum += LOAD(totals + part * size + at * out_channels + out);
            for (int k = 0; k < LANES; k++)
                weight[(out + k) * inner + at] = sum[k];
        }
    free(totals);
    return lacking_memory;
}

/* Convolution of channels-last images by 3 x 3 weights, stride 1, one row of zeros around: Winograd's F(2x2, 3x3).

   Tiles of 2 x 2 results are computed from 4 x 4 inputs with 16 products in place of 36. Inputs, weights and results are
   transformed so that each of the 16 places is a matrix product over channels: PLACES x tiles x channels by
   PLACES x channels x outputs. Outputs are a multiple of BLOCK, channels of LANES. Every example is handled by itself and
   in the same order whatever the number of threads, so results have the same bits. */
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define PLACES 16
#define TILES 16 /* handled together: their transforms and products stay near */
#define MOST_ROWS 6

typedef struct {
    int64_t height, width, channels, outputs, across, down, together;
} plane;

typedef struct {
    float *zeros, *columns, *inputs, *products;
} scratch;

/* the four differences that both transforms of inputs consist of */
INLINE void spread(lanes a, lanes b, lanes c, lanes d, float *to, int64_t apart) {
    STORE(to, a - c);
    STORE(to + apart, b + c);
    STORE(to + 2 * apart, c - b);
    STORE(to + 3 * apart, b - d);
}

/* rows 2j-1 to 2j+2 of a image, transformed down the columns; the columns at either end stay zero */
static void down_columns(const float *x, int64_t tile_row, const scratch *s, const plane *p) {
    const int64_t size = p->width * p->channels, apart = (2 * p->across + 2) * p->channels;
    const float *rows[4];
    for (int64_t k = 0; k < 4; k++) {
        const int64_t row = 2 * tile_row - 1 + k;
        rows[k] = row < 0 || row >= p->height ? s->zeros : x + row * size;
    }
    for (int64_t at = 0; at < size; at += LANES)
        spread(LOAD(rows[0] + at), LOAD(rows[1] + at), LOAD(rows[2] + at), LOAD(rows[3] + at),
               s->columns + p->channels + at, apart);
}

static void across_rows(int64_t first_tile, int64_t apart, const scratch *s, const plane *p) {
    const int64_t c = p->channels, row = (2 * p->across + 2) * c;
    for (int64_t k = 0; k < 4; k++)
        for (int64_t tile = 0; tile < p->across; tile++) {
            const float *from = s->columns + k * row + 2 * tile * c;
            float *to = s->inputs + 4 * k * apart + (first_tile + tile) * c;
            for (int64_t at = 0; at < c; at += LANES)
                spread(LOAD(from + at), LOAD(from + c + at), LOAD(from + 2 * c + at), LOAD(from + 3 * c + at), to + at,
                       apart);
        }
}

/* a few tiles by BLOCK outputs */
INLINE void few_products(const float *inputs, const float *weights, float *products, int64_t rows, int64_t channels,
                         int64_t outputs) {
    lanes low[MOST_ROWS], high[MOST_ROWS];
    for (int64_t r = 0; r < rows; r++)
        low[r] = high[r] = (lanes){0};
    for (int64_t c = 0; c < channels; c++) {
        const lanes of_low = LOAD(weights + c * outputs), of_high = LOAD(weights + c * outputs + LANES);
        for (int64_t r = 0; r < rows; r++) {
            const float value = inputs[r * channels + c];
            low[r] += value * of_low, high[r] += value * of_high;
        }
    }
    for (int64_t r = 0; r < rows; r++)
        STORE(products + r * outputs, low[r]), STORE(products + r * outputs + LANES, high[r]);
}

static void multiply(const float *inputs, const float *weights, float *products, int64_t tiles, int64_t channels,
                     int64_t outputs) {
    for (int64_t k = 0; k < outputs; k += BLOCK) {
        int64_t tile = 0;
        for (; tile + 6 <= tiles; tile += 6)
            few_products(inputs + tile * channels, weights + k, products + tile * outputs + k, 6, channels, outputs);
        for (; tile + 4 <= tiles; tile += 4)
            few_products(inputs + tile * channels, weights + k, products + tile * outputs + k, 4, channels, outputs);
        for (; tile < tiles; tile++)
            few_products(inputs + tile * channels, weights + k, products + tile * outputs + k, 1, channels, outputs);
    }
}

/* 2 x 2 results from the 16 products of a tile; those outside of the image are not written */
static void gather_results(float *y, const float *bias, int64_t tile_row, int64_t first_tile, int64_t apart,
                           const scratch *s, const plane *p) {
    const int64_t n = p->outputs, line = p->width * n;
    const int below = 2 * tile_row + 1 < p->height;
    for (int64_t tile = 0; tile < p->across; tile++) {
        const float *from = s->products + (first_tile + tile) * n;
        float *to = y + 2 * tile_row * line + 2 * tile * n;
        const int beside = 2 * tile + 1 < p->width;
        for (int64_t at = 0; at < n; at += LANES) {
            lanes upper[4], lower[4];
            for (int64_t k = 0; k < 4; k++) {
                const lanes first = LOAD(from + k * apart + at), second = LOAD(from + (4 + k) * apart + at);
                const lanes third = LOAD(from + (8 + k) * apart + at), fourth = LOAD(from + (12 + k) * apart + at);
                upper[k] = first + second + third;
                lower[k] = second - third - fourth;
            }
            const lanes shift = bias ? LOAD(bias + at) : (lanes){0};
            STORE(to + at, upper[0] + upper[1] + upper[2] + shift);
            if (beside)
                STORE(to + n + at, upper[1] - upper[2] - upper[3] + shift);
            if (below)
                STORE(to + line + at, lower[0] + lower[1] + lower[2] + shift);
            if (below && beside)
                STORE(to + line + n + at, lower[1] - lower[2] - lower[3] + shift);
        }
    }
}

/* asks for what is needed next while products keep the processor busy: the rows of the next tiles, and room for results */
INLINE void fetch_ahead(const float *x, const float *y, int64_t row, int64_t place, const plane *p) {
    const int64_t line = p->width * p->channels, room = p->width * p->outputs;
    const int64_t rows = 2 * p->together, next = 2 * (row + p->together) + 1;
    for (int64_t at = next * line + rows * line * place / PLACES;
         at < next * line + rows * line * (place + 1) / PLACES && at < p->height * line; at += BLOCK)
        __builtin_prefetch(x + at);
    for (int64_t at = 2 * row * room + rows * room * place / PLACES;
         at < 2 * row * room + rows * room * (place + 1) / PLACES && at < p->height * room; at += BLOCK)
        __builtin_prefetch(y + at, 1);
}

static void convolve_one(const float *x, const float *weights, const float *bias, float *y, const scratch *s,
                         const plane *p) {
    for (int64_t row = 0; row < p->down; row += p->together) {
        const int64_t rows = p->down - row < p->together ? p->down - row : p->together;
        const int64_t tiles = rows * p->across;
        for (int64_t k = 0; k < rows; k++) {
            down_columns(x, row + k, s, p);
            across_rows(k * p->across, tiles * p->channels, s, p);
        }
        for (int64_t place = 0; place < PLACES; place++) {
            fetch_ahead(x, y, row, place, p);
            multiply(s->inputs + place * tiles * p->channels, weights + place * p->channels * p->outputs,
                     s->products + place * tiles * p->outputs, tiles, p->channels, p->outputs);
        }
        for (int64_t k = 0; k < rows; k++)
            gather_results(y, bias, row + k, k * p->across, tiles * p->outputs, s, p);
    }
}

/* G g G' of LANES weights at a time: `found` is PLACES vectors, `apart` from each other */
INLINE void transform_weights(const float *w, int64_t of_row, int64_t of_column, float *found, int64_t apart) {
    lanes rows[4][3];
    for (int64_t column = 0; column < 3; column++, w += of_column) {
        const lanes a = LOAD(w), b = LOAD(w + of_row), c = LOAD(w + 2 * of_row), sum = (a + c) * 0.5f, half = b * 0.5f;
        rows[0][column] = a, rows[1][column] = sum + half, rows[2][column] = sum - half, rows[3][column] = c;
    }
    for (int64_t row = 0; row < 4; row++, found += 4 * apart) {
        const lanes a = rows[row][0], c = rows[row][2], sum = (a + c) * 0.5f, half = rows[row][1] * 0.5f;
        STORE(found, a), STORE(found + apart, sum + half);
        STORE(found + 2 * apart, sum - half), STORE(found + 3 * apart, c);
    }
}

/* from weights whose channels lie together: LANES channels of LANES outputs, turned so that outputs lie together */
INLINE void turn_weights(const float *w, int64_t of_output, int64_t of_row, int64_t of_column, float *to,
                         int64_t outputs, int64_t apart) {
    float found[PLACES * LANES * LANES];
    for (int64_t k = 0; k < LANES; k++)
        transform_weights(w + k * of_output, of_row, of_column, found + k * LANES, LANES * LANES);
    for (int64_t place = 0; place < PLACES; place++)
        transpose_lanes(found + place * LANES * LANES, LANES, to + place * apart, outputs);
}

/* weights become PLACES x channels x outputs; the strides are those of output, channel, row and column; output's or
   channel's is 1, and the last two may be negative */
void conv3x3_weights(const float *weight, float *transformed, int64_t channels, int64_t outputs, int64_t of_output,
                     int64_t of_channel, int64_t of_row, int64_t of_column) {
    const int64_t apart = channels * outputs;
    for (int64_t c = 0; c < channels; c += of_output == 1 ? 1 : LANES)
        for (int64_t k = 0; k < outputs; k += LANES) {
            const float *w = weight + k * of_output + c * of_channel;
            float *to = transformed + c * outputs + k;
            if (of_output == 1)
                transform_weights(w, of_row, of_column, to, apart);
            else
                turn_weights(w, of_output, of_row, of_column, to, outputs, apart);
        }
}

/* returns 0, or 1 where there was no memory; weights are transformed, bias may be none */
int conv3x3(const float *x, const float *weights, const float *bias, float *y, int64_t examples, int64_t height,
            int64_t width, int64_t channels, int64_t outputs, int threads) {
    const int64_t across = (width + 1) / 2, down = (height + 1) / 2;
    const int64_t together = across >= TILES ? 1 : (TILES + across - 1) / across;
    const plane p = {height, width, channels, outputs, across, down, together};
    const int64_t columns = 4 * (2 * across + 2) * channels, tiles = PLACES * together * across;
    int failed = 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        float *room = calloc(width * channels + columns + tiles * (channels + outputs), sizeof(float));
        const scratch s = {room, room + width * channels, room + width * channels + columns,
                           room + width * channels + columns + tiles * channels};
        if (!room) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for
        for (int64_t n = 0; n < examples; n++)
            if (room)
                convolve_one(x + n * height * width * channels, weights, bias, y + n * height * width * outputs, &s,
                             &p);
        free(room);
    }
    return failed;
}

/* Convolution of channels-last images by 3 x 3 weights, stride 1, one row of zeros around: Winograd's F(2x2, 3x3).

   Tiles of 2 x 2 results are computed from 4 x 4 inputs with 16 products in place of 36. Inputs, weights and results are
   transformed so that each of the 16 places is a matrix product over channels. Channels and outputs are multiples of
   BLOCK, and lie block by block: PLACES x blocks x tiles x BLOCK, weights as PLACES x blocks of outputs x channels x
   BLOCK, so that neighbours are a fixed way apart. Every example is handled by itself and
   in the same order whatever the number of threads, so results have the same bits. */
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define PLACES 16
#define TILES 16 /* handled together: their transforms and products stay near */

typedef struct {
    int64_t height, width, channels, outputs, across, down, together;
} plane;

typedef struct {
    float *zeros, *inputs, *products;
} scratch;

/* how far apart the places of so many tiles lie: no power of two, or stores would wait for loads that they do not touch */
INLINE int64_t apart_of(int64_t tiles, int64_t channels) { return tiles * channels + BLOCK; }

/* where channel or output `at` of the first of so many tiles lies */
INLINE int64_t placed(int64_t at, int64_t tiles) { return at / BLOCK * BLOCK * tiles + at % BLOCK; }

typedef struct {
    lanes row[4];
} column;

/* four pixels one below the other, transformed; zeros beyond the image's right edge */
INLINE column down_column(const float *const rows[4], int64_t at, int inside) {
    if (!inside)
        return (column){0};
    const lanes a = LOAD(rows[0] + at), b = LOAD(rows[1] + at), c = LOAD(rows[2] + at), d = LOAD(rows[3] + at);
    return (column){{a - c, b + c, c - b, b - d}};
}

/* the tiles of rows 2j-1 to 2j+2 of an image: each has two columns in common with the one before it */
static void transform_tiles(const float *x, int64_t tile_row, int64_t first_tile, int64_t tiles, const scratch *s,
                            const plane *p) {
    const int64_t channels = p->channels, line = p->width * channels, apart = apart_of(tiles, channels);
    const float *rows[4];
    for (int64_t k = 0; k < 4; k++) {
        const int64_t row = 2 * tile_row - 1 + k;
        rows[k] = row < 0 || row >= p->height ? s->zeros : x + row * line;
    }
    for (int64_t at = 0; at < channels; at += LANES) {
        float *to = s->inputs + first_tile * BLOCK + placed(at, tiles);
        column a = {0}, b = down_column(rows, at, 1);
        for (int64_t tile = 0; tile < p->across; tile++, to += BLOCK) {
            const int64_t next = 2 * tile + 1;
            const column c = down_column(rows, at + next * channels, next < p->width);
            const column d = down_column(rows, at + (next + 1) * channels, next + 1 < p->width);
            for (int64_t k = 0; k < 4; k++) {
                STORE(to + 4 * k * apart, a.row[k] - c.row[k]);
                STORE(to + (4 * k + 1) * apart, b.row[k] + c.row[k]);
                STORE(to + (4 * k + 2) * apart, c.row[k] - b.row[k]);
                STORE(to + (4 * k + 3) * apart, b.row[k] - d.row[k]);
            }
            a = c, b = d;
        }
    }
}

/* a few tiles by BLOCK outputs; inputs: blocks of channels, `apart` from each other */
INLINE void few_products(int rows, const float *inputs, int64_t apart, const float *weights, float *products,
                         int64_t channels) {
    block sums[TILE];
    for (int r = 0; r < rows; r++)
        sums[r] = no_block();
    for (int64_t from = 0; from < channels; from += BLOCK, inputs += apart)
        for (int c = 0; c < BLOCK; c++, weights += BLOCK) {
            const block of_c = load_block(weights);
            for (int r = 0; r < rows; r++)
                add_times(&sums[r], inputs[r * BLOCK + c], of_c);
        }
    for (int r = 0; r < rows; r++)
        store_block(products + r * BLOCK, sums[r]);
}

#define PRODUCTS(ROWS)                                                                                       \
    static void products_##ROWS(const float *inputs, int64_t apart, const float *weights, float *products,   \
                                int64_t channels) {                                                          \
        few_products(ROWS, inputs, apart, weights, products, channels);                                      \
    }

EACH_TILE(PRODUCTS)

typedef void products_of(const float *, int64_t, const float *, float *, int64_t);
static products_of *const of_rows[TILE + 1] = TABLE_OF(products);

static void multiply(const float *inputs, const float *weights, float *products, int64_t tiles, int64_t channels,
                     int64_t outputs) {
    for (int64_t k = 0; k < outputs; k += BLOCK)
        for (int64_t tile = 0; tile < tiles; tile += TILE)
            of_rows[tiles - tile < TILE ? tiles - tile : TILE](inputs + tile * BLOCK, tiles * BLOCK,
                                                               weights + k * channels,
                                                               products + k * tiles + tile * BLOCK, channels);
}

/* 2 x 2 results from the 16 products of a tile; those outside of the image are not written */
static void gather_results(float *y, const float *bias, int64_t tile_row, int64_t first_tile, int64_t tiles,
                           const scratch *s, const plane *p) {
    const int64_t n = p->outputs, line = p->width * n, apart = apart_of(tiles, n);
    const int below = 2 * tile_row + 1 < p->height;
    for (int64_t tile = 0; tile < p->across; tile++) {
        float *to = y + 2 * tile_row * line + 2 * tile * n;
        const int beside = 2 * tile + 1 < p->width;
        for (int64_t at = 0; at < n; at += LANES) {
            const float *from = s->products + (first_tile + tile) * BLOCK + placed(at, tiles);
            lanes upper[4], lower[4];
            for (int64_t k = 0; k < 4; k++) {
                const lanes first = LOAD(from + k * apart), second = LOAD(from + (4 + k) * apart);
                const lanes third = LOAD(from + (8 + k) * apart), fourth = LOAD(from + (12 + k) * apart);
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
        for (int64_t k = 0; k < rows; k++)
            transform_tiles(x, row + k, k * p->across, tiles, s, p);
        for (int64_t place = 0; place < PLACES; place++) {
            fetch_ahead(x, y, row, place, p);
            multiply(s->inputs + place * apart_of(tiles, p->channels), weights + place * p->channels * p->outputs,
                     s->products + place * apart_of(tiles, p->outputs), tiles, p->channels, p->outputs);
        }
        for (int64_t k = 0; k < rows; k++)
            gather_results(y, bias, row + k, k * p->across, tiles, s, p);
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
                         int64_t apart) {
    float found[PLACES * LANES * LANES];
    for (int64_t k = 0; k < LANES; k++)
        transform_weights(w + k * of_output, of_row, of_column, found + k * LANES, LANES * LANES);
    for (int64_t place = 0; place < PLACES; place++)
        for (int64_t k = 0; k < LANES; k += SIDE)
            for (int64_t c = 0; c < LANES; c += SIDE)
                transpose_square(found + (place * LANES + k) * LANES + c, LANES, to + place * apart + c * BLOCK + k,
                                 BLOCK);
}

/* weights become PLACES x blocks of outputs x channels x BLOCK; the strides are those of output, channel, row and column; output's or
   channel's is 1, and the last two may be negative */
void conv3x3_weights(const float *weight, float *transformed, int64_t channels, int64_t outputs, int64_t of_output,
                     int64_t of_channel, int64_t of_row, int64_t of_column) {
    const int64_t apart = channels * outputs;
    for (int64_t c = 0; c < channels; c += of_output == 1 ? 1 : LANES)
        for (int64_t k = 0; k < outputs; k += LANES) {
            const float *w = weight + k * of_output + c * of_channel;
            float *to = transformed + placed(k, channels) + c * BLOCK;
            if (of_output == 1)
                transform_weights(w, of_row, of_column, to, apart);
            else
                turn_weights(w, of_output, of_row, of_column, to, apart);
        }
}

/* returns 0, or 1 where there was no memory; weights are transformed, bias may be none */
int conv3x3(const float *x, const float *weights, const float *bias, float *y, int64_t examples, int64_t height,
            int64_t width, int64_t channels, int64_t outputs, int threads) {
    const int64_t across = (width + 1) / 2, down = (height + 1) / 2;
    const int64_t together = across >= TILES ? 1 : (TILES + across - 1) / across;
    const plane p = {height, width, channels, outputs, across, down, together};
    const int64_t tiles = together * across, inputs = PLACES * apart_of(tiles, channels);
    int failed = 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        float *room = calloc(width * channels + inputs + PLACES * apart_of(tiles, outputs), sizeof(float));
        const scratch s = {room, room + width * channels, room + width * channels + inputs};
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

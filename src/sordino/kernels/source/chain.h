/* Chains of dense layers with ReLU between them and softmax cross-entropy at their end, on batches that lie in panels. */
#ifndef SORDINO_CHAIN_H
#define SORDINO_CHAIN_H

#include <math.h>
#include <string.h>

#include "panels.h"

#define LINE_BYTES 64

enum { DONE, NO_MEMORY, BAD_ROW };

/* a layer as it stands: its weight in panels with a row for each input, its bias filled up to whole panels */
typedef struct {
    int64_t inputs, outputs;
    const float *weight, *bias;
} dense;

/* a few rows of a row-major matrix become panels of this height */
static void gather_row(const float *from, int64_t width, float *to, int64_t height) {
    const int64_t whole = width / BLOCK;
    for (int64_t panel = 0; panel < whole; panel++)
        store_block(to + panel_at(panel, height), load_block(from + panel * BLOCK));
    memcpy(to + panel_at(whole, height), from + whole * BLOCK, width % BLOCK * sizeof(float));
}

/* from outputs x inputs to panels */
static void gather_weight(const float *weight, int64_t inputs, int64_t outputs, float *to) {
    for (int64_t n = 0; n < outputs; n += BLOCK)
        transpose(weight + n * inputs, inputs, to + n * inputs, BLOCK, least(BLOCK, outputs - n), inputs);
}

static void forward(dense l, const float *x, float *out, int64_t rows, int64_t height, int rectify, preview *next) {
    for (int64_t panel = 0; panel < panels_of(l.outputs); panel++) {
        const block bias = load_block(l.bias + panel * BLOCK);
        for (int64_t row = 0; row < rows; row++)
            store_block(out + panel_at(panel, height) + row * BLOCK, bias);
    }
    add_product(x, height, l.inputs, l.weight, out, height, rows, l.outputs, next);
    for (int64_t panel = 0; rectify && panel < panels_of(l.outputs); panel++)
        for (int64_t at = panel_at(panel, height); at < panel_at(panel, height) + rows * BLOCK; at++)
            out[at] = out[at] <= 0 ? 0 : out[at]; /* NaN stays */
}

/* from a row of logits, in panels, to the slope of its loss */
static void softmax_slope(float *logits, int64_t height, int64_t classes, int64_t label, float weight) {
    float largest = logits[0], sum = 0;
    for (int64_t k = 1; k < classes; k++) {
        const float logit = logits[place_of(0, k, height)];
        largest = logit > largest ? logit : largest;
    }
    for (int64_t k = 0; k < classes; k++) {
        float *at = logits + place_of(0, k, height);
        sum += *at = expf(*at - largest);
    }
    for (int64_t k = 0; k < classes; k++) {
        float *at = logits + place_of(0, k, height);
        *at = (*at / sum - (k == label)) * weight;
    }
}

/* a weight as `backward` reads it: panels with a row for each output */
static void turn(dense l, float *turned) {
    for (int64_t k = 0; k < l.inputs; k += BLOCK)
        for (int64_t n = 0; n < l.outputs; n += BLOCK)
            transpose(l.weight + place_of(k, n, l.inputs), BLOCK, turned + place_of(n, k, l.outputs), BLOCK,
                      least(BLOCK, l.inputs - k), least(BLOCK, l.outputs - n));
}

/* the slopes of a layer's inputs x, which the ReLU before it made; factors: by which x was multiplied after that, and 0
   where the ReLU gave 0, or NULL */
static void backward(dense l, const float *turned, const float *x, const float *factors, const float *slopes, float *out,
                     int64_t rows, int64_t height, preview *next) {
    for (int64_t panel = 0; panel < panels_of(l.inputs); panel++)
        memset(out + panel_at(panel, height), 0, rows * BLOCK * sizeof(float));
    add_product(slopes, height, l.outputs, turned, out, height, rows, l.inputs, next);
    for (int64_t panel = 0; panel < panels_of(l.inputs); panel++)
        for (int64_t at = panel_at(panel, height); at < panel_at(panel, height) + rows * BLOCK; at++)
            if (factors)
                out[at] = factors[at] == 0 ? 0 : out[at] * factors[at];
            else
                out[at] = x[at] <= 0 ? 0 : out[at];
}

INLINE block sum_of_rows(const float *panel, int64_t rows) {
    block sum = no_block();
    for (int64_t row = 0; row < rows; row++)
        add_times(&sum, 1, load_block(panel + row * BLOCK));
    return sum;
}

/* memory that is cut into pieces of whole panels */
typedef struct {
    float *at; /* none while only the numbers are counted */
    int64_t used;
} scratch;

static float *cut(scratch *from, int64_t numbers) {
    float *piece = from->at ? from->at + from->used : NULL;
    from->used += panels_of(numbers) * BLOCK;
    return piece;
}

#endif

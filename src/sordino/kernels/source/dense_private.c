/* The sum of clipped gradients of a chain of dense layers: every example's gradient by all weights and biases is cut to a
   length before it is added. What a layer reads may have been multiplied by drawn factors, as dropout does.

   An example's gradient by a weight is the product of its slopes and its inputs, so its length is known from theirs, in
   double precision, and no example's gradient is ever formed. Batches are taken PART rows at a time; within a part rows
   are handled CHUNK by CHUNK, and sums panel by panel, so that the number of threads changes no bit. */
#include <stdlib.h>

#include "chain.h"

#define PART 512
#define CHUNK 32
#define LARGEST_INPUT 0x1p63 /* longer inputs would blow up what is lost where a scaled slope is too small to be stored */

typedef struct {
    int64_t inputs, outputs;
    const float *weight, *bias;             /* outputs x inputs; a bias may be none */
    int64_t of_weight, of_bias;             /* where their sums begin */
    const float *factors;                   /* examples x inputs: what multiplies the inputs of a later layer, or NULL */
} given;

typedef struct {
    dense is;
    float *weight, *bias, *turned, *total;  /* in panels */
    float *x, *factors, *slopes;            /* of the rows of a part; x: what the layer reads */
} layer;

typedef struct {
    const given *given;
    layer *layers;
    int64_t depth, height;
    const float *features;
    const int64_t *labels;
    double clip, largest;
    double *norms; /* of each example; infinite: lost */
} work;

static double squares_of(const float *row, int64_t count, int64_t height) {
    const float *rest = row + panel_at(count / BLOCK, height);
    double sums[BLOCK] = {0}, total = 0;
    for (const float *whole = row; whole < rest; whole += panel_at(1, height))
        for (int i = 0; i < BLOCK; i++)
            sums[i] += (double)whole[i] * whole[i];
    for (int64_t i = 0; i < count % BLOCK; i++)
        sums[i] += (double)rest[i] * rest[i];
    for (int i = 0; i < BLOCK; i++)
        total += sums[i];
    return total;
}

static void scale_row(float *row, int64_t count, int64_t height, float factor) {
    for (int64_t panel = 0; panel < panels_of(count); panel++)
        for (int i = 0; i < BLOCK; i++) {
            float *at = row + panel_at(panel, height) + i;
            *at = factor ? *at * factor : 0; /* NaN does not survive */
        }
}

/* an example's length, and its slopes scaled to the clip; a lost example becomes zero */
static void bound_row(const work *w, int64_t row, double *norm) {
    double sum = 0, longest = 0;
    for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
        const double x = squares_of(l->x + row * BLOCK, l->is.inputs, w->height);
        const double g = squares_of(l->slopes + row * BLOCK, l->is.outputs, w->height);
        sum += (x + (w->given[l - w->layers].bias != NULL)) * g;
        longest = x > longest ? x : longest;
    }
    const double length = sqrt(sum);
    const int kept = length <= w->largest && longest <= LARGEST_INPUT * LARGEST_INPUT; /* not if NaN */
    const float factor = !kept ? 0 : w->clip < length ? (float)(w->clip / length) : 1;
    for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
        if (factor != 1)
            scale_row(l->slopes + row * BLOCK, l->is.outputs, w->height, factor);
        if (!kept)
            scale_row(l->x + row * BLOCK, l->is.inputs, w->height, 0);
    }
    *norm = kept ? length : INFINITY;
}

/* what a layer reads, times the factors that were drawn for it; of those none is left where the ReLU gave 0 */
static void multiply(const work *w, const layer *l, int64_t first, int64_t from, int64_t to) {
    const given *g = w->given + (l - w->layers);
    for (int64_t row = from; g->factors && row < to; row++) {
        gather_row(g->factors + (first + row) * g->inputs, g->inputs, l->factors + row * BLOCK, w->height);
        for (int64_t panel = 0; panel < panels_of(g->inputs); panel++)
            for (int64_t i = 0, at = panel_at(panel, w->height) + row * BLOCK; i < BLOCK; i++, at++) {
                l->factors[at] = l->x[at] <= 0 ? 0 : l->factors[at];
                l->x[at] *= l->factors[at];
            }
    }
}

/* rows `from` to `to` of a part that begins at example `first`: forward, back, and bounded */
static int bound_chunk(const work *w, int64_t first, int64_t from, int64_t to) {
    const layer *last = w->layers + w->depth - 1;
    const int64_t rows = to - from, offset = from * BLOCK, classes = last->is.outputs, width = w->layers->is.inputs;
    preview next = {0};
    for (int64_t row = from; row < to; row++) {
        if (w->labels[first + row] < 0 || w->labels[first + row] >= classes)
            return BAD_ROW;
        gather_row(w->features + (first + row) * width, width, w->layers->x + row * BLOCK, w->height);
    }
    for (const layer *l = w->layers; l <= last; l++) {
        if (l > w->layers)
            multiply(w, l, first, from, to);
        forward(l->is, l->x + offset, (l < last ? l[1].x : l->slopes) + offset, rows, w->height, l < last, &next);
    }
    for (int64_t row = from; row < to; row++)
        softmax_slope(last->slopes + row * BLOCK, w->height, classes, w->labels[first + row], 1);
    for (const layer *l = last; l > w->layers; l--)
        backward(l->is, l->turned, l->x + offset, l->factors ? l->factors + offset : NULL, l->slopes + offset,
                 l[-1].slopes + offset, rows, w->height, &next);
    for (int64_t row = from; row < to; row++)
        bound_row(w, row, w->norms + first + row);
    return DONE;
}

/* what a part's rows add to the sums of BLOCK inputs of a layer; begins: to nothing */
static void add_inputs(const work *w, const layer *l, int64_t k, int64_t rows, int begins) {
    preview next = {0};
    add_outer_product(l->x, w->height, k, least(k + BLOCK, l->is.inputs), l->slopes, w->height, l->is.outputs,
                      l->total, l->total, l->is.inputs, rows, begins ? 0 : 1, 1, &next);
}

/* sums of BLOCK inputs of a layer, from panels to outputs x inputs */
static void hand_out(const work *w, const layer *l, int64_t k, float *total) {
    const given *g = w->given + (l - w->layers);
    for (int64_t n = 0; n < g->outputs; n += BLOCK)
        transpose(l->total + place_of(k, n, g->inputs), BLOCK, total + g->of_weight + n * g->inputs + k, g->inputs,
                  least(BLOCK, g->inputs - k), least(BLOCK, g->outputs - n));
}

static void add_biases(const work *w, int64_t rows, float *total) {
    for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
        const given *g = w->given + (l - w->layers);
        for (int64_t panel = 0; g->bias && panel < panels_of(g->outputs); panel++) {
            float sums[BLOCK];
            store_block(sums, sum_of_rows(l->slopes + panel_at(panel, w->height), rows));
            for (int64_t i = 0; i < least(BLOCK, g->outputs - panel * BLOCK); i++)
                total[g->of_bias + panel * BLOCK + i] += sums[i];
        }
    }
}

static void lay_out(work *w, scratch *from) {
    for (int64_t i = 0; i < w->depth; i++) {
        const given *g = w->given + i;
        const int64_t panels = panels_of(g->outputs);
        layer *l = w->layers + i;
        l->weight = cut(from, panel_at(panels, g->inputs));
        l->total = cut(from, panel_at(panels, g->inputs));
        l->turned = cut(from, i ? panel_at(panels_of(g->inputs), g->outputs) : 0);
        l->bias = cut(from, panels * BLOCK);
        l->x = cut(from, panel_at(panels_of(g->inputs), w->height));
        l->factors = g->factors ? cut(from, panel_at(panels_of(g->inputs), w->height)) : NULL;
        l->slopes = cut(from, panel_at(panels, w->height));
        l->is = (dense){g->inputs, g->outputs, l->weight, l->bias};
    }
}

/* what stays the same for all parts; columns that nobody reads are zero, since odd numbers there would take time */
static void unpack(const work *w, int64_t i) {
    const given *g = w->given + i;
    const layer *l = w->layers + i;
    const int64_t panels = panels_of(g->outputs);
    if (g->outputs % BLOCK)
        memset(l->weight + panel_at(panels - 1, g->inputs), 0, panel_at(1, g->inputs) * sizeof(float));
    memset(l->bias, 0, panels * BLOCK * sizeof(float));
    gather_weight(g->weight, g->inputs, g->outputs, l->weight);
    if (g->bias)
        memcpy(l->bias, g->bias, g->outputs * sizeof(float));
    if (!i)
        return;
    memset(l->turned, 0, panel_at(panels_of(g->inputs), g->outputs) * sizeof(float));
    turn(l->is, l->turned);
}

/* all chunks, then all sums, of one part after the other; called by every thread */
static void add_parts(const work *w, int64_t examples, float *total, int *wrong) {
    for (int64_t first = 0; first < examples; first += PART) {
        const int64_t rows = least(PART, examples - first);
#pragma omp for
        for (int64_t from = 0; from < rows; from += CHUNK) {
            const int found = bound_chunk(w, first, from, least(from + CHUNK, rows));
            if (found) {
#pragma omp atomic write
                *wrong = found;
            }
        }
        for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
#pragma omp for nowait
            for (int64_t k = 0; k < l->is.inputs; k += BLOCK) {
                add_inputs(w, l, k, rows, !first);
                if (first + PART >= examples)
                    hand_out(w, l, k, total);
            }
        }
#pragma omp single
        add_biases(w, rows, total);
    }
}

/* total: zero before; returns 0 if done, 1 without memory, 2 where a label is out of range */
int dense_private(const given *shapes, int64_t depth, const float *features, const int64_t *labels, int64_t examples,
                  double clip, double largest, float *total, double *norms, int threads) {
    work w = {.given = shapes,
              .layers = malloc(depth * sizeof(layer)),
              .depth = depth,
              .height = height_of(least(PART, examples)),
              .features = features,
              .labels = labels,
              .clip = clip,
              .largest = largest,
              .norms = norms};
    scratch counted = {0}, room = {0};
    int wrong = DONE;
    if (w.layers) {
        lay_out(&w, &counted);
        room.at = aligned_alloc(LINE_BYTES, counted.used * sizeof(float));
    }
    if (room.at) {
        lay_out(&w, &room);
        for (int64_t i = 0; i < depth; i++)
            unpack(&w, i);
#pragma omp parallel num_threads(threads) if (threads > 1)
        add_parts(&w, examples, total, &wrong);
    } else
        wrong = NO_MEMORY;
    free(room.at);
    free(w.layers);
    return wrong;
}

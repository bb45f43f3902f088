/* Whole clients trained by plain SGD: dense layers with ReLU between them, softmax cross-entropy averaged over each batch.

   One thread takes a client from its first batch to its last, so that weights and batch stay in that core's cache, and
   the number of threads changes no bit. There is one product, c = kept c + scale (a b): a tile of up to six rows of c and
   BLOCK columns stays in registers while a run of steps goes by. Weights lie in panels of BLOCK outputs, inputs x BLOCK
   each; the last panel is filled up with columns that nobody reads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

#define TILE 6
#ifndef RUN
#define RUN 128   /* steps at a time, and panels at a time: so many of b, and a tile of a, lie in the nearest cache */
#define PANELS 2
#endif
#define LINE_BYTES 64

enum { DONE, NO_MEMORY, BAD_ROW };

typedef struct {
    int64_t inputs, outputs, weight, bias; /* where they begin in the flat model; a bias at -1 is none */
} shape;

typedef struct {
    const float *start, *features;
    const int64_t *labels;
    float *update;
    int64_t examples, first_batch, batches;
} client;

typedef struct {
    const int64_t *rows;
    int64_t count;
} batch;

typedef struct {
    float kept, learning_rate;
} rates;

typedef struct {
    shape of;
    int64_t row;           /* from one row of outputs to the next */
    float *weight, *bias;  /* as trained so far */
    float *before, *below; /* as they were at the start */
    float *outputs;
} layer;

typedef struct {
    layer *layers;
    int64_t depth, input_row;
    float *inputs, *turned, *slopes[2];
    const float *start; /* that the layers know */
} worker;

typedef struct {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_step, c_row, steps;
    float kept, scale;
} operands;

INLINE void tile(int rows, operands o) {
    lanes low[TILE] = {0}, high[TILE] = {0};
    for (int64_t step = 0; step < o.steps; step++, o.a += o.a_step, o.b += o.b_step) {
        const lanes b_low = LOAD(o.b), b_high = LOAD(o.b + LANES);
        for (int i = 0; i < rows; i++)
            low[i] += o.a[i * o.a_row] * b_low, high[i] += o.a[i * o.a_row] * b_high;
    }
    for (int i = 0; i < rows; i++, o.c += o.c_row) {
        STORE(o.c, o.kept * LOAD(o.c) + o.scale * low[i]);
        STORE(o.c + LANES, o.kept * LOAD(o.c + LANES) + o.scale * high[i]);
    }
}

/* by panels: b is made of panels, and c lies in rows; by examples: a step is an example, and c is made of panels */
#define TILES(ROWS)                                                                                          \
    static void by_panels_##ROWS(operands o) {                                                               \
        o.a_step = 1, o.b_step = BLOCK;                                                                      \
        tile(ROWS, o);                                                                                       \
    }                                                                                                        \
    static void by_examples_##ROWS(operands o) {                                                             \
        o.a_row = 1, o.c_row = BLOCK;                                                                        \
        tile(ROWS, o);                                                                                       \
    }

TILES(6) TILES(5) TILES(4) TILES(3) TILES(2) TILES(1)

typedef void tile_of(operands);
static tile_of *const by_panels[TILE + 1] = {0,           by_panels_1, by_panels_2, by_panels_3,
                                             by_panels_4, by_panels_5, by_panels_6};
static tile_of *const by_examples[TILE + 1] = {0,             by_examples_1, by_examples_2, by_examples_3,
                                               by_examples_4, by_examples_5, by_examples_6};

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t panels_of(int64_t columns) { return (columns + BLOCK - 1) / BLOCK; }

/* an odd number of cache lines, so that the same column of many rows does not fall on few places of the cache */
static int64_t row_of(int64_t columns) { return (panels_of(columns) | 1) * BLOCK; }

/* panels begin b_panel and c_panel apart */
static void multiply(tile_of *const *tiles, operands all, int64_t rows, int64_t panels, int64_t b_panel, int64_t c_panel) {
    for (int64_t step = 0; step < all.steps; step += RUN)
        for (int64_t group = 0; group < panels; group += PANELS)
            for (int64_t row = 0; row < rows; row += TILE)
                for (int64_t panel = group; panel < least(group + PANELS, panels); panel++) {
                    operands o = all;
                    o.a += row * all.a_row + step * all.a_step;
                    o.b += panel * b_panel + step * all.b_step;
                    o.c += panel * c_panel + row * all.c_row;
                    o.steps = least(RUN, all.steps - step);
                    o.kept = step ? 1 : all.kept;
                    tiles[least(TILE, rows - row)](o);
                }
}

/* c += a b for b in panels */
static void add_product(const float *a, int64_t a_row, int64_t steps, const float *b, float *c, int64_t c_row,
                        int64_t rows, int64_t columns) {
    const operands all = {.a = a, .a_row = a_row, .a_step = 1, .b = b, .b_step = BLOCK, .c = c, .c_row = c_row,
                          .steps = steps, .kept = 1, .scale = 1};
    multiply(by_panels, all, rows, panels_of(columns), steps * BLOCK, BLOCK);
}

static void forward(const layer *l, const float *x, int64_t x_row, int64_t rows, int rectify) {
    const int64_t wide = panels_of(l->of.outputs) * BLOCK;
    for (int64_t row = 0; row < rows; row++)
        memcpy(l->outputs + row * l->row, l->bias, wide * sizeof(float));
    add_product(x, x_row, l->of.inputs, l->weight, l->outputs, l->row, rows, l->of.outputs);
    for (int64_t row = 0; rectify && row < rows; row++)
        for (int64_t at = row * l->row; at < row * l->row + wide; at++)
            l->outputs[at] = l->outputs[at] <= 0 ? 0 : l->outputs[at]; /* NaN stays */
}

/* from a row of logits to the slope of its loss */
static void softmax_slope(float *logits, int64_t classes, int64_t label, float weight) {
    float largest = logits[0], sum = 0;
    for (int64_t k = 1; k < classes; k++)
        largest = logits[k] > largest ? logits[k] : largest;
    for (int64_t k = 0; k < classes; k++)
        sum += logits[k] = expf(logits[k] - largest);
    for (int64_t k = 0; k < classes; k++)
        logits[k] = (logits[k] / sum - (k == label)) * weight;
}

/* the slopes of a layer's inputs, which the ReLU before it made */
static void backward(const layer *l, const float *x, int64_t x_row, const float *slopes, float *out, float *turned,
                     int64_t rows) {
    const int64_t inputs = l->of.inputs, outputs = l->of.outputs, wide = panels_of(inputs) * BLOCK;
    for (int64_t k = 0; k < wide; k++)
        for (int64_t n = 0; n < outputs; n++)
            turned[(k / BLOCK * outputs + n) * BLOCK + k % BLOCK] =
                k < inputs ? l->weight[(n / BLOCK * inputs + k) * BLOCK + n % BLOCK] : 0;
    for (int64_t row = 0; row < rows; row++)
        memset(out + row * x_row, 0, wide * sizeof(float));
    add_product(slopes, l->row, outputs, turned, out, x_row, rows, inputs);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = row * x_row; at < row * x_row + wide; at++)
            out[at] = x[at] <= 0 ? 0 : out[at];
}

static void descend(layer *l, const float *x, int64_t x_row, const float *slopes, int64_t rows, rates r) {
    const operands all = {.a = x, .a_row = 1, .a_step = x_row, .b = slopes, .b_step = l->row, .c = l->weight,
                          .c_row = BLOCK, .steps = rows, .kept = r.kept, .scale = -r.learning_rate};
    multiply(by_examples, all, l->of.inputs, panels_of(l->of.outputs), BLOCK, l->of.inputs * BLOCK);
    for (int64_t n = 0; l->of.bias >= 0 && n < l->of.outputs; n++) {
        float sum = 0;
        for (int64_t row = 0; row < rows; row++)
            sum += slopes[row * l->row + n];
        l->bias[n] = r.kept * l->bias[n] - r.learning_rate * sum;
    }
}

/* the batch's rows side by side; returns what is wrong with them */
static int gather(const worker *w, const client *who, const batch *b, int64_t classes) {
    const int64_t width = w->layers[0].of.inputs;
    for (int64_t row = 0; row < b->count; row++) {
        const int64_t at = b->rows[row];
        if (at < 0 || at >= who->examples || who->labels[at] < 0 || who->labels[at] >= classes)
            return BAD_ROW;
        memcpy(w->inputs + row * w->input_row, who->features + at * width, width * sizeof(float));
    }
    return DONE;
}

static int step(worker *w, const client *who, const batch *b, rates r) {
    const layer *last = w->layers + w->depth - 1;
    const int wrong = gather(w, who, b, last->of.outputs);
    if (wrong)
        return wrong;
    for (int64_t i = 0; i < w->depth; i++)
        forward(w->layers + i, i ? w->layers[i - 1].outputs : w->inputs, i ? w->layers[i - 1].row : w->input_row, b->count,
                i + 1 < w->depth);
    for (int64_t row = 0; row < b->count; row++)
        softmax_slope(last->outputs + row * last->row, last->of.outputs, who->labels[b->rows[row]], 1.f / b->count);
    const float *slopes = last->outputs;
    for (int64_t i = w->depth - 1; i > 0; i--) {
        const layer *below = w->layers + i - 1;
        backward(w->layers + i, below->outputs, below->row, slopes, w->slopes[i % 2], w->turned, b->count);
        descend(w->layers + i, below->outputs, below->row, slopes, b->count, r);
        slopes = w->slopes[i % 2];
    }
    descend(w->layers, w->inputs, w->input_row, slopes, b->count, r);
    return DONE;
}

/* every layer's weight and bias as they are at the start, in panels */
static void unpack(worker *w, const float *start) {
    for (layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t inputs = l->of.inputs;
        for (int64_t n = 0; n < panels_of(l->of.outputs) * BLOCK; n++) {
            const int inside = n < l->of.outputs;
            for (int64_t k = 0; k < inputs; k++)
                l->before[(n / BLOCK * inputs + k) * BLOCK + n % BLOCK] =
                    inside ? start[l->of.weight + n * inputs + k] : 0;
            l->below[n] = inside && l->of.bias >= 0 ? start[l->of.bias + n] : 0;
        }
    }
    w->start = start;
}

static void begin(worker *w, const float *start) {
    if (w->start != start)
        unpack(w, start);
    for (layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t wide = panels_of(l->of.outputs) * BLOCK;
        memcpy(l->weight, l->before, wide * l->of.inputs * sizeof(float));
        memcpy(l->bias, l->below, wide * sizeof(float));
    }
}

static void finish(const worker *w, float *update) {
    for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t inputs = l->of.inputs;
        for (int64_t n = 0; n < l->of.outputs; n++) {
            const int64_t from = n / BLOCK * inputs * BLOCK + n % BLOCK;
            for (int64_t k = 0; k < inputs; k++)
                update[l->of.weight + n * inputs + k] = l->weight[from + k * BLOCK] - l->before[from + k * BLOCK];
            if (l->of.bias >= 0)
                update[l->of.bias + n] = l->bias[n] - l->below[n];
        }
    }
}

static int train(worker *w, const client *who, const batch *batches, rates r) {
    begin(w, who->start);
    for (int64_t i = 0; i < who->batches; i++) {
        const int wrong = step(w, who, batches + who->first_batch + i, r);
        if (wrong)
            return wrong;
    }
    finish(w, who->update);
    return DONE;
}

typedef struct {
    float *at; /* none while only the numbers are counted */
    int64_t used;
} scratch;

static float *cut(scratch *from, int64_t numbers) {
    float *piece = from->at ? from->at + from->used : NULL;
    from->used += panels_of(numbers) * BLOCK;
    return piece;
}

static void lay_out(worker *w, const shape *shapes, int64_t most_rows, scratch *from) {
    int64_t widest = 0, largest = 0;
    w->input_row = row_of(shapes[0].inputs);
    w->inputs = cut(from, most_rows * w->input_row);
    for (int64_t i = 0; i < w->depth; i++) {
        const int64_t inputs = shapes[i].inputs, wide = panels_of(shapes[i].outputs) * BLOCK, row = row_of(shapes[i].outputs);
        const int64_t turned = panels_of(inputs) * BLOCK * shapes[i].outputs;
        w->layers[i] = (layer){.of = shapes[i],
                               .row = row,
                               .weight = cut(from, inputs * wide),
                               .before = cut(from, inputs * wide),
                               .bias = cut(from, wide),
                               .below = cut(from, wide),
                               .outputs = cut(from, most_rows * row)};
        widest = row > widest ? row : widest;
        largest = i && turned > largest ? turned : largest;
    }
    w->turned = cut(from, largest);
    w->slopes[0] = cut(from, most_rows * widest), w->slopes[1] = cut(from, most_rows * widest);
}

/* one block of memory for everything; returns it, or NULL */
static void *hire(worker *w, const shape *shapes, int64_t depth, int64_t most_rows) {
    scratch counted = {0}, given = {0};
    *w = (worker){.layers = malloc(depth * sizeof(layer)), .depth = depth};
    if (!w->layers)
        return NULL;
    lay_out(w, shapes, most_rows, &counted);
    given.at = aligned_alloc(LINE_BYTES, counted.used * sizeof(float));
    if (given.at)
        lay_out(w, shapes, most_rows, &given);
    return given.at;
}

/* returns 0 if done, 1 without memory, 2 where a row or label is out of range */
int dense_clients(const shape *shapes, const client *clients, const batch *batches, int64_t depth, int64_t count,
                  int64_t most_rows, double learning_rate, double kept, int threads) {
    const rates r = {.kept = (float)kept, .learning_rate = (float)learning_rate};
    int wrong = DONE;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        worker w;
        void *memory = hire(&w, shapes, depth, most_rows);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < count; i++) {
            const int found = memory ? train(&w, clients + i, batches, r) : NO_MEMORY;
            if (found) {
#pragma omp atomic write
                wrong = found;
            }
        }
        free(memory);
        free(w.layers);
    }
    return wrong;
}

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
#define RUN 128  /* steps at a time */
#define PANELS 2 /* at a time: so much of b, and a tile of a, lie in the nearest cache */
#define AHEAD 8  /* cache lines of the next batch that each tile asks for */
#define LINE_BYTES 64

enum { DONE, NO_MEMORY, BAD_ROW };

typedef struct {
    int64_t inputs, outputs, weight, bias; /* where they begin in the flat model; a bias at -1 is none */
} shape;

typedef struct {
    const float *start, *features;
    const int64_t *labels, *const *orders; /* orders: the rows of each epoch */
    float *update;
    int64_t examples;
} client;

typedef struct {
    const int64_t *rows;
    int64_t count;
} batch;

typedef struct {
    int64_t epochs, batch_rows;
    float kept, learning_rate;
} plan;

typedef struct {
    shape of;
    int64_t row;           /* from one row of outputs to the next */
    float *weight, *bias;  /* as trained so far */
    float *before, *below; /* as they were at the start */
    float *outputs;
} layer;

typedef struct {
    const float *features;
    const int64_t *rows;
    int64_t count, column;
} preview;

typedef struct {
    layer *layers;
    preview next;
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

INLINE void tile(int rows, const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t b_step, float *c,
                 int64_t c_row, const operands *o) {
    lanes low[TILE], high[TILE];
    for (int i = 0; i < rows; i++)
        low[i] = high[i] = (lanes){0};
    int64_t steps = o->steps;
    do { /* there is at least one step, and to know it keeps the tile in registers */
        const lanes b_low = LOAD(b), b_high = LOAD(b + LANES);
        for (int i = 0; i < rows; i++)
            low[i] += a[i * a_row] * b_low, high[i] += a[i * a_row] * b_high;
        a += a_step, b += b_step;
    } while (--steps);
    for (int i = 0; i < rows; i++, c += c_row) {
        STORE(c, o->kept * LOAD(c) + o->scale * low[i]);
        STORE(c + LANES, o->kept * LOAD(c + LANES) + o->scale * high[i]);
    }
}

/* by panels: b is made of panels, and c lies in rows; by examples: a step is an example, and c is made of panels */
#define TILES(ROWS)                                                                                          \
    static void by_panels_##ROWS(const operands *o) {                                                        \
        tile(ROWS, o->a, o->a_row, 1, o->b, BLOCK, o->c, o->c_row, o);                                       \
    }                                                                                                        \
    static void by_examples_##ROWS(const operands *o) {                                                      \
        tile(ROWS, o->a, 1, o->a_step, o->b, o->b_step, o->c, BLOCK, o);                                     \
    }

TILES(6) TILES(5) TILES(4) TILES(3) TILES(2) TILES(1)

typedef void tile_of(const operands *);
static tile_of *const by_panels[TILE + 1] = {0,           by_panels_1, by_panels_2, by_panels_3,
                                             by_panels_4, by_panels_5, by_panels_6};
static tile_of *const by_examples[TILE + 1] = {0,             by_examples_1, by_examples_2, by_examples_3,
                                               by_examples_4, by_examples_5, by_examples_6};

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t panels_of(int64_t columns) { return (columns + BLOCK - 1) / BLOCK; }

/* an odd number of cache lines, so that the same column of many rows does not fall on few places of the cache */
static int64_t row_of(int64_t columns) { return (panels_of(columns) | 1) * BLOCK; }

/* a little of the next batch comes nearer while there is something to compute */
static void look_ahead(preview *next, int64_t width) {
    for (int line = 0; line < AHEAD && next->count; line++) {
        __builtin_prefetch(next->features + *next->rows * width + next->column);
        next->column += BLOCK;
        if (next->column >= width)
            next->column = 0, next->rows++, next->count--;
    }
}

/* panels begin b_panel and c_panel apart */
static void multiply(worker *w, tile_of *const *tiles, operands all, int64_t rows, int64_t panels, int64_t b_panel,
                     int64_t c_panel) {
    operands o = all;
    for (int64_t step = 0; step < all.steps; step += RUN)
        for (int64_t group = 0; group < panels; group += PANELS)
            for (int64_t row = 0; row < rows; row += TILE)
                for (int64_t panel = group; panel < least(group + PANELS, panels); panel++) {
                    o.a = all.a + row * all.a_row + step * all.a_step;
                    o.b = all.b + panel * b_panel + step * all.b_step;
                    o.c = all.c + panel * c_panel + row * all.c_row;
                    o.steps = least(RUN, all.steps - step);
                    o.kept = step ? 1 : all.kept;
                    tiles[least(TILE, rows - row)](&o);
                    look_ahead(&w->next, w->layers[0].of.inputs);
                }
}

/* c += a b for b in panels */
static void add_product(worker *w, const float *a, int64_t a_row, int64_t steps, const float *b, float *c, int64_t c_row,
                        int64_t rows, int64_t columns) {
    const operands all = {.a = a, .a_row = a_row, .a_step = 1, .b = b, .b_step = BLOCK, .c = c, .c_row = c_row,
                          .steps = steps, .kept = 1, .scale = 1};
    multiply(w, by_panels, all, rows, panels_of(columns), steps * BLOCK, BLOCK);
}

static void forward(worker *w, const layer *l, const float *x, int64_t x_row, int64_t rows, int rectify) {
    const int64_t wide = panels_of(l->of.outputs) * BLOCK;
    for (int64_t row = 0; row < rows; row++)
        memcpy(l->outputs + row * l->row, l->bias, wide * sizeof(float));
    add_product(w, x, x_row, l->of.inputs, l->weight, l->outputs, l->row, rows, l->of.outputs);
    for (int64_t row = 0; rectify && row < rows; row++)
        for (int64_t at = row * l->row; at < row * l->row + wide; at++)
            l->outputs[at] = l->outputs[at] <= 0 ? 0 : l->outputs[at]; /* NaN stays */
}

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

static void transpose(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t rows, int64_t columns) {
    const int64_t whole_rows = rows / LANES * LANES, whole_columns = columns / LANES * LANES;
    for (int64_t row = 0; row < whole_rows; row += LANES)
        for (int64_t column = 0; column < whole_columns; column += LANES)
            transpose_lanes(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = row < whole_rows ? whole_columns : 0; column < columns; column++)
            to[column * to_row + row] = from[row * from_row + column];
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
static void backward(worker *w, const layer *l, const float *x, int64_t x_row, const float *slopes, float *out,
                     int64_t rows) {
    const int64_t inputs = l->of.inputs, outputs = l->of.outputs, wide = panels_of(inputs) * BLOCK;
    for (int64_t k = 0; k < inputs; k += BLOCK)
        for (int64_t n = 0; n < outputs; n += BLOCK)
            transpose(l->weight + n * inputs + k * BLOCK, BLOCK, w->turned + k * outputs + n * BLOCK, BLOCK,
                      least(BLOCK, inputs - k), least(BLOCK, outputs - n));
    for (int64_t row = 0; row < rows; row++)
        memset(out + row * x_row, 0, wide * sizeof(float));
    add_product(w, slopes, l->row, outputs, w->turned, out, x_row, rows, inputs);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = row * x_row; at < row * x_row + wide; at++)
            out[at] = x[at] <= 0 ? 0 : out[at];
}

static void descend(worker *w, layer *l, const float *x, int64_t x_row, const float *slopes, int64_t rows, plan p) {
    const operands all = {.a = x, .a_row = 1, .a_step = x_row, .b = slopes, .b_step = l->row, .c = l->weight,
                          .c_row = BLOCK, .steps = rows, .kept = p.kept, .scale = -p.learning_rate};
    multiply(w, by_examples, all, l->of.inputs, panels_of(l->of.outputs), BLOCK, l->of.inputs * BLOCK);
    for (int64_t n = 0; l->of.bias >= 0 && n < l->of.outputs; n += LANES) {
        lanes sum = {0};
        for (int64_t row = 0; row < rows; row++)
            sum += LOAD(slopes + row * l->row + n);
        STORE(l->bias + n, p.kept * LOAD(l->bias + n) - p.learning_rate * sum);
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

static int step(worker *w, const client *who, const batch *b, plan p) {
    const layer *last = w->layers + w->depth - 1;
    const int wrong = gather(w, who, b, last->of.outputs);
    if (wrong)
        return wrong;
    for (int64_t i = 0; i < w->depth; i++)
        forward(w, w->layers + i, i ? w->layers[i - 1].outputs : w->inputs, i ? w->layers[i - 1].row : w->input_row, b->count,
                i + 1 < w->depth);
    for (int64_t row = 0; row < b->count; row++)
        softmax_slope(last->outputs + row * last->row, last->of.outputs, who->labels[b->rows[row]], 1.f / b->count);
    const float *slopes = last->outputs;
    for (int64_t i = w->depth - 1; i > 0; i--) {
        const layer *below = w->layers + i - 1;
        backward(w, w->layers + i, below->outputs, below->row, slopes, w->slopes[i % 2], b->count);
        descend(w, w->layers + i, below->outputs, below->row, slopes, b->count, p);
        slopes = w->slopes[i % 2];
    }
    descend(w, w->layers, w->inputs, w->input_row, slopes, b->count, p);
    return DONE;
}

/* every layer's weight and bias as they are at the start, in panels */
static void unpack(worker *w, const float *start) {
    for (layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t inputs = l->of.inputs, outputs = l->of.outputs;
        for (int64_t n = 0; n < outputs; n += BLOCK)
            transpose(start + l->of.weight + n * inputs, inputs, l->before + n * inputs, BLOCK, least(BLOCK, outputs - n),
                      inputs);
        if (l->of.bias >= 0)
            memcpy(l->below, start + l->of.bias, outputs * sizeof(float));
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
        const int64_t inputs = l->of.inputs, outputs = l->of.outputs;
        for (int64_t i = 0; i < panels_of(outputs) * BLOCK * inputs; i++)
            l->weight[i] -= l->before[i];
        for (int64_t n = 0; n < outputs; n += BLOCK)
            transpose(l->weight + n * inputs, BLOCK, update + l->of.weight + n * inputs, inputs, inputs,
                      least(BLOCK, outputs - n));
        for (int64_t n = 0; l->of.bias >= 0 && n < outputs; n++)
            update[l->of.bias + n] = l->bias[n] - l->below[n];
    }
}

static int64_t batches_of(const client *who, plan p) { return (who->examples + p.batch_rows - 1) / p.batch_rows; }

/* beyond the last one, an empty batch */
static batch batch_at(const client *who, int64_t number, plan p) {
    const int64_t in_epoch = batches_of(who, p);
    if (number >= p.epochs * in_epoch)
        return (batch){0};
    const int64_t from = number % in_epoch * p.batch_rows;
    return (batch){.rows = who->orders[number / in_epoch] + from, .count = least(p.batch_rows, who->examples - from)};
}

/* then: the client whose turn probably comes after this one's */
static int train(worker *w, const client *who, const client *then, plan p) {
    begin(w, who->start);
    for (int64_t number = 0; number < p.epochs * batches_of(who, p); number++) {
        const batch now = batch_at(who, number, p), next = batch_at(who, number + 1, p), other = batch_at(then, 0, p);
        w->next = next.count ? (preview){who->features, next.rows, next.count, 0}
                             : (preview){then->features, other.rows, other.count, 0};
        const int wrong = step(w, who, &now, p);
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
    if (!given.at)
        return NULL;
    memset(given.at, 0, counted.used * sizeof(float));
    lay_out(w, shapes, most_rows, &given);
    return given.at;
}

/* returns 0 if done, 1 without memory, 2 where a row or label is out of range */
int dense_clients(const shape *shapes, const client *clients, int64_t depth, int64_t count, int64_t epochs,
                  int64_t batch_rows, double learning_rate, double kept, int threads) {
    const plan p = {epochs, batch_rows, (float)kept, (float)learning_rate};
    int64_t most_rows = 0;
    int wrong = DONE;
    for (const client *who = clients; who < clients + count; who++)
        most_rows = who->examples > most_rows ? who->examples : most_rows;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        worker w;
        void *memory = hire(&w, shapes, depth, least(most_rows, batch_rows));
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < count; i++) {
            const int found = memory ? train(&w, clients + i, clients + least(i + threads, count - 1), p) : NO_MEMORY;
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

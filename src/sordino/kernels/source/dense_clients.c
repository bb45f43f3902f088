/* Whole clients trained by plain SGD: dense layers with ReLU between them, softmax cross-entropy averaged over a batch.

   One thread takes a client from its first batch to its last, so that weights and batch stay in that core's cache, and
   the number of threads changes no bit. Weights lie in panels of BLOCK outputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "panels.h"

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
    layer *layers;
    preview next;
    int64_t depth, input_row;
    float *inputs, *turned, *slopes[2];
    const float *start; /* that the layers know */
} worker;

static void forward(worker *w, const layer *l, const float *x, int64_t x_row, int64_t rows, int rectify) {
    const int64_t wide = panels_of(l->of.outputs) * BLOCK;
    for (int64_t row = 0; row < rows; row++)
        memcpy(l->outputs + row * l->row, l->bias, wide * sizeof(float));
    add_product(x, x_row, l->of.inputs, l->weight, l->outputs, l->row, rows, l->of.outputs, &w->next);
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
static void backward(worker *w, const layer *l, const float *x, int64_t x_row, const float *slopes, float *out,
                     int64_t rows) {
    const int64_t inputs = l->of.inputs, outputs = l->of.outputs, wide = panels_of(inputs) * BLOCK;
    for (int64_t k = 0; k < inputs; k += BLOCK)
        for (int64_t n = 0; n < outputs; n += BLOCK)
            transpose(l->weight + n * inputs + k * BLOCK, BLOCK, w->turned + k * outputs + n * BLOCK, BLOCK,
                      least(BLOCK, inputs - k), least(BLOCK, outputs - n));
    for (int64_t row = 0; row < rows; row++)
        memset(out + row * x_row, 0, wide * sizeof(float));
    add_product(slopes, l->row, outputs, w->turned, out, x_row, rows, inputs, &w->next);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = row * x_row; at < row * x_row + wide; at++)
            out[at] = x[at] <= 0 ? 0 : out[at];
}

static void descend(worker *w, layer *l, const float *x, int64_t x_row, const float *slopes, int64_t rows, plan p) {
    add_outer_product(x, x_row, l->of.inputs, slopes, l->row, l->of.outputs, l->weight, rows, p.kept, -p.learning_rate,
                      &w->next);
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
        forward(w, w->layers + i, i ? w->layers[i - 1].outputs : w->inputs, i ? w->layers[i - 1].row : w->input_row,
                b->count, i + 1 < w->depth);
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
            transpose(start + l->of.weight + n * inputs, inputs, l->before + n * inputs, BLOCK,
                      least(BLOCK, outputs - n), inputs);
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
    const int64_t width = w->layers[0].of.inputs;
    begin(w, who->start);
    for (int64_t number = 0; number < p.epochs * batches_of(who, p); number++) {
        const batch now = batch_at(who, number, p), next = batch_at(who, number + 1, p), other = batch_at(then, 0, p);
        w->next = next.count ? (preview){who->features, next.rows, next.count, width, 0}
                             : (preview){then->features, other.rows, other.count, width, 0};
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
        const int64_t inputs = shapes[i].inputs, outputs = shapes[i].outputs;
        const int64_t wide = panels_of(outputs) * BLOCK, row = row_of(outputs);
        const int64_t turned = panels_of(inputs) * BLOCK * outputs;
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

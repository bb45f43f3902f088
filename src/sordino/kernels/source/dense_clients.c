/* Whole clients trained by plain SGD: dense layers with ReLU between them, softmax cross-entropy averaged over a batch.

   One thread takes a client from its first batch to its last, so that weights and batch stay in that core's cache, and
   the number of threads changes no bit. Batches, outputs and weights lie in panels; a weight has a row for each input. */
#include <stdlib.h>

#include "chain.h"

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
    float *weight, *bias;  /* as trained so far */
    float *before, *below; /* as they were at the start */
    float *outputs;
} layer;

typedef struct {
    layer *layers;
    preview next;
    int64_t depth, height; /* of panels of batches */
    int begun;             /* whether weights differ from the start's */
    float *inputs, *turned, *slopes[2];
    const float *start; /* that the layers know */
} worker;

/* the layer as it is now: before the first step its weight is the start's */
static dense now(const worker *w, const layer *l) {
    return (dense){l->of.inputs, l->of.outputs, w->begun ? l->weight : l->before, l->bias};
}

static void descend(worker *w, layer *l, const float *x, const float *slopes, int64_t rows, plan p) {
    add_outer_product(x, w->height, 0, l->of.inputs, slopes, w->height, l->of.outputs, now(w, l).weight, l->weight,
                      l->of.inputs, rows, p.kept, -p.learning_rate, &w->next);
    for (int64_t panel = 0; l->of.bias >= 0 && panel < panels_of(l->of.outputs); panel++) {
        const block sum = sum_of_rows(slopes + panel_at(panel, w->height), rows);
        for (int64_t at = panel * BLOCK, v = 0; v < VECTORS; v++)
            STORE(l->bias + at + v * LANES, p.kept * LOAD(l->bias + at + v * LANES) - p.learning_rate * sum.part[v]);
    }
}

/* the batch's rows, in panels; returns what is wrong with them */
static int gather(const worker *w, const client *who, const batch *b, int64_t classes) {
    const int64_t width = w->layers[0].of.inputs;
    for (int64_t row = 0; row < b->count; row++) {
        const int64_t at = b->rows[row];
        if (at < 0 || at >= who->examples || who->labels[at] < 0 || who->labels[at] >= classes)
            return BAD_ROW;
        gather_row(who->features + at * width, width, w->inputs + row * BLOCK, w->height);
    }
    return DONE;
}

static int step(worker *w, const client *who, const batch *b, plan p) {
    const layer *last = w->layers + w->depth - 1;
    const int wrong = gather(w, who, b, last->of.outputs);
    if (wrong)
        return wrong;
    for (int64_t i = 0; i < w->depth; i++)
        forward(now(w, w->layers + i), i ? w->layers[i - 1].outputs : w->inputs, w->layers[i].outputs, b->count,
                w->height, i + 1 < w->depth, &w->next);
    for (int64_t row = 0; row < b->count; row++)
        softmax_slope(last->outputs + row * BLOCK, w->height, last->of.outputs, who->labels[b->rows[row]],
                      1.f / b->count);
    const float *slopes = last->outputs;
    for (int64_t i = w->depth - 1; i > 0; i--) {
        const layer *below = w->layers + i - 1;
        turn(now(w, w->layers + i), w->turned);
        backward(now(w, w->layers + i), w->turned, below->outputs, NULL, slopes, w->slopes[i % 2], b->count, w->height,
                 &w->next);
        descend(w, w->layers + i, below->outputs, slopes, b->count, p);
        slopes = w->slopes[i % 2];
    }
    descend(w, w->layers, w->inputs, slopes, b->count, p);
    w->begun = 1;
    return DONE;
}

/* every layer's weight and bias as they are at the start, in panels */
static void unpack(worker *w, const float *start) {
    for (layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t inputs = l->of.inputs, outputs = l->of.outputs;
        gather_weight(start + l->of.weight, inputs, outputs, l->before);
        if (l->of.bias >= 0)
            memcpy(l->below, start + l->of.bias, outputs * sizeof(float));
    }
    w->start = start;
}

/* weights are copied by the first step, which reads those of the start */
static void begin(worker *w, const float *start) {
    if (w->start != start)
        unpack(w, start);
    for (layer *l = w->layers; l < w->layers + w->depth; l++)
        memcpy(l->bias, l->below, panels_of(l->of.outputs) * BLOCK * sizeof(float));
    w->begun = 0;
}

static void finish(const worker *w, float *update) {
    float room[BLOCK * BLOCK];
    for (const layer *l = w->layers; l < w->layers + w->depth; l++) {
        const int64_t inputs = l->of.inputs, outputs = l->of.outputs;
        for (int64_t n = 0; n < outputs; n += BLOCK)
            for (int64_t k = 0; k < inputs; k += BLOCK) {
                const int64_t high = least(BLOCK, inputs - k), from = place_of(k, n, inputs);
                for (int64_t at = 0; at < high * BLOCK; at += LANES)
                    STORE(room + at, LOAD(now(w, l).weight + from + at) - LOAD(l->before + from + at));
                transpose(room, BLOCK, update + l->of.weight + n * inputs + k, inputs, high,
                          least(BLOCK, outputs - n));
            }
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

static void lay_out(worker *w, const shape *shapes, int64_t most_rows, scratch *from) {
    int64_t widest = 0, largest = 0;
    w->height = height_of(most_rows);
    w->inputs = cut(from, panel_at(panels_of(shapes[0].inputs), w->height));
    for (int64_t i = 0; i < w->depth; i++) {
        const int64_t inputs = shapes[i].inputs, outputs = shapes[i].outputs, panels = panels_of(outputs);
        const int64_t turned = panel_at(panels_of(inputs), outputs);
        w->layers[i] = (layer){.of = shapes[i],
                               .weight = cut(from, panel_at(panels, inputs)),
                               .before = cut(from, panel_at(panels, inputs)),
                               .bias = cut(from, panels * BLOCK),
                               .below = cut(from, panels * BLOCK),
                               .outputs = cut(from, panel_at(panels, w->height))};
        widest = panels > widest ? panels : widest;
        largest = i && turned > largest ? turned : largest;
    }
    w->turned = cut(from, largest);
    w->slopes[0] = cut(from, panel_at(widest, w->height)), w->slopes[1] = cut(from, panel_at(widest, w->height));
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

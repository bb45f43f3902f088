/* Products of small matrices, c = kept from + scale (a b): a tile of up to TILE rows and BLOCK columns of c stays in
   registers while a run of steps goes by.

   All matrices lie in panels of BLOCK columns, one row of a panel after the other, so that neighbours are a fixed way
   apart; the last panel is filled up with columns that nobody reads. Panels begin `height` rows apart. */
#ifndef SORDINO_PANELS_H
#define SORDINO_PANELS_H

#include "lanes.h"

#define RUN 128  /* steps at a time, a multiple of BLOCK */
#define PANELS 2 /* at a time: so much of b, and a tile of a, lie in the nearest cache */
#define AHEAD 10 /* cache lines that each tile asks for of what is read next */

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t panels_of(int64_t columns) { return (columns + BLOCK - 1) / BLOCK; }

/* an odd number of cache lines, so that panels do not fall on few places of the cache */
static int64_t height_of(int64_t rows) { return rows | 1; }

/* where a panel begins, and where the column of a row lies */
static int64_t panel_at(int64_t panel, int64_t height) { return panel * height * BLOCK; }

static int64_t place_of(int64_t row, int64_t column, int64_t height) {
    return panel_at(column / BLOCK, height) + row * BLOCK + column % BLOCK;
}

typedef struct {
    const float *a, *b, *from;
    float *c;
    int64_t a_height, steps;
    float kept, scale;
} operands;

/* where nothing is kept, nothing is read */
INLINE void keep_tile(int rows, const block *sums, const operands *o) {
    for (int i = 0; i < rows; i++)
        for (int at = i * BLOCK, v = 0; v < VECTORS; v++, at += LANES) {
            lanes value = o->scale * sums[i].part[v];
            if (o->kept)
                value += o->kept * LOAD(o->from + at);
            STORE(o->c + at, value);
        }
}

/* rows of a by a panel of b: a step is a column of a and a row of b */
INLINE void rows_tile(int rows, const operands *o) {
    const float *a = o->a, *b = o->b;
    block sums[TILE];
    for (int i = 0; i < rows; i++)
        sums[i] = no_block();
    for (int64_t left = o->steps; left > 0; left -= BLOCK, a += o->a_height * BLOCK)
        for (int64_t step = 0; step < least(left, BLOCK); step++, b += BLOCK) {
            const block of_b = load_block(b);
            for (int i = 0; i < rows; i++)
                add_times(&sums[i], a[i * BLOCK + step], of_b);
        }
    keep_tile(rows, sums, o);
}

/* columns of a, turned into rows, by a panel of b: a step is a row of both */
INLINE void columns_tile(int rows, const operands *o) {
    const float *a = o->a, *b = o->b;
    block sums[TILE];
    for (int i = 0; i < rows; i++)
        sums[i] = no_block();
    int64_t steps = o->steps;
    do { /* there is at least one step, and to know it keeps the tile in registers */
        const block of_b = load_block(b);
        for (int i = 0; i < rows; i++)
            add_times(&sums[i], a[i], of_b);
        a += BLOCK, b += BLOCK;
    } while (--steps);
    keep_tile(rows, sums, o);
}

#define TILES(ROWS)                                                                                          \
    static void by_rows_##ROWS(const operands *o) { rows_tile(ROWS, o); }                                    \
    static void by_columns_##ROWS(const operands *o) { columns_tile(ROWS, o); }

EACH_TILE(TILES)

typedef void tile_of(const operands *);
static tile_of *const by_rows[TILE + 1] = TABLE_OF(by_rows);
static tile_of *const by_columns[TILE + 1] = TABLE_OF(by_columns);

/* what will be read soon: these rows of a matrix of this width, which lies row by row */
typedef struct {
    const float *matrix;
    const int64_t *rows;
    int64_t count, width, column;
} preview;

/* a little of it comes nearer while there is something to compute */
static void look_ahead(preview *next) {
    for (int line = 0; line < AHEAD && next->count; line++) {
        __builtin_prefetch(next->matrix + *next->rows * next->width + next->column, 0, 2);
        next->column += BLOCK;
        if (next->column >= next->width)
            next->column = 0, next->rows++, next->count--;
    }
}

/* c += a b: a of `rows` rows and `steps` columns, b of `steps` rows in panels of just that height */
static void add_product(const float *a, int64_t a_height, int64_t steps, const float *b, float *c, int64_t c_height,
                        int64_t rows, int64_t columns, preview *next) {
    const int64_t panels = panels_of(columns);
    for (int64_t step = 0; step < steps; step += RUN)
        for (int64_t group = 0; group < panels; group += PANELS)
            for (int64_t row = 0; row < rows; row += TILE)
                for (int64_t panel = group; panel < least(group + PANELS, panels); panel++) {
                    float *to = c + panel_at(panel, c_height) + row * BLOCK;
                    const operands o = {.a = a + place_of(row, step, a_height),
                                        .b = b + panel_at(panel, steps) + step * BLOCK,
                                        .from = to,
                                        .c = to,
                                        .a_height = a_height,
                                        .steps = least(RUN, steps - step),
                                        .kept = 1,
                                        .scale = 1};
                    by_rows[least(TILE, rows - row)](&o);
                    look_ahead(next);
                }
}

/* rows `first` to `last` of c = kept from + scale (a' b), one for each column of a; c and from are c_height rows high */
static void add_outer_product(const float *a, int64_t a_height, int64_t first, int64_t last, const float *b,
                              int64_t b_height, int64_t columns, const float *from, float *c, int64_t c_height,
                              int64_t rows, float kept, float scale, preview *next) {
    for (int64_t step = 0; step < rows; step += RUN)
        for (int64_t group = first; group < last; group += BLOCK)
            for (int64_t panel = 0; panel < panels_of(columns); panel++)
                for (int64_t column = group; column < least(group + BLOCK, last); column += TILE) {
                    const int64_t at = panel_at(panel, c_height) + column * BLOCK;
                    const operands o = {.a = a + place_of(step, column, a_height),
                                        .b = b + panel_at(panel, b_height) + step * BLOCK,
                                        .from = step ? c + at : from + at,
                                        .c = c + at,
                                        .steps = least(RUN, rows - step),
                                        .kept = step ? 1 : kept,
                                        .scale = scale};
                    by_columns[least(TILE, least(group + BLOCK, last) - column)](&o);
                    look_ahead(next);
                }
}

static void transpose(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t rows, int64_t columns) {
    const int64_t whole_rows = rows / SIDE * SIDE, whole_columns = columns / SIDE * SIDE;
    for (int64_t row = 0; row < whole_rows; row += SIDE)
        for (int64_t column = 0; column < whole_columns; column += SIDE)
            transpose_square(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = row < whole_rows ? whole_columns : 0; column < columns; column++)
            to[column * to_row + row] = from[row * from_row + column];
}

#endif

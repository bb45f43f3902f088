/* Products of small matrices, c = kept c + scale (a b): a tile of up to TILE rows and BLOCK columns of c stays in
   registers while a run of steps goes by. One of b and c is kept in panels of BLOCK columns, rows x BLOCK each; the last
   panel is filled up with columns that nobody reads. */
#ifndef SORDINO_PANELS_H
#define SORDINO_PANELS_H

#include "lanes.h"

#define RUN 128  /* steps at a time */
#define PANELS 2 /* at a time: so much of b, and a tile of a, lie in the nearest cache */
#define AHEAD 8  /* cache lines that each tile asks for of what is read next */

typedef struct {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_step, c_row, steps;
    float kept, scale;
} operands;

INLINE void tile(int rows, const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t b_step, float *c,
                 int64_t c_row, const operands *o) {
    block sums[TILE];
    for (int i = 0; i < rows; i++)
        sums[i] = no_block();
    int64_t steps = o->steps;
    do { /* there is at least one step, and to know it keeps the tile in registers */
        const block of_b = load_block(b);
        for (int i = 0; i < rows; i++)
            add_times(&sums[i], a[i * a_row], of_b);
        a += a_step, b += b_step;
    } while (--steps);
    for (int i = 0; i < rows; i++, c += c_row)
        for (int v = 0; v < VECTORS; v++)
            STORE(c + v * LANES, o->kept * LOAD(c + v * LANES) + o->scale * sums[i].part[v]);
}

/* by panels: b is made of panels, and c lies in rows; by rows: a step is a row of a and b, and c is made of panels */
#define TILES(ROWS)                                                                                          \
    static void by_panels_##ROWS(const operands *o) {                                                        \
        tile(ROWS, o->a, o->a_row, 1, o->b, BLOCK, o->c, o->c_row, o);                                       \
    }                                                                                                        \
    static void by_rows_##ROWS(const operands *o) {                                                          \
        tile(ROWS, o->a, 1, o->a_step, o->b, o->b_step, o->c, BLOCK, o);                                     \
    }

EACH_TILE(TILES)

typedef void tile_of(const operands *);
static tile_of *const by_panels[TILE + 1] = TABLE_OF(by_panels);
static tile_of *const by_rows[TILE + 1] = TABLE_OF(by_rows);

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t panels_of(int64_t columns) { return (columns + BLOCK - 1) / BLOCK; }

/* an odd number of cache lines, so that the same column of many rows does not fall on few places of the cache */
static int64_t row_of(int64_t columns) { return (panels_of(columns) | 1) * BLOCK; }

/* what will be read soon: these rows of a matrix of this width */
typedef struct {
    const float *matrix;
    const int64_t *rows;
    int64_t count, width, column;
} preview;

/* a little of it comes nearer while there is something to compute */
static void look_ahead(preview *next) {
    for (int line = 0; line < AHEAD && next->count; line++) {
        __builtin_prefetch(next->matrix + *next->rows * next->width + next->column);
        next->column += BLOCK;
        if (next->column >= next->width)
            next->column = 0, next->rows++, next->count--;
    }
}

/* panels begin b_panel and c_panel apart */
static void multiply(tile_of *const *tiles, operands all, int64_t rows, int64_t panels, int64_t b_panel,
                     int64_t c_panel, preview *next) {
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
                    look_ahead(next);
                }
}

/* c += a b for b in panels */
static void add_product(const float *a, int64_t a_row, int64_t steps, const float *b, float *c, int64_t c_row,
                        int64_t rows, int64_t columns, preview *next) {
    const operands all = {.a = a, .b = b, .c = c, .a_row = a_row, .a_step = 1, .b_step = BLOCK, .c_row = c_row,
                          .steps = steps, .kept = 1, .scale = 1};
    multiply(by_panels, all, rows, panels_of(columns), steps * BLOCK, BLOCK, next);
}

/* c = kept c + scale (a' b), for c in panels */
static void add_outer_product(const float *a, int64_t a_row, int64_t columns_of_a, const float *b, int64_t b_row,
                              int64_t columns_of_b, float *c, int64_t rows, float kept, float scale, preview *next) {
    const operands all = {.a = a, .b = b, .c = c, .a_row = 1, .a_step = a_row, .b_step = b_row, .c_row = BLOCK,
                          .steps = rows, .kept = kept, .scale = scale};
    multiply(by_rows, all, columns_of_a, panels_of(columns_of_b), BLOCK, columns_of_a * BLOCK, next);
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

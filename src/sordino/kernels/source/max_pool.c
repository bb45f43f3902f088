/* The largest of every two by two positions, or zero if that is negative, in channels-last images of even sides whose
   channels are a multiple of BLOCK. NaN stays NaN, and takes the gradient, as in torch. */
#include "lanes.h"

INLINE lanes larger(lanes old, lanes new) {
    const masks take = (masks)(new > old) | (masks)(new != new);
    return (lanes)(((masks) new & take) | ((masks)old & ~take));
}

static void forward_row(const float *x, float *y, int64_t width, int64_t channels) {
    const float *below = x + width * channels;
    const lanes zero = {0};
    for (int64_t column = 0; column < width; column += 2)
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t left = column * channels + c, right = left + channels;
            lanes most = larger(LOAD(x + left), LOAD(x + right));
            most = larger(larger(most, LOAD(below + left)), LOAD(below + right));
            STORE(y + column / 2 * channels + c, (lanes)((masks)most & ~(masks)(most < zero)));
        }
}

INLINE masks hand_over(const float *x, lanes y, lanes g, masks left_over, float *dx) {
    const masks mine = left_over & ~(masks)(LOAD(x) < y);
    STORE(dx, (lanes)((masks)g & mine));
    return left_over & ~mine;
}

static void backward_row(const float *x, const float *y, const float *g, float *dx, int64_t width, int64_t channels) {
    const int64_t below = width * channels;
    const lanes zero = {0};
    for (int64_t column = 0; column < width; column += 2)
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t from = column / 2 * channels + c, left = column * channels + c, right = left + channels;
            const lanes most = LOAD(y + from), grad = LOAD(g + from);
            masks left_over = ~(masks)(most <= zero);
            left_over = hand_over(x + left, most, grad, left_over, dx + left);
            left_over = hand_over(x + right, most, grad, left_over, dx + right);
            left_over = hand_over(x + below + left, most, grad, left_over, dx + below + left);
            hand_over(x + below + right, most, grad, left_over, dx + below + right);
        }
}

/* rows: of all images together, an even number */
void max_pool_forward(const float *x, float *y, int64_t rows, int64_t width, int64_t channels, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t row = 0; row < rows / 2; row++)
        forward_row(x + 2 * row * width * channels, y + row * (width / 2) * channels, width, channels);
}

void max_pool_backward(const float *x, const float *y, const float *g, float *dx, int64_t rows, int64_t width,
                       int64_t channels, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t row = 0; row < rows / 2; row++) {
        const int64_t from = row * (width / 2) * channels, to = 2 * row * width * channels;
        backward_row(x + to, y + from, g + from, dx + to, width, channels);
    }
}

/* Box and Muller's transform of random words: a 64-bit word makes a radius, a 32-bit word an angle.

   Radii are computed in double precision from the whole word, so that the tail reaches sqrt(126 log 2) = 9.3 standard
   deviations and small radii have no grid; angles are cut to an eighth of a turn in whole numbers, before any rounding. */
#include <math.h>
#include <string.h>

#include "lanes.h"

#define PAIRS 1024

INLINE double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t as_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* a / 2^63, from its two halves, each made the low bits of a number of known exponent */
INLINE double fraction(uint64_t a) {
    const double high = as_double((a >> 32) | 0x4530000000000000), low = as_double((a & 0xffffffff) | 0x4330000000000000);
    return ((high - (0x1p84 + 0x1p52)) + low) * 0x1p-63;
}

/* u = 2^k m in (0, 1] with m near 1, as k and s = (m - 1) / (m + 1) */
INLINE void take_apart(double u, double *s, double *k) {
    const uint64_t bits = as_bits(u), near_one = bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
    const double m = as_double((near_one & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    *k = as_double((near_one >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
    *s = (m - 1) / (m + 1);
}

/* -2 log(u), where log m = 2 artanh(s) by its series */
INLINE double squared_radius(double s, double k) {
    const double t = s * s;
    double series = 1.0 / 21;
    for (int odd = 19; odd >= 3; odd -= 2)
        series = series * t + 1.0 / odd;
    return -4 * (s + s * t * series) - k * 1.3862943611198906;
}

/* in two loops, because a processor looks ahead over a few rounds of a short one, and hardly over one of a long one */
static void radii_of(const int64_t *words, float *radii, int64_t count, double std) {
    double s[PAIRS], k[PAIRS];
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = (uint64_t)words[i], a = words[i] < 0 ? -word : word;
        take_apart(fraction(a | (a == 0)), s + i, k + i);
    }
    for (int64_t i = 0; i < count; i++)
        radii[i] = (float)std * sqrtf((float)squared_radius(s[i], k[i]));
}

static void points_of(const int32_t *words, const float *radii, float *cosines, float *sines, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const uint32_t quarter = ((uint32_t)words[i] + 0x20000000u) >> 30;
        const float x = (float)(int32_t)((uint32_t)words[i] - (quarter << 30)) * 1.4629180792671596e-09f, t = x * x;
        const float sine = x + x * t * (-1.f / 6 + t * (1.f / 120 + t * (-1.f / 5040 + t * (1.f / 362880))));
        const float cosine = 1 + t * (-.5f + t * (1.f / 24 + t * (-1.f / 720 + t * (1.f / 40320 - t / 3628800))));
        const float across = quarter & 1 ? -sine : cosine, along = quarter & 1 ? cosine : sine;
        const float radius = quarter & 2 ? -radii[i] : radii[i];
        cosines[i] = radius * across, sines[i] = radius * along;
    }
}

/* `both` of the `pairs` have room for their second value */
void gaussian_pairs(const int64_t *radius_words, const int32_t *angle_words, float *cosines, float *sines,
                    int64_t pairs, int64_t both, double std, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t start = 0; start < pairs; start += PAIRS) {
        float radii[PAIRS], spare[PAIRS];
        const int64_t count = pairs - start < PAIRS ? pairs - start : PAIRS;
        const int whole = start + count <= both;
        float *second = whole ? sines + start : spare;
        radii_of(radius_words + start, radii, count, std);
        points_of(angle_words + start, radii, cosines + start, second, count);
        if (!whole && start < both)
            memcpy(sines + start, spare, (both - start) * sizeof(float));
    }
}

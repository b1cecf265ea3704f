/* place_tier.h: rows of angles, rows of ALiBi and the table of the kernels of a tier that act at the places. */
#ifndef GYRE_KERNELS_PLACE_TIER_H
#define GYRE_KERNELS_PLACE_TIER_H
#include "kernels/places/rotate_tier.h"

#ifndef GYRE_ROPE_ALONE
KERNEL(alibi_row_f32)(float *x, int64_t n, float slope, float distance) {
    static const float count[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vec by = vec_set1(slope), first = vec_load(count), zero = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec d = vec_sub(vec_set1(distance - (float)i), first);
        vec_store(x + i, vec_sub(vec_load(x + i), vec_mul(by, vec_max(d, vec_sub(zero, d)))));
    }
}

#endif

/* -- angles -- */
/* *out = factor (first + second), rounded to float; out = 1 if the rounding is in doubt.  Anchor, step, products, sum and
 * factor each have an error of about 2^-52 of the larger product.  2^-49 covers all of them and the error of a direct
 * computation. */
TIER_INLINE int angle_pair(float *out, double first, double second, double factor) {
    const double value = factor * (first + second),
                 margin = 0x1p-49 * factor * (__builtin_fabs(first) + __builtin_fabs(second));
    const float low = (float)(value - margin), high = (float)(value + margin);
    *out = high;
    return low != high;
}

KERNEL(angle_rows)(const gyre_angle_block *job) {
    const double *restrict c = job->cosine, *restrict s = job->sine;
    for (int64_t j = 0; j < job->rows; j++) {
        const double *restrict sc = job->step_cosine + j * job->step_row_stride, *restrict ss = job->step_sine +
                                                                                                j * job->step_row_stride;
        float *restrict low = job->cosine_out + j * job->out_row_stride, *restrict high =
                                                                             job->sine_out + j * job->out_row_stride;
        int doubtful = 0;
        for (int64_t i = 0; i < job->pairs; i++) {
            doubtful |= angle_pair(&low[i], c[i] * sc[i], -(s[i] * ss[i]), job->factor);
            doubtful |= angle_pair(&high[i], s[i] * sc[i], c[i] * ss[i], job->sine_factor);
        }
        if (doubtful) job->doubtful[j] = 1;
    }
}

/* -- the table -- */
static const gyre_place_kernels table = {
    .tier = TIER_TEXT,
#define KERNEL_LIST "kernels/places/place_kernels.def"
#include "kernels/places/fill_table.def"
};
const gyre_place_kernels *const NAME_IN(place_tier, TIER) = &table;

#endif

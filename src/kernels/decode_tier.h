/* decode_tier.h: rows of other types, and few queries against keys and values that are read once, where they lie. */
#ifndef GYRE_KERNELS_DECODE_TIER_H
#define GYRE_KERNELS_DECODE_TIER_H
#include "kernels/half.h"
#include "kernels/rotate_tier.h"

/* -- rows of other types
 * ---------------------------------------------------------------------------------------------------- */
TURN_INLINE void row_load(turn_type type, const char *in, float *out, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(out + i, type.load(in + i * type.size));
    if (i < n) turn_store_some(table, (char *)(out + i), turn_load_some(type, in + i * type.size, n - i), n - i);
}
TURN_INLINE void row_store(turn_type type, const float *in, char *out, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        type.store(out + i * type.size, vec_load(in + i));
    if (i < n) turn_store_some(type, out + i * type.size, turn_load_some(table, (const char *)(in + i), n - i), n - i);
}
static void widen_f16(const void *in, float *out, int64_t n) {
    row_load((turn_type){turn_load_f16, turn_store_f16, 2}, in, out, n);
}
static void widen_bf16(const void *in, float *out, int64_t n) {
    row_load((turn_type){turn_load_bf16, turn_store_bf16, 2}, in, out, n);
}
static void narrow_f16(const float *in, void *out, int64_t n) {
    row_store((turn_type){turn_load_f16, turn_store_f16, 2}, in, out, n);
}
static void narrow_bf16(const float *in, void *out, int64_t n) {
    row_store((turn_type){turn_load_bf16, turn_store_bf16, 2}, in, out, n);
}
static void widen_q8(const void *in, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = ((const int8_t *)in)[i];
}

static void softcap_row_f32(float *x, float *slope, int64_t n, float cap) {
    for (int64_t i = 0; i < n; i++) {
        const float y = x[i] / cap, t = 1 - 2 / (__builtin_expf(2 * y) + 1);
        if (slope) slope[i] = x[i] == -__builtin_inff() ? 0 : 1 - t * t;
        x[i] = x[i] == -__builtin_inff() ? x[i] : cap * t;
    }
}

/* -- few queries ------------------------------------------------------------------------------------------------------ */
#define FEW_ROWS(type, element, widened)                                                                                    \
    static void score_rows_##type(const gyre_key_scores *p) {                                                               \
        for (int64_t j = 0; j < p->keys; j++)                                                                               \
            for (int64_t r = 0; r < p->rows; r++) {                                                                         \
                const element *k = (const element *)p->k + j * p->k_row;                                                    \
                float sum = 0;                                                                                              \
                for (int64_t c = 0; c < p->channels; c++)                                                                   \
                    sum += p->q[r * p->q_row + c] * widened(k[c]);                                                          \
                p->scores[r * p->score_row + j] = p->k_scale ? sum * p->k_scale[j] : sum;                                   \
            }                                                                                                               \
    }                                                                                                                       \
    static void weigh_rows_##type(const gyre_value_sums *p) {                                                               \
        for (int64_t j = 0; j < p->keys; j++)                                                                               \
            for (int64_t r = 0; r < p->rows; r++) {                                                                         \
                const element *v = (const element *)p->v + j * p->v_row;                                                    \
                for (int64_t c = 0; c < p->channels; c++)                                                                   \
                    p->out[r * p->out_row + c] += p->weights[r * p->weight_row + j] * widened(v[c]);                        \
            }                                                                                                               \
    }
FEW_ROWS(f32, float, (float))
FEW_ROWS(f16, uint16_t, gyre_half_widen)
FEW_ROWS(bf16, uint16_t, gyre_brain_widen)
FEW_ROWS(q8, int8_t, (float))

#endif

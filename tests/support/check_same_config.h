/* check_same_config.h: two gyre_configs, field by field. */
#ifndef GYRE_TESTS_CHECK_SAME_CONFIG_H
#define GYRE_TESTS_CHECK_SAME_CONFIG_H
#include "support.h"

#include <string.h>

static inline void assert_same_numbers(const double *a, const double *b, int64_t n) {
    assert_int_equal(a == NULL, b == NULL);
    if (a) assert_memory_equal(a, b, (size_t)n * sizeof *a);
}

enum { COUNTS = 55, NUMBERS = 20 };

static inline void list_fields(const gyre_config *c, int64_t counts[COUNTS], double numbers[NUMBERS]) {
    const struct gyre_input_config *i = &c->input;
    const struct gyre_rope_config *r = &c->rope;
    const struct gyre_score_config *s = &c->score;
    const int64_t all[COUNTS] = {c->kind,
                                 c->head_dim,
                                 c->heads,
                                 c->trained_length,
                                 i->dim,
                                 i->positions,
                                 i->layout,
                                 i->offset,
                                 i->zero_padding,
                                 i->trained_scale,
                                 i->resized_length,
                                 r->dim,
                                 r->first_channel,
                                 r->layout,
                                 r->clockwise,
                                 r->scaling,
                                 r->context_length,
                                 r->resonance,
                                 r->fractional_bounds,
                                 r->xpos_center,
                                 r->axes,
                                 r->axes_layout,
                                 r->axis_pairs[0],
                                 r->axis_pairs[1],
                                 r->axis_pairs[2],
                                 r->axis_pairs[3],
                                 r->far,
                                 r->far_window,
                                 c->chunk.size,
                                 c->chunk.local,
                                 c->chunk.original_length,
                                 c->clip.mode,
                                 c->clip.pairs,
                                 c->longrope.start_tokens,
                                 c->longrope.starts,
                                 r->length_policy,
                                 r->length_block,
                                 c->query.temperature,
                                 c->query.reference_length,
                                 s->before_scale,
                                 s->buckets,
                                 s->max_distance,
                                 s->bidirectional,
                                 s->max_positions,
                                 s->position_buckets,
                                 s->hidden_units,
                                 s->sinusoid_dim,
                                 s->terms,
                                 s->decay,
                                 c->slope.scaling,
                                 c->tapa.amplitudes,
                                 s->slopes != NULL,
                                 s->slopes_after != NULL,
                                 r->short_factor != NULL,
                                 r->long_factor != NULL};
    const double reals[NUMBERS] = {
        i->base,         i->scale,          i->hierarchy, r->base,       r->factor,      r->attention_factor,
        r->mscale,       r->mscale_all_dim, r->beta_fast, r->beta_slow,  r->low_freq,    r->high_freq,
        r->proportion,   r->mixed_exponent, r->xpos_base, r->far_factor, c->query.slope, s->max_bias,
        c->slope.factor, c->tapa.exponent};
    memcpy(counts, all, sizeof all);
    memcpy(numbers, reals, sizeof reals);
}

/* b: a as it was read back. A field that b does not state may have its default (none, or NULL). */
static inline void assert_reads(const gyre_config *a, const gyre_config *b, const gyre_config *plain) {
    int64_t counts[3][COUNTS];
    double numbers[3][NUMBERS];
    list_fields(a, counts[0], numbers[0]);
    list_fields(b, counts[1], numbers[1]);
    list_fields(plain ? plain : a, counts[2], numbers[2]);
    for (int i = 0; i < COUNTS; i++)
        if (counts[0][i] != counts[1][i] && !(plain && counts[1][i] == 0 && counts[0][i] == counts[2][i]))
            fail_msg("count %d: %lld, then %lld", i, (long long)counts[0][i], (long long)counts[1][i]);
    for (int i = 0; i < NUMBERS; i++)
        if (numbers[0][i] != numbers[1][i] && !(plain && numbers[1][i] == 0 && numbers[0][i] == numbers[2][i]))
            fail_msg("number %d: %g, then %g", i, numbers[0][i], numbers[1][i]);
    assert_same_numbers(a->rope.short_factor, b->rope.short_factor, a->rope.dim / 2);
    assert_same_numbers(a->rope.long_factor, b->rope.long_factor, a->rope.dim / 2);
    assert_same_numbers(a->score.slopes, b->score.slopes, a->heads);
    assert_same_numbers(a->score.slopes_after, b->score.slopes_after, a->heads);
}

static inline void assert_same(const gyre_config *a, const gyre_config *b) {
    assert_reads(a, b, NULL);
}

#endif

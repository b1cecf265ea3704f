/* ring_fields.c: the arguments of a call as numbers that ranks compare. */
#include "core/view.h"
#include "kernels/kernels.h"
#include "positions/shards.h"
#include "ring/ring_call.h"

#include <stddef.h>
#include <string.h>

uint64_t gyre_ring_fingerprint(uint64_t start, const void *bytes, size_t n) {
    return gyre_shards_fingerprint(start, bytes, n);
}

void gyre_ring_add_field(gyre_ring_fields *fields, const char *name, char kind, uint64_t value) {
    if (fields->count == GYRE_RING_MOST_FIELDS) return;
    fields->names[fields->count] = name;
    fields->kinds[fields->count] = kind;
    fields->values[fields->count++] = value;
}

static void add_integer(gyre_ring_fields *fields, const char *name, int64_t value) {
    gyre_ring_add_field(fields, name, 'i', (uint64_t)value);
}

static void add_real(gyre_ring_fields *fields, const char *name, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    gyre_ring_add_field(fields, name, 'd', bits);
}

/* -- an encoding -- */

#define COUNT(field)                                                                                                        \
    { "encoding: " #field, 'c', offsetof(gyre_config, field) }
#define CHOICE(field)                                                                                                       \
    { "encoding: " #field, 'e', offsetof(gyre_config, field) }
#define AXIS(a)                                                                                                             \
    CHOICE(axis[a].own), CHOICE(axis[a].scaling), REAL(axis[a].base), REAL(axis[a].factor), COUNT(axis[a].trained_length),  \
        COUNT(axis[a].context_length), COUNT(axis[a].intrinsic_pair), COUNT(axis[a].repeats_at)
#define REAL(field)                                                                                                         \
    { "encoding: " #field, 'd', offsetof(gyre_config, field) }
static const struct {
    const char *name;
    char kind; /* 'c' an int64_t, 'e' an int or an enum, 'd' a double */
    size_t at;
} config_fields[] = {CHOICE(kind),
                     COUNT(head_dim),
                     COUNT(heads),
                     COUNT(trained_length),
                     COUNT(rope.dim),
                     COUNT(rope.first_channel),
                     CHOICE(rope.layout),
                     CHOICE(rope.clockwise),
                     CHOICE(rope.scaling),
                     COUNT(rope.context_length),
                     REAL(rope.base),
                     REAL(rope.factor),
                     REAL(rope.attention_factor),
                     REAL(rope.mscale),
                     REAL(rope.mscale_all_dim),
                     REAL(rope.beta_fast),
                     REAL(rope.beta_slow),
                     REAL(rope.low_freq),
                     REAL(rope.high_freq),
                     REAL(rope.proportion),
                     REAL(rope.mixed_exponent),
                     CHOICE(rope.resonance),
                     CHOICE(rope.fractional_bounds),
                     REAL(rope.xpos_base),
                     COUNT(rope.xpos_center),
                     COUNT(rope.axes),
                     CHOICE(rope.axes_layout),
                     COUNT(rope.axis_pairs[0]),
                     COUNT(rope.axis_pairs[1]),
                     COUNT(rope.axis_pairs[2]),
                     COUNT(rope.axis_pairs[3]),
                     CHOICE(rope.far),
                     COUNT(rope.far_window),
                     REAL(rope.far_factor),
                     COUNT(chunk.size),
                     COUNT(chunk.local),
                     COUNT(chunk.original_length),
                     CHOICE(rope.angles),
                     CHOICE(rope.length_policy),
                     COUNT(rope.length_block),
                     CHOICE(query.temperature),
                     COUNT(query.reference_length),
                     REAL(query.slope),
                     REAL(score.max_bias),
                     CHOICE(score.before_scale),
                     COUNT(score.buckets),
                     COUNT(score.position_buckets),
                     COUNT(score.max_distance),
                     COUNT(score.max_positions),
                     CHOICE(score.bidirectional),
                     COUNT(score.hidden_units),
                     COUNT(score.sinusoid_dim),
                     CHOICE(score.terms),
                     CHOICE(score.decay),
                     CHOICE(slope.scaling),
                     REAL(slope.factor),
                     AXIS(0),
                     AXIS(1),
                     AXIS(2),
                     AXIS(3),
                     CHOICE(diffusion.timed),
                     REAL(diffusion.time),
                     REAL(diffusion.strength),
                     REAL(diffusion.exponent),
                     CHOICE(clip.mode),
                     COUNT(clip.pairs),
                     COUNT(longrope.start_tokens),
                     CHOICE(longrope.starts),
                     COUNT(tapa.amplitudes),
                     REAL(tapa.exponent)};

static uint64_t list_fingerprint(const double *list, int64_t n) {
    return list ? gyre_ring_fingerprint(1, list, (size_t)n * sizeof *list) : 0;
}

static void add_encoding(gyre_ring_fields *fields, const gyre_encoding *encoding) {
    static const gyre_config none;
    const gyre_config *config = encoding ? gyre_encoding_get_config(encoding) : &none;
    add_integer(fields, "encoding", encoding != NULL);
    for (size_t i = 0; i < sizeof config_fields / sizeof *config_fields; i++) {
        const char *at = (const char *)config + config_fields[i].at;
        int64_t count = 0;
        double real = 0;
        int choice = 0;
        if (config_fields[i].kind == 'c') memcpy(&count, at, sizeof count);
        if (config_fields[i].kind == 'e') memcpy(&choice, at, sizeof choice);
        if (config_fields[i].kind == 'd') memcpy(&real, at, sizeof real);
        if (config_fields[i].kind == 'd')
            add_real(fields, config_fields[i].name, real);
        else
            add_integer(fields, config_fields[i].name, config_fields[i].kind == 'c' ? count : choice);
    }
    const struct gyre_rope_config *rope = &config->rope;
    gyre_ring_add_field(fields, "encoding: rope.short_factor", 'f', list_fingerprint(rope->short_factor, rope->dim / 2));
    gyre_ring_add_field(fields, "encoding: rope.long_factor", 'f', list_fingerprint(rope->long_factor, rope->dim / 2));
    gyre_ring_add_field(fields, "encoding: score.slopes", 'f', list_fingerprint(config->score.slopes, config->heads));
    gyre_ring_add_field(fields, "encoding: score.slopes_after", 'f',
                        list_fingerprint(config->score.slopes_after, config->heads));
}

/* -- views -- */

/* out = of the extents and, where they are of a plain type, of the elements. */
static uint64_t view_fingerprint(const gyre_cview *view) {
    const size_t size = gyre_dtype_size(view->dtype);
    if (!view->data) return 0;
    uint64_t h = gyre_ring_fingerprint(1, view->shape, sizeof view->shape);
    const int64_t *s = view->shape, run = view->stride[3] == 1 ? s[3] : 1;
    for (int64_t b = 0; b < s[0]; b++)
        for (int64_t t = 0; t < s[1]; t++)
            for (int64_t i = 0; i < s[2]; i++)
                for (int64_t c = 0; c < s[3]; c += run)
                    h = gyre_ring_fingerprint(h, gyre_cview_at(view, b, t, i, c), (size_t)run * size);
    return h;
}

static void add_tables(gyre_ring_fields *fields, const gyre_tables *tables) {
    static const gyre_tables none;
    const gyre_tables *t = tables ? tables : &none;
    const gyre_cview *all[] = {&t->query, &t->key, &t->value, &t->bias, &t->content_bias, &t->position_bias};
    static const char *const names[] = {"tables.query", "tables.key",          "tables.value",
                                        "tables.bias",  "tables.content_bias", "tables.position_bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        gyre_ring_add_field(fields, names[i], 'f', view_fingerprint(all[i]));
}

/* -- the call -- */

void gyre_ring_add_call(gyre_ring_fields *fields, const gyre_ring_call *r) {
    const gyre_attention_args *a = &r->whole;
    /* Versions were compared before.  Other compilers may round differently, and so may other processors, which counts where
     * bits do. */
    static const char compiler[] = __VERSION__;
    gyre_ring_add_field(fields, "build: compiler", 'f', gyre_ring_fingerprint(1, compiler, sizeof compiler));
    const char *tier = gyre_kernels_select()->tier;
    gyre_ring_add_field(fields, "order FIXED: kind of processor, or GYRE_CPU,", 'f',
                        a->order == GYRE_ORDER_FIXED ? gyre_ring_fingerprint(1, tier, strlen(tier)) : 0);
    add_integer(fields, "pass", (int64_t)r->pass);
    add_integer(fields, "order", (int64_t)a->order);
    add_integer(fields, "rows", a->q.shape[0]);
    add_integer(fields, "heads of q", a->q.shape[2]);
    add_integer(fields, "heads of k", a->k.shape[2]);
    add_integer(fields, "channels of q", a->q.shape[3]);
    add_integer(fields, "channels of v", a->v.shape[3]);
    add_integer(fields, "type of q", (int64_t)a->q.dtype);
    add_integer(fields, "type of k", (int64_t)a->k.dtype);
    add_integer(fields, "type of v", (int64_t)a->v.dtype);
    add_integer(fields, "gate sums", r->gated);
    add_integer(fields, "type of k_gate_sums", r->gated ? (int64_t)a->k_gate_sums.dtype : 0);
    add_real(fields, "scale", a->scale);
    add_real(fields, "softcap", a->softcap);
    add_integer(fields, "causal", (int64_t)a->causal);
    add_integer(fields, "window", a->window);
    add_integer(fields, "window_after", a->window_after);
    add_integer(fields, "sinks", a->sinks);
    add_real(fields, "dropout", a->dropout);
    gyre_ring_add_field(fields, "seed", 'i', a->seed);
    add_integer(fields, "q_pos.context_length", a->q_pos.context_length);
    const int64_t rows = r->own.starts ? r->own.sequences : r->own.rows;
    gyre_ring_add_field(
        fields, "context_lengths", 'f',
        a->context_lengths ? gyre_ring_fingerprint(1, a->context_lengths, (size_t)rows * sizeof *a->context_lengths) : 0);
    gyre_ring_add_field(fields, "sink_logits", 'f', view_fingerprint(&a->sink_logits));
    gyre_ring_add_field(fields, "slopes", 'f', view_fingerprint(&a->slopes));
    gyre_ring_add_field(fields, "shards", 'f', r->shards->fingerprint);
    gyre_ring_add_field(fields, "key_shards", 'f', r->key_shards->fingerprint);
    add_encoding(fields, a->encoding);
    add_tables(fields, a->tables);
    add_integer(fields, "key heads at a time", r->split.heads);
    add_integer(fields, "queries at a time", r->split.queries);
    add_integer(fields, "keys at a time", r->split.keys);
}

/* ring_fields.c: the arguments of a call as numbers that ranks compare. */
#include "core/view.h"
#include "gyre/gyre_fields.h"
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

static void add_encoding(gyre_ring_fields *fields, const gyre_encoding *encoding) {
    static const gyre_config none;
    const gyre_config *config = encoding ? gyre_encoding_get_config(encoding) : &none;
    const gyre_config_field *f;
    add_integer(fields, "encoding", encoding != NULL);
    for (int i = 0; (f = gyre_config_field_at(i)); i++) {
        const gyre_field_value value = gyre_config_get(config, f);
        const size_t bytes = (size_t)gyre_config_list_length(config, f) * sizeof *value.list;
        if (f->marks & GYRE_FIELD_MARK_MEMORY) continue;
        if (f->type == GYRE_FIELD_NUMBER)
            add_real(fields, f->name, value.number);
        else if (f->type == GYRE_FIELD_LIST)
            gyre_ring_add_field(fields, f->name, 'f', value.list ? gyre_ring_fingerprint(1, value.list, bytes) : 0);
        else
            add_integer(fields, f->name, value.integer);
    }
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
    const gyre_attention_inputs *a = &r->whole;
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
    add_integer(fields, "channels of k", a->k.shape[3]);
    add_integer(fields, "channels of v", a->v.shape[3]);
    add_integer(fields, "type of q", (int64_t)a->q.dtype);
    add_integer(fields, "type of k", (int64_t)a->k.dtype);
    add_integer(fields, "type of v", (int64_t)a->v.dtype);
    add_integer(fields, "gate sums", r->gated);
    add_integer(fields, "type of gates.k", r->gated ? (int64_t)a->k_gate_sums.dtype : 0);
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

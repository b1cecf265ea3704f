/* fuzz_attention_packed.c: the rows of a call as sequences of one packed batch, some of whose sequences are empty. */
#include "attention_setup.h"
#include "fuzz_attention_call.h"
#include "fuzz_support.h"

#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2 * MOST_ROWS + 1 };

/* out = [1][tokens of all rows][head][channel] with the numbers of from, [batch][token][head][channel]. */
static fuzz_view pack(const fuzz_view *from) {
    fuzz_bytes none = {NULL, 0};
    const int64_t *n = from->view.shape;
    fuzz_view out = fuzz_view_make(&none, from->view.dtype, 1, n[0] * n[1], n[2], n[3]);
    const size_t size = gyre_dtype_size(from->view.dtype);
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t t = 0; t < n[1]; t++)
            for (int64_t h = 0; h < n[2]; h++)
                for (int64_t i = 0; i < n[3]; i++) {
                    const int64_t *s = from->view.stride, *d = out.view.stride;
                    memcpy((char *)out.view.data + (size_t)((b * n[1] + t) * d[1] + h * d[2] + i * d[3]) * size,
                           (const char *)from->view.data + (size_t)(b * s[0] + t * s[1] + h * s[2] + i * s[3]) * size, size);
                }
    return out;
}

/* Positions with data are those of each row, whatever way the call had told them. */
static gyre_positions places(const call *c, int side) {
    gyre_positions p = side ? c->args.k_pos : c->args.q_pos;
    const int64_t axes = c->positions.axes;
    if (!p.data) return p;
    const int64_t length = p.context_length;
    p = (gyre_positions){c->at[side], GYRE_DTYPE_I64, 0, 0, 0, c->position_heads[side] * axes, 1, 0};
    p.context_length = length;
    return p;
}

typedef struct cuts {
    int64_t count, q[SEQUENCES + 1], k[SEQUENCES + 1], first[SEQUENCES], end[SEQUENCES], lengths[SEQUENCES];
} cuts;

/* Before each row, and after the last, stands a sequence without tokens. */
static cuts cut_rows(const call *c) {
    cuts s = {.count = 2 * c->batch + 1};
    for (int64_t i = 0; i < s.count; i++) {
        const int64_t b = i / 2, there = i & 1;
        s.first[i] = there ? c->k_first[b] : 0;
        s.end[i] = there ? c->k_end[b] : 0;
        s.lengths[i] = there ? c->lengths[b] : 0;
        s.q[i + 1] = s.q[i] + there * c->queries;
        s.k[i + 1] = s.k[i] + there * c->keys;
    }
    return s;
}

void fuzz_attention_check_packed(const call *c, fuzz_forward *forward) {
    const cuts s = cut_rows(c);
    fuzz_view part[PARTS];
    gyre_error err = {0, ""};
    attention_setup args = c->args;
    if (args.order != GYRE_ORDER_FIXED || args.dropout > 0 || c->queries == 0 || c->keys == 0) return;
    memset(part, 0, sizeof part);
    static const enum part which[] = {Q, K, V, OUT, LSE, MASK};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        if (c->part[which[i]].view.data && (which[i] != MASK || args.mask.data)) part[which[i]] = pack(&c->part[which[i]]);
    args.q = gyre_const(part[Q].view), args.k = gyre_const(part[K].view), args.v = gyre_const(part[V].view);
    if (args.mask.data) args.mask = gyre_const(part[MASK].view);
    fuzz_view out = pack(&c->part[OUT]), lse = pack(&c->part[LSE]);
    if (out.bytes) memset(out.view.data, 0x5A, out.bytes);
    if (lse.bytes) memset(lse.view.data, 0x5A, lse.bytes);
    args.out = out.view, args.lse = lse.view, args.weights = (gyre_view){.data = NULL};
    args.q_pos = places(c, 0), args.k_pos = places(c, 1);
    args.q_starts = s.q, args.k_starts = s.k, args.sequences = s.count;
    if (args.k_first) args.k_first = s.first, args.k_end = s.end;
    if (args.context_lengths) args.context_lengths = s.lengths;
    const gyre_status status = forward(&args, NULL, &err);
    fuzz_require(!status, err.text[0] ? err.text : "rows of a legal call are sequences of one");
    fuzz_views_require_same(&out, &part[OUT], "in the fixed order a packed batch has the bits of its rows");
    fuzz_views_require_same(&lse, &part[LSE], "in the fixed order a packed batch has the bits of its rows");
    fuzz_view_free(&out);
    fuzz_view_free(&lse);
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        fuzz_view_free(&part[which[i]]);
}

/* fuzz_positions.c: configs from bytes.  From the library the definitions take frequencies, slopes and rows. */
#include "fuzz_positions.h"

#include "fuzz_support.h"

#include <math.h>
#include <string.h>

static void choose_rope(gyre_config *c, fuzz_bytes *in) {
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE,           GYRE_SCALING_LINEAR,   GYRE_SCALING_NTK,
                                            GYRE_SCALING_BY_PARTS,       GYRE_SCALING_YARN,     GYRE_SCALING_LLAMA3,
                                            GYRE_SCALING_BY_PARTS_PAPER, GYRE_SCALING_NTK_MIXED};
    static const double bases[] = {0, 100, 10000, 500000, 2};
    const int64_t pairs = c->head_dim / 2;
    c->rope.dim = 2 * fuzz_between(in, pairs > 0, pairs);
    c->rope.first_channel = fuzz_choice(in, 2) ? c->head_dim - c->rope.dim : 0;
    c->rope.layout = fuzz_choice(in, 2) ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    c->rope.clockwise = fuzz_choice(in, 8) == 1;
    c->rope.scaling = scalings[fuzz_choice(in, 8)];
    c->rope.factor = c->rope.scaling == GYRE_SCALING_NONE ? 0 : 1 + fuzz_choice(in, 16) / 2.0;
    c->rope.base = bases[fuzz_choice(in, 5)];
    c->rope.resonance = fuzz_choice(in, 8) == 1;
    c->clip.mode = (gyre_clip)(fuzz_choice(in, 8) % 3);
    c->clip.pairs = c->clip.mode == GYRE_CLIP_NONE ? 0 : fuzz_choice(in, 24);
    c->rope.table_positions = fuzz_choice(in, 3) == 1 ? GYRE_NO_TABLE : fuzz_choice(in, 2) ? 300 : 0;
}

static void choose(gyre_config *c, fuzz_bytes *in) {
    static const gyre_kind kinds[] = {GYRE_KIND_ROPE, GYRE_KIND_ROPE, GYRE_KIND_ALIBI, GYRE_KIND_T5, GYRE_KIND_NOPE};
    c->kind = kinds[fuzz_choice(in, 5)];
    c->trained_length = 1 + fuzz_between(in, 0, 4095);
    if (c->kind == GYRE_KIND_ROPE) choose_rope(c, in);
    if (c->kind == GYRE_KIND_ALIBI) c->score.max_bias = fuzz_choice(in, 3) * 4;
    if (c->kind == GYRE_KIND_T5) {
        c->score.bidirectional = fuzz_choice(in, 2);
        c->score.buckets = 2 * (2 + fuzz_choice(in, 15)); /* half of them for each direction */
        c->score.max_distance = c->score.buckets + fuzz_between(in, 0, 255);
    }
}

void fuzz_positions_make(fuzz_positions *p, fuzz_bytes *in, int64_t head_dim, int64_t heads, test_random *random) {
    gyre_error err = {0, ""};
    memset(p, 0, sizeof *p);
    p->config = (gyre_config)GYRE_INIT(gyre_config);
    p->config.head_dim = head_dim;
    p->config.heads = heads;
    p->factor = 1;
    choose(&p->config, in);
    const gyre_status status = gyre_encoding_create(&p->encoding, &p->config, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((status == GYRE_OK) == (p->encoding != NULL), "a refused config leaves no encoding");
    if (status) return;
    if (p->config.kind == GYRE_KIND_ROPE)
        fuzz_require(gyre_encoding_frequencies(p->encoding, 0, p->inv_freq, &p->factor) == GYRE_OK, "frequencies");
    if (p->config.kind == GYRE_KIND_ALIBI) fuzz_require(gyre_encoding_slopes(p->encoding, p->slopes) == GYRE_OK, "slopes");
    if (p->config.kind != GYRE_KIND_T5) return;
    test_fill(random, p->bias, sizeof p->bias / sizeof *p->bias);
    p->tables.bias = gyre_cdense(p->bias, GYRE_DTYPE_F32, 1, 1, p->config.score.buckets, heads);
}

void fuzz_positions_free(fuzz_positions *p) {
    gyre_encoding_free(p->encoding);
}

void fuzz_positions_rotate(const fuzz_positions *p, int64_t m, int sign, double *x) {
    if (p->config.kind != GYRE_KIND_ROPE) return;
    const int64_t pairs = p->config.rope.dim / 2;
    const int half = p->config.rope.layout == GYRE_LAYOUT_HALF;
    double *head = x + p->config.rope.first_channel;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t a = half ? i : 2 * i, b = half ? i + pairs : 2 * i + 1;
        const double angle = (p->config.rope.clockwise ? -sign : sign) * (double)m * p->inv_freq[i];
        const double c = p->factor * cos(angle), s = p->factor * sin(angle), low = head[a], high = head[b];
        head[a] = low * c - high * s;
        head[b] = low * s + high * c;
    }
}

double fuzz_positions_bias(const fuzz_positions *p, int64_t head, int64_t m, int64_t n) {
    int64_t row = 0;
    if (p->config.kind == GYRE_KIND_ALIBI) return -p->slopes[head] * fabs((double)(m - n));
    if (p->config.kind != GYRE_KIND_T5) return 0;
    fuzz_require(gyre_encoding_row(p->encoding, m, n, &row) == GYRE_OK, "T5 has a row for every distance");
    fuzz_require(row >= 0 && row < p->config.score.buckets, "a row of the table");
    return (double)p->bias[row * p->config.heads + head];
}

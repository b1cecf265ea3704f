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
    c->rope.clip.mode = (gyre_clip)(fuzz_choice(in, 8) % 3);
    c->rope.clip.pairs = c->rope.clip.mode == GYRE_CLIP_NONE ? 0 : fuzz_choice(in, 24);
    c->rope.table_positions = fuzz_choice(in, 3) == 1 ? GYRE_NO_TABLE : fuzz_choice(in, 2) ? 300 : 0;
}

/* Deals the pairs out to several axes; now and then an axis has none. */
static void choose_axes(gyre_config *c, fuzz_bytes *in) {
    const int64_t pairs = c->rope.dim / 2;
    int64_t left = pairs;
    c->rope.axes_layout = (gyre_axes)fuzz_choice(in, 3);
    c->rope.axes = c->rope.axes_layout == GYRE_AXES_INTERLEAVED ? 3 : 2 + fuzz_choice(in, GYRE_MAX_AXES - 1);
    for (int64_t a = c->rope.axes - 1; a > 0; a--) {
        const int64_t most = c->rope.axes_layout == GYRE_AXES_INTERLEAVED ? (pairs - a + 2) / 3 : left;
        c->rope.axis_pairs[a] = fuzz_between(in, 0, most < left ? most : left);
        left -= c->rope.axis_pairs[a];
    }
    c->rope.axis_pairs[0] = left;
}

static void choose_phases(gyre_config *c, fuzz_bytes *in) {
    static const double exponents[] = {0, 0, 0.25, 0.5, 1, 2};
    c->score.amplitudes = fuzz_choice(in, (int)c->head_dim);
    c->score.exponent = exponents[fuzz_choice(in, 6)];
}

/* out = a row of tests/test_schemes.def that acts in attention. */
static const test_scheme *choose_row(fuzz_bytes *in, fuzz_schemes schemes) {
    static const int few[] = {SCHEME_rope, SCHEME_rope, SCHEME_alibi, SCHEME_t5, SCHEME_none};
    int rows[SCHEMES], count = 0;
    if (schemes == FUZZ_SCHEMES_FEW) return &test_schemes[few[fuzz_choice(in, 5)]];
    for (int i = 0; i < SCHEMES; i++) {
        const scheme_oracle *oracle = test_schemes[i].oracle;
        const int adds = i == SCHEME_none || oracle->traits & SCHEME_NUMBERS;
        if (oracle->pair && !test_schemes[i].is_variant && (adds || schemes == FUZZ_SCHEMES_ALL)) rows[count++] = i;
    }
    return &test_schemes[rows[fuzz_choice(in, count)]];
}

static void choose(gyre_config *c, fuzz_bytes *in, const fuzz_limits *limits) {
    const int every = limits->schemes == FUZZ_SCHEMES_ALL;
    const gyre_config *row = &choose_row(in, limits->schemes)->config;
    c->kind = row->kind;
    c->score = row->score; /* where nothing below chooses */
    c->score.slopes = c->score.slopes_after = NULL;
    c->score.before_scale = 0;
    c->trained_length = 1 + fuzz_between(in, 0, 4095);
    if (c->kind == GYRE_KIND_ROPE) choose_rope(c, in);
    if (c->kind == GYRE_KIND_ROPE && every && c->rope.dim > 0 && fuzz_choice(in, 2)) choose_axes(c, in);
    if (c->kind == GYRE_KIND_TAPA) choose_phases(c, in);
    fuzz_tables_choose(c, in, limits->positions);
    /* The same numbers, past it too (fuzz_angles.c: where no length is known). */
    if (c->kind == GYRE_KIND_ROPE) c->context_length = c->trained_length;
}

static int64_t axis_of(const gyre_config *c, int64_t pair) {
    int64_t axis = 0;
    if (c->rope.axes_layout == GYRE_AXES_INTERLEAVED) return pair < 3 * c->rope.axis_pairs[pair % 3] ? pair % 3 : 0;
    for (int64_t end = c->rope.axis_pairs[0]; pair >= end; end += c->rope.axis_pairs[axis])
        axis++;
    return axis;
}

void fuzz_positions_make(fuzz_positions *p, fuzz_bytes *in, const fuzz_limits *limits, test_random *random) {
    gyre_error err = {0, ""};
    memset(p, 0, sizeof *p);
    p->config = (gyre_config)GYRE_INIT(gyre_config);
    p->config.head_dim = limits->head_dim;
    p->config.heads = limits->heads;
    p->factor = 1;
    p->config.kind = GYRE_KIND_ROPE;
    if (limits->choose)
        limits->choose(&p->config, in);
    else
        choose(&p->config, in, limits);
    p->axes = p->config.rope.axes ? p->config.rope.axes : 1;
    const gyre_status status = gyre_encoding_create(&p->encoding, &p->config, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == (p->encoding != NULL), "a refused config leaves no encoding");
    if (status) return;
    if (p->config.kind == GYRE_KIND_ROPE)
        fuzz_require(!gyre_encoding_frequencies(p->encoding, 0, p->inv_freq, &p->factor), "frequencies");
    for (int64_t i = 0; p->axes > 1 && i < p->config.rope.dim / 2; i++)
        p->axis[i] = axis_of(&p->config, i);
    fuzz_tables_make(&p->tables, in, p->encoding, random);
}

void fuzz_positions_free(fuzz_positions *p) {
    gyre_encoding_free(p->encoding);
    fuzz_tables_free(&p->tables);
}

void fuzz_positions_rotate(const fuzz_positions *p, const int64_t *m, int sign, double *x) {
    if (p->config.kind != GYRE_KIND_ROPE) return;
    const int64_t pairs = p->config.rope.dim / 2;
    const int half = p->config.rope.layout == GYRE_LAYOUT_HALF;
    double *head = x + p->config.rope.first_channel;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t a = half ? i : 2 * i, b = half ? i + pairs : 2 * i + 1;
        const double angle = (p->config.rope.clockwise ? -sign : sign) * (double)m[p->axis[i]] * p->inv_freq[i];
        const double c = p->factor * cos(angle), s = p->factor * sin(angle), low = head[a], high = head[b];
        head[a] = low * c - high * s;
        head[b] = low * s + high * c;
    }
}

int fuzz_positions_adds(const fuzz_positions *p) {
    return (p->tables.scheme.oracle->traits & SCHEME_NUMBERS) != 0;
}

double fuzz_positions_bias(const fuzz_positions *p, int64_t head, int64_t m, int64_t n) {
    if (!fuzz_positions_adds(p)) return 0;
    return fuzz_tables_terms(&p->tables, head, m, n).bias;
}

double fuzz_positions_scale(const fuzz_positions *p) {
    return 1 / sqrt(fuzz_tables_terms(&p->tables, 0, 0, 0).channels);
}

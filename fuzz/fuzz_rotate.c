/* fuzz_rotate.c: legal calls of gyre_rotate, gyre_cos_sin, gyre_add_bias with its gradient and gyre_permute_rows,
 * against their definitions in double.  The inverse gives the input back, and the adjoint is the transpose. */
#include "fuzz_positions.h"
#include "fuzz_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    fuzz_bytes in;
    test_random random;
    fuzz_positions positions;
    int64_t batch, tokens, heads, dim, first;
    int64_t *at; /* [token][axis] */
    gyre_positions where;
} call;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gyre_dtype any_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 4) == 3 ? GYRE_DTYPE_F64 : fuzz_dtype(in);
}

/* Several axes: of positions that differ, now and then; one axis: first + t. */
static void choose_positions(call *c) {
    const int64_t axes = c->positions.axes;
    const int differ = axes > 1 && fuzz_choice(&c->in, 4) != 0;
    c->at = fuzz_room((size_t)(c->tokens * axes), sizeof *c->at);
    for (int64_t i = 0; i < c->tokens * axes; i++)
        c->at[i] = c->first + (differ ? (int64_t)(test_next(&c->random) % 900) - 200 : i / axes);
    c->where = differ ? (gyre_positions){c->at, GYRE_DTYPE_I64, 0, 0, 0, axes, 1, 0} : (gyre_positions){.base = c->first};
}

/* -- rotation -- */
static void check_rotated(const call *c, const fuzz_view *x, const fuzz_view *y, int sign, double scale) {
    double head[FUZZ_MOST_DIM];
    const gyre_dtype dtype = x->view.dtype;
    for (int64_t i = 0; i < c->batch * c->tokens * c->heads; i++) {
        const int64_t h = i % c->heads, t = i / c->heads % c->tokens, b = i / c->heads / c->tokens;
        for (int64_t n = 0; n < c->dim; n++)
            head[n] = fuzz_view_at(x, b, t, h, n);
        fuzz_positions_rotate(&c->positions, c->at + t * c->positions.axes, sign, head);
        for (int64_t n = 0; n < c->dim; n++) {
            const int turns = n >= c->positions.config.rope.first_channel &&
                              n < c->positions.config.rope.first_channel + c->positions.config.rope.dim;
            const double want = head[n] * (c->positions.config.kind == GYRE_KIND_ROPE && turns ? scale : 1);
            const double error = 2 * fuzz_rounding(dtype, 2 * c->positions.factor + 2) + 1e-6 * (dtype != GYRE_DTYPE_F64);
            fuzz_require(fabs(fuzz_view_at(y, b, t, h, n) - want) <= error, "a head rotates as defined");
        }
    }
}

static void rotate(call *c) {
    const gyre_dtype dtype = any_dtype(&c->in);
    const gyre_direction direction = (gyre_direction)fuzz_choice(&c->in, 3);
    const gyre_role role = fuzz_choice(&c->in, 2) ? GYRE_ROLE_KEY : GYRE_ROLE_QUERY;
    const gyre_positions at = c->where;
    gyre_error err = {0, ""};
    fuzz_view x = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, c->dim),
              y = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, c->dim);
    fuzz_view_fill(&x, &c->random, 1);
    const gyre_cview in = gyre_const(x.view);
    const gyre_status status = gyre_rotate(
        c->positions.encoding,
        GYRE_ARGS(gyre_rotate_args, .direction = direction, .role = role, .positions = &at, .in = in, .out = y.view), NULL,
        &err);
    fuzz_require_error(status, &err);
    fuzz_require(!status, err.text[0] ? err.text : "a legal rotation is done");
    const double factor = c->positions.factor;
    check_rotated(c, &x, &y, direction == GYRE_DIRECTION_FORWARD ? 1 : -1,
                  direction == GYRE_DIRECTION_INVERSE ? 1 / (factor * factor) : 1);
    fuzz_require(!gyre_rotate(c->positions.encoding,
                              GYRE_ARGS(gyre_rotate_args, .direction = direction, .role = role, .positions = &at, .in = in,
                                        .out = x.view),
                              NULL, &err),
                 "in place");
    fuzz_views_require_same(&x, &y, "in place are the same bits");
    fuzz_view_free(&x);
    fuzz_view_free(&y);
}

static void cos_sin(call *c) {
    const gyre_dtype dtype = fuzz_choice(&c->in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    const gyre_positions at = c->where;
    const int64_t pairs = c->positions.config.kind == GYRE_KIND_ROPE ? c->positions.config.rope.dim / 2 : 1;
    fuzz_view cosine = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, 1, pairs),
              sine = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, 1, pairs);
    const gyre_status status = gyre_cos_sin(c->positions.encoding, &at, &cosine.view, &sine.view, NULL, NULL);
    fuzz_require((!status) == (c->positions.config.kind == GYRE_KIND_ROPE), "what rotates has angles");
    for (int64_t i = 0; !status && i < c->tokens * pairs; i++) {
        const int64_t m = c->at[i / pairs * c->positions.axes + c->positions.axis[i % pairs]];
        const double angle = (double)m * c->positions.inv_freq[i % pairs];
        const double error = dtype == GYRE_DTYPE_F64 ? 1e-6 : 1e-6 * (1 + c->positions.factor);
        const double s = c->positions.config.rope.clockwise ? -1 : 1;
        fuzz_require(fabs(fuzz_view_at(&cosine, 0, i / pairs, 0, i % pairs) - c->positions.factor * cos(angle)) <= error,
                     "cos");
        fuzz_require(fabs(fuzz_view_at(&sine, 0, i / pairs, 0, i % pairs) - s * c->positions.factor * sin(angle)) <= error,
                     "sin");
    }
    fuzz_view_free(&cosine);
    fuzz_view_free(&sine);
}

static void permute(call *c) {
    const gyre_layout a = (gyre_layout)fuzz_choice(&c->in, 2), b = (gyre_layout)fuzz_choice(&c->in, 2);
    const gyre_dtype dtype = any_dtype(&c->in);
    const int64_t inputs = 1 + fuzz_choice(&c->in, 5);
    fuzz_view x = fuzz_view_make(&c->in, dtype, 1, c->heads, c->dim, inputs),
              y = fuzz_view_make(&c->in, dtype, 1, c->heads, c->dim, inputs),
              z = fuzz_view_make(&c->in, dtype, 1, c->heads, c->dim, inputs);
    fuzz_view_fill(&x, &c->random, 1);
    const gyre_cview from = gyre_const(x.view), between = gyre_const(y.view);
    const gyre_status status = gyre_permute_rows(c->positions.encoding, a, b, &from, &y.view, NULL);
    fuzz_require((!status) == (c->positions.config.kind == GYRE_KIND_ROPE), "rows of what rotates are moved");
    if (!status) {
        fuzz_require(!gyre_permute_rows(c->positions.encoding, b, a, &between, &z.view, NULL), "and back");
        fuzz_views_require_same(&x, &z, "to where they were");
    }
    fuzz_view_free(&x);
    fuzz_view_free(&y);
    fuzz_view_free(&z);
}

/* -- biases -- */
static void add_bias(call *c) {
    const gyre_dtype dtype = any_dtype(&c->in);
    const int64_t keys = fuzz_choice(&c->in, 50);
    const gyre_positions q = {.base = c->first}, k = {.base = c->first - 3};
    gyre_error err = {0, ""};
    fuzz_view s = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, keys),
              before = fuzz_view_make(&(fuzz_bytes){NULL, 0}, dtype, c->batch, c->tokens, c->heads, keys);
    const gyre_status status = gyre_add_bias(
        c->positions.encoding,
        GYRE_ARGS(gyre_add_bias_args, .tables = &c->positions.tables.views, .queries = &q, .keys = &k, .scores = s.view),
        NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == fuzz_positions_adds(&c->positions), "what puts numbers on scores has a bias");
    for (int64_t i = 0; !status && i < c->tokens * c->heads * keys; i++) {
        const int64_t n = i % keys, h = i / keys % c->heads, t = i / keys / c->heads;
        const double want = fuzz_positions_bias(&c->positions, h, c->first + t, c->first - 3 + n);
        fuzz_require(fabs(fuzz_view_at(&s, c->batch - 1, t, h, n) - want) <= 2 * fuzz_rounding(dtype, want) + 1e-12,
                     "a bias");
    }
    fuzz_view_free(&s);
    fuzz_view_free(&before);
}

static void bias_gradient(call *c) {
    const gyre_dtype dtype = any_dtype(&c->in);
    const int64_t keys = fuzz_choice(&c->in, 50);
    const gyre_positions q = {.base = c->first}, k = {.base = c->first - 3};
    fuzz_tables *tables = &c->positions.tables;
    gyre_error err = {0, ""};
    fuzz_view ds = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, keys);
    fuzz_view_fill(&ds, &c->random, 1);
    const gyre_cview in = gyre_const(ds.view);
    const gyre_status status = gyre_add_bias_gradient(
        c->positions.encoding, GYRE_ARGS(gyre_add_bias_args, .tables = &tables->views, .queries = &q, .keys = &k), &in,
        &tables->gradients, NULL, &err);
    fuzz_require_error(status, &err);
    fuzz_require((!status) == fuzz_positions_adds(&c->positions), "what puts numbers on scores has a gradient");
    for (int64_t i = 0; !status && i < c->batch * c->tokens * c->heads * keys; i++) {
        const int64_t n = i % keys, h = i / keys % c->heads, row = i / keys / c->heads;
        const fuzz_pair pair = {.head = h, .m = c->first + row % c->tokens, .n = c->first - 3 + n};
        const double of = fuzz_view_at(&ds, row / c->tokens, row % c->tokens, h, n);
        fuzz_tables_bias_gradient(tables, &pair, (fuzz_number){of, 0});
    }
    fuzz_tables_check(tables);
    fuzz_view_free(&ds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static call c;
    memset(&c, 0, sizeof c);
    c.in = (fuzz_bytes){data, size};
    c.random.state = 1 + fuzz_byte(&c.in);
    c.batch = 1 + fuzz_choice(&c.in, 2);
    c.tokens = fuzz_choice(&c.in, 4) ? 1 + fuzz_choice(&c.in, 12) : fuzz_between(&c.in, 0, 300);
    c.heads = 1 + fuzz_choice(&c.in, FUZZ_MOST_HEADS);
    c.dim = 1 + fuzz_choice(&c.in, FUZZ_MOST_DIM);
    c.first = fuzz_choice(&c.in, 3) ? fuzz_between(&c.in, 0, 600) - 100 : fuzz_between(&c.in, -(1 << 20), 1 << 20);
    const fuzz_limits limits = {.head_dim = c.dim, .heads = c.heads, .schemes = FUZZ_SCHEMES_ALL, .positions = c.tokens + 1};
    fuzz_positions_make(&c.positions, &c.in, &limits, &c.random);
    if (c.positions.encoding) {
        if (c.positions.config.kind == GYRE_KIND_BERT) c.first = 0; /* it has no others */
        choose_positions(&c);
        rotate(&c);
        cos_sin(&c);
        permute(&c);
        add_bias(&c);
        bias_gradient(&c);
        free(c.at);
    }
    fuzz_positions_free(&c.positions);
    return 0;
}

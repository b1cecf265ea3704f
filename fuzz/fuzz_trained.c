/* fuzz_trained.c: legal calls of gyre_trained_rotate, gyre_angle_rotate, gyre_polar_rotate, gyre_fourier_rotate and their
 * gradients, chosen by the bytes, against their definitions in double.  In place, and on two threads, are the same bits. */
#include "fuzz_support.h"
#include "fuzz_views.h"
#include "gyre/gyre_trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PAIRS = 24, MOST_CHANNELS = 3 * MOST_PAIRS, MOST_TERMS = 6 };
/* What a call reads, and what is added to. */
typedef enum part { X, Y, DOUT, DIN, ANGLES, DANGLES, FREQUENCIES, PHASES, COSINES, SINES, PARTS } part;

typedef struct call {
    fuzz_bytes in;
    test_random random;
    int64_t batch, tokens, heads, pairs, channels, first_channel, table_heads, axes;
    gyre_layout layout;
    gyre_positions positions;
    int64_t *at;  /* [batch][token][axis] */
    void *memory; /* of positions */
    gyre_exec exec;
    fuzz_view part[PARTS], gradient[PARTS]; /* gradient: of the tables, F32 or F64, which begin at START */
    double *want[PARTS], *mass[PARTS];      /* of the gradients of tables: the sum, and that of its terms' magnitudes */
} call;

static const double START = 0.25;

/* One pair of one head of one token. */
typedef struct place {
    int64_t b, t, h, i; /* h: of the tables is table_head */
    int64_t x, y;       /* channels */
} place;

/* -- choosing -- */
static gyre_dtype any_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 3) == 1 ? GYRE_DTYPE_F64 : fuzz_dtype(in);
}

static gyre_dtype table_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
}

static void make_table(call *c, part which, int64_t rows, int64_t heads, int64_t columns, double amplitude) {
    const int by_row = which == COSINES || which == SINES; /* [1, heads, terms, pairs]; the others have the rows first */
    const int64_t a = by_row ? heads : rows, b = by_row ? rows : heads;
    const size_t count = (size_t)(a * b * columns);
    c->part[which] = fuzz_view_make(&c->in, table_dtype(&c->in), 1, a, b, columns);
    fuzz_view_fill(&c->part[which], &c->random, amplitude);
    c->gradient[which] = fuzz_view_make(&c->in, table_dtype(&c->in), 1, a, b, columns);
    const fuzz_view *g = &c->gradient[which];
    for (size_t i = 0; g->bytes && i < g->bytes / gyre_dtype_size(g->view.dtype); i++)
        test_put(g->view.data, g->view.dtype, i, START);
    c->want[which] = fuzz_room(count, sizeof(double));
    c->mass[which] = fuzz_room(count, sizeof(double));
}

static void choose_positions(call *c) {
    const int64_t first = fuzz_choice(&c->in, 3) ? fuzz_choice(&c->in, 100) - 20 : fuzz_between(&c->in, -(1 << 20), 1 << 20);
    const int64_t count = c->batch * c->tokens * c->axes;
    const int has_data = fuzz_choice(&c->in, 3) != 0, narrow = fuzz_choice(&c->in, 2), planes = fuzz_choice(&c->in, 2);
    c->at = fuzz_room((size_t)count, sizeof *c->at);
    c->memory = fuzz_room((size_t)count, narrow ? 4 : 8);
    c->positions = (gyre_positions){.base = first};
    for (int64_t i = 0; i < count; i++) {
        const int64_t a = i % c->axes, t = i / c->axes % c->tokens, b = i / c->axes / c->tokens;
        c->at[i] = has_data ? first + (int64_t)(test_next(&c->random) % 600) - 300 : first + t;
        const int64_t to = planes ? (b * c->axes + a) * c->tokens + t : i;
        if (narrow)
            ((int32_t *)c->memory)[to] = (int32_t)c->at[i];
        else
            ((int64_t *)c->memory)[to] = c->at[i];
    }
    if (!has_data) return;
    c->positions = (gyre_positions){.data = c->memory,
                                    .dtype = narrow ? GYRE_DTYPE_I32 : GYRE_DTYPE_I64,
                                    .stride_batch = c->tokens * c->axes,
                                    .stride_token = planes ? 1 : c->axes,
                                    .stride_axis = planes ? c->tokens : 1};
}

static void choose_shape(call *c) {
    fuzz_bytes *in = &c->in;
    c->batch = 1 + fuzz_choice(in, 2);
    c->tokens = fuzz_choice(in, 4) ? fuzz_choice(in, 10) : fuzz_choice(in, 120);
    c->heads = 1 + fuzz_choice(in, 4);
    c->pairs = 1 + fuzz_choice(in, MOST_PAIRS);
    c->table_heads = fuzz_choice(in, 2) ? c->heads : 1;
    c->layout = fuzz_choice(in, 2) ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    c->first_channel = fuzz_choice(in, 3) ? 0 : fuzz_choice(in, MOST_PAIRS);
    c->channels = c->first_channel + 2 * c->pairs;
    if (fuzz_choice(in, 3) == 1) c->channels += fuzz_choice(in, MOST_CHANNELS - (int)c->channels + 1);
}

static void make_data(call *c, part which, gyre_dtype dtype, int64_t channels) {
    c->part[which] = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, channels);
    fuzz_view_fill(&c->part[which], &c->random, which == Y || which == DIN ? 0 : 2);
}

static void free_call(call *c) {
    for (int i = 0; i < PARTS; i++) {
        fuzz_view_free(&c->part[i]);
        fuzz_view_free(&c->gradient[i]);
        free(c->want[i]);
        free(c->mass[i]);
    }
    free(c->at);
    free(c->memory);
}

/* -- reading -- */
static double at(const call *c, part which, const place *p, int64_t channel) {
    return fuzz_view_at(&c->part[which], p->b, p->t, p->h, channel);
}

static int64_t position(const call *c, const place *p, int64_t axis) {
    return c->at[(p->b * c->tokens + p->t) * c->axes + axis];
}

static int64_t table_head(const call *c, const place *p) {
    return c->table_heads == 1 ? 0 : p->h;
}

/* Element [row][head][column] of a table in [rows][heads][columns]. */
static double entry(const call *c, part which, const place *p, int64_t row) {
    const int by_row = which == COSINES || which == SINES;
    const int64_t h = which == FREQUENCIES && c->part[COSINES].view.data ? 0 : table_head(c, p);
    return fuzz_view_at(&c->part[which], 0, by_row ? h : row, by_row ? row : h, p->i);
}

static void add(call *c, part which, int64_t i, int64_t j, int64_t k, double term) {
    const int64_t *s = c->part[which].view.shape;
    c->want[which][(i * s[2] + j) * s[3] + k] += term;
    c->mass[which][(i * s[2] + j) * s[3] + k] += fabs(term);
}

static double rounding(const fuzz_view *v, double size) {
    return v->view.dtype == GYRE_DTYPE_F64 ? 1e-8 * size : 2 * fuzz_rounding(v->view.dtype, size) + 1e-7 * size;
}

static double angle_size; /* of the pair at hand: its largest angle */

/* Angles of the definition are rounded, those of the library perhaps less. */
static double angle_rounding(void) {
    return 0x1p-50 * angle_size;
}

static void require_at(const call *c, part which, const place *p, int64_t channel, double want, double size) {
    const double error = rounding(&c->part[which], 1 + size) + (1 + size) * angle_rounding();
    fuzz_require(fabs(at(c, which, p, channel) - want) <= error, "a channel is that of the definition");
}

static void check_gradient(const call *c, part which) {
    const fuzz_view *g = &c->gradient[which];
    const int64_t *s = g->view.shape;
    for (int64_t i = 0; g->view.data && i < s[1] * s[2] * s[3]; i++) {
        const double got = fuzz_view_at(g, 0, i / s[3] / s[2], i / s[3] % s[2], i % s[3]);
        const double error = (g->view.dtype == GYRE_DTYPE_F64 ? 1e-9 : 1e-6) * (1 + c->mass[which][i]);
        fuzz_require(fabs(got - START - c->want[which][i]) <= error, "a table's gradient is that of the definition");
    }
}

/* The same of a term that has a cos or sin of the angle, and is at most `size`.  check_gradient allows 1e-9 of the mass. */
static void add_turned(call *c, part which, int64_t i, int64_t j, int64_t k, double term, double size) {
    const int64_t *s = c->part[which].view.shape;
    add(c, which, i, j, k, term);
    c->mass[which][(i * s[2] + j) * s[3] + k] += 1e9 * angle_rounding() * size;
}

/* Calls fn for each pair. */
static void for_each_pair(call *c, void (*fn)(call *, const place *)) {
    for (int64_t n = 0; n < c->batch * c->tokens * c->heads * c->pairs; n++) {
        const int64_t i = n % c->pairs, row = n / c->pairs;
        const int half = c->layout == GYRE_LAYOUT_HALF;
        const place p = {.b = row / c->heads / c->tokens,
                         .t = row / c->heads % c->tokens,
                         .h = row % c->heads,
                         .i = i,
                         .x = c->first_channel + (half ? i : 2 * i),
                         .y = c->first_channel + (half ? i + c->pairs : 2 * i + 1)};
        fn(c, &p);
    }
}

/* Channels before and after the pairs are copied bit for bit. */
static void check_others(const call *c) {
    for (int64_t n = 0; n < c->batch * c->tokens * c->heads * c->channels; n++) {
        const place p = {n / c->channels / c->heads / c->tokens,
                         n / c->channels / c->heads % c->tokens,
                         n / c->channels % c->heads,
                         0,
                         0,
                         0};
        const int64_t channel = n % c->channels;
        if (channel >= c->first_channel && channel < c->first_channel + 2 * c->pairs) continue;
        fuzz_require(at(c, Y, &p, channel) == at(c, X, &p, channel), "a channel that does not rotate passes through");
    }
}

static void require_done(gyre_status status, const gyre_error *err) {
    fuzz_require_error(status, err);
    fuzz_require(!status, err->text[0] ? err->text : "a legal call is done");
}

/* -- trained frequencies -- */
static double angle_of(const call *c, const place *p, double phase) {
    double sum = phase;
    angle_size = fabs(phase);
    for (int64_t a = 0; a < c->axes; a++) {
        const double turned = (double)position(c, p, a) * entry(c, FREQUENCIES, p, a);
        sum += turned;
        angle_size += fabs(turned);
    }
    return sum;
}

static double phase_of(const call *c, const place *p) {
    return c->part[PHASES].view.data ? entry(c, PHASES, p, 0) : 0;
}

static double turn; /* 1: forward, -1: back; for_each_pair hands nothing else through */

static void check_rotated(call *c, const place *p) {
    const double angle = turn * angle_of(c, p, phase_of(c, p)), x = at(c, X, p, p->x), y = at(c, X, p, p->y);
    require_at(c, Y, p, p->x, x * cos(angle) - y * sin(angle), 4);
    require_at(c, Y, p, p->y, x * sin(angle) + y * cos(angle), 4);
}

/* Of the angle; to frequencies and phases. */
static void add_angle_gradient(call *c, const place *p, double d) {
    for (int64_t a = 0; a < c->axes; a++)
        add(c, FREQUENCIES, a, table_head(c, p), p->i, (double)position(c, p, a) * d);
    if (c->want[PHASES]) add(c, PHASES, 0, table_head(c, p), p->i, d);
}

static void define_rotated_gradient(call *c, const place *p) {
    add_angle_gradient(c, p, at(c, DOUT, p, p->y) * at(c, X, p, p->x) - at(c, DOUT, p, p->x) * at(c, X, p, p->y));
}

static gyre_trained_rotation make_rotation(call *c, double phases) {
    gyre_trained_rotation r = GYRE_INIT(gyre_trained_rotation);
    static const double amplitudes[] = {1, 0.01, 3};
    make_table(c, FREQUENCIES, c->axes, c->table_heads, c->pairs, amplitudes[fuzz_choice(&c->in, 3)]);
    if (fuzz_choice(&c->in, 2)) make_table(c, PHASES, 1, c->table_heads, c->pairs, phases);
    r.layout = c->layout;
    r.first_channel = c->first_channel;
    r.frequencies = gyre_const(c->part[FREQUENCIES].view);
    if (c->part[PHASES].view.data) r.phases = gyre_const(c->part[PHASES].view);
    return r;
}

static void rotate(call *c) {
    gyre_error err = {0, ""};
    const gyre_direction direction = (gyre_direction)fuzz_choice(&c->in, 3);
    const gyre_dtype dtype = any_dtype(&c->in);
    const gyre_trained_rotation r = make_rotation(c, 4);
    make_data(c, X, dtype, c->channels);
    make_data(c, Y, dtype, c->channels);
    make_data(c, DOUT, any_dtype(&c->in), c->channels);
    const gyre_cview x = gyre_const(c->part[X].view), dout = gyre_const(c->part[DOUT].view);
    require_done(gyre_trained_rotate(&r,
                                     GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &c->positions, .in = x,
                                               .out = c->part[Y].view),
                                     NULL, &err),
                 &err);
    turn = direction == GYRE_DIRECTION_FORWARD ? 1 : -1;
    for_each_pair(c, check_rotated);
    check_others(c);
    /* X stands for what was rotated: the gradient takes any numbers. */
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    to.frequencies = c->gradient[FREQUENCIES].view;
    to.phases = c->gradient[PHASES].view;
    require_done(gyre_trained_rotate_gradient(
                     &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c->positions, .in = x, .dout = dout), &to,
                     &c->exec, &err),
                 &err);
    for_each_pair(c, define_rotated_gradient);
    require_done(gyre_trained_rotate(&r,
                                     GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &c->positions, .in = x,
                                               .out = c->part[X].view),
                                     &c->exec, &err),
                 &err);
    fuzz_views_require_same(&c->part[X], &c->part[Y], "in place and on two threads are the same bits");
}

/* -- angles of the caller -- */
static double given_angle(const call *c, const place *p) {
    angle_size = 1; /* the angle is exact */
    return turn * fuzz_view_at(&c->part[ANGLES], p->b, p->t, table_head(c, p), p->i);
}

static void check_turned(call *c, const place *p) {
    const double angle = given_angle(c, p), x = at(c, X, p, p->x), y = at(c, X, p, p->y);
    require_at(c, Y, p, p->x, x * cos(angle) - y * sin(angle), 4);
    require_at(c, Y, p, p->y, x * sin(angle) + y * cos(angle), 4);
}

/* Once for each angle, from the first of its heads on. */
static void check_angle_gradient(call *c, const place *p) {
    const fuzz_view *g = &c->part[DANGLES];
    double want = START, size = 1;
    if (p->h != table_head(c, p)) return;
    for (int64_t h = p->h; h < (c->table_heads == 1 ? c->heads : p->h + 1); h++) {
        const place of = {p->b, p->t, h, p->i, p->x, p->y};
        const double one = at(c, DOUT, &of, p->y) * at(c, X, &of, p->x),
                     other = at(c, DOUT, &of, p->x) * at(c, X, &of, p->y);
        want += one - other;
        size += fabs(one) + fabs(other);
    }
    const double error = (g->view.dtype == GYRE_DTYPE_F64 ? 1e-14 : 1e-7) * size;
    fuzz_require(fabs(fuzz_view_at(g, p->b, p->t, p->h, p->i) - want) <= error,
                 "an angle's gradient is that of the definition");
}

static void make_angles(call *c) {
    static const double amplitudes[] = {4, 1e4, 1e9};
    for (part i = ANGLES; i <= DANGLES; i++)
        c->part[i] = fuzz_view_make(&c->in, table_dtype(&c->in), c->batch, c->tokens, c->table_heads, c->pairs);
    fuzz_view_fill(&c->part[ANGLES], &c->random, amplitudes[fuzz_choice(&c->in, 3)]);
    const fuzz_view *g = &c->part[DANGLES];
    for (size_t i = 0; g->bytes && i < g->bytes / gyre_dtype_size(g->view.dtype); i++)
        test_put(g->view.data, g->view.dtype, i, START);
}

static void by_angles(call *c) {
    gyre_error err = {0, ""};
    const gyre_direction direction = (gyre_direction)fuzz_choice(&c->in, 3);
    const gyre_dtype dtype = any_dtype(&c->in);
    make_angles(c);
    make_data(c, X, dtype, c->channels);
    make_data(c, Y, dtype, c->channels);
    make_data(c, DOUT, any_dtype(&c->in), c->channels);
    const gyre_angle_rotation r = {.size = sizeof r,
                                   .layout = c->layout,
                                   .first_channel = c->first_channel,
                                   .angles = gyre_const(c->part[ANGLES].view)};
    const gyre_cview x = gyre_const(c->part[X].view), dout = gyre_const(c->part[DOUT].view);
    gyre_rotate_args args = {.size = sizeof args, .direction = direction, .in = x, .out = c->part[Y].view};
    require_done(gyre_angle_rotate(&r, &args, NULL, &err), &err);
    turn = direction == GYRE_DIRECTION_FORWARD ? 1 : -1;
    for_each_pair(c, check_turned);
    check_others(c);
    require_done(gyre_angle_rotate_gradient(&r, GYRE_ARGS(gyre_rotate_gradient_args, .in = x, .dout = dout),
                                            &c->part[DANGLES].view, &c->exec, &err),
                 &err);
    for_each_pair(c, check_angle_gradient);
    args.out = c->part[X].view;
    require_done(gyre_angle_rotate(&r, &args, &c->exec, &err), &err);
    fuzz_views_require_same(&c->part[X], &c->part[Y], "in place and on two threads are the same bits");
}

/* -- polar coordinates -- */
static const double FULL_TURN = 6.283185307179586;

static double clamped_phase(const call *c, const place *p) {
    return fmin(0, fmax(-FULL_TURN, phase_of(c, p)));
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static void check_polar(call *c, const place *p) {
    const double angle = angle_of(c, p, clamped_phase(c, p)), x = at(c, X, p, p->i), size = softplus(x);
    require_at(c, Y, p, p->x, size * cos(angle), size);
    require_at(c, Y, p, p->y, size * sin(angle), size);
}

static void check_polar_gradient(call *c, const place *p) {
    const double phase = phase_of(c, p), angle = angle_of(c, p, clamped_phase(c, p)), x = at(c, X, p, p->i);
    const double da = at(c, DOUT, p, p->x), db = at(c, DOUT, p, p->y), of_angle = db * cos(angle) - da * sin(angle);
    const double size = softplus(x) * (fabs(da) + fabs(db));
    require_at(c, DIN, p, p->i, (da * cos(angle) + db * sin(angle)) / (1 + exp(-x)), 4);
    for (int64_t a = 0; a < c->axes; a++) {
        const double m = (double)position(c, p, a);
        add_turned(c, FREQUENCIES, a, table_head(c, p), p->i, m * softplus(x) * of_angle, fabs(m) * size);
    }
    if (c->want[PHASES] && phase > -FULL_TURN && phase < 0)
        add_turned(c, PHASES, 0, table_head(c, p), p->i, softplus(x) * of_angle, size);
}

static void polar(call *c) {
    gyre_error err = {0, ""};
    c->first_channel = 0;
    const gyre_trained_rotation r = make_rotation(c, 8);
    make_data(c, X, any_dtype(&c->in), c->pairs);
    make_data(c, Y, any_dtype(&c->in), 2 * c->pairs);
    make_data(c, DOUT, any_dtype(&c->in), 2 * c->pairs);
    make_data(c, DIN, any_dtype(&c->in), c->pairs);
    const gyre_cview x = gyre_const(c->part[X].view), dout = gyre_const(c->part[DOUT].view);
    const gyre_exec *exec = fuzz_choice(&c->in, 2) ? &c->exec : NULL;
    require_done(gyre_polar_rotate(&r,
                                   GYRE_ARGS(gyre_rotate_args, .positions = &c->positions, .in = x, .out = c->part[Y].view),
                                   exec, &err),
                 &err);
    for_each_pair(c, check_polar);
    gyre_trained_gradients to = GYRE_INIT(gyre_trained_gradients);
    to.frequencies = c->gradient[FREQUENCIES].view;
    to.phases = c->gradient[PHASES].view;
    require_done(gyre_polar_rotate_gradient(&r,
                                            GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c->positions, .in = x,
                                                      .dout = dout, .din = c->part[DIN].view),
                                            &to, exec, &err),
                 &err);
    for_each_pair(c, check_polar_gradient);
}

/* -- Fourier series -- */
static gyre_direction direction_of_series;
static gyre_fourier_rest rest;

/* *re, *im = C and S; out = the sum of their terms' magnitudes. */
static double series_of(const call *c, const place *p, double *re, double *im) {
    const int64_t terms = c->part[FREQUENCIES].view.shape[3], series = c->part[COSINES].view.shape[3];
    double mass = 1;
    angle_size = 0;
    *re = 1;
    *im = rest == GYRE_FOURIER_REST_RELEASED;
    if (p->i >= series) return 2;
    *re = *im = 0;
    for (int64_t t = 0; t < terms; t++) {
        const double angle = (double)position(c, p, 0) * fuzz_view_at(&c->part[FREQUENCIES], 0, 0, 0, t);
        angle_size = fmax(angle_size, fabs(angle));
        *re += entry(c, COSINES, p, t) * cos(angle);
        *im += entry(c, SINES, p, t) * sin(angle);
        mass += fabs(entry(c, COSINES, p, t)) + fabs(entry(c, SINES, p, t));
    }
    return mass;
}

static void check_series(call *c, const place *p) {
    double re, im, size = series_of(c, p, &re, &im);
    const double x = at(c, X, p, p->x), y = at(c, X, p, p->y), square = re * re + im * im;
    const int inverse = direction_of_series == GYRE_DIRECTION_INVERSE;
    if (inverse && square < 1e-4) return; /* the quotient is anything */
    if (direction_of_series != GYRE_DIRECTION_FORWARD) im = -im;
    if (inverse) {
        re /= square;
        im /= square;
        size /= square * fmin(1, sqrt(square));
    }
    require_at(c, Y, p, p->x, re * x - im * y, 4 * size);
    require_at(c, Y, p, p->y, im * x + re * y, 4 * size);
}

static void define_series_gradient(call *c, const place *p) {
    const double x = at(c, X, p, p->x), y = at(c, X, p, p->y), da = at(c, DOUT, p, p->x), db = at(c, DOUT, p, p->y);
    const double of_re = da * x + db * y, of_im = db * x - da * y;
    const int64_t h = table_head(c, p);
    if (p->i >= c->part[COSINES].view.shape[3]) return;
    for (int64_t t = 0; t < c->part[FREQUENCIES].view.shape[3]; t++) {
        const double m = (double)position(c, p, 0), angle = m * fuzz_view_at(&c->part[FREQUENCIES], 0, 0, 0, t);
        const double by_cosine = m * of_re * entry(c, COSINES, p, t), by_sine = m * of_im * entry(c, SINES, p, t);
        angle_size = fabs(angle);
        add_turned(c, COSINES, h, t, p->i, of_re * cos(angle), fabs(of_re));
        add_turned(c, SINES, h, t, p->i, of_im * sin(angle), fabs(of_im));
        add_turned(c, FREQUENCIES, 0, 0, t, -by_cosine * sin(angle), fabs(by_cosine));
        add_turned(c, FREQUENCIES, 0, 0, t, by_sine * cos(angle), fabs(by_sine));
    }
}

static gyre_fourier_rotation make_series(call *c) {
    gyre_fourier_rotation r = GYRE_INIT(gyre_fourier_rotation);
    const int64_t terms = 1 + fuzz_choice(&c->in, MOST_TERMS);
    const int64_t series = fuzz_choice(&c->in, 2) ? c->pairs : 1 + fuzz_choice(&c->in, (int)c->pairs);
    make_table(c, FREQUENCIES, 1, 1, terms, fuzz_choice(&c->in, 2) ? 1 : 0.01);
    make_table(c, COSINES, terms, c->table_heads, series, 1);
    make_table(c, SINES, terms, c->table_heads, series, 1);
    r.layout = c->layout;
    r.first_channel = c->first_channel;
    r.pairs = series == c->pairs && fuzz_choice(&c->in, 2) ? 0 : c->pairs;
    r.rest = rest = fuzz_choice(&c->in, 2) ? GYRE_FOURIER_REST_RELEASED : GYRE_FOURIER_REST_STILL;
    r.frequencies = gyre_const(c->part[FREQUENCIES].view);
    r.cosines = gyre_const(c->part[COSINES].view);
    r.sines = gyre_const(c->part[SINES].view);
    return r;
}

static void fourier(call *c) {
    gyre_error err = {0, ""};
    const gyre_direction direction = direction_of_series = (gyre_direction)fuzz_choice(&c->in, 3);
    const gyre_dtype dtype = any_dtype(&c->in);
    const gyre_fourier_rotation r = make_series(c);
    make_data(c, X, dtype, c->channels);
    make_data(c, Y, dtype, c->channels);
    make_data(c, DOUT, any_dtype(&c->in), c->channels);
    const gyre_cview x = gyre_const(c->part[X].view), dout = gyre_const(c->part[DOUT].view);
    require_done(gyre_fourier_rotate(&r,
                                     GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &c->positions, .in = x,
                                               .out = c->part[Y].view),
                                     NULL, &err),
                 &err);
    for_each_pair(c, check_series);
    check_others(c);
    gyre_fourier_gradients to = GYRE_INIT(gyre_fourier_gradients);
    to.frequencies = c->gradient[FREQUENCIES].view;
    to.cosines = c->gradient[COSINES].view;
    to.sines = c->gradient[SINES].view;
    require_done(gyre_fourier_rotate_gradient(
                     &r, GYRE_ARGS(gyre_rotate_gradient_args, .positions = &c->positions, .in = x, .dout = dout), &to,
                     &c->exec, &err),
                 &err);
    for_each_pair(c, define_series_gradient);
    require_done(gyre_fourier_rotate(&r,
                                     GYRE_ARGS(gyre_rotate_args, .direction = direction, .positions = &c->positions, .in = x,
                                               .out = c->part[X].view),
                                     &c->exec, &err),
                 &err);
    fuzz_views_require_same(&c->part[X], &c->part[Y], "in place and on two threads are the same bits");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_pool *pool;
    static call c;
    memset(&c, 0, sizeof c);
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    c.exec = gyre_pool_exec(pool);
    c.in = (fuzz_bytes){data, size};
    c.random.state = 1 + fuzz_byte(&c.in);
    const int form = fuzz_choice(&c.in, 4);
    choose_shape(&c);
    c.axes = form == 2 ? 1 : 1 + fuzz_choice(&c.in, GYRE_MAX_AXES);
    choose_positions(&c);
    (form == 0 ? rotate : form == 1 ? polar : form == 2 ? fourier : by_angles)(&c);
    for (part i = FREQUENCIES; i < PARTS; i++)
        check_gradient(&c, i);
    free_call(&c);
    return 0;
}

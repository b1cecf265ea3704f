/* cache_append.c: appends tokens.  Keys are rotated if the cache stores them so; both are rounded once to its types. */
#include "cache/cache.h"
#include "call/call_sequences.h"

#include "core/convert.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/rotation/rotate_rows.h"
#include "core/sized.h"
#include "core/view.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* BLOCK: tokens of a task.  ANGLES: floats of angles computed at once. */
enum { BLOCK = 32, ANGLES = 2 * GYRE_CACHE_MAX_CHANNELS };

/* -- rows -- */

/* to[i] = x[i] / scale, rounded to the nearest whole number, ties to even: a sum with 3 x 2^22 has no bits for the rest.  A
 * row with an infinity or a NaN, which a file or a larger factor may bring, is NaN. */
static void quantise(const float *x, int64_t n, int8_t *to, float *scale) {
    const float round = 0x1.8p23f;
    float most = 0;
    int finite = 1;
    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        most = size > most ? size : most;
        finite &= size <= FLT_MAX;
    }
    *scale = finite ? most / 127 : NAN;
    if (!(*scale > 0)) {
        memset(to, 0, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float whole = (x[i] / *scale + round) - round;
        whole = whole > 127 ? 127 : whole;
        to[i] = (int8_t)(whole < -127 ? -127 : whole);
    }
}

void gyre_cache_store(const gyre_cache *cache, const gyre_cache_rows *rows, int64_t row, const float *x) {
    void *to = gyre_cache_data(rows, row);
    switch (rows->dtype) {
    case GYRE_DTYPE_F16:
        cache->kernels->narrow_f16(x, to, rows->channels);
        return;
    case GYRE_DTYPE_BF16:
        cache->kernels->narrow_bf16(x, to, rows->channels);
        return;
    case GYRE_DTYPE_Q8:
        quantise(x, rows->channels, to, rows->scale + row);
        return;
    default:
        memcpy(to, x, (size_t)rows->channels * sizeof *x);
    }
}

static void load(const gyre_kernels *kernels, const gyre_cview *view, int64_t token, int64_t head, float *x) {
    const void *from = gyre_cview_at(view, 0, token, head, 0);
    if (view->stride[3] == 1 && view->dtype == GYRE_DTYPE_F16)
        kernels->widen_f16(from, x, view->shape[3]);
    else if (view->stride[3] == 1 && view->dtype == GYRE_DTYPE_BF16)
        kernels->widen_bf16(from, x, view->shape[3]);
    else
        gyre_load_row(from, view->dtype, view->stride[3], view->shape[3], x);
}

/* -- storing -- */

/* first: index in the sequence of the token that comes first in the views, whose tokens before those of the sequence are of
 * others. */
typedef struct append {
    const gyre_cache *cache;
    const gyre_sequence *sequence;
    const gyre_cview *k, *v, *gate_sums; /* v: NULL = values are in keys */
    int64_t first;
} append;

/* New tokens in adjacent slots. */
typedef struct token_run {
    int64_t token, page, slot, count; /* token: index in the views */
} token_run;

/* Stores one row.  angles NULL = not rotated. */
static void put_row(const append *a, const gyre_cview *view, const gyre_cache_rows *rows, int64_t token, int64_t head,
                    int64_t row, const float *angles) {
    float x[GYRE_CACHE_MAX_CHANNELS];
    if (!angles && view->dtype == rows->dtype) {
        gyre_copy_row(gyre_cview_at(view, 0, token, head, 0), view->stride[3], gyre_cache_data(rows, row), 1, rows->dtype,
                      rows->channels);
        return;
    }
    load(a->cache->kernels, view, token, head, x);
    if (angles) gyre_rotate_rows(a->cache->config.encoding, angles, 1, x, rows->channels, 0);
    gyre_cache_store(a->cache, rows, row, x);
}

/* 1: the rotation at this position is the identity.  The key is then stored bit for bit. */
static int is_identity(const gyre_cache *cache, const int64_t *position) {
    double at[GYRE_MAX_AXES];
    for (int64_t a = 0; a < cache->axes; a++)
        at[a] = (double)position[a];
    const gyre_angles angles = gyre_angles_of(cache->config.encoding, GYRE_DIRECTION_FORWARD, cache->config.context_length);
    return gyre_angles_identity(&angles, at);
}

/* The angles of all tokens of the run fit ANGLES. */
static void put_keys(const append *a, const token_run *b) {
    const gyre_cache *cache = a->cache;
    const gyre_encoding *encoding = cache->config.encoding;
    const int64_t *position = gyre_cache_position(cache, b->page, b->slot),
                  floats = cache->rotated ? encoding->config.rope.dim : 0;
    float angles[ANGLES];
    if (cache->rotated) {
        const gyre_positions positions = {
            .data = position, .dtype = GYRE_DTYPE_I64, .stride_token = cache->axes, .stride_axis = 1};
        const gyre_rotation_spec rotation = {
            .role = GYRE_ROLE_KEY, .length = cache->config.context_length, .positions = &positions};
        gyre_rotation_angles(encoding, &rotation, 0, b->count, angles);
    }
    for (int64_t i = 0; i < b->count; i++) {
        const int rotates = cache->rotated && !is_identity(cache, position + i * cache->axes);
        for (int64_t h = 0; h < cache->config.heads; h++)
            put_row(a, a->k, &cache->k, b->token + i, h, gyre_cache_row(cache, b->page, h, b->slot + i),
                    rotates ? angles + i * floats : NULL);
    }
}

static void put_values(const append *a, const token_run *b) {
    for (int64_t i = 0; i < b->count; i++)
        for (int64_t h = 0; h < a->cache->config.heads; h++)
            put_row(a, a->v, &a->cache->v, b->token + i, h, gyre_cache_row(a->cache, b->page, h, b->slot + i), NULL);
}

static void put_gate_sums(const append *a, const token_run *b) {
    const gyre_cview *from = a->gate_sums;
    for (int64_t h = 0; h < a->cache->config.gate_heads; h++)
        gyre_load_row_f64(gyre_cview_at(from, 0, b->token, h, 0), from->dtype, from->stride[1], b->count,
                          gyre_cache_gate_sum(a->cache, b->page, h, b->slot));
}

/* Tokens token .. end - 1 of the views, all of one sequence. */
static void put_tokens(const append *a, int64_t token, int64_t end) {
    const int64_t floats = a->cache->rotated ? a->cache->config.encoding->config.rope.dim : 1, fit = ANGLES / floats,
                  most = fit < BLOCK ? fit : BLOCK;
    for (token_run b = {.token = token}; b.token < end; b.token += b.count) {
        const int64_t at = a->first + b.token;
        const gyre_slot_range *range = &a->sequence->ranges[gyre_slot_range_find(a->sequence, at)];
        const int64_t adjacent = range->first_token + range->count - at, left = end - b.token;
        b.page = range->page;
        b.slot = range->first + at - range->first_token;
        b.count = adjacent < left ? adjacent : left;
        if (b.count > most) b.count = most;
        put_keys(a, &b);
        if (a->v) put_values(a, &b);
        if (a->gate_sums) put_gate_sums(a, &b);
    }
}

/* -- checks -- */

/* What a call was given; name: of the function called. */
typedef struct append_call {
    const char *name;
    gyre_cache *cache;
    const gyre_cview *k, *v, *gate_sums; /* v: NULL = none; gate_sums: NULL or [1, tokens, gate_heads, 1] */
    const gyre_positions *positions;     /* NULL = each sequence goes on from its last position */
    const int64_t *sequences, *starts;   /* sequences[i] has tokens starts[i] .. starts[i + 1] - 1; NULL = one each */
    int64_t count;                       /* of sequences */
} append_call;

static int64_t start_of(const append_call *c, int64_t i) {
    return c->starts ? c->starts[i] : i;
}

static gyre_sequence *sequence_of(const append_call *c, int64_t i) {
    return &c->cache->sequence[c->sequences[i]];
}

/* out = positions of the tokens of sequences[i], which has them not yet. */
static gyre_positions positions_of(const append_call *c, int64_t i) {
    const gyre_sequence *s = sequence_of(c, i);
    gyre_positions out = {.base = 0};
    if (c->positions) {
        out = *c->positions;
        if (out.data)
            out.data = (const char *)out.data + start_of(c, i) * out.stride_token * (int64_t)gyre_dtype_size(out.dtype);
    } else if (s->count > 0) {
        const gyre_slot_range *last = &s->ranges[s->count - 1];
        out.base = *gyre_cache_position(c->cache, last->page, last->first + last->count - 1) + last->delta[0] + 1;
    }
    return out;
}

static gyre_status check_shape(const append_call *c, const char *field, const int64_t is[4], int64_t heads, int64_t channels,
                               gyre_error *err) {
    const int64_t wanted[4] = {1, c->k->shape[1], heads, channels};
    return gyre_shape_check(is, wanted, field, c->name, err);
}

static gyre_status check_view(const append_call *c, const char *field, const gyre_cview *view, int64_t channels,
                              gyre_error *err) {
    if (view->dtype != GYRE_DTYPE_F32 && view->dtype != GYRE_DTYPE_F16 && view->dtype != GYRE_DTYPE_BF16)
        return gyre_fail(err, GYRE_EDTYPE, "%s: element type %d is not F32, F16 or BF16 (%s)", field, (int)view->dtype,
                         c->name);
    const gyre_status status = check_shape(c, field, view->shape, c->cache->config.heads, channels, err);
    return status ? status : gyre_cview_check(view, field, c->name, err);
}

/* The view of the sums is there where the cache keeps them. */
static gyre_status check_gates(const append_call *c, gyre_error *err) {
    const gyre_cview *sums = c->gate_sums;
    const int64_t heads = c->cache->config.gate_heads;
    if (!sums && heads == 0) return GYRE_OK;
    if (!sums) return gyre_fail(err, GYRE_EINVAL, "gates: missing; the cache keeps gate sums (%s)", c->name);
    if (heads == 0) return gyre_fail(err, GYRE_EINVAL, "gates: the cache has no gate_heads (%s)", c->name);
    if (sums->dtype != GYRE_DTYPE_F32 && sums->dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "gates: element type %d is not F32 or F64 (%s)", (int)sums->dtype, c->name);
    const gyre_status status = check_shape(c, "gates", sums->shape, heads, 1, err);
    return status ? status : gyre_cview_check(sums, "gates", c->name, err);
}

/* A sum that is not finite would spoil every query after it. */
static gyre_status check_gate_sums(const append_call *c, gyre_error *err) {
    const gyre_cview *sums = c->gate_sums;
    const int64_t heads = c->cache->config.gate_heads;
    const gyre_status status = check_gates(c, err);
    if (!sums || status) return status;
    for (int64_t t = 0; t < sums->shape[1]; t++)
        for (int64_t h = 0; h < heads; h++) {
            double sum;
            gyre_load_row_f64(gyre_cview_at(sums, 0, t, h, 0), sums->dtype, 1, 1, &sum);
            if (!isfinite(sum))
                return gyre_fail(err, GYRE_EINVAL, "gates: %g of token %" PRId64 ", head %" PRId64 " is not finite (%s)",
                                 sum, t, h, c->name);
        }
    return status;
}

/* Q8 cannot store an infinity or a NaN, nor a number that a rotation could make infinite. */
static gyre_status check_finite(const append_call *c, const char *field, const gyre_cview *view, const gyre_cache_rows *rows,
                                gyre_error *err) {
    const gyre_cache *cache = c->cache;
    const gyre_encoding *encoding = cache->config.encoding;
    const double factor =
        cache->rotated ? gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, cache->config.context_length).factor : 1;
    const float limit = (float)((double)FLT_MAX / (factor > 1 ? 4 * factor : 4));
    float x[GYRE_CACHE_MAX_CHANNELS];
    for (int64_t t = 0; rows->dtype == GYRE_DTYPE_Q8 && t < view->shape[1]; t++)
        for (int64_t h = 0; h < view->shape[2]; h++) {
            int fine = 1;
            load(cache->kernels, view, t, h, x);
            for (int64_t i = 0; i < rows->channels; i++)
                fine &= fabsf(x[i]) <= limit;
            if (!fine)
                return gyre_fail(err, GYRE_EINVAL,
                                 "%s: token %" PRId64 ", head %" PRId64 " has a NaN or a magnitude above %g, which Q8 "
                                 "cannot store (%s)",
                                 field, t, h, (double)limit, c->name);
        }
    return GYRE_OK;
}

static gyre_status check_positions(const append_call *c, int64_t i, gyre_error *err) {
    const gyre_cache *cache = c->cache;
    gyre_positions positions = positions_of(c, i);
    const int64_t length = positions.context_length, tokens = start_of(c, i + 1) - start_of(c, i);
    if (positions.context_length == 0) positions.context_length = cache->config.context_length;
    if (positions.context_length == 0 && !cache->rotated) positions.context_length = INT64_MAX; /* attention has one */
    const gyre_status status =
        gyre_positions_check(cache->config.encoding, &positions, 1, tokens, "positions", c->name, err);
    if (status || !cache->rotated || length == 0 || gyre_cache_same_length(cache, length)) return status;
    return gyre_fail(err, GYRE_EINVAL,
                     "positions.context_length: %" PRId64 ", but keys are stored rotated for %" PRId64 " (%s)", length,
                     cache->config.context_length, c->name);
}

/* Values come with keys, or are a part of them. */
static gyre_status check_values(const append_call *c, gyre_error *err) {
    const gyre_cache *cache = c->cache;
    if (!cache->config.values_in_keys && (!c->v || !c->v->data) && c->k->shape[1] > 0)
        return gyre_fail(err, GYRE_EINVAL, "v: has no memory, and the cache has no values_in_keys (%s)", c->name);
    if (!c->v) return GYRE_OK;
    if (!cache->config.values_in_keys) return check_view(c, "v", c->v, cache->v.channels, err);
    return gyre_fail(err, GYRE_EINVAL, "v: is set, but the first %" PRId64 " channels of a key are its value (%s)",
                     cache->v.channels, c->name);
}

static gyre_status check(const append_call *c, gyre_error *err) {
    const gyre_cache *cache = c->cache;
    gyre_status status = check_view(c, "k", c->k, cache->k.channels, err);
    if (!status) status = check_values(c, err);
    if (!status) status = check_gate_sums(c, err);
    for (int64_t i = 0; i < c->count && !status; i++)
        status = check_positions(c, i, err);
    if (!status) status = check_finite(c, "k", c->k, &cache->k, err);
    return !status && c->v ? check_finite(c, "v", c->v, &cache->v, err) : status;
}

static gyre_status no_room(const append_call *c, int64_t tokens, const gyre_sequence *s, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM,
                     "cache: no room for %" PRId64 " more tokens in a sequence of %" PRId64 ", with %" PRId64 " of %" PRId64
                     " tokens in use (%s)",
                     tokens, s->tokens, c->cache->live, c->cache->config.max_tokens, c->name);
}

/* -- the call -- */

/* New tokens take the delta of the last range, so that a stream that slides at each step stays one range.  Their keys are
 * then stored for position - delta, so that must be a position with angles; otherwise delta is 0. */
static void choose_delta(const gyre_cache *cache, const gyre_sequence *s, const gyre_positions *positions, int64_t tokens,
                         int64_t delta[GYRE_MAX_AXES]) {
    memset(delta, 0, GYRE_MAX_AXES * sizeof *delta);
    if (s->count == 0) return;
    const int64_t *last = s->ranges[s->count - 1].delta;
    for (int64_t a = 0; a < cache->axes; a++)
        for (int64_t t = 0; last[a] != 0 && t < tokens; t++) {
            const int64_t at = gyre_position_at(positions, 0, t, a) - last[a];
            if (at > GYRE_MAX_POSITION || at < -GYRE_MAX_POSITION) return;
        }
    memcpy(delta, last, GYRE_MAX_AXES * sizeof *delta);
}

static void put_positions(const gyre_cache *cache, const gyre_sequence *s, const gyre_positions *positions, int64_t first) {
    for (int64_t i = gyre_slot_range_find(s, first), t = first; i < s->count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        for (; t < range->first_token + range->count; t++) {
            int64_t *to = gyre_cache_position(cache, range->page, range->first + t - range->first_token);
            for (int64_t a = 0; a < cache->axes; a++)
                to[a] = gyre_position_at(positions, 0, t - first, a) - range->delta[a];
        }
    }
}

/* Gives sequences[i] slots for its tokens, and their positions. */
static gyre_status extend(const append_call *c, int64_t i, gyre_error *err) {
    gyre_cache *cache = c->cache;
    gyre_sequence *s = sequence_of(c, i);
    const int64_t tokens = start_of(c, i + 1) - start_of(c, i), first = s->tokens;
    const gyre_positions positions = positions_of(c, i);
    int64_t delta[GYRE_MAX_AXES];
    if (tokens == 0) return GYRE_OK;
    if (gyre_page_reserve(cache, s, tokens)) return no_room(c, tokens, s, err);
    choose_delta(cache, s, &positions, tokens, delta);
    gyre_page_extend(cache, s, tokens, delta);
    put_positions(cache, s, &positions, first);
    return GYRE_OK;
}

/* Takes the tokens of the first `count` sequences away again: they have no keys yet. */
static void take_back(const append_call *c, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t tokens = start_of(c, i + 1) - start_of(c, i);
        const gyre_cache_range last = {c->sequences[i], sequence_of(c, i)->tokens - tokens, tokens};
        (void)!gyre_cache_remove(c->cache, last, NULL); /* cannot fail: the last tokens leave no hole */
    }
}

/* Tokens first .. end - 1 of the views, which may be of several sequences. */
static void put_span(const append_call *c, int64_t first, int64_t end) {
    int64_t low = 0, high = c->count - 1; /* the last sequence that begins at or before the first token */
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (start_of(c, middle) <= first)
            low = middle;
        else
            high = middle - 1;
    }
    for (int64_t i = low, token = first; token < end; i++) {
        const int64_t next = start_of(c, i + 1) < end ? start_of(c, i + 1) : end;
        const gyre_sequence *s = sequence_of(c, i);
        const append a = {c->cache, s, c->k, c->v, c->gate_sums, s->tokens - start_of(c, i + 1)};
        if (token < next) put_tokens(&a, token, next);
        token = next > token ? next : token;
    }
}

static void put_block(void *arg, int64_t block) {
    const append_call *c = arg;
    const int64_t tokens = c->k->shape[1], first = block * BLOCK;
    put_span(c, first, first + BLOCK < tokens ? first + BLOCK : tokens);
}

/* Checks, and gives each sequence its slots and positions. */
static gyre_status reserve(const append_call *c, gyre_error *err) {
    gyre_status status = check(c, err);
    for (int64_t i = 0; i < c->count && !status; i++) {
        status = extend(c, i, err);
        if (status) take_back(c, i);
    }
    return status;
}

static gyre_status run(append_call *c, const gyre_exec *exec, gyre_error *err) {
    const gyre_status status = reserve(c, err);
    if (!status) gyre_parallel(exec, put_block, c, (c->k->shape[1] + BLOCK - 1) / BLOCK);
    return status;
}

gyre_status gyre_cache_append(gyre_cache *cache, const gyre_cache_append_args *given, const gyre_exec *exec,
                              gyre_error *err) {
    static const char name[] = "gyre_cache_append";
    gyre_cache_append_args args;
    gyre_sequence *s;
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_cache_append_args", err);
    if (!status) status = gyre_cache_find(cache, args.sequence, (gyre_cache_argument){"sequence", name}, &s, err);
    if (status) return status;
    if (!args.positions) return gyre_fail(err, GYRE_EINVAL, "positions: is NULL (%s)", name);
    const gyre_cview *v = cache->config.values_in_keys && !args.v.data ? NULL : &args.v;
    const int64_t starts[2] = {0, args.k.shape[1]};
    append_call c = {name,           cache,          &args.k, v, args.gates.data ? &args.gates : NULL,
                     args.positions, &args.sequence, starts,  1};
    return run(&c, exec, err);
}

/* Each sequence of the list exists, and is there once: marks it with its place in the list. */
static gyre_status check_sequences(const append_call *c, gyre_error *err) {
    gyre_status status = GYRE_OK;
    gyre_sequence *s;
    int64_t marked = 0;
    for (; marked < c->count && !status; marked++) {
        status = gyre_cache_find(c->cache, c->sequences[marked], (gyre_cache_argument){"sequences", c->name}, &s, err);
        if (status) break;
        if (s->in_list)
            status = gyre_fail(err, GYRE_EINVAL, "sequences[%" PRId64 "]: %" PRId64 " is in the list before (%s)", marked,
                               c->sequences[marked], c->name);
        s->in_list = 1;
    }
    for (int64_t i = 0; i < marked; i++)
        sequence_of(c, i)->in_list = 0;
    return status;
}

/* *c = a call of the names and sequences of args, which it points to. */
static gyre_status read_batch(append_call *c, gyre_cache *cache, gyre_cache_append_batch_args *args,
                              const gyre_cache_append_batch_args *given, gyre_error *err) {
    const char *name = c->name;
    gyre_status status = gyre_sized_read(args, sizeof *args, given, "gyre_cache_append_batch_args", err);
    if (status) return status;
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", name);
    if (args->count < 0) return gyre_fail(err, GYRE_EINVAL, "count: %" PRId64 " is below 0 (%s)", args->count, name);
    if (!args->sequences && args->count > 0) return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", name);
    const gyre_cview *v = cache->config.values_in_keys && !args->v.data ? NULL : &args->v;
    *c = (append_call){
        name,         cache,      &args->k, v, args->gates.data ? &args->gates : NULL, args->positions, args->sequences,
        args->starts, args->count};
    if (args->starts) return gyre_call_check_starts(args->starts, args->count, args->k.shape[1], "starts", name, err);
    if (args->k.shape[1] == args->count) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "k: %" PRId64 " tokens of %" PRId64 " sequences, and no starts (%s)",
                     args->k.shape[1], args->count, name);
}

gyre_status gyre_cache_append_batch(gyre_cache *cache, const gyre_cache_append_batch_args *given, const gyre_exec *exec,
                                    gyre_error *err) {
    gyre_cache_append_batch_args args;
    append_call c = {.name = "gyre_cache_append_batch"};
    gyre_status status = read_batch(&c, cache, &args, given, err);
    if (!status) status = check_sequences(&c, err);
    return status ? status : run(&c, exec, err);
}

gyre_status gyre_cache_append_reserve(gyre_cache *cache, const gyre_cache_append_batch_args *given, gyre_error *err) {
    gyre_cache_append_batch_args args;
    append_call c = {.name = "gyre_cache_append_reserve"};
    gyre_status status = read_batch(&c, cache, &args, given, err);
    if (!status) status = check_sequences(&c, err);
    return status ? status : reserve(&c, err);
}

/* The tokens are there, since gyre_cache_append_reserve.  Sequences are not marked, because slices run at once. */
static gyre_status check_reserved(const append_call *c, gyre_error *err) {
    gyre_sequence *s;
    gyre_status status = check_view(c, "k", c->k, c->cache->k.channels, err);
    if (!status) status = check_values(c, err);
    if (!status) status = check_gates(c, err);
    for (int64_t i = 0; i < c->count && !status; i++) {
        status = gyre_cache_find(c->cache, c->sequences[i], (gyre_cache_argument){"sequences", c->name}, &s, err);
        if (status) return status;
        if (s->tokens < start_of(c, i + 1) - start_of(c, i))
            return gyre_fail(err, GYRE_EINVAL,
                             "sequences[%" PRId64 "]: has %" PRId64 " tokens, and %" PRId64 " are to be stored (%s)", i,
                             s->tokens, start_of(c, i + 1) - start_of(c, i), c->name);
    }
    return status;
}

gyre_status gyre_cache_append_slice(gyre_cache *cache, const gyre_cache_append_batch_args *given, gyre_slice slice,
                                    gyre_error *err) {
    gyre_cache_append_batch_args args;
    append_call c = {.name = "gyre_cache_append_slice"};
    gyre_status status = gyre_slice_check(slice, c.name, err);
    if (!status) status = read_batch(&c, cache, &args, given, err);
    if (!status) status = check_reserved(&c, err);
    if (status) return status;
    const int64_t tokens = args.k.shape[1];
    put_span(&c, tokens * slice.index / slice.count, tokens * (slice.index + 1) / slice.count);
    return GYRE_OK;
}

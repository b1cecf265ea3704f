/* explain_accuracy_caches.c: rotated keys that a cache keeps in few bits, before and after it shifts them, against keys in
 * double: gyre_cache itself, and a cache that rotates and rounds what it keeps at each shift, as llama.cpp's does. */
#include "gyre/gyre_cache.h"
#include "gyre/gyre_fields.h"
#include "tools/explain/explain_accuracy.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 64, USUAL_CHANNELS = 1024, MOST_CHANNELS = 1024, VALUE_CHANNELS = 8 };
enum { SCRATCH_ALIGN = 64 };
enum { F16, BF16, Q8_0 };

static const struct {
    const char *cache, *type;
    gyre_dtype dtype; /* of gyre_cache */
    int rounding;     /* of the other */
} caches[ACCURACY_CACHES] = {{"gyre_cache", "f16", GYRE_DTYPE_F16, 0},    {"gyre_cache", "bf16", GYRE_DTYPE_BF16, 0},
                             {"gyre_cache", "q8", GYRE_DTYPE_Q8, 0},      {"llama.cpp", "f16", GYRE_DTYPE_F32, F16},
                             {"llama.cpp", "bf16", GYRE_DTYPE_F32, BF16}, {"llama.cpp", "Q8_0", GYRE_DTYPE_F32, Q8_0}};
enum { FIRST_ROUNDED = 3 };
static const int64_t shifts[ACCURACY_SHIFTS] = {1, 10, 100};

const char *explain_accuracy_cache(int c) {
    return caches[c].cache;
}
const char *explain_accuracy_type(int c) {
    return caches[c].type;
}
int64_t explain_accuracy_shifts(int s) {
    return shifts[s];
}

static double random_normal(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum;
}

/* Random keys. */
typedef struct kept_keys {
    const gyre_encoding *exact;
    int64_t channels, count;
    float *raw, *kept; /* [count][channels]; kept: rotated, rounded, widened */
    double *rotated;   /* [count][channels]; exact */
} kept_keys;

static gyre_status rotate_exactly(const kept_keys *k, int64_t position, gyre_error *err) {
    const gyre_positions at = {.base = position};
    const gyre_view out = gyre_dense(k->rotated, GYRE_DTYPE_F64, 1, 1, k->count, k->channels);
    const gyre_cview in = gyre_const(out);
    for (int64_t i = 0; i < k->count * k->channels; i++)
        k->rotated[i] = (double)k->raw[i];
    return gyre_rotate(k->exact, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out),
                       NULL, err);
}

/* -- a cache that rounds at each shift -- */
/* To nearest even, `bits` of them; far from the ends of the type's range. */
static float round_to_bits(float x, int bits) {
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    const uint32_t last = UINT32_C(1) << (24 - bits), odd = (word & last) != 0;
    word = (word + last / 2 - 1 + odd) & ~(last - 1); /* a carry moves into the exponent */
    memcpy(&x, &word, sizeof x);
    return x;
}

/* llama.cpp's Q8_0: blocks of 32, whose largest magnitude is 127 steps. */
static void round_to_q8_0(float *x, int64_t n) {
    for (int64_t first = 0; first < n; first += 32) {
        const int64_t end = first + 32 < n ? first + 32 : n;
        float most = 0;
        for (int64_t i = first; i < end; i++)
            most = fmaxf(most, fabsf(x[i]));
        const float step = round_to_bits(most / 127, 11);
        for (int64_t i = first; i < end && step > 0; i++)
            x[i] = rintf(x[i] / step) * step;
    }
}

static void round_to_type(float *x, int64_t n, int rounding) {
    if (rounding == Q8_0) {
        round_to_q8_0(x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = round_to_bits(x[i], rounding == F16 ? 11 : 8);
}

static double relative_error(const kept_keys *k) {
    double off = 0, whole = 0;
    for (int64_t i = 0; i < k->count * k->channels; i++) {
        off += ((double)k->kept[i] - k->rotated[i]) * ((double)k->kept[i] - k->rotated[i]);
        whole += k->rotated[i] * k->rotated[i];
    }
    return whole > 0 ? sqrt(off / whole) : 0;
}

/* Each shift rotates the kept keys in float and rounds them to the type of the cache. */
static gyre_status measure_rounding(const kept_keys *k, int rounding, double *kept, double *shifted, gyre_error *err) {
    gyre_status status = rotate_exactly(k, ACCURACY_KEY_POSITION, err);
    int64_t position = ACCURACY_KEY_POSITION, done = 0;
    for (int64_t i = 0; i < k->count * k->channels; i++)
        k->kept[i] = (float)k->rotated[i];
    round_to_type(k->kept, k->count * k->channels, rounding);
    *kept = relative_error(k);
    for (int s = 0; s < ACCURACY_SHIFTS && !status; s++) {
        for (; done < shifts[s] && !status; done++, position += ACCURACY_SHIFT) {
            const gyre_positions before = {.base = position}, after = {.base = position + ACCURACY_SHIFT};
            const gyre_view out = gyre_dense(k->kept, GYRE_DTYPE_F32, 1, 1, k->count, k->channels);
            const gyre_cview in = gyre_const(out);
            status = gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = k->exact, .after = k->exact,
                                             .old_positions = &before, .new_positions = &after, .in = in, .out = out),
                                   NULL, err);
            round_to_type(k->kept, k->count * k->channels, rounding);
        }
        if (!status) status = rotate_exactly(k, position, err);
        shifted[s] = relative_error(k);
    }
    return status;
}

/* -- gyre_cache -- */
/* Reads keys back by attention: the one token of each head has the score q . k, and queries are the unit vectors,
 * rotated to the position of the keys.  So the scores are the raw channels, times the square of the attention factor. */
typedef struct reader {
    const kept_keys *keys;
    gyre_cache *cache;
    double factor; /* that square */
    float *queries, *out, *scores;
    void *scratch;
    size_t bytes;
} reader;

static gyre_attention_args call_at(const reader *r, const int64_t *position) {
    const int64_t n = r->keys->channels, heads = r->keys->count;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(r->queries, GYRE_DTYPE_F32, 1, n, heads, n);
    args.q.stride[1] = n;
    args.q.stride[2] = 0; /* all heads read the same queries */
    args.q_pos = (gyre_positions){.data = position, .dtype = GYRE_DTYPE_I64, .one_position = 1};
    args.scale = 1;
    args.out = gyre_dense(r->out, GYRE_DTYPE_F32, 1, n, heads, VALUE_CHANNELS);
    args.lse = gyre_dense(r->scores, GYRE_DTYPE_F32, 1, n, heads, 1);
    return args;
}

static gyre_status read_error(const reader *r, int64_t position, double *error, gyre_error *err) {
    const kept_keys *k = r->keys;
    const gyre_attention_args args = call_at(r, &position);
    const int64_t sequence = 0;
    const gyre_status status =
        gyre_cache_attention(r->cache, &sequence, &args, (gyre_scratch){r->scratch, r->bytes}, NULL, err);
    double off = 0, whole = 0;
    for (int64_t c = 0; c < k->channels && !status; c++)
        for (int64_t h = 0; h < k->count; h++) {
            const double raw = (double)k->raw[h * k->channels + c] * r->factor;
            const double difference = (double)r->scores[c * k->count + h] - raw;
            off += difference * difference;
            whole += raw * raw;
        }
    *error = whole > 0 ? sqrt(off / whole) : 0;
    return status;
}

static gyre_status shift_and_read(const reader *r, double *kept, double *shifted, gyre_error *err) {
    int64_t position = ACCURACY_KEY_POSITION, done = 0;
    const int64_t delta[GYRE_MAX_AXES] = {ACCURACY_SHIFT, ACCURACY_SHIFT, ACCURACY_SHIFT, ACCURACY_SHIFT};
    gyre_status status = read_error(r, position, kept, err);
    for (int s = 0; s < ACCURACY_SHIFTS && !status; s++) {
        for (; done < shifts[s] && !status; done++, position += ACCURACY_SHIFT)
            status = gyre_cache_shift(r->cache, (gyre_cache_range){0, 0, 1}, delta, err);
        if (!status) status = read_error(r, position, &shifted[s], err);
    }
    return status;
}

static gyre_status fill_and_read(reader *r, double *kept, double *shifted, gyre_error *err) {
    const kept_keys *k = r->keys;
    const gyre_positions at = {.base = ACCURACY_KEY_POSITION};
    const gyre_cview keys = gyre_cdense(k->raw, GYRE_DTYPE_F32, 1, 1, k->count, k->channels);
    const gyre_cview values = gyre_cdense(r->out, GYRE_DTYPE_F32, 1, 1, k->count, VALUE_CHANNELS); /* zeros, not read */
    const int64_t position = ACCURACY_KEY_POSITION, sequence = 0;
    gyre_status status =
        gyre_cache_append(r->cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &at), NULL, err);
    if (status) return status;
    const gyre_attention_args args = call_at(r, &position);
    status = gyre_cache_attention_scratch(r->cache, &sequence, &args, NULL, &r->bytes, err);
    if (status) return status;
    r->scratch = aligned_alloc(SCRATCH_ALIGN, (r->bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN);
    if (!r->scratch) return gyre_fail(err, GYRE_ENOMEM, "keys: out of memory (explain)");
    status = shift_and_read(r, kept, shifted, err);
    free(r->scratch);
    return status;
}

/* NAN where the cache takes no such head: too wide, or, in Q8, no multiple of 8. */
static gyre_status measure_cache(const kept_keys *k, gyre_dtype dtype, double *kept, double *shifted, gyre_error *err) {
    const size_t n = (size_t)k->channels, heads = (size_t)k->count;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    reader r = {.keys = k};
    *kept = shifted[0] = shifted[1] = shifted[2] = NAN;
    if (k->channels > MOST_CHANNELS || (dtype == GYRE_DTYPE_Q8 && k->channels % 8 != 0)) return GYRE_OK;
    config.encoding = k->exact;
    config.keys = GYRE_CACHE_KEYS_ROTATED;
    config.key_dtype = dtype;
    config.value_dtype = GYRE_DTYPE_F32;
    config.heads = k->count;
    config.head_dim = k->channels;
    config.value_dim = VALUE_CHANNELS;
    config.max_tokens = 1;
    gyre_status status = gyre_encoding_frequencies(k->exact, 0, NULL, &r.factor);
    r.factor *= r.factor;
    if (!status) status = gyre_cache_create(&r.cache, &config, NULL, err);
    r.queries = calloc(n * n + n * heads * (VALUE_CHANNELS + 1), sizeof *r.queries);
    if (!status && !r.queries) status = gyre_fail(err, GYRE_ENOMEM, "keys: out of memory (explain)");
    if (!status) {
        r.out = r.queries + n * n;
        r.scores = r.out + n * heads * VALUE_CHANNELS;
        for (size_t c = 0; c < n; c++)
            r.queries[c * n + c] = 1;
        status = fill_and_read(&r, kept, shifted, err);
    }
    free(r.queries);
    gyre_cache_free(r.cache);
    return status;
}

/* -- all of them -- */
static gyre_status measure(explain_accuracy *out, const kept_keys *k, gyre_error *err) {
    gyre_status status = GYRE_OK;
    uint64_t state = 1;
    for (int64_t i = 0; i < k->count * k->channels; i++)
        k->raw[i] = (float)random_normal(&state);
    for (int c = 0; c < ACCURACY_CACHES && !status; c++)
        status = c < FIRST_ROUNDED ? measure_cache(k, caches[c].dtype, &out->kept[c], out->shifted[c], err)
                                   : measure_rounding(k, caches[c].rounding, &out->kept[c], out->shifted[c], err);
    out->rounding = sqrt(2) * out->kept[FIRST_ROUNDED + BF16];
    return status;
}

gyre_status explain_accuracy_of_caches(explain_accuracy *out, const gyre_config *config, gyre_error *err) {
    gyre_config plain = *config;
    gyre_encoding *exact = NULL;
    plain.rope.far = GYRE_FAR_AS_NEAR; /* what a cache of rotated keys refuses, and what changes no kept key */
    plain.rope.chunk = (struct gyre_chunk_config){0};
    plain.rope.longrope = (struct gyre_longrope_config){0};
    plain.length_policy = GYRE_LENGTH_POLICY_DECLARED;
    gyre_config_clear_unused(&plain);
    const gyre_status created = gyre_encoding_create(&exact, &plain, NULL, err);
    if (created) return created;
    kept_keys k = {.exact = exact, .channels = config->head_dim, .count = KEYS};
    if (k.channels > USUAL_CHANNELS) k.count = k.channels / USUAL_CHANNELS < KEYS ? KEYS * USUAL_CHANNELS / k.channels : 1;
    out->keys = k.count;
    const size_t n = (size_t)(k.count * k.channels);
    k.raw = malloc(2 * n * sizeof *k.raw);
    k.rotated = malloc(n * sizeof *k.rotated);
    k.kept = k.raw + (k.raw ? n : 0);
    const gyre_status status =
        k.raw && k.rotated ? measure(out, &k, err) : gyre_fail(err, GYRE_ENOMEM, "keys: out of memory (explain)");
    free(k.raw);
    free(k.rotated);
    gyre_encoding_free(exact);
    return status;
}

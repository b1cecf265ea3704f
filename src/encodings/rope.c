/* rope.c: pairs of channels of queries and keys, turned by an angle that grows with the position. */
#include "core/angles.h"
#include "encodings/schemes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct gyre_rope_config rope_config;

static void fill_defaults(gyre_config *config) {
    rope_config *rope = &config->rope;
    const struct {
        double *field, value;
    } defaults[] = {{&rope->base, 10000.0}, {&rope->factor, 1.0},    {&rope->beta_fast, 32.0}, {&rope->beta_slow, 1.0},
                    {&rope->low_freq, 1.0}, {&rope->high_freq, 4.0}, {&rope->proportion, 1.0}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (*defaults[i].field == 0.0) *defaults[i].field = defaults[i].value;
    if (rope->dim == 0) rope->dim = config->head_dim;
    if (rope->length == 0) rope->length = config->trained_length;
}

static gyre_status check_dims(const gyre_config *config, gyre_error *err) {
    const rope_config *rope = &config->rope;
    if (config->head_dim == 0) return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; a rotation needs it (gyre_config)");
    if (rope->dim % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL, "rope.dim: %" PRId64 " is odd; a rotation turns pairs of channels (gyre_config)",
                         rope->dim);
    if (rope->dim > config->head_dim)
        return gyre_fail(err, GYRE_EINVAL, "rope.dim: %" PRId64 " is above head_dim %" PRId64 " (gyre_config)", rope->dim,
                         config->head_dim);
    if (rope->layout != GYRE_HALF && rope->layout != GYRE_INTERLEAVED)
        return gyre_fail(err, GYRE_EINVAL, "rope.layout: %d names no layout (gyre_config)", (int)rope->layout);
    return GYRE_OK;
}

static gyre_status check_numbers(const rope_config *rope, gyre_error *err) {
    const struct {
        const char *name;
        double value, least; /* least allowed; the base must be above it */
    } numbers[] = {{"base", rope->base, 1.0},
                   {"factor", rope->factor, 1.0},
                   {"attention_factor", rope->attention_factor, 0.0},
                   {"mscale", rope->mscale, 0.0},
                   {"mscale_all_dim", rope->mscale_all_dim, 0.0},
                   {"beta_fast", rope->beta_fast, 0.0},
                   {"beta_slow", rope->beta_slow, 0.0},
                   {"low_freq", rope->low_freq, 0.0},
                   {"high_freq", rope->high_freq, 0.0},
                   {"proportion", rope->proportion, 0.0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!isfinite(numbers[i].value))
            return gyre_fail(err, GYRE_EINVAL, "rope.%s: %g is not finite (gyre_config)", numbers[i].name, numbers[i].value);
        if (numbers[i].value < numbers[i].least)
            return gyre_fail(err, GYRE_EINVAL, "rope.%s: %g is below %g (gyre_config)", numbers[i].name, numbers[i].value,
                             numbers[i].least);
    }
    if (rope->base <= 1.0)
        return gyre_fail(err, GYRE_EINVAL, "rope.base: %g is not above 1; no pair would turn slower (gyre_config)",
                         rope->base);
    if (rope->beta_fast < rope->beta_slow)
        return gyre_fail(err, GYRE_EINVAL, "rope.beta_fast: %g is below beta_slow %g (gyre_config)", rope->beta_fast,
                         rope->beta_slow);
    if (rope->high_freq < rope->low_freq)
        return gyre_fail(err, GYRE_EINVAL, "rope.high_freq: %g is below low_freq %g (gyre_config)", rope->high_freq,
                         rope->low_freq);
    if (rope->proportion > 1.0)
        return gyre_fail(err, GYRE_EINVAL, "rope.proportion: %g is above 1 (gyre_config)", rope->proportion);
    return GYRE_OK;
}

static gyre_status check_scaling(const gyre_config *config, gyre_error *err) {
    const gyre_scaling scaling = config->rope.scaling;
    const int64_t trained = config->trained_length;
    switch (scaling) {
    case GYRE_UNSCALED:
    case GYRE_LINEAR:
    case GYRE_PROPORTIONAL:
        return GYRE_OK;
    case GYRE_NTK:
    case GYRE_DYNAMIC_NTK:
        if (config->rope.dim == 2)
            return gyre_fail(err, GYRE_EINVAL, "rope.dim: 2 has one pair; NTK's exponent divides by dim - 2 (gyre_config)");
        break;
    case GYRE_BY_PARTS:
    case GYRE_BY_PARTS_PAPER:
    case GYRE_YARN:
    case GYRE_LLAMA3:
        break;
    case GYRE_LONGROPE:
        if (trained == 1)
            return gyre_fail(err, GYRE_EINVAL, "trained_length: 1 has logarithm 0, which longrope divides by (gyre_config)");
        break;
    default:
        return gyre_fail(err, GYRE_EINVAL, "rope.scaling: %d names no scaling (gyre_config)", (int)scaling);
    }
    if (trained == 0 && scaling != GYRE_NTK)
        return gyre_fail(err, GYRE_EINVAL, "trained_length: missing; this scaling's formula needs it (gyre_config)");
    return GYRE_OK;
}

static gyre_status copy_factors(gyre_encoding *encoding, const double *given, const char *name, double **own,
                                gyre_error *err) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    if (!given)
        return gyre_fail(err, GYRE_EINVAL, "rope.%s: missing; longrope has one number for each pair (gyre_config)", name);
    for (int64_t i = 0; i < pairs; i++)
        if (!isfinite(given[i]) || given[i] < 0x1p-10) /* a pair faster than that has no angle left at position 2^31 */
            return gyre_fail(err, GYRE_EINVAL, "rope.%s[%" PRId64 "]: %g is not a number from 2^-10 up (gyre_config)", name,
                             i, given[i]);
    *own = gyre_encoding_allocate(encoding, pairs, sizeof **own, err);
    if (!*own) return GYRE_ENOMEM;
    memcpy(*own, given, (size_t)pairs * sizeof **own);
    return GYRE_OK;
}

/* Given or derived: past these bounds scores, which have its square, and inverses leave the range of float. */
static gyre_status take_attention_factor(gyre_encoding *encoding, gyre_error *err) {
    const rope_config *rope = &encoding->config.rope;
    const double factor = gyre_rope_attention_factor(&encoding->config);
    encoding->attention_factor = factor;
    if (factor >= 0x1p-64 && factor <= 0x1p64) return GYRE_OK;
    if (rope->attention_factor != 0.0)
        return gyre_fail(err, GYRE_EINVAL, "rope.attention_factor: %g is outside [2^-64, 2^64] (gyre_config)", factor);
    return gyre_fail(err, GYRE_EINVAL, "rope.mscale: %g over %g makes an attention factor of %g (gyre_config)", rope->mscale,
                     rope->mscale_all_dim, factor);
}

static gyre_status fill_table(gyre_encoding *encoding, gyre_error *err) {
    const int64_t pairs = encoding->config.rope.dim / 2, rows = encoding->config.rope.table_positions;
    const gyre_angles angles = gyre_angles_of(encoding, GYRE_FORWARD, 0);
    if (rows == 0) return GYRE_OK;
    float *table = gyre_encoding_allocate(encoding, rows, (size_t)(2 * pairs) * sizeof *table, err);
    if (!table) return GYRE_ENOMEM;
    for (int64_t m = 0; m < rows; m++)
        for (int64_t first = 0; first < pairs; first += GYRE_PAIR_CHUNK) {
            const int64_t count = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
            float buffer[2 * GYRE_PAIR_CHUNK];
            double position[GYRE_MAX_AXES];
            for (int a = 0; a < GYRE_MAX_AXES; a++)
                position[a] = (double)m;
            const gyre_cos_sin turn = gyre_angles_f32(&angles, encoding->frequency + first, first, count, position, buffer);
            memcpy(table + 2 * pairs * m + first, turn.cosine, (size_t)count * sizeof *table);
            memcpy(table + 2 * pairs * m + pairs + first, turn.sine, (size_t)count * sizeof *table);
        }
    encoding->angles = table; /* only now: until it is whole, angles are computed */
    return GYRE_OK;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    gyre_config *config = &encoding->config;
    fill_defaults(config);
    gyre_status status = check_dims(config, err);
    if (status == GYRE_OK) status = check_numbers(&config->rope, err);
    if (status == GYRE_OK) status = check_scaling(config, err);
    if (status == GYRE_OK && config->rope.scaling == GYRE_LONGROPE) {
        status = copy_factors(encoding, config->rope.short_factor, "short_factor", &encoding->short_factor, err);
        if (status == GYRE_OK)
            status = copy_factors(encoding, config->rope.long_factor, "long_factor", &encoding->long_factor, err);
    }
    if (status == GYRE_OK) status = take_attention_factor(encoding, err);
    if (status != GYRE_OK) return status;
    encoding->frequency = gyre_encoding_allocate(encoding, config->rope.dim / 2, sizeof *encoding->frequency, err);
    if (!encoding->frequency) return GYRE_ENOMEM;
    gyre_rope_frequencies(config, 0, 0, config->rope.dim / 2, encoding->frequency);
    return fill_table(encoding, err);
}

const gyre_scheme gyre_scheme_rope = {.kind = GYRE_ROPE, .name = "rope", .places = GYRE_AT_QUERY_KEY, .init = init};

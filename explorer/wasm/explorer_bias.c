/* explorer_bias.c: what schemes add to scores, as maps of n queries by n keys. */
#include "explorer/wasm/explorer_numbers.h"
#include "gyre/gyre_fields.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_HEADS = 64, DEFAULT_HEADS = 8, DEFAULT_FACTOR = 4 };

/* Schemes in more than one form.  A scheme that puts a number on a score is found under its own name, and so is DeBERTa,
 * whose rows are drawn. */
static const struct {
    const char *name, *scheme;
    gyre_decay decay;
    gyre_slope_scaling slopes;
} forms[] = {{"alibi-linear", "alibi", GYRE_DECAY_LOG, GYRE_SLOPE_SCALING_LINEAR},
             {"alibi-ntk", "alibi", GYRE_DECAY_LOG, GYRE_SLOPE_SCALING_NTK},
             {"kerple-log", "kerple", GYRE_DECAY_LOG, GYRE_SLOPE_SCALING_NONE},
             {"kerple-power", "kerple", GYRE_DECAY_POWER, GYRE_SLOPE_SCALING_NONE}};
enum { FORMS = sizeof forms / sizeof *forms };

/* Sets the kind, and what the form changes.  out = 0 if there is no such scheme. */
static int choose_form(const char *name, gyre_config *config) {
    config->kind = gyre_kind_find(name);
    for (int i = 0; i < FORMS && name; i++)
        if (strcmp(forms[i].name, name) == 0) {
            config->kind = gyre_kind_find(forms[i].scheme);
            config->score.decay = forms[i].decay;
            config->score.slope_scaling = forms[i].slopes;
        }
    return gyre_kind_has(config->kind, GYRE_TRAIT_BIAS) || gyre_config_has(config, "score.position_buckets");
}

static int64_t or_default(double value, int64_t otherwise) {
    return value >= 1 && value < 1e6 ? (int64_t)value : otherwise;
}

static gyre_status describe(const char *name, const explorer_bias_params *p, int n, gyre_config *config, gyre_error *err) {
    if (!choose_form(name, config)) return gyre_fail(err, GYRE_EINVAL, "bias: no kind \"%s\" (explorer)", name ? name : "");
    if (n < 1 || n > MAX_TOKENS) return gyre_fail(err, GYRE_EINVAL, "bias: %d tokens; 1 to %d (explorer)", n, MAX_TOKENS);
    config->heads = or_default(p->heads, DEFAULT_HEADS);
    if (config->heads > MAX_HEADS)
        return gyre_fail(err, GYRE_EINVAL, "bias: %lld heads; 1 to %d (explorer)", (long long)config->heads, MAX_HEADS);
    config->head_dim = 64;
    config->trained_length = n;
    if (config->score.slope_scaling != GYRE_SLOPE_SCALING_NONE) {
        config->score.slope_factor = p->factor != 0 ? p->factor : DEFAULT_FACTOR;
        if (!(config->score.slope_factor >= 1 && config->score.slope_factor <= 1e6))
            return gyre_fail(err, GYRE_EINVAL, "factor: %g is not from 1 to 1e6 (explorer)", config->score.slope_factor);
    }
    config->score.max_distance = or_default(p->max_distance, 0);
    config->score.sinusoid_dim = or_default(p->sandwich_dim, 0);
    config->score.bidirectional = p->bidirectional != 0;
    config->score.buckets = or_default(p->buckets, 0);
    if (gyre_config_has(config, "score.position_buckets")) {
        config->score.position_buckets = or_default(p->buckets, 256);
        if (!config->score.max_distance) config->score.max_distance = 512;
    }
    return gyre_config_suggest(config);
}

/* -- tables -- */
/* out = a draw from normal(0, 1): splitmix64, then Box and Muller. */
static double draw_normal(uint64_t *state) {
    double uniform[2];
    for (int i = 0; i < 2; i++) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        uniform[i] = ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
    }
    return sqrt(-2 * log(uniform[0])) * cos(6.28318530717958647692 * uniform[1]);
}

/* out = T5's number for a bucket where none is given: falls with the bucket, at another slope in each head. */
static double example_number(int64_t row, int64_t rows, int64_t head, int bidirectional) {
    const int64_t side = bidirectional ? rows / 2 : rows;
    return -0.25 * (double)(row % side) * exp2(-0.5 * (double)head);
}

/* table[rows][heads] of a trained bias, filled as its scheme begins training, or with the numbers of the page. */
static void fill_table(const gyre_encoding *encoding, const explorer_bias_params *p, const float *given, int64_t rows,
                       int64_t heads, float *table) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const int by_distance = gyre_config_has(config, "score.buckets"), decays = gyre_config_has(config, "score.decay");
    uint64_t state = p->seed > 0 ? (uint64_t)p->seed : 1;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t head = 0; head < heads; head++) {
            gyre_table_entry entry = {0, 0, 0, 0};
            double value;
            if (by_distance)
                value =
                    given ? (double)given[row * heads + head] : example_number(row, rows, head, config->score.bidirectional);
            else if (decays)
                value = row == 0 ? (p->r1 > 0 ? p->r1 : 1) : (p->r2 > 0 ? p->r2 : 0.5);
            else if (gyre_encoding_table_entry(encoding, GYRE_TABLE_BIAS, head, row, 0, &entry))
                value = 0;
            else
                value = fmin(entry.maximum,
                             fmax(entry.minimum, entry.initial_mean + entry.initial_deviation * draw_normal(&state)));
            table[row * heads + head] = (float)value;
        }
}

/* *table = the trained bias of the scheme in memory of the caller to free; data NULL where it has none. */
static gyre_status make_table(const gyre_encoding *encoding, const explorer_bias_params *p, const float *given,
                              gyre_tables *tables, float **table, gyre_error *err) {
    int64_t shape[4];
    *tables = (gyre_tables){.bias = {.data = NULL}};
    *table = NULL;
    const gyre_status status = gyre_encoding_table_shape(encoding, GYRE_TABLE_BIAS, shape);
    if (status || shape[2] == 0) return status;
    *table = calloc((size_t)(shape[2] * shape[3]), sizeof **table);
    if (!*table) return gyre_fail(err, GYRE_ENOMEM, "bias: out of memory for its table (explorer)");
    fill_table(encoding, p, given, shape[2], shape[3], *table);
    tables->bias = gyre_cdense(*table, GYRE_DTYPE_F32, 1, 1, shape[2], shape[3]);
    return GYRE_OK;
}

/* -- maps -- */
static gyre_status fill_map(const gyre_encoding *encoding, const gyre_tables *tables, int64_t heads, int n, float *map,
                            gyre_error *err) {
    const int64_t row = n, square = (int64_t)n * n;
    const gyre_positions positions = {.base = 0};
    const gyre_view scores = {map, GYRE_DTYPE_F32, {1, n, heads, n}, {square * heads, row, square, 1}};
    memset(map, 0, (size_t)(square * heads) * sizeof *map);
    return gyre_add_bias(
        encoding,
        GYRE_ARGS(gyre_add_bias_args, .tables = tables, .queries = &positions, .keys = &positions, .scores = scores), NULL,
        err);
}

static void fill_buckets(const gyre_encoding *encoding, int n, int32_t *bucket) {
    for (int m = 0; m < n; m++)
        for (int k = 0; k < n; k++) {
            int64_t row = -1;
            if (gyre_encoding_row(encoding, m, k, &row)) row = -1;
            bucket[m * n + k] = (int32_t)row;
        }
}

int explorer_bias(const char *kind, const explorer_bias_params *params, const float *table, int n, float *map,
                  int32_t *bucket) {
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_encoding *encoding = NULL;
    gyre_tables tables;
    float *memory = NULL;
    gyre_status status = describe(kind, params, n, &config, &explorer_failure);
    if (!status) status = gyre_encoding_create(&encoding, &config, NULL, &explorer_failure);
    if (!status) status = make_table(encoding, params, table, &tables, &memory, &explorer_failure);
    if (!status) fill_buckets(encoding, n, bucket);
    if (!status && !gyre_kind_has(config.kind, GYRE_TRAIT_BIAS)) /* products with vectors of q and k, no number */
        for (int64_t i = 0; i < config.heads * n * n; i++)
            map[i] = NAN;
    else if (!status)
        status = fill_map(encoding, &tables, config.heads, n, map, &explorer_failure);
    free(memory);
    gyre_encoding_free(encoding);
    return status;
}

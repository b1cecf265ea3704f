/* explain_scheme.c: schemes without pairs of channels, in words. */
#include "gyre/gyre_fields.h"
#include "tools/explain/explain_format.h"
#include "tools/explain/explain_stats.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(char *out, size_t size, const char *format, ...) {
    const size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

static void describe_alibi(const explain_stats *stats, char *out, size_t size) {
    double max = 0, min = INFINITY;
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE], halves[EXPLAIN_TEXT_SIZE];
    for (int64_t h = 0; h < stats->config->heads; h++) {
        const double slope = fabs(stats->slopes[h]);
        if (slope > max) max = slope;
        if (slope < min) min = slope;
    }
    put(out, size, "%" PRId64 " slopes, %s to %s per token: a weight halves every %s tokens", stats->config->heads,
        explain_format_number(stats->slopes[0], 6, a), explain_format_number(stats->slopes[stats->config->heads - 1], 6, b),
        explain_format_range(log(2.0) / max, log(2.0) / min, halves));
}

/* What happens to slopes past the trained length. */
static void describe_slope_scaling(const explain_stats *stats, char *out, size_t size) {
    const struct gyre_score_config *score = &stats->config->score;
    char factor[EXPLAIN_TEXT_SIZE];
    if (score->slope_scaling == GYRE_SLOPE_SCALING_NONE) return;
    if (score->slope_factor > 0)
        snprintf(factor, sizeof factor, "%.6g", score->slope_factor);
    else
        snprintf(factor, sizeof factor, "length / %" PRId64 " past that length", stats->config->trained_length);
    put(out, size,
        score->slope_scaling == GYRE_SLOPE_SCALING_LINEAR ? "; all are divided by %s" : "; the flattest is divided by %s",
        factor);
    if (score->slope_scaling != GYRE_SLOPE_SCALING_LINEAR) put(out, size, ", the steepest stays");
}

enum { MAX_BUCKETS = 512, LISTED_BUCKETS = 20 };

/* out = the number of buckets.  first[b] = the shortest distance of bucket b.  Asks the library for the bucket of every
 * distance, so that the answer is what attention uses. */
static int64_t find_buckets(const explain_stats *stats, int64_t first[MAX_BUCKETS]) {
    const int64_t stated = stats->config->score.max_distance, max = stated < 1 << 20 ? stated : 1 << 20;
    int64_t row = -1, before = -1, count = 0;
    for (int64_t d = 0; d <= max && count < MAX_BUCKETS; d++) {
        if (gyre_encoding_row(stats->encoding, d, 0, &row)) break;
        if (row != before) first[count++] = d;
        before = row;
    }
    return count;
}

static void describe_buckets(const explain_stats *stats, char *out, size_t size) {
    int64_t first[MAX_BUCKETS], alone = 0;
    const int64_t count = find_buckets(stats, first);
    while (alone + 1 < count && first[alone + 1] == first[alone] + 1)
        alone++;
    put(out, size, "%" PRId64 " buckets%s: distances 0-%" PRId64 " have one each, then one begins at",
        stats->config->score.buckets, stats->config->score.bidirectional ? ", half of them for keys after the query" : "",
        alone - 1);
    for (int64_t b = alone; b < count; b++)
        if (count - alone <= LISTED_BUCKETS || b < alone + LISTED_BUCKETS - 2 || b == count - 1)
            put(out, size, "%s%" PRId64, b == alone ? " " : ", ", first[b]);
        else if (b == count - 2)
            put(out, size, ", ...");
    put(out, size, "; the last has no end");
}

static void describe_learned(const explain_stats *stats, char *out, size_t size) {
    const int64_t rows = stats->config->input.positions, offset = stats->config->input.offset, own = rows - offset;
    const int64_t usable = stats->config->input.resized_length > 0 ? stats->config->input.resized_length : own;
    put(out, size, "a table of %" PRId64 " rows", rows);
    if (offset) put(out, size, ", position 0 in row %" PRId64, offset);
    put(out, size, ": positions 0-%" PRId64 ", and none past them", usable - 1);
}

static void describe_vectors(const explain_stats *stats, char *out, size_t size) {
    const int64_t max = stats->config->score.max_distance;
    int64_t shape[4] = {0}, rows = 0;
    static const gyre_table tables[] = {GYRE_TABLE_QUERY, GYRE_TABLE_KEY, GYRE_TABLE_VALUE};
    for (int i = 0; i < 3 && rows == 0; i++)
        if (!gyre_encoding_table_shape(stats->encoding, tables[i], shape)) rows = shape[2];
    if (rows > 0) put(out, size, "%" PRId64 " rows of vectors; ", rows);
    if (gyre_kind_has(stats->config->kind, GYRE_TRAIT_ENDS))
        put(out, size, "positions 0-%" PRId64 ", and none past them", stats->config->score.max_positions - 1);
    else if (gyre_kind_has(stats->config->kind, GYRE_TRAIT_QUERY_VECTORS))
        put(out, size, "times one that the query's token makes; distances from %" PRId64 " on add nothing", max);
    else if (max > 0)
        put(out, size, "distances past %" PRId64 " count as %" PRId64, max, max);
}

/* No encoding; but layers of a model of Gyre's own may have something beside it. */
static void describe_nothing(const explain_stats *stats, char *out, size_t size) {
    static const struct {
        const char *part, *says;
    } parts[] = {{"adaptive", "no positions; a network adapts the scores of all heads to each other"},
                 {"contextual", "no positions of tokens: each query counts keys by content"},
                 {"forget_gates", "no positions; gates of the tokens between lower a score"}};
    const char *beside = "no positions";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (explain_find_field(stats->group, parts[i].part)) beside = parts[i].says;
    put(out, size, "%s%s", beside, stats->config->query.temperature ? ", but queries are multiplied by a temperature" : "");
}

static void describe_phases(const explain_stats *stats, char *out, size_t size) {
    put(out, size,
        "%" PRId64 " of %" PRId64 " channels are amplitudes, the others rotate them by distance^%g, at any length",
        stats->config->score.amplitudes, stats->config->head_dim, stats->config->score.exponent);
}

/* What the config says of the scheme itself: members of gyre_config's structs that this scheme has and not all. */
static void describe_settings(const explain_stats *stats, char *out, size_t size) {
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++) {
        char value[EXPLAIN_TEXT_SIZE];
        if (!strchr(f->name, '.') || f->kinds == ~0u || f->type == GYRE_FIELD_LIST) continue;
        if (!gyre_config_field_acts(stats->config, f)) continue;
        explain_format_value(f, gyre_config_get(stats->config, f), value);
        put(out, size, "%s%s: %s", *out ? ", " : "", f->label, value);
    }
}

/* By what the scheme has, so that a new one is described by what it is made of. */
static void describe(const explain_stats *stats, char *out, size_t size) {
    const gyre_kind kind = stats->config->kind;
    const unsigned places = gyre_kind_places(kind);
    if (places == 0) {
        describe_nothing(stats, out, size);
    } else if (places & GYRE_PLACE_INPUT) {
        if (gyre_kind_has(kind, GYRE_TRAIT_ENDS))
            describe_learned(stats, out, size);
        else
            put(out, size, "a sinusoid: any position up to 2^31");
    } else if (gyre_kind_has(kind, GYRE_TRAIT_SLOPES)) {
        describe_alibi(stats, out, size);
        describe_slope_scaling(stats, out, size);
    } else if (gyre_config_has(stats->config, "score.buckets")) {
        describe_buckets(stats, out, size);
    } else if (gyre_config_has(stats->config, "score.amplitudes")) {
        describe_phases(stats, out, size);
    } else if ((places & GYRE_PLACE_SCORE) && !gyre_kind_has(kind, GYRE_TRAIT_BIAS)) {
        describe_vectors(stats, out, size);
    } else if (!gyre_kind_has(kind, GYRE_TRAIT_ROTATES)) {
        describe_settings(stats, out, size);
    }
}

void explain_describe_scheme(const explain_stats *stats, char *out, size_t size) {
    out[0] = 0;
    describe(stats, out, size);
    if (gyre_kind_places(stats->config->kind) != 0 && explain_find_field(stats->group, "adaptive"))
        put(out, size, "%sa network of each layer adapts the biases to queries and keys", out[0] ? "; " : "");
}

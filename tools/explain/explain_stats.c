/* explain_stats.c: frequencies, their states, slopes and factors of a group of layers, from the library alone. */
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586476925286766559;

double explain_wavelength(double inv_freq) {
    return TWO_PI / inv_freq;
}

int explain_wavelength_exceeds(double inv_freq, int64_t tokens) {
    return tokens > 0 && (double)tokens * inv_freq < TWO_PI;
}

/* -- names -- */
const char *explain_scaling_name(gyre_scaling scaling) {
    static const char *const names[] = {[GYRE_SCALING_NONE] = "default",
                                        [GYRE_SCALING_LINEAR] = "linear",
                                        [GYRE_SCALING_NTK] = "ntk",
                                        [GYRE_SCALING_DYNAMIC_NTK] = "dynamic",
                                        [GYRE_SCALING_BY_PARTS] = "by-parts",
                                        [GYRE_SCALING_BY_PARTS_PAPER] = "by-parts-paper",
                                        [GYRE_SCALING_YARN] = "yarn",
                                        [GYRE_SCALING_LLAMA3] = "llama3",
                                        [GYRE_SCALING_LONGROPE] = "longrope",
                                        [GYRE_SCALING_PROPORTIONAL] = "proportional",
                                        [GYRE_SCALING_NTK_MIXED] = "ntk-mixed",
                                        [GYRE_SCALING_DYNAMIC_YARN] = "dynamic-yarn"};
    return (unsigned)scaling < sizeof names / sizeof *names ? names[scaling] : "unknown";
}

const char *explain_layout_name(gyre_layout layout) {
    static const char *const names[] = {"half", "interleaved", "interleaved-to-half"};
    return (unsigned)layout < 3 ? names[layout] : "unknown";
}

static void add(char *label, size_t size, const char *part) {
    const size_t used = strlen(label);
    snprintf(label + used, size - used, "+%s", part);
}

static void name_encoding(explain_stats *f) {
    const gyre_config *config = f->config;
    snprintf(f->label, sizeof f->label, "%s", gyre_kind_name(config->kind));
    if (config->kind == GYRE_KIND_ROPE) {
        if (config->rope.scaling != GYRE_SCALING_NONE)
            add(f->label, sizeof f->label, explain_scaling_name(config->rope.scaling));
        if (config->rope.axes > 1)
            add(f->label, sizeof f->label, config->rope.axes_layout == GYRE_AXES_AXIAL ? "axial" : "mrope");
        if (config->rope.resonance) add(f->label, sizeof f->label, "resonance");
        if (config->rope.xpos_base > 0) add(f->label, sizeof f->label, "xpos");
        static const char *const far[] = {NULL, "rerope", "leaky", "self-extend"};
        if (config->rope.far) add(f->label, sizeof f->label, far[config->rope.far]);
    }
    if (config->query.temperature) add(f->label, sizeof f->label, "temperature");
}

/* -- frequencies -- */
static gyre_status frequencies(const gyre_config *config, int64_t length, double *out, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_status status = gyre_encoding_create(&encoding, config, NULL, err);
    if (!status) status = gyre_encoding_frequencies(encoding, length, out, NULL);
    gyre_encoding_free(encoding);
    return status;
}

/* As the model was trained, and as the scaling has it before wavelengths are rounded. */
static gyre_status unscaled_frequencies(const explain_stats *f, double *trained, double *scaled, gyre_error *err) {
    gyre_config config = *f->config;
    config.rope.resonance = 0;
    gyre_status status = frequencies(&config, f->length, scaled, err);
    config.rope.scaling = GYRE_SCALING_NONE;
    if (!status) status = frequencies(&config, f->length, trained, err);
    return status;
}

/* What the scaling says it divides by; the dynamic ones' grows with the length. */
static double effective_factor(const explain_stats *f) {
    const double s = f->config->rope.factor;
    if (f->config->rope.scaling == GYRE_SCALING_DYNAMIC_YARN)
        return f->length > f->trained ? (double)f->length / (double)f->trained : 1;
    if (f->config->rope.scaling != GYRE_SCALING_DYNAMIC_NTK) return s;
    return f->length > f->trained ? s * (double)f->length / (double)f->trained - (s - 1) : 1;
}

int explain_depends_on_length(const explain_stats *f) {
    const gyre_scaling scaling = f->config->rope.scaling;
    return f->config->kind == GYRE_KIND_ROPE &&
           (scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_DYNAMIC_YARN || scaling == GYRE_SCALING_LONGROPE);
}

static explain_pair_state state_of(double freq_factor, double factor) {
    if (isinf(freq_factor)) return EXPLAIN_PAIR_NOT_ROTATED;
    if (fabs(freq_factor - 1) <= 1e-9) return EXPLAIN_PAIR_UNSCALED;
    return fabs(freq_factor / factor - 1) <= 1e-9 ? EXPLAIN_PAIR_INTERPOLATED : EXPLAIN_PAIR_BLENDED;
}

static void count_pairs(explain_stats *f) {
    const double factor = effective_factor(f);
    for (int64_t i = 0; i < f->pairs; i++) {
        f->state[i] = state_of(f->freq_factor[i], factor);
        f->count[f->state[i]]++;
        f->incomplete += explain_wavelength_exceeds(f->inv_freq[i], f->trained);
        f->incomplete_max_length += explain_wavelength_exceeds(f->inv_freq[i], f->max_length);
    }
}

/* max_position_embeddings may promise more than the scaling counts from; what it promises is worth telling only where the
 * frequencies there are those of the length in use. */
static int64_t max_length_of(const explain_stats *f, const gyre_reading *reading, double *there) {
    int64_t most = 0;
    if (reading->context_length > 0) return f->length;
    for (int64_t i = 0; i < f->group->fields_count; i++)
        if (strcmp(f->group->fields[i].name, "max_length") == 0) most = strtoll(f->group->fields[i].value, NULL, 10);
    if (most <= f->length || most > EXPLAIN_MAX_LENGTH) return f->length;
    if (gyre_encoding_frequencies(f->encoding, most, there, NULL)) return f->length;
    return memcmp(there, f->inv_freq, (size_t)f->pairs * sizeof *there) == 0 ? most : f->length;
}

static gyre_status rotation_stats(explain_stats *f, const gyre_reading *reading, gyre_error *err) {
    f->pairs = f->config->rope.dim / 2;
    const size_t count = (size_t)(f->pairs ? f->pairs : 1);
    f->inv_freq = calloc(count, sizeof *f->inv_freq);
    f->freq_factor = calloc(count, sizeof *f->freq_factor);
    f->state = calloc(count, sizeof *f->state);
    double *trained = calloc(count, sizeof *trained);
    gyre_status status = f->inv_freq && f->freq_factor && f->state && trained ? GYRE_OK : GYRE_ENOMEM;
    if (status) (void)gyre_fail(err, status, "frequencies: out of memory (%.200s)", reading->path);
    if (!status) status = gyre_encoding_frequencies(f->encoding, f->length, f->inv_freq, &f->attention_factor);
    if (!status) status = unscaled_frequencies(f, trained, f->freq_factor, err);
    if (!status) {
        for (int64_t i = 0; i < f->pairs; i++)
            f->freq_factor[i] = trained[i] / f->freq_factor[i];
        f->max_length = max_length_of(f, reading, trained);
        count_pairs(f);
    }
    free(trained);
    return status;
}

static gyre_status slopes_stats(explain_stats *f, gyre_error *err) {
    f->slopes = calloc((size_t)f->config->heads + 1, sizeof *f->slopes);
    if (!f->slopes) return gyre_fail(err, GYRE_ENOMEM, "slopes: out of memory (ALiBi)");
    return gyre_encoding_slopes(f->encoding, f->slopes);
}

gyre_status explain_stats_compute(explain_stats *out, const gyre_reading *reading, const gyre_layer_reading *group,
                                  gyre_error *err) {
    *out = (explain_stats){.group = group, .attention_factor = 1};
    gyre_status status = gyre_encoding_create(&out->encoding, &group->config, NULL, err);
    if (status) return status;
    out->config = gyre_encoding_get_config(out->encoding);
    name_encoding(out);
    const gyre_config *config = out->config;
    out->trained = config->trained_length;
    out->length = reading->context_length > 0      ? reading->context_length
                  : config->kind == GYRE_KIND_ROPE ? config->rope.context_length
                                                   : out->trained;
    out->max_length = out->length;
    out->scale = group->scale;
    if (out->scale == 0 && config->head_dim > 0) out->scale = group->softmax_multiplier / sqrt((double)config->head_dim);
    if (config->kind == GYRE_KIND_ROPE) status = rotation_stats(out, reading, err);
    if (config->kind == GYRE_KIND_ALIBI) status = slopes_stats(out, err);
    if (status) explain_stats_free(out);
    return status;
}

void explain_stats_free(explain_stats *f) {
    gyre_encoding_free(f->encoding);
    free(f->inv_freq);
    free(f->freq_factor);
    free(f->state);
    free(f->slopes);
    *f = (explain_stats){0};
}

/* -- schemes without pairs -- */
static void put(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(char *out, size_t size, const char *format, ...) {
    const size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

static void describe_alibi(const explain_stats *f, char *out, size_t size) {
    double most = 0, least = INFINITY;
    char a[EXPLAIN_TEXT_SIZE], b[EXPLAIN_TEXT_SIZE], halves[EXPLAIN_TEXT_SIZE];
    for (int64_t h = 0; h < f->config->heads; h++) {
        const double slope = fabs(f->slopes[h]);
        if (slope > most) most = slope;
        if (slope < least) least = slope;
    }
    put(out, size, "%" PRId64 " slopes, %s to %s per token: a weight halves every %s tokens", f->config->heads,
        explain_format_number(f->slopes[0], 6, a), explain_format_number(f->slopes[f->config->heads - 1], 6, b),
        explain_format_range(log(2.0) / most, log(2.0) / least, halves));
}

enum { MAX_BUCKETS = 512, LISTED_BUCKETS = 20 };

/* out = how many; first[b] = the shortest distance of the b-th.  Found by asking, so that it is what attention does. */
static int64_t find_buckets(const explain_stats *f, int64_t first[MAX_BUCKETS]) {
    const int64_t said = f->config->score.max_distance, most = said < 1 << 20 ? said : 1 << 20;
    int64_t row = -1, before = -1, count = 0;
    for (int64_t d = 0; d <= most && count < MAX_BUCKETS; d++) {
        if (gyre_encoding_row(f->encoding, d, 0, &row)) break;
        if (row != before) first[count++] = d;
        before = row;
    }
    return count;
}

static void describe_buckets(const explain_stats *f, char *out, size_t size) {
    int64_t first[MAX_BUCKETS], alone = 0;
    const int64_t count = find_buckets(f, first);
    while (alone + 1 < count && first[alone + 1] == first[alone] + 1)
        alone++;
    put(out, size, "%" PRId64 " buckets%s: distances 0-%" PRId64 " have one each, then one begins at",
        f->config->score.buckets, f->config->score.bidirectional ? ", half of them for keys after the query" : "",
        alone - 1);
    for (int64_t b = alone; b < count; b++)
        if (count - alone <= LISTED_BUCKETS || b < alone + LISTED_BUCKETS - 2 || b == count - 1)
            put(out, size, "%s%" PRId64, b == alone ? " " : ", ", first[b]);
        else if (b == count - 2)
            put(out, size, ", ...");
    put(out, size, "; the last has no end");
}

static void describe_learned(const explain_stats *f, char *out, size_t size) {
    const int64_t rows = f->config->input.positions, offset = f->config->input.offset, own = rows - offset;
    const int64_t usable = f->config->input.resized_length > 0 ? f->config->input.resized_length : own;
    put(out, size, "a table of %" PRId64 " rows", rows);
    if (offset) put(out, size, ", position 0 in row %" PRId64, offset);
    put(out, size, ": positions 0-%" PRId64 ", and none past them", usable - 1);
}

static void describe_vectors(const explain_stats *f, char *out, size_t size) {
    const int64_t most = f->config->score.max_distance;
    int64_t shape[4] = {0}, rows = 0;
    static const gyre_table tables[] = {GYRE_TABLE_QUERY, GYRE_TABLE_KEY, GYRE_TABLE_VALUE};
    for (int i = 0; i < 3 && rows == 0; i++)
        if (gyre_encoding_table_shape(f->encoding, tables[i], shape) == GYRE_OK) rows = shape[2];
    if (rows > 0) put(out, size, "%" PRId64 " rows of vectors; ", rows);
    if (f->config->kind == GYRE_KIND_BERT)
        put(out, size, "positions 0-%" PRId64 ", and none past them", f->config->score.max_positions - 1);
    else if (most > 0)
        put(out, size, "distances past %" PRId64 " count as %" PRId64, most, most);
}

void explain_describe_scheme(const explain_stats *f, char *out, size_t size) {
    out[0] = 0;
    switch (f->config->kind) {
    case GYRE_KIND_NOPE:
        put(out, size,
            f->config->query.temperature ? "no positions, but queries are multiplied by a temperature" : "no positions");
        break;
    case GYRE_KIND_LEARNED:
        describe_learned(f, out, size);
        break;
    case GYRE_KIND_SINUSOIDAL:
        put(out, size, "a sinusoid: any position up to 2^31");
        break;
    case GYRE_KIND_ALIBI:
        describe_alibi(f, out, size);
        break;
    case GYRE_KIND_T5:
        describe_buckets(f, out, size);
        break;
    case GYRE_KIND_SHAW:
    case GYRE_KIND_NEZHA:
    case GYRE_KIND_BERT:
    case GYRE_KIND_DEBERTA:
    case GYRE_KIND_TRANSFORMER_XL:
        describe_vectors(f, out, size);
        break;
    default:
        break;
    }
}

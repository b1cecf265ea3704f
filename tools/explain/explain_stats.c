/* explain_stats.c: frequencies, pair states, slopes and factors of a group of layers, computed by the library. */
#include "tools/explain/explain_stats.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_values.h"
#include "tools/common/methods.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586476925286766559;

double explain_wavelength(double inv_freq) {
    return TWO_PI / inv_freq;
}

int explain_wavelength_exceeds(double inv_freq, int64_t tokens) {
    return tokens > 0 && (double)tokens * inv_freq < TWO_PI;
}

/* -- fields -- */
const gyre_reading_field *explain_find_field(const gyre_layer_reading *group, const char *name) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0) return &group->fields[i];
    return NULL;
}

/* -- names -- */
static void add(char *label, size_t size, const char *part) {
    const size_t used = strlen(label);
    snprintf(label + used, size - used, "+%s", part);
}

static void name_encoding(explain_stats *stats) {
    const gyre_config *config = stats->config;
    snprintf(stats->label, sizeof stats->label, "%s", gyre_kind_name(config->kind));
    if (gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES)) {
        if (config->rope.scaling != GYRE_SCALING_NONE)
            add(stats->label, sizeof stats->label, gyre_rope_type(config->rope.scaling));
        if (config->rope.axes > 1)
            add(stats->label, sizeof stats->label, config->rope.axes_layout == GYRE_AXES_AXIAL ? "axial" : "mrope");
        if (config->rope.resonance) add(stats->label, sizeof stats->label, "resonance");
        if (config->rope.clip.mode != GYRE_CLIP_NONE)
            add(stats->label, sizeof stats->label, config->rope.clip.mode == GYRE_CLIP_SOFT ? "clipped" : "clipped-hard");
        if (config->rope.longrope.start_tokens > 0) add(stats->label, sizeof stats->label, "start");
        if (config->rope.xpos_base > 0) add(stats->label, sizeof stats->label, "xpos");
        static const char *const far[] = {NULL, "rerope", "leaky", "self-extend", "dca", "dca-paper"};
        if (config->rope.far) add(stats->label, sizeof stats->label, far[config->rope.far]);
    }
    if (config->query.temperature) add(stats->label, sizeof stats->label, "temperature");
}

/* -- frequencies -- */
static gyre_status frequencies(const gyre_config *config, int64_t length, double *out, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_status status = gyre_encoding_create(&encoding, config, NULL, err);
    if (!status) status = gyre_encoding_frequencies(encoding, length, out, NULL);
    gyre_encoding_free(encoding);
    return status;
}

/* trained[pairs] = the frequencies without scaling.  scaled[pairs] = with it, before resonance rounds the wavelengths.
 * Creates an encoding only if the config differs from that of stats->encoding, whose frequencies are stats->inv_freq. */
static gyre_status unscaled_frequencies(const explain_stats *stats, double *trained, double *scaled, gyre_error *err) {
    gyre_config config = *stats->config;
    gyre_status status = GYRE_OK;
    config.rope.resonance = 0;
    if (stats->config->rope.resonance)
        status = frequencies(&config, stats->length, scaled, err);
    else
        memcpy(scaled, stats->inv_freq, (size_t)stats->pairs * sizeof *scaled);
    gyre_config_unscale(&config);
    if (!status && stats->config->rope.scaling == GYRE_SCALING_NONE && stats->config->rope.clip.mode == GYRE_CLIP_NONE)
        memcpy(trained, scaled, (size_t)stats->pairs * sizeof *trained);
    else if (!status)
        status = frequencies(&config, stats->length, trained, err);
    return status;
}

/* out = the factor that the scaling states.  Factors of dynamic scalings grow with the length. */
static double effective_factor(const explain_stats *stats) {
    const double s = stats->config->rope.factor;
    if (stats->config->rope.scaling == GYRE_SCALING_DYNAMIC_YARN)
        return stats->length > stats->trained ? (double)stats->length / (double)stats->trained : 1;
    if (stats->config->rope.scaling != GYRE_SCALING_DYNAMIC_NTK) return s;
    return stats->length > stats->trained ? s * (double)stats->length / (double)stats->trained - (s - 1) : 1;
}

double explain_base_in_use(const explain_stats *stats) {
    const struct gyre_rope_config *rope = &stats->config->rope;
    const double channels = (double)rope->dim;
    if (rope->axes > 1 || (rope->scaling != GYRE_SCALING_NTK && rope->scaling != GYRE_SCALING_DYNAMIC_NTK))
        return rope->base;
    return rope->base * pow(effective_factor(stats), channels / (channels - 2));
}

int explain_depends_on_length(const explain_stats *stats) {
    return config_depends_on_length(stats->config);
}

static explain_pair_state state_of(double freq_factor, double factor) {
    if (isinf(freq_factor)) return EXPLAIN_PAIR_NOT_ROTATED;
    if (fabs(freq_factor - 1) <= 1e-9) return EXPLAIN_PAIR_UNSCALED;
    return fabs(freq_factor / factor - 1) <= 1e-9 ? EXPLAIN_PAIR_INTERPOLATED : EXPLAIN_PAIR_BLENDED;
}

static void count_pairs(explain_stats *stats) {
    const double factor = effective_factor(stats);
    for (int64_t i = 0; i < stats->pairs; i++) {
        stats->state[i] = state_of(stats->freq_factor[i], factor);
        stats->count[stats->state[i]]++;
        stats->incomplete += explain_wavelength_exceeds(stats->inv_freq[i], stats->trained);
        stats->incomplete_max_length += explain_wavelength_exceeds(stats->inv_freq[i], stats->max_length);
    }
}

/* max_position_embeddings may state a longer length than the scaling counts from.  It is used only if the frequencies at
 * that length equal those at the length in use.  there[pairs]: scratch. */
static int64_t max_length_of(const explain_stats *stats, const gyre_reading *reading, double *there) {
    int64_t max = 0;
    if (reading->context_length > 0) return stats->length;
    const gyre_reading_field *stated = explain_find_field(stats->group, "max_length");
    if (stated) max = strtoll(stated->value, NULL, 10);
    if (max <= stats->length || max > CLI_MAX_TOKENS - 1) return stats->length;
    if (gyre_encoding_frequencies(stats->encoding, max, there, NULL)) return stats->length;
    return memcmp(there, stats->inv_freq, (size_t)stats->pairs * sizeof *there) == 0 ? max : stats->length;
}

static gyre_status rotation_stats(explain_stats *stats, const gyre_reading *reading, gyre_error *err) {
    stats->pairs = stats->config->rope.dim / 2;
    const size_t count = (size_t)(stats->pairs ? stats->pairs : 1);
    stats->inv_freq = calloc(count, sizeof *stats->inv_freq);
    stats->freq_factor = calloc(count, sizeof *stats->freq_factor);
    stats->state = calloc(count, sizeof *stats->state);
    double *trained = calloc(count, sizeof *trained);
    gyre_status status = stats->inv_freq && stats->freq_factor && stats->state && trained ? GYRE_OK : GYRE_ENOMEM;
    if (status) (void)gyre_fail(err, status, "frequencies: out of memory (%.200s)", reading->path);
    if (!status)
        status = gyre_encoding_frequencies(stats->encoding, stats->length, stats->inv_freq, &stats->attention_factor);
    if (!status) status = unscaled_frequencies(stats, trained, stats->freq_factor, err);
    if (!status) {
        for (int64_t i = 0; i < stats->pairs; i++)
            stats->freq_factor[i] = trained[i] / stats->freq_factor[i];
        stats->max_length = max_length_of(stats, reading, trained);
        count_pairs(stats);
    }
    free(trained);
    return status;
}

static gyre_status slopes_stats(explain_stats *stats, gyre_error *err) {
    stats->slopes = calloc((size_t)stats->config->heads + 1, sizeof *stats->slopes);
    if (!stats->slopes) return gyre_fail(err, GYRE_ENOMEM, "slopes: out of memory (ALiBi)");
    return gyre_encoding_slopes(stats->encoding, 0, stats->slopes);
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
    const int64_t own = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) ? config->context_length : 0;
    out->length = reading->context_length > 0 ? reading->context_length : own > 0 ? own : out->trained;
    out->max_length = out->length;
    out->scale = group->scale;
    const int64_t channels = gyre_config_has(config, "score.amplitudes")
                                 ? config->score.amplitudes
                                 : config->head_dim - config->score.relative_channels;
    if (out->scale == 0 && channels > 0) out->scale = group->softmax_multiplier / sqrt((double)channels);
    if (gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES)) status = rotation_stats(out, reading, err);
    if (gyre_kind_has(config->kind, GYRE_TRAIT_SLOPES)) status = slopes_stats(out, err);
    if (status) explain_stats_free(out);
    return status;
}

void explain_stats_free(explain_stats *stats) {
    gyre_encoding_free(stats->encoding);
    free(stats->inv_freq);
    free(stats->freq_factor);
    free(stats->state);
    free(stats->slopes);
    *stats = (explain_stats){0};
}

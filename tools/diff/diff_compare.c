/* diff_compare.c: matches the groups of two readings and compares them. */
#include "tools/diff/diff_compare.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/options/reading_options.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- one group of each reading -- */
/* Division gives an estimate.  The products decide: they are exact in long double. */
int64_t diff_first_position(double gap) {
    const long double max = 2147483648.0L, w = (long double)gap;
    if (!(w > 0.0L) || max * w <= DIFF_ANGLE) return -1;
    long double m = floorl(DIFF_ANGLE / w);
    while (m > 0.0L && (m - 1.0L) * w > DIFF_ANGLE)
        m -= 1.0L;
    while (m * w <= DIFF_ANGLE)
        m += 1.0L;
    return (int64_t)m;
}

int diff_stands_still(double inv_freq) {
    return diff_first_position(fabs(inv_freq)) < 0;
}

static double frequency_of(const explain_stats *f, int64_t pair) {
    const double frequency = pair < f->pairs ? f->inv_freq[pair] : 0;
    return f->config->rope.clockwise ? -frequency : frequency;
}

static void compare_frequencies(diff_layers *d) {
    const int64_t pairs = d->a.pairs > d->b.pairs ? d->a.pairs : d->b.pairs;
    double min = INFINITY;
    d->pair = d->max_difference_pair = -1;
    for (int64_t i = 0; i < pairs; i++) {
        const double a = frequency_of(&d->a, i), b = frequency_of(&d->b, i), gap = fabs(b - a);
        const double relative = gap == 0 ? 0 : a != 0 ? gap / fabs(a) : INFINITY;
        if (relative < min) min = relative;
        if (relative > d->max_relative_difference * (1 + DIFF_ROUNDING)) { /* the first of equal pairs */
            d->max_relative_difference = relative;
            d->pair = i;
        }
        if (gap > d->max_difference) {
            d->max_difference = gap;
            d->max_difference_pair = i;
        }
    }
    d->same_frequencies = d->max_relative_difference <= DIFF_ROUNDING;
    d->uniform_ratio = d->max_relative_difference - min <= DIFF_ROUNDING * (1 + d->max_relative_difference);
    d->length = d->a.length > d->b.length ? d->a.length : d->b.length;
    d->angle_difference = (double)d->length * d->max_difference;
    d->first_position = d->same_frequencies ? -1 : diff_first_position(d->max_difference);
}

/* out = the tokens that rotate as without a scaling. */
static int64_t starts_in_use(const explain_stats *f) {
    return f->length > f->trained ? f->config->rope.longrope.start_tokens : 0;
}

/* Start tokens of only one reading rotate as trained there, and by the scaled frequencies in the other. */
static void compare_starts(diff_layers *d) {
    const int64_t in_a = starts_in_use(&d->a), in_b = starts_in_use(&d->b), from = in_a < in_b ? in_a : in_b;
    const explain_stats *started = in_a > in_b ? &d->a : &d->b, *other = in_a > in_b ? &d->b : &d->a;
    d->start_tokens = in_a > in_b ? in_a : in_b;
    if (in_a == in_b) return;
    for (int64_t i = 0; i < started->pairs && i < other->pairs; i++) {
        if (!isfinite(started->freq_factor[i])) continue;
        const double gap = fabs(started->inv_freq[i] * started->freq_factor[i] - other->inv_freq[i]);
        const int64_t first = diff_first_position(gap), seen = first > from || first < 0 ? first : from;
        if (gap > d->max_difference) {
            d->max_difference = gap;
            d->max_difference_pair = i;
        }
        if (seen >= 0 && seen < d->start_tokens && (d->first_position < 0 || seen < d->first_position))
            d->first_position = seen;
    }
}

/* Of the two first distances that are not as near, the smaller one. */
static int64_t first_distance(const gyre_config *a, const gyre_config *b) {
    const struct gyre_rope_config *x = &a->rope, *y = &b->rope;
    const int64_t in_a = far_first_change(a), in_b = far_first_change(b);
    if (x->far == y->far && x->far_window == y->far_window && x->far_factor == y->far_factor &&
        a->rope.chunk.size == b->rope.chunk.size && a->rope.chunk.local == b->rope.chunk.local)
        return -1;
    return in_a < 0 || (in_b >= 0 && in_b < in_a) ? in_b : in_a;
}

static double ratio(double b, double a) {
    return a > 0 && b > 0 ? b / a : 1;
}

static int is_one(double value) {
    return fabs(value - 1) <= DIFF_ROUNDING;
}

gyre_status diff_layers_compare(diff_layers *out, const gyre_reading *a, const gyre_layer_reading *group_a,
                                const gyre_reading *b, const gyre_layer_reading *group_b, gyre_error *err) {
    *out = (diff_layers){
        .pair = -1, .max_difference_pair = -1, .first_position = -1, .first_distance = -1, .same_frequencies = 1};
    gyre_status status = explain_stats_compute(&out->a, a, group_a, err);
    if (status) return status;
    status = explain_stats_compute(&out->b, b, group_b, err);
    if (status) {
        explain_stats_free(&out->a);
        return status;
    }
    out->rotates =
        gyre_kind_has(out->a.config->kind, GYRE_TRAIT_ROTATES) && gyre_kind_has(out->b.config->kind, GYRE_TRAIT_ROTATES);
    if (out->rotates) compare_frequencies(out);
    if (out->rotates) compare_starts(out);
    if (out->rotates) out->first_distance = first_distance(out->a.config, out->b.config);
    out->reordered =
        out->rotates && strcmp(a->format, b->format) != 0 && out->a.config->rope.layout != out->b.config->rope.layout;
    out->factor_ratio = ratio(out->b.attention_factor, out->a.attention_factor);
    out->scale_ratio = ratio(out->b.scale, out->a.scale);
    out->softmax_ratio = ratio(group_b->softmax_multiplier, group_a->softmax_multiplier);
    out->score_ratio = out->factor_ratio * out->factor_ratio * out->scale_ratio;
    diff_settings_compare(out);
    diff_layer_lists_compare(out, a, b);
    out->same = out->same_frequencies && out->settings_count == 0 && is_one(out->factor_ratio) && is_one(out->scale_ratio);
    return GYRE_OK;
}

void diff_layers_free(diff_layers *layers) {
    explain_stats_free(&layers->a);
    explain_stats_free(&layers->b);
}

/* -- fields -- */
static int same_value(const char *a, const char *b) {
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (end_a == a || end_b == b || *end_a || *end_b) return strcmp(a, b) == 0;
    return x == y;
}

/* 1: a list of LongRoPE that both have, about which one of them says when it is used. */
static int chooses_list(const gyre_reading_field *a, const gyre_reading_field *b) {
    const int is_list = strcmp(a->name, "short_factor") == 0 || strcmp(a->name, "long_factor") == 0;
    return is_list && (a->note || b->note) && !(a->note && b->note && strcmp(a->note, b->note) == 0);
}

int diff_fields_compare(const gyre_layer_reading *a, const gyre_layer_reading *b, diff_field *out, int max) {
    int count = 0;
    for (int64_t i = 0; i < a->fields_count && count < max; i++) {
        const gyre_reading_field *mine = &a->fields[i], *other = explain_find_field(b, mine->name);
        if (!other || !same_value(mine->value, other->value) || chooses_list(mine, other))
            out[count++] = (diff_field){mine, other};
    }
    for (int64_t i = 0; i < b->fields_count && count < max; i++)
        if (!explain_find_field(a, b->fields[i].name)) out[count++] = (diff_field){NULL, &b->fields[i]};
    return count;
}

/* -- matching -- */
/* Matches groups of the same name.  "all" matches any group of a decoder.  Otherwise groups with a common layer match. */
static const gyre_layer_reading *matching_group(const gyre_reading *other, const gyre_layer_reading *group) {
    const gyre_layer_reading *named = reading_find_group(other, group->name);
    if (named || reading_is_beside(group)) return named;
    named = reading_find_group(other, "all");
    if (named) return named;
    for (int64_t i = 0; i < other->groups_count; i++) {
        const gyre_layer_reading *g = other->groups[i];
        if (reading_is_beside(g)) continue;
        if (strcmp(group->name, "all") == 0 || explain_layers_overlap(g, group)) return g;
    }
    return NULL;
}

static int is_matched(const diff_result *result, const gyre_layer_reading *group) {
    for (int i = 0; i < result->count; i++)
        if (result->layers[i].a.group == group || result->layers[i].b.group == group) return 1;
    return 0;
}

static int is_wanted(const gyre_layer_reading *group, const gyre_layer_reading *other, const char *layer_type) {
    return reading_is_selected(group, layer_type) || (other && reading_is_selected(other, layer_type));
}

static gyre_status add_pair(diff_result *r, const gyre_layer_reading *a, const gyre_layer_reading *b, gyre_error *err) {
    if (r->count == DIFF_MAX_GROUPS)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layers: more than %d kinds to compare (gyre diff)", DIFF_MAX_GROUPS);
    const gyre_status status =
        diff_layers_compare(&r->layers[r->count], r->operand[0].reading, a, r->operand[1].reading, b, err);
    if (!status) r->count++;
    return status;
}

static gyre_status match(diff_result *r, const char *layer_type, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int s = 0; s < 2; s++) {
        const gyre_reading *mine = r->operand[s].reading, *other = r->operand[!s].reading;
        for (int64_t i = 0; i < mine->groups_count && !status; i++) {
            const gyre_layer_reading *g = mine->groups[i], *p = matching_group(other, g);
            /* The second operand adds the groups that the first did not match, such as several that all match "all". */
            if (!is_wanted(g, p, layer_type) || (s && is_matched(r, g))) continue;
            if (p)
                status = add_pair(r, s ? p : g, s ? g : p, err);
            else if (r->unmatched_count[s] < DIFF_MAX_GROUPS)
                r->unmatched[s][r->unmatched_count[s]++] = g;
        }
    }
    return status;
}

gyre_status diff_compare(diff_result *result, const char *layer_type, gyre_error *err) {
    gyre_status status = GYRE_OK;
    result->layers = calloc(DIFF_MAX_GROUPS, sizeof *result->layers);
    if (!result->layers) return gyre_fail(err, GYRE_ENOMEM, "layers: out of memory (gyre diff)");
    result->same = result->operand[0].reading && result->operand[1].reading;
    if (result->same) status = match(result, layer_type, err);
    for (int i = 0; i < result->count; i++)
        result->same &= result->layers[i].same;
    if (result->unmatched_count[0] || result->unmatched_count[1]) result->same = 0;
    if (!status) diff_verdict(result);
    return status;
}

gyre_status diff_measure_accuracy(diff_result *result, gyre_error *err) {
    const explain_stats *stats[2 * DIFF_MAX_GROUPS];
    for (int i = 0; i < result->count; i++) {
        stats[2 * i] = &result->layers[i].a;
        stats[2 * i + 1] = &result->layers[i].b;
    }
    const gyre_status status = explain_accuracy_compute(result->accuracy, stats, 2 * result->count, err);
    for (int i = 0; i < 2 * result->count && !status; i++)
        result->layers[i / 2].accuracy[i % 2] = result->accuracy[i];
    return status;
}

void diff_result_free(diff_result *result) {
    for (int i = 0; i < result->count; i++)
        diff_layers_free(&result->layers[i]);
    free(result->layers);
    explain_accuracy_free(result->accuracy, 2 * result->count);
    for (int s = 0; s < 2; s++)
        gyre_reading_free(result->operand[s].reading);
}

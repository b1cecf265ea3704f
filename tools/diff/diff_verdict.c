/* diff_verdict.c: the result of a comparison, in one sentence. */
#include "gyre/gyre_fields.h"
#include "tools/diff/diff_compare.h"
#include "tools/options/value_names.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void diff_append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* Writes a ratio of b to a: "1.30 times larger". */
static void format_ratio(double ratio, char out[EXPLAIN_TEXT_SIZE]) {
    const int larger = ratio >= 1;
    const double times = larger ? ratio : 1 / ratio;
    if (times - 1 < 0.01)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.2g%% %s", 100 * (times - 1), larger ? "larger" : "smaller");
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, times < 100 ? "%.2f times %s" : "%.0f times %s", times,
                 larger ? "larger" : "smaller");
}

static int scores_differ(const diff_layers *d) {
    return fabs(d->score_ratio - 1) > DIFF_ROUNDING;
}

static void append_scores(diff_result *r, const diff_layers *d) {
    char text[EXPLAIN_TEXT_SIZE];
    format_ratio(d->score_ratio, text);
    diff_append(r->verdict, sizeof r->verdict, "scores are %s", text);
}

/* out = 1 if the setting only repeats that the numbers of pairs differ. */
static int is_implied(const diff_layers *d, const diff_setting *setting) {
    return d->rotates && d->a.pairs != d->b.pairs && strcmp(setting->name, "rotary_dim") == 0;
}

static void append_settings(diff_result *r, const diff_layers *d, const char *opening) {
    enum { MAX_LISTED = 3 };
    int listed = 0, more = 0;
    for (int i = 0; i < d->settings_count; i++) {
        const diff_setting *s = &d->settings[i];
        if (is_implied(d, s)) continue;
        if (listed == MAX_LISTED) {
            more++;
            continue;
        }
        diff_append(r->verdict, sizeof r->verdict, "%s%s is %s under %s, %s under %s", listed ? "; " : opening, s->name,
                    s->a, r->operand[0].label, s->b, r->operand[1].label);
        listed++;
    }
    if (more) diff_append(r->verdict, sizeof r->verdict, "; and %d more", more);
}

static void append_pair(diff_result *r, const diff_layers *d) {
    const double a = d->pair < d->a.pairs ? d->a.inv_freq[d->pair] : 0,
                 b = d->pair < d->b.pairs ? d->b.inv_freq[d->pair] : 0;
    const char *label = r->operand[1].label, *way = a > b ? "slower" : "faster";
    char which[EXPLAIN_TEXT_SIZE] = "every pair";
    if (!d->uniform_ratio) snprintf(which, sizeof which, "pair %" PRId64, d->pair);
    if (d->a.pairs != d->b.pairs)
        diff_append(r->verdict, sizeof r->verdict, "%" PRId64 " pairs rotate under %s, %" PRId64 " under %s", d->a.pairs,
                    r->operand[0].label, d->b.pairs, label);
    else if (diff_stands_still(a) != diff_stands_still(b))
        diff_append(r->verdict, sizeof r->verdict, "%s does not rotate, under %s only", which,
                    r->operand[diff_stands_still(a) ? 0 : 1].label);
    else if (a == b)
        diff_append(r->verdict, sizeof r->verdict, "%s rotates in the other direction under %s", which, label);
    else if (a / b > 1e6 || b / a > 1e6)
        diff_append(r->verdict, sizeof r->verdict, "%s rotates %.1g times %s under %s", which, a > b ? a / b : b / a, way,
                    label);
    else if (a / b - 1 > 0.01 || b / a - 1 > 0.01)
        diff_append(r->verdict, sizeof r->verdict, "%s rotates %.2f times %s under %s", which, a > b ? a / b : b / a, way,
                    label);
    else
        diff_append(r->verdict, sizeof r->verdict, "%s turns %.2g%% %s under %s", which, 100 * fabs(b - a) / a, way, label);
}

/* If one scaling follows the length, two scalings may agree at one length and differ at the next. */
static void append_same(diff_result *r, const diff_layers *d, const char *same) {
    diff_append(r->verdict, sizeof r->verdict, "%s", same);
    if (d->reordered)
        diff_append(r->verdict, sizeof r->verdict,
                    " but for the order of channels, which follows that of the weights (%s under %s, %s under %s)",
                    gyre_layout_name(d->a.config->rope.layout), r->operand[0].label,
                    gyre_layout_name(d->b.config->rope.layout), r->operand[1].label);
    if (d->rotates && d->a.config->rope.scaling != d->b.config->rope.scaling &&
        (explain_depends_on_length(&d->a) || explain_depends_on_length(&d->b)))
        diff_append(r->verdict, sizeof r->verdict, " at length %" PRId64 ", where %s and %s meet", d->length, d->a.label,
                    d->b.label);
}

/* 1: distances of one length, or the first tokens, rotate by more under one of the two, although no frequency differs. */
static int far_differs(const diff_layers *d) {
    const gyre_config *a = d->a.config, *b = d->b.config;
    return a->rope.far != b->rope.far || a->rope.far_window != b->rope.far_window ||
           a->rope.chunk.size != b->rope.chunk.size || a->rope.chunk.local != b->rope.chunk.local || d->parts_differ ||
           (d->same_frequencies && d->first_position >= 0); /* start tokens */
}

/* Appends that far keys rotate otherwise.  out = 1 if so. */
static int append_distance(diff_result *r, const diff_layers *d, const char *opening) {
    if (d->first_distance < 0) return 0;
    const int chunks = far_is_chunked(d->a.config) || far_is_chunked(d->b.config);
    diff_append(r->verdict, sizeof r->verdict, "%skeys%s rotate otherwise from a distance of %" PRId64 " tokens on", opening,
                chunks ? " of other chunks" : "", d->first_distance);
    return 1;
}

/* Frequencies come first, because their effect grows with the length; then multipliers of scores; then the rest. */
static void append_layers(diff_result *r, const diff_layers *d, int opens) {
    const char *first = opens ? "D" : "d";
    if (d->same) {
        append_same(r, d, opens ? "Same" : "the same");
    } else if (d->a.config->kind != d->b.config->kind) {
        diff_append(r->verdict, sizeof r->verdict, "%sifferent schemes: %s under %s, %s under %s", first, d->a.label,
                    r->operand[0].label, d->b.label, r->operand[1].label);
    } else if (!d->same_frequencies) {
        if (d->first_position >= 0)
            diff_append(r->verdict, sizeof r->verdict, "%sifferent from position %" PRId64 " on: ", first,
                        d->first_position);
        else
            diff_append(r->verdict, sizeof r->verdict, "%sifferent, but by less than 0.01 rad up to position 2^31: ", first);
        append_pair(r, d);
        if (scores_differ(d)) diff_append(r->verdict, sizeof r->verdict, ", and ");
        if (scores_differ(d)) append_scores(r, d);
        append_distance(r, d, ", and ");
        append_settings(r, d, "; also ");
    } else {
        if (d->rotates)
            diff_append(r->verdict, sizeof r->verdict, "%same %s, but ", opens ? "S" : "the s",
                        far_differs(d) ? "frequencies" : "rotations");
        else
            diff_append(r->verdict, sizeof r->verdict, "%sifferent: ", first);
        const int far = append_distance(r, d, "");
        if (far && scores_differ(d)) diff_append(r->verdict, sizeof r->verdict, ", and ");
        if (scores_differ(d)) append_scores(r, d);
        if (scores_differ(d)) diff_append(r->verdict, sizeof r->verdict, " under %s", r->operand[1].label);
        append_settings(r, d, far || scores_differ(d) ? "; also " : "");
    }
}

/* "all" beside other groups is the decoder; towers have names of their own. */
static const char *name_of(const diff_layers *d) {
    const char *name = strcmp(d->a.group->name, "all") != 0 ? d->a.group->name : d->b.group->name;
    return strcmp(name, "all") != 0 ? name : "the decoder";
}

/* Writes the sentence of one group. */
static void sentence(const diff_result *r, const diff_layers *d, int opens, char out[sizeof r->verdict]) {
    diff_result part = {.count = 0};
    part.operand[0] = r->operand[0];
    part.operand[1] = r->operand[1];
    append_layers(&part, d, opens);
    memcpy(out, part.verdict, sizeof part.verdict);
}

/* Groups that differ in the same way share a sentence: "in sliding_attention and full_attention: ...". */
static void append_groups(diff_result *r) {
    char previous[sizeof r->verdict] = "", next[sizeof r->verdict];
    int listed = 0;
    for (int i = 0; i < r->count; i++) {
        if (r->layers[i].same) continue;
        sentence(r, &r->layers[i], 0, next);
        if (listed && strcmp(previous, next) == 0) {
            diff_append(r->verdict, sizeof r->verdict, " and %s", name_of(&r->layers[i]));
            continue;
        }
        if (listed) diff_append(r->verdict, sizeof r->verdict, ": %s; ", previous);
        diff_append(r->verdict, sizeof r->verdict, "%s %s", listed ? "in" : "In", name_of(&r->layers[i]));
        memcpy(previous, next, sizeof previous);
        listed++;
    }
    diff_append(r->verdict, sizeof r->verdict, ": %s", previous);
}

static void append_unmatched(diff_result *r) {
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < r->unmatched_count[s]; i++)
            diff_append(r->verdict, sizeof r->verdict, "%s%s layers are known to %s alone", *r->verdict ? "; " : "",
                        r->unmatched[s][i]->name, r->operand[s].label);
}

/* out = how a program chooses between the two lists of LongRoPE, as the end of a sentence; "" if it has none. */
static void list_choice(const diff_operand *operand, const gyre_layer_reading *group, char *out, size_t size) {
    const gyre_reading *reading = operand->reading;
    const gyre_reading_field *most = explain_find_field(group, "max_length");
    char tokens[64] = "";
    *out = 0;
    if (!gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES) || !explain_find_field(group, "short_factor")) return;
    if (reading->context_length > 0)
        snprintf(tokens, sizeof tokens, ", %" PRId64 " here", reading->context_length);
    else if (most)
        snprintf(tokens, sizeof tokens, ", %s here", most->value);
    if (reading->profile == GYRE_PROFILE_LLAMA_CPP)
        snprintf(out, size, "when it starts, by the context that it allocates (--ctx-size%s)", tokens);
    else if (reading->profile == GYRE_PROFILE_VLLM_2026_05 || reading->profile == GYRE_PROFILE_VLLM_2026_09)
        snprintf(out, size, "when it starts, by --max-model-len%s", tokens);
    else
        snprintf(out, size, "in each call, by the tokens it holds: long past %" PRId64, group->config.trained_length);
}

/* LongRoPE's lists are chosen by a length that is not the same in all programs, so results may meet at one length and part
 * at another, or with no length given. */
static void append_list_choice(diff_result *r) {
    char choice[2][160];
    for (int i = 0; i < r->count; i++) {
        const diff_layers *d = &r->layers[i];
        list_choice(&r->operand[0], d->a.group, choice[0], sizeof choice[0]);
        list_choice(&r->operand[1], d->b.group, choice[1], sizeof choice[1]);
        if (!*choice[0] || !*choice[1] || r->operand[0].reading->profile == r->operand[1].reading->profile) continue;
        const int engines[2] = {strncmp(choice[0], "when", 4) == 0, strncmp(choice[1], "when", 4) == 0};
        if (!engines[0] && !engines[1]) continue;
        diff_append(r->verdict, sizeof r->verdict, " %s chooses between the short and the long list %s; %s %s.",
                    r->operand[0].label, choice[0], r->operand[1].label, choice[1]);
        return;
    }
}

void diff_verdict(diff_result *r) {
    int differing = 0;
    r->verdict[0] = 0;
    for (int s = 0; s < 2; s++)
        if (!r->operand[s].reading) {
            diff_append(r->verdict, sizeof r->verdict, "%s refuses this config: %s", r->operand[s].label,
                        r->operand[s].err.text);
            return;
        }
    for (int i = 0; i < r->count; i++)
        differing += !r->layers[i].same;
    if (r->count > 0 && (r->count == 1 || differing == 0)) {
        append_layers(r, &r->layers[0], 1);
    } else if (differing > 0) {
        append_groups(r);
        if (differing < r->count) diff_append(r->verdict, sizeof r->verdict, "; the same elsewhere");
    }
    append_unmatched(r);
    if (*r->verdict) diff_append(r->verdict, sizeof r->verdict, ".");
    append_list_choice(r);
}

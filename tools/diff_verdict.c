/* diff_verdict.c: what a comparison comes to, in one sentence. */
#include "diff_compare.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static void say(diff_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(diff_result *r, const char *format, ...) {
    const size_t used = strlen(r->verdict);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->verdict + used, sizeof r->verdict - used, format, arguments);
    va_end(arguments);
}

/* "1.30 times larger": of b against a. */
static void ratio_text(double ratio, char out[EXPLAIN_SHORT]) {
    const int larger = ratio >= 1;
    const double times = larger ? ratio : 1 / ratio;
    if (times - 1 < 0.01)
        snprintf(out, EXPLAIN_SHORT, "%.2g%% %s", 100 * (times - 1), larger ? "larger" : "smaller");
    else
        snprintf(out, EXPLAIN_SHORT, times < 100 ? "%.2f times %s" : "%.0f times %s", times, larger ? "larger" : "smaller");
}

static int scores_differ(const diff_layers *d) {
    return fabs(d->score_ratio - 1) > DIFF_ROUNDING;
}

static void say_scores(diff_result *r, const diff_layers *d) {
    char text[EXPLAIN_SHORT];
    ratio_text(d->score_ratio, text);
    say(r, "scores are %s under %s", text, r->side[1].label);
}

static void say_settings(diff_result *r, const diff_layers *d) {
    for (int i = 0; i < d->settings_count && i < 3; i++)
        say(r, "%s%s is %s under %s, %s under %s", i ? "; " : "", d->settings[i].name, d->settings[i].a, r->side[0].label,
            d->settings[i].b, r->side[1].label);
    if (d->settings_count > 3) say(r, "; and %d more", d->settings_count - 3);
}

static void say_pair(diff_result *r, const diff_layers *d) {
    const double a = d->pair < d->a.pairs ? d->a.inv_freq[d->pair] : 0,
                 b = d->pair < d->b.pairs ? d->b.inv_freq[d->pair] : 0;
    const char *label = r->side[1].label;
    if (a == 0 || b == 0)
        say(r, "pair %" PRId64 " stands still under %s alone", d->pair, r->side[a == 0 ? 0 : 1].label);
    else if (a == b)
        say(r, "pair %" PRId64 " turns the other way under %s", d->pair, label);
    else if (a / b - 1 > 0.01 || b / a - 1 > 0.01)
        say(r, "pair %" PRId64 " turns %.2f times %s under %s", d->pair, a > b ? a / b : b / a, a > b ? "slower" : "faster",
            label);
    else
        say(r, "pair %" PRId64 " turns %.2g%% %s under %s", d->pair, 100 * fabs(b - a) / a, a > b ? "slower" : "faster",
            label);
}

/* Frequencies first, as they are what length makes worse; then what multiplies scores; then the rest. */
static void say_layers(diff_result *r, const diff_layers *d, int opens) {
    const char *first = opens ? "D" : "d";
    if (d->same) {
        say(r, "%s", opens ? "Same" : "the same");
    } else if (d->a.config->kind != d->b.config->kind) {
        say(r, "%sifferent schemes: %s under %s, %s under %s", first, d->a.label, r->side[0].label, d->b.label,
            r->side[1].label);
    } else if (!d->same_frequencies) {
        if (d->first_position >= 0)
            say(r, "%sifferent from position %" PRId64 " on: ", first, d->first_position);
        else
            say(r, "%sifferent, but by less than 0.01 rad up to position 2^31: ", first);
        say_pair(r, d);
        if (scores_differ(d)) say(r, ", and ");
        if (scores_differ(d)) say_scores(r, d);
        if (d->settings_count) say(r, "; also ");
        say_settings(r, d);
    } else {
        if (d->rotates)
            say(r, opens ? "Same rotations, but " : "the same rotations, but ");
        else
            say(r, "%sifferent: ", first);
        if (scores_differ(d)) say_scores(r, d);
        if (scores_differ(d) && d->settings_count) say(r, "; also ");
        say_settings(r, d);
    }
}

static const char *name_of(const diff_layers *d) {
    return strcmp(d->a.group->name, "all") != 0 ? d->a.group->name : d->b.group->name;
}

static void say_alone(diff_result *r) {
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < r->alone_count[s]; i++)
            say(r, "%s%s layers are known to %s alone", *r->verdict ? "; " : "", r->alone[s][i]->name, r->side[s].label);
}

void diff_verdict(diff_result *r) {
    int differing = 0, said = 0;
    r->verdict[0] = 0;
    for (int s = 0; s < 2; s++)
        if (!r->side[s].reading) {
            say(r, "%s refuses this config: %s", r->side[s].label, r->side[s].err.text);
            return;
        }
    for (int i = 0; i < r->count; i++)
        differing += !r->layers[i].same;
    const int one = r->count == 1 || (differing == 0 && r->count > 0);
    for (int i = 0; i < r->count && !(one && i > 0); i++) {
        if (!one && r->layers[i].same) continue;
        if (said) say(r, "; ");
        if (!one) say(r, "%s %s: ", said ? "in" : "In", name_of(&r->layers[i]));
        say_layers(r, &r->layers[i], one);
        said++;
    }
    if (!one && differing > 0 && differing < r->count) say(r, "; the same elsewhere");
    say_alone(r);
    if (*r->verdict) say(r, ".");
}

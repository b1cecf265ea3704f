/* lab_findings.c: what the lab found, in three sentences. */
#include "tools/lab/lab_findings.h"
#include "tools/common/result_table.h"
#include <math.h>
#include <string.h>

static const double ALIKE = 0.7; /* of Kendall's tau: most pairs of rows are in the same order */

static const lab_spread *at_longest(const lab *l, const lab_row *row) {
    return &row->spread[l->plan.contexts_count - 1];
}

static int is_measured(const lab *l, const lab_row *row) {
    return row && at_longest(l, row)->measured && at_longest(l, row)->known;
}

static double perplexity_of(const lab *l, const lab_row *row) {
    return at_longest(l, row)->of[LAB_PERPLEXITY].mean;
}

static double percent_of(const lab *l, const lab_row *row, lab_measure measure) {
    return 100 * at_longest(l, row)->of[measure].mean;
}

/* Rows, from the last to the first, compared by a measure. */
typedef struct compared_rows {
    const lab *l;
    const lab_row *rows;
    int count;
    lab_measure measure;
    int with_none;
} compared_rows;

static double cost_of(const void *of, int64_t at) {
    const compared_rows *c = of;
    const lab_row *row = &c->rows[c->count - 1 - at];
    if (!is_measured(c->l, row) || (!c->with_none && strcmp(row->name, "none") == 0)) return NAN;
    return (c->measure == LAB_PERPLEXITY ? 1 : -1) * at_longest(c->l, row)->of[c->measure].mean;
}

/* The later of equal rows: a method that follows the context comes after the same one with a fixed factor. */
static const lab_row *best_row(const compared_rows *c) {
    const int64_t best = result_best_row(c->count, cost_of, c);
    return best < 0 ? NULL : &c->rows[c->count - 1 - best];
}

const lab_row *lab_best_row(const lab *l, const lab_row *rows, int count, lab_measure measure) {
    return best_row(&(compared_rows){l, rows, count, measure, 0});
}

/* The RoPE model as it is, under the best method, and fine-tuned with the best. */
static int about_methods(const lab *l, char out[LAB_FINDING]) {
    const lab_row *none = &l->methods[0];
    const lab_row *best = lab_best_row(l, l->methods, l->plan.methods_count, LAB_PERPLEXITY);
    const lab_row *tuned = lab_best_row(l, l->tuned, l->plan.tuned_rows, LAB_PERPLEXITY);
    if (l->plan.rope < 0 || !is_measured(l, none) || !best) return 0;
    int n = snprintf(out, LAB_FINDING,
                     "At %lld times its length the RoPE model as it is has perplexity %.2f and finds %.0f %% of the keys; "
                     "under `%s` %.2f and %.0f %%",
                     (long long)(l->plan.longest / l->plan.trained), perplexity_of(l, none), percent_of(l, none, LAB_KEYS),
                     best->name, perplexity_of(l, best), percent_of(l, best, LAB_KEYS));
    if (tuned && n > 0 && n < LAB_FINDING)
        n += snprintf(out + n, (size_t)(LAB_FINDING - n), "; fine-tuned with `%s` %.2f and %.0f %%", tuned->name,
                      perplexity_of(l, tuned), percent_of(l, tuned, LAB_KEYS));
    if (n > 0 && n < LAB_FINDING) snprintf(out + n, (size_t)(LAB_FINDING - n), ".");
    return 1;
}

static int about_encodings(const lab *l, char out[LAB_FINDING]) {
    const lab_row *best = lab_best_row(l, l->encodings, l->plan.encodings_count, LAB_PERPLEXITY);
    if (!best) return 0;
    const int n =
        snprintf(out, LAB_FINDING,
                 "Of the encodings trained at %lld bytes and left as they are, `%s` has the lowest perplexity at %lld: "
                 "%.2f, after %.2f at the trained length",
                 (long long)l->plan.trained, best->name, (long long)l->plan.longest, perplexity_of(l, best),
                 best->spread[0].of[LAB_PERPLEXITY].mean);
    if (n > 0 && n < LAB_FINDING)
        snprintf(out + n, (size_t)(LAB_FINDING - n), "; it finds %.0f %% of the keys there.", percent_of(l, best, LAB_KEYS));
    return 1;
}

/* For a run that ranks no rows: whether the row that finds most keys has the lowest perplexity. */
static void about_best_rows(const lab *l, const lab_row *keys, const lab_row *lowest, int has_methods,
                            char out[LAB_FINDING]) {
    const int n = snprintf(out, LAB_FINDING, "Most keys at %lld bytes%s, %.0f %%, are found %s `%s`",
                           (long long)l->plan.longest, has_methods ? " without fine-tuning" : "",
                           percent_of(l, keys, LAB_KEYS), has_methods ? "under" : "with", keys->name);
    if (n < 0 || n >= LAB_FINDING) return;
    if (keys == lowest)
        snprintf(out + n, (size_t)(LAB_FINDING - n), ", which has the lowest perplexity too.");
    else
        snprintf(out + n, (size_t)(LAB_FINDING - n), ", but `%s` has the lowest perplexity.", lowest->name);
}

/* Whether the cheap measure says what the other one does. */
static int about_measures(const lab *l, char out[LAB_FINDING]) {
    const int has_methods = l->plan.rope >= 0 && l->methods[0].spread[l->plan.contexts_count - 1].measured;
    const lab_part part = has_methods ? LAB_METHODS_AS_THEY_ARE : LAB_ENCODINGS;
    const lab_rank *rank = &l->ranks[part][0][l->plan.contexts_count - 1];
    int count;
    const lab_row *rows = lab_part_rows(l, part, &count);
    const lab_row *keys = best_row(&(compared_rows){l, rows, count, LAB_KEYS, 1}),
                  *lowest = best_row(&(compared_rows){l, rows, count, LAB_PERPLEXITY, 1});
    if (!keys) return 0;
    if (percent_of(l, lowest, LAB_KEYS) == percent_of(l, keys, LAB_KEYS)) keys = lowest; /* as many as any */
    if (percent_of(l, keys, LAB_KEYS) == 0) {
        snprintf(out, LAB_FINDING, "Whatever the perplexity, no %s finds a single key at %lld bytes without fine-tuning.",
                 has_methods ? "method" : "encoding", (long long)l->plan.longest);
        return 1;
    }
    if (!l->plan.details) {
        about_best_rows(l, keys, lowest, has_methods, out);
        return 1;
    }
    if (!rank->known) return 0;
    snprintf(
        out, LAB_FINDING,
        "Perplexity and keys rank the %s %s at %lld bytes (Kendall's tau %.2f, %.2f to %.2f); most keys, %.0f %%, are found "
        "%s `%s`.",
        has_methods ? "methods without fine-tuning" : "encodings",
        rank->low > ALIKE ? "alike"
        : rank->low > 0   ? "only partly alike"
                          : "differently",
        (long long)l->plan.longest, rank->tau, rank->low, rank->high, percent_of(l, keys, LAB_KEYS),
        has_methods ? "under" : "with", keys->name);
    return 1;
}

int lab_finding(const lab *l, int methods, char out[LAB_FINDING]) {
    return methods ? about_methods(l, out) : about_encodings(l, out);
}

int lab_findings(const lab *l, char out[LAB_FINDINGS][LAB_FINDING]) {
    static int (*const about[LAB_FINDINGS])(const lab *, char[LAB_FINDING]) = {about_methods, about_encodings,
                                                                               about_measures};
    int count = 0;
    for (int i = 0; i < LAB_FINDINGS; i++)
        count += about[i](l, out[count]);
    return count;
}

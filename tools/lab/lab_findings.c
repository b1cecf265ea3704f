/* lab_findings.c: what a table shows at the longest context, in a sentence. */
#include "tools/lab/lab.h"

/* out = 1 if the row is complete and its encoding does not end before the longest context. */
static int is_known(const lab *l, const lab_row *row) {
    return row->seeds_done == l->plan.seeds && row->spread[l->plan.contexts_count - 1].known;
}

static double perplexity(const lab_row *row, int c) {
    return row->spread[c].of[LAB_PERPLEXITY].mean;
}

static double keys_percent(const lab *l, const lab_row *row) {
    return 100 * row->spread[l->plan.contexts_count - 1].of[LAB_KEYS].mean;
}

/* out = the row of the lowest perplexity at the longest context, from row `first` on; NULL: no row is known. */
static const lab_row *best_row(const lab *l, lab_part part, int first) {
    int count;
    const lab_row *rows = lab_part_rows(l, part, &count), *best = NULL;
    const int c = l->plan.contexts_count - 1;
    for (int i = first; i < count; i++)
        if (is_known(l, &rows[i]) && (!best || perplexity(&rows[i], c) < perplexity(best, c))) best = &rows[i];
    return best;
}

static int methods_finding(const lab *l, char text[LAB_FINDING]) {
    const int c = l->plan.contexts_count - 1;
    const lab_row *none = &l->methods[0];
    const lab_row *best = best_row(l, LAB_METHODS_AS_THEY_ARE, 1), *tuned = best_row(l, LAB_FINE_TUNED, 0);
    if (!is_known(l, none) || !best) return 0;
    const int n =
        snprintf(text, LAB_FINDING,
                 "Found: at %lld bytes, %lld times the trained length, the RoPE model as it is has perplexity %.2f and "
                 "finds %.0f %% of the keys; under %s %.2f and %.0f %%",
                 (long long)l->plan.longest, (long long)(l->plan.longest / l->plan.trained), perplexity(none, c),
                 keys_percent(l, none), best->name, perplexity(best, c), keys_percent(l, best));
    const size_t used = n > 0 && n < LAB_FINDING ? (size_t)n : LAB_FINDING - 1;
    if (tuned)
        snprintf(text + used, LAB_FINDING - used, "; fine-tuned with %s %.2f and %.0f %%.", tuned->name,
                 perplexity(tuned, c), keys_percent(l, tuned));
    else
        snprintf(text + used, LAB_FINDING - used, ".");
    return 1;
}

static int encodings_finding(const lab *l, char text[LAB_FINDING]) {
    const int c = l->plan.contexts_count - 1;
    const lab_row *best = best_row(l, LAB_ENCODINGS, 0), *rope = l->plan.rope >= 0 ? &l->encodings[l->plan.rope] : NULL;
    if (!best) return 0;
    const int n =
        snprintf(text, LAB_FINDING,
                 "Found: at %lld bytes %s has the lowest perplexity of the encodings, %.2f (%.2f at the trained "
                 "length), and finds %.0f %% of the keys",
                 (long long)l->plan.longest, best->name, perplexity(best, c), perplexity(best, 0), keys_percent(l, best));
    const size_t used = n > 0 && n < LAB_FINDING ? (size_t)n : LAB_FINDING - 1;
    if (rope && rope != best && is_known(l, rope))
        snprintf(text + used, LAB_FINDING - used, "; rope goes from %.2f to %.2f and finds %.0f %%.", perplexity(rope, 0),
                 perplexity(rope, c), keys_percent(l, rope));
    else
        snprintf(text + used, LAB_FINDING - used, ".");
    return 1;
}

int lab_finding(const lab *l, int methods, char text[LAB_FINDING]) {
    text[0] = 0;
    return methods ? methods_finding(l, text) : encodings_finding(l, text);
}

/* lab_ranks.c: do perplexity, keys and copies rank the rows alike?  Kendall's tau-b, with an interval.
 *
 * A bootstrap sample draws seeds once, and windows of each measure, for all rows: rows are compared on the same draws.  A
 * row that equals an earlier one in all three measures is another name of it (ntk and ntk-past:16) and counts once. */
#include "tools/lab/bootstrap.h"
#include "tools/lab/lab.h"
#include <math.h>
#include <stdlib.h>

enum { RANKED = MAX_VARIANTS, LEAST_ROWS = 3 };
_Static_assert((int)LAB_METHODS <= (int)RANKED && (int)LAB_TUNED_ROWS <= (int)RANKED, "rows of the largest part");

/* The rows of a part that are complete and known at one context. */
typedef struct ranked {
    int64_t rows, seeds, windows[LAB_MEASURES];
    double values[RANKED][LAB_MEASURES][LAB_SEEDS * LAB_WINDOWS];
    double means[LAB_MEASURES][RANKED];
    double taus[LAB_PAIRS][BOOTSTRAP_RESAMPLES];
} ranked;

const lab_row *lab_part_rows(const lab *l, lab_part part, int *count) {
    const int has_methods = l->plan.rope >= 0;
    switch (part) {
    case LAB_METHODS_AS_THEY_ARE:
        *count = has_methods ? l->plan.methods_count : 0;
        return l->methods;
    case LAB_SLOPES:
        *count = l->plan.stretched_count;
        return l->stretched;
    case LAB_FINE_TUNED:
        *count = has_methods ? l->plan.tuned_rows : 0;
        return l->tuned;
    default:
        *count = l->plan.encodings_count;
        return l->encodings;
    }
}

lab_measure lab_pair_first(int pair) {
    return pair == LAB_PAIRS - 1 ? LAB_KEYS : LAB_PERPLEXITY;
}

lab_measure lab_pair_second(int pair) {
    return pair == 0 ? LAB_KEYS : LAB_COPIES;
}

/* out = -1, 0 or 1: how a compares with b. */
static int order(double a, double b) {
    return (a > b) - (a < b);
}

/* out = tau-b; NaN if a measure is the same for all rows. */
static double tau_b(const double *x, const double *y, int64_t n) {
    int64_t sum = 0, in_x = 0, in_y = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            const int a = order(x[i], x[j]), b = order(y[i], y[j]);
            sum += a * b;
            in_x += a != 0;
            in_y += b != 0;
        }
    return in_x && in_y ? (double)sum / sqrt((double)in_x * (double)in_y) : (double)NAN;
}

/* Means of all rows for one draw; low nats are good. */
static void draw_means(ranked *r, const int *seeds, int windows[LAB_MEASURES][LAB_WINDOWS]) {
    for (int m = 0; m < LAB_MEASURES; m++)
        for (int64_t i = 0; i < r->rows; i++)
            r->means[m][i] =
                (m == LAB_PERPLEXITY ? -1 : 1) * bootstrap_mean(r->values[i][m], r->seeds, r->windows[m], seeds, windows[m]);
}

static double tau_of(const ranked *r, int pair) {
    return tau_b(r->means[lab_pair_first(pair)], r->means[lab_pair_second(pair)], r->rows);
}

static int is_another_name(const lab_row *row, const lab_row *rows, int before, int context) {
    const lab_figure *a = row->spread[context].of;
    for (int i = 0; i < before; i++) {
        const lab_spread *s = &rows[i].spread[context];
        int same = s->known && s->measured;
        for (int m = 0; m < LAB_MEASURES; m++)
            same = same && s->of[m].mean == a[m].mean;
        if (same) return 1;
    }
    return 0;
}

/* Right answers are compared as counts, whose sums are exact: as shares, rows with as many right ones in other windows would
 * be ordered by rounding.  Every row was asked as much. */
static int64_t ranked_values(const lab *l, const lab_row *row, int context, lab_measure measure, double *values) {
    const int64_t windows = lab_values(&l->plan, row, context, measure, l->plan.seeds, values);
    for (int64_t i = 0; measure != LAB_PERPLEXITY && i < l->plan.seeds * windows; i++) {
        const lab_cell *cell = &row->cells[i / windows][context];
        values[i] = (measure == LAB_KEYS ? &cell->keys : &cell->copies)->right[i % windows];
    }
    return windows;
}

static void gather(const lab *l, lab_part part, int context, ranked *r) {
    int count;
    const lab_row *rows = lab_part_rows(l, part, &count);
    r->rows = 0;
    r->seeds = l->plan.seeds;
    for (int i = 0; i < count; i++) {
        const lab_spread *s = &rows[i].spread[context];
        if (s->measured < l->plan.seeds || !s->known || is_another_name(&rows[i], rows, i, context)) continue;
        for (int m = 0; m < LAB_MEASURES; m++)
            r->windows[m] = ranked_values(l, &rows[i], context, (lab_measure)m, r->values[r->rows][m]);
        r->rows++;
    }
}

static void rank_context(ranked *r, lab_rank out[LAB_PAIRS]) {
    int seeds[LAB_SEEDS], windows[LAB_MEASURES][LAB_WINDOWS];
    int64_t taus[LAB_PAIRS] = {0};
    uint64_t state = BOOTSTRAP_START;
    for (int s = 0; s < LAB_SEEDS; s++)
        seeds[s] = 1;
    for (int m = 0; m < LAB_MEASURES; m++)
        for (int w = 0; w < LAB_WINDOWS; w++)
            windows[m][w] = 1;
    draw_means(r, seeds, windows);
    for (int p = 0; p < LAB_PAIRS; p++)
        out[p] = (lab_rank){.rows = r->rows, .tau = tau_of(r, p)};
    for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++) {
        bootstrap_draw(&state, r->seeds, seeds);
        for (int m = 0; m < LAB_MEASURES; m++)
            bootstrap_draw(&state, r->windows[m], windows[m]);
        draw_means(r, seeds, windows);
        for (int p = 0; p < LAB_PAIRS; p++) {
            const double tau = tau_of(r, p);
            if (isfinite(tau)) r->taus[p][taus[p]++] = tau;
        }
    }
    for (int p = 0; p < LAB_PAIRS; p++) {
        out[p].known = r->rows >= LEAST_ROWS && isfinite(out[p].tau) && taus[p] > BOOTSTRAP_RESAMPLES / 2;
        if (out[p].known) bootstrap_percentiles(r->taus[p], taus[p], &out[p].low, &out[p].high);
    }
}

void lab_rank_rows(lab *l) {
    ranked *r = cli_alloc(1, sizeof *r);
    for (int part = 0; part < LAB_PARTS; part++)
        for (int c = 0; c < l->plan.contexts_count; c++) {
            lab_rank found[LAB_PAIRS] = {{.known = 0}};
            gather(l, (lab_part)part, c, r);
            if (r->rows >= LEAST_ROWS) rank_context(r, found);
            for (int p = 0; p < LAB_PAIRS; p++)
                l->ranks[part][p][c] = found[p];
        }
    free(r);
}

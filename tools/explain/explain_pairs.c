/* explain_pairs.c: a bar for every few neighbouring pairs of a rotation: how many turns they make in training, and what the
 * scaling did to them. */
#include "tools/explain/explain_view.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_ROWS = 16, LEAST_BAR = 10, MOST_BAR = 32 };
/* Columns; what is left of the page is the bar's. */
enum { MARGIN = 2, PAIRS_COLUMN = 8, WAVES_COLUMN = 13, TURNS_COLUMN = 14, MARK_COLUMN = 2, STATE_COLUMN = 22 };
/* What a row says of all its pairs. */
enum { ALIKE_STATE = 3, IN_TRAINED = 4, IN_REACH = 8, MIXED = 16 };

static int kind_of(const explain_figures *f, int64_t pair) {
    int kind = (int)f->state[pair];
    if (explain_never_turns(f->inv_freq[pair], f->trained)) kind |= IN_TRAINED;
    if (explain_never_turns(f->inv_freq[pair], f->reach)) kind |= IN_REACH;
    return kind;
}

/* -- rows --------------------------------------------------------------------------------------------------------------- */
typedef struct rows {
    int64_t first[MOST_ROWS + 1]; /* and one past the last */
    int count;
} rows;

static int64_t run_end(const explain_figures *f, int64_t pair) {
    const int kind = kind_of(f, pair);
    while (pair < f->pairs && kind_of(f, pair) == kind)
        pair++;
    return pair;
}

/* Neighbours that are treated alike. */
typedef struct run {
    int64_t length, rows;
    int still; /* one row is enough */
} run;

/* out = how many; where there are too many (LongRoPE's lists may be anything) all pairs are one run. */
static int find_runs(const explain_figures *f, run out[MOST_ROWS]) {
    int count = 0;
    for (int64_t pair = 0; pair < f->pairs; count++) {
        const int64_t end = run_end(f, pair);
        if (count == MOST_ROWS) {
            out[0] = (run){f->pairs, 1, 0};
            return 1;
        }
        out[count] = (run){end - pair, 1, f->state[pair] == EXPLAIN_STILL};
        pair = end;
    }
    return count;
}

/* Every run has a row; the rows left go where a row has most pairs. */
static rows deal_rows(const explain_figures *f) {
    run runs[MOST_ROWS];
    rows out = {{0}, 0};
    const int count = find_runs(f, runs);
    for (int used = count; used < MOST_ROWS; used++) {
        int widest = -1;
        for (int r = 0; r < count; r++) {
            if (runs[r].still || runs[r].rows == runs[r].length) continue;
            if (widest < 0 || runs[r].length * runs[widest].rows > runs[widest].length * runs[r].rows) widest = r;
        }
        if (widest < 0) break;
        runs[widest].rows++;
    }
    int64_t begin = 0;
    for (int r = 0; r < count; begin += runs[r++].length)
        for (int64_t k = 0; k < runs[r].rows; k++)
            out.first[out.count++] = begin + k * runs[r].length / runs[r].rows;
    out.first[out.count] = f->pairs;
    return out;
}

/* -- a row -------------------------------------------------------------------------------------------------------------- */
typedef struct row {
    int64_t first, last;
    int kind;
    double least, most; /* stretch */
} row;

static row row_of(const explain_figures *f, int64_t first, int64_t end) {
    row r = {first, end - 1, kind_of(f, first), f->stretch[first], f->stretch[first]};
    for (int64_t i = first; i < end; i++) {
        const int kind = kind_of(f, i);
        if ((kind ^ r.kind) & ALIKE_STATE) r.kind |= MIXED;
        r.kind &= kind | ~(IN_TRAINED | IN_REACH);
        if (f->stretch[i] < r.least) r.least = f->stretch[i];
        if (f->stretch[i] > r.most) r.most = f->stretch[i];
    }
    return r;
}

static void state_text(const explain_page *page, const row *r, char *out, size_t size) {
    static const char *const names[] = {"kept", "blended", "interpolated", "still"};
    char by[EXPLAIN_SHORT];
    const int state = r->kind & MIXED ? EXPLAIN_BLENDED : r->kind & ALIKE_STATE;
    if (state == EXPLAIN_KEPT || state == EXPLAIN_STILL)
        snprintf(out, size, "%s", names[state]);
    else
        snprintf(out, size, "%s (%s%s)", r->kind & MIXED ? "mixed" : names[state], page->utf8 ? "\xc3\xb7" : "/ ",
                 explain_amounts(r->least, r->most, by));
}

static explain_style style_of(const row *r) {
    static const explain_style styles[] = {EXPLAIN_GREEN, EXPLAIN_YELLOW, EXPLAIN_CYAN, EXPLAIN_DIM};
    return r->kind & MIXED ? EXPLAIN_YELLOW : styles[r->kind & ALIKE_STATE];
}

/* What makes less than a turn is a thin line. */
static void draw_bar(const explain_page *page, const row *r, int cells, int width) {
    static const char *const blocks[] = {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91"};
    static const char *const plain[] = {"#", "+", "-", "."};
    const int state = r->kind & MIXED ? EXPLAIN_BLENDED : r->kind & ALIKE_STATE;
    const char *cell = (page->utf8 ? blocks : plain)[state], *thin = page->utf8 ? "\xe2\x96\x8f" : "|";
    char bar[MOST_BAR * 3 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < cells && used < sizeof bar; i++)
        used += (size_t)snprintf(bar + used, sizeof bar - used, "%s", cell);
    explain_cell(page, style_of(r), width, cells > 0 ? bar : thin);
}

/* Turns from 1 on fill the bar, by their logarithm. */
static int bar_cells(double turns, double most, int width) {
    if (!(turns > 1 && most > 1)) return 0;
    const int cells = (int)(log(turns) / log(most) * width + 0.5);
    return cells < 1 ? 1 : cells > width ? width : cells;
}

static const char *mark_of(const explain_page *page, const row *r) {
    if (!(r->kind & IN_TRAINED)) return "";
    if (!(r->kind & IN_REACH)) return page->utf8 ? "\xe2\x97\x8b" : "o";
    return page->utf8 ? "\xe2\x97\x8f" : "*";
}

static void view_turns(const explain_page *page, const explain_figures *f, const row *r, int bar) {
    char text[96];
    const double fast = f->inv_freq[r->first], slow = f->inv_freq[r->last];
    const double length = (double)f->trained / explain_wavelength(1);
    explain_cell(page, EXPLAIN_PLAIN, WAVES_COLUMN,
                 explain_amounts(explain_wavelength(fast), explain_wavelength(slow), text));
    if (f->trained == 0) return;
    explain_cell(page, EXPLAIN_PLAIN, TURNS_COLUMN, explain_amounts(length * fast, length * slow, text));
    explain_cell(page, EXPLAIN_RED, MARK_COLUMN, mark_of(page, r));
    draw_bar(page, r, bar_cells(length * sqrt(fast * slow), length * f->inv_freq[0], bar), bar + 1);
}

static void view_row(const explain_page *page, const explain_figures *f, const row *r, int bar) {
    char text[96];
    if (r->first == r->last)
        snprintf(text, sizeof text, "%" PRId64, r->first);
    else
        snprintf(text, sizeof text, "%" PRId64 "-%" PRId64, r->first, r->last);
    explain_space(page, MARGIN);
    explain_cell(page, EXPLAIN_PLAIN, PAIRS_COLUMN, text);
    if (isinf(r->least)) /* all of them stand still */
        explain_space(page, WAVES_COLUMN + (f->trained > 0 ? TURNS_COLUMN + MARK_COLUMN + bar + 1 : 0));
    else
        view_turns(page, f, r, bar);
    state_text(page, r, text, sizeof text);
    explain_put(page, style_of(r), "%s", text);
    fputc('\n', page->file);
}

/* -- all of them -------------------------------------------------------------------------------------------------------- */
static void view_legend(const explain_page *page, const explain_figures *f) {
    const int some = f->unfinished_reach < f->unfinished; /* that do finish one within reach */
    const char *all = page->utf8 ? "\xe2\x97\x8f" : "*";
    if (f->trained == 0 || f->unfinished == f->count[EXPLAIN_STILL]) return;
    explain_space(page, MARGIN + PAIRS_COLUMN + WAVES_COLUMN);
    explain_put(page, EXPLAIN_RED, "%s", some ? page->utf8 ? "\xe2\x97\x8b" : "o" : all);
    explain_put(page, EXPLAIN_DIM, " no whole turn in %" PRId64, f->trained);
    if (some && f->unfinished_reach > 0) {
        explain_put(page, EXPLAIN_RED, "   %s", all);
        explain_put(page, EXPLAIN_DIM, " nor in %" PRId64, f->reach);
    }
    fputc('\n', page->file);
}

void explain_view_pairs(const explain_page *page, const explain_figures *f) {
    const rows all = deal_rows(f);
    char turns[48] = "", length[24];
    int bar = page->width - MARGIN - PAIRS_COLUMN - WAVES_COLUMN - TURNS_COLUMN - MARK_COLUMN - STATE_COLUMN - 1;
    bar = bar < LEAST_BAR ? LEAST_BAR : bar > MOST_BAR ? MOST_BAR : bar;
    snprintf(length, sizeof length, "%" PRId64, f->trained);
    if (f->trained > 0) snprintf(turns, sizeof turns, "turns in %s", length);
    explain_space(page, MARGIN);
    explain_cell(page, EXPLAIN_DIM, PAIRS_COLUMN, "pairs");
    if (*turns)
        explain_cell(page, EXPLAIN_DIM, WAVES_COLUMN, "wavelength");
    else
        explain_put(page, EXPLAIN_DIM, "wavelength");
    explain_put(page, EXPLAIN_DIM, "%s", turns);
    fputc('\n', page->file);
    for (int i = 0; i < all.count; i++) {
        const row r = row_of(f, all.first[i], all.first[i + 1]);
        view_row(page, f, &r, bar);
    }
    view_legend(page, f);
}

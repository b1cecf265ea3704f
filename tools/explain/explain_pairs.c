/* explain_pairs.c: one bar for every few neighbouring pairs of a rotation: their revolutions in training, and the effect of
 * the scaling. */
#include "tools/explain/explain_view.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_ROWS = 16, MIN_BAR = 10, MAX_BAR = 32 };
/* Widths of the columns; the bar takes the rest of the page. */
enum { MARGIN = 2, PAIRS_COLUMN = 8, WAVELENGTH_COLUMN = 13, REVOLUTIONS_COLUMN = 14, MARK_COLUMN = 2, STATE_COLUMN = 22 };
/* Flags that hold for all pairs of a row. */
enum { STATE_MASK = 3, EXCEEDS_TRAINED = 4, EXCEEDS_MAX_LENGTH = 8, MIXED = 16 };

static int flags_of(const explain_stats *stats, int64_t pair) {
    int flags = (int)stats->state[pair];
    if (explain_wavelength_exceeds(stats->inv_freq[pair], stats->trained)) flags |= EXCEEDS_TRAINED;
    if (explain_wavelength_exceeds(stats->inv_freq[pair], stats->max_length)) flags |= EXCEEDS_MAX_LENGTH;
    return flags;
}

/* -- rows -- */
typedef struct rows {
    int64_t first[MAX_ROWS + 1]; /* first pair of each row, and one past the last pair */
    int count;
} rows;

static int64_t run_end(const explain_stats *stats, int64_t pair) {
    const int flags = flags_of(stats, pair);
    while (pair < stats->pairs && flags_of(stats, pair) == flags)
        pair++;
    return pair;
}

/* Neighbouring pairs that are treated alike. */
typedef struct run {
    int64_t length, rows;
    int not_rotated; /* 1: one row is enough */
} run;

/* out = the number of runs.  If there are too many, as LongRoPE's lists may cause, all pairs are one run. */
static int find_runs(const explain_stats *stats, run out[MAX_ROWS]) {
    int count = 0;
    for (int64_t pair = 0; pair < stats->pairs; count++) {
        const int64_t end = run_end(stats, pair);
        if (count == MAX_ROWS) {
            out[0] = (run){stats->pairs, 1, 0};
            return 1;
        }
        out[count] = (run){end - pair, 1, stats->state[pair] == EXPLAIN_PAIR_NOT_ROTATED};
        pair = end;
    }
    return count;
}

/* Gives every run a row, and each remaining row to the run with the most pairs per row. */
static rows assign_rows(const explain_stats *stats) {
    run runs[MAX_ROWS];
    rows out = {{0}, 0};
    const int count = find_runs(stats, runs);
    for (int used = count; used < MAX_ROWS; used++) {
        int widest = -1;
        for (int r = 0; r < count; r++) {
            if (runs[r].not_rotated || runs[r].rows == runs[r].length) continue;
            if (widest < 0 || runs[r].length * runs[widest].rows > runs[widest].length * runs[r].rows) widest = r;
        }
        if (widest < 0) break;
        runs[widest].rows++;
    }
    int64_t begin = 0;
    for (int r = 0; r < count; begin += runs[r++].length)
        for (int64_t k = 0; k < runs[r].rows; k++)
            out.first[out.count++] = begin + k * runs[r].length / runs[r].rows;
    out.first[out.count] = stats->pairs;
    return out;
}

/* -- a row -- */
typedef struct row {
    int64_t first, last;
    int flags;
    double min_factor, max_factor; /* divisors of the frequencies */
} row;

static row row_of(const explain_stats *stats, int64_t first, int64_t end) {
    row r = {first, end - 1, flags_of(stats, first), stats->freq_factor[first], stats->freq_factor[first]};
    for (int64_t i = first; i < end; i++) {
        const int flags = flags_of(stats, i);
        if ((flags ^ r.flags) & STATE_MASK) r.flags |= MIXED;
        r.flags &= flags | ~(EXCEEDS_TRAINED | EXCEEDS_MAX_LENGTH);
        if (stats->freq_factor[i] < r.min_factor) r.min_factor = stats->freq_factor[i];
        if (stats->freq_factor[i] > r.max_factor) r.max_factor = stats->freq_factor[i];
    }
    return r;
}

static void format_state(const explain_terminal *page, const row *r, char *out, size_t size) {
    static const char *const names[] = {"kept", "blended", "divided", "still"};
    char by[EXPLAIN_TEXT_SIZE];
    const int state = r->flags & MIXED ? EXPLAIN_PAIR_BLENDED : r->flags & STATE_MASK;
    if (state == EXPLAIN_PAIR_UNSCALED || state == EXPLAIN_PAIR_NOT_ROTATED)
        snprintf(out, size, "%s", names[state]);
    else
        snprintf(out, size, "%s (%s%s)", r->flags & MIXED ? "mixed" : names[state], page->utf8 ? "\xc3\xb7" : "/ ",
                 explain_format_range(r->min_factor, r->max_factor, by));
}

static explain_style style_of(const row *r) {
    static const explain_style styles[] = {EXPLAIN_STYLE_GREEN, EXPLAIN_STYLE_YELLOW, EXPLAIN_STYLE_CYAN, EXPLAIN_STYLE_DIM};
    return r->flags & MIXED ? EXPLAIN_STYLE_YELLOW : styles[r->flags & STATE_MASK];
}

/* A row with less than one revolution is a thin line. */
static void draw_bar(const explain_terminal *page, const row *r, int cells, int width) {
    static const char *const blocks[] = {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91"};
    static const char *const plain[] = {"#", "+", "-", "."};
    const int state = r->flags & MIXED ? EXPLAIN_PAIR_BLENDED : r->flags & STATE_MASK;
    const char *cell = (page->utf8 ? blocks : plain)[state], *thin = page->utf8 ? "\xe2\x96\x8f" : "|";
    char bar[MAX_BAR * 3 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < cells && used < sizeof bar; i++)
        used += (size_t)snprintf(bar + used, sizeof bar - used, "%s", cell);
    explain_print_padded(page, style_of(r), width, cells > 0 ? bar : thin);
}

/* The length of the bar is the logarithm of the revolutions. */
static int bar_cells(double revolutions, double max, int width) {
    if (!(revolutions > 1 && max > 1)) return 0;
    const int cells = (int)(log(revolutions) / log(max) * width + 0.5);
    return cells < 1 ? 1 : cells > width ? width : cells;
}

static const char *mark_of(const explain_terminal *page, const row *r) {
    if (!(r->flags & EXCEEDS_TRAINED)) return "";
    if (!(r->flags & EXCEEDS_MAX_LENGTH)) return page->utf8 ? "\xe2\x97\x8b" : "o";
    return page->utf8 ? "\xe2\x97\x8f" : "*";
}

static void view_revolutions(const explain_terminal *page, const explain_stats *stats, const row *r, int bar) {
    char text[96];
    const double fast = stats->inv_freq[r->first], slow = stats->inv_freq[r->last];
    const double length = (double)stats->trained / explain_wavelength(1);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, WAVELENGTH_COLUMN,
                         explain_format_range(explain_wavelength(fast), explain_wavelength(slow), text));
    if (stats->trained == 0) return;
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, REVOLUTIONS_COLUMN,
                         explain_format_range(length * fast, length * slow, text));
    explain_print_padded(page, EXPLAIN_STYLE_RED, MARK_COLUMN, mark_of(page, r));
    draw_bar(page, r, bar_cells(length * sqrt(fast * slow), length * stats->inv_freq[0], bar), bar + 1);
}

static void view_row(const explain_terminal *page, const explain_stats *stats, const row *r, int bar) {
    char text[96];
    if (r->first == r->last)
        snprintf(text, sizeof text, "%" PRId64, r->first);
    else
        snprintf(text, sizeof text, "%" PRId64 "-%" PRId64, r->first, r->last);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, PAIRS_COLUMN, text);
    if (isinf(r->min_factor)) /* none of them is rotated */
        explain_print_spaces(page,
                             WAVELENGTH_COLUMN + (stats->trained > 0 ? REVOLUTIONS_COLUMN + MARK_COLUMN + bar + 1 : 0));
    else
        view_revolutions(page, stats, r, bar);
    format_state(page, r, text, sizeof text);
    explain_print(page, style_of(r), "%s", text);
    fputc('\n', page->file);
}

/* -- all rows -- */
static void view_legend(const explain_terminal *page, const explain_stats *stats) {
    const int some = stats->incomplete_max_length < stats->incomplete; /* some complete a revolution within max_length */
    const char *all = page->utf8 ? "\xe2\x97\x8f" : "*";
    if (stats->trained == 0 || stats->incomplete == stats->count[EXPLAIN_PAIR_NOT_ROTATED]) return;
    explain_print_spaces(page, MARGIN + PAIRS_COLUMN + WAVELENGTH_COLUMN);
    explain_print(page, EXPLAIN_STYLE_RED, "%s", some ? page->utf8 ? "\xe2\x97\x8b" : "o" : all);
    explain_print(page, EXPLAIN_STYLE_DIM, " no whole turn in %" PRId64, stats->trained);
    if (some && stats->incomplete_max_length > 0) {
        explain_print(page, EXPLAIN_STYLE_RED, "   %s", all);
        explain_print(page, EXPLAIN_STYLE_DIM, " nor in %" PRId64, stats->max_length);
    }
    fputc('\n', page->file);
}

void explain_view_pairs(const explain_terminal *page, const explain_stats *stats) {
    const rows all = assign_rows(stats);
    char revolutions[48] = "", length[24];
    int bar = page->width - MARGIN - PAIRS_COLUMN - WAVELENGTH_COLUMN - REVOLUTIONS_COLUMN - MARK_COLUMN - STATE_COLUMN - 1;
    bar = bar < MIN_BAR ? MIN_BAR : bar > MAX_BAR ? MAX_BAR : bar;
    snprintf(length, sizeof length, "%" PRId64, stats->trained);
    if (stats->trained > 0) snprintf(revolutions, sizeof revolutions, "turns in %s", length);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_DIM, PAIRS_COLUMN, "pairs");
    if (*revolutions)
        explain_print_padded(page, EXPLAIN_STYLE_DIM, WAVELENGTH_COLUMN, "wavelength");
    else
        explain_print(page, EXPLAIN_STYLE_DIM, "wavelength");
    explain_print(page, EXPLAIN_STYLE_DIM, "%s", revolutions);
    fputc('\n', page->file);
    for (int i = 0; i < all.count; i++) {
        const row r = row_of(stats, all.first[i], all.first[i + 1]);
        view_row(page, stats, &r, bar);
    }
    view_legend(page, stats);
}

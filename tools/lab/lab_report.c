/* lab_report.c: report.html: the tables and the figures. */
#include "tools/common/method_figures.h"
#include "tools/common/result_table.h"
#include "tools/lab/lab_findings.h"
#include "tools/lab/lab_tables.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAP_COLUMNS = 256, MAPS = 4 };

typedef struct figures {
    const lab *lab;
    gyre_report_page *page;
    gyre_report_marker trained;
    chart_lines lines;
} figures;

/* -- panels -- */
/* Methods of one kind share a small picture.  none is in each, for comparison, and encodings have none: out = NULL.  The
 * titles name no method: the run may not have it. */
static const char *panel_of(lab_part part, const char *name) {
    static const char *const rotations[][2] = {{"linear", "all pairs alike"},
                                               {"ntk", "fast pairs less than slow ones"},
                                               {"base", "fast pairs less than slow ones"},
                                               {"by-parts", "slow pairs only"},
                                               {"yarn", "slow pairs only, and sharper scores"},
                                               {"drope", "the rotation dropped"},
                                               {"", "added"}};
    static const char *const slopes[][2] = {
        {"linear", "all slopes alike"}, {"dynamic-linear", "all slopes alike"}, {"", "steep slopes less than gentle ones"}};
    const char *const(*panel)[2] = part == LAB_SLOPES ? slopes : rotations;
    if (part == LAB_ENCODINGS || strcmp(name, "none") == 0) return NULL;
    while (*(*panel)[0] && strncmp(name, (*panel)[0], strlen((*panel)[0])) != 0)
        panel++;
    return (*panel)[1];
}

/* -- charts by context -- */
/* panel: the panel of the line alone, or NULL.  out = NULL if the row was not begun. */
static gyre_report_series *context_line(figures *f, const lab_row *row, lab_measure measure, const char *panel) {
    if (!lab_row_begun(row)) return NULL;
    gyre_report_series *line = chart_line(&f->lines, panel, "%s", row->name);
    for (int c = 0; c < f->lab->plan.contexts_count; c++) {
        const lab_spread *s = &row->spread[c];
        const lab_figure *figure = &s->of[measure];
        const double unit = !s->known || !s->measured ? NAN : measure == LAB_PERPLEXITY ? 1 : 100;
        chart_banded_point(&f->lines, (double)f->lab->plan.contexts[c], unit * figure->mean, unit * figure->low,
                           unit * figure->high);
    }
    return line;
}

static void context_chart(figures *f, const char *title, lab_measure measure, const char *caption) {
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = title;
    chart.x = (gyre_report_axis){"context (bytes)", GYRE_REPORT_SCALE_LOG2, 0, 0};
    static const gyre_report_axis axes[LAB_MEASURES] = {{"perplexity per byte", GYRE_REPORT_SCALE_LOG10, 0, 0},
                                                        {"passkeys found (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100},
                                                        {"copied bytes right (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100}};
    chart.y = axes[measure];
    chart.markers = &f->trained;
    chart.markers_count = 1;
    chart_lines_draw(&f->lines, f->page, &chart, caption);
}

/* out = 0 for rows that only the table shows: they would crowd the figures. */
static int is_drawn(const lab_row *row) {
    return strcmp(row->name, "ntk:2") != 0 && strcmp(row->name, "ntk:8") != 0;
}

static const char *const MEASURE_TITLES[LAB_MEASURES] = {"Perplexity", "Passkeys found", "Copied bytes right"};

/* Says of the lines of a chart only what holds for these. */
static void describe_lines(const figures *f, char *out, size_t size) {
    const gyre_report_series *series = f->lines.series;
    const char *first = NULL;
    int fixed = 0, panels = 0;
    for (int64_t i = 0; i < f->lines.count; i++) {
        fixed += strchr(series[i].name, ':') != NULL;
        if (!series[i].panel) continue;
        if (!first) first = series[i].panel;
        panels = strcmp(first, series[i].panel) != 0 ? 2 : panels ? panels : 1;
    }
    snprintf(out, size, "%s%s",
             fixed ? "The factor of `name:16` is fixed (dashed), that of a bare name follows the context."
                   : "Each method follows the context.",
             panels > 1 ? " Grey: the methods of the other pictures, for comparison." : "");
}

/* One line compares nothing, and is left to the table. */
static void method_chart(figures *f, lab_part part, lab_measure measure, const char *what) {
    static const char *const captions[LAB_MEASURES] = {
        NULL, "Perplexity rewards forgetting; a key has to be remembered. Compare the order of the lines in the figures.",
        "A copy is found by the bytes before, without a marker that says which it is."};
    char title[96], described[200];
    int count;
    const lab_row *rows = lab_part_rows(f->lab, part, &count);
    if ((int)measure >= f->lab->plan.measures) return;
    for (int i = 0; i < count; i++)
        if (is_drawn(&rows[i])) (void)context_line(f, &rows[i], measure, panel_of(part, rows[i].name));
    if (f->lines.count < 2) {
        chart_lines_clear(&f->lines);
        return;
    }
    describe_lines(f, described, sizeof described);
    snprintf(title, sizeof title, "%s by method, %s", MEASURE_TITLES[measure], what);
    context_chart(f, title, measure, captions[measure] ? captions[measure] : described);
}

/* The figure that answers at a glance: the rows that the first sentence names, and the usual methods. */
static void hero(figures *f) {
    static const char *const usual[] = {"linear", "ntk", "by-parts", "yarn"};
    const lab *l = f->lab;
    const lab_row *tuned = lab_best_row(l, l->tuned, l->plan.tuned_rows, LAB_PERPLEXITY);
    char name[METHOD_LABEL + 16];
    if (l->plan.rope < 0 || !lab_row_begun(&l->methods[0])) return;
    (void)context_line(f, &l->methods[0], LAB_PERPLEXITY, NULL);
    f->lines.series[0].name = "none: as it is";
    for (size_t u = 0; u < sizeof usual / sizeof *usual; u++)
        for (int i = 0; i < l->plan.methods_count; i++)
            if (strcmp(l->methods[i].name, usual[u]) == 0) (void)context_line(f, &l->methods[i], LAB_PERPLEXITY, NULL);
    gyre_report_series *best = tuned ? context_line(f, tuned, LAB_PERPLEXITY, NULL) : NULL;
    if (best) {
        snprintf(name, sizeof name, "%s, fine-tuned", tuned->name);
        best->name = name;
        best->look.hollow = 1;
        best->look.dash = 2;
    }
    context_chart(f, "Past the trained length: what each method does to perplexity", LAB_PERPLEXITY,
                  best ? "The RoPE model. Dashed: after a short fine-tuning at the longest context. Lower is better."
                       : "The RoPE model. Lower is better.");
}

static void position_chart(figures *f, lab_part part, const char *title) {
    int count;
    const lab_row *rows = lab_part_rows(f->lab, part, &count);
    for (int r = 0; r < count; r++) {
        if (!rows[r].positions || !is_drawn(&rows[r])) continue;
        (void)chart_line(&f->lines, panel_of(part, rows[r].name), "%s", rows[r].name);
        for (int b = 0; b < LAB_BUCKETS; b++)
            if (rows[r].by_position[b] != 0) /* a context of fewer positions leaves parts empty */
                chart_point(&f->lines, ((double)b + 0.5) * (double)rows[r].positions / LAB_BUCKETS, rows[r].by_position[b]);
    }
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = title;
    chart.x = (gyre_report_axis){"position in the window (bytes)", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){"loss (nats per byte)", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.clip = gyre_report_far_above(f->lines.series, f->lines.count);
    chart.markers = &f->trained;
    chart.markers_count = 1;
    chart_lines_draw(
        &f->lines, f->page, &chart,
        "Mean loss of each prediction by where in the window it is made, at the longest context an encoding has.");
}

/* -- effects of the methods -- */
/* out = a method at the longest context; NULL: the plan does not have it. */
static const gyre_encoding *encoding_of(const lab *l, const char *label) {
    for (int m = 0; m < l->plan.methods_count; m++)
        if (strcmp(l->plan.methods[m].label, label) == 0) return l->maps[m];
    return NULL;
}

/* The angles to four times the trained length: long enough to see the effect, and near enough to see single pairs. */
static gyre_status effects(figures *f, gyre_error *err) {
    static const char *const labels[] = {"none", "linear:16", "ntk:16", "by-parts:16"};
    static const char *const quick_labels[] = {"none", "linear", "ntk", "yarn"};
    const lab *l = f->lab;
    const int64_t longest = l->plan.longest;
    const method_map_range range = {.length = longest, .columns = MAP_COLUMNS, .longest = (double)l->plan.contexts[2]};
    method_map maps[MAPS] = {{.pairs = 0}};
    method_figures drawn = {.maps = maps, .trained = l->plan.trained, .target = longest, .unit = "bytes"};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < MAPS && !status; i++) {
        const char *label = encoding_of(l, labels[i]) ? labels[i] : quick_labels[i];
        method_map map;
        status = method_map_of_encoding(encoding_of(l, label), label, &range, &map, err);
        if (!status) method_maps_add(maps, &drawn.count, &map);
    }
    if (!status) method_figures_add(&drawn, f->page);
    for (int i = 0; i < MAPS; i++)
        method_map_free(&maps[i]);
    return status;
}

/* -- the report -- */
static void protocol(figures *f) {
    const lab *l = f->lab;
    const lab_plan *p = &l->plan;
    const long long longest = (long long)p->longest;
    char text[1024], measured[160], methods[224] = "", seen[32];
    const int64_t bytes = p->run.steps * p->run.batch * p->run.context;
    (void)gyre_report_page_section(f->page, "How it was measured");
    lab_describe_text(l, measured, sizeof measured);
    if (bytes < 1000000)
        snprintf(seen, sizeof seen, "%lld", (long long)bytes);
    else
        snprintf(seen, sizeof seen, "%.1f million", 1e-6 * (double)bytes);
    if (p->rope >= 0)
        snprintf(methods, sizeof methods,
                 "; then the RoPE model as it is under %d methods (none is one), and under %d after a fine-tuning of %lld "
                 "steps at %lld bytes",
                 p->methods_count, p->tuned_methods, (long long)p->tune.steps, (long long)p->tune.context);
    snprintf(text, sizeof text, "%d position encoding%s trained at %lld bytes, then tested at up to %lld%s. Measured on %s.",
             p->encodings_count, p->encodings_count == 1 ? "" : "s", (long long)p->trained, longest, methods, measured);
    (void)gyre_report_page_paragraph(f->page, text);
    snprintf(
        text, sizeof text,
        "Perplexity per byte: %lld stretches of %lld bytes, the same for every context L, covered by windows of L bytes of "
        "which "
        "the last half is scored. Passkeys: %d keys of four digits hidden in a window, asked for at its end; found when all "
        "four digits are the likeliest. At least %lld are asked for.",
        (long long)p->regions, (long long)p->region_bytes, GYRE_PASSKEY_KEYS, (long long)p->trials);
    const size_t used = strlen(text);
    if (p->measures > LAB_COPIES)
        snprintf(text + used, sizeof text - used,
                 " Copies: segments of %d random bytes that come again at the end of a window; a byte of a copy is right "
                 "when it is the likeliest.",
                 GYRE_COPYING_LENGTH);
    (void)gyre_report_page_paragraph(f->page, text);
    char interval[128];
    lab_describe_interval(l, interval, sizeof interval);
    snprintf(text, sizeof text, "Bands in the figures, and intervals: %s.", interval);
    (void)gyre_report_page_paragraph(f->page, text);
    snprintf(
        text, sizeof text,
        "Every encoding saw the same %s bytes in the same order, %.0f%% of the sequences with passkeys or copied "
        "segments; "
        "learning rate and mix were chosen in trials with RoPE. Turns above which by-parts and YaRN keep a pair: %g (the "
        "trained length / 16; at a short length the papers' 32 leave almost none alone).",
        seen, 100 * p->run.retrieval_fraction, p->betas.fast);
    (void)gyre_report_page_paragraph(f->page, text);
}

static void intervals_part(figures *f) {
    (void)gyre_report_page_details_begin(f->page, "Intervals");
    for (int m = 0; m < f->lab->plan.measures; m++)
        result_table_add(lab_table_intervals(f->lab, (lab_measure)m), f->page);
    (void)gyre_report_page_details_end(f->page);
}

static void stopped_note(figures *f) {
    char text[160];
    snprintf(text, sizeof text, "The run was stopped: %d of %d rows are complete. A dot is a cell that was not measured.",
             lab_rows_done(f->lab), lab_rows_count(f->lab));
    (void)gyre_report_page_paragraph(f->page, text);
}

static void answers(figures *f) {
    char sentences[LAB_FINDINGS][LAB_FINDING];
    const int count = lab_findings(f->lab, sentences);
    for (int i = 0; i < count; i++)
        (void)gyre_report_page_paragraph(f->page, sentences[i]);
    if (f->lab->stopped) stopped_note(f);
    hero(f);
}

static void encoding_chart(figures *f, lab_measure measure) {
    static const char *const captions[LAB_MEASURES] = {
        "Left of the dashed line all lengths were trained; right of it none was.",
        "What perplexity does not show: whether a key read long ago is still found.",
        "And whether a segment read long ago is still repeated."};
    char title[64];
    if ((int)measure >= f->lab->plan.measures) return;
    for (int i = 0; i < f->lab->plan.encodings_count; i++)
        (void)context_line(f, &f->lab->encodings[i], measure, NULL);
    snprintf(title, sizeof title, "%s by encoding", MEASURE_TITLES[measure]);
    context_chart(f, title, measure, captions[measure]);
}

/* The part below the main figures. */
static const char *rest_title(const lab *l) {
    return l->plan.measures > LAB_COPIES ? "Copies, and loss by position" : "Loss by position";
}

static void encodings_part(figures *f) {
    const lab *l = f->lab;
    (void)gyre_report_page_section(f->page, "Train short, test long");
    encoding_chart(f, LAB_PERPLEXITY);
    result_table_add(lab_table_encodings(l, LAB_ON_PAGE), f->page);
    encoding_chart(f, LAB_KEYS);
    (void)gyre_report_page_details_begin(f->page, rest_title(l));
    encoding_chart(f, LAB_COPIES);
    position_chart(f, LAB_ENCODINGS, "Loss by position, by encoding");
    (void)gyre_report_page_details_end(f->page);
}

static gyre_status methods_part(figures *f, gyre_error *err) {
    const lab *l = f->lab;
    (void)gyre_report_page_section(f->page, "Extending the RoPE model");
    result_table_add(lab_table_methods(l, LAB_ON_PAGE), f->page);
    for (int m = LAB_PERPLEXITY; m <= LAB_KEYS; m++) {
        method_chart(f, LAB_METHODS_AS_THEY_ARE, (lab_measure)m, "as it is");
        method_chart(f, LAB_FINE_TUNED, (lab_measure)m, "fine-tuned");
    }
    (void)gyre_report_page_details_begin(f->page, rest_title(l));
    method_chart(f, LAB_METHODS_AS_THEY_ARE, LAB_COPIES, "as it is");
    method_chart(f, LAB_FINE_TUNED, LAB_COPIES, "fine-tuned");
    position_chart(f, LAB_METHODS_AS_THEY_ARE, "Loss by position, by method, as it is");
    (void)gyre_report_page_details_end(f->page);
    (void)gyre_report_page_section(f->page, "What the methods do");
    const gyre_status status = effects(f, err);
    (void)gyre_report_page_details_begin(f->page, "Pairs kept, blended and divided");
    result_table_add(lab_table_pairs(l), f->page);
    (void)gyre_report_page_details_end(f->page);
    return status;
}

static void slopes_part(figures *f) {
    const lab *l = f->lab;
    (void)gyre_report_page_section(f->page, "Extending the ALiBi model");
    result_table_add(lab_table_slopes(l, LAB_ON_PAGE), f->page);
    for (int m = 0; m < LAB_MEASURES; m++)
        method_chart(f, LAB_SLOPES, (lab_measure)m, "the ALiBi model");
}

static void ranks_part(figures *f) {
    (void)gyre_report_page_section(f->page, "Do the measures rank alike?");
    result_table_add(lab_table_ranks(f->lab), f->page);
    intervals_part(f);
}

static void footer(figures *f) {
    const lab *l = f->lab;
    char hash[32], seconds[32], date[REPORT_DATE];
    snprintf(hash, sizeof hash, "fnv1a64:%016" PRIx64, l->all.hash);
    snprintf(seconds, sizeof seconds, "%.0f s", l->seconds);
    const gyre_report_key_value facts[] = {{"command", l->command}, {"gyre", gyre_version()},    {"preset", l->plan.preset},
                                           {"text", hash},          {"date", report_date(date)}, {"time", seconds}};
    (void)gyre_report_page_footer(f->page, facts, sizeof facts / sizeof *facts);
}

gyre_status lab_write_report(const lab *l, gyre_error *err) {
    figures f = {.lab = l, .trained = {(double)l->plan.trained, "trained length", 0}};
    gyre_status status = gyre_report_page_create(&f.page, "gyre lab: train short, test long", err);
    if (status) return status;
    answers(&f);
    encodings_part(&f);
    if (l->maps[l->plan.methods_count - 1]) status = methods_part(&f, err);
    if (l->plan.stretched_count) slopes_part(&f);
    if (l->plan.details) ranks_part(&f);
    protocol(&f);
    footer(&f);
    return report_page_end(f.page, status, l->run.report, err);
}

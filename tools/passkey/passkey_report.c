/* passkey_report.c: the HTML report of gyre passkey: heat maps of length and depth, and tables. */
#include "tools/common/result_table.h"
#include "tools/passkey/passkey.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The panels and the memory that they point to. */
typedef struct picture {
    gyre_report_heatmap_grid panels;
    gyre_report_heatmap *maps;
    double *z, *axis;
} picture;

static void free_picture(picture *f) {
    free(f->maps);
    free(f->z);
    free(f->axis);
}

static picture make_picture(const passkey *p) {
    const passkey_options *o = &p->options;
    const int64_t cells = o->lengths.count * o->depths_count;
    picture f = {.panels = GYRE_REPORT_HEATMAP_GRID_INIT,
                 .maps = cli_alloc(o->method.count, sizeof *f.maps),
                 .z = cli_alloc(o->method.count * cells, sizeof *f.z),
                 .axis = cli_alloc(o->lengths.count + o->depths_count, sizeof *f.axis)};
    for (int64_t m = 0; m < o->method.count; m++) {
        double *z = f.z + m * cells;
        for (int64_t d = 0; d < o->depths_count; d++)
            for (int64_t l = 0; l < o->lengths.count; l++)
                z[(o->depths_count - 1 - d) * o->lengths.count + l] =
                    100 * passkey_accuracy(p, &p->rows[m].columns[l].cells[d]);
        f.maps[m] = (gyre_report_heatmap){p->rows[m].method->label, o->lengths.count, o->depths_count, z};
    }
    double *lengths = f.axis, *depths = f.axis + o->lengths.count;
    for (int64_t l = 0; l < o->lengths.count; l++)
        lengths[l] = (double)o->lengths.values[l];
    for (int64_t d = 0; d < o->depths_count; d++)
        depths[o->depths_count - 1 - d] = 100 * o->depths[d];
    f.panels.title = "Keys found, by length and depth";
    /* The first depth is at the top, as in the tables: rows of a map begin at the bottom. */
    /* Every length and depth has its own column or row: a doubling takes as much room as the one before. */
    f.panels.x.label = "length (tokens)";
    f.panels.x_values = lengths;
    f.panels.y.label = "depth";
    f.panels.y_values = depths;
    f.panels.y_unit = "%";
    f.panels.z = (gyre_report_axis){"right (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100};
    f.panels.palette = GYRE_REPORT_PALETTE_SEQUENTIAL;
    f.panels.maps = f.maps;
    f.panels.maps_count = o->method.count;
    return f;
}

/* A map needs two lengths, two depths and one measured cell. */
static int has_picture(const passkey *p) {
    const passkey_options *o = &p->options;
    int known = 0;
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            known |= !p->rows[m].columns[l].out_of_range;
    return known && o->lengths.count > 1 && o->depths_count > 1;
}

gyre_status passkey_write_figure(const passkey *p, gyre_error *err) {
    char *svg = NULL;
    if (!has_picture(p)) return gyre_fail(err, GYRE_EINVAL, "figure: nothing to draw (%s)", p->options.run.figure);
    picture f = make_picture(p);
    gyre_status status = gyre_report_heatmap_grid_svg(&f.panels, &svg, err);
    if (!status) status = cli_signals_before_pipe(p->options.run.figure, err);
    if (!status) {
        cli_output output;
        int failed = cli_output_open(&output, p->options.run.figure);
        if (!failed) {
            fputs(svg, output.file);
            failed = cli_output_close(&output, 0);
        }
        if (failed) status = gyre_fail(err, GYRE_EIO, "figure: cannot be written (%s)", p->options.run.figure);
    }
    gyre_report_free(svg);
    free_picture(&f);
    return status;
}

/* -- the page -- */
static void protocol(const passkey *p, gyre_report_page *page) {
    const passkey_options *o = &p->options;
    char text[1024];
    (void)gyre_report_page_section(page, "How it was measured");
    snprintf(
        text, sizeof text,
        "A key is hidden in filler, at a depth that is the share of the filler before it, and asked for at the end "
        "(Mohtashami and Jaggi 2023). %lld trial%s of each length and depth; every method is asked for the same keys. A "
        "trial is right when the likeliest next tokens %s the answer.",
        (long long)o->trials, o->trials == 1 ? "" : "s", o->contains ? "contain" : "are");
    (void)gyre_report_page_paragraph(page, text); /* the page keeps the first error */
    if (o->phrases.marks)
        snprintf(text, sizeof text,
                 "Hidden: four digits between two bytes that no text has. Asked: the first of these bytes. Marks, %s.",
                 p->choice);
    else
        gyre_plain_snprintf(text, sizeof text, "Hidden: `%.300s` Asked: `%.300s`", o->phrases.needle, o->phrases.question);
    (void)gyre_report_page_paragraph(page, text);
}

/* out = the share of keys found at a length over all depths; NAN = not measured. */
static double found_at(const passkey *p, int64_t row, int64_t length) {
    const passkey_options *o = &p->options;
    double sum = 0;
    if (p->rows[row].columns[length].out_of_range) return NAN;
    for (int64_t d = 0; d < o->depths_count; d++)
        sum += passkey_accuracy(p, &p->rows[row].columns[length].cells[d]);
    return sum / (double)o->depths_count;
}

/* out = found_at as it is printed: equal percentages are ties.  -1 = not measured. */
static int percent_at(const passkey *p, int64_t row, int64_t length) {
    const double found = found_at(p, row, length);
    return isnan(found) ? -1 : (int)lrint(100 * found);
}

/* Of equal rows, the model as it is costs least. */
static double percent_missed(const void *of, int64_t row) {
    const passkey *p = of;
    const int percent = percent_at(p, row, p->options.lengths.count - 1);
    return percent < 0 ? (double)NAN : 100 - percent - 0.5 * method_is_none(p->rows[row].method);
}

/* out = the row that finds most at the longest length; of equal ones the model as it is, else the first; -1 = there is none.
 * *others, *ties: rows measured beside it, and those that find as much. */
static int64_t best_row(const passkey *p, int64_t last, int *others, int *ties) {
    const int64_t best = result_best_row(p->options.method.count, percent_missed, p);
    *others = *ties = 0;
    for (int64_t m = 0; m < p->options.method.count && best >= 0; m++) {
        *others += m != best && percent_at(p, m, last) >= 0;
        *ties += m != best && percent_at(p, m, last) == percent_at(p, best, last);
    }
    return best;
}

/* Which method finds most at the longest length; a warning about the model goes before. */
static void answer(const passkey *p, gyre_report_page *page) {
    const passkey_options *o = &p->options;
    const int64_t last = o->lengths.count - 1;
    char text[PASSKEY_VERDICT + 256], name[METHOD_LABEL + 8] = "the model as it is", after[64] = "";
    int others, ties;
    if (passkey_verdict(p, text)) (void)gyre_report_page_paragraph(page, text);
    const int64_t best = best_row(p, last, &others, &ties);
    if (best < 0 || percent_at(p, best, last) == 0) return;
    const int is_none = method_is_none(p->rows[best].method);
    if (!is_none) snprintf(name, sizeof name, "`%s`", p->rows[best].method->label);
    if (last > 0 && percent_at(p, best, 0) >= 0)
        snprintf(after, sizeof after, ", after %d %% at %lld", percent_at(p, best, 0), (long long)o->lengths.values[0]);
    snprintf(text, sizeof text, "At %lld tokens %s finds %d %% of the keys%s%s.", (long long)o->lengths.values[last], name,
             percent_at(p, best, last),
             !others ? ""
             : ties  ? ", as many as any"
                     : ", the most",
             after);
    (void)gyre_report_page_paragraph(page, text);
    for (int64_t m = 0; m < o->method.count && !is_none; m++) {
        if (!method_is_none(p->rows[m].method) || percent_at(p, m, last) < 0) continue;
        snprintf(text, sizeof text, "The model as it is finds %d %% there.", percent_at(p, m, last));
        (void)gyre_report_page_paragraph(page, text);
        break;
    }
}

static void lengths_note(const passkey *p, gyre_report_page *page) {
    const passkey_options *o = &p->options;
    char text[2048] = "Filler is whole sentences. Tokens of the prompts:";
    for (int64_t l = 0; l < o->lengths.count; l++) {
        const size_t used = strlen(text);
        char tokens[PASSKEY_TOKENS];
        passkey_prompt_tokens(p, l, tokens);
        snprintf(text + used, sizeof text - used, "%s %s at %lld", l ? "," : "", tokens, (long long)o->lengths.values[l]);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), ".");
    (void)gyre_report_page_paragraph(page, text);
}

static void tables(const passkey *p, gyre_report_page *page) {
    if (has_picture(p)) {
        picture f = make_picture(p);
        (void)gyre_report_page_heatmap_grid(page, &f.panels,
                                            "At the bottom the key stands just before the question. Grey was not measured.");
        free_picture(&f);
    }
    (void)gyre_report_page_section(page, "By method and length");
    result_table_add(passkey_table_methods(p), page);
    (void)gyre_report_page_section(page, "By depth");
    result_table_add(passkey_table_depths(p), page);
}

gyre_status passkey_write_report(const passkey *p, gyre_error *err) {
    gyre_report_page *page = NULL;
    char date[REPORT_DATE];
    const gyre_status status = gyre_report_page_create(&page, "gyre passkey: what is remembered, by length and depth", err);
    const int has_tables = !passkey_found_none(p); /* no table or map of nothing but zeros */
    if (status) return status;
    answer(p, page);
    if (has_tables) tables(p, page);
    protocol(p, page);
    if (has_tables) lengths_note(p, page);
    run_card_foot(&p->card, report_date(date), page);
    return report_page_end(page, status, p->options.run.report, err);
}

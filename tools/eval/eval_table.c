/* eval_table.c: the results of gyre eval as tables, and their printing. */
#include "tools/cli/plain_stream.h"
#include "tools/eval/eval.h"
#include "util/plain_numbers.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Column groups of the table: each figure at every context, then the pairs. */
enum { PERPLEXITY, BITS, PASSKEY, FIGURES, PAIRS = 3 };

typedef struct layout {
    int64_t policies, contexts, figures, pairs; /* figures: number of groups; policies, pairs: number of columns */
} layout;

static layout layout_of(const evaluation *e) {
    return (layout){.policies = eval_shows_policies(e),
                    .contexts = e->options.contexts.count,
                    .figures = e->options.passkey ? FIGURES : PASSKEY,
                    .pairs = e->cells[0].rotates ? PAIRS : 0};
}

/* -- all results -- */
static void set_columns(const evaluation *e, const layout *l, result_table *t) {
    static const char *const pair_heads[PAIRS] = {"kept", "blended", "divided"};
    const char *const groups[FIGURES] = {"perplexity", eval_has_bytes(e) ? "bits per byte" : "bits per token",
                                         "passkeys found"};
    gyre_report_column *column = t->columns;
    *column++ = (gyre_report_column){.title = "method"};
    if (l->policies) *column++ = (gyre_report_column){.title = "length", .align = GYRE_REPORT_ALIGN_LEFT};
    for (int64_t f = 0; f < l->figures; f++)
        for (int64_t i = 0; i < l->contexts; i++) {
            snprintf(t->texts[i], sizeof t->texts[i], "%lld", (long long)e->options.contexts.values[i]);
            *column++ =
                (gyre_report_column){.title = t->texts[i],
                                     .group = groups[f],
                                     .unit = f == PASSKEY ? "%" : NULL,
                                     .decimals = f == PASSKEY ? 0 : 3,
                                     .emphasis = f == PASSKEY ? GYRE_REPORT_EMPHASIS_HIGHEST : GYRE_REPORT_EMPHASIS_LOWEST};
        }
    snprintf(t->title, sizeof t->title, "pairs at %lld", (long long)e->options.contexts.values[l->contexts - 1]);
    for (int64_t i = 0; l->pairs && i < PAIRS; i++)
        *column++ = (gyre_report_column){.title = pair_heads[i], .group = t->title};
}

static gyre_report_cell figure_cell(const evaluation *e, const eval_cell *c, int64_t figure) {
    if (c->out_of_range) return gyre_report_cell_missing();
    switch (figure) {
    case PERPLEXITY:
        return gyre_report_cell_number(exp(c->figures.nats));
    case BITS:
        return gyre_report_cell_number(eval_has_bytes(e) ? eval_bits_per_byte(c) : c->figures.nats / log(2));
    default:
        return gyre_report_cell_number(100 * (double)c->passkey.right / (double)c->passkey.trials);
    }
}

static void fill_row(const evaluation *e, const layout *l, int64_t set, int64_t row, gyre_report_cell *out) {
    const eval_row *r = &e->rows[row];
    *out++ = gyre_report_cell_text(r->method->label);
    if (l->policies) *out++ = gyre_report_cell_text(r->depends_on_length ? gyre_length_policy_name(r->policy) : "any");
    for (int64_t f = 0; f < l->figures; f++)
        for (int64_t i = 0; i < l->contexts; i++)
            *out++ = figure_cell(e, eval_cell_at(e, set, row, i), f);
    const eval_cell *last = eval_cell_at(e, set, row, l->contexts - 1);
    const int64_t pairs[PAIRS] = {last->parts.kept, last->parts.blended, last->parts.divided};
    for (int64_t i = 0; l->pairs && i < PAIRS; i++)
        *out++ = last->rotates ? gyre_report_cell_number((double)pairs[i]) : gyre_report_cell_missing();
}

gyre_status eval_table_figures(const evaluation *e, result_table *out, gyre_error *err) {
    const layout l = layout_of(e);
    const int64_t columns = 1 + l.policies + l.figures * l.contexts + l.pairs, headings = e->sets > 1;
    const gyre_status status = result_table_create(out, columns, e->sets * (e->rows_count + headings), l.contexts, err);
    if (status) return status;
    set_columns(e, &l, out);
    gyre_report_cell *cells = out->cells;
    for (int64_t s = 0; s < e->sets; s++) {
        if (headings) {
            *cells = gyre_report_cell_heading(eval_set_name(e, s));
            cells += columns;
        }
        for (int64_t r = 0; r < e->rows_count; r++, cells += columns)
            fill_row(e, &l, s, r, cells);
    }
    for (int64_t i = 0; i < e->sets * e->rows_count * l.contexts; i++)
        if (e->cells[i].out_of_range)
            out->table.note =
                e->stopped ? "-: not measured, the run was stopped" : "-: the encoding ends before that context does";
    return GYRE_OK;
}

/* -- intervals -- */
gyre_status eval_table_intervals(const evaluation *e, int64_t set, result_table *out, gyre_error *err) {
    const int64_t contexts = e->options.contexts.count, columns = 1 + contexts, rows = e->rows_count;
    const gyre_status status = result_table_create(out, columns, rows, columns * (rows + 1), err);
    if (status) return status;
    out->columns[0] = (gyre_report_column){.title = "method"};
    for (int64_t l = 0; l < contexts; l++) {
        snprintf(out->texts[l], sizeof out->texts[l], "%lld", (long long)e->options.contexts.values[l]);
        out->columns[1 + l] = (gyre_report_column){
            .title = out->texts[l], .group = "perplexity, 95 % interval", .align = GYRE_REPORT_ALIGN_RIGHT};
    }
    for (int64_t r = 0; r < rows; r++) {
        gyre_report_cell *cells = &out->cells[r * columns];
        const eval_row *row = &e->rows[r];
        char *name = out->texts[(r + 1) * columns + contexts];
        const char *policy = eval_shows_policies(e) && row->depends_on_length ? gyre_length_policy_name(row->policy) : "";
        gyre_plain_snprintf(name, sizeof out->texts[0], "%.36s%s%.10s", row->method->label, *policy ? " " : "", policy);
        cells[0] = gyre_report_cell_text(name);
        for (int64_t l = 0; l < contexts; l++) {
            char *text = out->texts[(r + 1) * columns + l];
            double low, high;
            const int known = eval_interval(eval_cell_at(e, set, r, l), &low, &high);
            if (known) snprintf(text, sizeof out->texts[0], "%.4g to %.4g", low, high);
            cells[1 + l] = known ? gyre_report_cell_text(text) : gyre_report_cell_missing();
        }
    }
    out->table.note =
        "interval: over the windows, by Student's t; methods read the same windows, so their difference is surer";
    return GYRE_OK;
}

/* -- loss by position -- */
gyre_status eval_table_positions(const evaluation *e, int64_t set, int64_t column, result_table *out, gyre_error *err) {
    const int64_t buckets = e->options.buckets, context = e->options.contexts.values[column], columns = 1 + e->rows_count;
    const gyre_status status = result_table_create(out, columns, buckets, buckets + e->rows_count, err);
    if (status) return status;
    out->columns[0] = (gyre_report_column){.title = "positions"};
    for (int64_t r = 0; r < e->rows_count; r++) {
        char *head = out->texts[buckets + r];
        const eval_row *row = &e->rows[r];
        gyre_plain_snprintf(head, sizeof out->texts[0],
                            eval_shows_policies(e) && row->depends_on_length ? "%.14s %.8s" : "%.22s", row->method->label,
                            gyre_length_policy_name(row->policy));
        out->columns[1 + r] = (gyre_report_column){.title = head, .decimals = 3};
    }
    for (int64_t b = 0; b < buckets; b++) {
        gyre_report_cell *cells = &out->cells[b * columns];
        /* Position i is in part i * buckets / context. */
        snprintf(out->texts[b], sizeof out->texts[b], "%lld-%lld", (long long)((b * context + buckets - 1) / buckets),
                 (long long)(((b + 1) * context + buckets - 1) / buckets - 1));
        cells[0] = gyre_report_cell_text(out->texts[b]);
        for (int64_t r = 0; r < e->rows_count; r++) {
            const eval_cell *c = eval_cell_at(e, set, r, column);
            cells[1 + r] = c->out_of_range ? gyre_report_cell_missing() : gyre_report_cell_number(c->by_position[b]);
        }
    }
    gyre_plain_snprintf(out->caption, sizeof out->caption, "loss by position at %lld, nats per token%s%.180s",
                        (long long)context, e->sets > 1 ? ": " : "", e->sets > 1 ? eval_set_name(e, set) : "");
    out->table.caption = out->caption;
    return GYRE_OK;
}

/* -- printing -- */
static void print_texts(const evaluation *e, FILE *file) {
    for (int64_t i = 0; i < e->input.texts_count; i++) {
        const gyre_text *text = &e->input.texts[i];
        const gyre_tokenizer *tokenizer = e->input.tokenizer;
        const int bytes = tokenizer && tokenizer_info(tokenizer).kind == GYRE_TOKENIZER_BYTES;
        const int named = e->input.texts_count > 1;
        char of_bytes[48] = "";
        if (text->bytes && !bytes) snprintf(of_bytes, sizeof of_bytes, " of %lld bytes", (long long)text->bytes);
        cli_page_printf(file, "text      %s%s%lld %s%s in %lld file%s, fnv1a64:%016" PRIx64 "\n",
                        named ? plain_line(e->options.model.texts[i]) : "", named ? ": " : "", (long long)text->count,
                        bytes ? "bytes" : "tokens", of_bytes, (long long)text->files, text->files == 1 ? "" : "s",
                        text->hash);
    }
}

static void print_header(const evaluation *e, FILE *file) {
    const eval_options *o = &e->options;
    char model[4400], stride[32] = "L/2", windows[48] = "all windows";
    if (o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE) snprintf(stride, sizeof stride, "L");
    if (o->stride) snprintf(stride, sizeof stride, "%lld", (long long)o->stride);
    if (o->windows)
        snprintf(windows, sizeof windows, o->first ? "the first %lld windows" : "at most %lld windows",
                 (long long)o->windows);
    model_input_describe(&e->input, model, sizeof model);
    cli_page_printf(file, "model     %s\n", plain_line(model));
    print_texts(e, file);
    cli_page_printf(file, "protocol  %s: windows of L tokens, stride %s, %s; scored: %s\n\n",
                    eval_protocol_names[o->protocol], stride, windows, eval_protocol_description(o));
}

static int has_intervals(const evaluation *e, int64_t set) {
    double low, high;
    for (int64_t r = 0; r < e->rows_count; r++)
        for (int64_t l = 0; l < e->options.contexts.count; l++)
            if (eval_interval(eval_cell_at(e, set, r, l), &low, &high)) return 1;
    return 0;
}

static gyre_status print_one(result_table *t, gyre_status status, FILE *file, gyre_error *err) {
    if (!status) status = result_table_print(&t->table, file, err);
    result_table_free(t);
    return status;
}

int eval_print_tables(const evaluation *e, FILE *file) {
    result_table t;
    gyre_error err = {0, ""};
    print_header(e, file);
    gyre_status status = print_one(&t, eval_table_figures(e, &t, &err), file, &err);
    fputc('\n', file);
    if (!has_intervals(e, e->sets - 1))
        cli_page_printf(file, "No intervals: a context takes three windows for one.\n");
    else if (!status)
        status = print_one(&t, eval_table_intervals(e, e->sets - 1, &t, &err), file, &err);
    /* For several texts, only all together: JSON and the report have each text. */
    for (int64_t l = 0; e->options.prints_positions && l < e->options.contexts.count && !status; l++) {
        fputc('\n', file);
        status = print_one(&t, eval_table_positions(e, e->sets - 1, l, &t, &err), file, &err);
    }
    if (!status) {
        fputc('\n', file);
        run_card_print(&e->card, file);
    }
    return status ? cli_fail_error(&err) : 0;
}

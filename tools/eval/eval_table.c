/* eval_table.c: the results of gyre eval as tables, and their printing. */
#include "tools/cli/plain_stream.h"
#include "tools/eval/eval.h"
#include <inttypes.h>
#include <math.h>

/* -- all results -- */
enum { PERPLEXITY, BITS, PASSKEY };

static double figure_of(const evaluation *e, const eval_cell *c, int figure) {
    if (!eval_cell_is_known(c)) return NAN;
    if (figure == PERPLEXITY) return exp(c->figures.nats);
    if (figure == PASSKEY) return 100 * (double)c->passkey.right / (double)c->passkey.trials;
    return eval_has_bytes(e) ? eval_bits_per_byte(c) : c->figures.nats / log(2);
}

/* A group of columns for each figure at every context; then the pairs at the longest. */
static void set_columns(const evaluation *e, result_table *t) {
    const length_list *contexts = &e->options.contexts;
    const gyre_report_column figures[] = {
        {.group = "perplexity", .decimals = 3, .emphasis = GYRE_REPORT_EMPHASIS_LOWEST},
        {.group = eval_has_bytes(e) ? "bits per byte" : "bits per token",
         .decimals = 3,
         .emphasis = GYRE_REPORT_EMPHASIS_LOWEST},
        {.group = "passkeys found", .unit = "%", .emphasis = GYRE_REPORT_EMPHASIS_HIGHEST}};
    result_column(t, (gyre_report_column){.title = "method"});
    if (eval_shows_policies(e)) result_column(t, (gyre_report_column){.title = "length", .align = GYRE_REPORT_ALIGN_LEFT});
    for (int f = 0; f < (e->options.passkey ? 3 : 2); f++)
        for (int64_t i = 0; i < contexts->count; i++) {
            gyre_report_column column = figures[f];
            column.title = result_text(t, "%lld", (long long)contexts->values[i]);
            result_column(t, column);
        }
    if (!e->cells[0].rotates) return;
    const char *pairs = result_text(t, "pairs at %lld", (long long)contexts->values[contexts->count - 1]);
    result_column(t, (gyre_report_column){.title = "kept", .group = pairs});
    result_column(t, (gyre_report_column){.title = "blended", .group = pairs});
    result_column(t, (gyre_report_column){.title = "divided", .group = pairs});
}

static void add_row(const evaluation *e, int64_t set, int64_t row, result_table *t) {
    const eval_row *r = &e->rows[row];
    result_name(t, r->method->label);
    if (eval_shows_policies(e)) result_name(t, r->depends_on_length ? gyre_length_policy_name(r->policy) : "any");
    for (int f = 0; f < (e->options.passkey ? 3 : 2); f++)
        for (int64_t i = 0; i < e->options.contexts.count; i++)
            result_number(t, figure_of(e, eval_cell_at(e, set, row, i), f));
    const eval_cell *last = eval_cell_at(e, set, row, e->options.contexts.count - 1);
    if (!e->cells[0].rotates) return;
    result_number(t, last->rotates ? (double)last->parts.kept : NAN);
    result_number(t, last->rotates ? (double)last->parts.blended : NAN);
    result_number(t, last->rotates ? (double)last->parts.divided : NAN);
}

result_table eval_table_figures(const evaluation *e) {
    result_table t = RESULT_TABLE_INIT;
    set_columns(e, &t);
    for (int64_t s = 0; s < e->sets; s++) {
        if (e->sets > 1) result_heading(&t, eval_set_name(e, s));
        for (int64_t r = 0; r < e->rows_count; r++)
            add_row(e, s, r, &t);
    }
    for (int64_t i = 0; i < e->sets * e->rows_count * e->options.contexts.count; i++)
        if (e->cells[i].out_of_range)
            t.table.note =
                e->stopped ? "-: not measured, the run was stopped" : "-: the encoding ends before that context does";
    return t;
}

/* -- intervals -- */
result_table eval_table_intervals(const evaluation *e, int64_t set) {
    result_table t = RESULT_TABLE_INIT;
    const int64_t contexts = e->options.contexts.count;
    result_column(&t, (gyre_report_column){.title = "method"});
    for (int64_t l = 0; l < contexts; l++)
        result_column(&t, (gyre_report_column){.title = result_text(&t, "%lld", (long long)e->options.contexts.values[l]),
                                               .group = "perplexity, 95 % interval",
                                               .align = GYRE_REPORT_ALIGN_RIGHT});
    for (int64_t r = 0; r < e->rows_count; r++) {
        result_name(&t, eval_row_name(e, r));
        for (int64_t l = 0; l < contexts; l++) {
            double low, high;
            const int known = eval_interval(eval_cell_at(e, set, r, l), &low, &high);
            result_name(&t, known ? result_text(&t, "%.4g to %.4g", low, high) : NULL);
        }
    }
    t.table.note = "interval: over the windows, by Student's t; methods read the same windows, so their difference is surer";
    return t;
}

/* -- loss by position -- */
result_table eval_table_positions(const evaluation *e, int64_t set, int64_t column) {
    result_table t = RESULT_TABLE_INIT;
    const int64_t buckets = e->options.buckets, context = e->options.contexts.values[column];
    result_column(&t, (gyre_report_column){.title = "positions"});
    for (int64_t r = 0; r < e->rows_count; r++)
        result_column(&t, (gyre_report_column){.title = eval_row_name(e, r), .decimals = 3});
    for (int64_t b = 0; b < buckets; b++) {
        /* Position i is in part i * buckets / context. */
        result_name(&t, result_text(&t, "%lld-%lld", (long long)((b * context + buckets - 1) / buckets),
                                    (long long)(((b + 1) * context + buckets - 1) / buckets - 1)));
        for (int64_t r = 0; r < e->rows_count; r++) {
            const eval_cell *c = eval_cell_at(e, set, r, column);
            result_number(&t, c->out_of_range ? NAN : c->by_position[b]);
        }
    }
    t.table.caption = result_text(&t, "loss by position at %lld, nats per token%s%.180s", (long long)context,
                                  e->sets > 1 ? ": " : "", e->sets > 1 ? eval_set_name(e, set) : "");
    return t;
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
    cli_page_printf(file, "protocol  %s: windows of L tokens, stride %s, %s; scored: %s\n", eval_protocol_names[o->protocol],
                    stride, windows, eval_protocol_description(o));
    if (o->first_position) cli_page_printf(file, "positions from %lld in every window\n", (long long)o->first_position);
    char products[EVAL_PRODUCTS_TEXT];
    eval_products_describe(e, products);
    if (*products) cli_page_printf(file, "products  %s\n", products);
    cli_page_printf(file, "\n");
}

static int has_intervals(const evaluation *e, int64_t set) {
    double low, high;
    for (int64_t r = 0; r < e->rows_count; r++)
        for (int64_t l = 0; l < e->options.contexts.count; l++)
            if (eval_interval(eval_cell_at(e, set, r, l), &low, &high)) return 1;
    return 0;
}

int eval_print_tables(const evaluation *e, FILE *file) {
    print_header(e, file);
    int status = result_table_show(eval_table_figures(e), file);
    char same[SAME_ROWS_TEXT];
    same_rows_describe(&e->same, e->options.contexts.values, e->options.contexts.count, eval_row_name, e, same);
    if (*same) cli_page_printf(file, "\n%s\n", same);
    fputc('\n', file);
    if (!has_intervals(e, e->sets - 1))
        cli_page_printf(file, "No intervals: a context takes three windows for one.\n");
    else if (!status)
        status = result_table_show(eval_table_intervals(e, e->sets - 1), file);
    /* For several texts, only all together: JSON and the report have each text. */
    for (int64_t l = 0; e->options.prints_positions && l < e->options.contexts.count && !status; l++) {
        fputc('\n', file);
        status = result_table_show(eval_table_positions(e, e->sets - 1, l), file);
    }
    if (status) return status;
    fputc('\n', file);
    run_card_print(&e->card, file);
    return 0;
}

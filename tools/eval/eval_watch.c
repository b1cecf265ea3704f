/* eval_watch.c: --watch: the cells of gyre eval as they are finished. */
#include "tools/cli/plain_stream.h"
#include "tools/eval/eval.h"
#include <math.h>
#include <stdio.h>

static result_table table_so_far(const void *of) {
    const evaluation *e = of;
    result_table t = eval_table_figures(e);
    int open = 0;
    for (int64_t i = 0; i < e->sets * e->rows_count * e->options.contexts.count; i++)
        open |= !e->cells[i].out_of_range && !eval_cell_is_known(&e->cells[i]);
    if (open) live_table_note_open(&t);
    return t;
}

void eval_watch_cell(evaluation *e, int64_t set, int64_t row, int64_t column) {
    const eval_cell *c = eval_cell_at(e, set, row, column);
    const long long context = (long long)e->options.contexts.values[column];
    char text[300] = "", figure[160], keys[48] = "";
    double low, high;
    if (e->sets > 1) snprintf(text, sizeof text, "%.256s: ", plain_line(eval_set_name(e, set)));
    snprintf(figure, sizeof figure, "perplexity %.4g", exp(c->figures.nats));
    if (eval_interval(c, &low, &high))
        snprintf(figure, sizeof figure, "perplexity %.4g (%.4g to %.4g)", exp(c->figures.nats), low, high);
    if (!eval_cell_is_known(c)) snprintf(figure, sizeof figure, "not measured: %.130s", c->note.text);
    if (c->passkey.trials)
        snprintf(keys, sizeof keys, ", %lld of %lld keys", (long long)c->passkey.right, (long long)c->passkey.trials);
    live_table_show(&e->live, table_so_far, e, "%s%s at %lld: %s%s", text, eval_row_name(e, row), context, figure, keys);
}

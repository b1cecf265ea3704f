/* bench_add.c: gyre bench add: position embeddings added at the input, in place. */
#include "gyre/gyre_fields.h"
#include "tools/bench/bench_in_place.h"
#include <stdlib.h>

enum { MODEL_DIM = 4096, POSITIONS = 4096 };

static gyre_status add(const bench_in_place *r) {
    const gyre_positions positions = {.base = 0};
    const gyre_cview in = gyre_const(r->view);
    return gyre_add_input(
        r->encoding, GYRE_ARGS(gyre_add_input_args, .tables = r->tables, .positions = &positions, .in = in, .out = r->view),
        r->exec, NULL);
}

static int run_case(const bench_options *o, const gyre_exec *exec, const bench_in_place_row *row, gyre_kind kind,
                    const gyre_tables *tables) {
    gyre_error err = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    bench_in_place_result result;
    bench_in_place r = {.view = gyre_dense(NULL, bench_types[row->type], 1, row->tokens, 1, MODEL_DIM),
                        .tables = tables,
                        .exec = exec,
                        .call = add};
    config.kind = kind;
    config.input.dim = MODEL_DIM;
    config.trained_length = POSITIONS;
    gyre_status status = gyre_config_suggest(&config);
    if (!status) status = gyre_encoding_create(&r.encoding, &config, NULL, &err);
    if (!status) status = bench_measure_in_place(&r, o->rounds, &result, &err);
    gyre_encoding_free(r.encoding);
    return !status ? bench_in_place_print(o, row, &result) : cli_fail_error(&err);
}

static int run(const bench_options *o, const gyre_exec *exec, int64_t threads) {
    float *table = calloc((size_t)POSITIONS * MODEL_DIM, sizeof *table); /* zeros, so that the input stays near 1 */
    const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, POSITIONS, MODEL_DIM)};
    int status = table ? 0 : cli_fail("memory: out of it (gyre bench)");
    for (int kind = 1; gyre_kind_name((gyre_kind)kind) && !status; kind++) {
        if (!(gyre_kind_places((gyre_kind)kind) & GYRE_PLACE_INPUT)) continue;
        for (int type = 0; type < BENCH_TYPES && !status; type++)
            for (int size = 0; size < BENCH_SIZES && !status; size++) {
                const char *name = gyre_kind_name((gyre_kind)kind);
                const bench_in_place_row row = {"add", "kind", name, 0, type, bench_sizes[size], threads};
                status = run_case(o, exec, &row, (gyre_kind)kind, &tables);
            }
    }
    free(table);
    return status;
}

int bench_add(const bench_options *o) {
    if (!o->common.json) {
        fprintf(cli_stdout(), "%d channels, position embeddings added in place.\n", MODEL_DIM);
        bench_in_place_head("kind");
    }
    return bench_for_threads(o, run);
}

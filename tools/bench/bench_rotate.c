/* bench_rotate.c: gyre bench rotate: rotates queries in place, for every data type and layout of pairs. */
#include "tools/bench/bench_in_place.h"
#include "tools/options/value_names.h"

#define GOAL 0.90 /* of multiplying the same numbers */
enum { HEADS = 32, HEAD_DIM = 128, FIRST = 1000, LAYOUTS = 3 };
static const gyre_layout layouts[LAYOUTS] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_INTERLEAVED_TO_HALF};

static gyre_status rotate(const bench_in_place *r) {
    const gyre_positions positions = {.base = FIRST}; /* at position 0 the rotation is the identity */
    const gyre_cview in = gyre_const(r->view);
    return gyre_rotate(
        r->encoding, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = r->view),
        r->exec, NULL);
}

static int run_case(const bench_options *o, const gyre_exec *exec, const bench_in_place_row *row, gyre_layout layout) {
    gyre_error err = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    bench_in_place_result result;
    bench_in_place r = {
        .view = gyre_dense(NULL, bench_types[row->type], 1, row->tokens, HEADS, HEAD_DIM), .exec = exec, .call = rotate};
    config.kind = gyre_kind_find("rope");
    config.head_dim = HEAD_DIM;
    config.rope.layout = layout;
    config.rope.table_positions = FIRST + bench_sizes[BENCH_SIZES - 1];
    gyre_status status = gyre_encoding_create(&r.encoding, &config, NULL, &err);
    if (!status) status = bench_measure_in_place(&r, o->rounds, &result, &err);
    gyre_encoding_free(r.encoding);
    return !status ? bench_in_place_print(o, row, &result) : cli_fail_error(&err);
}

static int run(const bench_options *o, const gyre_exec *exec, int64_t threads) {
    for (int type = 0; type < BENCH_TYPES; type++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int size = 0; size < BENCH_SIZES; size++) {
                const bench_in_place_row row = {"rotate",          "layout", gyre_layout_name(layouts[layout]), GOAL, type,
                                                bench_sizes[size], threads};
                const int status = run_case(o, exec, &row, layouts[layout]);
                if (status) return status;
            }
    return 0;
}

int bench_rotate(const bench_options *o) {
    if (!o->common.json) {
        fprintf(cli_stdout(), "%d heads of %d channels, rotated in place.\n", HEADS, HEAD_DIM);
        bench_in_place_head("layout");
    }
    return bench_for_threads(o, run);
}

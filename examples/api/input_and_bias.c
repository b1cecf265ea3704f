/* input_and_bias.c: positions added at the input and biases added to scores, with trained tables and without. */
#include "example.h"

enum { TOKENS = 6, DIM = 16, HEADS = 4 };

static void sinusoid(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_SINUSOIDAL;
    config.input.dim = DIM;
    gyre_encoding *sinusoidal = NULL;
    check(gyre_encoding_create(&sinusoidal, &config, NULL, &err));
    float x[TOKENS][DIM] = {{0}};

    /* [gyre_add_input] */
    const gyre_view out = gyre_dense(x, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM); /* embeddings, in place */
    const gyre_cview in = gyre_const(out);
    const gyre_positions at = {.base = 30};
    check(gyre_add_input(sinusoidal, GYRE_ARGS(gyre_add_input_args, .positions = &at, .in = in, .out = out), NULL, &err));
    expect(near(x[2][0], sin(32), 1e-6) && near(x[2][1], cos(32), 1e-6)); /* they were zeros */
    /* [end] */
    gyre_encoding_free(sinusoidal);
}

static void learned_table(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_LEARNED;
    config.input.dim = DIM;
    config.input.positions = 1024;
    gyre_encoding *learned = NULL;
    check(gyre_encoding_create(&learned, &config, NULL, &err));
    static float weights[1024][DIM];
    fill(&weights[0][0], sizeof weights / sizeof weights[0][0], 1);
    float x[TOKENS][DIM] = {{0}};
    const gyre_view out = gyre_dense(x, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    const gyre_cview in = gyre_const(out);

    /* [gyre_add_input] */
    /* A trained table: GPT-2's wpe.weight, [1024 positions][channels]. */
    const gyre_tables tables = {.input = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, 1024, DIM)};
    const gyre_positions from = {.base = 500};
    check(gyre_add_input(
        learned, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &from, .in = in, .out = out), NULL, &err));
    expect(x[3][5] == weights[503][5]);
    /* [end] */
    gyre_encoding_free(learned);
}

static void alibi_bias(void) {
    gyre_encoding *alibi = NULL;
    check(gyre_alibi_create(&alibi, HEADS, &err));
    static float scores[TOKENS][HEADS][TOKENS];

    /* [gyre_add_bias] */
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F32, 1, TOKENS, HEADS, TOKENS); /* query, head, key */
    const gyre_positions from_zero = {0};
    check(gyre_add_bias(alibi, GYRE_ARGS(gyre_add_bias_args, .queries = &from_zero, .keys = &from_zero, .scores = view),
                        NULL, &err));
    expect(scores[5][0][2] == -0.25f * 3); /* slopes of 4 heads: 1/4, 1/16, ...; distance 5 - 2 */
    /* [end] */
    gyre_encoding_free(alibi);
}

static void t5_bias(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_T5;
    config.heads = HEADS;
    check(gyre_config_suggest(&config));
    gyre_encoding *t5 = NULL;
    check(gyre_encoding_create(&t5, &config, NULL, &err));
    static float weights[32][HEADS], scores[1][HEADS][TOKENS];
    fill(&weights[0][0], sizeof weights / sizeof weights[0][0], 2);

    /* [gyre_add_bias] */
    /* A trained table, [32 buckets][heads], and one query at position 5 against the keys 0 .. 5. */
    const gyre_tables tables = {.bias = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, 32, HEADS)};
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F32, 1, 1, HEADS, TOKENS);
    const gyre_positions query = {.base = 5}, keys = {.base = 0};
    check(gyre_add_bias(
        t5, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &query, .keys = &keys, .scores = view), NULL, &err));
    expect(scores[0][1][2] == weights[3][1]); /* distance 3 has bucket 3 */
    /* [end] */
    gyre_encoding_free(t5);
}

int main(void) {
    sinusoid();
    learned_table();
    alibi_bias();
    t5_bias();
    return 0;
}

/* train_tables.c: for trainers: what a scheme trains, how a table begins, and gradients. */
#include "example.h"

enum { TOKENS = 6, DIM = 8, HEADS = 2 };

static gyre_encoding *suggested(gyre_kind kind) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    config.heads = HEADS;
    config.head_dim = DIM;
    config.input.dim = DIM;
    config.trained_length = 64;
    gyre_encoding *encoding = NULL;
    check(gyre_config_suggest(&config));
    check(gyre_encoding_create(&encoding, &config, NULL, &err));
    return encoding;
}

static void begin_tables(void) {
    gyre_encoding *kerple = suggested(GYRE_KIND_KERPLE), *deberta = suggested(GYRE_KIND_DEBERTA);

    /* [gyre_encoding_table_entry] */
    gyre_table_entry r1; /* KERPLE, head 0: row 0, channel 0 of the bias table */
    check(gyre_encoding_table_entry(kerple, GYRE_TABLE_BIAS, 0, 0, 0, &r1));
    const double draw = 0.3; /* of a normal distribution */
    double weight = r1.initial_mean + r1.initial_deviation * draw;
    weight -= 100; /* an optimiser step that goes too far */
    weight = fmin(fmax(weight, r1.minimum), r1.maximum);
    expect(weight > 0); /* a bias that grows with distance would not be a decay */
    /* [end] */

    /* [gyre_encoding_row_source] */
    /* DeBERTa's A and B are projections of one table P that all layers share, so the model trains P and W. */
    expect(gyre_encoding_row_source(deberta) == GYRE_ROW_SOURCE_PROJECTED);
    /* [end] */
    gyre_encoding_free(kerple);
    gyre_encoding_free(deberta);
}

static void input_gradient(void) {
    gyre_encoding *learned = suggested(GYRE_KIND_LEARNED);
    float dout[TOKENS][DIM];
    fill(&dout[0][0], TOKENS * DIM, 1);

    /* [gyre_add_input_gradient] */
    static float dtable[64][DIM]; /* zeros: gradients are added to it */
    const gyre_table_gradients gradients = {.input = gyre_dense(dtable, GYRE_DTYPE_F32, 1, 1, 64, DIM)};
    const gyre_cview d = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    const gyre_positions at = {.base = 10};
    check(gyre_add_input_gradient(learned, &at, &d, &gradients, NULL, &err));
    expect(dtable[12][3] == dout[2][3] && dtable[0][3] == 0); /* row 12 was added to token 2 */
    /* [end] */
    gyre_encoding_free(learned);
}

static void bias_gradient(void) {
    gyre_encoding *t5 = suggested(GYRE_KIND_T5);
    static float weights[32][HEADS], dscores[TOKENS][HEADS][TOKENS];
    for (int i = 0; i < TOKENS * HEADS * TOKENS; i++)
        (&dscores[0][0][0])[i] = 1;

    /* [gyre_add_bias_gradient] */
    static float dtable[32][HEADS];
    const gyre_tables tables = {.bias = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, 32, HEADS)};
    const gyre_table_gradients gradients = {.bias = gyre_dense(dtable, GYRE_DTYPE_F32, 1, 1, 32, HEADS)};
    const gyre_cview d = gyre_cdense(dscores, GYRE_DTYPE_F32, 1, TOKENS, HEADS, TOKENS);
    const gyre_positions from_zero = {0};
    gyre_add_bias_args args = GYRE_INIT(gyre_add_bias_args); /* as of gyre_add_bias, without scores */
    args.tables = &tables;
    args.queries = args.keys = &from_zero;
    check(gyre_add_bias_gradient(t5, &args, &d, &gradients, NULL, &err));
    expect(dtable[2][0] == TOKENS - 2); /* pairs at distance 2, each with a gradient of 1 */
    /* [end] */
    gyre_encoding_free(t5);
}

static float q[TOKENS][HEADS][DIM], k[TOKENS][HEADS][DIM], v[TOKENS][HEADS][DIM], out[TOKENS][HEADS][DIM];
static float lse[TOKENS][HEADS], dout[TOKENS][HEADS][DIM], dq[TOKENS][HEADS][DIM], dk[TOKENS][HEADS][DIM],
    dv[TOKENS][HEADS][DIM];

static gyre_view dense(float (*x)[HEADS][DIM]) {
    return gyre_dense(x, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
}

/* The loss whose gradient to out is dout. */
static double loss(const gyre_attention_args *args, gyre_scratch scratch) {
    check(gyre_attention(args, scratch, NULL, &err));
    double sum = 0;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        sum += (double)(&out[0][0][0])[i] * (double)(&dout[0][0][0])[i];
    return sum;
}

static void attention_gradient(void) {
    gyre_encoding *rope = suggested(GYRE_KIND_ROPE);
    fill(&q[0][0][0], TOKENS * HEADS * DIM, 1);
    fill(&k[0][0][0], TOKENS * HEADS * DIM, 2);
    fill(&v[0][0][0], TOKENS * HEADS * DIM, 3);
    fill(&dout[0][0][0], TOKENS * HEADS * DIM, 4);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = rope;
    args.q = gyre_const(dense(q)), args.k = gyre_const(dense(k)), args.v = gyre_const(dense(v));
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = dense(out);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, TOKENS, HEADS, 1);

    /* [gyre_attention_gradient] */
    size_t forward, backward;
    check(gyre_attention_scratch(&args, 0, NULL, &forward, &err));
    check(gyre_attention_scratch(&args, 1, NULL, &backward, &err));
    const gyre_scratch scratch = take_scratch(forward > backward ? forward : backward);
    check(gyre_attention(&args, scratch, NULL, &err)); /* writes out and args.lse, which the gradient reads */
    gyre_attention_gradients to = GYRE_INIT(gyre_attention_gradients);
    to.dout = gyre_const(dense(dout));
    to.dq = dense(dq), to.dk = dense(dk), to.dv = dense(dv);
    check(gyre_attention_gradient(&args, &to, scratch, NULL, &err));
    /* [end] */

    /* Against central differences of one element of q and of k. */
    float *const elements[2] = {&q[4][1][3], &k[2][0][5]};
    const double gradient[2] = {dq[4][1][3], dk[2][0][5]};
    for (int i = 0; i < 2; i++) {
        const float at = *elements[i], step = 1.0f / 64;
        *elements[i] = at + step;
        const double above = loss(&args, scratch);
        *elements[i] = at - step;
        const double below = loss(&args, scratch);
        *elements[i] = at;
        expect(near(gradient[i], (above - below) / (2 * (double)step), 1e-4));
    }
    free(scratch.memory);
    gyre_encoding_free(rope);
}

int main(void) {
    begin_tables();
    input_gradient();
    bias_gradient();
    attention_gradient();
    return 0;
}

/* generate_text.c: text to tokens, tokens through a model, logits to the next token.  The model has random weights.
 *   generate_text FOLDER */
#include "example.h"
#include <gyre/gyre_model.h>

enum { VOCAB = 256 };

/* [gyre_context_create] */
static gyre_context *begin(const gyre_model *model, int64_t max_tokens) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = max_tokens;
    options.cache_dtype = GYRE_DTYPE_F32;
    gyre_context *context = NULL;
    check(gyre_context_create(&context, model, &options, &err)); /* borrows the model */
    return context;
}
/* [end] */

static void read_tokens(gyre_context *context, const int32_t *ids, int64_t count) {
    static float whole[VOCAB], last[VOCAB];

    /* [gyre_context_forward gyre_context_tokens gyre_context_truncate] */
    check(gyre_context_forward(context, ids, count, 1, whole, &err)); /* logits after the last token only */
    expect(gyre_context_tokens(context) == count);

    check(gyre_context_truncate(context, count - 1));                        /* forget the last token, */
    check(gyre_context_forward(context, ids + count - 1, 1, 1, last, &err)); /* and read it again alone */
    expect(most_apart(whole, last, VOCAB) < 1e-4);
    /* [end] */

    /* [gyre_context_reset gyre_context_bytes] */
    gyre_context_reset(context); /* for the next prompt: memory stays */
    expect(gyre_context_tokens(context) == 0 && gyre_context_bytes(context) > 0);
    /* [end] */
}

/* A vector of a text: the mean of those of its tokens. */
static void embed(const gyre_model *model, gyre_context *context, const int32_t *ids, int64_t count) {
    const int64_t dim = gyre_model_get_config(model)->model_dim;
    float *states = calloc((size_t)(count * dim), sizeof *states), *mean = calloc((size_t)dim, sizeof *mean);
    expect(states && mean);

    /* [gyre_context_embed] */
    check(gyre_context_embed(context, ids, count, count, states, &err)); /* of every token, without its logits */
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < dim; c++)
            mean[c] += states[i * dim + c] / (float)count;
    gyre_context_reset(context);
    /* [end] */
    double length = 0; /* RMSNorm with gains of 1: each vector has length sqrt(dim) */
    for (int64_t c = 0; c < dim; c++)
        length += (double)states[c] * (double)states[c];
    expect(fabs(length - (double)dim) < 1e-2 * (double)dim);
    free(states);
    free(mean);
}

/* What the last query looks at. */
static void watch(const gyre_model *model, gyre_context *context, const int32_t *ids, int64_t max_tokens) {
    const int64_t heads = gyre_model_get_config(model)->heads;
    float *weights = calloc((size_t)(max_tokens * heads * max_tokens), sizeof *weights);
    expect(weights != NULL);

    /* [gyre_context_watch] */
    check(gyre_context_watch(context, 0, weights, &err)); /* the first layer */
    check(gyre_context_forward(context, ids, 5, 0, NULL, &err));
    const float *last = weights + 4 * heads * max_tokens; /* query 4, head 0: a weight for each of 5 keys */
    expect(fabs(last[0] + last[1] + last[2] + last[3] + last[4] - 1) < 1e-5);
    check(gyre_context_watch(context, 0, NULL, &err));
    /* [end] */
    free(weights);
    gyre_context_reset(context);

    /* [gyre_context_watch_heads] */
    const int64_t kv_heads = gyre_model_get_config(model)->kv_heads, dim = gyre_model_get_config(model)->head_dim;
    float *q = calloc((size_t)(max_tokens * heads * dim), sizeof *q);
    float *k = calloc((size_t)(max_tokens * kv_heads * dim), sizeof *k);
    expect(q && k);
    check(gyre_context_watch_heads(context, 0, q, k, &err)); /* the first layer, before the rotation */
    check(gyre_context_forward(context, ids, 5, 0, NULL, &err));
    const float *query = q + 4 * heads * dim; /* token 4, head 0: its channels */
    expect(query[0] != 0);
    check(gyre_context_watch_heads(context, 0, NULL, NULL, &err));
    /* [end] */
    free(q);
    free(k);
    gyre_context_reset(context);
}

static void generate(gyre_context *context, const gyre_tokenizer *tokenizer, const int32_t *ids, int64_t count) {
    static float logits[VOCAB];
    int32_t drawn[8];

    /* [gyre_sample] */
    gyre_sampling sampling = GYRE_INIT(gyre_sampling);
    sampling.temperature = 0.8;
    sampling.top_p = 0.9;
    uint64_t state = 42; /* the seed */
    check(gyre_context_forward(context, ids, count, 1, logits, &err));
    for (int i = 0; i < 8; i++) {
        drawn[i] = gyre_sample(logits, VOCAB, &sampling, &state);
        check(gyre_context_forward(context, &drawn[i], 1, 1, logits, &err));
    }
    /* [end] */
    float three[3] = {1, 3, 2};
    expect(gyre_sample(three, 3, NULL, &state) == 1); /* without options: the likeliest */

    /* [gyre_detokenize] */
    const gyre_text tokens = {.ids = drawn, .count = 8};
    char *text = NULL;
    size_t bytes;
    check(gyre_detokenize(tokenizer, &tokens, GYRE_TOKENIZE_INSIDE, &text, &bytes, &err)); /* goes on inside a text */
    expect(bytes == 8 && text[bytes] == '\0');
    free(text);
    /* [end] */
}

/* Reads far more tokens than the context holds. */
static void stream(gyre_context *context) {
    static float logits[VOCAB];

    /* [gyre_context_stream] */
    check(gyre_context_stream(context, 4, 16, &err)); /* 4 sinks and the last 12 tokens */
    for (int32_t i = 0; i < 200; i++) {
        const int32_t token = 'a' + i % 26;
        check(gyre_context_forward(context, &token, 1, 1, logits, &err));
    }
    expect(gyre_context_tokens(context) == 200); /* read; no more than 16 of them are seen */
    /* [end] */
}

static void describe(const gyre_tokenizer *tokenizer) {
    /* [gyre_tokenizer_get_info] */
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    check(gyre_tokenizer_get_info(tokenizer, &info));
    expect(info.kind == GYRE_TOKENIZER_BYTES && info.vocab == VOCAB);
    expect(info.begin == -1); /* no such token */
    /* [end] */
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: generate_text FOLDER\n"), 2;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/small-llama-to-read", argv[1]);
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.model_dim = 32, config.layers = 2;
    config.position.kind = GYRE_KIND_ROPE;
    gyre_model *model = NULL;
    check(gyre_model_create(&model, &config, 1, &err));
    check(gyre_model_save(model, folder, GYRE_DTYPE_F32, &err));

    /* [gyre_tokenizer_open gyre_tokenizer_free] */
    gyre_tokenizer *tokenizer = NULL;
    check(gyre_tokenizer_open(&tokenizer, folder, &err)); /* a model folder, a tokenizer.json or a GGUF */
    describe(tokenizer);
    gyre_tokenizer_free(tokenizer);
    /* [end] */

    /* [gyre_tokenizer_create_bytes gyre_tokenize] */
    static const char prompt[] = "To be, or not";
    gyre_text text;
    check(gyre_tokenizer_create_bytes(&tokenizer, &err)); /* for models made here */
    check(gyre_tokenize(tokenizer, prompt, strlen(prompt), GYRE_TOKENIZE_BEGIN, &text, &err));
    expect(text.count == 13 && text.ids[0] == 'T'); /* bytes have no begin token */
    /* [end] */

    gyre_context *context = begin(model, 64);
    read_tokens(context, text.ids, text.count);
    embed(model, context, text.ids, text.count);
    watch(model, context, text.ids, 64);
    generate(context, tokenizer, text.ids, text.count);
    gyre_context_reset(context);
    stream(context);
    gyre_text_free(&text);
    gyre_tokenizer_free(tokenizer);

    /* [gyre_context_free] */
    gyre_context_free(context);
    gyre_model_free(model); /* after the contexts that borrow it */
    /* [end] */
    return 0;
}

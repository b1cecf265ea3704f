/* measure_model.c: texts, perplexity, passkeys, copying, and a model converted to a GGUF.  The model has random weights.
 *   measure_model FOLDER */
#include "example.h"
#include <gyre/gyre_research.h>

enum { VOCAB = 256, CONTEXT = 64 };

static void write_file(const char *path, const char *content, int times) {
    FILE *file = fopen(path, "w");
    expect(file != NULL);
    for (int i = 0; i < times; i++)
        fputs(content, file);
    expect(fclose(file) == 0);
}

/* Mean negative log-likelihood of the CONTEXT tokens after the first. */
static double nats_by_hand(const gyre_model *model, const int32_t *ids) {
    static float logits[CONTEXT][VOCAB];
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = CONTEXT;
    gyre_context *context = NULL;
    check(gyre_context_create(&context, model, &options, &err));
    check(gyre_context_forward(context, ids, CONTEXT, CONTEXT, &logits[0][0], &err));
    gyre_context_free(context);
    double nats = 0;
    for (int t = 0; t < CONTEXT; t++) {
        double sum = 0;
        for (int w = 0; w < VOCAB; w++)
            sum += exp((double)logits[t][w]);
        nats += (log(sum) - (double)logits[t][ids[t + 1]]) / CONTEXT;
    }
    return nats;
}

static void measure(const gyre_model *model, const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/text.txt", folder);
    write_file(path, "All the world's a stage, and all the men and women merely players. ", 20);

    /* [gyre_text_open] */
    const char *const paths[] = {path}; /* files and folders */
    gyre_text text;
    check(gyre_text_open(&text, paths, 1, GYRE_TEXT_SPLIT_ALL, CONTEXT + 1, &err));
    expect(text.count == 20 * 67 && text.ids[0] == 'A'); /* bytes */
    /* [end] */

    /* [gyre_evaluate] */
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    options.context = CONTEXT;
    options.protocol = GYRE_EVAL_PROTOCOL_TRUNCATE;
    options.windows = 1; /* 0 = as many as fit */
    gyre_eval_result result;
    check(gyre_evaluate(model, &text, &options, &result, NULL, &err));
    printf("perplexity %.1f\n", exp(result.nats));
    /* [end] */
    expect(result.windows == 1 && result.scored == CONTEXT);
    expect(near(result.nats, nats_by_hand(model, text.ids), 1e-5));

    /* [gyre_passkey] */
    gyre_passkey_options hidden = GYRE_INIT(gyre_passkey_options);
    hidden.context = 192;
    hidden.trials = 16;
    hidden.seed = 1;
    gyre_passkey_result found;
    check(gyre_passkey(model, &text, &hidden, &found, NULL, &err));
    printf("%d of %d passkeys\n", (int)found.right, (int)found.trials); /* a model that was not trained finds none */
    /* [end] */
    expect(found.trials >= 16 && found.right == 0);

    /* [gyre_passkey_window] */
    int32_t window[192];
    unsigned char asked[192];
    uint64_t state = 1;
    int digits = 0;
    gyre_passkey_window(&text, 4, 192, &state, window, asked); /* to train on, say */
    for (int i = 0; i < 192; i++)
        digits += asked[i] && window[i] >= '0' && window[i] <= '9';
    expect(digits == 4 * 4); /* four digits of each of four keys */
    /* [end] */

    /* [gyre_copying] */
    hidden.keys = 4; /* segments in a window */
    gyre_passkey_result copied;
    check(gyre_copying(model, &text, &hidden, &copied, NULL, &err));
    printf("%d of %d bytes copied\n", (int)copied.right, (int)copied.trials); /* 16 segments, six bytes of each */
    /* [end] */
    expect(copied.trials == 16 * 6 && copied.right < 16 * 6 / 4);

    /* [gyre_copying_window] */
    int32_t repeated[192];
    unsigned char wanted[192];
    int bytes = 0;
    gyre_copying_window(&text, 4, 192, &state, repeated, wanted); /* to train on, say */
    for (int i = 0; i < 192; i++)
        bytes += wanted[i];
    expect(bytes == 4 * (GYRE_COPYING_LENGTH - GYRE_COPYING_GIVEN));
    /* [end] */

    /* [gyre_text_free] */
    gyre_text_free(&text);
    expect(text.ids == NULL && text.count == 0);
    /* [end] */
}

static void read_texts(const char *folder) {
    char story[4096], numbers[4096];
    snprintf(story, sizeof story, "%s/story.txt", folder);
    snprintf(numbers, sizeof numbers, "%s/ids.txt", folder);
    write_file(story, "Once upon a time", 1);
    write_file(numbers, "1, 22, 3\n", 1);
    gyre_tokenizer *tokenizer = NULL;
    check(gyre_tokenizer_create_bytes(&tokenizer, &err));
    gyre_text text;

    /* [gyre_text_tokenize] */
    const char *const paths[] = {story};
    check(gyre_text_tokenize(&text, tokenizer, paths, 1, 2, &err)); /* at least 2 tokens */
    expect(text.count == 16 && text.ids[0] == 'O');
    /* [end] */
    gyre_text_free(&text);

    /* [gyre_text_open_ids] */
    check(gyre_text_open_ids(&text, numbers, VOCAB, 3, &err)); /* "1, 22, 3": ids of any tokenizer */
    expect(text.count == 3 && text.ids[1] == 22);
    /* [end] */
    gyre_text_free(&text);
    gyre_tokenizer_free(tokenizer);
}

static void convert(const gyre_model *model, const char *folder) {
    char source[4096], target[4096];
    snprintf(source, sizeof source, "%s/small-llama-to-convert", folder);
    snprintf(target, sizeof target, "%s/small-llama.gguf", folder);
    check(gyre_model_save(model, source, GYRE_DTYPE_F32, &err));

    /* [gyre_convert] */
    gyre_convert_options options = GYRE_INIT(gyre_convert_options);
    options.format = GYRE_MODEL_FORMAT_GGUF;
    const gyre_dtype dtype = GYRE_DTYPE_F16;
    options.dtype = &dtype;                              /* NULL = matrices keep theirs */
    check(gyre_convert(source, target, &options, &err)); /* also permutes rows of query and key to interleaved pairs */
    /* [end] */

    gyre_model *converted = NULL;
    check(gyre_model_open(&converted, target, NULL, &err));
    static const int32_t ids[CONTEXT + 1] = {'h', 'e', 'l', 'l', 'o'};
    expect(near(nats_by_hand(converted, ids), nats_by_hand(model, ids), 1e-2));
    gyre_model_free(converted);
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: measure_model FOLDER\n"), 2;
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.model_dim = 32, config.layers = 2;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = CONTEXT;
    gyre_model *model = NULL;
    check(gyre_model_create(&model, &config, 1, &err));
    measure(model, argv[1]);
    read_texts(argv[1]);
    convert(model, argv[1]);
    gyre_model_free(model);
    return 0;
}

/* gyre_judge.c: tokens and logits of Gyre on standard output, for the tests in Python.
 *
 *     gyre_judge ids TOKENIZER FLAGS       text on standard input -> ids, one line of them for each text
 *     gyre_judge text TOKENIZER FLAGS      ids -> text
 *     gyre_judge notes TOKENIZER 0         what the file asks for and Gyre does otherwise
 *     gyre_judge logits MODEL CUT ID...    floats [ids, vocab]; CUT tokens are read at a time, 0 = all at once
 *
 * The logits' positions are those of a context as long as the ids.  A text is its number of bytes in a line, then the bytes.
 * Ids to be read are their count, then the ids.  FLAGS: of gyre_tokenize. */
#include "gyre/gyre_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const gyre_error *error) {
    fprintf(stderr, "%s\n", error->text);
    return 1;
}

static int print_ids(const gyre_tokenizer *tokenizer, unsigned flags) {
    size_t bytes;
    while (scanf("%zu", &bytes) == 1) {
        gyre_error error = {0};
        int32_t *ids;
        int64_t count;
        char *text = malloc(bytes + 1);
        if (!text || getchar() != '\n' || fread(text, 1, bytes, stdin) != bytes) return 2;
        if (gyre_tokenize(tokenizer, text, bytes, flags, &ids, &count, &error) != GYRE_OK) return failed(&error);
        for (int64_t i = 0; i < count; i++)
            printf(i + 1 < count ? "%d " : "%d", ids[i]);
        putchar('\n');
        free(ids);
        free(text);
    }
    return 0;
}

static int print_texts(const gyre_tokenizer *tokenizer, unsigned flags) {
    int count;
    while (scanf("%d", &count) == 1) {
        gyre_error error = {0};
        char *text;
        size_t bytes;
        int32_t *ids = malloc(((size_t)count + 1) * sizeof *ids);
        if (!ids) return 2;
        for (int i = 0; i < count; i++)
            if (scanf("%d", &ids[i]) != 1) return 2;
        if (gyre_detokenize(tokenizer, ids, count, flags, &text, &bytes, &error) != GYRE_OK) return failed(&error);
        printf("%zu\n", bytes);
        fwrite(text, 1, bytes, stdout);
        free(text);
        free(ids);
    }
    return 0;
}

static int print_logits(const char *path, int64_t cut, const int32_t *ids, int64_t count) {
    gyre_error error = {0};
    gyre_model *model;
    gyre_context *context;
    if (gyre_model_open_as(&model, path, GYRE_PROFILE_HF_5, count, &error) != GYRE_OK) return failed(&error);
    const int64_t vocab = gyre_model_get_config(model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = count;
    if (gyre_context_create(&context, model, &options, &error) != GYRE_OK) return failed(&error);
    float *logits = malloc((size_t)(count * vocab) * sizeof *logits);
    if (!logits) return 2;
    if (cut <= 0) cut = count;
    for (int64_t i = 0; i < count; i += cut) {
        const int64_t n = cut < count - i ? cut : count - i;
        if (gyre_context_forward(context, ids + i, n, n, logits + i * vocab, &error) != GYRE_OK) return failed(&error);
    }
    fwrite(logits, sizeof *logits, (size_t)(count * vocab), stdout);
    free(logits);
    gyre_context_free(context);
    gyre_model_free(model);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    if (strcmp(argv[1], "logits") == 0) {
        static int32_t ids[4096];
        for (int i = 4; i < argc && i < 4100; i++)
            ids[i - 4] = atoi(argv[i]);
        return print_logits(argv[2], atoi(argv[3]), ids, argc - 4);
    }
    gyre_error error = {0};
    gyre_tokenizer *tokenizer;
    if (gyre_tokenizer_open(&tokenizer, argv[2], &error) != GYRE_OK) return failed(&error);
    const unsigned flags = (unsigned)atoi(argv[3]);
    if (strcmp(argv[1], "notes") == 0) return puts(gyre_tokenizer_get_info(tokenizer).notes) < 0;
    const int status = strcmp(argv[1], "ids") == 0 ? print_ids(tokenizer, flags) : print_texts(tokenizer, flags);
    gyre_tokenizer_free(tokenizer);
    return status;
}

/* fuzz_model_laws.c: cuts, threads, caches and faults of a model that opens. */
#include "fuzz_model_laws.h"
#include "gyre/gyre_research.h"

#include "fuzz_support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gyre_pool *pool;

void fuzz_one_line(gyre_status status, const gyre_error *err) {
    fuzz_require_error(status, err);
    if (status) fuzz_require(strchr(err->text, '\n') == NULL && err->text[strlen(err->text) - 1] != ' ', "one line");
}

/* -- files -- */
void fuzz_model_remove(const char *name) {
    static const char *const files[] = {"config.json",           "model.safetensors",     "tokenizer.json",
                                        "tokenizer_config.json", "optimizer.safetensors", "training.json"};
    char path[160];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", name, files[i]);
        (void)unlink(fuzz_path(path));
    }
    (void)rmdir(fuzz_path(name));
    (void)unlink(fuzz_path(name));
}

void fuzz_holds_only(const char *list) {
    DIR *folder = opendir(fuzz_path(""));
    fuzz_require(folder != NULL, "the folder can be read");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *at = strstr(list, entry->d_name);
        const size_t length = strlen(entry->d_name);
        const int known = at && (at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0');
        if (!known && *entry->d_name != '.') fprintf(stderr, "left behind: %s\n", entry->d_name);
        fuzz_require(known || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0, "nothing is left behind");
    }
    closedir(folder);
}

/* -- opening -- */
gyre_status fuzz_model_open(gyre_model **out, const char *path) {
    gyre_weight_faults *faults = NULL;
    gyre_error err = {0, ""}, why = {0, ""};
    *out = NULL;
    const gyre_status status = gyre_model_open(out, path, NULL, &err);
    const gyre_status listed = gyre_weight_faults_open(&faults, path, NULL, 3, &why);
    fuzz_one_line(status, &err);
    fuzz_one_line(listed, &why);
    fuzz_require((!status) == (*out != NULL), "a failure leaves no model");
    fuzz_require((!listed) == (faults != NULL), "a failure leaves no faults");
    if (!faults) {
        fuzz_require(status, "what opens can be looked through");
        return status;
    }
    const int sound = faults->in_all == 0 && !faults->unchecked;
    if (sound != (!status)) fprintf(stderr, "%s\n%s\n%s\n", path, err.text, faults->why);
    fuzz_require(sound == (!status), "a model opens if and only if it has no faults");
    fuzz_require(faults->count == (faults->in_all < 3 ? faults->in_all : 3), "as many texts as faults, at most 3");
    for (int64_t i = 0; i < faults->count; i++)
        fuzz_require(faults->texts[i][0] != '\0' && strchr(faults->texts[i], '\n') == NULL, "a fault is one line");
    if (*out) {
        fuzz_require(faults->parameters == gyre_model_parameters(*out), "parameters");
        fuzz_require(faults->vocab == gyre_model_get_config(*out)->vocab, "vocabulary");
    }
    gyre_weight_faults_free(faults);
    return status;
}

/* -- reading -- */
static gyre_context *begin(const gyre_model *model, int threads, gyre_dtype cache, int64_t room, gyre_exec *exec) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "a pool");
    *exec = gyre_pool_exec(pool);
    options.max_tokens = room;
    options.cache_dtype = cache;
    options.order = GYRE_ORDER_FIXED;
    options.exec = threads > 1 ? exec : NULL;
    fuzz_require(!gyre_context_create(&context, model, &options, &err), err.text);
    return context;
}

/* Reads ids[from .. from + n - 1], whose logits must be those of `want`. */
static void read_part(gyre_context *context, const int32_t *ids, int64_t from, int64_t n, int64_t vocab, const float *want) {
    float *logits = fuzz_room((size_t)(n * vocab), sizeof *logits);
    gyre_error err = {0, ""};
    fuzz_require(!gyre_context_forward(context, ids + from, n, n, logits, &err), err.text);
    fuzz_require(gyre_context_tokens(context) == from + n, "tokens are counted");
    fuzz_require(memcmp(want + from * vocab, logits, (size_t)(n * vocab) * sizeof *logits) == 0,
                 "logits have the same bits however the text is cut, on any number of threads");
    free(logits);
}

/* A refused read changes nothing. */
static void refuse(gyre_context *context, int64_t vocab) {
    const int64_t before = gyre_context_tokens(context);
    const int32_t wrong[2] = {0, (int32_t)vocab};
    float logits[1];
    gyre_error err = {0, ""};
    gyre_status status = gyre_context_forward(context, wrong, 2, 0, NULL, &err);
    fuzz_require(status == GYRE_EINVAL, "a token outside the vocabulary is refused");
    fuzz_one_line(status, &err);
    fuzz_require(gyre_context_forward(context, wrong, 1, 2, logits, &err) == GYRE_EINVAL, "more logits than tokens");
    fuzz_require(gyre_context_forward(context, wrong, 1, 1, NULL, &err) == GYRE_EINVAL, "nowhere to write to");
    fuzz_require(gyre_context_truncate(context, before + 1) == GYRE_EINVAL, "more tokens than were read");
    fuzz_require(gyre_context_tokens(context) == before, "a refused read changes nothing");
}

static void read_cut(const gyre_model *model, const int32_t *ids, int64_t n, gyre_dtype cache, fuzz_bytes *b,
                     const float *want) {
    const int64_t vocab = gyre_model_get_config(model)->vocab;
    gyre_exec exec;
    gyre_context *context = begin(model, 2, cache, n + fuzz_choice(b, 40), &exec);
    for (int64_t from = 0; from < n;) {
        const int64_t some = b->left ? 1 + fuzz_choice(b, (int)(n - from)) : n - from;
        read_part(context, ids, from, some, vocab, want);
        from += some;
        if (b->left && fuzz_choice(b, 4) == 1) refuse(context, vocab);
        if (!b->left || fuzz_choice(b, 4) != 1) continue;
        from = fuzz_choice(b, (int)from);
        fuzz_require(!gyre_context_truncate(context, from), "what was read can be dropped");
    }
    gyre_context_reset(context);
    for (int64_t i = 0; i < n; i++)
        read_part(context, ids, i, 1, vocab, want);
    gyre_context_free(context);
}

static void watch(const gyre_model *model, const int32_t *ids, int64_t n, fuzz_bytes *b) {
    const gyre_model_config *c = gyre_model_get_config(model);
    gyre_exec exec;
    gyre_error err = {0, ""};
    gyre_context *context = begin(model, 1, GYRE_DTYPE_F32, n, &exec);
    float *weights = fuzz_room((size_t)(n * c->heads * n), sizeof *weights);
    const gyre_status status = gyre_context_watch(context, fuzz_choice(b, (int)c->layers), weights, &err);
    fuzz_one_line(status, &err);
    if (!status) {
        fuzz_require(!gyre_context_forward(context, ids, n, 0, NULL, &err), err.text);
        for (int64_t t = 0; t < n; t++)
            for (int64_t h = 0; h < c->heads; h++) {
                double sum = 0;
                for (int64_t k = 0; k <= t; k++)
                    sum += (double)weights[(t * c->heads + h) * n + k];
                fuzz_require(isnan(sum) || fabs(sum - 1) < 1e-5, "the weights of a token sum to 1");
            }
    }
    free(weights);
    gyre_context_free(context);
}

/* Within its window a context that streams reads as any other. */
static void stream(const gyre_model *model, const int32_t *ids, int64_t n, const float *want) {
    gyre_exec exec;
    gyre_error err = {0, ""};
    gyre_context *context = begin(model, 1, GYRE_DTYPE_F32, n + 4, &exec);
    const gyre_status status = gyre_context_stream(context, 1, n + 4, &err);
    fuzz_one_line(status, &err);
    if (!status) read_part(context, ids, 0, n, gyre_model_get_config(model)->vocab, want);
    gyre_context_free(context);
}

int fuzz_model_read(const gyre_model *model, const int32_t *ids, int64_t n, fuzz_bytes *b, float *logits) {
    static const gyre_dtype caches[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    const gyre_model_config *c = gyre_model_get_config(model);
    gyre_exec exec;
    gyre_error err = {0, ""};
    gyre_context *context = begin(model, 1, GYRE_DTYPE_F32, n, &exec);
    const gyre_status status = gyre_context_forward(context, ids, n, n, logits, &err);
    gyre_context_free(context);
    fuzz_one_line(status, &err);
    if (status) return 0;
    if (gyre_encoding_get_config(gyre_model_get_encoding(model))->length_policy == GYRE_LENGTH_POLICY_PREFIX) return 1;
    gyre_dtype cache = caches[fuzz_choice(b, 4)];
    if (cache == GYRE_DTYPE_Q8 && c->head_dim % 8 != 0) cache = GYRE_DTYPE_F16;
    read_cut(model, ids, n, GYRE_DTYPE_F32, b, logits);
    if (cache != GYRE_DTYPE_F32) {
        float *other = fuzz_room((size_t)(n * c->vocab), sizeof *other);
        context = begin(model, 1, cache, n, &exec);
        const gyre_status narrow = gyre_context_forward(context, ids, n, n, other, &err);
        gyre_context_free(context);
        fuzz_require(!narrow || narrow == GYRE_EFORMAT, err.text); /* numbers that F32 holds may overflow in the cache */
        if (!narrow) read_cut(model, ids, n, cache, b, other);
        free(other);
    }
    watch(model, ids, n, b);
    stream(model, ids, n, logits);
    return 1;
}

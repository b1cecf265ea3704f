/* architecture_gguf.c: what the decoder of a GGUF computes, by the keys that llama.cpp's loaders read. */
#include "model/architecture/architecture_names.h"

#include "core/encoding.h"
#include "files/shown.h"
#include "reading/gguf/gguf_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZE = INT32_MAX / 4, MOST_LAYERS = 1 << 16 };

static int is_ok(const gyre_gguf_source *s) {
    return gyre_build_status(s->build) == GYRE_OK;
}

static int64_t size_of(const gyre_gguf_source *s, const char *suffix, int64_t most, int64_t fallback) {
    const int64_t size = gyre_gguf_size(s, suffix, 1, fallback);
    if (size > most) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%lld is past %lld", (long long)size, (long long)most);
    return size;
}

/* The tokens are the vocabulary; a key may say it too. */
static int64_t vocab_of(const gyre_gguf_source *s) {
    const gyre_gguf_tensor *embedding = gyre_gguf_tensor_of(s->file, "token_embd.weight");
    if (embedding && embedding->rank == 2 && embedding->dims[1] <= MOST_SIZE && embedding->dims[1] > 0)
        return (int64_t)embedding->dims[1];
    gyre_gguf_fail(s, GYRE_EFORMAT, "vocab_size", "no tensor token_embd.weight of two dimensions tells it");
    return 1;
}

static void read_sizes(const gyre_gguf_source *s, gyre_architecture *a) {
    a->width = size_of(s, "embedding_length", MOST_SIZE, -1);
    a->layers = size_of(s, "block_count", MOST_LAYERS, -1);
    a->heads = size_of(s, "attention.head_count", MOST_SIZE, -1);
    a->hidden = size_of(s, "feed_forward_length", MOST_SIZE, -1);
    if (!is_ok(s)) return;
    a->vocab = vocab_of(s);
    a->kv_heads = size_of(s, "attention.head_count_kv", MOST_SIZE, a->heads);
    if (a->kv_heads > a->heads || a->heads % a->kv_heads != 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, "attention.head_count_kv", "%lld does not divide the %lld heads",
                       (long long)a->kv_heads, (long long)a->heads);
    const int64_t dim = a->width / a->heads > 0 ? a->width / a->heads : 1;
    a->head_dim = size_of(s, "attention.key_length", MOST_SIZE / a->heads, dim);
    if (size_of(s, "attention.value_length", MOST_SIZE, a->head_dim) != a->head_dim)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "attention.value_length", "values of another size than keys are not run");
}

static double number_above_0(const gyre_gguf_source *s, const char *suffix, double fallback) {
    const double x = gyre_gguf_real(s, suffix, fallback);
    if (is_ok(s) && !(x > 0.0)) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%g is not above 0", x);
    return x;
}

static void read_rest(const gyre_gguf_source *s, const gyre_family_row *row, gyre_architecture *a) {
    const char *epsilon = a->norm == GYRE_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    a->norm_epsilon = gyre_gguf_real(s, epsilon, NAN);
    if (is_ok(s) && !(a->norm_epsilon > 0.0)) gyre_gguf_fail(s, GYRE_EFORMAT, epsilon, "missing, or not above 0");
    if (row->traits & GYRE_SCALED_EMBEDDING) a->embed_scale = sqrt((double)a->width);
    if (row->traits & GYRE_SOFTCAPS) {
        a->score_cap = number_above_0(s, "attn_logit_softcapping", 50);
        a->logit_cap = number_above_0(s, "final_logit_softcapping", 30);
    }
    if (strcmp(row->type, "gemma3") == 0 && gyre_gguf_key(s, "final_logit_softcapping"))
        a->logit_cap = number_above_0(s, "final_logit_softcapping", 30);
    if (row->traits & GYRE_PARALLEL_FLAG) a->parallel = gyre_gguf_flag(s, "use_parallel_residual", 1);
    if (row->traits & GYRE_MPT_KEYS && gyre_gguf_key(s, "attention.clamp_kqv"))
        a->clip_qkv = gyre_gguf_real(s, "attention.clamp_kqv", 0);
    if (gyre_gguf_size(s, "expert_count", 0, 0) > 0)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "expert_count", "a mixture of experts is not run");
}

static gyre_status of_named(gyre_architecture *out, const gyre_gguf *file, const char *name, const char *path,
                            gyre_error *err) {
    const gyre_family_row *row = gyre_family_row_of_gguf(name);
    if (!row)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "general.architecture: \"%.60s\" is not run, but these are: %s (%s)",
                         gyre_show(name, strlen(name)).text, gyre_family_list(1), path);
    gyre_architecture a;
    gyre_build *build = gyre_build_begin(path, "GGUF", GYRE_AS_LLAMA_CPP, 0, err);
    if (!build) return GYRE_ENOMEM;
    gyre_gguf_source s = {.build = build, .file = file};
    snprintf(s.name, sizeof s.name, "%s", name);
    gyre_architecture_from_row(&a, row);
    a.more_biases = 1; /* no key tells of them: the engine takes those that are there */
    read_sizes(&s, &a);
    if (is_ok(&s)) read_rest(&s, row, &a);
    /* One whose head is left out has it from the embedding. */
    a.tied = gyre_gguf_tensor_of(file, "output.weight") == NULL;
    const gyre_status status = gyre_build_status(build);
    if (status == GYRE_OK) *out = a;
    gyre_build_discard(build);
    return status;
}

gyre_status gyre_architecture_of_gguf(gyre_architecture *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    char name[64];
    const gyre_gguf_pair *pair = gyre_gguf_find(file, "general.architecture");
    if (!pair || pair->value.type != GYRE_GGUF_STRING || pair->value.count >= sizeof name)
        return gyre_fail(err, GYRE_EFORMAT, "general.architecture: missing, or no name (%s)", path);
    snprintf(name, sizeof name, "%.*s", (int)pair->value.count, (const char *)pair->value.data);
    return of_named(out, file, name, path, err);
}

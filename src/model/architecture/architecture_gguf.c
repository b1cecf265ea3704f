/* architecture_gguf.c: the architecture that a GGUF describes, by the keys that llama.cpp's loaders read. */
#include "gyre/gyre_fields.h"
#include "model/architecture/architecture_families.h"
#include "model/architecture/mixture_config.h"

#include "files/printable_name.h"
#include "reading/gguf/gguf_source.h"
#include "util/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIM = INT32_MAX / 4, MAX_LAYERS = 1 << 16 };

static int is_ok(const gyre_gguf_source *s) {
    return !gyre_build_status(s->build);
}

static int64_t read_dim(const gyre_gguf_source *s, const char *suffix, int64_t max, int64_t fallback) {
    const int64_t size = gyre_gguf_read_size(s, suffix, 1, fallback);
    if (size > max) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%lld is past %lld", (long long)size, (long long)max);
    return size;
}

/* The vocabulary is the number of rows of the embedding.  A key may give it too, and is not read. */
static int64_t read_vocab(const gyre_gguf_source *s) {
    const gyre_gguf_tensor *embedding = gyre_gguf_find_tensor(s->file, "token_embd.weight");
    if (embedding && embedding->rank == 2 && embedding->dims[1] <= MAX_DIM && embedding->dims[1] > 0)
        return (int64_t)embedding->dims[1];
    gyre_gguf_fail(s, GYRE_EFORMAT, "vocab_size", "missing, and there is no two-dimensional tensor token_embd.weight");
    return 1;
}

/* Of two keys for a size of heads, the first counts if it is there: the other is then that of the latent. */
static int64_t read_head_size(const gyre_gguf_source *s, const char *suffix, const char *other, int64_t max) {
    return read_dim(s, gyre_gguf_find_arch_key(s, suffix) ? suffix : other, max, -1);
}

/* Keys and values have the latent's size in newer files, whose count of key heads is 1. */
static void read_latents(const gyre_gguf_source *s, gyre_architecture *a) {
    const int64_t max = MAX_DIM / (2 * a->heads), turning = read_dim(s, "rope.dimension_count", max, -1);
    a->head_dim = read_head_size(s, "attention.key_length_mla", "attention.key_length", max);
    a->value_dim = read_head_size(s, "attention.value_length_mla", "attention.value_length", max);
    a->latents.kv = read_dim(s, "attention.kv_lora_rank", MAX_DIM / 2, -1);
    if (gyre_gguf_find_arch_key(s, "attention.q_lora_rank"))
        a->latents.query = read_dim(s, "attention.q_lora_rank", MAX_DIM, -1);
    a->latents.still = a->head_dim - turning;
    a->latents.epsilon = a->norm_epsilon;
    a->kv_heads = a->heads;
    if (is_ok(s) && a->latents.still < 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, "rope.dimension_count", "%lld channels of heads of %lld", (long long)turning,
                       (long long)a->head_dim);
}

static void read_head_sizes(const gyre_gguf_source *s, gyre_architecture *a) {
    const int64_t dim = a->model_dim / a->heads > 0 ? a->model_dim / a->heads : 1;
    a->head_dim = read_dim(s, "attention.key_length", MAX_DIM / a->heads, dim);
    if (read_dim(s, "attention.value_length", MAX_DIM, a->head_dim) != a->head_dim)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "attention.value_length", "values of another size than keys are not run");
    a->value_dim = a->head_dim;
}

static void read_sizes(const gyre_gguf_source *s, gyre_architecture *a) {
    a->model_dim = read_dim(s, "embedding_length", MAX_DIM, -1);
    a->layers = read_dim(s, "block_count", MAX_LAYERS, -1);
    a->heads = read_dim(s, "attention.head_count", MAX_DIM, -1);
    a->mlp_dim = read_dim(s, "feed_forward_length", MAX_DIM, -1);
    if (!is_ok(s)) return;
    a->extra_layers = gyre_gguf_read_size(s, "nextn_predict_layers", 0, 0);
    a->layers -= a->extra_layers;
    if (a->layers < 1) gyre_gguf_fail(s, GYRE_EFORMAT, "nextn_predict_layers", "all layers are of multi-token prediction");
    a->vocab = read_vocab(s);
    a->kv_heads = read_dim(s, "attention.head_count_kv", MAX_DIM, a->heads);
    if (a->kv_heads > a->heads || a->heads % a->kv_heads != 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, "attention.head_count_kv", "%lld does not divide the %lld heads",
                       (long long)a->kv_heads, (long long)a->heads);
}

static double read_positive_number(const gyre_gguf_source *s, const char *suffix, double fallback) {
    const double x = gyre_gguf_read_real(s, suffix, fallback);
    if (is_ok(s) && !(x > 0.0)) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%g is not above 0", x);
    return x;
}

static void read_options(const gyre_gguf_source *s, const gyre_family_row *row, gyre_architecture *a) {
    const char *epsilon = a->norm == GYRE_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    a->norm_epsilon = gyre_gguf_read_real(s, epsilon, NAN);
    if (is_ok(s) && !(a->norm_epsilon > 0.0)) gyre_gguf_fail(s, GYRE_EFORMAT, epsilon, "missing, or not above 0");
    if (row->traits & GYRE_TRAIT_LATENTS)
        read_latents(s, a);
    else
        read_head_sizes(s, a);
    if (row->traits & GYRE_TRAIT_SCALED_EMBEDDING) a->embed_scale = sqrt((double)a->model_dim);
    if (row->traits & GYRE_TRAIT_SOFTCAPS) {
        a->attn_softcap = read_positive_number(s, "attn_logit_softcapping", 50);
        a->logit_softcap = read_positive_number(s, "final_logit_softcapping", 30);
    }
    if (strcmp(row->type, "gemma3") == 0 && gyre_gguf_find_arch_key(s, "final_logit_softcapping"))
        a->logit_softcap = read_positive_number(s, "final_logit_softcapping", 30);
    if (row->traits & GYRE_TRAIT_PARALLEL_FLAG) a->parallel_residual = gyre_gguf_read_flag(s, "use_parallel_residual", 1);
    if (row->traits & GYRE_TRAIT_MPT_KEYS && gyre_gguf_find_arch_key(s, "attention.clamp_kqv"))
        a->clip_qkv = gyre_gguf_read_real(s, "attention.clamp_kqv", 0);
    if (row->traits & GYRE_TRAIT_QK_NORM_FLAG && gyre_gguf_find_tensor(s->file, "blk.0.attn_q_norm.weight"))
        a->qk_norm = GYRE_HEAD_NORMS_EACH; /* no key says so */
    gyre_mixture_from_gguf(s, a);
}

static gyre_status read_architecture(gyre_architecture *out, const gyre_gguf *file, const char *name, const char *path,
                                     gyre_error *err) {
    const gyre_family_row *row = gyre_family_row_of_gguf(name);
    if (!row)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "general.architecture: \"%.60s\" " GYRE_FAMILY_NOT_RUN " (%s)",
                         gyre_make_printable(name, strlen(name)).text, path);
    gyre_architecture a;
    gyre_build *build = gyre_build_begin(path, "GGUF", GYRE_PROFILE_LLAMA_CPP, 0, err);
    if (!build) return GYRE_ENOMEM;
    gyre_gguf_source s = {.build = build, .file = file};
    snprintf(s.name, sizeof s.name, "%s", name);
    gyre_architecture_from_row(&a, row);
    a.optional_biases = 1; /* no key says so: llama.cpp uses the biases that it finds */
    read_sizes(&s, &a);
    if (is_ok(&s)) read_options(&s, row, &a);
    /* Without an output matrix, the embedding is used. */
    a.tied = gyre_gguf_find_tensor(file, "output.weight") == NULL;
    const gyre_status status = gyre_build_status(build);
    if (!status) *out = a;
    gyre_build_discard(build);
    return status;
}

gyre_status gyre_architecture_from_gguf(gyre_architecture *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    char name[64];
    const gyre_gguf_kv *pair = gyre_gguf_find_key(file, "general.architecture");
    if (!pair || pair->value.type != GYRE_GGUF_STRING || pair->value.count >= sizeof name)
        return gyre_fail(err, GYRE_EFORMAT, "general.architecture: missing, or not a name (%s)", path);
    snprintf(name, sizeof name, "%.*s", (int)pair->value.count, (const char *)pair->value.data);
    return read_architecture(out, file, name, path, err);
}

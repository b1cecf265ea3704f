/* shard_model.c: the sizes of a decoder, from its config.json. */
#include "tools/shard/shard.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <sys/stat.h>

enum { MAX_CONFIG_MIB = 64 }; /* as readings of positions have it (src/reading/config_document.c) */

/* A value under one of two names; 0 = neither is there; -1 = no size. */
static int64_t size_of(const json_t *config, const char *name, const char *other) {
    const json_t *value = json_object_get(config, name);
    if (!json_is_integer(value) && other) value = json_object_get(config, other);
    if (!json_is_integer(value)) return 0;
    const json_int_t size = json_integer_value(value);
    return size < 0 || size > INT32_MAX ? -1 : (int64_t)size;
}

/* Families whose MLP has two matrices in place of three. */
static int64_t mlp_matrices_of(const char *family) {
    static const char *const plain[] = {"gpt2", "gpt_neox", "gptj",    "bloom", "opt",
                                        "mpt",  "falcon",   "codegen", "phi",   "starcoder2"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(family, plain[i]) == 0) return 2;
    return 3;
}

static gyre_status check_sizes(const shard_model *m, const char *path, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"num_hidden_layers", m->layers},  {"hidden_size", m->width},
                 {"num_attention_heads", m->heads}, {"num_key_value_heads", m->kv_heads},
                 {"head_dim", m->head_dim},         {"intermediate_size", m->mlp},
                 {"vocab_size", m->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
            return gyre_fail(err, GYRE_EFORMAT, "%s: missing, or no size (%s)", sizes[i].name, path);
    if (m->heads % m->kv_heads)
        return gyre_fail(err, GYRE_EFORMAT, "num_key_value_heads: %lld do not divide %lld heads (%s)",
                         (long long)m->kv_heads, (long long)m->heads, path);
    return GYRE_OK;
}

static void count_weights(shard_model *m) {
    const double width = (double)m->width, layers = (double)m->layers;
    const double attention = 2 * width * (double)((m->heads + m->kv_heads) * m->head_dim);
    const double mlp = (double)(m->mlp_matrices * m->mlp) * width;
    const double embedding = (double)m->vocab * width;
    m->weights = layers * (attention + (double)m->experts * mlp) + embedding * (m->tied ? 1 : 2);
    m->active_weights = layers * (attention + (double)m->active_experts * mlp) + embedding;
}

static gyre_status read_sizes(const json_t *config, const char *path, shard_model *m, gyre_error *err) {
    static const char *const other_sizes[] = {"kv_lora_rank", "n_routed_experts", "num_experts", NULL};
    for (const char *const *key = other_sizes; *key; key++)
        if (json_is_integer(json_object_get(config, *key)))
            return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: keys, values or experts of this kind are not counted (%s)", *key,
                             path);
    const char *family = json_string_value(json_object_get(config, "model_type"));
    snprintf(m->family, sizeof m->family, "%s", family ? family : "unknown");
    m->layers = size_of(config, "num_hidden_layers", "n_layer");
    m->width = size_of(config, "hidden_size", "n_embd");
    m->heads = size_of(config, "num_attention_heads", "n_head");
    m->kv_heads = size_of(config, "num_key_value_heads", NULL);
    m->head_dim = size_of(config, "head_dim", NULL);
    m->mlp = size_of(config, "intermediate_size", "n_inner");
    m->vocab = size_of(config, "vocab_size", NULL);
    m->mlp_matrices = mlp_matrices_of(m->family);
    m->experts = size_of(config, "num_local_experts", NULL);
    m->active_experts = size_of(config, "num_experts_per_tok", NULL);
    m->tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    if (!m->kv_heads) m->kv_heads = m->heads;
    if (!m->head_dim && m->heads > 0) m->head_dim = m->width / m->heads;
    if (!m->mlp && m->width <= INT32_MAX / 4) m->mlp = 4 * m->width;
    if (m->experts < 1) m->experts = m->active_experts = 1;
    if (m->active_experts < 1 || m->active_experts > m->experts)
        return gyre_fail(err, GYRE_EFORMAT, "num_experts_per_tok: %lld of %lld (%s)", (long long)m->active_experts,
                         (long long)m->experts, path);
    const gyre_status status = check_sizes(m, path, err);
    if (!status) count_weights(m);
    return status;
}

gyre_status shard_model_read(const char *path, shard_model *out, gyre_error *err) {
    char file[4200];
    struct stat is;
    json_error_t why;
    *out = (shard_model){.layers = 0};
    const int folder = stat(path, &is) == 0 && S_ISDIR(is.st_mode);
    if (snprintf(file, sizeof file, folder ? "%s/" GYRE_CONFIG_FILE : "%s", path) >= (int)sizeof file)
        return gyre_fail(err, GYRE_EINVAL, "path: too long a name (%.200s...)", path);
    if (stat(file, &is) != 0) return gyre_fail(err, GYRE_EIO, "config.json: not found (%s)", file);
    if (!S_ISREG(is.st_mode)) return gyre_fail(err, GYRE_EIO, "config.json: not a regular file (%s)", file);
    if (is.st_size > (off_t)MAX_CONFIG_MIB << 20)
        return gyre_fail(err, GYRE_EFORMAT, "config.json: longer than %d MiB (%s)", MAX_CONFIG_MIB, file);
    json_t *config = json_load_file(file, 0, &why);
    if (!config)
        return gyre_fail(err, GYRE_EFORMAT, "config: not JSON; a plan reads a config.json: %.120s (%s)", why.text, file);
    const json_t *text = json_object_get(config, "text_config");
    const gyre_status status = read_sizes(json_is_object(text) ? text : config, file, out, err);
    json_decref(config);
    return status;
}

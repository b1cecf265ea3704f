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

/* What transformers 5 takes where a config leaves a size out, for families whose published configs do. */
static int64_t default_of(const char *family, const char *name) {
    static const struct {
        const char *family, *name;
        int64_t size;
    } sizes[] = {{"gemma3_text", "vocab_size", 262208},      {"gemma3_text", "num_attention_heads", 8},
                 {"gemma3_text", "num_key_value_heads", 4},  {"gemma3_text", "head_dim", 256},
                 {"llama4_text", "intermediate_size", 8192}, {"llama4_text", "intermediate_size_mlp", 16384},
                 {"llama4_text", "num_experts_per_tok", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(family, sizes[i].family) == 0 && strcmp(name, sizes[i].name) == 0) return sizes[i].size;
    return 0;
}

static int64_t size_or_default(const json_t *config, const char *family, const char *name, const char *other) {
    const int64_t size = size_of(config, name, other);
    return size != 0 ? size : default_of(family, name);
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
        int64_t value, least;
    } sizes[] = {{"num_hidden_layers", m->layers, 1},
                 {"hidden_size", m->width, 1},
                 {"num_attention_heads", m->heads, 1},
                 {"num_key_value_heads", m->kv_heads, 1},
                 {"head_dim", m->head_dim, 1},
                 {"v_head_dim", m->value_dim, 1},
                 {"intermediate_size", m->mlp, 1},
                 {"moe_intermediate_size", m->expert_mlp, 1},
                 {"shared_expert_intermediate_size", m->shared_mlp, 0},
                 {"first_k_dense_replace", m->dense_layers, 0},
                 {"kv_lora_rank", m->latent, 0},
                 {"q_lora_rank", m->query_latent, 0},
                 {"vocab_size", m->vocab, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > INT32_MAX)
            return gyre_fail(err, GYRE_EFORMAT, "%s: missing, or no size (%s)", sizes[i].name, path);
    if (m->heads % m->kv_heads)
        return gyre_fail(err, GYRE_EFORMAT, "num_key_value_heads: %lld do not divide %lld heads (%s)",
                         (long long)m->kv_heads, (long long)m->heads, path);
    if (m->dense_layers > m->layers)
        return gyre_fail(err, GYRE_EFORMAT, "first_k_dense_replace: %lld of %lld layers (%s)", (long long)m->dense_layers,
                         (long long)m->layers, path);
    if (m->active_experts < 1 || m->active_experts > m->experts)
        return gyre_fail(err, GYRE_EFORMAT, "num_experts_per_tok: %lld of %lld (%s)", (long long)m->active_experts,
                         (long long)m->experts, path);
    return GYRE_OK;
}

/* Of attention, one layer.  Latent: down and up again, as DeepSeek-V2 (arXiv 2405.04434) names the matrices. */
static double attention_weights(const shard_model *m) {
    const double width = (double)m->width, heads = (double)m->heads, keys = (double)m->head_dim,
                 values = (double)m->value_dim;
    if (!m->latent) return width * (heads * keys + (double)m->kv_heads * (keys + values) + heads * values);
    const double latent = (double)m->latent, shared = (double)m->latent_rope, query = (double)m->query_latent;
    const double queries = m->query_latent ? width * query + query * heads * keys : width * heads * keys;
    return queries + width * (latent + shared) + latent * heads * (keys - shared + values) + heads * values * width;
}

static void count_weights(shard_model *m) {
    const double width = (double)m->width, of_unit = (double)m->mlp_matrices * width;
    const double dense = (double)m->dense_layers, mixed = (double)m->layers - dense;
    const double router = m->experts > 1 ? width * (double)m->experts : 0, shared = (double)m->shared_mlp;
    const double expert = (double)m->expert_mlp, embedding = (double)m->vocab * width;
    const double every = (double)m->layers * attention_weights(m) + dense * of_unit * (double)m->mlp;
    m->weights = every + mixed * (of_unit * ((double)m->experts * expert + shared) + router) + embedding * (m->tied ? 1 : 2);
    m->active_weights = every + mixed * (of_unit * ((double)m->active_experts * expert + shared) + router) + embedding;
}

/* Llama 4: intermediate_size is that of an expert and of the one that all tokens share.  Every step-th layer is a mixture;
 * the others have an MLP of intermediate_size_mlp. */
static void read_llama4_experts(const json_t *config, shard_model *m) {
    const int64_t step = size_of(config, "interleave_moe_layer_step", NULL),
                  own = json_array_size(json_object_get(config, "moe_layers"));
    const int64_t mixed = own > 0 ? own : m->layers / (step > 1 ? step : 1);
    m->expert_mlp = m->shared_mlp = m->mlp;
    m->dense_layers = m->layers - mixed;
    m->mlp = size_or_default(config, m->family, "intermediate_size_mlp", NULL);
}

/* Experts under the names of Mixtral and gpt-oss, DeepSeek, or Qwen. */
static gyre_status read_experts(const json_t *config, const char *path, shard_model *m, gyre_error *err) {
    static const char *const steps[] = {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", NULL};
    const json_t *const but = json_object_get(config, "mlp_only_layers");
    for (const char *const *key = steps; *key && strcmp(m->family, "llama4_text") != 0; key++)
        if (size_of(config, *key, NULL) > 1)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: experts of some layers alone are not counted (%s)", *key, path);
    if (json_array_size(but) > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "mlp_only_layers: experts of some layers alone are not counted (%s)", path);
    m->experts = size_of(config, "n_routed_experts", "num_experts");
    if (m->experts < 1) m->experts = size_of(config, "num_local_experts", NULL);
    m->active_experts = size_or_default(config, m->family, "num_experts_per_tok", NULL);
    m->expert_mlp = size_of(config, "moe_intermediate_size", NULL);
    m->dense_layers = m->experts > 1 ? size_of(config, "first_k_dense_replace", NULL) : 0;
    if (!m->expert_mlp) m->expert_mlp = m->mlp;
    m->shared_mlp = size_of(config, "shared_expert_intermediate_size", NULL);
    if (!m->shared_mlp) m->shared_mlp = size_of(config, "n_shared_experts", NULL) * m->expert_mlp;
    if (strcmp(m->family, "llama4_text") == 0) read_llama4_experts(config, m);
    if (m->experts <= 1) m->experts = m->active_experts = 1, m->expert_mlp = m->mlp, m->shared_mlp = 0;
    return GYRE_OK;
}

static gyre_status read_sizes(const json_t *config, const char *path, shard_model *m, gyre_error *err) {
    const char *family = json_string_value(json_object_get(config, "model_type"));
    if (json_object_get(config, "adaptive"))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "adaptive: a network reads the scores of all heads, which a ring does not support (%s)", path);
    if (json_is_true(json_object_get(config, "contextual")))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "contextual: queries count positions over all keys, which a ring does not support (%s)", path);
    snprintf(m->family, sizeof m->family, "%s", family ? family : "unknown");
    m->layers = size_of(config, "num_hidden_layers", "n_layer");
    m->width = size_of(config, "hidden_size", "n_embd");
    m->heads = size_or_default(config, m->family, "num_attention_heads", "n_head");
    m->kv_heads = size_or_default(config, m->family, "num_key_value_heads", NULL);
    m->head_dim = size_or_default(config, m->family, "head_dim", NULL);
    m->latent = size_of(config, "kv_lora_rank", NULL);
    m->mlp = size_or_default(config, m->family, "intermediate_size", "n_inner");
    m->vocab = size_or_default(config, m->family, "vocab_size", NULL);
    m->mlp_matrices = mlp_matrices_of(m->family);
    const json_t *const tied = json_object_get(config, "tie_word_embeddings");
    m->tied = tied ? json_is_true(tied) : strcmp(m->family, "gemma3_text") == 0;
    if (m->latent) {
        m->latent_rope = size_of(config, "qk_rope_head_dim", NULL);
        m->query_latent = size_of(config, "q_lora_rank", NULL);
        m->head_dim = m->latent_rope + size_of(config, "qk_nope_head_dim", NULL);
        m->value_dim = size_of(config, "v_head_dim", NULL);
        m->kv_heads = m->heads;
    }
    if (!m->kv_heads) m->kv_heads = m->heads;
    if (!m->head_dim && m->heads > 0) m->head_dim = m->width / m->heads;
    if (!m->value_dim) m->value_dim = m->head_dim;
    if (!m->mlp && m->width <= INT32_MAX / 4) m->mlp = 4 * m->width;
    gyre_status status = read_experts(config, path, m, err);
    if (!status) status = check_sizes(m, path, err);
    if (!status) count_weights(m);
    return status;
}

/* -- windows -- */

/* Adds layers to the kind with their window. */
static gyre_status add_kind(shard_model *m, const shard_kind *kind, const char *path, gyre_error *err) {
    int at = 0;
    while (at < m->kinds_count && (m->kinds[at].window != kind->window || m->kinds[at].chunked != kind->chunked))
        at++;
    if (at == SHARD_MOST_KINDS)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "sliding_window: layers have more than %d windows (%s)", SHARD_MOST_KINDS,
                         path);
    if (at == m->kinds_count) m->kinds[m->kinds_count++] = (shard_kind){0, kind->window, kind->chunked};
    m->kinds[at].layers += kind->layers;
    return GYRE_OK;
}

/* Those of a decoder: towers of images have groups of their own. */
static int is_of_decoder(const gyre_layer_reading *group, int64_t layers) {
    if (strcmp(group->name, "vision") == 0 || strcmp(group->name, "encoder") == 0) return 0;
    return group->layers_count == 0 || group->layers[group->layers_count - 1] < layers;
}

static gyre_status read_windows(const char *path, shard_model *m, gyre_error *err) {
    gyre_reading *reading = NULL;
    int64_t slide = 0;
    gyre_status status = gyre_reading_open(&reading, path, NULL, err);
    for (int64_t g = 0; !status && g < reading->groups_count; g++)
        if (is_of_decoder(reading->groups[g], m->layers) && reading->groups[g]->window > 0)
            slide += reading->groups[g]->layers_count;
    const shard_kind all = {m->layers - slide, 0, 0};
    if (!status && slide < m->layers) status = add_kind(m, &all, path, err);
    for (int64_t g = 0; !status && g < reading->groups_count; g++) {
        const gyre_layer_reading *group = reading->groups[g];
        const shard_kind kind = {group->layers_count, group->window, strcmp(group->name, "chunked_attention") == 0};
        if (is_of_decoder(group, m->layers) && group->window > 0) status = add_kind(m, &kind, path, err);
    }
    gyre_reading_free(reading);
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
    json_t *config = json_load_file(file, JSON_REJECT_DUPLICATES, &why);
    if (!config && json_error_code(&why) == json_error_duplicate_key)
        return gyre_fail(err, GYRE_EFORMAT, "config.json: %.120s (%s, line %d)", why.text, file, why.line);
    if (!config)
        return gyre_fail(err, GYRE_EFORMAT, "config: not JSON; a plan reads a config.json: %.120s (%s)", why.text, file);
    const json_t *text = json_object_get(config, "text_config");
    const json_t *const sizes = json_is_object(text) ? text : config;
    const int slides = size_of(sizes, "sliding_window", "attention_chunk_size") > 0;
    gyre_status status = read_sizes(sizes, file, out, err);
    json_decref(config);
    if (!status) {
        const shard_kind all = {out->layers, 0, 0};
        status = slides ? read_windows(file, out, err) : add_kind(out, &all, file, err);
    }
    return status;
}

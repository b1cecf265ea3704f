#include "model/architecture/mixture_config.h"

#include "util/json_load.h"

#include <string.h>

enum { MAX_EXPERT_DIM = 1 << 24 };

enum {
    CHOICE_BIAS = 1,  /* scores are corrected where experts are chosen */
    SHARED_COUNT = 2, /* the shared expert is as wide as a number of experts */
    SHARED_SIZE = 4,  /* shared_expert_intermediate_size */
    SHARED_EQUAL = 8, /* the shared expert is as wide as an expert */
    SHARED_SWITCH = 16,
    GROUPS = 32, /* n_group, topk_group, routed_scaling_factor */
    WEIGHS_INPUT = 64,
    IN_OUT = 128,
    INTERLEAVED = 256,
    BESIDE_MLP = 512, /* in all layers, if enable_moe_block is set */
    PACKED = 1024
};

typedef enum layer_rule {
    ALL_LAYERS,
    BY_STEP,     /* decoder_sparse_step, mlp_only_layers */
    BY_RANGE,    /* moe_layer_start_index, moe_layer_end_index, moe_layer_interval */
    AFTER_DENSE, /* first_k_dense_replace */
    LISTED       /* moe_layers, or interleave_moe_layer_step */
} layer_rule;

typedef enum norm_rule { NEVER, ALWAYS, FLAG_OFF, FLAG_ON } norm_rule; /* FLAG: norm_topk_prob, with its default */

typedef struct mixture_row {
    const char *family, *dim_key;
    int64_t experts, active, dim; /* of the class, for configs that leave them out */
    gyre_router_score score;
    norm_rule norm;
    layer_rule layers;
    int traits;
    int64_t dense, shared, groups, kept_groups; /* also: layers before the first with experts; SHARED_COUNT, GROUPS */
    double scale;
} mixture_row;

#define SOFTMAX GYRE_ROUTER_SOFTMAX
#define SIGMOID GYRE_ROUTER_SIGMOID
/* clang-format off */
static const mixture_row rows[] = {
    {"mixtral", "intermediate_size", 8, 2, 14336, SOFTMAX, ALWAYS, ALL_LAYERS, 0, 0, 0, 1, 1, 1},
    {"qwen2_moe", "moe_intermediate_size", 60, 4, 1408, SOFTMAX, FLAG_OFF, BY_STEP, SHARED_SIZE | SHARED_SWITCH, 0, 0, 1, 1, 1},
    {"qwen3_moe", "moe_intermediate_size", 128, 8, 768, SOFTMAX, FLAG_OFF, BY_STEP, 0, 0, 0, 1, 1, 1},
    {"gpt_oss", "intermediate_size", 128, 4, 2880, SOFTMAX, ALWAYS, ALL_LAYERS, IN_OUT | INTERLEAVED | PACKED, 0, 0, 1, 1, 1},
    {"ernie4_5_moe", "moe_intermediate_size", 64, 6, 1536, SOFTMAX, ALWAYS, BY_RANGE, SHARED_COUNT | CHOICE_BIAS, 1, 2, 1, 1, 1},
    {"llama4_text", "intermediate_size", 16, 1, 8192, SIGMOID, NEVER, LISTED, SHARED_EQUAL | WEIGHS_INPUT | IN_OUT, 0, 0, 1, 1, 1},
    {"deepseek_v3", "moe_intermediate_size", 256, 8, 2048, SIGMOID, FLAG_ON, AFTER_DENSE, SHARED_COUNT | CHOICE_BIAS | GROUPS, 3, 1, 8, 4, 2.5},
    {"gemma4_text", "moe_intermediate_size", 0, 0, 0, SOFTMAX, ALWAYS, ALL_LAYERS, BESIDE_MLP, 0, 0, 1, 1, 1},
    {"glm4_moe", "moe_intermediate_size", 128, 8, 1408, SIGMOID, FLAG_ON, AFTER_DENSE, SHARED_COUNT | CHOICE_BIAS | GROUPS, 1, 1, 1, 1, 1},
};
/* clang-format on */

static const char *const experts_keys[] = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", NULL};
static const char *const active_keys[] = {"num_experts_per_tok", "experts_per_token", "top_k_experts", "moe_k", NULL};
static const char *const shared_keys[] = {"n_shared_experts", "moe_num_shared_experts", NULL};

/* out = the value of the first key that is there, within 1 .. max. */
static int64_t read_count(const gyre_scope *s, const char *const *keys, int64_t fallback, int64_t max) {
    const char *key = gyre_scope_first(s, keys);
    const int64_t n = key ? gyre_scope_integer(s, key, 1, fallback) : fallback;
    if (n < 1) gyre_scope_fail(s, GYRE_EFORMAT, keys[0], "missing");
    if (n > max) gyre_scope_fail(s, GYRE_EFORMAT, key ? key : keys[0], "%lld is past %lld", (long long)n, (long long)max);
    return n;
}

/* -- which layers -- */
/* Sets the bits of the layers that the list of a key names; clears them if `value` is 0. */
static void set_listed(const gyre_scope *s, const char *key, int value, gyre_architecture *a) {
    const json_t *list = gyre_scope_value(s, key), *entry;
    size_t i;
    json_array_foreach(list, i, entry) {
        const json_int_t layer = json_is_integer(entry) ? json_integer_value(entry) : -1;
        if (layer < 0 || layer >= a->layers) {
            gyre_scope_fail(s, GYRE_EFORMAT, key, "entry %lld is not one of %lld layers", (long long)i,
                            (long long)a->layers);
            return;
        }
        if (value)
            gyre_mixture_set(&a->mixture, layer);
        else
            a->mixture.layers[layer / 64] &= ~((uint64_t)1 << (layer % 64));
    }
}

static void set_layers(gyre_architecture *a, int64_t first, int64_t last, int64_t step) {
    for (int64_t i = first; step > 0 && i <= last && i < a->layers; i++)
        if ((i + 1) % step == 0) gyre_mixture_set(&a->mixture, i);
}

static void read_layers(const gyre_scope *s, const mixture_row *row, gyre_architecture *a) {
    const int64_t last = a->layers - 1;
    if (a->layers > GYRE_MIXTURE_LAYERS) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "num_hidden_layers", "%lld: with experts at most %d", (long long)a->layers,
                        (int)GYRE_MIXTURE_LAYERS);
        return;
    }
    switch (row->layers) {
    case ALL_LAYERS:
        set_layers(a, 0, last, 1);
        break;
    case BY_STEP:
        set_layers(a, 0, last, gyre_scope_integer(s, "decoder_sparse_step", 1, 1));
        set_listed(s, "mlp_only_layers", 0, a);
        break;
    case AFTER_DENSE:
        set_layers(a, gyre_scope_integer(s, "first_k_dense_replace", 0, row->dense), last, 1);
        break;
    case BY_RANGE: {
        const int64_t end = gyre_scope_integer(s, "moe_layer_end_index", -1, -1);
        set_layers(a, gyre_scope_integer(s, "moe_layer_start_index", 0, row->dense), end < 0 ? last : end,
                   gyre_scope_integer(s, "moe_layer_interval", 1, 1));
        break;
    }
    case LISTED:
        if (json_is_array(gyre_scope_value(s, "moe_layers")))
            set_listed(s, "moe_layers", 1, a);
        else
            set_layers(a, 0, last, gyre_scope_integer(s, "interleave_moe_layer_step", 1, 1));
        break;
    }
}

/* -- the router and the shared expert -- */
static void read_routing(const gyre_scope *s, const mixture_row *row, gyre_routing *r) {
    r->score = row->score;
    r->experts = read_count(s, experts_keys, row->experts, GYRE_MOST_EXPERTS);
    r->active = read_count(s, active_keys, row->active, GYRE_MOST_ACTIVE);
    r->normalized = row->norm == ALWAYS;
    if (row->norm >= FLAG_OFF) r->normalized = gyre_scope_bool(s, "norm_topk_prob", row->norm == FLAG_ON);
    r->groups = r->kept_groups = 1;
    r->scale = 1;
    if (r->active > r->experts) {
        const char *key = gyre_scope_first(s, active_keys); /* a class default may be past the experts of a file */
        gyre_scope_fail(s, GYRE_EFORMAT, key ? key : active_keys[0], "%lld of %lld experts", (long long)r->active,
                        (long long)r->experts);
    }
    if (!(row->traits & GROUPS)) return;
    r->groups = gyre_scope_integer(s, "n_group", 1, row->groups);
    r->kept_groups = gyre_scope_integer(s, "topk_group", 1, row->kept_groups);
    r->scale = gyre_scope_number(s, "routed_scaling_factor", row->scale);
    if (r->groups < 1 || r->experts % r->groups != 0 || r->kept_groups < 1 || r->kept_groups > r->groups ||
        r->experts / r->groups * r->kept_groups < r->active)
        gyre_scope_fail(s, GYRE_EFORMAT, "n_group", "%lld groups of %lld experts, and %lld experts of %lld groups",
                        (long long)r->groups, (long long)r->experts, (long long)r->active, (long long)r->kept_groups);
}

static void read_shared(const gyre_scope *s, const mixture_row *row, gyre_mixture *m) {
    if (row->traits & SHARED_EQUAL) m->shared_dim = m->expert_dim;
    if (row->traits & SHARED_SIZE) m->shared_dim = gyre_scope_integer(s, "shared_expert_intermediate_size", 1, 5632);
    if (row->traits & SHARED_COUNT) {
        const char *key = gyre_scope_first(s, shared_keys);
        const int64_t count = key ? gyre_scope_integer(s, key, 0, row->shared) : row->shared;
        if (count > GYRE_MOST_EXPERTS) gyre_scope_fail(s, GYRE_EFORMAT, key, "%lld", (long long)count);
        m->shared_dim = count * m->expert_dim;
    }
    if (m->shared_dim > MAX_EXPERT_DIM || m->shared_dim < 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "shared_expert_intermediate_size", "%lld channels", (long long)m->shared_dim);
    m->shared_switch = (row->traits & SHARED_SWITCH) != 0;
}

void gyre_mixture_from_config(const gyre_scope *s, gyre_architecture *a) {
    const mixture_row *row = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].family, a->family) == 0) row = &rows[i];
    gyre_mixture *m = &a->mixture;
    if (!row || (row->traits & BESIDE_MLP && !gyre_scope_bool(s, "enable_moe_block", 0))) return;
    read_routing(s, row, &m->routing);
    m->expert_dim = read_count(s, (const char *const[]){row->dim_key, NULL}, row->dim, MAX_EXPERT_DIM);
    read_shared(s, row, m);
    read_layers(s, row, a);
    m->choice_bias = (row->traits & CHOICE_BIAS) != 0;
    m->beside_mlp = (row->traits & BESIDE_MLP) != 0;
    m->weighs_input = (row->traits & WEIGHS_INPUT) != 0;
    m->in_out = (row->traits & IN_OUT) != 0;
    m->packed = (row->traits & PACKED) != 0;
    m->interleaved = (row->traits & INTERLEAVED) != 0;
}

/* mixture_gguf.c: the experts that a GGUF describes.  llama.cpp has the rest in its code for the architecture. */
#include "model/architecture/mixture_config.h"

#include <stdio.h>
#include <string.h>

enum { MAX_EXPERT_DIM = 1 << 24 };

/* Numbers of expert_gating_func. */
enum { GATING_UNSAID, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN };

typedef struct mixture_row {
    const char *architecture;
    int64_t gating; /* without expert_gating_func */
    int normalized; /* without expert_weights_norm */
    int shared;     /* 1: there may be an expert that reads every token */
    int shared_switch;
    int in_mlp_dim; /* 1: experts are as wide as the mlp, without expert_feed_forward_length */
} mixture_row;

static const mixture_row rows[] = {
    {"llama", GATING_SOFTMAX, 1, 0, 0, 1},    {"qwen2moe", GATING_SOFTMAX, 0, 1, 1, 0},
    {"qwen3moe", GATING_SOFTMAX, 1, 0, 0, 0}, {"gpt-oss", GATING_SOFTMAX_OF_CHOSEN, 1, 0, 0, 0},
    {"glm4moe", GATING_SIGMOID, 0, 1, 0, 0},  {"deepseek2", GATING_SOFTMAX, 0, 1, 0, 0},
};

static int64_t read_count(const gyre_gguf_source *s, const char *suffix, int64_t minimum, int64_t fallback, int64_t max) {
    const int64_t n = gyre_gguf_read_size(s, suffix, minimum, fallback);
    if (n > max) gyre_gguf_fail(s, GYRE_EFORMAT, suffix, "%lld is past %lld", (long long)n, (long long)max);
    return n;
}

static void read_routing(const gyre_gguf_source *s, const mixture_row *row, gyre_routing *r) {
    const int64_t gating = gyre_gguf_read_size(s, "expert_gating_func", 0, row->gating);
    const int64_t used = gating == GATING_UNSAID ? row->gating : gating;
    r->score = used == GATING_SIGMOID ? GYRE_ROUTER_SIGMOID : GYRE_ROUTER_SOFTMAX;
    if (used > GATING_SOFTMAX_OF_CHOSEN)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "expert_gating_func", "%lld is not computed", (long long)used);
    r->active = read_count(s, "expert_used_count", 1, -1, GYRE_MOST_ACTIVE);
    r->normalized = used == GATING_SOFTMAX_OF_CHOSEN || gyre_gguf_read_flag(s, "expert_weights_norm", row->normalized);
    r->scale = gyre_gguf_read_real(s, "expert_weights_scale", 1);
    if (r->scale == 0) r->scale = 1;
    r->groups = read_count(s, "expert_group_count", 0, 1, GYRE_MOST_EXPERTS);
    r->kept_groups = read_count(s, "expert_group_used_count", 0, 1, GYRE_MOST_EXPERTS);
    if (r->groups < 1) r->groups = r->kept_groups = 1;
    if (r->groups > 1 && used != GATING_SIGMOID) /* DeepSeek-V2 keeps groups by their largest score, llama.cpp by two */
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "expert_group_count",
                       "groups of experts whose scores are a softmax are not run");
    if (r->kept_groups < 1 || r->kept_groups > r->groups || r->experts % r->groups != 0 ||
        r->active > r->experts / r->groups * r->kept_groups)
        gyre_gguf_fail(s, GYRE_EFORMAT, "expert_used_count", "%lld of %lld experts in %lld of %lld groups",
                       (long long)r->active, (long long)r->experts, (long long)r->kept_groups, (long long)r->groups);
}

/* out = 1 if the first layer with experts has that tensor. */
static int has_tensor(const gyre_gguf_source *s, int64_t layer, const char *tail) {
    char name[64];
    snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, tail);
    return gyre_gguf_find_tensor(s->file, name) != NULL;
}

static void read_sizes(const gyre_gguf_source *s, const mixture_row *row, int64_t first, const gyre_architecture *a,
                       gyre_mixture *m) {
    const int64_t usual = row->in_mlp_dim ? a->mlp_dim : -1;
    m->expert_dim = read_count(s, "expert_feed_forward_length", 1, usual, MAX_EXPERT_DIM);
    if (!row->shared || !has_tensor(s, first, "ffn_up_shexp.weight")) return;
    const int64_t count = read_count(s, "expert_shared_count", 0, 1, GYRE_MOST_EXPERTS);
    const int64_t dim = row->shared_switch ? a->mlp_dim : count * m->expert_dim;
    m->shared_dim = read_count(s, "expert_shared_feed_forward_length", 1, dim, MAX_EXPERT_DIM);
    m->shared_switch = row->shared_switch;
}

void gyre_mixture_from_gguf(const gyre_gguf_source *s, gyre_architecture *a) {
    const mixture_row *row = NULL;
    const int64_t experts = read_count(s, "expert_count", 0, 0, GYRE_MOST_EXPERTS);
    if (!experts) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].architecture, s->name) == 0) row = &rows[i];
    if (!row || a->layers > GYRE_MIXTURE_LAYERS) {
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "expert_count",
                       row ? "experts in more than %d layers are not run" : "experts of this architecture are not run",
                       (int)GYRE_MIXTURE_LAYERS);
        return;
    }
    const int64_t first = read_count(s, "leading_dense_block_count", 0, 0, a->layers);
    gyre_mixture *m = &a->mixture;
    m->routing.experts = experts;
    read_routing(s, row, &m->routing);
    read_sizes(s, row, first, a, m);
    m->with_suffix = 1;
    m->choice_bias = has_tensor(s, first, "exp_probs_b.bias");
    for (int64_t layer = first; layer < a->layers; layer++)
        gyre_mixture_set(m, layer);
}

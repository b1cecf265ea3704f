/* fuzz_family.c: the families, their sizes and their tensors. */
#include "fuzz_family.h"

#include "fuzz_support.h"
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- names -- */
#define LAYER "model.layers.%d."
#define TOP   "model.embed_tokens", NULL, NULL, "model.norm", "lm_head"
#define HEADS LAYER "self_attn.q_norm", LAYER "self_attn.k_norm"
#define ATTENTION                                                                                                           \
    LAYER "self_attn.qkv_proj", LAYER "self_attn.q_proj", LAYER "self_attn.k_proj", LAYER "self_attn.v_proj",               \
        LAYER "self_attn.o_proj"
#define MLP   LAYER "mlp.gate_up_proj", LAYER "mlp.gate_proj", LAYER "mlp.up_proj", LAYER "mlp.down_proj"
#define NORMS LAYER "input_layernorm", LAYER "post_attention_layernorm"
typedef const char *const names[FAMILY_ROLES];
static names llama = {TOP, NORMS, NULL, NULL, HEADS, ATTENTION, MLP};
static names gemma2 = {TOP,
                       LAYER "input_layernorm",
                       LAYER "pre_feedforward_layernorm",
                       LAYER "post_attention_layernorm",
                       LAYER "post_feedforward_layernorm",
                       HEADS,
                       ATTENTION,
                       MLP};
static names olmo2 = {TOP,   NULL,      NULL, LAYER "post_attention_layernorm", LAYER "post_feedforward_layernorm",
                      HEADS, ATTENTION, MLP};
static names starcoder2 = {TOP, NORMS, NULL, NULL, HEADS, ATTENTION, NULL, NULL, LAYER "mlp.c_fc", LAYER "mlp.c_proj"};
static names phi = {[FAMILY_EMBEDDING] = "model.embed_tokens",
                    [FAMILY_FINAL_NORM] = "model.final_layernorm",
                    [FAMILY_HEAD] = "lm_head",
                    [FAMILY_ATTN_NORM] = LAYER "input_layernorm",
                    [FAMILY_Q] = LAYER "self_attn.q_proj",
                    [FAMILY_K] = LAYER "self_attn.k_proj",
                    [FAMILY_V] = LAYER "self_attn.v_proj",
                    [FAMILY_O] = LAYER "self_attn.dense",
                    [FAMILY_UP] = LAYER "mlp.fc1",
                    [FAMILY_DOWN] = LAYER "mlp.fc2"};
static names neox = {[FAMILY_EMBEDDING] = "gpt_neox.embed_in",
                     [FAMILY_FINAL_NORM] = "gpt_neox.final_layer_norm",
                     [FAMILY_HEAD] = "embed_out",
                     [FAMILY_ATTN_NORM] = "gpt_neox.layers.%d.input_layernorm",
                     [FAMILY_MLP_NORM] = "gpt_neox.layers.%d.post_attention_layernorm",
                     [FAMILY_QKV] = "gpt_neox.layers.%d.attention.query_key_value",
                     [FAMILY_O] = "gpt_neox.layers.%d.attention.dense",
                     [FAMILY_UP] = "gpt_neox.layers.%d.mlp.dense_h_to_4h",
                     [FAMILY_DOWN] = "gpt_neox.layers.%d.mlp.dense_4h_to_h"};
#define BODY "transformer."
static names gpt2 = {[FAMILY_EMBEDDING] = BODY "wte",        [FAMILY_TABLE] = BODY "wpe",
                     [FAMILY_FINAL_NORM] = BODY "ln_f",      [FAMILY_HEAD] = "lm_head",
                     [FAMILY_ATTN_NORM] = BODY "h.%d.ln_1",  [FAMILY_MLP_NORM] = BODY "h.%d.ln_2",
                     [FAMILY_QKV] = BODY "h.%d.attn.c_attn", [FAMILY_O] = BODY "h.%d.attn.c_proj",
                     [FAMILY_UP] = BODY "h.%d.mlp.c_fc",     [FAMILY_DOWN] = BODY "h.%d.mlp.c_proj"};
static names gptj = {
    [FAMILY_EMBEDDING] = BODY "wte",       [FAMILY_FINAL_NORM] = BODY "ln_f",      [FAMILY_HEAD] = "lm_head",
    [FAMILY_ATTN_NORM] = BODY "h.%d.ln_1", [FAMILY_Q] = BODY "h.%d.attn.q_proj",   [FAMILY_K] = BODY "h.%d.attn.k_proj",
    [FAMILY_V] = BODY "h.%d.attn.v_proj",  [FAMILY_O] = BODY "h.%d.attn.out_proj", [FAMILY_UP] = BODY "h.%d.mlp.fc_in",
    [FAMILY_DOWN] = BODY "h.%d.mlp.fc_out"};
static names bloom = {[FAMILY_EMBEDDING] = BODY "word_embeddings",
                      [FAMILY_EMBED_NORM] = BODY "word_embeddings_layernorm",
                      [FAMILY_FINAL_NORM] = BODY "ln_f",
                      [FAMILY_HEAD] = "lm_head",
                      [FAMILY_ATTN_NORM] = BODY "h.%d.input_layernorm",
                      [FAMILY_MLP_NORM] = BODY "h.%d.post_attention_layernorm",
                      [FAMILY_QKV] = BODY "h.%d.self_attention.query_key_value",
                      [FAMILY_O] = BODY "h.%d.self_attention.dense",
                      [FAMILY_UP] = BODY "h.%d.mlp.dense_h_to_4h",
                      [FAMILY_DOWN] = BODY "h.%d.mlp.dense_4h_to_h"};
static names mpt = {[FAMILY_EMBEDDING] = BODY "wte",
                    [FAMILY_FINAL_NORM] = BODY "norm_f",
                    [FAMILY_HEAD] = "lm_head",
                    [FAMILY_ATTN_NORM] = BODY "blocks.%d.norm_1",
                    [FAMILY_MLP_NORM] = BODY "blocks.%d.norm_2",
                    [FAMILY_QKV] = BODY "blocks.%d.attn.Wqkv",
                    [FAMILY_O] = BODY "blocks.%d.attn.out_proj",
                    [FAMILY_UP] = BODY "blocks.%d.ffn.up_proj",
                    [FAMILY_DOWN] = BODY "blocks.%d.ffn.down_proj"};
static names ggml = {"token_embd",
                     "position_embd",
                     "token_embd_norm",
                     "output_norm",
                     "output",
                     "blk.%d.attn_norm",
                     "blk.%d.ffn_norm",
                     "blk.%d.post_attention_norm",
                     "blk.%d.post_ffw_norm",
                     "blk.%d.attn_q_norm",
                     "blk.%d.attn_k_norm",
                     "blk.%d.attn_qkv",
                     "blk.%d.attn_q",
                     "blk.%d.attn_k",
                     "blk.%d.attn_v",
                     "blk.%d.attn_output",
                     "blk.%d.ffn_up",
                     "blk.%d.ffn_gate",
                     "blk.%d.ffn_up",
                     "blk.%d.ffn_down"};

/* -- families -- */
struct family_kind {
    const char *type, *gguf; /* gguf NULL = Gyre reads no GGUF of it */
    names *name;
    unsigned traits;
    int adjacent_in_gguf;
};
enum {
    SILU_MLP = FAMILY_GATED | FAMILY_OWN_HEAD_DIM,
    GEMMA = SILU_MLP | FAMILY_GELU_TANH | FAMILY_TIED | FAMILY_GAIN_ONE | FAMILY_SCALED | FAMILY_BIAS_FLAGS,
    NORM = FAMILY_LAYER_NORM | FAMILY_NORM_BIASES,
    BIASES = FAMILY_QKV_BIASES | FAMILY_O_BIAS | FAMILY_MLP_BIASES
};
static const family_kind kinds[] = {
    {"llama", "llama", &llama, SILU_MLP | FAMILY_BIAS_FLAGS, 1},
    {"mistral", "llama", &llama, SILU_MLP, 1},
    {"qwen2", "qwen2", &llama, SILU_MLP | FAMILY_QKV_BIASES, 0},
    {"qwen3", "qwen3", &llama, SILU_MLP | FAMILY_BIAS_FLAGS | FAMILY_QK_NORMS, 0},
    {"smollm3", "smollm3", &llama, SILU_MLP | FAMILY_BIAS_FLAGS | FAMILY_TIED, 1},
    {"granite", NULL, &llama, SILU_MLP | FAMILY_BIAS_FLAGS, 0},
    {"olmo2", NULL, &olmo2, FAMILY_GATED | FAMILY_BIAS_FLAGS | FAMILY_QK_NORMS | FAMILY_POST_NORMS | FAMILY_NO_PRE_NORMS, 0},
    {"phi3", "phi3", &llama, FAMILY_GATED | FAMILY_FUSED_QKV | FAMILY_FUSED_UP | FAMILY_PARTIAL, 0},
    {"gemma", "gemma", &llama, GEMMA, 0},
    {"gemma2", "gemma2", &gemma2, GEMMA | FAMILY_POST_NORMS | FAMILY_SOFTCAPS, 0},
    {"gemma3_text", "gemma3", &gemma2, GEMMA | FAMILY_POST_NORMS | FAMILY_QK_NORMS | FAMILY_SOFTCAPS, 0},
    {"gemma3", NULL, &gemma2, GEMMA | FAMILY_POST_NORMS | FAMILY_QK_NORMS | FAMILY_SOFTCAPS, 0},
    {"cohere", NULL, &llama,
     FAMILY_GATED | FAMILY_BIAS_FLAGS | FAMILY_LAYER_NORM | FAMILY_PARALLEL | FAMILY_TIED | FAMILY_ADJACENT, 0},
    {"stablelm", NULL, &llama, FAMILY_GATED | NORM | FAMILY_PARTIAL, 0},
    {"starcoder2", "starcoder2", &starcoder2, NORM | FAMILY_GELU_TANH | FAMILY_TIED | BIASES, 0},
    {"phi", "phi2", &phi,
     NORM | BIASES | FAMILY_HEAD_BIAS | FAMILY_GELU_TANH | FAMILY_PARALLEL | FAMILY_PARTIAL | FAMILY_ALL_HEADS, 0},
    {"gpt_neox", "gptneox", &neox,
     NORM | BIASES | FAMILY_GELU | FAMILY_PARALLEL | FAMILY_SECOND_NORM | FAMILY_FUSED_QKV | FAMILY_QKV_BY_HEAD |
         FAMILY_PARTIAL | FAMILY_ALL_HEADS,
     0},
    {"gpt2", "gpt2", &gpt2,
     NORM | BIASES | FAMILY_GELU_TANH | FAMILY_TIED | FAMILY_FUSED_QKV | FAMILY_SIDEWAYS | FAMILY_INPUT_TABLE |
         FAMILY_ALL_HEADS,
     0},
    {"gptj", NULL, &gptj,
     NORM | FAMILY_MLP_BIASES | FAMILY_HEAD_BIAS | FAMILY_GELU_TANH | FAMILY_PARALLEL | FAMILY_ADJACENT | FAMILY_PARTIAL |
         FAMILY_ALL_HEADS,
     0},
    {"bloom", "bloom", &bloom,
     NORM | BIASES | FAMILY_GELU_TANH | FAMILY_TIED | FAMILY_FUSED_QKV | FAMILY_QKV_BY_HEAD | FAMILY_ALIBI |
         FAMILY_EMBEDS_NORM | FAMILY_ALL_HEADS,
     0},
    {"mpt", "mpt", &mpt, FAMILY_LAYER_NORM | FAMILY_GELU | FAMILY_TIED | FAMILY_FUSED_QKV | FAMILY_ALIBI | FAMILY_ALL_HEADS,
     0}};
const int fuzz_families = sizeof kinds / sizeof *kinds;

static int is(const family_model *m, const char *type) {
    return strcmp(m->kind->type, type) == 0;
}

static void fill_name(names *of, family_role role, int layer, const char *suffix, char out[96]) {
    const char *pattern = (*of)[role], *number = strstr(pattern, "%d");
    if (number)
        snprintf(out, 96, "%.*s%d%s%s", (int)(number - pattern), pattern, layer, number + 2, suffix);
    else
        snprintf(out, 96, "%s%s", pattern, suffix);
}

void fuzz_family_name(const char *type, int gguf, const family_tensor *t, char out[96]) {
    for (int i = 0; i < fuzz_families; i++)
        if (strcmp(type, kinds[i].type) == 0) {
            fill_name(gguf ? &ggml : kinds[i].name, t->role, t->layer, t->bias ? ".bias" : ".weight", out);
            return;
        }
    abort();
}

/* -- tensors -- */
/* Whole numbers of 8 bits times a power of two, which every type of weights holds; of a gain near 1 + 2^-7 of them. */
static void fill(family_tensor *t, test_random *random, int is_gain, int64_t terms) {
    t->exponent = t->bias ? 9 : t->role == FAMILY_EMBEDDING || t->role == FAMILY_TABLE ? 6 : 8;
    for (int64_t n = 16; !t->bias && t->rank == 2 && t->exponent >= 8 && n < terms; n *= 4)
        t->exponent++;
    if (is_gain) t->exponent = 7;
    for (int64_t i = 0; i < t->count; i++) {
        const int whole = (int)(test_next(random) >> 40) % 255 - 127;
        t->values[i] = ldexp(is_gain ? 128 + whole / 4 : whole, -t->exponent);
    }
}

static void add(family_model *m, test_random *random, family_role role, int layer, int bias, int64_t rows, int64_t columns) {
    fuzz_require(m->tensors < FAMILY_TENSORS, "room for tensors of the target itself");
    family_tensor *t = &m->tensor[m->tensors++];
    const int sideways = m->traits & FAMILY_SIDEWAYS && role >= FAMILY_ATTN_NORM && columns > 0;
    const int is_norm =
        role == FAMILY_EMBED_NORM || role == FAMILY_FINAL_NORM || (role >= FAMILY_ATTN_NORM && role <= FAMILY_KEY_NORM);
    char name[96];
    memset(t, 0, sizeof *t);
    fill_name(m->gguf ? &ggml : m->kind->name, role, layer, bias ? ".bias" : ".weight", name);
    snprintf(t->name, sizeof t->name, "%s%s", is(m, "gemma3") && !m->gguf && role != FAMILY_HEAD ? "language_model." : "",
             name);
    t->role = role;
    t->layer = layer;
    t->bias = bias;
    t->kept = 1;
    t->rank = columns ? 2 : 1;
    t->shape[0] = sideways ? columns : rows;
    t->shape[1] = columns ? sideways ? rows : columns : 1;
    t->shape[2] = t->shape[3] = 1;
    t->count = t->shape[0] * t->shape[1];
    t->values = fuzz_room((size_t)t->count, sizeof *t->values);
    fill(t, random, is_norm && !bias && !(m->traits & FAMILY_GAIN_ONE), columns);
}

static void add_norm(family_model *m, test_random *random, family_role role, int layer, int64_t dim) {
    add(m, random, role, layer, 0, dim, 0);
    const int of_heads = role == FAMILY_QUERY_NORM || role == FAMILY_KEY_NORM;
    if (m->traits & FAMILY_NORM_BIASES && !of_heads) add(m, random, role, layer, 1, dim, 0);
}

static void add_map(family_model *m, test_random *random, family_role role, int layer, int64_t out, int64_t in,
                    unsigned bias) {
    add(m, random, role, layer, 0, out, in);
    if (m->traits & bias) add(m, random, role, layer, 1, out, 0);
}

static void add_layer(family_model *m, test_random *random, int layer) {
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const unsigned t = m->traits;
    if (!(t & FAMILY_NO_PRE_NORMS)) add_norm(m, random, FAMILY_ATTN_NORM, layer, m->width);
    if (!(t & FAMILY_NO_PRE_NORMS) && (!(t & FAMILY_PARALLEL) || t & FAMILY_SECOND_NORM))
        add_norm(m, random, FAMILY_MLP_NORM, layer, m->width);
    for (int post = FAMILY_POST_ATTN_NORM; t & FAMILY_POST_NORMS && post <= FAMILY_POST_MLP_NORM; post++)
        add_norm(m, random, (family_role)post, layer, m->width);
    if (t & FAMILY_QK_NORMS) {
        add_norm(m, random, FAMILY_QUERY_NORM, layer, t & FAMILY_NO_PRE_NORMS ? q : m->head_dim);
        add_norm(m, random, FAMILY_KEY_NORM, layer, t & FAMILY_NO_PRE_NORMS ? kv : m->head_dim);
    }
    if (t & FAMILY_FUSED_QKV) {
        add_map(m, random, FAMILY_QKV, layer, q + 2 * kv, m->width, FAMILY_QKV_BIASES);
    } else {
        add_map(m, random, FAMILY_Q, layer, q, m->width, FAMILY_QKV_BIASES);
        add_map(m, random, FAMILY_K, layer, kv, m->width, FAMILY_QKV_BIASES);
        add_map(m, random, FAMILY_V, layer, kv, m->width, FAMILY_QKV_BIASES);
    }
    add_map(m, random, FAMILY_O, layer, m->width, q, FAMILY_O_BIAS);
    if (t & FAMILY_FUSED_UP) {
        add_map(m, random, FAMILY_GATE_UP, layer, 2 * m->mlp_dim, m->width, FAMILY_MLP_BIASES);
    } else {
        if (t & FAMILY_GATED) add_map(m, random, FAMILY_GATE, layer, m->mlp_dim, m->width, FAMILY_MLP_BIASES);
        add_map(m, random, FAMILY_UP, layer, m->mlp_dim, m->width, FAMILY_MLP_BIASES);
    }
    add_map(m, random, FAMILY_DOWN, layer, m->width, m->mlp_dim, FAMILY_MLP_BIASES);
}

static void add_tensors(family_model *m, uint64_t seed) {
    test_random random = {seed * 2 + 1};
    add(m, &random, FAMILY_EMBEDDING, -1, 0, m->vocab, m->width);
    if (m->traits & FAMILY_INPUT_TABLE) add(m, &random, FAMILY_TABLE, -1, 0, m->positions, m->width);
    if (m->traits & FAMILY_EMBEDS_NORM) add_norm(m, &random, FAMILY_EMBED_NORM, -1, m->width);
    for (int layer = 0; layer < m->layers; layer++)
        add_layer(m, &random, layer);
    add_norm(m, &random, FAMILY_FINAL_NORM, -1, m->width);
    if (m->has_head) add_map(m, &random, FAMILY_HEAD, -1, m->vocab, m->width, FAMILY_HEAD_BIAS);
}

family_tensor *fuzz_family_find(family_model *m, family_role role, int layer, int bias) {
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].role == role && m->tensor[i].layer == layer && m->tensor[i].bias == bias) return &m->tensor[i];
    return NULL;
}

void fuzz_family_free(family_model *m) {
    for (int i = 0; i < m->tensors; i++)
        free(m->tensor[i].values);
    m->tensors = 0;
}

/* -- choices -- */
static void choose_sizes(family_model *m, fuzz_bytes *b) {
    static const int64_t head_dims[] = {8, 2, 4, 12, 16, 32}, vocabs[] = {11, 3, 40, 64, 96};
    m->head_dim = head_dims[fuzz_choice(b, 6)];
    m->heads = 1 + fuzz_choice(b, 4);
    m->layers = 1 + fuzz_choice(b, FAMILY_LAYERS);
    m->kv_heads = m->heads;
    if (!(m->traits & FAMILY_ALL_HEADS)) m->kv_heads = m->heads % 2 == 0 && fuzz_choice(b, 2) ? m->heads / 2 : m->heads;
    if (!(m->traits & FAMILY_ALL_HEADS) && fuzz_choice(b, 4) == 1) m->kv_heads = 1;
    m->width = m->heads * m->head_dim;
    if (m->traits & FAMILY_OWN_HEAD_DIM) m->width = 4 * (1 + fuzz_choice(b, 16));
    m->vocab = vocabs[fuzz_choice(b, 5)];
    m->mlp_dim = is(m, "bloom") ? 4 * m->width : is(m, "mpt") ? 2 * m->width : fuzz_between(b, 1, 72);
    m->positions = m->traits & FAMILY_INPUT_TABLE ? 16 : FAMILY_POSITIONS;
    m->rotated = m->head_dim;
    if (m->traits & FAMILY_PARTIAL && m->head_dim % 8 == 0) m->rotated >>= fuzz_choice(b, 3);
}

static void choose_biases(family_model *m, fuzz_bytes *b) {
    const unsigned attention = FAMILY_QKV_BIASES | FAMILY_O_BIAS;
    const int choice = fuzz_choice(b, 4);
    if (m->traits & FAMILY_BIAS_FLAGS && choice & 1) m->traits |= attention;
    if ((is(m, "llama") || is(m, "granite") || is(m, "smollm3")) && choice & 2) m->traits |= FAMILY_MLP_BIASES;
    if (is(m, "stablelm") && choice & 1) m->traits |= FAMILY_QKV_BIASES;
    if (is(m, "stablelm") && choice & 2) m->traits |= FAMILY_PARALLEL;
    if (is(m, "gpt_neox") && choice & 1 && !m->gguf) m->traits &= ~attention;
    if (is(m, "gpt_neox") && choice & 2) m->traits &= ~(unsigned)FAMILY_PARALLEL;
    if (is(m, "starcoder2") && choice & 1 && !m->gguf) m->traits &= ~(unsigned)BIASES;
    if (is(m, "mpt") && choice & 1) m->traits |= FAMILY_NORM_BIASES | BIASES;
}

static void choose_scales(family_model *m, fuzz_bytes *b) {
    static const double epsilons[] = {1e-5, 0.0009765625, 1e-6, 0.02};
    m->epsilon = epsilons[fuzz_choice(b, 4)];
    m->embed_scale = m->residual_scale = m->logit_scale = 1;
    m->attn_scale = 1 / sqrt((double)m->head_dim);
    if (m->traits & FAMILY_SCALED) m->embed_scale = sqrt((double)m->width);
    if (m->traits & FAMILY_SOFTCAPS) {
        const int capped = fuzz_choice(b, 4);
        if (capped & 1 || (m->gguf && is(m, "gemma2"))) m->attn_softcap = 2.5;
        if (capped & 2 || (m->gguf && is(m, "gemma2"))) m->logit_softcap = 3;
        if (m->gguf && !is(m, "gemma2")) m->attn_softcap = 0;
    }
    if (is(m, "granite")) {
        m->embed_scale = 3;
        m->attn_scale = 0.25;
        m->residual_scale = 0.5;
        m->logit_scale = 1 / 2.5;
    }
    if (is(m, "cohere")) m->logit_scale = fuzz_choice(b, 2) ? 0.3 : 0.0625;
    if ((is(m, "gemma2") || is(m, "gemma3") || is(m, "gemma3_text")) && !m->gguf) m->attn_scale = 1 / sqrt(12.0);
    if (is(m, "mpt")) {
        m->bias_max = fuzz_choice(b, 2) && m->gguf ? 4 : 8; /* transformers' class does not hand alibi_bias_max on */
        m->clip = fuzz_choice(b, 2) ? 0.75 : 0;
        if (fuzz_choice(b, 2) && !m->gguf) m->attn_scale = 0.5;
    }
    if (is(m, "bloom")) m->bias_max = 8;
}

static void choose_activation(family_model *m, fuzz_bytes *b) {
    m->activation = m->traits & FAMILY_GELU        ? FAMILY_IS_GELU
                    : m->traits & FAMILY_GELU_TANH ? FAMILY_IS_GELU_TANH
                                                   : FAMILY_IS_SILU;
    const int other = fuzz_choice(b, 5);
    if (!m->gguf && !is(m, "bloom") && !is(m, "mpt") && other > 0) m->activation = (family_activation)(other - 1);
}

static void choose_layers(family_model *m, fuzz_bytes *b) {
    static const double bases[] = {10000, 500, 1000000};
    const int turns = !(m->traits & (FAMILY_ALIBI | FAMILY_INPUT_TABLE)), window = 2 + fuzz_choice(b, 6);
    const int some = fuzz_choice(b, 4), gemma3 = is(m, "gemma3") || is(m, "gemma3_text");
    m->base = bases[fuzz_choice(b, 3)];
    if (is(m, "gptj")) m->base = 10000; /* its class has no other */
    m->factor = 1;
    if (turns && !m->gguf && !is(m, "gptj")) m->scaling = (family_scaling)(fuzz_byte(b) / 8 % FAMILY_SCALINGS);
    if (is(m, "phi3") && m->scaling != FAMILY_LONGROPE) m->scaling = FAMILY_UNSCALED;
    if (m->rotated == 2 && m->scaling == FAMILY_DYNAMIC) m->scaling = FAMILY_LINEAR; /* of one pair it divides by 0 */
    if (m->scaling == FAMILY_LINEAR) m->factor = 4;
    for (int i = 0; i < m->layers; i++) {
        m->layer[i].rotates = turns && !(is(m, "smollm3") && !m->gguf && some == 1 && i == 1);
        m->layer[i].base = m->base;
        m->layer[i].factor = m->factor;
        m->layer[i].scaled = m->scaling > FAMILY_LINEAR;
        const int local = is(m, "gemma2") ? i % 2 == 0
                          : gemma3        ? m->gguf || (i + 1) % 2 != 0
                          : is(m, "phi3") || is(m, "starcoder2") || is(m, "mistral") || is(m, "qwen2")
                              ? some == 1 && !m->gguf /* llama.cpp has none for them */
                              : 0;
        if (local) m->layer[i].window = window;
        if (is(m, "qwen2") && i == 0) m->layer[i].window = 0;
        if (gemma3 && local) m->layer[i].base = 10000, m->layer[i].factor = 1, m->layer[i].scaled = 0;
    }
}

/* Q8_0 stores rows of whole blocks; what has none is F16. */
static void choose_types(family_model *m, fuzz_bytes *b) {
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0"};
    const char *type = types[fuzz_choice(b, m->gguf ? 4 : 3)];
    for (int i = 0; i < m->tensors; i++) {
        family_tensor *t = &m->tensor[i];
        const int whole = t->rank == 2 && t->shape[1] % 32 == 0;
        snprintf(t->dtype, sizeof t->dtype, "%s",
                 m->gguf && t->rank == 1               ? "F32"
                 : strcmp(type, "Q8_0") == 0 && !whole ? "F16"
                                                       : type);
    }
}

void fuzz_family_choose(family_model *m, fuzz_bytes *b) {
    memset(m, 0, sizeof *m);
    m->kind = &kinds[fuzz_choice(b, fuzz_families)];
    m->gguf = m->kind->gguf && fuzz_choice(b, 2);
    m->name = m->gguf ? m->kind->gguf : m->kind->type;
    m->traits = m->kind->traits;
    if (m->gguf) {
        m->traits &= ~(unsigned)(FAMILY_GAIN_ONE | FAMILY_QKV_BY_HEAD | FAMILY_SIDEWAYS | FAMILY_ADJACENT);
        if (m->kind->adjacent_in_gguf) m->traits |= FAMILY_ADJACENT;
    }
    const uint64_t seed = fuzz_byte(b);
    choose_sizes(m, b);
    choose_biases(m, b);
    choose_scales(m, b);
    choose_activation(m, b);
    choose_layers(m, b);
    m->has_head = fuzz_choice(b, 2) ? !!(m->traits & FAMILY_TIED) : !(m->traits & FAMILY_TIED);
    add_tensors(m, seed);
    choose_types(m, b);
    fuzz_family_describe(m);
}

/* decoder.h: the forward pass of a decoder of any family, over some tokens of one sequence.
 *
 *     gyre_decoder_embed      x = embeddings (+ positions at the input)
 *     gyre_decoder_forward    per layer:
 *                                 norm -> qkv -> cache append -> attention -> o -> + x      attention block
 *                                 norm -> gate, up -> activation -> down -> + x             mlp block
 *                                 norm -> experts -> + x                                    or a mixture of experts, or both
 *                                 gate * the layer's inputs -> + x                          in families with such inputs
 *     gyre_decoder_logits     final norm -> lm_head -> logits */
#ifndef GYRE_MODEL_DECODER_H
#define GYRE_MODEL_DECODER_H
#include "gyre/gyre_cache.h"
#include "model/layer_tables.h"
#include "model/network.h"

enum { GYRE_PREFILL_CHUNK = 512 }; /* tokens of a pass: enough for the matrix products, few enough to stay in cache */

/* The activations of a pass, `rows` rows of each. */
typedef struct gyre_decoder_buffers {
    float *x, *norm;          /* [model_dim] residual stream; its norm */
    float *qkv;               /* [qkv_dim], heads as the network's q, k and v say */
    float *resized;           /* [resized_dim] queries, then keys, where a part of layers gives them another size */
    float *attn_out;          /* [heads][value_dim] */
    float *block_out;         /* [model_dim] output of a block that is not added to x at once */
    float *gate_up, *mlp_act; /* [mlp_dim], [2 mlp_dim] if gated; [mlp_dim] */
    float *gates;             /* [heads] what forget gates are the sigmoid of; without gates NULL */
    double *gate_sums;        /* [heads] running sums of log gates */
    double *part_kept;        /* what tokens keep of the part that makes queries and keys */
    float *part_scratch;      /* of that part */
    float *experts;           /* of gyre_experts_run; NULL = no layer has experts */
    float *beside;       /* [2][model_dim] of experts beside the mlp: what the router reads; their inputs, then outputs */
    float *layer_inputs; /* [layers][inputs]; a row more for scratch */
    float *latent;       /* [latent_dim] of gyre_decoder_project_latents; NULL = there are no latents */
    float *gemm_scratch; /* of gyre_gemm_run */
    void *attn_scratch;  /* of gyre_cache_attention */
    size_t attn_scratch_bytes;
    float *memory; /* holds all of the above but attn_scratch */
    int64_t memory_floats;
} gyre_decoder_buffers;

/* Numbers of every token in the cache that the next token goes on from, such as running sums (decoder_kept.c). */
typedef struct gyre_decoder_kept {
    double *last;    /* [layers][numbers] of the last token read */
    double *all;     /* [layers][max_tokens][numbers] of the tokens in the cache, while no window moves them */
    int64_t numbers; /* of a token in a layer; 0 = nothing is kept */
    int64_t layers, max_tokens;
} gyre_decoder_kept;

struct gyre_overflow; /* overflow.h */

typedef struct gyre_decoder {
    const gyre_network *net;
    const gyre_kernels *kernels; /* of the encoding's tier, or `rounding` */
    gyre_kernels rounding;
    const gyre_exec *exec;
    const gyre_encoding *encoding; /* of the main group and groups that share it; other groups use the network's */
    gyre_layer_tables tables;      /* of a model made here; otherwise empty */
    gyre_cache **cache;            /* [layers], one sequence each; keys are raw and rotated when read, at any length; NULL =
                                    * the layer reads the keys of another one */
    int64_t cached;                /* tokens in the cache */
    int64_t first;                 /* position of the first token; first + cached = that of the next one */
    int64_t length;                /* context length in use for this pass; 0 = the encoding's own, or each token's */
    int64_t qkv_dim;               /* channels of a row of qkv */
    float *prepared;               /* [layers][prepared_floats] of the part that makes queries and keys; NULL = none */
    int64_t prepared_floats;
    gyre_order order; /* of attention */
    float *watched;   /* [watched_tokens][heads][watched_tokens] of gyre_context_watch; NULL = none */
    int64_t watched_layer, watched_tokens;
    float *watched_queries, *watched_keys; /* of gyre_context_watch_heads; NULL = none */
    int64_t watched_heads_layer;
    struct gyre_overflow *overflow; /* looks after each step; NULL = an ordinary pass */
    gyre_decoder_kept gates;        /* sums of log forget gates */
    gyre_decoder_kept part;         /* of the part that makes queries and keys */
    gyre_decoder_buffers buffers;
} gyre_decoder;

/* Creates the caches and buffers of an empty sequence.  After an error the caller calls gyre_decoder_free.
 * Errors: EINVAL (an encoding with tables that the model does not have), those of gyre_cache_create, ENOMEM. */
gyre_status gyre_decoder_create(gyre_decoder *d, const gyre_model *model, const gyre_context_options *options,
                                gyre_error *err);
void gyre_decoder_free(gyre_decoder *d);
/* out = bytes of caches, activations and scratch. */
int64_t gyre_decoder_bytes(const gyre_decoder *d);

/* out = the encoding of a layer group. */
static inline const gyre_encoding *gyre_decoder_encoding(const gyre_decoder *d, int group) {
    return d->net->group[group].shares_main ? d->encoding : d->net->group[group].encoding;
}

/* out = the cache that a layer reads. */
static inline gyre_cache *gyre_decoder_cache(const gyre_decoder *d, int64_t layer) {
    return d->cache[d->net->layer[layer].keys_of];
}

/* 1: keys of a layer are rotated before they are cached, so a cache cannot move them. */
static inline int gyre_decoder_rotates_before(const gyre_decoder *d) {
    return d->net->arch.rotates_input || gyre_parts_rotate(d->net->arch.layer_parts);
}

/* buffers.x = embeddings of `rows` tokens, with positions added if the encoding adds them at the input. */
gyre_status gyre_decoder_embed(gyre_decoder *d, const int32_t *tokens, int64_t rows, gyre_error *err);
/* Runs all layers over the `rows` tokens in buffers.x and appends their keys and values to the caches.  Of the last layer,
 * only the last `wanted` rows are computed, and buffers.x holds no others afterwards. */
gyre_status gyre_decoder_forward(gyre_decoder *d, int64_t rows, int64_t wanted, gyre_error *err);
/* logits[wanted][vocab] of the last `wanted` of `rows` rows of buffers.x. */
void gyre_decoder_logits(gyre_decoder *d, int64_t rows, int64_t wanted, float *logits);
/* states[wanted][model_dim] = the last `wanted` of `rows` rows of buffers.x after the final norm. */
void gyre_decoder_states(gyre_decoder *d, int64_t rows, int64_t wanted, float *states);
/* out = heads of buffers.qkv: queries, keys or values, [1, rows, heads, head_dim]. */
gyre_view gyre_decoder_heads(const gyre_decoder *d, const gyre_head_layout *heads, int64_t rows);
/* buffers.qkv = queries, keys and values of `rows` rows of buffers.norm by latents (decoder_latents.c). */
void gyre_decoder_project_latents(gyre_decoder *d, const gyre_network_layer *l, int64_t rows);
/* out = floats of buffers.resized for a row; 0 = no part of layers gives queries and keys another size. */
int64_t gyre_decoder_resized_dim(const gyre_decoder *d);
/* out = floats of buffers.latent for a row; 0 = there are no latents. */
int64_t gyre_decoder_latent_dim(const gyre_architecture *a);
/* out = the attention of a layer over `rows` queries, the last of `tokens` tokens. */
gyre_attention_args gyre_decoder_attention_args(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens,
                                                gyre_attention_gates *gates);

/* x += scale * post_norm(block_out), for `rows` rows: the end of a block. */
void gyre_decoder_add_block(const gyre_decoder *d, const gyre_norm_weights *post, int64_t rows);

/* -- inputs that layers have beside the stream (decoder_layer_inputs.c) -- */
/* buffers.layer_inputs = those of all layers, for the tokens whose embeddings are in buffers.x.  Without them, nothing. */
void gyre_decoder_embed_layers(gyre_decoder *d, const int32_t *tokens, int64_t rows);
/* x += the layer's inputs, gated by x. */
void gyre_decoder_add_layer_inputs(gyre_decoder *d, int64_t layer, int64_t rows);
/* out = floats of buffers.layer_inputs for up to `rows` rows. */
int64_t gyre_decoder_layer_inputs_floats(const gyre_architecture *a, int64_t rows);

/* -- forget gates (decoder_gates.c) -- */
/* 1: the model has forget gates. */
static inline int gyre_decoder_forgets(const gyre_decoder *d) {
    return (d->net->arch.layer_parts & GYRE_LAYER_PART_FORGET_GATES) != 0;
}
/* out = the sums of the last pass, [1, rows, heads, 1]. */
gyre_view gyre_decoder_gate_sums(const gyre_decoder *d, int64_t rows);
/* Computes the sums of the rows in buffers.norm. */
gyre_status gyre_decoder_sum_gates(gyre_decoder *d, int64_t layer, int64_t rows, gyre_error *err);

/* -- what tokens keep (decoder_kept.c) -- */
/* With 0 numbers these do nothing.  Errors: ENOMEM. */
gyre_status gyre_kept_create(gyre_decoder_kept *k, int64_t layers, int64_t max_tokens, int64_t numbers, gyre_error *err);
void gyre_kept_free(gyre_decoder_kept *k);
int64_t gyre_kept_bytes(const gyre_decoder_kept *k);
/* A layer goes on after the first `tokens` tokens of the cache; with a window only 0. */
void gyre_kept_truncate(gyre_decoder_kept *k, int64_t tokens);
/* out = those of the last token of a layer, [numbers]. */
double *gyre_kept_last(const gyre_decoder_kept *k, int64_t layer);
/* Keeps those of `rows` tokens, [rows][numbers], from token `first` of the cache on. */
void gyre_kept_store(gyre_decoder_kept *k, int64_t layer, int64_t first, int64_t rows, const double *numbers);

/* 1: the layers of the model have an attention of their own (parts/own_attention.h). */
static inline int gyre_decoder_has_own_attention(const gyre_decoder *d) {
    return (d->net->arch.layer_parts & GYRE_LAYER_PARTS_OWN_ATTENTION) != 0;
}
/* out = that of a layer over `rows` queries, the last of `tokens` tokens. */
gyre_own_call gyre_decoder_own_call(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens);

#endif

/* context.h: what is inside a gyre_context. */
#ifndef GYRE_MODEL_CONTEXT_H
#define GYRE_MODEL_CONTEXT_H
#include "gyre/gyre_cache.h"
#include "model/layer_tables.h"
#include "model/network.h"

enum { GYRE_PREFILL_CHUNK = 512 }; /* tokens in a pass: enough for the matrix products, little enough to stay in cache */

/* What a pass computes, [rows] of each. */
typedef struct gyre_forward_buffers {
    float *x, *norm;          /* [width] */
    float *qkv;               /* [query, key and value heads, head_dim], as the network places them */
    float *attn_out;          /* [heads][head_dim]: attention's out */
    float *block_out;         /* [width]: of a block, where it is not added to x at once */
    float *gate_up, *mlp_act; /* [hidden], twice that for up where it is gated; [hidden] */
    float *gemm_scratch;      /* scratch of gyre_gemm_run */
    void *attn_scratch;       /* scratch of gyre_cache_attention */
    size_t attn_scratch_bytes;
} gyre_forward_buffers;

struct gyre_context {
    const gyre_model *model;
    const gyre_network *net;
    const gyre_kernels *kernels;
    const gyre_encoding *encoding; /* of the main group and those that share it; others have the network's */
    gyre_layer_tables tables;      /* of a model made here */
    const gyre_exec *exec;
    int64_t max_tokens, qkv_dim;
    int64_t tokens, cached; /* read; of those, in the cache: the next one's position */
    int64_t sinks, window;  /* gyre_context_stream; window 0 = all are held */
    int64_t length;         /* in use of the tokens being read; 0 = the encoding's own, or each token's */
    gyre_cache **cache;     /* [layers], of one sequence; keys raw: they are turned when read, at any length */
    float *memory;
    int64_t memory_floats;
    gyre_forward_buffers buffers;
};

/* out = the encoding that layers of a group have. */
static inline const gyre_encoding *gyre_context_encoding(const gyre_context *x, int group) {
    return x->net->group[group].shares_main ? x->encoding : x->net->group[group].encoding;
}

/* Computes `rows` tokens whose embeddings are in x->pass.x, after x->held.  wanted: 0 = the last layer only stores its keys
 * and values. */
gyre_status gyre_context_forward_layers(gyre_context *x, int64_t rows, int wanted);
/* x->pass.x = embeddings of tokens, positions added where the input has them. */
gyre_status gyre_context_embed(gyre_context *x, const int32_t *tokens, int64_t rows);
/* logits[wanted][vocab] of the last rows of x->pass.x. */
void gyre_context_logits(gyre_context *x, int64_t rows, int64_t wanted, float *logits);
/* The attention of a layer over `rows` queries, the last of `tokens`. */
gyre_attention_args gyre_context_attention_args(const gyre_context *x, int64_t layer, int64_t rows, int64_t tokens);

#endif

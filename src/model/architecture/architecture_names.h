/* architecture_names.h: how each way to name tensors calls them, and the families that use it. */
#ifndef GYRE_MODEL_ARCHITECTURE_NAMES_H
#define GYRE_MODEL_ARCHITECTURE_NAMES_H
#include "model/architecture/architecture.h"

/* What is peculiar to a family's config.json. */
enum {
    GYRE_TAKES_BIAS_FLAGS = 1, /* attention_bias and mlp_bias say whether there are any */
    GYRE_SOFTCAPS = 2,         /* attn_logit_softcapping, final_logit_softcapping */
    GYRE_SCALED_EMBEDDING = 4, /* by the root of the width */
    GYRE_GRANITE_SCALES = 8,   /* embedding_multiplier, residual_multiplier, logits_scaling */
    GYRE_PARALLEL_FLAG = 16,   /* use_parallel_residual */
    GYRE_MPT_KEYS = 32,        /* attn_config, expansion_ratio */
    GYRE_LOGIT_SCALE = 64,     /* logit_scale: cohere */
    GYRE_USE_BIAS = 128,       /* use_bias: starcoder2; use_qkv_bias: stablelm */
    GYRE_HEAD_NORMS = 256,     /* of queries and keys */
    GYRE_BOTH_NORMS = 512      /* also where the blocks are parallel */
};

typedef struct gyre_family_row {
    const char *type; /* model_type, or general.architecture */
    const char *const *names;
    const char *prefix;
    gyre_norm_kind norm;
    gyre_activation activation;
    double gain_offset;
    double epsilon;
    unsigned traits;
    unsigned biases; /* bits of the roles that always have one */
    int gated, parallel, post_norms, transposed, tied;
    gyre_fused fused;
} gyre_family_row;

/* Of every map and norm that layers have. */
#define GYRE_BIT(role) (1u << GYRE_ROLE_##role)
#define GYRE_ALL_BIASES                                                                                                     \
    (GYRE_BIT(QKV) | GYRE_BIT(Q) | GYRE_BIT(K) | GYRE_BIT(V) | GYRE_BIT(O) | GYRE_BIT(LAST_NORM) | GYRE_BIT(NORM1) |        \
     GYRE_BIT(NORM2) | GYRE_BIT(UP) | GYRE_BIT(DOWN))

/* out = the row of a model_type, or NULL. */
const gyre_family_row *gyre_family_row_of(const char *model_type);
/* out = the row of a general.architecture, or NULL. */
const gyre_family_row *gyre_family_row_of_gguf(const char *architecture);
/* *a = what the row says, sizes unset. */
void gyre_architecture_from_row(gyre_architecture *a, const gyre_family_row *row);
/* out = "llama, mistral, ...": for messages. */
const char *gyre_family_list(int of_gguf);

#endif

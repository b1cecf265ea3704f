/* fuzz_family.h: a small decoder of any family that Gyre runs, chosen by the bytes of an input: its config, its tensors and
 * what they compute, as the families' own programs (transformers, llama.cpp) define it. */
#ifndef GYRE_FUZZ_FAMILY_H
#define GYRE_FUZZ_FAMILY_H
#include "fuzz_bytes.h"
#include "gyre/gyre.h"

enum { FAMILY_LAYERS = 3, FAMILY_TENSORS = 96, FAMILY_CONFIG_BYTES = 4096, FAMILY_POSITIONS = 32, FAMILY_PAIRS = 16 };

/* What a tensor is for. */
typedef enum family_role {
    FAMILY_EMBEDDING,
    FAMILY_TABLE, /* of positions, added at the input */
    FAMILY_EMBED_NORM,
    FAMILY_FINAL_NORM,
    FAMILY_HEAD,
    FAMILY_ATTN_NORM, /* from here on one in each layer */
    FAMILY_MLP_NORM,
    FAMILY_POST_ATTN_NORM,
    FAMILY_POST_MLP_NORM,
    FAMILY_QUERY_NORM,
    FAMILY_KEY_NORM,
    FAMILY_QKV,
    FAMILY_Q,
    FAMILY_K,
    FAMILY_V,
    FAMILY_O,
    FAMILY_GATE_UP,
    FAMILY_GATE,
    FAMILY_UP,
    FAMILY_DOWN,
    FAMILY_ROLES
} family_role;

enum {
    FAMILY_LAYER_NORM = 1, /* LayerNorm; without it RMSNorm */
    FAMILY_NORM_BIASES = 2,
    FAMILY_QKV_BIASES = 4,
    FAMILY_O_BIAS = 8,
    FAMILY_MLP_BIASES = 16,
    FAMILY_HEAD_BIAS = 32,
    FAMILY_GATED = 64,
    FAMILY_PARALLEL = 128,    /* attention and mlp read the same x */
    FAMILY_SECOND_NORM = 256, /* the mlp has a norm of its own there too */
    FAMILY_POST_NORMS = 512,
    FAMILY_NO_PRE_NORMS = 1024,
    FAMILY_QK_NORMS = 2048, /* of each head; of all heads at once with NO_PRE_NORMS */
    FAMILY_FUSED_QKV = 4096,
    FAMILY_QKV_BY_HEAD = 8192, /* rows of query, key and value of head 0, then of head 1, ... */
    FAMILY_FUSED_UP = 16384,   /* gate and up in one */
    FAMILY_TIED = 1 << 15,     /* the class's default: no lm_head */
    FAMILY_GAIN_ONE = 1 << 16, /* gains are stored without their 1 */
    FAMILY_SCALED = 1 << 17,   /* embeddings times sqrt(width) */
    FAMILY_ADJACENT = 1 << 18, /* pairs of adjacent channels; without it halves */
    FAMILY_ALIBI = 1 << 19,
    FAMILY_INPUT_TABLE = 1 << 20,
    FAMILY_EMBEDS_NORM = 1 << 21,
    FAMILY_SIDEWAYS = 1 << 22,     /* matrices of layers are stored [in, out] */
    FAMILY_PARTIAL = 1 << 23,      /* a part of the channels may rotate */
    FAMILY_ALL_HEADS = 1 << 24,    /* as many key heads as query heads */
    FAMILY_OWN_HEAD_DIM = 1 << 25, /* head_dim may be other than width / heads */
    FAMILY_BIAS_FLAGS = 1 << 26,   /* attention_bias */
    FAMILY_SOFTCAPS = 1 << 27,
    FAMILY_GELU = 1 << 28,
    FAMILY_GELU_TANH = 1 << 29 /* without both SiLU */
};

typedef enum family_activation { FAMILY_IS_SILU, FAMILY_IS_GELU, FAMILY_IS_GELU_TANH, FAMILY_IS_RELU } family_activation;
typedef enum family_scaling {
    FAMILY_UNSCALED,
    FAMILY_LINEAR,
    FAMILY_YARN,
    FAMILY_LLAMA3,
    FAMILY_DYNAMIC,
    FAMILY_LONGROPE,
    FAMILY_SCALINGS
} family_scaling;

typedef struct family_kind family_kind; /* a row of fuzz_family.c */
extern const int fuzz_families;         /* rows */

typedef struct family_tensor {
    char name[96];
    char dtype[8]; /* as safetensors name it, or "Q8_0" */
    family_role role;
    int layer, bias, rank, kept; /* layer -1 = none; kept: 0 = left out of the file */
    int64_t shape[4], count;     /* slowest first */
    double *values;              /* [count], each exact in F32, F16, BF16 and, with `exponent`, in Q8_0 */
    int exponent;                /* values are whole numbers times 2^-exponent */
} family_tensor;

typedef struct family_model {
    const family_kind *kind;
    const char *name; /* model_type or general.architecture */
    int gguf;         /* described as llama.cpp does */
    unsigned traits;
    int64_t vocab, width, layers, heads, kv_heads, head_dim, mlp_dim, rotated, positions;
    family_activation activation;
    family_scaling scaling;
    double epsilon, base, factor, embed_scale, residual_scale, logit_scale, attn_scale, attn_softcap, logit_softcap, clip,
        bias_max;
    struct {
        int rotates;
        int64_t window;      /* 0 = none */
        double base, factor; /* of a linear scaling */
        int scaled;          /* 1: frequencies below, of another scaling */
    } layer[FAMILY_LAYERS];
    double frequencies[FAMILY_PAIRS], attention_factor; /* of every other scaling: not this file's subject */
    int has_head;                                       /* 1: a head of its own */
    char config[FAMILY_CONFIG_BYTES];                   /* config.json */
    size_t config_bytes;
    family_tensor tensor[FAMILY_TENSORS];
    int tensors;
} family_model;

/* *m = a model, all of it chosen by the bytes. */
void fuzz_family_choose(family_model *m, fuzz_bytes *b);
void fuzz_family_free(family_model *m);
/* out = the tensor of that role, NULL = the model has none. */
family_tensor *fuzz_family_find(family_model *m, family_role role, int layer, int bias);
/* out[96] = the name of a tensor in another family's files. */
void fuzz_family_name(const char *type, int gguf, const family_tensor *t, char out[96]);

/* Sets m->config from all else (fuzz_family_files.c). */
void fuzz_family_describe(family_model *m);
/* Writes, into the folder of fuzz_path, NAME/config.json and NAME/model.safetensors, or the file NAME, a GGUF.  cut: bytes
 * left out at the end. */
void fuzz_family_write(const family_model *m, const char *name, size_t cut);

/* logits[tokens][vocab] in double (fuzz_family_decoder.c).  shake: weights are multiplied by 1 +- 2^-22, which tells how far
 * roundings may reach. */
void fuzz_family_logits(family_model *m, const int32_t *ids, int64_t tokens, int shake, double *logits);

#endif

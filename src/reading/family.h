/* family.h: the defaults of each model_type that config.json leaves out, and the function that reads it. */
#ifndef GYRE_READING_FAMILY_H
#define GYRE_READING_FAMILY_H
#include "reading/json_scope.h"

/* Peculiarities of families that the readers handle.  Most families have none. */
enum {
    GYRE_NO_ROPE_LAYERS = 1, /* some layers have no positions: llama4, smollm3 (no_rope_layers, no_rope_layer_interval) */
    GYRE_SLIDING_ROPE = 2,   /* only sliding layers rotate: cohere2, exaone4, afmoe */
    GYRE_MLA = 4,            /* latent attention: qk_rope_head_dim channels rotate, YaRN also scales the softmax: deepseek */
    GYRE_DUAL_BASE = 8,      /* rope_local_base_freq for sliding layers: gemma3, modernbert */
    GYRE_MROPE_CHUNKED = 16, /* mrope_section assigns pairs to axes in blocks: qwen2_vl */
    GYRE_MROPE_INTERLEAVED = 32,          /* ... alternately: qwen3_vl */
    GYRE_YARN_IS_LONGROPE = 64,           /* types su and yarn both mean longrope: phi3 */
    GYRE_WHOLE_HEAD = 128,                /* partial_rotary_factor is ignored: most classes modelled on Llama */
    GYRE_TEXT_CONFIG = 256,               /* text_config describes the decoder */
    GYRE_SCALING_FULL_ONLY = 512,         /* rope_scaling applies to full_attention layers only: olmo3 */
    GYRE_QUERY_PRE_ATTN_SCALAR = 1024,    /* scores are multiplied by query_pre_attn_scalar^-0.5: gemma2, gemma3 */
    GYRE_UNIT_SCALE = 2048,               /* ... by 1: gemma3n, gemma4 */
    GYRE_MROPE_ERNIE = 4096,              /* mrope_section assigns pairs as only ernie4_5_vl_moe does */
    GYRE_LLAMA4_SCALING_BETA = 8192,      /* llama_4_scaling_beta in the rotation's object: ministral3, mistral4 */
    GYRE_ATTN_TEMPERATURE_TUNING = 16384, /* attn_temperature_tuning in layers that do not rotate: llama4 */
    GYRE_XDROPE = 32768,                  /* the two channels of a pair may rotate along different axes: hunyuan_vl */
    GYRE_HF_PLAIN_ROPE = 65536,           /* base 10000 and no scalings in transformers, whatever the file says: gptj */
    GYRE_VLLM_PLAIN_ROPE = 131072,        /* ... in vLLM: chatglm */
    GYRE_HF_4_UNSCALED = 262144,          /* no scalings in transformers 4: nemotron */
    GYRE_OLDER_NAMES = 524288,            /* rotary_emb_base and rotary_pct, but not rope_theta and partial_rotary_factor */
    GYRE_LAYER_THETA = 1 << 20,           /* layer_rope_theta, where 0 = the layer does not rotate: muse, granite_swa */
    GYRE_CROSS_LAYERS = 1 << 21,          /* cross_attention_layers, which do not rotate: mllama */
    GYRE_NEVER_ROTATES = 1 << 22,         /* latent attention without positions, whatever the file says: kimi_linear */
    GYRE_WIDE_FULL_LAYERS = 1 << 23,      /* full layers have heads of 512, and the last layer is full: gemma4 */
    GYRE_INDEXER = 1 << 24,               /* an indexer rotates the first channels of its heads, paired as in attention */
    GYRE_INDEXER_HALF = 1 << 25,          /* ... but pairs halves: deepseek_v32 */
    GYRE_INDEXER_LAST = 1 << 26,          /* ... the last channels: hy_v4, deepseek_v4 */
    GYRE_WHOLE_HEAD_UNSCALED = 1 << 27    /* transformers 5 ignores partial_rotary_factor if nothing is scaled: minimax */
};

typedef struct gyre_family gyre_family;
/* Adds a model's groups to the build of the scope's source.  root: the object that describes the model or sub-model. */
typedef void gyre_family_read(const gyre_family *family, const gyre_scope *root);

struct gyre_family {
    const char *model_type;
    gyre_family_read *read;
    double base;                  /* default of rope_theta; 0 = 10000 */
    double partial_rotary_factor; /* default fraction of the head that rotates; 0 = 1 */
    int64_t positions;            /* default of max_position_embeddings; 0 = required */
    int64_t head_dim;             /* default of head_dim; 0 = model_dim / heads */
    gyre_layout layout;
    unsigned traits;
};

/* out = the family, or NULL. */
const gyre_family *gyre_family_of(const char *model_type);
/* out = family i, from 0; NULL past the last. */
const gyre_family *gyre_family_at(size_t i);
/* out = the base of the class in transformers 5, where it is not that of version 4; else 0. */
double gyre_family_hf_5_base(const gyre_family *family);
/* out = 1 if the classes of transformers rotate the whole head where no file says otherwise, although the models' own code
 * and other programs rotate the family's share. */
int gyre_family_hf_rotates_all(const gyre_family *family);
/* out = 1 for what stands in for a model_type that is not in the table.  All keys are read for it that any family has. */
int gyre_family_is_assumed(const gyre_family *family);

/* Readers, and the files they are in. */
gyre_family_read gyre_read_rope;   /* read_rope.c: rotations, for every profile */
gyre_family_read gyre_read_nope;   /* read_rope.c: no positions, whatever the file says */
gyre_family_read gyre_read_native; /* read_native.c: model_type gyre */
/* The group of the first layer that rotates, and of those with its base, if layers of a gyre differ; else it is "all". */
#define GYRE_NATIVE_ROTATES "full_attention"
gyre_family_read gyre_read_learned; /* read_input_tables.c: gpt2, opt, bart, clip */
gyre_family_read gyre_read_gpt_neo;
gyre_family_read gyre_read_sinusoidal; /* marian, m2m_100 */
gyre_family_read gyre_read_learned_or_sinusoidal;
gyre_family_read gyre_read_whisper;
gyre_family_read gyre_read_musicgen;
gyre_family_read gyre_read_bert;     /* read_bert.c: also roberta, electra, esm */
gyre_family_read gyre_read_alibi;    /* read_alibi.c: bloom */
gyre_family_read gyre_read_mpt;      /* slopes, a table or a rotation */
gyre_family_read gyre_read_falcon;   /* slopes, or passed on to gyre_read_rope */
gyre_family_read gyre_read_baichuan; /* slopes, or passed on to gyre_read_rope */
gyre_family_read gyre_read_jais;
gyre_family_read gyre_read_t5; /* read_relative.c: this and the following */
gyre_family_read gyre_read_mpnet;
gyre_family_read gyre_read_deberta;
gyre_family_read gyre_read_nezha;
gyre_family_read gyre_read_transformer_xl;
gyre_family_read gyre_read_xlnet;
gyre_family_read gyre_read_inkling;
gyre_family_read gyre_read_conformer; /* wav2vec2-bert, wav2vec2-conformer */
/* read_vision.c: reads the tower under vision_config into a group "vision".  Warns about an unknown tower.  Never fails. */
void gyre_read_vision(const gyre_scope *vision);
/* A file that describes a tower alone, or a model with a scheme that Gyre does not have.  out = 0 if it is neither.  Fails
 * with what the model does, if Gyre cannot compute it. */
int gyre_read_tower_alone(const gyre_scope *s);
/* read_diffusers.c: the config of a transformer of diffusers, which states a _class_name.  out = 0 if there is none. */
int gyre_read_diffusers(const gyre_scope *s);

/* unread_keys.c: after the readers: warns about each key that has the name of a position's and that none looked up. */
void gyre_warn_unread_keys(const gyre_json_source *source, const json_t *root);
/* out = 1 if the name of a key has a word of positions. */
int gyre_is_position_name(const char *key);
/* out = 1 if the number of a key was read from another key, or is the default anyway: the key says the same again. */
int gyre_is_said_elsewhere(const gyre_reading *reading, const char *key, double number);
/* Reads a config.json: finds the family, descends into text_config and vision_config, and calls the reader. */
void gyre_read_config_json(const gyre_json_source *source, const json_t *root);
/* read_gguf.c: reads a GGUF file in memory. */
void gyre_read_gguf(gyre_build *build, const unsigned char *bytes, size_t size, int mapped);

#endif

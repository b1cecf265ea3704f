/* family.h: what config.json leaves unsaid for each model_type, and who reads it. */
#ifndef GYRE_READING_FAMILY_H
#define GYRE_READING_FAMILY_H
#include "reading/json_scope.h"

/* Peculiarities that a reader of rotations has to know of; most families have none. */
enum {
    GYRE_NO_ROPE_LAYERS = 1, /* some layers have no positions: llama4, smollm3 (no_rope_layers, no_rope_layer_interval) */
    GYRE_SLIDING_ROPE = 2,   /* only sliding layers turn: cohere2, exaone4 */
    GYRE_MLA = 4,            /* latent attention: qk_rope_head_dim turns, YaRN adds to the softmax: deepseek */
    GYRE_DUAL_BASE = 8,      /* rope_local_base_freq for sliding layers: gemma3, modernbert */
    GYRE_MROPE_CHUNKED = 16, /* mrope_section deals out pairs in blocks: qwen2_vl */
    GYRE_MROPE_INTERLEAVED = 32,          /* ... in turn: qwen3_vl */
    GYRE_YARN_IS_LONGROPE = 64,           /* types su and yarn both mean longrope: phi3 */
    GYRE_WHOLE_HEAD = 128,                /* partial_rotary_factor is not looked at: most classes written like Llama's */
    GYRE_TEXT_CONFIG = 256,               /* the decoder is described in text_config */
    GYRE_SCALING_FULL_ONLY = 512,         /* rope_scaling speaks of full_attention layers alone: olmo3 */
    GYRE_QUERY_PRE_ATTN_SCALAR = 1024,    /* scores are multiplied by query_pre_attn_scalar^-0.5: gemma2, gemma3 */
    GYRE_UNIT_SCALE = 2048,               /* ... by 1: gemma3n, gemma4 */
    GYRE_MROPE_ERNIE = 4096,              /* mrope_section deals out pairs as only ernie4_5_vl_moe does */
    GYRE_LLAMA4_SCALING_BETA = 8192,      /* llama_4_scaling_beta in the rotation's object: ministral3, mistral4 */
    GYRE_ATTN_TEMPERATURE_TUNING = 16384, /* attn_temperature_tuning where nothing turns: llama4 */
    GYRE_XDROPE = 32768                   /* two channels of a pair may turn along different axes: hunyuan_vl */
};

typedef struct gyre_family gyre_family;
/* Adds the groups of a model to the build of the scope's source.  Root: of the model or sub-model. */
typedef void gyre_family_read(const gyre_family *family, const gyre_scope *root);

struct gyre_family {
    const char *model_type;
    gyre_family_read *read;
    double base;                  /* rope_theta where none is given; 0 = 10000 */
    double partial_rotary_factor; /* share of the head that turns where none is given; 0 = 1 */
    int64_t positions;            /* max_position_embeddings where none is given; 0 = it must be */
    int64_t head_dim;             /* where no head_dim is given; 0 = the width over the heads */
    gyre_layout layout;
    unsigned traits;
};

/* out = the family, or NULL. */
const gyre_family *gyre_family_of(const char *model_type);
/* out = the i-th, from 0; NULL past the last. */
const gyre_family *gyre_family_at(size_t i);

/* Who reads: each in a file of its own. */
gyre_family_read gyre_read_rope;    /* read_rope.c: rotations, under every profile */
gyre_family_read gyre_read_nope;    /* there too: no positions, whatever the file says */
gyre_family_read gyre_read_native;  /* read_native.c: model_type gyre */
gyre_family_read gyre_read_learned; /* read_input_tables.c: gpt2, opt, bart, clip */
gyre_family_read gyre_read_gpt_neo;
gyre_family_read gyre_read_sinusoidal; /* marian, m2m_100 */
gyre_family_read gyre_read_learned_or_sinusoidal;
gyre_family_read gyre_read_whisper;
gyre_family_read gyre_read_musicgen;
gyre_family_read gyre_read_bert;     /* read_bert.c: roberta, electra, esm too */
gyre_family_read gyre_read_alibi;    /* read_alibi.c: bloom */
gyre_family_read gyre_read_mpt;      /* with slopes, a table or a rotation */
gyre_family_read gyre_read_falcon;   /* with slopes, or on to gyre_read_rope */
gyre_family_read gyre_read_baichuan; /* the same */
gyre_family_read gyre_read_jais;
gyre_family_read gyre_read_t5; /* read_relative.c from here */
gyre_family_read gyre_read_mpnet;
gyre_family_read gyre_read_deberta;
gyre_family_read gyre_read_nezha;
gyre_family_read gyre_read_transformer_xl;
gyre_family_read gyre_read_xlnet;
/* read_vision.c: the tower under vision_config, as a group "vision"; a warning where it is not known.  Never fails. */
void gyre_read_vision(const gyre_scope *vision);

/* config.json: finds the family, looks into text_config and vision_config, and reads them. */
void gyre_read_config_json(const gyre_json_source *source, const json_t *root);
/* read_gguf.c: the same for a GGUF file in memory. */
void gyre_read_gguf(gyre_build *build, const unsigned char *bytes, size_t size, int mapped);

#endif

/* gguf_source.h: a GGUF file being read.  Keys are named by what follows the architecture's name; traits of the
 * architecture supply what the engine's code adds. */
#ifndef GYRE_READING_GGUF_SOURCE_H
#define GYRE_READING_GGUF_SOURCE_H
#include "files/gguf.h"
#include "reading/reading_build.h"

/* gguf_architectures.def lists the type of each architecture. */
typedef enum gyre_gguf_position_type {
    GYRE_GGUF_NORM,
    GYRE_GGUF_NEOX,
    GYRE_GGUF_MROPE,
    GYRE_GGUF_IMROPE,
    GYRE_GGUF_LEARNED,
    GYRE_GGUF_ALIBI,
    GYRE_GGUF_BUCKETS,
    GYRE_GGUF_NONE
} gyre_gguf_position_type;
enum {
    GYRE_GGUF_WHOLE_HEAD = 1 << 0, /* refuses rope.dimension_count below the head's size */
    GYRE_GGUF_CHUNKED =
        1 << 1, /* chunks instead of a sliding window: only positions in the same multiple of it see each other */
    GYRE_GGUF_NOPE_EVERY_FOURTH = 1 << 2, /* layers 3, 7, 11, ... do not rotate */
    GYRE_GGUF_SLIDING_ROPE = 1 << 3,      /* if any layers have a window, only those rotate */
    GYRE_GGUF_DENSE_FIRST = 1 << 4,       /* the first layer of a period is the one without a window */
    GYRE_GGUF_SLIDING_BASE = 1 << 5,      /* layers with a window: base 10000 if not given, no factor */
    GYRE_GGUF_SLIDING_UNSCALED = 1 << 6,  /* ... the same base, no factor, no attention factor */
    GYRE_GGUF_WINDOW_4096 = 1 << 7,       /* default window */
    GYRE_GGUF_WINDOW_AT_64 = 1 << 8,      /* has a window only with 64 layers */
    GYRE_GGUF_READS_BETAS = 1 << 9,       /* rope.scaling.yarn_beta_fast, _slow */
    GYRE_GGUF_READS_EXT = 1 << 10,        /* rope.scaling.yarn_ext_factor, yarn_attn_factor */
    GYRE_GGUF_BETA_FAST_8 = 1 << 11,      /* default beta_fast */
    GYRE_GGUF_READS_LOG_MULTIPLIER = 1 << 12,
    GYRE_GGUF_LOG_MULTIPLIER_TENTH = 1 << 13,        /* stored as a tenth of mscale_all_dim */
    GYRE_GGUF_MSCALE_IS_ALL_DIM = 1 << 14,           /* mscale is taken for mscale_all_dim, so their ratio is 1 */
    GYRE_GGUF_SCALES_SOFTMAX = 1 << 15,              /* scores are also multiplied by the square of YaRN's factor */
    GYRE_GGUF_ROTARY_LAST = 1 << 16,                 /* the last channels of the head rotate: latent attention */
    GYRE_GGUF_TEMPERATURE_ORIGINAL_LENGTH = 1 << 17, /* temperature_scale, over the original length */
    GYRE_GGUF_TEMPERATURE_KEYS = 1 << 18,            /* temperature_scale and temperature_length */
    GYRE_GGUF_READS_FINETUNED = 1 << 19,             /* rope.scaling.finetuned false: nothing rotates */
    GYRE_GGUF_ALIBI_AT_40 = 1 << 20,                 /* ALiBi if it has 40 layers */
    GYRE_GGUF_OPTIONAL_SECTIONS = 1 << 21,           /* several axes if there are sections */
    GYRE_GGUF_GEMMA_SCALE = 1 << 22,                 /* scores of the largest model are divided by sqrt(embedding / heads) */
    GYRE_GGUF_SCALE_ONE = 1 << 23,                   /* scores are not divided */
    GYRE_GGUF_DIVISORS_FULL_ONLY = 1 << 24,          /* rope_freqs.weight applies to layers without a window */
    GYRE_GGUF_TRUNCATE_FALSE = 1 << 25,              /* trained with a ramp whose ends are not rounded */
    GYRE_GGUF_READS_MAX_BIAS = 1 << 26,              /* attention.max_alibi_bias, else 8 */
    GYRE_GGUF_ENCODER_DECODER = 1 << 27,
    GYRE_GGUF_ATTENTION_EVERY_FOURTH = 1 << 28, /* layers 3, 7, 11, ... attend, the others are recurrent */
    GYRE_GGUF_HALF_WHERE_FULL = 1 << 29,        /* layers without a window rotate half of rope.dimension_count */
    GYRE_GGUF_LAYOUT_ONLY = 1 << 30,            /* of its code, only the layout of pairs is known here */
    GYRE_GGUF_MLA_YARN = GYRE_GGUF_ROTARY_LAST | GYRE_GGUF_SCALES_SOFTMAX | GYRE_GGUF_READS_LOG_MULTIPLIER |
                         GYRE_GGUF_LOG_MULTIPLIER_TENTH /* DeepSeek-V2 and later */
};
typedef struct gyre_gguf_architecture {
    const char *name;
    int64_t period;
    gyre_gguf_position_type pairs;
    unsigned traits;
} gyre_gguf_architecture;

/* read_gguf.c.  out = NULL for an unknown architecture.  - and _ are alike: programs and papers write either. */
const gyre_gguf_architecture *gyre_gguf_architecture_named(const char *name);

typedef struct gyre_gguf_source {
    gyre_build *build;
    const gyre_gguf *file;
    gyre_gguf_architecture architecture;
    char name[64];           /* as the file spells it */
    int reference;           /* 1 = as in the papers, 0 = as llama.cpp */
    int64_t blocks;          /* layers; 0 = not given */
    int64_t context;         /* context_length */
    int64_t original_length; /* rope.scaling.original_context_length, else context */
    int64_t embedding, heads;
    unsigned char *was_read; /* [file->kv_count], 1 for keys that were looked up; NULL = not wanted */
    int rotates_nothing;     /* by its architecture: keys of a rotation are about nothing */
} gyre_gguf_source;

/* -- gguf_keys.c: suffix = what follows "ARCHITECTURE." -- */
/* out = the key, or NULL.  It counts as read. */
const gyre_gguf_kv *gyre_gguf_find_arch_key(const gyre_gguf_source *s, const char *suffix);
/* out = where the key is, or would be. */
gyre_place gyre_gguf_place(const gyre_gguf_source *s, const char *suffix);
/* out = an integer from `minimum` to 2^53, or the largest of an array with one per layer: head counts may differ,
 * everything else must agree.  fallback: without the key; -1 = required. */
int64_t gyre_gguf_read_size(const gyre_gguf_source *s, const char *suffix, int64_t minimum, int64_t fallback);
/* out = a finite number; fallback if there is none. */
double gyre_gguf_read_real(const gyre_gguf_source *s, const char *suffix, double fallback);
int gyre_gguf_read_flag(const gyre_gguf_source *s, const char *suffix, int fallback);
void gyre_gguf_fail(const gyre_gguf_source *s, gyre_status status, const char *suffix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void gyre_gguf_warn(const gyre_gguf_source *s, const char *suffix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Records a number as a field of the group: read from the file if the key exists (printed with a float's own digits),
 * else of `origin`. */
void gyre_gguf_note_number(const gyre_gguf_source *s, gyre_layer_group *group, const char *field, const char *suffix,
                           gyre_origin origin, double value, const char *why);

/* -- gguf_rope.c -- */
/* Sets the group's config to the rotation of layers with a window (sliding = 1) or of the others, and records its
 * fields. */
void gyre_gguf_read_rotation(const gyre_gguf_source *s, gyre_layer_group *group, int sliding);
/* Warns about rotation keys that some other architectures read. */
void gyre_gguf_warn_rotation(const gyre_gguf_source *s);

/* -- gguf_unread_keys.c -- */
/* After the readers: warns about each key of the architecture that has the name of a position's and that none looked up. */
void gyre_gguf_warn_unread_keys(const gyre_gguf_source *s);

#endif

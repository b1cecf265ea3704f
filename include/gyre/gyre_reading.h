/* gyre_reading.h: the positions that a model's config.json or GGUF describes, as a given program reads it.
 *
 *     config.json or GGUF  --gyre_reading_open, as hf-5 / vllm / llama.cpp / ...-->  gyre_reading
 *         groups of layers: a gyre_config each, and every value with the key and line it comes from
 *
 * libgyre_reading needs only libgyre and jansson.  The conventions of gyre.h hold.  Unstable until 1.0. */
#ifndef GYRE_READING_H
#define GYRE_READING_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- profiles -- */
/* The program whose reading is used: programs and versions derive different frequencies from one config. */
typedef enum gyre_profile {
    GYRE_PROFILE_DEFAULT, /* HF_5 for a config.json, LLAMA_CPP for a GGUF */
    GYRE_PROFILE_HF_5,    /* transformers 5 */
    GYRE_PROFILE_HF_4_56, /* transformers 4.56 and 4.57: only rope_scaling; YaRN reads truncate */
    GYRE_PROFILE_HF_4_51, /* 4.51 to 4.54: YaRN's factor is the ratio of the lengths if the original length is given */
    GYRE_PROFILE_HF_4_43, /* 4.43 to 4.50: YaRN's ramp spans max_position_embeddings; only Phi-3's classes use LongRoPE's
                             * long list */
    GYRE_PROFILE_VLLM_2026_05, /* vLLM before its YaRN became that of transformers */
    GYRE_PROFILE_LLAMA_CPP,    /* of August 2026; for a config.json: its converter followed by its engine */
    GYRE_PROFILE_REFERENCE,    /* the papers and their authors' code, on every key in the file */
    GYRE_PROFILE_HF_4_55,      /* as 4.51, and YaRN reads truncate */
    GYRE_PROFILE_VLLM_2026_09, /* vLLM of September 2026, which needs transformers 5 */
    GYRE_PROFILE_SGLANG,       /* SGLang of September 2026 */
    GYRE_PROFILE_MLX_LM,       /* mlx-lm of August 2026 */
    /* Trainers, whose settings are read instead of a model's files: the rotation only. */
    GYRE_PROFILE_MEGATRON,      /* arguments, a script with them, or YAML; August 2026 */
    GYRE_PROFILE_TORCHTITAN,    /* Python with calls of ComplexRoPE.Config or CosSinRoPE.Config; August 2026 */
    GYRE_PROFILE_AXOLOTL,       /* YAML, and the config.json that it names; July 2026 */
    GYRE_PROFILE_LLAMA_FACTORY, /* YAML, and the config.json that it names; August 2026 */
    GYRE_PROFILE_NANOTRON,      /* YAML; April 2026 */
    GYRE_PROFILE_VLLM = GYRE_PROFILE_VLLM_2026_09 /* the newest */
} gyre_profile;
/* out = "hf-5", "vllm-2026.09", ...: its name in the command; NULL for DEFAULT and past the last. */
GYRE_API const char *gyre_profile_name(gyre_profile profile);
/* out = the name without a date, under which the command takes the newest profile of a program: "vllm"; NULL if there is
 * none. */
GYRE_API const char *gyre_profile_alias(gyre_profile profile);
/* out = the program and its version in words, such as "vLLM of September 2026"; NULL for DEFAULT and past the last. */
GYRE_API const char *gyre_profile_title(gyre_profile profile);
/* out = 1 for a trainer, whose settings are read instead of a model's files. */
GYRE_API int gyre_profile_is_trainer(gyre_profile profile);
/* out = the profile of this name or alias; GYRE_PROFILE_DEFAULT for any other text. */
GYRE_API gyre_profile gyre_profile_find(const char *name);

/* -- what was read -- */
/* The origin of a value. */
typedef enum gyre_origin {
    GYRE_ORIGIN_FILE,   /* a key of the file */
    GYRE_ORIGIN_FAMILY, /* the default of this model_type */
    GYRE_ORIGIN_READER, /* the default of the program, for any model */
    GYRE_ORIGIN_DERIVED /* computed from other values */
} gyre_origin;
/* One value.  Names are the same in every reading, so that two readings can be compared; docs/models.md lists them. */
typedef struct gyre_reading_field {
    const char *name, *value; /* "factor", "4" */
    gyre_origin origin;
    const char *key;  /* "rope_scaling.factor", in a GGUF "llama.rope.scaling.factor"; NULL = none */
    int64_t line;     /* of the key, from 1; 0 = none, or the file has no lines */
    uint64_t offset;  /* of the key, in bytes; 0 = none */
    const char *note; /* how and why the program departs from the key; NULL = it does not */
} gyre_reading_field;
/* What a warning is about. */
typedef enum gyre_warning_kind {
    GYRE_WARNING_OTHER,      /* a value that makes no sense, a known trap, a program that departs from the file */
    GYRE_WARNING_UNREAD_KEY, /* a key with the name of a position's, from which nothing was read */
    GYRE_WARNING_ASSUMED     /* something that the file does not state and that was assumed, such as the layout of pairs */
} gyre_warning_kind;
/* A warning for the user. */
typedef struct gyre_reading_warning {
    const char *text; /* "what: why", without the place */
    const char *key;  /* as in gyre_reading_field */
    int64_t line;
    uint64_t offset;
    gyre_warning_kind kind;
} gyre_reading_warning;

/* The positions of one group of layers. */
typedef struct gyre_layer_reading {
    const char *name;      /* "full_attention", "encoder", "nope", "vision", ...; "all" if all layers agree */
    const int64_t *layers; /* [layers_count] indices from 0; layers_count 0 = not in the file */
    int64_t layers_count;
    double scale;              /* the whole factor of scores; 0 = 1 / sqrt(config.head_dim) */
    double softmax_multiplier; /* the part of it from a scaling (YaRN with latent attention); 1 = none */
    int64_t window;            /* keys that a query sees, itself included; 0 = all */
    const gyre_reading_field *fields;
    int64_t fields_count;
    gyre_config config; /* for gyre_encoding_create; its arrays are valid as long as the reading */
} gyre_layer_reading;

/* A file, read.  Never changes; threads may share it.  The library owns it and all it points to. */
typedef struct gyre_reading {
    const char *path;                        /* as given, or of the config.json in the given folder */
    const char *format;                      /* "config.json", "GGUF", or "settings" of a trainer */
    const char *model_type;                  /* or general.architecture; "" if there is none */
    gyre_profile profile;                    /* never DEFAULT */
    int64_t context_length;                  /* as requested; 0 = none */
    const gyre_layer_reading *const *groups; /* [groups_count] */
    int64_t groups_count; /* at least 1.  The first is the group with positions that has the most layers */
    const gyre_reading_warning *warnings;
    int64_t warnings_count;
} gyre_reading;

/* -- reading and writing -- */
/* Options of reading a file.  NULL in a call = zeros. */
typedef struct gyre_reading_options {
    size_t size; /* set by GYRE_INIT */
    gyre_profile profile;
    int64_t context_length; /* in use, for programs and scalings that depend on it; it becomes config.context_length.  vLLM
                             * and llama.cpp choose once, so for them it is the length at engine start.  0 = none */
    const char *name;       /* gyre_reading_parse: for messages; NULL = "memory" */
} gyre_reading_options;
/* *out = the positions that a config.json, a folder with one, or a GGUF describes, as the profile reads them.
 * A profile of a trainer reads the trainer's settings instead.
 * Of a GGUF, only the metadata and the small tensors of the rotation are read, through a mapping.  An unknown model_type
 * with any key of a rotation is read as a llama, with a warning.  A GGUF that ends within its tensor data is read with a
 * warning too. err->offset = the key at fault.
 * Errors: EIO; EFORMAT (another format; a key is missing or makes no sense); EUNSUPPORTED (the program cannot run this
 * model or scaling); EINVAL (context_length below 0, no such profile); ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_open(gyre_reading **out, const char *path,
                                                       const gyre_reading_options *options, gyre_error *err);
/* gyre_reading_open for `size` bytes in memory, which may be freed afterwards. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_parse(gyre_reading **out, const void *bytes, size_t size,
                                                        const gyre_reading_options *options, gyre_error *err);
GYRE_API void gyre_reading_free(gyre_reading *reading); /* NULL is fine */

/* Writes a changed copy of the config.json or GGUF at `path` (or of the config.json in that folder) to `target`: its
 * rotating layers get the scaling, factor, base, lengths and lists of `position`, and the model states context_length
 * tokens.  Under SCALING_DYNAMIC_NTK it still states position->trained_length, from which transformers counts.  All other
 * bytes are kept: order and spacing of keys, tensors.  The copy is read back by the default profile before it is renamed
 * to target.  If that does not give the frequencies of `position` at context_length and its query temperature, nothing is
 * written.  position: a rotation with trained_length at least 1.  target: a file, which is replaced and keeps its mode; or
 * an existing folder, for DIR/config.json or the GGUF's own name.  The model's own file is never replaced (EINVAL).  The
 * temporary copy is TARGET.PID-N.tmp, N from 0; it remains only if the process is killed.
 * Errors: those of gyre_reading_open; EINVAL (a length below 1, target is a pipe or the like, NULL); EUNSUPPORTED (no
 * rotation, or the format cannot express the scaling). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_write(const char *path, const gyre_config *position,
                                                        int64_t context_length, const char *target, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_READING_H */

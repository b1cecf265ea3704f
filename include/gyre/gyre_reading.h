/* gyre_reading.h: which positions a model's config.json or GGUF means, read as a given program reads it.
 *
 * libgyre_reading needs libgyre and jansson alone. */
#ifndef GYRE_READING_H
#define GYRE_READING_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose reading of a file: the same config gives other frequencies in other programs, and in other versions of one. */
typedef enum gyre_profile {
    GYRE_PROFILE_DEFAULT,   /* GYRE_PROFILE_HF_5 for a config.json, GYRE_PROFILE_LLAMA_CPP for a GGUF */
    GYRE_PROFILE_HF_5,      /* transformers 5 */
    GYRE_PROFILE_HF_4_56,   /* transformers 4.56 and 4.57: rope_scaling alone; YaRN knows truncate */
    GYRE_PROFILE_HF_4_51,   /* 4.51 to 4.55: YaRN's factor is the ratio of the lengths where the original length is given */
    GYRE_PROFILE_HF_4_43,   /* 4.43 to 4.50: YaRN's ramp lies over max_position_embeddings */
    GYRE_PROFILE_VLLM,      /* of May 2026 */
    GYRE_PROFILE_LLAMA_CPP, /* of August 2026: of a config.json, what its converter writes and its engine then computes */
    GYRE_PROFILE_REFERENCE  /* the papers and their authors' code, on every key that is there */
} gyre_profile;
/* out = "hf-5", "vllm", ...: how the command spells it; NULL for GYRE_PROFILE_DEFAULT and past the last. */
GYRE_API const char *gyre_profile_name(gyre_profile profile);

/* Where a value comes from. */
typedef enum gyre_origin {
    GYRE_ORIGIN_FILE,   /* a key says so */
    GYRE_ORIGIN_FAMILY, /* the default of this model_type */
    GYRE_ORIGIN_READER, /* the default of the program, for any model */
    GYRE_ORIGIN_DERIVED /* computed from other values */
} gyre_origin;
/* One thing that was read, or that a reader makes of a key.  `name` is the same in every reading, so that two can be laid
 * side by side: see docs/models.md for the list. */
typedef struct gyre_reading_field {
    const char *name, *value; /* "factor", "4" */
    gyre_origin origin;
    const char *key;  /* "rope_scaling.factor", in GGUF "llama.rope.scaling.factor"; NULL = none */
    int64_t line;     /* of the key, from 1; 0 = none, or the file has no lines */
    uint64_t offset;  /* of the key, in bytes; 0 = none */
    const char *note; /* what this reader does other than the key says, or why; NULL = nothing to tell */
} gyre_reading_field;
/* Something in the file that a person should know of: a key nobody reads, a value that makes no sense, a known trap. */
typedef struct gyre_reading_warning {
    const char *text; /* "what: why", without the place */
    const char *key;  /* as above */
    int64_t line;
    uint64_t offset;
} gyre_reading_warning;

/* The positions of some of the layers. */
typedef struct gyre_layer_reading {
    const char *name;      /* "full_attention", "encoder", "nope", "vision", ...; "all" where all layers agree */
    const int64_t *layers; /* [layers_count] which, from 0; 0 = the file does not tell */
    int64_t layers_count;
    gyre_config config;        /* for gyre_encoding_create; its arrays live as long as the reading */
    double scale;              /* what scores are multiplied by, all told; 0 = 1 / sqrt(config.head_dim) */
    double softmax_multiplier; /* the part of it that a scaling adds (YaRN with latent attention); 1 = none */
    int64_t window;            /* a query sees so many keys, itself among them; 0 = all */
    const gyre_reading_field *fields;
    int64_t fields_count;
} gyre_layer_reading;

/* A file, read.  Never changes; share it between threads freely. */
typedef struct gyre_reading {
    const char *path;       /* as given, or that of the config.json in the folder given */
    const char *format;     /* "config.json" or "GGUF" */
    const char *model_type; /* or general.architecture; "" where there is none */
    gyre_profile profile;   /* never GYRE_PROFILE_DEFAULT */
    int64_t context_length; /* as asked for; 0 = none */
    const gyre_layer_reading *groups;
    int64_t groups_count; /* at least 1; first, of those that have positions, the one that most layers belong to */
    const gyre_reading_warning *warnings;
    int64_t warnings_count;
} gyre_reading;

/* *out = the positions that a config.json, a folder with one, or a GGUF file describes, as `profile` reads them.  length:
 * the context length in use, for readers and scalings that depend on it (config.rope.context_length is set to it; for vLLM
 * and llama.cpp, which choose once, it is the length their engine was started with); 0 = none is said.  Of a GGUF only the
 * metadata and the rotation's small tensors are touched, through a mapping.  A model_type that is not known is read as a
 * llama, with a warning, if the file has any key of a rotation.
 * err->offset: of the key at fault.  Errors: EIO; EFORMAT (not the format it should be; a key that is missing or makes no
 * sense); EUNSUPPORTED (a model, or a scaling, that this profile cannot run); EINVAL (length below 0, no such profile);
 * ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_open(gyre_reading **out, const char *path, gyre_profile profile,
                                                       int64_t length, gyre_error *err);
/* The same of bytes in memory, which are not needed afterwards.  name: for messages; NULL = "memory". */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_parse(gyre_reading **out, const void *bytes, size_t size, const char *name,
                                                        gyre_profile profile, int64_t length, gyre_error *err);
GYRE_API void gyre_reading_free(gyre_reading *reading); /* NULL is fine */
/* Writes a copy of the config.json or GGUF at `path` (or of the config.json in that folder) to `target`, changed so that
 * its rotating layers get `position`'s scaling, factor, base, lengths and lists, and the model says that it reads `length`
 * tokens; under GYRE_SCALING_DYNAMIC_NTK it goes on saying position->trained_length, from which transformers counts.
 * Everything else stays byte for byte: order and spacing of the keys, tensors.  What is written is read back, as the usual
 * profile does, before it gets its name: if that does not give the frequencies of `position` at `length`, nothing is
 * written. position: a rotation, trained_length at least 1, which scalings count from.  target: a file, which is replaced
 * and whose rights the new one gets, or a folder, which must exist, for DIR/config.json, a GGUF under its own name; the
 * model's own file is not replaced (EINVAL).  Until it has its name it stands beside it as TARGET.PID-N.tmp, N from 0 on,
 * where only the end of the process leaves it. Errors: those of gyre_reading_open; EINVAL (length or trained_length below 1,
 * target a pipe or the like, NULL); EUNSUPPORTED (no rotation, or the format has no words for that scaling, said which). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_reading_write(const char *path, const gyre_config *position, int64_t length,
                                                        const char *target, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_READING_H */

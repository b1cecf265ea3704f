/* convert_model.h: a model read in one container and written in another, tensor by tensor.
 *
 * Source: what is there, whatever holds it.  Target: first all that is said of the tensors (config.json, or a GGUF's keys),
 * from which gyre_architecture tells how they are named; then the tensors, in blocks of rows. */
#ifndef GYRE_MODEL_CONVERT_MODEL_H
#define GYRE_MODEL_CONVERT_MODEL_H
#include "files/gguf_writer.h"
#include "files/replace_folder.h"
#include "model/architecture/architecture.h"

#include <jansson.h>

typedef enum gyre_source_kind { GYRE_SOURCE_FOLDER, GYRE_SOURCE_GGUF, GYRE_SOURCE_LLAMA2C } gyre_source_kind;

/* A checkpoint of llama2.c (convert_llama2c.c), mapped. */
typedef struct gyre_llama2c gyre_llama2c;
/* *out = 1 where `folder` holds one: no config.json, and a *.bin whose header and size fit.  EFORMAT: two that do. */
gyre_status gyre_llama2c_find(int *out, const char *folder, gyre_error *err);
gyre_status gyre_llama2c_open(gyre_llama2c **out, const char *folder, gyre_error *err);
void gyre_llama2c_free(gyre_llama2c *checkpoint); /* NULL is fine */
int64_t gyre_llama2c_count(const gyre_llama2c *checkpoint);
gyre_file_tensor gyre_llama2c_at(const gyre_llama2c *checkpoint, int64_t index);
/* A config whose pairs lie in halves, as it will be written; the file's are interleaved. */
gyre_model_config gyre_llama2c_config(const gyre_llama2c *checkpoint, int *tied);
/* out = "folder/tok512.bin", or NULL where there is none. */
const char *gyre_llama2c_tokenizer_path(const gyre_llama2c *checkpoint);

typedef struct gyre_convert_source {
    const char *path;
    gyre_source_kind kind;
    gyre_tensor_store *store;
    gyre_llama2c *checkpoint;
    gyre_config_document config; /* of a folder; else all zeros */
    char config_path[PATH_MAX];
    gyre_reading *reading; /* of the usual profile */
    int64_t count;
    gyre_file_tensor *tensors; /* [count] by name */
    int has_architecture;
    gyre_architecture arch;
} gyre_convert_source;
/* convert_source.c */
gyre_status gyre_convert_source_open(gyre_convert_source *out, const char *path, gyre_error *err);
void gyre_convert_source_close(gyre_convert_source *source);
/* out = its tensor, or NULL. */
const gyre_file_tensor *gyre_convert_source_find(const gyre_convert_source *source, const char *name);
/* Looks once at what it computes; EUNSUPPORTED names the family. */
gyre_status gyre_convert_source_architecture(gyre_convert_source *source, gyre_error *err);
/* out = the layers' one rotation, or NULL where they differ or do not turn. */
const gyre_layer_reading *gyre_convert_source_rotation(const gyre_convert_source *source);

/* A tensor of the result. */
typedef struct gyre_convert_tensor {
    char name[112];
    const gyre_file_tensor *source; /* NULL: made here */
    gyre_file_tensor generated;     /* where source is NULL */
    gyre_stored_type type;          /* what it becomes */
    int64_t head_rows;              /* rows of a head, permuted within it; 0 = they stay where they are */
    int64_t first, dim;             /* of a head, those that turn */
    gyre_layout from, to;
} gyre_convert_tensor;

/* What is to be done. */
typedef struct gyre_conversion {
    gyre_convert_source source;
    const gyre_convert_options *options;
    const char *target;
    gyre_layout from, to;        /* of pairs; alike where nothing moves */
    gyre_layout declared_layout; /* the source's files, of the pairs */
    gyre_encoding *encoding;  /* the rotation, its pairs as in the result; NULL = the layers have not one that is the same */
    int64_t length;           /* that the model serves */
    const char *family;       /* model_type or general.architecture of the result */
    const char *const *names; /* of its tensors, by role; NULL = they keep theirs */
    char *config;             /* config.json of the result */
    gyre_gguf_writer keys;    /* of the result */
    gyre_convert_tensor *tensors;
    int64_t count, room;
    float *freq_factors[2]; /* small tensors of a GGUF's rotation: what tensors[i].made points to */
    int64_t total_bytes;    /* bytes of the source that will be read */
} gyre_conversion;

/* convert_config.c: conversion->config, of a folder of safetensors. */
gyre_status gyre_convert_make_config(gyre_conversion *c, gyre_error *err);
/* convert_keys.c: conversion->keys, all but the tensors; tensors of the rotation are added to conversion->tensors. */
gyre_status gyre_convert_make_gguf_keys(gyre_conversion *c, gyre_error *err);
/* convert_check.c: EUNSUPPORTED where a config.json or a GGUF, read back, does not turn as the source does. */
gyre_status gyre_convert_check_positions(const gyre_conversion *c, const void *bytes, size_t count, gyre_error *err);

/* convert_plan.c: conversion->tensors, each with a source, a name and a type. */
gyre_status gyre_convert_make_plan(gyre_conversion *c, gyre_error *err);
/* out = one more, all zeros; NULL: no memory. */
gyre_convert_tensor *gyre_convert_add_tensor(gyre_conversion *c);
/* out = the type of most numbers in matrices. */
gyre_stored_type gyre_convert_main_type(const gyre_conversion *c);

/* convert_rows.c: hands the tensor's bytes, converted, to `put` in blocks. */
typedef gyre_status gyre_convert_write_fn(void *sink, const void *bytes, size_t count, gyre_error *err);
gyre_status gyre_convert_rows(gyre_conversion *c, const gyre_convert_tensor *tensor, gyre_convert_write_fn *put, void *sink,
                              gyre_error *err);

/* -- tokenizers: convert_tokens.c and on -- */
/* As GGUF numbers what a token is. */
enum {
    GYRE_TOKEN_NORMAL = 1,
    GYRE_TOKEN_UNKNOWN,
    GYRE_TOKEN_CONTROL,
    GYRE_TOKEN_USER_DEFINED,
    GYRE_TOKEN_UNUSED,
    GYRE_TOKEN_BYTE
};
typedef struct gyre_convert_token {
    char *text; /* UTF-8, with U+2581 for a space; of byte-level tokens, the letters that stand for bytes */
    float score;
    int kind;
} gyre_convert_token;
typedef struct gyre_convert_vocab {
    int byte_level; /* 1: gpt2's kind, which has merges; 0: sentencepiece's, which has scores */
    gyre_convert_token *id_to_token;
    int64_t count;
    char **merges; /* "a b" */
    int64_t merges_count;
    char tokenizer_pre[48]; /* how text is cut before merging, as llama.cpp names it: tokenizer.ggml.pre; "" of the other
                               kind */
    int32_t begin, end, unknown, pad; /* -1 = none */
    int adds_begin, adds_end, space_prefix;
    char *chat_template; /* its template, or NULL */
} gyre_convert_vocab;
void gyre_convert_vocab_free(gyre_convert_vocab *pieces);
/* *out = `count` tokens without text, no special ones; ENOMEM. */
gyre_status gyre_convert_vocab_init(gyre_convert_vocab *out, int64_t count, gyre_error *err);
/* text[0 .. bytes - 1] becomes that of a token; EFORMAT where it is no UTF-8 or holds a NUL, ENOMEM. */
gyre_status gyre_convert_vocab_set_text(gyre_convert_vocab *pieces, int64_t id, const char *text, size_t bytes,
                                        const char *path, gyre_error *err);

/* *there = 0, and *out is empty, where the source has no tokenizer.  convert_tokens.c; of JSON, convert_tokens_read.c */
gyre_status gyre_convert_vocab_from_gguf(gyre_convert_vocab *out, int *there, const gyre_gguf *file, const char *path,
                                         gyre_error *err);
gyre_status gyre_convert_vocab_from_json(gyre_convert_vocab *out, int *there, const char *folder, int64_t vocab,
                                         gyre_error *err);
gyre_status gyre_convert_vocab_from_llama2c(gyre_convert_vocab *out, const char *path, int64_t vocab, gyre_error *err);
/* Of a model made here, whose ids are bytes: byte-level tokens without a merge. */
enum { GYRE_BYTE_TOKENS = 256 };
gyre_status gyre_convert_vocab_from_bytes(gyre_convert_vocab *out, gyre_error *err);
void gyre_convert_vocab_to_gguf(const gyre_convert_vocab *pieces, gyre_gguf_writer *keys);
/* convert_tokens_print.c: *out = tokenizer.json, *config = tokenizer_config.json, which the caller frees.  length: tokens
 * that the model serves. */
gyre_status gyre_convert_vocab_to_json(const gyre_convert_vocab *pieces, int64_t length, char **out, char **config,
                                       gyre_error *err);

/* convert_words.c: patterns that cut a text into words before merging, by llama.cpp's names for them. */
/* out = the pattern of a Split, "" where ByteLevel's own does, NULL where the name is not known; *digits = 1 where each
 * digit is a word. */
const char *gyre_pre_tokenizer_pattern(const char *name, int *digits);
/* out = the name, or NULL. */
const char *gyre_pre_tokenizer_name(const char *pattern, int digits);

#endif

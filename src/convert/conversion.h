/* conversion.h: one conversion, and its steps in the order in which gyre_convert takes them.
 *
 *     target       which family, layout of pairs and rotation the result has      convert_target.c
 *     keys         a GGUF's metadata, all but the tensors                         convert_gguf_keys.c
 *     plan         the tensors of the result: names, types, rows that move        convert_plan.c
 *     config       a folder's config.json                                         convert_config.c
 *     check        the written positions, read back                               convert_check.c
 *     rows         each tensor, a block of rows at a time                         convert_rows.c
 *     opening      tokenizer and shapes of the whole result, read back            convert_check.c */
#ifndef GYRE_CONVERT_CONVERSION_H
#define GYRE_CONVERT_CONVERSION_H
#include "convert/convert_loss.h"
#include "convert/convert_source.h"
#include "files/gguf_writer.h"

/* A tensor of the result. */
typedef struct gyre_convert_tensor {
    char name[112];
    const gyre_file_tensor *source; /* NULL = generated */
    gyre_file_tensor generated;
    gyre_stored_type type; /* of the result */
    int64_t head_rows;     /* rows of a head, which are permuted within the head; 0 = rows stay in place */
    int64_t first, dim;    /* rows of a head that rotate: first .. first + dim - 1 */
    gyre_layout from, to;
} gyre_convert_tensor;

typedef struct gyre_conversion {
    gyre_convert_source source;
    const gyre_convert_options *options;
    const struct gyre_kernels *kernels;
    const char *target;
    gyre_layout from, to;        /* of pairs, in the source and in the result; equal = nothing moves */
    gyre_layout declared_layout; /* of pairs, as the source's files say */
    gyre_encoding *encoding;     /* the rotation, with pairs as in the result; NULL = the layers do not share one */
    int64_t length;              /* context length that the model serves */
    const char *family;          /* model_type or general.architecture of the result */
    const char *const *names;    /* tensor names of the result, by role; NULL = unchanged */
    char *config;                /* config.json of the result */
    gyre_gguf_writer keys;       /* metadata of the result */
    gyre_convert_tensor *tensors;
    int64_t count, capacity;
    float *freq_factors[2]; /* data of generated tensors of a GGUF's rotation */
    int64_t total_bytes;    /* of the source, to be read */
    int has_tokens;         /* 1: the result's tokenizer is in another format than the source's */
} gyre_conversion;

/* Sets family and names, then the layouts, encoding and length. */
gyre_status gyre_convert_set_target(gyre_conversion *c, gyre_error *err);
/* Sets keys.  May add generated tensors for the rotation. */
gyre_status gyre_convert_make_gguf_keys(gyre_conversion *c, gyre_error *err);
/* Sets tensors and total_bytes. */
gyre_status gyre_convert_make_plan(gyre_conversion *c, gyre_error *err);
/* Sets config. */
gyre_status gyre_convert_make_config(gyre_conversion *c, gyre_error *err);
/* EUNSUPPORTED if a config.json or a GGUF, read back, does not rotate as the source does. */
gyre_status gyre_convert_check_positions(const gyre_conversion *c, const void *bytes, size_t count, gyre_error *err);

/* EUNSUPPORTED if Gyre would not open the result, which is at `path` under its temporary name: a tokenizer from another
 * format, or tensors that a config written here does not ask for. */
gyre_status gyre_convert_check_opens(const gyre_conversion *c, const char *path, gyre_error *err);

/* out = a new tensor, all zeros; NULL = no memory. */
gyre_convert_tensor *gyre_convert_add_tensor(gyre_conversion *c);
/* out = the type that stores most numbers of the matrices. */
gyre_stored_type gyre_convert_main_type(const gyre_conversion *c);

/* Passes the converted bytes of a tensor to `put`, block by block. */
typedef gyre_status gyre_convert_write_fn(void *sink, const void *bytes, size_t count, gyre_error *err);
gyre_status gyre_convert_rows(gyre_conversion *c, const gyre_convert_tensor *tensor, gyre_convert_write_fn *put, void *sink,
                              gyre_error *err);

#endif

/* safetensors.h: reads and writes .safetensors files.  Every offset and size is checked before use. */
#ifndef GYRE_FILES_SAFETENSORS_H
#define GYRE_FILES_SAFETENSORS_H
#include "files/file_read.h"
#include "gyre/gyre.h"

typedef struct gyre_safetensors gyre_safetensors; /* a mapped file */
typedef struct gyre_safetensors_view {
    gyre_dtype dtype; /* F32, F16, BF16, F64, I32, I64 */
    int rank;
    int64_t shape[4], count;
    const void *data; /* points into the mapping; unaligned */
} gyre_safetensors_view;

/* Refuses a header that is too long, is not JSON or has duplicate names, and offsets that are out of bounds, overlap,
 * leave gaps or do not match shape and dtype. */
gyre_status gyre_safetensors_open(gyre_safetensors **out, const char *path, gyre_error *err);
void gyre_safetensors_free(gyre_safetensors *file);
/* Number of tensors, and their names in bytewise order. */
int64_t gyre_safetensors_count(const gyre_safetensors *file);
const char *gyre_safetensors_name(const gyre_safetensors *file, int64_t index);
/* A tensor of any type and rank. */
typedef struct gyre_safetensors_info {
    const char *name, *type; /* type: as in the file, "F32" */
    int rank;
    int64_t shape[4], count; /* shape: 1 past the rank, and everywhere if the rank is above 4 */
    const unsigned char *data;
    uint64_t bytes, offset; /* offset: in the file */
} gyre_safetensors_info;
gyre_safetensors_info gyre_safetensors_at(const gyre_safetensors *file, int64_t index);
/* out = the mapping of the whole file, valid until it is freed. */
gyre_mapping gyre_safetensors_mapping(const gyre_safetensors *file);
/* gyre_mapping_check of the file. */
gyre_status gyre_safetensors_check(const gyre_safetensors *file, gyre_error *err);
/* EFORMAT "no tensor NAME" if it is missing. */
gyre_status gyre_safetensors_find(const gyre_safetensors *file, const char *name, gyre_safetensors_view *out,
                                  gyre_error *err);
/* gyre_safetensors_find; EFORMAT if the shape is another. */
gyre_status gyre_safetensors_expect(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank,
                                    gyre_safetensors_view *out, gyre_error *err);
/* out[0 .. count - 1] = the tensor's values in float.  EFORMAT if the shape is another or a value is not finite. */
gyre_status gyre_safetensors_read(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank, float *out,
                                  gyre_error *err);

typedef struct gyre_safetensors_input {
    const char *name;
    int rank;
    int64_t shape[4];
    const float *data;
    int stays_float; /* 1: F32 whatever the others are */
} gyre_safetensors_input;
/* Replaces the file at `path` atomically, with a header padded to 8 bytes.  dtype: F32, F16, BF16 or F64.  EINVAL if a
 * value is not finite in its dtype. */
gyre_status gyre_safetensors_write(const char *path, const gyre_safetensors_input *tensors, int64_t count, gyre_dtype dtype,
                                   gyre_error *err);

#endif

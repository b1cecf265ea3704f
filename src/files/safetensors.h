/* safetensors.h: reading and writing .safetensors files, every offset and size checked before use. */
#ifndef GYRE_MODEL_SAFETENSORS_H
#define GYRE_MODEL_SAFETENSORS_H
#include "files/file_read.h"
#include "gyre/gyre.h"

typedef struct gyre_safetensors gyre_safetensors; /* a file mapped read only */
typedef struct gyre_safetensors_view {
    gyre_dtype dtype; /* F32, F16, BF16, F64, I32, I64 */
    int rank;
    int64_t shape[4], count;
    const void *data; /* into the map; aligned to nothing */
} gyre_safetensors_view;

/* Refuses: a header that is too long, no JSON, or has duplicate names; offsets that are out of bounds, overlap, leave gaps,
 * or do not fit the shape and dtype. */
gyre_status gyre_safetensors_open(gyre_safetensors **out, const char *path, gyre_error *err);
void gyre_safetensors_free(gyre_safetensors *file);
/* Tensors in the file, and their names in bytewise order. */
int64_t gyre_safetensors_count(const gyre_safetensors *file);
const char *gyre_safetensors_name(const gyre_safetensors *file, int64_t index);
/* All there is to know of one, whatever its type and rank. */
typedef struct gyre_safetensors_info {
    const char *name, *type; /* type: the file's word, "F32" */
    int rank;
    int64_t shape[4], count; /* shape: ones past the rank, and throughout where the rank is above 4 */
    const unsigned char *data;
    uint64_t bytes, offset; /* offset: in the file */
} gyre_safetensors_info;
gyre_safetensors_info gyre_safetensors_at(const gyre_safetensors *file, int64_t index);
/* out = the whole file, mapped as long as it is open. */
gyre_mapping gyre_safetensors_mapping(const gyre_safetensors *file);
/* EFORMAT "no tensor NAME" where there is none. */
gyre_status gyre_safetensors_find(const gyre_safetensors *file, const char *name, gyre_safetensors_view *out,
                                  gyre_error *err);
/* The same, and EFORMAT for a shape other than the given one. */
gyre_status gyre_safetensors_expect(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank,
                                    gyre_safetensors_view *out, gyre_error *err);
/* out[0 .. count - 1] = the tensor's values in float; EFORMAT for a shape other than the given one, or a value that is not
 * finite. */
gyre_status gyre_safetensors_read(const gyre_safetensors *file, const char *name, const int64_t *shape, int rank, float *out,
                                  gyre_error *err);

typedef struct gyre_safetensors_input {
    const char *name;
    int rank;
    int64_t shape[4];
    const float *data;
} gyre_safetensors_input;
/* Writes `path` itself (not atomically: callers write into a folder under a temporary name) and syncs it.  Header padded
 * to 8.  dtype: F32, F16, BF16 or F64.  EINVAL for a value that is not finite in it. */
gyre_status gyre_safetensors_write(const char *path, const gyre_safetensors_input *tensors, int64_t count, gyre_dtype dtype,
                                   gyre_error *err);

#endif

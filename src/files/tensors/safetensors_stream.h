/* safetensors_stream.h: writes a .safetensors file tensor by tensor.  The header comes first, so all shapes are given at
 * the start. */
#ifndef GYRE_FILES_SAFETENSORS_STREAM_H
#define GYRE_FILES_SAFETENSORS_STREAM_H
#include "gyre/gyre.h"

typedef struct gyre_safetensors_spec {
    const char *name;
    const char *dtype; /* as the format names it: "F32" */
    size_t bytes;      /* per number */
    int rank;
    int64_t shape[4];
} gyre_safetensors_spec;

typedef struct gyre_safetensors_stream gyre_safetensors_stream;

/* Begins a replacement of the file at `path` (util/atomic_file.h) with the header, padded so that the data begins at a
 * multiple of 8.  EINVAL if two tensors have one name. */
gyre_status gyre_safetensors_stream_open(gyre_safetensors_stream **out, const char *path,
                                         const gyre_safetensors_spec *tensors, int64_t count, gyre_error *err);
/* Appends bytes of tensor data.  Tensors follow each other without gaps, in the order of the header. */
gyre_status gyre_safetensors_stream_write(gyre_safetensors_stream *stream, const void *bytes, size_t count, gyre_error *err);
/* Puts the file in place.  EINVAL if bytes are missing.  Frees the stream, also after an error. */
gyre_status gyre_safetensors_stream_close(gyre_safetensors_stream *stream, gyre_error *err);
/* Frees the stream and leaves the file at `path` as it was.  NULL does nothing. */
void gyre_safetensors_stream_discard(gyre_safetensors_stream *stream);

#endif

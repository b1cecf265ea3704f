/* safetensors_stream.h: a .safetensors file written tensor by tensor: the header says first what will come. */
#ifndef GYRE_MODEL_SAFETENSORS_STREAM_H
#define GYRE_MODEL_SAFETENSORS_STREAM_H
#include "gyre/gyre.h"

typedef struct gyre_safetensors_spec {
    const char *name;
    const char *dtype; /* as the format names it: "F32" */
    size_t bytes;      /* of a number */
    int rank;
    int64_t shape[4];
} gyre_safetensors_spec;

typedef struct gyre_safetensors_stream gyre_safetensors_stream;

/* *out = the file at `path` with its header, padded so that the data begins at a multiple of 8.  Not atomic: callers write
 * into a folder under a temporary name.  EINVAL for two tensors of one name. */
gyre_status gyre_safetensors_stream_open(gyre_safetensors_stream **out, const char *path,
                                         const gyre_safetensors_spec *tensors, int64_t count, gyre_error *err);
/* Appends bytes of the tensors, which lie side by side in the order of the header. */
gyre_status gyre_safetensors_stream_write(gyre_safetensors_stream *stream, const void *bytes, size_t count, gyre_error *err);
/* Syncs and closes; EINVAL where bytes are missing or there are too many.  The stream is gone in any case. */
gyre_status gyre_safetensors_stream_close(gyre_safetensors_stream *stream, gyre_error *err);
/* Closes without a look; the file is the caller's to remove.  NULL is fine. */
void gyre_safetensors_stream_discard(gyre_safetensors_stream *stream);

#endif

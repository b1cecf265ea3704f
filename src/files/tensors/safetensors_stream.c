/* safetensors_stream.c: writes the header, then passes bytes through. */
#include "files/tensors/safetensors_stream.h"
#include "files/json_write.h"

#include "files/little_endian.h"
#include "util/atomic_file.h"
#include "util/error.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES = 8 };

struct gyre_safetensors_stream {
    gyre_atomic_file file;
    FILE *out; /* the stream of `file` */
    char *path;
    uint64_t expected_bytes, bytes_written; /* bytes of data */
};

/* -- the header -- */
static uint64_t bytes_of(const gyre_safetensors_spec *t) {
    uint64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= (uint64_t)t->shape[i];
    return count * t->bytes;
}

static json_t *describe(const gyre_safetensors_spec *t, uint64_t begin) {
    json_t *shape = json_array();
    int failed = !shape;
    for (int i = 0; i < t->rank && !failed; i++)
        failed = json_array_append_new(shape, json_integer(t->shape[i])) != 0;
    if (failed) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + bytes_of(t)));
}

/* *out = the header's text, which the caller frees.  *data = bytes of all tensors. */
static gyre_status print_header(const gyre_safetensors_spec *tensors, int64_t count, const char *path, char **out,
                                uint64_t *data, gyre_error *err) {
    /* transformers refuses a file that does not name the framework whose layout it has. */
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    gyre_status status = GYRE_OK;
    int failed = !header;
    *data = 0;
    for (int64_t i = 0; i < count && !failed && !status; i++) {
        if (json_object_get(header, tensors[i].name))
            status = gyre_fail(err, GYRE_EINVAL, "%.100s: two tensors of one name (%s)", tensors[i].name, path);
        failed = !status && json_object_set_new(header, tensors[i].name, describe(&tensors[i], *data)) != 0;
        *data += bytes_of(&tensors[i]);
    }
    *out = failed || status ? NULL : gyre_json_text(header, JSON_COMPACT);
    json_decref(header);
    if (!status && !*out) status = gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory for the header (%s)", path);
    return status;
}

static int write_header(FILE *file, const char *header) {
    const size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    unsigned char size[SIZE_BYTES];
    gyre_store_le(size, padded, SIZE_BYTES);
    return fwrite(size, 1, SIZE_BYTES, file) == SIZE_BYTES && fwrite(header, 1, length, file) == length &&
           fwrite("       ", 1, padded - length, file) == padded - length;
}

/* -- the stream -- */
static void stream_free(gyre_safetensors_stream *stream) {
    free(stream->path);
    free(stream);
}

void gyre_safetensors_stream_discard(gyre_safetensors_stream *stream) {
    if (!stream) return;
    gyre_atomic_discard(&stream->file);
    stream_free(stream);
}

static gyre_status begin_file(gyre_safetensors_stream *stream, const char *header, gyre_error *err) {
    const gyre_status whole = gyre_atomic_check_whole(stream->path, err);
    if (whole) return whole;
    const int code = gyre_atomic_open(&stream->file, stream->path);
    if (code) return gyre_fail_errno(err, stream->path, code);
    stream->out = gyre_atomic_stream(&stream->file);
    if (stream->out && write_header(stream->out, header)) return GYRE_OK;
    const gyre_status status = gyre_fail_errno(err, stream->path, errno);
    gyre_atomic_discard(&stream->file);
    return status;
}

gyre_status gyre_safetensors_stream_open(gyre_safetensors_stream **out, const char *path,
                                         const gyre_safetensors_spec *tensors, int64_t count, gyre_error *err) {
    char *header = NULL;
    gyre_safetensors_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory (%s)", path);
    stream->path = strdup(path);
    gyre_status status = stream->path ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "safetensors: no memory (%s)", path);
    if (!status) status = print_header(tensors, count, path, &header, &stream->expected_bytes, err);
    if (!status) status = begin_file(stream, header, err);
    free(header);
    if (!status)
        *out = stream;
    else
        stream_free(stream);
    return status;
}

gyre_status gyre_safetensors_stream_write(gyre_safetensors_stream *stream, const void *bytes, size_t count,
                                          gyre_error *err) {
    if (count > stream->expected_bytes - stream->bytes_written)
        return gyre_fail(err, GYRE_EINVAL, "safetensors: more bytes than the header says (%s)", stream->path);
    if (count > 0 && fwrite(bytes, 1, count, stream->out) != count) return gyre_fail_errno(err, stream->path, errno);
    stream->bytes_written += count;
    return GYRE_OK;
}

gyre_status gyre_safetensors_stream_close(gyre_safetensors_stream *stream, gyre_error *err) {
    gyre_status status = GYRE_OK;
    if (stream->bytes_written != stream->expected_bytes) {
        status = gyre_fail(err, GYRE_EINVAL, "safetensors: %" PRIu64 " bytes of %" PRIu64 " (%s)", stream->bytes_written,
                           stream->expected_bytes, stream->path);
    } else {
        const int code = gyre_atomic_commit(&stream->file);
        if (code) status = gyre_fail_errno(err, stream->path, code);
    }
    gyre_safetensors_stream_discard(stream);
    return status;
}

/* convert_model.c: gyre_convert: checks its options, takes the steps of conversion.h and writes the files. */
#include "convert/conversion.h"
#include "convert/convert_vocab.h"

#include "core/sized.h"
#include "files/file_read.h"
#include "files/replace_folder.h"
#include "files/target_path.h"
#include "files/tensors/safetensors_stream.h"
#include "kernels/kernels.h"
#include "model/architecture/architecture_families.h"
#include "model/weights/network_weights.h"
#include "reading/gguf/gguf_source.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- writing -- */
static gyre_status put_stream(void *sink, const void *bytes, size_t count, gyre_error *err) {
    return gyre_safetensors_stream_write(sink, bytes, count, err);
}

static gyre_status write_safetensors(gyre_conversion *c, const char *path, gyre_error *err) {
    gyre_safetensors_stream *stream = NULL;
    gyre_safetensors_spec *list = calloc((size_t)c->count + 1, sizeof *list);
    if (!list) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", path);
    for (int64_t i = 0; i < c->count; i++) {
        const gyre_file_tensor *s = c->tensors[i].source;
        const gyre_stored_type type = c->tensors[i].type;
        list[i] = (gyre_safetensors_spec){.name = c->tensors[i].name,
                                          .dtype = gyre_stored_type_name(type),
                                          .bytes = (size_t)gyre_stored_row_bytes(type, 1),
                                          .rank = s->rank};
        memcpy(list[i].shape, s->shape, sizeof s->shape);
    }
    gyre_status status = gyre_safetensors_stream_open(&stream, path, list, c->count, err);
    free(list);
    if (status) return status;
    for (int64_t i = 0; i < c->count && !status; i++)
        status = gyre_convert_rows(c, &c->tensors[i], put_stream, stream, err);
    if (!status) return gyre_safetensors_stream_close(stream, err);
    gyre_safetensors_stream_discard(stream);
    return status;
}

/* Copies the tokenizer and generation settings of a folder as they are. */
static gyre_status copy_tokenizer_files(const gyre_conversion *c, const gyre_folder_replacement *folder, gyre_error *err) {
    const gyre_checkpoint_file *file;
    gyre_status status = GYRE_OK;
    for (size_t i = 0; !status && (file = gyre_checkpoint_file_at(i)) != NULL; i++) {
        char path[PATH_MAX];
        struct stat info;
        if (file->role != GYRE_CHECKPOINT_TOKENIZER) continue;
        if (snprintf(path, sizeof path, "%s/%s", c->source.path, file->name) >= PATH_MAX) continue;
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) status = gyre_folder_copy(folder, file->name, path, err);
    }
    return status;
}

static gyre_status write_tokens(gyre_conversion *c, const gyre_folder_replacement *folder, gyre_error *err) {
    gyre_convert_vocab vocab = {0};
    char *json = NULL, *config = NULL;
    int there = 1;
    gyre_status status = GYRE_OK;
    if (c->source.kind == GYRE_SOURCE_FOLDER) return copy_tokenizer_files(c, folder, err);
    const char *tokens = c->source.checkpoint ? gyre_llama2c_tokenizer_path(c->source.checkpoint) : NULL;
    if (c->source.kind == GYRE_SOURCE_GGUF)
        status = gyre_convert_vocab_from_gguf(&vocab, &there, gyre_tensor_store_gguf(c->source.store), c->source.path, err);
    else if (tokens)
        status = gyre_convert_vocab_from_llama2c(&vocab, tokens, c->source.arch.vocab, err);
    else
        there = 0;
    c->has_tokens = there;
    if (!status && there) {
        status = gyre_convert_vocab_to_json(&vocab, c->length, c->options, &json, &config, err);
        if (!status) status = gyre_folder_write(folder, GYRE_TOKENIZER_FILE, json, err);
        if (!status) status = gyre_folder_write(folder, GYRE_TOKENIZER_CONFIG_FILE, config, err);
    }
    free(json);
    free(config);
    gyre_convert_vocab_free(&vocab);
    return status;
}

/* Before a file gets the target's name, under which another run may put its own. */
static gyre_status note_bytes(const gyre_conversion *c, const char *path, gyre_error *err) {
    struct stat info;
    if (!c->options->written) return GYRE_OK;
    if (stat(path, &info) != 0) return gyre_fail_errno(err, path, errno);
    *c->options->written = (int64_t)info.st_size;
    return GYRE_OK;
}

static gyre_status write_folder(gyre_conversion *c, gyre_error *err) {
    gyre_folder_replacement folder;
    char path[PATH_MAX];
    gyre_status status = gyre_folder_begin(&folder, c->target, err);
    if (status) return status;
    status = gyre_folder_path(&folder, GYRE_WEIGHTS_FILE, path, err);
    if (!status) status = gyre_folder_write(&folder, GYRE_CONFIG_FILE, c->config, err);
    if (!status) status = write_tokens(c, &folder, err);
    if (!status) status = write_safetensors(c, path, err);
    if (!status) status = gyre_convert_source_check(&c->source, err);
    if (!status) status = gyre_convert_check_opens(c, folder.temporary, err);
    if (!status) status = note_bytes(c, path, err);
    if (!status) status = gyre_folder_commit(&folder, err);
    if (status) gyre_folder_discard(&folder);
    return status;
}

typedef struct gguf_sink {
    FILE *file;
    const char *path;
    uint64_t bytes_written;
} gguf_sink;

static gyre_status put_gguf(void *sink, const void *bytes, size_t count, gyre_error *err) {
    gguf_sink *s = sink;
    if (count > 0 && fwrite(bytes, 1, count, s->file) != count) return gyre_fail_errno(err, s->path, errno);
    s->bytes_written += count;
    return GYRE_OK;
}

static gyre_status write_gguf_tensors(gyre_conversion *c, gguf_sink *sink, gyre_error *err) {
    static const unsigned char zeros[GYRE_GGUF_ALIGNMENT] = {0};
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < c->count && !status; i++) {
        const uint64_t begin = sink->bytes_written;
        status = gyre_convert_rows(c, &c->tensors[i], put_gguf, sink, err);
        const uint64_t bytes = sink->bytes_written - begin;
        if (!status) status = put_gguf(sink, zeros, (size_t)(gyre_gguf_pad(bytes) - bytes), err);
    }
    return status;
}

static gyre_status write_gguf_file(gyre_conversion *c, gguf_sink *sink, gyre_error *err) {
    unsigned char *head;
    size_t bytes;
    gyre_gguf_write_u32(&c->keys, "general.file_type", gyre_stored_ggml_file_type(gyre_convert_main_type(c)));
    for (int64_t i = 0; i < c->count; i++) {
        const gyre_file_tensor *s = c->tensors[i].source ? c->tensors[i].source : &c->tensors[i].generated;
        gyre_gguf_write_tensor_info(&c->keys, c->tensors[i].name, c->tensors[i].type, s->rank, s->shape);
    }
    gyre_status status = gyre_gguf_write_metadata(&c->keys, &head, &bytes, err);
    if (status) return status;
    status = put_gguf(sink, head, bytes, err);
    free(head);
    if (!status) status = write_gguf_tensors(c, sink, err);
    return status;
}

static gyre_status read_back(const gyre_conversion *c, const char *path, gyre_error *err) {
    gyre_mapping map;
    gyre_status status = gyre_mapping_open(&map, path, err);
    if (status) return status;
    status = gyre_convert_check_positions(c, map.bytes, map.size, err);
    gyre_mapping_close(&map);
    return !status ? gyre_convert_check_opens(c, path, err) : status;
}

/* Refuses to replace anything but a GGUF or an empty file, so that a mistyped target loses nothing. */
static gyre_status check_gguf_target(const char *path, gyre_error *err) {
    struct stat info;
    const gyre_status whole = gyre_atomic_check_whole(path, err);
    if (whole) return whole;
    if (stat(path, &info) != 0 || (S_ISREG(info.st_mode) && info.st_size == 0)) return GYRE_OK;
    if (S_ISDIR(info.st_mode)) return gyre_fail(err, GYRE_EINVAL, "target: a folder; name a file for the GGUF (%s)", path);
    int is_gguf;
    const gyre_status status = gyre_gguf_is_file(path, &is_gguf, err);
    if (status || is_gguf) return status;
    return gyre_fail(err, GYRE_EINVAL, "target: exists and is not a GGUF, so it is not replaced (%s)", path);
}

static gyre_status write_gguf(gyre_conversion *c, gyre_error *err) {
    gyre_atomic_file file;
    char target[PATH_MAX];
    gyre_status status = check_gguf_target(c->target, err);
    if (!status) status = gyre_target_path(target, c->source.path, c->target, "", err);
    if (status) return status;
    int code = gyre_atomic_open(&file, target);
    if (code) return gyre_fail_errno(err, target, code);
    gguf_sink sink = {gyre_atomic_stream(&file), c->target, 0};
    status = sink.file ? write_gguf_file(c, &sink, err) : gyre_fail_errno(err, c->target, errno);
    if (!status && (code = gyre_atomic_close(&file)) != 0) status = gyre_fail_errno(err, c->target, code);
    if (!status) status = gyre_convert_source_check(&c->source, err);
    if (!status) status = read_back(c, file.temporary, err);
    if (!status) status = note_bytes(c, file.temporary, err);
    if (!status && (code = gyre_atomic_commit(&file)) != 0) status = gyre_fail_errno(err, c->target, code);
    gyre_atomic_discard(&file);
    return status;
}

/* -- gyre_convert -- */
static int is_layout(gyre_layout layout) {
    return layout == GYRE_LAYOUT_HALF || layout == GYRE_LAYOUT_INTERLEAVED;
}

static gyre_status check_options(const char *path, const char *target, const gyre_convert_options *o, gyre_error *err) {
    struct stat a, b;
    const int is_gguf = o->format == GYRE_MODEL_FORMAT_GGUF;
    if (!is_gguf && o->format != GYRE_MODEL_FORMAT_SAFETENSORS) return gyre_fail(err, GYRE_EINVAL, "format: unknown");
    const gyre_dtype dtype = o->dtype ? *o->dtype : GYRE_DTYPE_F32;
    if (dtype != GYRE_DTYPE_F32 && dtype != GYRE_DTYPE_F16 && dtype != GYRE_DTYPE_BF16 &&
        !(is_gguf && dtype == GYRE_DTYPE_Q8))
        return gyre_fail(err, dtype == GYRE_DTYPE_Q8 ? GYRE_EUNSUPPORTED : GYRE_EINVAL, "dtype: %s (%s)",
                         dtype == GYRE_DTYPE_Q8 ? "safetensors have no blocks of eight bits" : "F32, F16 or BF16", target);
    if ((o->layout && !is_layout(*o->layout)) || (o->source_layout && !is_layout(*o->source_layout)))
        return gyre_fail(err, GYRE_EINVAL, "layout: half or interleaved (converting)");
    if (stat(path, &a) == 0 && stat(target, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return gyre_fail(err, GYRE_EINVAL, "target: is the model itself, which is not replaced; name another (%s)", target);
    return GYRE_OK;
}

static void conversion_close(gyre_conversion *c) {
    gyre_encoding_free(c->encoding);
    gyre_gguf_writer_free(&c->keys);
    free(c->freq_factors[0]);
    free(c->freq_factors[1]);
    free(c->config);
    free(c->tensors);
    gyre_convert_source_close(&c->source);
}

/* A new config or a GGUF states no activation: readers of these families compute SiLU. */
static gyre_status check_activation(const gyre_conversion *c, gyre_error *err) {
    static const char *const names[] = {[GYRE_ACTIVATION_SILU] = "SiLU",
                                        [GYRE_ACTIVATION_GELU] = "GELU",
                                        [GYRE_ACTIVATION_GELU_TANH] = "GELU with tanh",
                                        [GYRE_ACTIVATION_RELU] = "ReLU",
                                        [GYRE_ACTIVATION_CLAMPED_SWIGLU] = "clamped SwiGLU"};
    const int rewritten = c->names || c->to != c->declared_layout;
    if (!rewritten || c->source.arch.activation == GYRE_ACTIVATION_SILU) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "activation: %s, where readers of %s of a %s compute SiLU (%s)",
                     names[c->source.arch.activation],
                     c->options->format == GYRE_MODEL_FORMAT_GGUF ? "a GGUF" : "the config.json", c->family, c->source.path);
}

/* A tensor that the source's config does not ask for is one that its readers leave out or refuse.  The other format may
 * have a place for it, whose readers would then use it. */
static gyre_status check_source(const gyre_conversion *c, gyre_error *err) {
    gyre_error why = {0, ""};
    const gyre_status status = c->names && c->source.store ? gyre_weight_shapes_check(c->source.path, &why) : GYRE_OK;
    return !status ? status : gyre_fail(err, status, "%s", why.text);
}

static gyre_status check_architecture(const gyre_conversion *c, gyre_error *err) {
    const gyre_architecture *a = &c->source.arch;
    if (c->names && a->mixture.routing.experts > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "expert_count: experts are not converted (%s)", c->source.path);
    if (a->wrapped && c->from != c->to) /* names are matched without the prefix of a wrapper */
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layout: rows of the language model within a %s are not reordered (%s)",
                         a->family, c->source.path);
    return check_activation(c, err);
}

static gyre_status convert(gyre_conversion *c, gyre_error *err) {
    const int to_gguf = c->options->format == GYRE_MODEL_FORMAT_GGUF;
    gyre_status status = gyre_convert_set_target(c, err);
    const int needs_architecture =
        c->names || c->from != c->to || c->to != c->declared_layout || c->source.kind == GYRE_SOURCE_LLAMA2C;
    if (!status && needs_architecture) {
        status = gyre_convert_source_architecture(&c->source, err);
        if (!status) status = check_architecture(c, err);
    }
    if (!status && to_gguf) status = gyre_convert_make_gguf_keys(c, err);
    if (!status) status = gyre_convert_make_plan(c, err);
    if (!status) status = check_source(c, err);
    if (!status && !to_gguf) status = gyre_convert_make_config(c, err);
    if (!status) status = to_gguf ? write_gguf(c, err) : write_folder(c, err);
    return status;
}

static gyre_status convert_model(const char *path, const char *target, const gyre_convert_options *options,
                                 gyre_error *err) {
    if (!path || !target) return gyre_fail(err, GYRE_EINVAL, "convert: no path");
    gyre_conversion c = {.options = options, .target = target, .kernels = gyre_kernels_select()};
    gyre_status status = check_options(path, target, c.options, err);
    if (!status) status = gyre_convert_source_open(&c.source, path, err);
    if (!status) status = convert(&c, err);
    conversion_close(&c);
    return status;
}

gyre_status gyre_convert(const char *path, const char *target, const gyre_convert_options *options, gyre_error *err) {
    gyre_convert_options own = GYRE_INIT(gyre_convert_options);
    const gyre_status status = options ? gyre_sized_read(&own, sizeof own, options, "gyre_convert_options", err) : GYRE_OK;
    return status ? status : convert_model(path, target, &own, err);
}

/* model_input.c: opening a model, its tokenizer and its texts. */
#include "tools/common/model_input.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_progress.h"
#include "util/fnv1a.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gyre_status model_input_open(model_input *out, const model_options *o, int64_t length, gyre_error *err) {
    *out = (model_input){.options = o};
    gyre_error why = {0, ""};
    const gyre_status status = gyre_model_open(
        &out->model, o->path, GYRE_ARGS(gyre_reading_options, .profile = o->profile, .context_length = length), &why);
    const char *hub = status ? model_path_hub_name(o->path) : NULL;
    if (hub && (status == GYRE_EIO || status == GYRE_EFORMAT))
        return gyre_fail(err, status, "%s: %.300s; the cache may lack files of it, which `hf download` completes", hub,
                         why.text);
    if (status && err) *err = why;
    return status;
}

gyre_status model_input_encoding_from(const model_input *in, const method *m, int policy, int64_t first, int64_t length,
                                      const method_betas *betas, gyre_encoding **out, gyre_error *err) {
    gyre_reading *reading;
    gyre_config base = GYRE_INIT(gyre_config), config;
    gyre_status status = gyre_model_position_for_length(in->model, first + length, &base, &reading, err);
    if (status) return status;
    if (policy >= 0) base.length_policy = (gyre_length_policy)policy;
    status = method_config(m, &base, base.trained_length, length, betas, &config, err);
    if (!status) {
        if (config.context_length == length) config.context_length = first + length;
        if (gyre_kind_has(config.kind, GYRE_TRAIT_ROTATES)) config.rope.table_positions = length;
        status = gyre_encoding_create(out, &config, NULL, err);
    }
    gyre_reading_free(reading);
    return status;
}

gyre_status model_input_encoding(const model_input *in, const method *m, int policy, int64_t length,
                                 const method_betas *betas, gyre_encoding **out, gyre_error *err) {
    return model_input_encoding_from(in, m, policy, 0, length, betas, out, err);
}

/* Adds to the reason what the user can do about it. */
/* Neither fails for an object that is there. */
gyre_tokenizer_info tokenizer_info(const gyre_tokenizer *tokenizer) {
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    (void)!gyre_tokenizer_get_info(tokenizer, &info);
    return info;
}

gyre_model_source model_source(const gyre_model *model) {
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    (void)!gyre_model_get_source(model, &source);
    return source;
}

static gyre_status refuse_tokenizer(const model_options *o, gyre_status status, const gyre_error *why, gyre_error *err) {
    return gyre_fail(err, status, "tokenizer: %.380s; name another with --tokenizer, or token ids with --ids (%.60s)",
                     why->text, o->tokenizer ? "--tokenizer" : "the model's own");
}

gyre_status model_input_tokenizer(model_input *in, gyre_error *err) {
    const model_options *o = in->options;
    const int64_t vocab = gyre_model_get_config(in->model)->vocab;
    gyre_error why = {0, ""};
    const gyre_status status = gyre_tokenizer_open(&in->tokenizer, o->tokenizer ? o->tokenizer : o->path, &why);
    if (status) return refuse_tokenizer(o, status, &why, err);
    const int64_t ids = tokenizer_info(in->tokenizer).vocab;
    if (ids > vocab)
        return gyre_fail(err, GYRE_EINVAL, "tokenizer: has %lld tokens, but the model's vocabulary has %lld (%.300s)",
                         (long long)ids, (long long)vocab, o->tokenizer ? o->tokenizer : o->path);
    if (!o->lists_notes) tokenizer_notes_warn(in->tokenizer, o->tokenizer ? o->tokenizer : o->path);
    return GYRE_OK;
}

static gyre_status read_one(const model_input *in, const char *path, int64_t min_tokens, gyre_text *out, gyre_error *err) {
    if (in->options->ids) return gyre_text_open_ids(out, path, gyre_model_get_config(in->model)->vocab, min_tokens, err);
    return gyre_text_tokenize(out, in->tokenizer, &path, 1, min_tokens, err);
}

gyre_status model_input_read(model_input *in, int64_t min_tokens, gyre_error *err) {
    const model_options *o = in->options;
    gyre_status status = o->ids || in->tokenizer ? GYRE_OK : model_input_tokenizer(in, err);
    if (status) return status;
    in->texts = calloc((size_t)o->texts_count + 1, sizeof *in->texts);
    if (!in->texts) return gyre_fail(err, GYRE_ENOMEM, "texts: out of memory (%s)", o->path);
    for (; in->texts_count < o->texts_count && !status; in->texts_count += !status)
        status = read_one(in, o->texts[in->texts_count], min_tokens, &in->texts[in->texts_count], err);
    return status;
}

double model_input_bytes_per_token(const model_input *in, int64_t index) {
    const gyre_text *text = &in->texts[index];
    /* The begin token of a file covers no bytes. */
    const int begins = in->tokenizer && tokenizer_info(in->tokenizer).adds_begin;
    const int64_t tokens = text->count - (begins ? text->files : 0);
    return tokens > 0 ? (double)text->bytes / (double)tokens : 0;
}

void model_input_describe(const model_input *in, char *out, size_t size) {
    const gyre_config *position = gyre_encoding_get_config(gyre_model_get_encoding(in->model));
    char weights[16], trained[64] = "trained length unknown";
    if (position->trained_length)
        snprintf(trained, sizeof trained, "trained on %lld tokens", (long long)position->trained_length);
    snprintf(out, size, "%s: %s, %s weights, %s", model_path_as_given(in->options->path), gyre_kind_name(position->kind),
             cli_format_count((double)gyre_model_parameters(in->model), weights), trained);
}

uint64_t hash_token_ids(const int32_t *ids, int64_t count) {
    uint64_t hash = GYRE_FNV1A_OFFSET_BASIS;
    for (int64_t i = 0; i < count; i++)
        for (unsigned shift = 0; shift < 32; shift += 8) {
            const unsigned char byte = (unsigned char)((uint32_t)ids[i] >> shift);
            hash = gyre_fnv1a(hash, &byte, 1);
        }
    return hash;
}

void model_input_free(model_input *in) {
    for (int64_t i = 0; i < in->texts_count; i++)
        gyre_text_free(&in->texts[i]);
    free(in->texts);
    gyre_tokenizer_free(in->tokenizer);
    gyre_model_free(in->model);
    *in = (model_input){0};
}

/* -- notes -- */
int tokenizer_note_next(const char **at, char out[TOKENIZER_NOTE]) {
    static const char between[] = "; ";
    if (!**at) return 0;
    const char *end = strstr(*at, between);
    snprintf(out, TOKENIZER_NOTE, "%.*s", (int)(end ? (size_t)(end - *at) : strlen(*at)), *at);
    *at = end ? end + sizeof between - 1 : *at + strlen(*at);
    return 1;
}

void tokenizer_notes_warn(const gyre_tokenizer *tokenizer, const char *path) {
    const char *at = tokenizer_info(tokenizer).notes;
    char note[TOKENIZER_NOTE];
    while (tokenizer_note_next(&at, note))
        cli_warn("%s: tokenizer: %s", path, note);
}

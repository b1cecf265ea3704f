/* model_input.c: a model, its tokenizer and its texts, opened. */
#include "tools/common/model_input.h"
#include "tools/explain/explain_text.h"
#include <stdlib.h>

/* -- options -- */
void model_options_begin(model_options *o, int argc) {
    *o = (model_options){.profile = GYRE_PROFILE_DEFAULT};
    o->texts = calloc((size_t)argc + 1, sizeof *o->texts);
    if (!o->texts) cli_usage_error("--text: out of memory for %d arguments", argc);
}

void model_options_free(model_options *o) {
    free(o->texts);
    o->texts = NULL;
}

static void add_text(model_options *o, const char *path, int ids) {
    if (o->texts_count && o->ids != ids) cli_usage_error("--ids: takes the place of --text; give one of them");
    o->ids = ids;
    o->texts[o->texts_count++] = path;
}

error_t model_option(model_options *o, int key, char *text) {
    switch (key) {
    case MODEL_KEY_AS:
        o->profile = explain_parse_profile("--as", text);
        return 0;
    case MODEL_KEY_TOKENIZER:
        o->tokenizer = text;
        return 0;
    case MODEL_KEY_TEXT:
    case MODEL_KEY_IDS:
        add_text(o, text, key == MODEL_KEY_IDS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void model_options_check(const model_options *o, int wants_text) {
    if (!o->path) cli_usage_error("MODEL: missing; name a model folder or a GGUF file");
    if (wants_text && !o->texts_count) cli_usage_error("--text: missing; name a text, or token ids with --ids");
    if (o->ids && o->tokenizer) cli_usage_error("--tokenizer: token ids of --ids need none; give one of them");
}

/* -- what they name -- */
gyre_status model_input_open(model_input *out, const model_options *o, int64_t length, gyre_error *err) {
    *out = (model_input){.options = o};
    return gyre_model_open_as(&out->model, o->path, o->profile, length, err);
}

gyre_status model_input_encoding(const model_input *in, const method *m, int policy, int64_t length,
                                 const method_betas *betas, gyre_encoding **out, gyre_error *err) {
    gyre_reading *reading;
    gyre_config base;
    gyre_status status = gyre_model_position_for_length(in->model, length, &base, &reading, err);
    if (status) return status;
    if (policy >= 0) base.rope.length_policy = (gyre_length_policy)policy;
    status = method_encoding(m, &base, base.trained_length, length, betas, out, err);
    gyre_reading_free(reading);
    return status;
}

/* Why there is none, without the place, which is told at the end. */
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
    const int64_t ids = gyre_tokenizer_get_info(in->tokenizer).vocab;
    if (ids <= vocab) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "tokenizer: of %lld tokens, the model's vocabulary is of %lld (%.300s)",
                     (long long)ids, (long long)vocab, o->tokenizer ? o->tokenizer : o->path);
}

static gyre_status read_one(const model_input *in, const char *path, int64_t least, gyre_text *out, gyre_error *err) {
    if (in->options->ids) return gyre_text_open_ids(out, path, gyre_model_get_config(in->model)->vocab, least, err);
    return gyre_text_tokenize(out, in->tokenizer, &path, 1, least, err);
}

gyre_status model_input_read(model_input *in, int64_t least, gyre_error *err) {
    const model_options *o = in->options;
    gyre_status status = o->ids || in->tokenizer ? GYRE_OK : model_input_tokenizer(in, err);
    if (status) return status;
    in->texts = calloc((size_t)o->texts_count + 1, sizeof *in->texts);
    if (!in->texts) return gyre_fail(err, GYRE_ENOMEM, "texts: out of memory (%s)", o->path);
    for (; in->texts_count < o->texts_count && !status; in->texts_count += !status)
        status = read_one(in, o->texts[in->texts_count], least, &in->texts[in->texts_count], err);
    return status;
}

double model_input_bytes_per_token(const model_input *in, int64_t index) {
    const gyre_text *text = &in->texts[index];
    /* A token that begins a file stands for none. */
    const int begins = in->tokenizer && gyre_tokenizer_get_info(in->tokenizer).adds_begin;
    const int64_t tokens = text->count - (begins ? text->files : 0);
    return tokens > 0 ? (double)text->bytes / (double)tokens : 0;
}

void model_input_free(model_input *in) {
    for (int64_t i = 0; i < in->texts_count; i++)
        gyre_text_free(&in->texts[i]);
    free(in->texts);
    gyre_tokenizer_free(in->tokenizer);
    gyre_model_free(in->model);
    *in = (model_input){0};
}

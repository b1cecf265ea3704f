/* convert_gguf_keys.c: the metadata of a GGUF, as llama.cpp's converter writes it. */
#include "convert/conversion.h"
#include "convert/convert_vocab.h"

#include "util/error.h"
#include "util/path.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 128 };

/* -- ARCHITECTURE.suffix -- */
static const char *key_of(const gyre_conversion *c, const char *suffix, char key[MAX_KEY_BYTES]) {
    snprintf(key, MAX_KEY_BYTES, "%s.%s", c->family, suffix);
    return key;
}

static void put_size(gyre_conversion *c, const char *suffix, int64_t x) {
    char key[MAX_KEY_BYTES];
    gyre_gguf_write_u32(&c->keys, key_of(c, suffix, key), (uint32_t)x);
}

static void put_real(gyre_conversion *c, const char *suffix, double x) {
    char key[MAX_KEY_BYTES];
    gyre_gguf_write_f32(&c->keys, key_of(c, suffix, key), x);
}

static void put_key_string(gyre_conversion *c, const char *suffix, const char *value) {
    char key[MAX_KEY_BYTES];
    gyre_gguf_write_string(&c->keys, key_of(c, suffix, key), value);
}

/* -- the rotation -- */
/* Adds a generated tensor with divisors of the frequencies, which llama.cpp reads.  slot: index into c->freq_factors. */
static gyre_status add_freq_factors(gyre_conversion *c, int slot, const char *name, const double *freq_factors,
                                    gyre_error *err) {
    const int64_t pairs = gyre_encoding_get_config(c->encoding)->rope.dim / 2;
    float *numbers = malloc((size_t)pairs * sizeof *numbers);
    gyre_convert_tensor *t = numbers ? gyre_convert_add_tensor(c) : NULL;
    if (!t) {
        free(numbers);
        return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", name);
    }
    for (int64_t i = 0; i < pairs; i++)
        numbers[i] = (float)freq_factors[i];
    c->freq_factors[slot] = numbers;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->generated = (gyre_file_tensor){.name = name,
                                      .file = c->target,
                                      .type = GYRE_STORED_F32,
                                      .rank = 1,
                                      .shape = {pairs, 1, 1, 1},
                                      .count = pairs,
                                      .data = (const unsigned char *)numbers,
                                      .bytes = 4 * (uint64_t)pairs};
    t->type = GYRE_STORED_F32;
    return GYRE_OK;
}

/* For any scaling that does not depend on the length: divisors = unscaled frequencies / scaled ones. */
static gyre_status put_rope_freqs(gyre_conversion *c, double attention, gyre_error *err) {
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(c->encoding)->rope;
    const int64_t pairs = rope->dim / 2;
    double *numbers = malloc((size_t)pairs * sizeof *numbers);
    gyre_status status = numbers ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "rope_freqs.weight: no memory");
    if (!status) status = gyre_encoding_frequencies(c->encoding, c->length, numbers, NULL);
    for (int64_t i = 0; i < pairs && !status; i++) {
        if (numbers[i] == 0)
            status = gyre_fail(err, GYRE_EUNSUPPORTED,
                               "rotation: pair %lld does not rotate, which a divisor in a GGUF cannot state (%s)",
                               (long long)i, c->source.path);
        numbers[i] = pow(rope->base, -2.0 * (double)i / (double)rope->dim) / numbers[i];
    }
    if (!status) status = add_freq_factors(c, 0, "rope_freqs.weight", numbers, err);
    if (!status && attention != 1) put_real(c, "rope.scaling.attn_factor", attention);
    free(numbers);
    return status;
}

static gyre_status put_longrope_factors(gyre_conversion *c, double attention, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(c->encoding);
    put_key_string(c, "rope.scaling.type", "longrope");
    put_size(c, "rope.scaling.original_context_length", config->trained_length);
    put_real(c, "rope.scaling.attn_factor", attention);
    gyre_status status = add_freq_factors(c, 0, "rope_factors_long.weight", config->rope.long_factor, err);
    if (!status) status = add_freq_factors(c, 1, "rope_factors_short.weight", config->rope.short_factor, err);
    return status;
}

static gyre_status put_yarn(gyre_conversion *c, double attention, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(c->encoding);
    const double yarn_attention = 0.1 * log(config->rope.factor) + 1; /* llama.cpp applies it by itself */
    if (config->rope.fractional_bounds || config->rope.beta_fast != 32 || config->rope.beta_slow != 1)
        return put_rope_freqs(c, attention, err);
    put_key_string(c, "rope.scaling.type", "yarn");
    put_real(c, "rope.scaling.factor", config->rope.factor);
    put_size(c, "rope.scaling.original_context_length", config->trained_length);
    if (fabs(attention / yarn_attention - 1) > 1e-7) put_real(c, "rope.scaling.attn_factor", attention / yarn_attention);
    return GYRE_OK;
}

static gyre_status put_rotation(gyre_conversion *c, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(c->encoding);
    double attention = 1;
    const gyre_status status = gyre_encoding_frequencies(c->encoding, c->length, NULL, &attention);
    if (status) return status;
    put_size(c, "rope.dimension_count", config->rope.dim);
    put_real(c, "rope.freq_base", config->rope.base);
    if (config->rope.frequencies && config->rope.scaling != GYRE_SCALING_LONGROPE) return put_rope_freqs(c, attention, err);
    switch (config->rope.scaling) {
    case GYRE_SCALING_LINEAR:
        put_key_string(c, "rope.scaling.type", "linear");
        put_real(c, "rope.scaling.factor", config->rope.factor);
        if (attention != 1) put_real(c, "rope.scaling.attn_factor", attention);
        return GYRE_OK;
    case GYRE_SCALING_NONE:
        if (attention != 1) put_real(c, "rope.scaling.attn_factor", attention);
        return GYRE_OK;
    case GYRE_SCALING_YARN:
        return put_yarn(c, attention, err);
    case GYRE_SCALING_LONGROPE:
        return put_longrope_factors(c, attention, err);
    case GYRE_SCALING_DYNAMIC_NTK:
    case GYRE_SCALING_DYNAMIC_YARN:
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "rotation: its frequencies depend on the length, which llama.cpp does not have (%s)",
                         c->source.path);
    default:
        return put_rope_freqs(c, attention, err);
    }
}

/* -- the model -- */
static void put_general(gyre_conversion *c) {
    char name[64];
    const char *path = c->source.path;
    const size_t end = gyre_path_length(path);
    size_t begin;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--) {
    }
    snprintf(name, sizeof name, "%.*s", (int)(end - begin < 60 ? end - begin : 60), path + begin);
    gyre_gguf_write_string(&c->keys, "general.architecture", c->family);
    gyre_gguf_write_string(&c->keys, "general.type", "model");
    gyre_gguf_write_string(&c->keys, "general.name", name);
    gyre_gguf_write_u32(&c->keys, "general.quantization_version", 2);
}

static void put_sizes(gyre_conversion *c) {
    const gyre_architecture *a = &c->source.arch;
    put_size(c, "vocab_size", a->vocab);
    put_size(c, "context_length", c->length);
    put_size(c, "embedding_length", a->model_dim);
    put_size(c, "block_count", a->layers);
    put_size(c, "feed_forward_length", a->mlp_dim);
    put_size(c, "attention.head_count", a->heads);
    put_size(c, "attention.head_count_kv", a->kv_heads);
    put_size(c, "attention.key_length", a->head_dim);
    put_size(c, "attention.value_length", a->head_dim);
    put_real(c, "attention.layer_norm_rms_epsilon", a->norm_epsilon);
}

static gyre_status put_tokens(gyre_conversion *c, gyre_error *err) {
    gyre_convert_vocab vocab = {0};
    int there = 1;
    gyre_status status = GYRE_OK;
    const char *tokens = c->source.kind == GYRE_SOURCE_LLAMA2C ? gyre_llama2c_tokenizer_path(c->source.checkpoint) : NULL;
    if (c->source.kind == GYRE_SOURCE_FOLDER)
        status = gyre_convert_vocab_from_json(&vocab, &there, c->source.path, c->source.arch.vocab, c->options, err);
    else if (tokens)
        status = gyre_convert_vocab_from_llama2c(&vocab, tokens, c->source.arch.vocab, err);
    else
        there = 0;
    if (!status && !there && c->source.arch.vocab == GYRE_BYTE_TOKENS) {
        status = gyre_convert_vocab_from_bytes(&vocab, err);
        there = 1;
    }
    if (status) return status;
    c->has_tokens = there;
    if (there)
        gyre_convert_vocab_to_gguf(&vocab, &c->keys);
    else
        gyre_gguf_write_string(&c->keys, "tokenizer.ggml.model", "none");
    gyre_convert_vocab_free(&vocab);
    return GYRE_OK;
}

/* llama.cpp's code for the families that are written has no window, and reads no key of one. */
static gyre_status check_windows(const gyre_conversion *c, gyre_error *err) {
    const gyre_reading *reading = c->source.reading;
    for (int64_t i = 0; reading && i < reading->groups_count; i++) {
        const int64_t window = reading->groups[i]->window;
        if (window > 0 && window < c->length)
            return gyre_convert_lose(c->options, err,
                                     "sliding_window: llama.cpp has none for a %s, whose %s layers see %" PRId64
                                     " of %" PRId64 " tokens (%s)",
                                     c->family, reading->groups[i]->name, window, c->length, c->source.path);
    }
    return GYRE_OK;
}

/* Copies the metadata of a source GGUF, except what the writer sets itself. */
static void copy_keys(gyre_conversion *c) {
    const gyre_gguf *file = gyre_tensor_store_gguf(c->source.store);
    for (int64_t i = 0; i < file->kv_count; i++) {
        const gyre_gguf_kv *pair = &file->kvs[i];
        static const char *const skipped[] = {"general.file_type", "general.alignment"};
        int skip = 0;
        for (int k = 0; k < 2; k++)
            skip |= strlen(skipped[k]) == pair->key_bytes && memcmp(skipped[k], pair->key, pair->key_bytes) == 0;
        if (!skip) gyre_gguf_write_kv_copy(&c->keys, file, pair);
    }
}

gyre_status gyre_convert_make_gguf_keys(gyre_conversion *c, gyre_error *err) {
    if (c->source.kind == GYRE_SOURCE_GGUF) {
        copy_keys(c);
        return GYRE_OK;
    }
    if (!c->encoding && c->source.reading->groups_count == 1)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: %s is not converted to a GGUF, a rotation is (%s)",
                         gyre_kind_name(c->source.reading->groups[0]->config.kind), c->source.path);
    if (!c->encoding)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: layers with different positions are not converted (%s)",
                         c->source.path);
    gyre_status status = check_windows(c, err);
    if (status) return status;
    put_general(c);
    put_sizes(c);
    status = put_rotation(c, err);
    return !status ? put_tokens(c, err) : status;
}

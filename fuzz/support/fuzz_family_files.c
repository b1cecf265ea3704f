/* fuzz_family_files.c: config.json and model.safetensors of a model, or its GGUF. */
#include "fuzz_family.h"

#include "files/gguf_writer.h"
#include "fuzz_support.h"
#include "numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { QUANTS = 32, BLOCK = 34 };

/* -- config.json -- */
static int named(const family_model *m, const char *type) {
    return strcmp(m->name, type) == 0;
}

static void say(family_model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(family_model *m, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof m->config - m->config_bytes;
    const int n = vsnprintf(m->config + m->config_bytes, room, format, arguments);
    va_end(arguments);
    fuzz_require(n >= 0 && (size_t)n < room, "room for the config of the target itself");
    m->config_bytes += (size_t)n;
}

static void say_list(family_model *m, const char *key, double first, double step, int64_t count) {
    say(m, "\"%s\": [", key);
    for (int64_t i = 0; i < count; i++)
        say(m, "%s%g", i ? ", " : "", first + step * (double)i);
    say(m, "], ");
}

static void say_scaling(family_model *m) {
    switch (m->scaling) {
    case FAMILY_LINEAR:
        say(m, "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %g}, ", m->factor);
        break;
    case FAMILY_YARN:
        say(m, "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 8}, ");
        break;
    case FAMILY_LLAMA3:
        say(m, "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
               "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 16}, ");
        break;
    case FAMILY_DYNAMIC:
        say(m, "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}, ");
        break;
    case FAMILY_LONGROPE:
        say(m, "\"rope_scaling\": {\"%s\": \"longrope\", ", named(m, "phi3") ? "type" : "rope_type");
        say_list(m, "short_factor", 1, 0.25, m->rotated / 2);
        say_list(m, "long_factor", 2, 0.5, m->rotated / 2);
        say(m, "\"factor\": 2.0, \"original_max_position_embeddings\": 16}, ");
        break;
    default:
        break;
    }
}

static const char *activation_name(const family_model *m) {
    return m->activation == FAMILY_IS_SILU   ? "silu"
           : m->activation == FAMILY_IS_GELU ? "gelu"
           : m->activation == FAMILY_IS_RELU ? "relu"
                                             : "gelu_new";
}

static void say_sizes(family_model *m) {
    static const char *const usual[] = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                        "max_position_embeddings"};
    static const char *const gpt[] = {"n_embd", "n_layer", "n_head", "n_inner", "n_positions"};
    static const char *const bloom[] = {"hidden_size", "n_layer", "n_head", NULL, "seq_length"};
    static const char *const mpt[] = {"d_model", "n_layers", "n_heads", NULL, "max_seq_len"};
    const char *const *key = named(m, "gpt2") || named(m, "gptj") ? gpt
                             : named(m, "bloom")                  ? bloom
                             : named(m, "mpt")                    ? mpt
                                                                  : usual;
    const int64_t sizes[] = {m->width, m->layers, m->heads, m->mlp_dim, m->positions};
    say(m, "\"vocab_size\": %d, ", (int)m->vocab);
    for (int i = 0; i < 5; i++)
        if (key[i]) say(m, "\"%s\": %d, ", key[i], (int)sizes[i]);
    if (!(m->traits & FAMILY_ALL_HEADS)) say(m, "\"num_key_value_heads\": %d, ", (int)m->kv_heads);
    if (m->traits & FAMILY_OWN_HEAD_DIM) say(m, "\"head_dim\": %d, ", (int)m->head_dim);
    const char *epsilon = key == gpt || key == bloom || key == mpt ? "layer_norm_epsilon"
                          : named(m, "starcoder2")                 ? "norm_epsilon"
                          : m->traits & FAMILY_LAYER_NORM          ? "layer_norm_eps"
                                                                   : "rms_norm_eps";
    say(m, "\"%s\": %.10g, ", epsilon, m->epsilon);
    if (key != mpt && key != bloom)
        say(m, "\"%s\": \"%s\", ",
            key == gpt                          ? "activation_function"
            : strncmp(m->name, "gemma", 5) == 0 ? "hidden_activation"
                                                : "hidden_act",
            activation_name(m));
}

static void say_rotation(family_model *m) {
    const double part = (double)m->rotated / (double)m->head_dim;
    if (!m->layer[0].rotates) return;
    if (named(m, "gptj")) {
        say(m, "\"rotary\": true, \"rotary_dim\": %d, ", (int)m->rotated);
        return;
    }
    if (named(m, "gpt_neox"))
        say(m, "\"rotary_pct\": %g, \"rotary_emb_base\": %.10g, ", part, m->base);
    else
        say(m, "\"rope_theta\": %.10g, ", m->base);
    if (!named(m, "gpt_neox") && m->traits & FAMILY_PARTIAL) say(m, "\"partial_rotary_factor\": %g, ", part);
    say_scaling(m);
}

static void say_window(family_model *m) {
    int64_t window = 0;
    for (int i = 0; i < m->layers; i++)
        if (m->layer[i].window) window = m->layer[i].window;
    const int gemma = named(m, "gemma2") || named(m, "gemma3_text") || named(m, "gemma3");
    if (named(m, "qwen2") && window) say(m, "\"use_sliding_window\": true, \"max_window_layers\": 1, ");
    if (gemma && !window) window = 7; /* of no layer that the model has */
    if (window)
        say(m, "\"sliding_window\": %d, ", (int)window);
    else
        say(m, "\"sliding_window\": null, ");
    if (gemma) say(m, "\"query_pre_attn_scalar\": 12, ");
    if (gemma && !named(m, "gemma2")) say(m, "\"sliding_window_pattern\": 2, \"rope_local_base_freq\": 10000.0, ");
}

static void say_softcaps(family_model *m) {
    const double caps[] = {m->attn_softcap, m->logit_softcap};
    static const char *const keys[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    for (int i = 0; i < 2; i++)
        if (caps[i] > 0)
            say(m, "\"%s\": %g, ", keys[i], caps[i]);
        else
            say(m, "\"%s\": null, ", keys[i]);
}

static const char *truth(unsigned x) {
    return x ? "true" : "false";
}

static void say_of_family(family_model *m) {
    const unsigned t = m->traits;
    if (t & FAMILY_BIAS_FLAGS || named(m, "gpt_neox")) say(m, "\"attention_bias\": %s, ", truth(t & FAMILY_O_BIAS));
    if (named(m, "llama") || named(m, "granite") || named(m, "smollm3"))
        say(m, "\"mlp_bias\": %s, ", truth(t & FAMILY_MLP_BIASES));
    if (named(m, "stablelm")) say(m, "\"use_qkv_bias\": %s, \"qk_layernorm\": false, ", truth(t & FAMILY_QKV_BIASES));
    if (named(m, "stablelm") || named(m, "gpt_neox")) say(m, "\"use_parallel_residual\": %s, ", truth(t & FAMILY_PARALLEL));
    if (named(m, "starcoder2")) say(m, "\"use_bias\": %s, ", truth(t & FAMILY_O_BIAS));
    if (named(m, "cohere")) say(m, "\"logit_scale\": %g, \"use_qk_norm\": false, ", m->logit_scale);
    if (named(m, "granite"))
        say(m, "\"embedding_multiplier\": 3.0, \"attention_multiplier\": 0.25, \"residual_multiplier\": 0.5, "
               "\"logits_scaling\": 2.5, ");
    if (named(m, "smollm3")) {
        say(m, "\"no_rope_layers\": [");
        for (int i = 0; i < m->layers; i++)
            say(m, "%s%d", i ? ", " : "", m->layer[i].rotates);
        say(m, "], ");
    }
    if (named(m, "phi3")) say(m, "\"original_max_position_embeddings\": %d, ", m->scaling == FAMILY_LONGROPE ? 16 : 32);
    if (!named(m, "mpt")) return;
    say(m,
        "\"no_bias\": %s, \"expansion_ratio\": 2, \"attn_config\": {\"attn_type\": \"multihead_attention\", "
        "\"alibi\": true, \"alibi_bias_max\": 4, \"softmax_scale\": %.17g, ",
        truth(!(t & FAMILY_O_BIAS)), m->attn_scale);
    if (m->clip > 0)
        say(m, "\"clip_qkv\": %g}, ", m->clip);
    else
        say(m, "\"clip_qkv\": null}, ");
}

void fuzz_family_describe(family_model *m) {
    m->config_bytes = 0;
    say(m, "{\"model_type\": \"%s\", ", m->name);
    if (named(m, "gemma3")) say(m, "\"text_config\": {\"model_type\": \"gemma3_text\", ");
    say_sizes(m);
    say_rotation(m);
    say_window(m);
    if (m->traits & FAMILY_SOFTCAPS) say_softcaps(m);
    say_of_family(m);
    say(m, "\"tie_word_embeddings\": %s", truth(!m->has_head));
    if (named(m, "gemma3")) say(m, "}");
    say(m, "}");
}

/* -- numbers -- */
static size_t size_of(const char *dtype) {
    return strcmp(dtype, "F64") == 0 ? 8 : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0 ? 4 : 2;
}

static double value_at(const family_tensor *t, int64_t i) {
    return i < t->count ? t->values[i] : 0;
}

static void put_block(const family_tensor *t, int64_t first, unsigned char *out) {
    unsigned scale = (unsigned)(15 - t->exponent) << 10;
    for (int i = 0; i < QUANTS; i++) {
        const double x = value_at(t, first + i);
        if (!isfinite(x)) scale = isnan(x) ? 0x7E00 : 0x7C00;
        out[2 + i] = (unsigned char)(signed char)(isfinite(x) ? ldexp(x, t->exponent) : 1);
    }
    out[0] = (unsigned char)scale;
    out[1] = (unsigned char)(scale >> 8);
}

static void put_number(const char *dtype, double x, unsigned char *out) {
    const gyre_dtype type = strcmp(dtype, "F32") == 0    ? GYRE_DTYPE_F32
                            : strcmp(dtype, "BF16") == 0 ? GYRE_DTYPE_BF16
                                                         : GYRE_DTYPE_F16;
    const float nan_or_infinity = (float)x;
    if (size_of(dtype) == 8 || *dtype == 'I') return;
    if (isfinite(x)) {
        test_put(out, type, 0, x);
    } else if (type == GYRE_DTYPE_F32) {
        memcpy(out, &nan_or_infinity, 4);
    } else {
        const uint16_t bits = (uint16_t)(type == GYRE_DTYPE_F16 ? 0x7C00 : 0x7F80) | (isnan(x) ? 1 : 0);
        memcpy(out, &bits, 2);
    }
}

/* out = the bytes of a tensor; the caller frees them. */
static unsigned char *stored(const family_tensor *t, size_t *bytes) {
    const int64_t count = t->shape[0] * t->shape[1] * t->shape[2];
    const int blocks = strcmp(t->dtype, "Q8_0") == 0;
    *bytes = blocks ? (size_t)count / QUANTS * BLOCK : (size_t)count * size_of(t->dtype);
    unsigned char *out = fuzz_room(*bytes, 1);
    for (int64_t i = 0; i < count; i += blocks ? QUANTS : 1)
        if (blocks)
            put_block(t, i, out + i / QUANTS * BLOCK);
        else
            put_number(t->dtype, value_at(t, i), out + (size_t)i * size_of(t->dtype));
    return out;
}

/* -- files -- */
static void write_safetensors(const family_model *m, const char *path, size_t cut) {
    char header[FAMILY_TENSORS * 256] = "{", *at = header + 1;
    size_t offset = 0, bytes;
    for (int i = 0; i < m->tensors; i++) {
        const family_tensor *t = &m->tensor[i];
        if (!t->kept) continue;
        free(stored(t, &bytes));
        at += sprintf(at, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%d", at == header + 1 ? "" : ",", t->name, t->dtype,
                      (int)t->shape[0]);
        for (int k = 1; k < t->rank; k++)
            at += sprintf(at, ", %d", (int)t->shape[k]);
        at += sprintf(at, "], \"data_offsets\": [%zu, %zu]}", offset, offset + bytes);
        offset += bytes;
    }
    at += sprintf(at, "}");
    while ((at - header) % 8)
        *at++ = ' ';
    FILE *file = fopen(path, "wb");
    const uint64_t size = (uint64_t)(at - header);
    fuzz_require(file && fwrite(&size, 8, 1, file) == 1 && fwrite(header, 1, size, file) == size, "a file can be written");
    for (int i = 0; i < m->tensors; i++) {
        unsigned char *data = m->tensor[i].kept ? stored(&m->tensor[i], &bytes) : NULL;
        const int last = i == m->tensors - 1 && cut < bytes;
        if (data) fuzz_require(fwrite(data, 1, last ? bytes - cut : bytes, file) <= bytes, "a file can be written");
        free(data);
    }
    fuzz_require(fclose(file) == 0, "a file can be written");
}

static void write_keys(const family_model *m, gyre_gguf_writer *w) {
    char key[96];
    const struct {
        const char *suffix;
        int64_t size;
    } sizes[] = {{"context_length", m->positions},
                 {"embedding_length", m->width},
                 {"block_count", m->layers},
                 {"feed_forward_length", m->mlp_dim},
                 {"attention.head_count", m->heads},
                 {"attention.head_count_kv", m->kv_heads},
                 {"attention.key_length", m->traits & FAMILY_OWN_HEAD_DIM ? m->head_dim : 0},
                 {"attention.value_length", m->traits & FAMILY_OWN_HEAD_DIM ? m->head_dim : 0},
                 {"rope.dimension_count", m->layer[0].rotates ? m->rotated : 0},
                 {"rope.scaling.original_context_length", named(m, "phi3") ? m->positions : 0},
                 {"attention.sliding_window", m->layer[0].window ? m->layer[0].window
                                              : named(m, "phi3") ? m->positions
                                                                 : 0}};
    const struct {
        const char *suffix;
        double number;
    } numbers[] = {
        {m->traits & FAMILY_LAYER_NORM ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", m->epsilon},
        {"rope.freq_base", m->layer[0].rotates ? m->base : 0},
        {"attn_logit_softcapping", m->attn_softcap},
        {"final_logit_softcapping", m->logit_softcap},
        {"attention.max_alibi_bias", named(m, "mpt") ? m->bias_max : 0},
        {"attention.clamp_kqv", m->clip}};
    gyre_gguf_write_string(w, "general.architecture", m->name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", m->name, sizes[i].suffix);
        if (sizes[i].size) gyre_gguf_write_u32(w, key, (uint32_t)sizes[i].size);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "%s.%s", m->name, numbers[i].suffix);
        if (numbers[i].number != 0) gyre_gguf_write_f32(w, key, numbers[i].number);
    }
    if (named(m, "gptneox")) gyre_gguf_write_bool(w, "gptneox.use_parallel_residual", (m->traits & FAMILY_PARALLEL) != 0);
}

static gyre_stored_type type_of(const char *dtype) {
    return strcmp(dtype, "F32") == 0    ? GYRE_STORED_F32
           : strcmp(dtype, "F16") == 0  ? GYRE_STORED_F16
           : strcmp(dtype, "BF16") == 0 ? GYRE_STORED_BF16
                                        : GYRE_STORED_Q8_0;
}

static void write_gguf(const family_model *m, const char *path, size_t cut) {
    static const unsigned char zeros[GYRE_GGUF_ALIGNMENT];
    gyre_gguf_writer w = {0};
    unsigned char *head = NULL;
    size_t bytes;
    gyre_error err = {0, ""};
    write_keys(m, &w);
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kept)
            gyre_gguf_write_tensor_info(&w, m->tensor[i].name, type_of(m->tensor[i].dtype), m->tensor[i].rank,
                                        m->tensor[i].shape);
    fuzz_require(!gyre_gguf_write_metadata(&w, &head, &bytes, &err), err.text);
    FILE *file = fopen(path, "wb");
    fuzz_require(file && fwrite(head, 1, bytes, file) == bytes, "a file can be written");
    for (int i = 0; i < m->tensors; i++) {
        unsigned char *data = m->tensor[i].kept ? stored(&m->tensor[i], &bytes) : NULL;
        if (!data) continue;
        const size_t pad = gyre_gguf_pad(bytes) - bytes;
        const int last = cut > 0 && i == m->tensors - 1;
        fuzz_require(fwrite(data, 1, last && cut < bytes ? bytes - cut : bytes, file) <= bytes, "a file can be written");
        if (!last) fuzz_require(fwrite(zeros, 1, pad, file) == pad, "a file can be written");
        free(data);
    }
    fuzz_require(fclose(file) == 0, "a file can be written");
    free(head);
    gyre_gguf_writer_free(&w);
}

void fuzz_family_write(const family_model *m, const char *name, size_t cut) {
    char path[160];
    if (m->gguf) {
        write_gguf(m, fuzz_path(name), cut);
        return;
    }
    mkdir(fuzz_path(name), 0777);
    snprintf(path, sizeof path, "%s/config.json", name);
    fuzz_write(path, m->config, m->config_bytes);
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    write_safetensors(m, fuzz_path(path), cut);
}

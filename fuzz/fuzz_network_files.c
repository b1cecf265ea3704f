/* fuzz_network_files.c: the bytes choose a small model of any family that Gyre runs, a fault of its files, and a conversion.
 *
 * What opens computes what the family's program does, in double (fuzz_family_decoder.c), and keeps the promises of
 * fuzz_model_laws.h; a fault is found; a converted model has the numbers asked for, and computes the same.  A failure leaves
 * nothing behind.
 *
 * The low three bits of the first byte: '7' a model made here (fuzz_own_files.c), '6' a checkpoint with a bias table, others
 * a family.  The bytes after it choose, in the order of the calls below. */
#include "files/tensors/tensor_store.h"
#include "fuzz_family.h"
#include "fuzz_model_laws.h"
#include "fuzz_own_files.h"
#include "fuzz_support.h"
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 12, MOST_VOCAB = 96 };
static const char *const kept_names = "model model.gguf out out.gguf own again";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* -- faults -- */
typedef enum fault {
    SOUND,
    CONFIG_BYTES,
    MISSING,
    SHAPE,
    DTYPE,
    NOT_FINITE,
    EXTRA,
    UNSUPPORTED,
    CUT,
    HUGE_NUMBER,
    ROUGH, /* none: numbers that narrower types have to round */
    FAULTS
} fault;
typedef enum outcome { OPENS, FAILS, UNKNOWN } outcome;

static outcome spoil_bytes(family_model *m, fuzz_bytes *b) {
    for (int i = 1 + fuzz_choice(b, 3); i > 0; i--) {
        const size_t at = (size_t)fuzz_between(b, 0, (int64_t)m->config_bytes - 1);
        m->config[at] = (char)fuzz_byte(b);
    }
    return m->gguf ? OPENS : UNKNOWN;
}

static outcome leave_out(family_model *m, family_tensor *t) {
    t->kept = 0;
    if (m->gguf && (t->bias || t->role == FAMILY_HEAD || t->role == FAMILY_EMBED_NORM)) return UNKNOWN;
    return FAILS;
}

static outcome reshape(family_model *m, family_tensor *t, int how) {
    if (how == 0) {
        t->rank++;
        return FAILS;
    }
    if (how == 1 && t->rank == 2 && t->shape[0] != t->shape[1] && strcmp(t->dtype, "Q8_0") != 0) {
        const int64_t rows = t->shape[0];
        t->shape[0] = t->shape[1];
        t->shape[1] = rows;
        return m->gguf && t->layer < 0 ? UNKNOWN : FAILS;
    }
    t->shape[0]++;
    return m->gguf && t->layer < 0 ? UNKNOWN : FAILS; /* the vocabulary of a GGUF is its embedding's */
}

static outcome retype(family_model *m, family_tensor *t, int how) {
    static const char *const types[] = {"F32", "F16", "BF16", "I32", "F64"};
    snprintf(t->dtype, sizeof t->dtype, "%s", types[how % (m->gguf ? 3 : 5)]);
    return !m->gguf && how % 5 > 2 ? FAILS : OPENS;
}

/* A tensor that the model does not have: ignored where programs save such buffers. */
static outcome add_extra(family_model *m, int how) {
    static const struct {
        const char *name;
        outcome is;
    } extras[] = {{"model.layers.0.self_attn.rotary_emb.inv_freq", OPENS},
                  {"h.0.attn.bias", OPENS},
                  {"h.0.attn.masked_bias", OPENS},
                  {"gpt_neox.layers.0.attention.bias", OPENS},
                  {"model.layers.0.self_attn.q_proj.scale", FAILS},
                  {"model.layers.7.input_layernorm.weight", FAILS},
                  {"vision_tower.encoder.weight", UNKNOWN},
                  {"a\\u0001b", FAILS},
                  {NULL, FAILS}};
    family_tensor *t = &m->tensor[m->tensors];
    if (m->tensors == FAMILY_TENSORS) return OPENS;
    *t = (family_tensor){.dtype = "F32", .role = FAMILY_ROLES, .layer = -1, .rank = 1, .kept = 1, .shape = {1, 1, 1, 1}};
    t->values = fuzz_room(1, sizeof *t->values);
    t->values[0] = 1; /* a frequency, if it is one */
    t->count = 1;
    m->tensors++;
    const int of = how % 9;
    const char *name = extras[of].name ? extras[of].name : m->tensor[0].name;
    snprintf(t->name, sizeof t->name, "%s", of == 7 && m->gguf ? "a\001b" : name);
    if (extras[of].is != UNKNOWN) return extras[of].is;
    return strcmp(m->name, "gemma3") == 0 && !m->gguf ? OPENS : FAILS;
}

/* One more key, which asks for what is not computed. */
static outcome ask_for_more(family_model *m, int how) {
    static const char *const keys[] = {
        "\"num_local_experts\": 4",   "\"quantization_config\": {\"bits\": 4}", "\"add_cross_attention\": true",
        "\"alibi_with_sinks\": true", "\"use_bidirectional_attention\": true",  "\"scale_attn_by_inverse_layer_idx\": true"};
    if (m->gguf) return OPENS;
    const int n = snprintf(m->config + m->config_bytes - 1, sizeof m->config - m->config_bytes, ", %s}", keys[how % 6]);
    m->config_bytes += (size_t)n - 1;
    return FAILS;
}

static void roughen(family_model *m) {
    test_random random = {9};
    for (int i = 0; i < m->tensors; i++)
        for (int64_t k = 0; k < m->tensor[i].count && strcmp(m->tensor[i].dtype, "F32") == 0; k++)
            m->tensor[i].values[k] = (double)(float)(m->tensor[i].values[k] * (1 + test_uniform(&random) * 0x1p-8));
}

static outcome spoil(family_model *m, fault what, fuzz_bytes *b, size_t *cut) {
    family_tensor *t = &m->tensor[fuzz_choice(b, m->tensors)];
    const int how = (int)fuzz_byte(b);
    switch (what) {
    case CONFIG_BYTES:
        return spoil_bytes(m, b);
    case MISSING:
        return leave_out(m, t);
    case SHAPE:
        return reshape(m, t, how % 3);
    case DTYPE:
        return retype(m, t, how);
    case NOT_FINITE:
        t->values[how % t->count] = how & 1 ? NAN : how & 2 ? INFINITY : -INFINITY;
        return FAILS;
    case EXTRA:
        return add_extra(m, how);
    case UNSUPPORTED:
        return ask_for_more(m, how);
    case CUT:
        *cut = 1;
        return FAILS;
    case HUGE_NUMBER:
        if (strcmp(t->dtype, "F32") == 0) t->values[how % t->count] = 98304;
        return OPENS;
    case ROUGH:
        roughen(m);
        return OPENS;
    default:
        return OPENS;
    }
}

/* -- logits -- */
/* Of every scaling but a linear one, which fuzz_config judges. */
static void take_frequencies(family_model *m, const gyre_model *model) {
    if (m->scaling <= FAMILY_LINEAR) return;
    const gyre_encoding *encoding = gyre_model_get_encoding(model);
    if (gyre_encoding_get_config(encoding)->kind != GYRE_KIND_ROPE) return;
    fuzz_require(gyre_encoding_get_config(encoding)->rope.dim == m->rotated, "channels that rotate");
    fuzz_require(!gyre_encoding_frequencies(encoding, 0, m->frequencies, &m->attention_factor), "frequencies");
}

/* Within what roundings of weights to 22 bits may do, 32 times, and of the sums. */
static void check_logits(family_model *m, const gyre_model *model, const int32_t *ids, int64_t n, const float *logits) {
    static double want[MOST_TOKENS * MOST_VOCAB], shaken[MOST_TOKENS * MOST_VOCAB];
    double most = 0, moved = 0, off = 0;
    take_frequencies(m, model);
    fuzz_family_logits(m, ids, n, 0, want);
    fuzz_family_logits(m, ids, n, 1, shaken);
    for (int64_t i = 0; i < n * m->vocab; i++) {
        most = fmax(most, fabs(want[i]));
        moved = fmax(moved, fabs(want[i] - shaken[i]));
        off = fmax(off, fabs((double)logits[i] - want[i]));
    }
    gyre_model_source file = GYRE_INIT(gyre_model_source);
    fuzz_require(!gyre_model_get_source(model, &file), "a model has a source");
    if (!(off <= 2e-6 * most + 32 * moved))
        fprintf(stderr, "%s (%s): off by %g of %g, moved by %g: %.*s\n", m->name, file.path, off, most, moved,
                (int)m->config_bytes, m->config);
    fuzz_require(off <= 2e-6 * most + 32 * moved, "logits are those of the family");
}

/* -- what opens -- */
static void check_facts(const family_model *m, const gyre_model *model, const char *path) {
    const gyre_model_config *c = gyre_model_get_config(model);
    gyre_stored_positions *stored = NULL;
    gyre_error err = {0, ""};
    int64_t numbers = 0, tensors = 0, tables = 0;
    for (int i = 0; i < m->tensors; i++) {
        if (m->tensor[i].kept && m->tensor[i].role != FAMILY_ROLES) numbers += m->tensor[i].count;
        tensors += m->tensor[i].kept;
        tables += m->tensor[i].kept && m->tensor[i].role == FAMILY_TABLE;
    }
    fuzz_require(c->vocab == m->vocab && c->model_dim == m->width && c->layers == m->layers && c->heads == m->heads &&
                     c->kv_heads == m->kv_heads && c->head_dim == m->head_dim && c->mlp_dim == m->mlp_dim,
                 "sizes of the config");
    fuzz_require(gyre_model_parameters(model) == numbers, "the number of weights");
    fuzz_require(!gyre_stored_positions_open(&stored, path, &err), err.text);
    fuzz_require(stored->tensors_in_all == tensors, "tensors in all");
    for (int64_t i = 0; i < stored->count; i++)
        tables -= stored->tensors[i].kind == GYRE_STORED_POSITION_ROWS;
    fuzz_require(tables == 0, "tables of positions");
    gyre_stored_positions_free(stored);
    const gyre_cview table = gyre_model_get_input_table(model);
    family_tensor *rows = fuzz_family_find((family_model *)m, FAMILY_TABLE, -1, 0);
    fuzz_require((table.data != NULL) == (rows != NULL), "a table of positions");
    for (int64_t i = 0; rows && i < rows->count; i++)
        fuzz_require(((const float *)table.data)[i] == (float)rows->values[i], "its numbers");
}

/* -- conversion -- */
typedef struct target {
    gyre_convert_options options;
    const char *name; /* of fuzz_path */
    int adjacent;     /* pairs of the result */
} target;

static void ignore_loss(void *ctx, const char *what) {
    (void)ctx;
    fuzz_require(*what != '\0', "a loss has a text");
}

static target choose_target(fuzz_bytes *b) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    static const gyre_layout layouts[] = {GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF};
    target t = {.options = GYRE_INIT(gyre_convert_options)};
    const int choice = fuzz_choice(b, 256);
    t.options.format = choice & 1 ? GYRE_MODEL_FORMAT_GGUF : GYRE_MODEL_FORMAT_SAFETENSORS;
    if (choice & 2) t.options.dtype = &types[choice >> 2 & 3];
    if ((choice & 0x30) == 0x30) t.options.layout = &layouts[choice >> 6 & 1];
    if ((choice & 0xB0) == 0x90) t.options.source_layout = &layouts[choice >> 6 & 1];
    if (choice & 8) t.options.lost = ignore_loss;
    t.name = choice & 1 ? "out.gguf" : "out";
    return t;
}

/* The data of a file need not be aligned. */
static double stored_number(const gyre_file_tensor *t, int64_t i) {
    const size_t size = t->type == GYRE_STORED_F32 ? 4 : 2;
    const unsigned char *block = t->data + i / 32 * 34;
    float number[1];
    if (t->type == GYRE_STORED_Q8_0) {
        memcpy(number, block, 2);
        return test_get(number, GYRE_DTYPE_F16, 0) * (signed char)block[2 + i % 32];
    }
    memcpy(number, t->data + (size_t)i * size, size);
    return test_get(number,
                    t->type == GYRE_STORED_F32   ? GYRE_DTYPE_F32
                    : t->type == GYRE_STORED_F16 ? GYRE_DTYPE_F16
                                                 : GYRE_DTYPE_BF16,
                    0);
}

/* out = the largest error that a block of Q8_0 may make of number i: half a step of a 127th of the largest number, the
 * rounding of that step to f16 times 127, and those of floats. */
static double block_error(const family_tensor *t, int64_t i) {
    double most = 0;
    for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32; k++)
        most = fmax(most, fabs(t->values[k]));
    return most / 254 * 1.00001 + fmax(most * 0x1p-11, 127 * 0x1p-25);
}

/* out = the row of the source that is row `row` of the result, where pairs move. */
static int64_t moved_row(const family_model *m, int64_t row, int to_adjacent) {
    const int64_t at = row % m->head_dim, half = m->rotated / 2;
    if (at >= m->rotated) return row;
    return row - at + (to_adjacent ? at / 2 + at % 2 * half : at % half * 2 + at / half);
}

static void check_tensor(family_model *m, family_tensor *t, const gyre_file_tensor *got, int moves, int to_adjacent) {
    const int64_t row = t->rank == 2 ? t->shape[1] : 1;
    double *values = fuzz_room((size_t)t->count, sizeof *values);
    fuzz_require(got->count == t->count && got->rank == t->rank && got->shape[0] == t->shape[0], "the shape of a tensor");
    const int is_query_or_key =
        t->role == FAMILY_Q || t->role == FAMILY_K || t->role == FAMILY_QUERY_NORM || t->role == FAMILY_KEY_NORM;
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t r = i / row;
        const int64_t from = moves && is_query_or_key ? moved_row(m, r, to_adjacent) * row + i % row : i;
        unsigned char narrow[8];
        values[i] = stored_number(got, i);
        if (got->type == GYRE_STORED_Q8_0 && strcmp(t->dtype, "Q8_0") != 0) {
            fuzz_require(fabs(values[i] - t->values[from]) <= block_error(t, from), "a number of a block");
        } else if (got->type == GYRE_STORED_Q8_0) {
            fuzz_require(values[i] == t->values[from], "a block that was one stays as it is");
        } else {
            const gyre_dtype type = got->type == GYRE_STORED_F32   ? GYRE_DTYPE_F32
                                    : got->type == GYRE_STORED_F16 ? GYRE_DTYPE_F16
                                                                   : GYRE_DTYPE_BF16;
            test_put(narrow, type, 0, t->values[from]);
            fuzz_require(values[i] == test_get(narrow, type, 0), "a number is rounded to nearest even, in its place");
        }
    }
    free(t->values);
    t->values = values;
}

/* Every tensor of the result has the numbers of the source, which become those of *m. */
static void check_tensors(family_model *m, const target *to) {
    const int gguf = to->options.format == GYRE_MODEL_FORMAT_GGUF, from_adjacent = (m->traits & FAMILY_ADJACENT) != 0;
    gyre_tensor_store *store = NULL;
    gyre_error err = {0, ""};
    const char *type = m->gguf && strcmp(m->name, "llama") == 0 ? "llama" : NULL;
    fuzz_require(!gyre_tensor_store_open(&store, fuzz_path(to->name), &err), err.text);
    for (int i = 0; i < m->tensors; i++) {
        family_tensor *t = &m->tensor[i];
        gyre_file_tensor got;
        char name[96];
        snprintf(name, sizeof name, "%s", t->name);
        if (gguf != m->gguf && t->role != FAMILY_ROLES) fuzz_family_name(type ? type : m->name, gguf, t, name);
        if (!t->kept || t->role == FAMILY_ROLES) continue;
        fuzz_require(gyre_tensor_store_find(store, name, &got), "a tensor of the source is in the result");
        check_tensor(m, t, &got, from_adjacent != to->adjacent, to->adjacent);
    }
    gyre_tensor_store_free(store);
}

static int pairs_of(const char *path, int otherwise) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_reading_open(&reading, path, NULL, &err), err.text);
    const gyre_config *c = &reading->groups[0]->config;
    const int adjacent = c->kind == GYRE_KIND_ROPE ? c->rope.layout == GYRE_LAYOUT_INTERLEAVED : otherwise;
    gyre_reading_free(reading);
    return adjacent;
}

/* Conversions that have to succeed. */
static int must_convert(const family_model *m, const target *to, fault what) {
    const int gguf = to->options.format == GYRE_MODEL_FORMAT_GGUF;
    if (to->options.layout || to->options.source_layout || (what != SOUND && what != ROUGH)) return 0;
    if (to->options.dtype && *to->options.dtype == GYRE_DTYPE_Q8 && !gguf) return 0;
    if (gguf != m->gguf && m->activation != FAMILY_IS_SILU) return 0;
    if (gguf == m->gguf) return 1;
    for (int i = 0; i < m->layers; i++)
        if (m->layer[i].window) return 0;
    return m->scaling <= FAMILY_LINEAR && (strcmp(m->name, "llama") == 0 || strcmp(m->name, "qwen3") == 0 ||
                                           strcmp(m->name, "qwen2") == 0 || strcmp(m->name, "mistral") == 0);
}

static void judge_result(family_model *m, const target *to, fault what, const int32_t *ids, int64_t n, const float *source) {
    static float logits[MOST_TOKENS * MOST_VOCAB];
    fuzz_bytes none = {NULL, 0};
    gyre_model *model = NULL;
    const int gguf = to->options.format == GYRE_MODEL_FORMAT_GGUF, same_pairs = (m->traits & FAMILY_ADJACENT ? 1 : 0);
    fuzz_require(!fuzz_model_open(&model, fuzz_path(to->name)), "what was converted opens");
    check_tensors(m, to);
    fuzz_require(fuzz_model_read(model, ids, n, &none, logits), "and reads");
    if (gguf == m->gguf && !to->options.dtype && same_pairs == to->adjacent && source)
        fuzz_require(memcmp(logits, source, (size_t)(n * m->vocab) * sizeof *logits) == 0,
                     "the same numbers in the same format give the same bits");
    m->traits &= ~(unsigned)FAMILY_ADJACENT;
    if (to->adjacent) m->traits |= FAMILY_ADJACENT;
    for (int i = 0; i < m->layers && gguf != m->gguf; i++)
        m->layer[i].window = 0; /* llama.cpp has none for these families, as docs/models.md says */
    if (what != HUGE_NUMBER) check_logits(m, model, ids, n, logits); /* floats lose what stands beside it */
    gyre_model_free(model);
}

static void convert(family_model *m, const char *path, fault what, outcome is, fuzz_bytes *b, const int32_t *ids, int64_t n,
                    const float *source) {
    target to = choose_target(b);
    gyre_error err = {0, ""};
    char out[128];
    fuzz_model_remove(to.name);
    snprintf(out, sizeof out, "%s", fuzz_path(to.name));
    const gyre_status status = gyre_convert(path, out, &to.options, &err);
    fuzz_one_line(status, &err);
    FILE *there = fopen(out, "rb");
    fuzz_require((!status) == (there != NULL), "a result is there, or the conversion failed");
    if (there) fclose(there);
    fuzz_holds_only(kept_names);
    if (must_convert(m, &to, what)) fuzz_require(!status, err.text);
    if (status || is != OPENS || what == CONFIG_BYTES) return;
    if (to.options.source_layout) {
        m->traits &= ~(unsigned)FAMILY_ADJACENT;
        if (*to.options.source_layout == GYRE_LAYOUT_INTERLEAVED) m->traits |= FAMILY_ADJACENT;
        source = NULL;
    }
    to.adjacent = pairs_of(out, (m->traits & FAMILY_ADJACENT) != 0);
    judge_result(m, &to, what, ids, n, source);
}

/* -- an input -- */
static void run_family(fuzz_bytes *b) {
    static float logits[MOST_TOKENS * MOST_VOCAB];
    static family_model m;
    gyre_model *model = NULL;
    int32_t ids[MOST_TOKENS];
    char path[128];
    size_t cut = 0;
    fuzz_family_choose(&m, b);
    const int64_t n = 1 + fuzz_choice(b, MOST_TOKENS);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((fuzz_byte(b) + 5 * i) % m.vocab);
    const fault what = (fault)(fuzz_byte(b) % FAULTS);
    const outcome is = spoil(&m, what, b, &cut);
    const char *name = m.gguf ? "model.gguf" : "model";
    fuzz_model_remove("model");
    fuzz_model_remove("model.gguf");
    fuzz_family_write(&m, name, cut);
    snprintf(path, sizeof path, "%s", fuzz_path(name));
    const gyre_status status = fuzz_model_open(&model, path);
    if ((is == OPENS && status) || (is == FAILS && !status))
        fprintf(stderr, "%s%s, fault %d: %.*s\n", m.name, m.gguf ? " (GGUF)" : "", (int)what, (int)m.config_bytes, m.config);
    fuzz_require(is == UNKNOWN || (!status) == (is == OPENS), "a sound model opens, and a damaged one does not");
    int read = 0;
    if (model && gyre_model_get_config(model)->vocab == m.vocab) {
        read = fuzz_model_read(model, ids, n, b, logits);
        fuzz_require(read || is != OPENS, "a sound model reads");
        if (is == OPENS) check_facts(&m, model, path);
        if (is == OPENS && what != HUGE_NUMBER) check_logits(&m, model, ids, n, logits);
    }
    gyre_model_free(model);
    convert(&m, path, what, is, b, ids, n, read ? logits : NULL);
    fuzz_family_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, size};
    if (size == 0) return 0;
    const int what = (int)fuzz_byte(&b) & 7;
    if (what == 7)
        fuzz_own_model(&b);
    else if (what == 6)
        fuzz_bias_table(&b);
    else
        run_family(&b);
    return 0;
}

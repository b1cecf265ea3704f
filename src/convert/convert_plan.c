/* convert_plan.c: the tensors of the result: their names, their types, and which rows move. */
#include "convert/conversion.h"
#include "model/architecture/weight_layout.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q8_BLOCK = 32 };

gyre_convert_tensor *gyre_convert_add_tensor(gyre_conversion *c) {
    if (c->count == c->capacity) {
        const int64_t capacity = 2 * c->capacity + 64;
        gyre_convert_tensor *grown = realloc(c->tensors, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        c->tensors = grown;
        c->capacity = capacity;
    }
    gyre_convert_tensor *t = &c->tensors[c->count++];
    *t = (gyre_convert_tensor){.source = NULL};
    return t;
}

/* -- names -- */
/* A tensor name, taken apart. */
typedef struct parsed_name {
    gyre_tensor_role role;
    int layer;          /* -1 = not in a layer */
    const char *suffix; /* ".weight" or ".bias" */
} parsed_name;

static const char *after_layer(const char *name, int *layer) {
    char *end;
    if (*name < '0' || *name > '9') return NULL;
    const long number = strtol(name, &end, 10);
    if (end - name > 6) return NULL;
    *layer = (int)number;
    return end;
}

/* out = what follows `text` at the beginning of `at`, or NULL if `at` does not begin with it. */
static const char *after_text(const char *at, const char *text) {
    for (; *text; text++, at++)
        if (*at != *text) return NULL;
    return at;
}

static int match_pattern(const char *pattern, const char *name, parsed_name *out) {
    const char *placeholder = strstr(pattern, "%d");
    const size_t before = placeholder ? (size_t)(placeholder - pattern) : strlen(pattern);
    int layer = -1;
    if (strncmp(pattern, name, before) != 0) return 0;
    const char *rest = name + before;
    if (placeholder) {
        rest = after_layer(rest, &layer);
        rest = rest ? after_text(rest, placeholder + 2) : NULL;
        if (!rest) return 0;
    }
    if (strcmp(rest, ".weight") != 0 && strcmp(rest, ".bias") != 0) return 0;
    out->layer = layer;
    out->suffix = rest;
    return 1;
}

static int parse_tensor_name(const gyre_architecture *a, const char *name, parsed_name *out) {
    const size_t prefix = strlen(a->prefix);
    const char *bare = prefix > 0 && strncmp(name, a->prefix, prefix) == 0 ? name + prefix : name;
    for (int role = 0; role < GYRE_TENSOR_ROLES; role++)
        if (a->names[role] && match_pattern(a->names[role], bare, out)) {
            out->role = (gyre_tensor_role)role;
            return out->layer < a->layers;
        }
    return 0;
}

/* Returns 1 for tensors that the result does not need: it expresses them in keys, or its readers compute them. */
static int is_dropped(const char *name) {
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    const char *buffer = strstr(name, "rotary_emb.inv_freq");
    if (buffer && strcmp(buffer, "rotary_emb.inv_freq") == 0) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

/* -- types -- */
static gyre_stored_type stored_type_of(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32    ? GYRE_STORED_F32
           : dtype == GYRE_DTYPE_F16  ? GYRE_STORED_F16
           : dtype == GYRE_DTYPE_BF16 ? GYRE_STORED_BF16
                                      : GYRE_STORED_Q8_0;
}

static gyre_stored_type type_for(const gyre_conversion *c, const gyre_file_tensor *s) {
    const int of_gguf = c->options->format == GYRE_MODEL_FORMAT_GGUF;
    const gyre_stored_type asked = stored_type_of(c->options->dtype ? *c->options->dtype : GYRE_DTYPE_F32);
    if (of_gguf && s->rank < 2) return GYRE_STORED_F32; /* llama.cpp needs vectors as floats */
    if (gyre_tensor_stays_float(s->name)) return GYRE_STORED_F32;
    if (!c->options->dtype && s->type == GYRE_STORED_F64) return GYRE_STORED_F32; /* what Gyre reads of it */
    if (!c->options->dtype) return of_gguf || gyre_stored_block_size(s->type) == 1 ? s->type : GYRE_STORED_F16;
    if (asked == GYRE_STORED_Q8_0 && s->shape[s->rank - 1] % Q8_BLOCK != 0) return GYRE_STORED_F16;
    return asked;
}

gyre_stored_type gyre_convert_main_type(const gyre_conversion *c) {
    int64_t numbers[GYRE_STORED_OTHER + 1] = {0};
    int main_type = GYRE_STORED_F32;
    for (int64_t i = 0; i < c->count; i++)
        if (c->tensors[i].source && c->tensors[i].source->rank > 1)
            numbers[c->tensors[i].type] += c->tensors[i].source->count;
    for (int i = 0; i <= GYRE_STORED_OTHER; i++)
        if (numbers[i] > numbers[main_type]) main_type = i;
    return (gyre_stored_type)main_type;
}

/* -- rows that move -- */
static gyre_status set_permutation(const gyre_conversion *c, const parsed_name *p, gyre_convert_tensor *t, gyre_error *err) {
    const gyre_file_tensor *s = t->source;
    const struct gyre_rope_config *rope = &gyre_encoding_get_config(c->encoding)->rope;
    const gyre_architecture *a = &c->source.arch;
    int64_t heads = 0;
    if (p->role == GYRE_TENSOR_QKV)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "layout: %s is one matrix for query, key and value, whose rows are not reordered (%s)", s->name,
                         s->file);
    if (p->role == GYRE_TENSOR_Q) heads = a->heads;
    if (p->role == GYRE_TENSOR_K) heads = a->kv_heads;
    if (p->role == GYRE_TENSOR_QUERY_NORM || p->role == GYRE_TENSOR_KEY_NORM) heads = 1;
    if (heads == 0) return GYRE_OK;
    if (a->transposed)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layout: matrices of a %s are stored transposed (%s)", a->family, s->file);
    if (s->shape[0] != heads * a->head_dim || s->rank > 2 || (s->rank == 1 && gyre_stored_block_size(s->type) > 1))
        return gyre_fail(err, GYRE_EFORMAT, "%s: not rows of %d heads of %d channels (%s, byte %llu)", s->name, (int)heads,
                         (int)a->head_dim, s->file, (unsigned long long)s->offset);
    t->head_rows = a->head_dim;
    t->first = rope->first_channel;
    t->dim = rope->dim;
    t->from = c->from;
    t->to = c->to;
    return GYRE_OK;
}

/* -- the list -- */
static gyre_status check_type(const gyre_file_tensor *s, const gyre_convert_tensor *t, gyre_error *err) {
    const gyre_status status = gyre_stored_check_read(s, err);
    if (status) return status;
    if (t->type != s->type && s->rank > 0 && s->shape[s->rank - 1] % gyre_stored_block_size(s->type) != 0)
        return gyre_fail(err, GYRE_EFORMAT, "%s: its rows are not whole blocks (%s)", s->name, s->file);
    return GYRE_OK;
}

static gyre_status set_name(gyre_conversion *c, const gyre_file_tensor *s, const parsed_name *p, gyre_convert_tensor *t,
                            gyre_error *err) {
    char stem[96];
    int length;
    if (!c->names) {
        length = snprintf(t->name, sizeof t->name, "%s", s->name);
    } else {
        const char *pattern = c->names[p->role];
        if (!pattern)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: a %s has no place for it (%s)", s->name, c->family, s->file);
        snprintf(stem, sizeof stem, pattern, p->layer); /* NOLINT: patterns are those of the families' table */
        length = snprintf(t->name, sizeof t->name, "%s%s", stem, p->suffix);
    }
    if (length >= (int)sizeof t->name)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%.100s...: a name of more than 111 bytes (%s)", s->name, s->file);
    return GYRE_OK;
}

/* 1 for a stored head that is the embedding, bit for bit.  Readers take the embedding where there is no head, and a head
 * that differs is used even of a tied model. */
static int repeats_embedding(const gyre_conversion *c, const gyre_file_tensor *s, const parsed_name *p) {
    char name[112];
    if (p->role != GYRE_TENSOR_LM_HEAD || strcmp(p->suffix, ".weight") != 0) return 0;
    snprintf(name, sizeof name, "%s.weight", c->source.arch.names[GYRE_TENSOR_EMBEDDING]);
    const gyre_file_tensor *embedding = gyre_convert_source_find(&c->source, name);
    if (!embedding || embedding->type != s->type || embedding->bytes != s->bytes || embedding->rank != s->rank ||
        memcmp(embedding->shape, s->shape, sizeof s->shape) != 0)
        return 0;
    const int same = memcmp(embedding->data, s->data, (size_t)s->bytes) == 0;
    gyre_stored_release_pages(embedding);
    gyre_stored_release_pages(s);
    return same;
}

static gyre_status add_tensor(gyre_conversion *c, const gyre_file_tensor *s, gyre_error *err) {
    parsed_name p = {.layer = -1};
    const int moves = c->from != c->to, needs_role = c->names || moves;
    const int found = needs_role && parse_tensor_name(&c->source.arch, s->name, &p);
    if (c->names && !found) {
        if (is_dropped(s->name)) return GYRE_OK;
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: not known in a %s (%s)", s->name, c->source.arch.family, s->file);
    }
    if (c->names && found && c->source.arch.tied && repeats_embedding(c, s, &p)) return GYRE_OK;
    gyre_convert_tensor *t = gyre_convert_add_tensor(c);
    if (!t) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", c->target);
    t->source = s;
    t->type = type_for(c, s);
    gyre_status status = check_type(s, t, err);
    if (!status) status = set_name(c, s, &p, t, err);
    if (!status && found && moves) status = set_permutation(c, &p, t, err);
    return status;
}

/* A model whose tensors are renamed must be complete.  Otherwise a missing tensor would not be noticed until the model
 * runs. */
static gyre_status check_complete(const gyre_conversion *c, gyre_error *err) {
    static const gyre_tensor_role required[] = {GYRE_TENSOR_EMBEDDING, GYRE_TENSOR_FINAL_NORM, GYRE_TENSOR_ATTN_NORM,
                                                GYRE_TENSOR_MLP_NORM,  GYRE_TENSOR_Q,          GYRE_TENSOR_K,
                                                GYRE_TENSOR_V,         GYRE_TENSOR_O,          GYRE_TENSOR_GATE,
                                                GYRE_TENSOR_UP,        GYRE_TENSOR_DOWN};
    const gyre_architecture *a = &c->source.arch;
    char stem[96], name[112];
    for (int64_t layer = 0; layer < a->layers; layer++)
        for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
            if (layer > 0 && required[i] < GYRE_TENSOR_FIRST_OF_LAYER) continue;
            snprintf(stem, sizeof stem, a->names[required[i]], (int)layer); /* NOLINT */
            snprintf(name, sizeof name, "%s.weight", stem);
            if (!gyre_convert_source_find(&c->source, name))
                return gyre_fail(err, GYRE_EFORMAT, "no tensor %s (%s)", name, c->source.path);
        }
    return GYRE_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const gyre_convert_tensor *)a)->name, ((const gyre_convert_tensor *)b)->name);
}

gyre_status gyre_convert_make_plan(gyre_conversion *c, gyre_error *err) {
    if (c->source.count == 0) return gyre_fail(err, GYRE_EFORMAT, "weights: no tensors (%s)", c->source.path);
    gyre_status status = c->names ? check_complete(c, err) : GYRE_OK;
    for (int64_t i = 0; i < c->source.count && !status; i++)
        status = add_tensor(c, &c->source.tensors[i], err);
    for (int64_t i = 0; i < c->count && !status; i++)
        if (c->tensors[i].source) c->total_bytes += (int64_t)c->tensors[i].source->bytes;
    /* Sorted, so that the file does not depend on the order of the source. */
    if (!status && c->options->format == GYRE_MODEL_FORMAT_SAFETENSORS && c->count > 0)
        qsort(c->tensors, (size_t)c->count, sizeof *c->tensors, by_name);
    return status;
}

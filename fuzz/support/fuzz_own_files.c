/* fuzz_own_files.c: models made here through their files and conversions, and bias tables of T5 and its kin. */
#include "fuzz_own_files.h"

#include "files/file_read.h"
#include "fuzz_model_laws.h"
#include "fuzz_support.h"
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_TOKENS = 10, MOST_VOCAB = 256 };
static const char *const kept_names = "model model.gguf out out.gguf own again";

/* -- a config -- */
/* None, or a part that makes queries and keys, with gates or without. */
static int64_t choose_head_part(int choice) {
    gyre_layer_part_variant variant;
    int count = 0;
    while (gyre_layer_part_variant_at(count, &variant))
        count++;
    if (choice % 8 == 0 || !gyre_layer_part_variant_at(choice / 2 % count, &variant)) return 0;
    return variant.layer_parts | (choice % 8 == 1 ? GYRE_LAYER_PART_FORGET_GATES : 0);
}

static int64_t choose_parts(gyre_kind kind, fuzz_bytes *b) {
    static const int64_t adapted[] = {0, GYRE_LAYER_PART_ADAPTIVE,
                                      GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_CONCAT,
                                      GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_ADD};
    const int choice = (int)fuzz_byte(b);
    if (choice % 16 == 15) return (int64_t)fuzz_between(b, 0, 65535);
    if (kind == GYRE_KIND_NOPE) return choice & 1 ? GYRE_LAYER_PART_CONTEXTUAL : 0;
    if (kind == GYRE_KIND_ROPE) return choose_head_part(choice);
    if (kind == GYRE_KIND_ALIBI || kind == GYRE_KIND_T5 || kind == GYRE_KIND_KERPLE || kind == GYRE_KIND_FIRE ||
        kind == GYRE_KIND_SANDWICH)
        return adapted[choice % 4];
    return choice % 4 == 1 ? GYRE_LAYER_PART_FORGET_GATES : 0;
}

static void choose_rotation(gyre_config *p, fuzz_bytes *b) {
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE,        GYRE_SCALING_NONE,    GYRE_SCALING_LINEAR,
                                            GYRE_SCALING_NTK,         GYRE_SCALING_YARN,    GYRE_SCALING_LLAMA3,
                                            GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_BY_PARTS};
    p->rope.layout = fuzz_choice(b, 4) == 1 ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    p->rope.scaling = scalings[fuzz_choice(b, 8)];
    if (p->rope.scaling != GYRE_SCALING_NONE) p->rope.factor = 2 + fuzz_choice(b, 3);
    if (fuzz_choice(b, 8) == 1) p->rope.xpos_base = 512;
}

static gyre_model_config choose_config(fuzz_bytes *b) {
    gyre_model_config c = GYRE_INIT(gyre_model_config);
    c.position.size = sizeof c.position;
    c.position.kind = (gyre_kind)(fuzz_byte(b) % 16);
    c.layer_parts = choose_parts(c.position.kind, b);
    c.vocab = fuzz_choice(b, 2) ? 256 : 19;
    c.layers = 1 + fuzz_choice(b, 2);
    c.heads = 1 + fuzz_choice(b, 3);
    c.kv_heads = c.heads == 2 && fuzz_choice(b, 2) ? 1 : c.heads;
    c.head_dim = 8 << fuzz_choice(b, 2);
    c.model_dim = c.heads * c.head_dim;
    c.mlp_dim = fuzz_between(b, 1, 40);
    const int experiment = fuzz_choice(b, 16);
    c.rotates_input = experiment == 1 || (experiment < 6 && c.position.kind == GYRE_KIND_ROPE && c.kv_heads == c.heads);
    c.shared_tables = experiment == 2 || experiment == 3;
    if (c.position.kind == GYRE_KIND_SINUSOIDAL && experiment >= 12) c.position_form = experiment - 12;
    c.position.head_dim = c.layer_parts & GYRE_LAYER_PART_POLAR ? 2 * c.head_dim : c.head_dim;
    c.position.heads = c.heads;
    c.position.trained_length = c.position.input.positions = 32;
    if (gyre_config_suggest(&c.position)) c.position.kind = GYRE_KIND_NOPE;
    if (c.position.kind == GYRE_KIND_ROPE && !c.layer_parts) choose_rotation(&c.position, b);
    c.position.size = sizeof c.position;
    return c;
}

/* -- files -- */
static int same_file(const char *one, const char *other, const char *name) {
    char path[160], *bytes[2];
    size_t size[2];
    gyre_error err = {0, ""};
    const char *const folders[] = {one, other};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        fuzz_require(!gyre_document_read(fuzz_path(path), &bytes[i], &size[i], &err), err.text);
    }
    const int same = size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

static void save(const gyre_model *model, const char *name, gyre_dtype dtype) {
    char path[160];
    gyre_error err = {0, ""};
    fuzz_model_remove(name);
    snprintf(path, sizeof path, "%s", fuzz_path(name));
    const gyre_status status = gyre_model_save(model, path, dtype, &err);
    fuzz_one_line(status, &err);
    if (status) fprintf(stderr, "%s\n", err.text);
    fuzz_require(!status, "a model made here can be saved");
    fuzz_holds_only(kept_names);
}

/* A tensor more, which the config does not describe, is found. */
static void add_tensor(void) {
    static const char more[] = "\"model.extra.weight\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},";
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    char *bytes, path[160];
    size_t size;
    uint64_t header;
    fuzz_require(!gyre_document_read(fuzz_path("own/model.safetensors"), &bytes, &size, &err), err.text);
    char *longer = fuzz_room(size + sizeof more, 1);
    memcpy(&header, bytes, 8);
    header += sizeof more - 1;
    memcpy(longer, &header, 8);
    longer[8] = '{';
    memcpy(longer + 9, more, sizeof more - 1);
    memcpy(longer + 8 + sizeof more, bytes + 9, size - 9);
    fuzz_write("own/model.safetensors", longer, size + sizeof more - 1);
    snprintf(path, sizeof path, "%s", fuzz_path("own"));
    fuzz_require(fuzz_model_open(&model, path) == GYRE_EFORMAT, "a tensor that the config does not describe");
    fuzz_write("own/model.safetensors", bytes, size);
    free(longer);
    free(bytes);
}

/* Changes bytes of one file of "own"; what still opens keeps the promises. */
static void damage(fuzz_bytes *b, const int32_t *ids, int64_t n) {
    static float logits[MOST_TOKENS * MOST_VOCAB];
    const char *const name = fuzz_choice(b, 2) ? "own/config.json" : "own/model.safetensors";
    gyre_model *model = NULL;
    char *bytes, path[160];
    size_t size;
    gyre_error err = {0, ""};
    fuzz_require(!gyre_document_read(fuzz_path(name), &bytes, &size, &err), err.text);
    for (int i = 1 + fuzz_choice(b, 3); i > 0; i--) {
        const size_t at = (size_t)fuzz_between(b, 0, size < 4096 ? (int64_t)size - 1 : 4095);
        bytes[at] = (char)fuzz_byte(b);
    }
    fuzz_write(name, bytes, fuzz_choice(b, 8) == 1 ? size / 2 : size);
    free(bytes);
    snprintf(path, sizeof path, "%s", fuzz_path("own"));
    const gyre_status status = fuzz_model_open(&model, path);
    if (!status && gyre_model_get_config(model)->vocab <= MOST_VOCAB && gyre_model_get_config(model)->vocab >= 19)
        (void)fuzz_model_read(model, ids, n, b, logits);
    gyre_model_free(model);
    fuzz_one_line(gyre_model_open_to_train(&model, path, &err), &err);
    if (!err.text[0]) gyre_model_free(model);
}

/* -- conversion -- */
static double largest(const float *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static void check_result(const gyre_convert_options *o, const char *path, gyre_dtype saved, const int32_t *ids, int64_t n,
                         const float *want) {
    static float logits[MOST_TOKENS * MOST_VOCAB];
    fuzz_bytes none = {NULL, 0};
    gyre_model *model = NULL;
    fuzz_require(!fuzz_model_open(&model, path), "what was converted opens");
    const int64_t count = n * gyre_model_get_config(model)->vocab;
    fuzz_require(fuzz_model_read(model, ids, n, &none, logits), "and reads");
    if (o->format == GYRE_MODEL_FORMAT_SAFETENSORS && !o->layout && (!o->dtype || *o->dtype == saved))
        fuzz_require(memcmp(logits, want, (size_t)count * sizeof *want) == 0, "the same numbers give the same bits");
    else if (!o->dtype || *o->dtype == saved || *o->dtype == GYRE_DTYPE_F32)
        for (int64_t i = 0; i < count; i++)
            fuzz_require(fabs((double)logits[i] - (double)want[i]) <= 2e-4 * largest(want, count),
                         "and almost the same logits");
    gyre_model_free(model);
}

/* Pairs that turn lie as the config says, so no other source layout is asked for. */
static void convert(const gyre_model_config *c, gyre_dtype saved, fuzz_bytes *b, const int32_t *ids, int64_t n,
                    const float *want) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    static const gyre_layout layouts[] = {GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF};
    gyre_convert_options o = GYRE_INIT(gyre_convert_options);
    gyre_error err = {0, ""};
    char from[160], to[160];
    const int choice = (int)fuzz_byte(b);
    o.format = choice & 1 ? GYRE_MODEL_FORMAT_GGUF : GYRE_MODEL_FORMAT_SAFETENSORS;
    if (choice & 2) o.dtype = &types[choice >> 2 & 3];
    if ((choice & 0x30) == 0x30) o.layout = &layouts[choice >> 6 & 1];
    const char *name = choice & 1 ? "out.gguf" : "out";
    fuzz_model_remove(name);
    snprintf(from, sizeof from, "%s", fuzz_path("own"));
    snprintf(to, sizeof to, "%s", fuzz_path(name));
    const gyre_status status = gyre_convert(from, to, &o, &err);
    fuzz_one_line(status, &err);
    fuzz_holds_only(kept_names);
    FILE *there = fopen(to, "rb");
    fuzz_require((!status) == (there != NULL), "a result is there, or the conversion failed");
    if (there) fclose(there);
    const int is_q8 = o.dtype && *o.dtype == GYRE_DTYPE_Q8;
    const int is_llama = c->position.kind == GYRE_KIND_ROPE && !c->layer_parts && !c->rotates_input;
    if (o.format == GYRE_MODEL_FORMAT_GGUF) fuzz_require(is_llama || status == GYRE_EUNSUPPORTED, "no llama, no GGUF");
    if (o.format == GYRE_MODEL_FORMAT_SAFETENSORS && !o.layout && !is_q8) fuzz_require(!status, err.text);
    if (!status) check_result(&o, to, saved, ids, n, want);
}

void fuzz_own_model(fuzz_bytes *b) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static float made[MOST_TOKENS * MOST_VOCAB], opened[MOST_TOKENS * MOST_VOCAB];
    const gyre_model_config c = choose_config(b);
    const gyre_dtype dtype = types[fuzz_choice(b, 3)];
    gyre_model *model = NULL, *mapped = NULL, *trained = NULL;
    gyre_error err = {0, ""};
    int32_t ids[MOST_TOKENS];
    char path[160];
    const int64_t n = 1 + fuzz_choice(b, MOST_TOKENS);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((fuzz_byte(b) + 3 * i) % 19);
    const gyre_status status = gyre_model_create(&model, &c, fuzz_byte(b), &err);
    fuzz_one_line(status, &err);
    if (status) return;
    if (!fuzz_model_read(model, ids, n, b, made)) {
        gyre_model_free(model);
        return;
    }
    save(model, "own", dtype);
    snprintf(path, sizeof path, "%s", fuzz_path("own"));
    fuzz_require(!fuzz_model_open(&mapped, path), "what is saved opens");
    fuzz_require(fuzz_model_read(mapped, ids, n, b, opened), "and reads");
    if (dtype == GYRE_DTYPE_F32)
        fuzz_require(memcmp(made, opened, (size_t)(n * gyre_model_get_config(model)->vocab) * sizeof *made) == 0,
                     "floats from a file give the bits of floats in memory");
    fuzz_require(!gyre_model_open_to_train(&trained, path, &err), err.text);
    save(trained, "again", dtype);
    fuzz_require(same_file("own", "again", "config.json") && same_file("own", "again", "model.safetensors"),
                 "what is saved, opened and saved is the same");
    convert(gyre_model_get_config(model), dtype, b, ids, n, opened);
    gyre_model_free(trained);
    gyre_model_free(mapped);
    gyre_model_free(model);
    if (fuzz_choice(b, 4) == 1) add_tensor();
    damage(b, ids, n);
}

/* -- bias tables -- */
enum { MOST_TABLE = 40 };

static void write_table(const char *name, int layers, const char *stack, int rows, int heads, const float *table) {
    char header[1024], *at = header;
    const size_t bytes = (size_t)(rows * heads) * sizeof *table;
    at += sprintf(at, "{\"%s\": {\"dtype\": \"F32\", \"shape\": [%d, %d], \"data_offsets\": [0, %zu]}", name, rows, heads,
                  bytes);
    for (int i = 0; i < layers; i++)
        at += sprintf(at,
                      ", \"%s.block.%d.layer.0.SelfAttention.q.weight\": {\"dtype\": \"F32\", \"shape\": [0], "
                      "\"data_offsets\": [%zu, %zu]}",
                      stack, i, bytes, bytes);
    at += sprintf(at, "}");
    const uint64_t size = (uint64_t)(at - header);
    mkdir(fuzz_path("own"), 0777);
    FILE *file = fopen(fuzz_path("own/model.safetensors"), "wb");
    fuzz_require(file && fwrite(&size, 8, 1, file) == 1 && fwrite(header, 1, size, file) == size &&
                     fwrite(table, 1, bytes, file) == bytes && fclose(file) == 0,
                 "a file can be written");
}

void fuzz_bias_table(fuzz_bytes *b) {
    static const char *const names[] = {"%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                        "%s.block.0.layer.0.LocalSelfAttention.relative_attention_bias.weight",
                                        "%s.block.0.layer.0.TransientGlobalSelfAttention.relative_attention_bias.weight",
                                        "%s.relative_attention_bias.weight",
                                        "mpnet.%s.relative_attention_bias.weight",
                                        "%s.attention_bias.weight"};
    float table[MOST_TABLE], out[2 * MOST_TABLE];
    test_random random = {3};
    gyre_error err = {0, ""};
    char name[128], path[160];
    const int which = fuzz_choice(b, 6), decodes = fuzz_choice(b, 2), layers = fuzz_choice(b, 4);
    const int rows = 1 + fuzz_choice(b, 8), heads = 1 + fuzz_choice(b, 5), layer = fuzz_choice(b, 4);
    const int asked_rows = rows + (fuzz_choice(b, 4) == 1), asked_decodes = fuzz_choice(b, 4) == 1 ? !decodes : decodes;
    const int spoilt = fuzz_choice(b, 4) == 1;
    const char *stack = decodes ? "decoder" : "encoder", *place = strstr(names[which], "%s");
    snprintf(name, sizeof name, "%.*s%s%s", (int)(place - names[which]), names[which], stack, place + 2);
    test_fill(&random, table, MOST_TABLE);
    if (spoilt) table[rows * heads / 2] = NAN;
    write_table(name, layers, stack, rows, heads, table);
    memset(out, 0x5A, sizeof out);
    snprintf(path, sizeof path, "%s", fuzz_path("own"));
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, asked_rows, heads);
    const gyre_status status = gyre_checkpoint_bias(path, asked_decodes ? "decoder" : "encoder", layer, &to, &err);
    fuzz_one_line(status, &err);
    const gyre_status want = layer > 0 && (asked_decodes != decodes || layer >= (layers || which > 2 ? layers : 1))
                                 ? GYRE_EINVAL
                             : which == 5 || asked_decodes != decodes ? GYRE_EUNSUPPORTED
                             : asked_rows != rows || spoilt           ? GYRE_EFORMAT
                                                                      : GYRE_OK;
    if (status != want) fprintf(stderr, "%d, not %d: %s\n", (int)status, (int)want, err.text);
    fuzz_require(status == want, "a bias table is found, or the failure is the one that is documented");
    if (!status) fuzz_require(memcmp(out, table, (size_t)(rows * heads) * sizeof *out) == 0, "its numbers");
}

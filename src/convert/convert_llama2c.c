/* convert_llama2c.c: checkpoints of llama2.c: seven 32-bit numbers, then the floats of each kind of tensor, for all
 * layers in a row.
 *
 *     dim hidden_dim n_layers n_heads n_kv_heads vocab_size seq_len | embedding | attn_norm 0, 1, ... | wq 0, 1, ... | ...
 *
 * The format has no magic number.  A file is recognized by its size, which must fit the header exactly. */
#include "convert/convert_llama2c.h"

#include "files/file_read.h"
#include "files/replace_folder.h"
#include "model/model.h"
#include "util/error.h"
#include "util/open_regular.h"
#include "util/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FIELDS = 7, HEADER = 4 * FIELDS, MAX_SIZE = 1 << 28, MAX_LAYERS = 1 << 16, NAME_BYTES = 72, TENSORS_PER_LAYER = 9 };
static const char *const field_names[FIELDS] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                                "n_kv_heads", "vocab_size", "seq_len"};
enum { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, LENGTH };

typedef struct header {
    int64_t field[FIELDS]; /* VOCAB is negative in the file if lm_head is not tied */
    int tied;
} header;

struct gyre_llama2c {
    char path[PATH_MAX], tokens[PATH_MAX];
    gyre_mapping map;
    header header;
    gyre_file_tensor *tensors;
    char (*names)[NAME_BYTES];
    int64_t count;
};

/* -- finding the file -- */
static int32_t load_le32(const unsigned char *p) {
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

/* One kind of tensor, for all layers or for the model. */
typedef struct tensor_group {
    const char *name; /* within "model.layers.N." if per_layer; NULL = skipped */
    int64_t rows, columns;
    int per_layer;
} tensor_group;
enum { TENSOR_GROUPS = 13 };

/* Nothing overflows: sizes are at most 2^28, so products are below 2^57. */
static void tensor_groups(const header *h, tensor_group out[TENSOR_GROUPS]) {
    const int64_t *f = h->field, head = f[DIM] / f[HEADS], kv = f[KV_HEADS] * head;
    const tensor_group parts[TENSOR_GROUPS] = {{"model.embed_tokens.weight", f[VOCAB], f[DIM], 0},
                                               {"input_layernorm.weight", 0, f[DIM], 1},
                                               {"self_attn.q_proj.weight", f[DIM], f[DIM], 1},
                                               {"self_attn.k_proj.weight", kv, f[DIM], 1},
                                               {"self_attn.v_proj.weight", kv, f[DIM], 1},
                                               {"self_attn.o_proj.weight", f[DIM], f[DIM], 1},
                                               {"post_attention_layernorm.weight", 0, f[DIM], 1},
                                               {"mlp.gate_proj.weight", f[HIDDEN], f[DIM], 1},
                                               {"mlp.down_proj.weight", f[DIM], f[HIDDEN], 1},
                                               {"mlp.up_proj.weight", f[HIDDEN], f[DIM], 1},
                                               {"model.norm.weight", 0, f[DIM], 0},
                                               {NULL, f[LENGTH], head, 0}, /* tables of cosines and sines, head / 2 each */
                                               {"lm_head.weight", h->tied ? 0 : f[VOCAB], f[DIM], 0}};
    memcpy(out, parts, sizeof parts);
}

static int64_t element_count(const tensor_group *p) {
    return (p->rows > 0 ? p->rows : p->name && strcmp(p->name, "lm_head.weight") == 0 ? 0 : 1) * p->columns;
}

/* Returns 1, with the header in *out, if the seven numbers describe a file of exactly `size` bytes. */
static int fits(const unsigned char *bytes, uint64_t size, header *out) {
    header h = {.tied = 1};
    tensor_group parts[TENSOR_GROUPS];
    for (int i = 0; i < FIELDS; i++)
        h.field[i] = load_le32(bytes + 4 * i);
    if (h.field[VOCAB] < 0) {
        h.field[VOCAB] = -h.field[VOCAB];
        h.tied = 0;
    }
    for (int i = 0; i < FIELDS; i++)
        if (h.field[i] < 1 || h.field[i] > MAX_SIZE) return 0;
    const int64_t *f = h.field;
    if (f[LAYERS] > MAX_LAYERS || f[HEADS] > f[DIM] || f[DIM] % f[HEADS] != 0 || f[DIM] / f[HEADS] % 2 != 0 ||
        f[KV_HEADS] > f[HEADS] || f[HEADS] % f[KV_HEADS] != 0)
        return 0;
    uint64_t left = size - HEADER;
    tensor_groups(&h, parts);
    for (int i = 0; i < TENSOR_GROUPS; i++) {
        const uint64_t each = 4 * (uint64_t)element_count(&parts[i]), times = parts[i].per_layer ? (uint64_t)f[LAYERS] : 1;
        if (each > left / times) return 0;
        left -= each * times;
    }
    *out = h;
    return left == 0;
}

static int is_checkpoint(const char *path, header *out) {
    struct stat info;
    unsigned char bytes[HEADER];
    FILE *file = gyre_open_regular(path);
    if (!file) return 0;
    const int read = fstat(fileno(file), &info) == 0 && info.st_size > HEADER && fread(bytes, 1, HEADER, file) == HEADER;
    (void)fclose(file);
    return read && fits(bytes, (uint64_t)info.st_size, out);
}

static int ends_in_bin(const char *name) {
    return strlen(name) > 4 && gyre_ends_with(name, ".bin");
}

/* model = path of the checkpoint, tokens = path of the tokenizer (tok*.bin), each unchanged if there is none.  Both are
 * "" on entry.
 * EINVAL: there are two of a kind. */
static gyre_status find_files(const char *folder, char model[PATH_MAX], char tokens[PATH_MAX], header *h, gyre_error *err) {
    char path[PATH_MAX];
    gyre_status status = GYRE_OK;
    DIR *entries = opendir(folder);
    if (!entries) return gyre_fail_errno(err, folder, errno);
    for (const struct dirent *entry; !status && (entry = readdir(entries));) {
        header found;
        if (!ends_in_bin(entry->d_name) || snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= PATH_MAX) continue;
        const int is_tokens = strncmp(entry->d_name, "tok", 3) == 0;
        if (!is_tokens && !is_checkpoint(path, &found)) continue;
        char *to = is_tokens ? tokens : model;
        if (to[0])
            status = gyre_fail(err, GYRE_EINVAL, "%s: a second %s beside %.200s (%s)", entry->d_name,
                               is_tokens ? "tokenizer" : "checkpoint of llama2.c", gyre_path_name(to), folder);
        memcpy(to, path, strlen(path) + 1);
        if (!is_tokens) *h = found;
    }
    closedir(entries);
    return status;
}

gyre_status gyre_llama2c_find(int *out, const char *folder, gyre_error *err) {
    char config[PATH_MAX], model[PATH_MAX] = "", tokens[PATH_MAX] = "";
    struct stat info;
    header h;
    *out = 0;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) return GYRE_OK;
    if (snprintf(config, sizeof config, "%s/config.json", folder) >= PATH_MAX || stat(config, &info) == 0) return GYRE_OK;
    const gyre_status status = find_files(folder, model, tokens, &h, err);
    *out = model[0] != '\0';
    return status;
}

/* -- its tensors -- */
/* Adds the tensors of one kind, in the order of the file, which is not that of their names. */
static void add_tensor_group(gyre_llama2c *c, const tensor_group *p, uint64_t *at) {
    const int64_t numbers = element_count(p), layers = p->per_layer ? c->header.field[LAYERS] : 1;
    for (int64_t layer = 0; layer < layers && numbers > 0; layer++) {
        if (p->name) {
            char *name = c->names[c->count];
            if (p->per_layer)
                snprintf(name, NAME_BYTES, "model.layers.%d.%s", (int)layer, p->name);
            else
                snprintf(name, NAME_BYTES, "%s", p->name);
            gyre_file_tensor *t = &c->tensors[c->count++];
            *t = (gyre_file_tensor){.name = name, .file = c->path, .type = GYRE_STORED_F32, .rank = p->rows > 0 ? 2 : 1};
            t->shape[0] = p->rows > 0 ? p->rows : p->columns;
            t->shape[1] = p->rows > 0 ? p->columns : 1;
            t->shape[2] = t->shape[3] = 1;
            t->count = numbers;
            t->bytes = 4 * (uint64_t)numbers;
            t->offset = *at;
            t->data = c->map.bytes + *at;
        }
        *at += 4 * (uint64_t)numbers;
    }
}

static gyre_status list_tensors(gyre_llama2c *c, gyre_error *err) {
    tensor_group parts[TENSOR_GROUPS];
    uint64_t at = HEADER;
    const size_t max = (size_t)c->header.field[LAYERS] * TENSORS_PER_LAYER + 3;
    c->tensors = calloc(max, sizeof *c->tensors);
    c->names = calloc(max, sizeof *c->names);
    if (!c->tensors || !c->names) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", c->path);
    tensor_groups(&c->header, parts);
    for (int i = 0; i < TENSOR_GROUPS; i++)
        add_tensor_group(c, &parts[i], &at);
    return GYRE_OK;
}

gyre_status gyre_llama2c_open(gyre_llama2c **out, const char *folder, gyre_error *err) {
    gyre_llama2c *c = calloc(1, sizeof *c);
    if (!c) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", folder);
    gyre_status status = find_files(folder, c->path, c->tokens, &c->header, err);
    if (!status && !c->path[0])
        status = gyre_fail(err, GYRE_EFORMAT, "no checkpoint of llama2.c whose %s ... %s fit its size (%s)", field_names[0],
                           field_names[FIELDS - 1], folder);
    if (!status) status = gyre_mapping_open(&c->map, c->path, err);
    if (!status && (c->map.size <= HEADER || !fits(c->map.bytes, c->map.size, &c->header)))
        status = gyre_fail(err, GYRE_EIO, "%s: changed while it was looked at", c->path);
    if (!status) status = list_tensors(c, err);
    if (!status)
        *out = c;
    else
        gyre_llama2c_free(c);
    return status;
}

void gyre_llama2c_free(gyre_llama2c *c) {
    if (!c) return;
    gyre_mapping_close(&c->map);
    free(c->tensors);
    free(c->names);
    free(c);
}

gyre_status gyre_llama2c_check(const gyre_llama2c *c, gyre_error *err) {
    return gyre_mapping_check(&c->map, c->path, err);
}

int64_t gyre_llama2c_count(const gyre_llama2c *c) {
    return c->count;
}

gyre_file_tensor gyre_llama2c_at(const gyre_llama2c *c, int64_t index) {
    return c->tensors[index];
}

const char *gyre_llama2c_tokenizer_path(const gyre_llama2c *c) {
    return c->tokens[0] ? c->tokens : NULL;
}

gyre_model_config gyre_llama2c_config(const gyre_llama2c *c, int *tied) {
    const int64_t *f = c->header.field;
    gyre_model_config config = gyre_model_config_default();
    config.vocab = f[VOCAB];
    config.model_dim = f[DIM];
    config.layers = f[LAYERS];
    config.heads = f[HEADS];
    config.kv_heads = f[KV_HEADS];
    config.head_dim = f[DIM] / f[HEADS];
    config.mlp_dim = f[HIDDEN];
    config.norm_epsilon = 1e-5;
    config.position.kind = gyre_kind_find("rope");
    config.position.trained_length = f[LENGTH];
    *tied = c->header.tied;
    return config;
}

/* stored_positions.c: the tensors of a checkpoint that hold positions, found by the names that programs give them. */
#include "files/tensors/tensor_store.h"
#include "model/architecture/head_part.h"
#include "util/error.h"
#include "util/path.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FREQUENCIES = 65536 };

/* The end of a name, from a dot or the beginning on. */
static const struct ending {
    const char *text;
    gyre_stored_position_kind kind;
    const char *key; /* of TRAINED: gyre_stored_position.key */
} endings[] = {
    {"inv_freq", GYRE_STORED_POSITION_FREQUENCIES, NULL},
    {"wpe.weight", GYRE_STORED_POSITION_ROWS, NULL},
    {"embed_positions.weight", GYRE_STORED_POSITION_ROWS, NULL},
    {"position_embeddings.weight", GYRE_STORED_POSITION_ROWS, NULL},
    {"position_embd.weight", GYRE_STORED_POSITION_ROWS, NULL},
    {"relative_attention_bias.weight", GYRE_STORED_POSITION_BUCKETS, NULL},
    {"attn_rel_b.weight", GYRE_STORED_POSITION_BUCKETS, NULL},
    {"distance_embedding.weight", GYRE_STORED_POSITION_DISTANCES, NULL},
    {"rel_embeddings.weight", GYRE_STORED_POSITION_DISTANCES, NULL},
    {"self_attn.fgate_proj.weight", GYRE_STORED_POSITION_TRAINED, "forget_gates"},
    {"self_attn.fgate_proj.bias", GYRE_STORED_POSITION_TRAINED, "forget_gates"},
    {"self_attn.contextual.weight", GYRE_STORED_POSITION_TRAINED, "contextual"},
    {"self_attn.adaptive.hidden.weight", GYRE_STORED_POSITION_TRAINED, "adaptive"},
    {"self_attn.adaptive.hidden.bias", GYRE_STORED_POSITION_TRAINED, "adaptive"},
    {"self_attn.adaptive.output.weight", GYRE_STORED_POSITION_TRAINED, "adaptive"},
    {"self_attn.position_query.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
    {"self_attn.position_key.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
    {"self_attn.position_value.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
    {"self_attn.position_bias.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
    {"self_attn.position_content.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
    {"self_attn.position_position.weight", GYRE_STORED_POSITION_TRAINED, "position_embedding_type"},
};
enum { ENDINGS = sizeof endings / sizeof *endings };

/* Positions of images and sounds: another encoding than that of the text. */
static const char *const towers[] = {"vision", "visual", "image", "audio"};

typedef struct stored {
    gyre_stored_positions positions; /* first */
    gyre_tensor_store *store;
    gyre_stored_position *tensors;
    float **frequencies; /* [count] */
} stored;

/* 1: the tensor holds positions: *out. */
static int find_ending(const char *name, struct ending *out) {
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (strstr(name, towers[i])) return 0;
    for (int i = 0; i < ENDINGS; i++) {
        const size_t own = strlen(endings[i].text);
        if (!gyre_ends_with(name, endings[i].text)) continue;
        *out = endings[i];
        if (length == own || name[length - own - 1] == '.') return 1;
    }
    const gyre_head_part *part = gyre_head_part_of_tensor(name);
    *out = (struct ending){name, GYRE_STORED_POSITION_TRAINED, part ? part->facts->key : NULL};
    return part != NULL;
}

/* out = the first number between two dots: "model.layers.7.self_attn" -> 7.  -1 without one. */
static int64_t layer_of(const char *name) {
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        char *end;
        if (dot[1] < '0' || dot[1] > '9') continue;
        const long long layer = strtoll(dot + 1, &end, 10);
        if (*end == '.') return layer;
    }
    return -1;
}

static gyre_status read_frequencies(stored *s, int64_t i, const gyre_file_tensor *t, gyre_error *err) {
    if (!t->data || t->type == GYRE_STORED_OTHER || t->count < 1 || t->count > MAX_FREQUENCIES || t->count != t->shape[0])
        return GYRE_OK;
    s->frequencies[i] = malloc((size_t)t->count * sizeof(float));
    if (!s->frequencies[i]) return gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (%s)", t->file);
    s->tensors[i].frequencies = s->frequencies[i];
    return gyre_stored_read(gyre_kernels_select(), t, s->frequencies[i], err);
}

static gyre_status add(stored *s, const gyre_file_tensor *t, const struct ending *ending, gyre_error *err) {
    const int64_t i = s->positions.count++;
    s->tensors[i] = (gyre_stored_position){ending->kind,
                                           t->name,
                                           t->file,
                                           t->file_dtype,
                                           layer_of(t->name),
                                           t->rank,
                                           {t->shape[0], t->shape[1], t->shape[2], t->shape[3]},
                                           NULL,
                                           ending->key};
    return ending->kind == GYRE_STORED_POSITION_FREQUENCIES ? read_frequencies(s, i, t, err) : GYRE_OK;
}

static gyre_status find_tensors(stored *s, const char *path, gyre_error *err) {
    struct ending ending;
    int64_t count = 0;
    gyre_status status = GYRE_OK;
    s->positions.tensors_in_all = gyre_tensor_store_count(s->store);
    for (int64_t i = 0; i < s->positions.tensors_in_all; i++)
        count += find_ending(gyre_tensor_store_at(s->store, i).name, &ending);
    s->tensors = calloc((size_t)count + 1, sizeof *s->tensors);
    s->frequencies = calloc((size_t)count + 1, sizeof *s->frequencies);
    s->positions.tensors = s->tensors;
    if (!s->tensors || !s->frequencies) return gyre_fail(err, GYRE_ENOMEM, "stored positions: out of memory (%s)", path);
    for (int64_t i = 0; i < s->positions.tensors_in_all && !status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(s->store, i);
        if (find_ending(tensor.name, &ending)) status = add(s, &tensor, &ending, err);
    }
    return status;
}

gyre_status gyre_stored_positions_open(gyre_stored_positions **out, const char *path, gyre_error *err) {
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "stored positions: out and path are needed (NULL given)");
    *out = NULL;
    stored *s = calloc(1, sizeof *s);
    if (!s) return gyre_fail(err, GYRE_ENOMEM, "stored positions: out of memory (%s)", path);
    gyre_status status = gyre_tensor_store_open_head(&s->store, path, err);
    if (!status) status = find_tensors(s, path, err);
    if (!status) status = gyre_tensor_store_check(s->store, err);
    if (status)
        gyre_stored_positions_free(&s->positions);
    else
        *out = &s->positions;
    return status;
}

void gyre_stored_positions_free(gyre_stored_positions *positions) {
    stored *s = (stored *)positions;
    if (!s) return;
    for (int64_t i = 0; s->frequencies && i < s->positions.count; i++)
        free(s->frequencies[i]);
    free(s->frequencies);
    free(s->tensors);
    gyre_tensor_store_free(s->store);
    free(s);
}

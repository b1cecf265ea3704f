#include "model/architecture/layer_part_keys.h"
#include "model/architecture/weight_layout.h"

#include <jansson.h>
#include <string.h>

typedef struct part_key {
    int64_t part;
    const char *key;
} part_key;

/* Keys that are true, beside those of parts that make queries and keys. */
static const part_key keys[] = {{GYRE_LAYER_PART_FORGET_GATES, "forget_gates"}, {GYRE_LAYER_PART_CONTEXTUAL, "contextual"}};
enum { KEYS = sizeof keys / sizeof *keys };

/* out = key i of all, {0, NULL} past the last. */
static part_key key_at(int i) {
    if (i < KEYS) return keys[i];
    const gyre_head_part *part = gyre_head_part_at((i - KEYS) / 2);
    if (!part) return (part_key){0, NULL};
    return (i - KEYS) % 2 ? (part_key){part->option, part->facts->option} : (part_key){part->part, part->facts->key};
}
static int is_key(int i) {
    return i < KEYS || gyre_head_part_at((i - KEYS) / 2) != NULL;
}

/* Adapted biases have a key that names their form. */
static const char adaptive_key[] = "adaptive";
static const part_key forms[] = {{GYRE_LAYER_PART_ADAPTIVE, "concat-residual"},
                                 {GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_CONCAT, "concat"},
                                 {GYRE_LAYER_PART_ADAPTIVE | GYRE_LAYER_PART_ADAPTIVE_ADD, "add-residual"}};
enum { FORMS = sizeof forms / sizeof *forms };

static int64_t read_form(const gyre_scope *s) {
    const char *form = gyre_scope_string(s, adaptive_key, "");
    for (int i = 0; i < FORMS; i++)
        if (strcmp(form, forms[i].key) == 0) return forms[i].part;
    gyre_scope_fail(s, GYRE_EFORMAT, adaptive_key, "none of concat-residual, concat, add-residual");
    return 0;
}

int64_t gyre_layer_parts_read(const gyre_scope *s) {
    int64_t parts = gyre_scope_value(s, adaptive_key) ? read_form(s) : 0;
    for (int i = 0; is_key(i); i++) {
        const part_key key = key_at(i);
        if (key.part && gyre_scope_bool(s, key.key, 0)) parts |= key.part;
    }
    return parts;
}

void gyre_layer_parts_write(gyre_json_writer *w, int64_t parts) {
    for (int i = 0; is_key(i); i++)
        if (parts & key_at(i).part) gyre_json_put(w, key_at(i).key, json_true());
    for (int i = 0; i < FORMS && (parts & GYRE_LAYER_PART_ADAPTIVE); i++)
        if ((parts & GYRE_LAYER_PARTS_ADAPTIVE) == forms[i].part) gyre_json_put_string(w, adaptive_key, forms[i].key);
}

const char *gyre_layer_part_key(int64_t parts) {
    for (int i = 0; is_key(i); i++)
        if (parts & key_at(i).part) return key_at(i).key;
    return parts & GYRE_LAYER_PART_ADAPTIVE ? adaptive_key : NULL;
}

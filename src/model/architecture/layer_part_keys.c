#include "model/architecture/layer_part_keys.h"
#include "model/architecture/weight_layout.h"

#include <jansson.h>
#include <string.h>

typedef struct part_key {
    int64_t part;
    const char *key;
} part_key;

/* Keys that are true. */
static const part_key keys[] = {{GYRE_LAYER_PART_FORGET_GATES, "forget_gates"},
                                {GYRE_LAYER_PART_POLAR, "polar"},
                                {GYRE_LAYER_PART_FREQUENCIES, "trained_frequencies"},
                                {GYRE_LAYER_PART_FOURIER, "fourier"},
                                {GYRE_LAYER_PART_FOURIER_STILL, "fourier_still"},
                                {GYRE_LAYER_PART_CONTEXTUAL, "contextual"},
                                {GYRE_LAYER_PART_IMAGINARY, "imaginary"},
                                {GYRE_LAYER_PART_HEAD_MATRICES, "head_matrices"}};
enum { KEYS = sizeof keys / sizeof *keys };

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
    for (int i = 0; i < KEYS; i++)
        if (gyre_scope_bool(s, keys[i].key, 0)) parts |= keys[i].part;
    return parts;
}

void gyre_layer_parts_write(gyre_json_writer *w, int64_t parts) {
    for (int i = 0; i < KEYS; i++)
        if (parts & keys[i].part) gyre_json_put(w, keys[i].key, json_true());
    for (int i = 0; i < FORMS && (parts & GYRE_LAYER_PART_ADAPTIVE); i++)
        if ((parts & GYRE_LAYER_PARTS_ADAPTIVE) == forms[i].part) gyre_json_put_string(w, adaptive_key, forms[i].key);
}

const char *gyre_layer_part_key(int64_t parts) {
    for (int i = 0; i < KEYS; i++)
        if (parts & keys[i].part) return keys[i].key;
    return parts & GYRE_LAYER_PART_ADAPTIVE ? adaptive_key : NULL;
}

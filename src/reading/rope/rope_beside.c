/* rope_beside.c: rotations beside those of the decoder's layers: of an indexer, a small attention that chooses the keys of
 * the large one, and of layers of multi-token prediction. */
#include "reading/rope/read_rope.h"
#include "reading/rope/rope_lists.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_MTP_LAYERS = 64 }; /* more are not shown */

/* -- the size of an indexer's heads -- */
static const char *const sizes[] = {"index_head_dim", "indexer_head_dim", NULL};

/* MiniMax M3 and Step 3.7 have the size in an object.  out = its key in *scope; NULL = the file has none. */
static const char *find_size(const gyre_scope *root, gyre_scope *scope) {
    static const char sparse[] = "sparse_attention_config", size[] = "sparse_index_dim";
    *scope = *root;
    const char *key = gyre_scope_first(root, sizes);
    if (key || !json_is_object(gyre_scope_value(root, sparse))) return key;
    *scope = gyre_scope_child(root, sparse);
    return gyre_scope_value(scope, size) ? size : NULL;
}

/* -- which layers have one -- */
/* Types of layers that only an indexer makes different.  If no layer has one, all full layers have an indexer. */
static int is_indexed(const char *type) {
    static const char *const types[] = {"indexed_attention",         "minimax_m3_sparse",     "compressed_sparse_attention",
                                        "deepseek_sparse_attention", "qwen_sparse_attention", NULL};
    for (int i = 0; types[i]; i++)
        if (strcmp(types[i], type) == 0) return 1;
    return 0;
}

static int has_indexer(const gyre_layer_kinds *kinds, const gyre_layer_kind *kind) {
    int any = 0;
    for (int i = 0; i < kinds->kinds; i++)
        any |= is_indexed(kinds->kind[i].type);
    return kind->has_rope && !kind->is_mtp && (any ? is_indexed(kind->type) : !kind->sliding);
}

/* Layers that share an earlier layer's choice have none. */
static void add_layers(gyre_build *build, gyre_layer_group *group, const gyre_layer_group *of, const json_t *types) {
    for (int64_t i = 0; i < of->layers_count; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)of->layers[i]));
        if (!type || strcmp(type, "shared") != 0) gyre_build_add_layer(build, group, of->layers[i]);
    }
}

/* -- its layout -- */
/* transformers has the layout of the class.  Other programs read a key. */
static gyre_layout read_layout(const gyre_family *family, const gyre_scope *root, gyre_layout of_attention,
                               gyre_rope_provenance *found) {
    static const char key[] = "indexer_rope_interleave";
    const int is_half = (family->traits & GYRE_INDEXER_HALF) != 0 || gyre_family_is_assumed(family);
    const gyre_layout paired = of_attention == GYRE_LAYOUT_HALF ? GYRE_LAYOUT_INTERLEAVED_TO_HALF : of_attention;
    gyre_layout layout = is_half ? GYRE_LAYOUT_HALF : of_attention;
    *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    if (!gyre_scope_value(root, key)) return layout;
    const gyre_layout stated = gyre_scope_bool(root, key, 0) ? paired : GYRE_LAYOUT_HALF;
    const int is_hf = gyre_profile_is_hf(gyre_build_profile(root->source->build)) && !gyre_family_is_assumed(family);
    if (is_hf && stated != layout)
        gyre_scope_warn(root, key, "%s: transformers' class of a %s does not read it, and pairs channels otherwise", key,
                        family->model_type);
    if (is_hf && stated != layout) return layout;
    *found = (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(root, key)};
    return stated;
}

/* -- a group -- */
static int is_in(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return 1;
    return 0;
}

/* Copies the fields of a group, but for some. */
static void copy_fields(gyre_build *build, gyre_layer_group *to, const gyre_layer_group *from, const char *const *but) {
    for (int64_t i = 0; i < from->fields_count; i++) {
        const gyre_reading_field *field = &from->fields[i];
        const gyre_place place = {field->key, field->line, field->offset};
        if (!is_in(but, field->name))
            gyre_build_set_field(build, to, field->name, field->origin, field->key ? &place : NULL, field->note, "%s",
                                 field->value);
    }
}

static void add_indexer(const gyre_family *family, const gyre_scope *root, const gyre_layer_kinds *kinds,
                        const gyre_layer_kind *kind) {
    static const char *const layouts[] = {"half", "interleaved", "interleaved-to-half"};
    static const char *const own[] = {"head_dim",
                                      "rotary_dim",
                                      "layout",
                                      "partial",
                                      "score_scale",
                                      "window",
                                      "softmax_multiplier",
                                      "query_temperature",
                                      "temperature_length",
                                      "temperature_slope",
                                      NULL};
    gyre_scope scope;
    gyre_build *build = root->source->build;
    const char *key = find_size(root, &scope);
    const int64_t head = gyre_rope_read_channels(&scope, key, 2, 2), dim = kind->group->config.rope.dim;
    if (gyre_build_status(build) || kind->group->config.rope.dim > head) {
        gyre_scope_warn(&scope, key, "%s: fewer channels than rotate, %" PRId64 "; the indexer is not shown", key, dim);
        return;
    }
    const char *name =
        gyre_build_find_group(build, "indexer") ? gyre_build_format(build, "indexer_%s", kind->type) : "indexer";
    gyre_layer_group *group = gyre_build_add_group(build, name);
    gyre_rope_provenance layout_from;
    const gyre_place place = gyre_scope_place(&scope, key);
    const int is_last = (family->traits & GYRE_INDEXER_LAST) != 0;
    group->config = kind->group->config;
    group->config.head_dim = head;
    group->config.rope.first_channel = is_last ? head - dim : 0;
    group->config.rope.layout = read_layout(family, root, kind->group->config.rope.layout, &layout_from);
    group->config.query = (struct gyre_query_config){GYRE_TEMPERATURE_NONE, 0, 0.0};
    copy_fields(build, group, kind->group, own);
    gyre_build_set_number(build, group, "head_dim", GYRE_ORIGIN_FILE, &place, "of the indexer", (double)head);
    gyre_build_set_number(build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL,
                          is_last ? "the last channels of each head" : "the first channels of each head", (double)dim);
    gyre_build_set_field(build, group, "layout", layout_from.origin, layout_from.place.key ? &layout_from.place : NULL, NULL,
                         "%s", layouts[group->config.rope.layout]);
    add_layers(build, group, kind->group, kinds->indexer_types);
}

static void read_indexers(const gyre_family *family, const gyre_scope *root, const gyre_layer_kinds *kinds) {
    gyre_scope scope;
    gyre_build *build = root->source->build;
    const char *key = gyre_build_status(build) ? NULL : find_size(root, &scope);
    const unsigned all = GYRE_INDEXER | GYRE_INDEXER_HALF | GYRE_INDEXER_LAST;
    int indexers = 0;
    if (!key || (!(family->traits & all) && !gyre_family_is_assumed(family))) return;
    for (int i = 0; i < kinds->kinds && indexers < 2 && !gyre_build_status(build); i++) {
        if (!has_indexer(kinds, &kinds->kind[i])) continue;
        if (indexers++ == 0 && gyre_family_is_assumed(family))
            gyre_scope_warn(
                &scope, key,
                "%s: an indexer; that it rotates the first channels of its heads, as in DeepSeek 3.2, is assumed: "
                "this model_type is not known",
                key);
        add_indexer(family, root, kinds, &kinds->kind[i]);
    }
}

/* -- multi-token prediction -- */
/* The layers follow those of the decoder.  Where no list has their types, they are taken for full layers. */
static void read_mtp(const gyre_scope *root, const gyre_layer_kinds *kinds) {
    static const char *const none[] = {NULL};
    gyre_build *build = root->source->build;
    const gyre_layer_kind *like = NULL;
    const char *key = gyre_layer_mtp_key(root);
    for (int i = 0; i < kinds->kinds; i++)
        if (kinds->kind[i].has_rope && (!like || (like->sliding && !kinds->kind[i].sliding))) like = &kinds->kind[i];
    if (!like || !key || kinds->mtp <= 0 || kinds->mtp > MAX_MTP_LAYERS || kinds->layers <= 0) return;
    gyre_layer_group *group = gyre_build_add_group(build, "mtp");
    const gyre_place place = gyre_scope_place(root, key);
    group->config = like->group->config;
    group->scale = like->group->scale;
    group->softmax_multiplier = like->group->softmax_multiplier;
    group->window = like->group->window;
    copy_fields(build, group, like->group, none);
    gyre_build_set_number(build, group, "mtp_layers", GYRE_ORIGIN_FILE, &place,
                          "taken to rotate as the full layers of the decoder: the file does not list their types",
                          (double)kinds->mtp);
    for (int64_t i = 0; i < kinds->mtp; i++)
        gyre_build_add_layer(build, group, kinds->layers + i);
}

void gyre_rope_read_beside(const gyre_family *family, const gyre_scope *root, const gyre_layer_kinds *kinds) {
    read_indexers(family, root, kinds);
    if (!gyre_build_status(root->source->build)) read_mtp(root, kinds);
}

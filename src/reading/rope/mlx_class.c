/* mlx_class.c: the model classes of mlx-lm. */
#include "reading/rope/mlx_class.h"

#include <string.h>

#define MLX_CLASS(model_type, base, reads) {model_type, base, reads},
static const gyre_mlx_class classes[] = {
#include "reading/rope/mlx_classes.def"
};
#undef MLX_CLASS

const gyre_mlx_class *gyre_mlx_class_of(const char *model_type) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].model_type, model_type) == 0) return &classes[i];
    return NULL;
}

static int has_contents(const gyre_scope *root, const char *key) {
    const json_t *value = gyre_scope_value(root, key);
    return value && (!json_is_object(value) || json_object_size(value) > 0);
}

const char *gyre_mlx_dict_key(const gyre_family *family, const gyre_scope *root) {
    static const char old[] = "rope_scaling", new[] = "rope_parameters";
    const gyre_mlx_class *class = gyre_mlx_class_of(family->model_type);
    if (!class) {
        gyre_scope_fail(root, GYRE_EUNSUPPORTED, "model_type", "mlx-lm has no class for %s", family->model_type);
        return NULL;
    }
    const int parameters = (class->reads & GYRE_MLX_PARAMETERS) != 0;
    const char *key = parameters ? new : old, *other = parameters ? old : new;
    if (has_contents(root, other))
        gyre_scope_warn(root, other, "%s: mlx-lm's class for %s reads %s%s", other, family->model_type,
                        class->reads & GYRE_MLX_BASE ? "of it only the base, and the rest from " : "only ",
                        class->reads & (GYRE_MLX_SCALED | GYRE_MLX_LINEAR | GYRE_MLX_PARAMETERS) ? key : "rope_theta");
    if (class->reads & (GYRE_MLX_SCALED | GYRE_MLX_LINEAR | GYRE_MLX_PARAMETERS))
        return has_contents(root, key) ? key : NULL;
    if (has_contents(root, key))
        gyre_scope_warn(root, key, "%s: mlx-lm's class for %s does not read it", key, family->model_type);
    return NULL;
}

/* out = the base in rope_parameters, if the class reads it there; else 0. */
static double parameters_base(const gyre_rope_source *source, const gyre_mlx_class *class, gyre_rope_provenance *found) {
    static const char key[] = "rope_theta";
    const gyre_scope *dict = &source->dict;
    gyre_scope outer;
    if (class->reads & GYRE_MLX_BASE) {
        outer = gyre_scope_child(&source->root, "rope_parameters");
        dict = &outer;
    } else if (!(class->reads & GYRE_MLX_PARAMETERS)) {
        return 0.0;
    }
    if (!gyre_scope_value(dict, key)) return 0.0;
    *found = gyre_rope_provenance_of(source, dict, key);
    return gyre_scope_number(dict, key, 0.0);
}

/* out = the name of the key beside the objects. */
static const char *base_key(const gyre_rope_source *source, int sliding) {
    const char *type = source->family->model_type;
    if (strcmp(type, "gpt_neox") == 0) return "rotary_emb_base";
    if (sliding && strncmp(type, "gemma3", 6) == 0) return "rope_local_base_freq";
    return sliding && strcmp(type, "mimo_v2_flash") == 0 ? "swa_rope_theta" : "rope_theta";
}

double gyre_mlx_read_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found) {
    const gyre_mlx_class *class = gyre_mlx_class_of(source->family->model_type);
    const char *key = base_key(source, sliding);
    *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    if (!class) return 10000.0; /* has failed */
    const double inside = parameters_base(source, class, found);
    if (inside > 0.0) return inside;
    const gyre_scope attention =
        strcmp(class->model_type, "dbrx") == 0 ? gyre_scope_child(&source->root, "attn_config") : source->root;
    if (gyre_scope_value(&attention, key) && !(class->reads & (GYRE_MLX_CONSTANT | GYRE_MLX_PARAMETERS))) {
        *found = gyre_rope_provenance_of(source, &attention, key);
        return gyre_scope_number(&attention, key, 0.0);
    }
    if (gyre_scope_value(&attention, key))
        gyre_scope_warn(&attention, key, "%s: mlx-lm's class for %s does not read it", key, class->model_type);
    if (sliding && strncmp(class->model_type, "gemma3", 6) == 0 && class->base > 0.0) return 10000.0;
    if (class->base == 0.0)
        gyre_scope_fail(&attention, GYRE_EFORMAT, key, "missing; mlx-lm's class for %s fails without it%s",
                        class->model_type, has_contents(&source->root, "rope_parameters") ? " beside rope_parameters" : "");
    else if (has_contents(&source->root, "rope_parameters") && !(class->reads & GYRE_MLX_CONSTANT))
        gyre_scope_warn(&source->root, "rope_parameters",
                        "rope_theta: missing beside it; mlx-lm's class for %s takes %g, whatever rope_parameters says",
                        class->model_type, class->base);
    return class->base > 0.0 ? class->base : 10000.0;
}

void gyre_mlx_set_class_fields(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char traditional[] = "rope_traditional";
    const gyre_mlx_class *class = gyre_mlx_class_of(source->family->model_type);
    gyre_build *build = gyre_rope_build_of(source);
    gyre_config *config = &group->config;
    if (class && (class->reads & GYRE_MLX_SWITCH) && gyre_scope_value(&source->root, traditional)) {
        const int beside = gyre_scope_bool(&source->root, traditional, 0);
        const gyre_place place = gyre_scope_place(&source->root, traditional);
        config->rope.layout = beside ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
        gyre_build_set_field(build, group, "layout", GYRE_ORIGIN_FILE, &place, "a key of mlx-lm", "%s",
                             beside ? "interleaved" : "half");
    }
    if (class && (class->reads & GYRE_MLX_WHOLE) && config->rope.dim < config->head_dim) {
        config->rope.dim = config->head_dim;
        gyre_build_set_number(build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL,
                              "mlx-lm's class rotates the whole head; transformers rotates a share of it",
                              (double)config->head_dim);
    }
}

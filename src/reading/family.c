/* family.c: the table of families. */
#include "reading/family.h"

#include <string.h>

#define FAMILY(type, reader, layout, base, partial, positions, head_dim, traits)                                            \
    {type, reader, base, partial, positions, head_dim, layout, traits},

static const gyre_family families[] = {
#include "reading/families_other.def"
#include "reading/families_rope.def"
};
enum { FAMILIES = sizeof families / sizeof *families };

const gyre_family *gyre_family_of(const char *model_type) {
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

const gyre_family *gyre_family_at(size_t i) {
    return i < FAMILIES ? &families[i] : NULL;
}

/* For a Falcon-H1, EuroBERT, Persimmon and Fuyu also not what the models were trained with.  They matter for files without a
 * base. */
double gyre_family_hf_5_base(const gyre_family *family) {
    static const struct {
        const char *family;
        double base;
    } bases[] = {{"cohere", 5e5},       {"olmo3", 5e5},      {"qwen3_vl", 5e5}, {"qwen3_vl_text", 5e5},
                 {"qwen3_vl_moe", 5e5}, {"solar_open", 1e6}, {"fuyu", 1e4},     {"qwen3_vl_moe_text", 5e5},
                 {"falcon_h1", 1e4},    {"persimmon", 1e4},  {"eurobert", 1e4}};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (strcmp(bases[i].family, family->model_type) == 0) return bases[i].base;
    return 0.0;
}

int gyre_family_hf_rotates_all(const gyre_family *family) {
    static const char *const names[] = {"glm4v",     "glm4v_text",     "glm_ocr", "glm_ocr_text",
                                        "glm_image", "glm_image_text", NULL};
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], family->model_type) == 0) return 1;
    return 0;
}

int gyre_family_is_assumed(const gyre_family *family) {
    return family != gyre_family_of(family->model_type);
}

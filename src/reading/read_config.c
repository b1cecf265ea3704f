/* read_config.c: config.json: which family, and where in the file its decoder is described. */
#include "reading/family.h"

void gyre_read_config_json(const gyre_json_source *source, const json_t *root) {
    const gyre_scope s = {source, root, ""};
    const char *type = gyre_scope_text(&s, "model_type", "");
    const gyre_family *family = gyre_family_of(type);
    gyre_build_model_type(source->build, type);
    if (family)
        family->read(family, &s);
    else
        gyre_scope_fail(&s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" is not known", type);
}

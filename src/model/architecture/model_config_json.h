/* model_config_json.h: a model's config.json, both ways. */
#ifndef GYRE_MODEL_MODEL_CONFIG_JSON_H
#define GYRE_MODEL_MODEL_CONFIG_JSON_H
#include "gyre/gyre_model.h"
#include "reading/config_document.h"

#include <jansson.h>

/* Arrays that config->position points to (longrope factors, slopes) live here. */
typedef struct gyre_config_arrays {
    double *short_factor, *long_factor, *slopes, *slopes_after;
} gyre_config_arrays;
void gyre_config_arrays_free(gyre_config_arrays *arrays);

/* Errors: EFORMAT (a missing or senseless key, named), EUNSUPPORTED (another architecture). */
gyre_status gyre_model_config_read(const gyre_config_document *config, gyre_model_config *out, gyre_config_arrays *arrays,
                                   gyre_error *err);
/* gyre_model_config_read of text in memory.  path: for messages. */
gyre_status gyre_model_config_parse(const char *json, size_t bytes, const char *path, gyre_model_config *out,
                                    gyre_config_arrays *arrays, gyre_error *err);
/* out = an object as text, numbers in the fewest digits that read back as the same, which the caller frees; NULL: no
 * memory. */
char *gyre_json_dump(const json_t *root);
/* *out = the JSON text; the caller frees it.  config: that of a model, complete. */
gyre_status gyre_model_config_to_json(const gyre_model_config *config, gyre_dtype dtype, char **out, gyre_error *err);

#endif

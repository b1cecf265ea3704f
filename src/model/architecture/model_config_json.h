/* model_config_json.h: the config.json of a model made here, both ways. */
#ifndef GYRE_MODEL_MODEL_CONFIG_JSON_H
#define GYRE_MODEL_MODEL_CONFIG_JSON_H
#include "gyre/gyre_model.h"
#include "reading/config_document.h"

/* Owns the arrays that config and config->position point to. */
typedef struct gyre_config_arrays {
    double *short_factor, *long_factor, *frequencies, *slopes, *slopes_after, *layer_bases;
} gyre_config_arrays;
void gyre_config_arrays_free(gyre_config_arrays *arrays);

/* *out = the config in a config.json.  Errors: EFORMAT (a key that is missing or makes no sense, which is named),
 * EUNSUPPORTED (another architecture). */
gyre_status gyre_model_config_read(const gyre_config_document *config, gyre_model_config *out, gyre_config_arrays *arrays,
                                   gyre_error *err);
/* gyre_model_config_read of a JSON text in memory.  path: for messages.  Errors: also EFORMAT (not JSON). */
gyre_status gyre_model_config_parse(const char *json, size_t bytes, const char *path, gyre_model_config *out,
                                    gyre_config_arrays *arrays, gyre_error *err);
/* *out = the JSON text, which the caller frees.  config: complete, as a model has it. */
gyre_status gyre_model_config_to_json(const gyre_model_config *config, gyre_dtype dtype, char **out, gyre_error *err);

#endif

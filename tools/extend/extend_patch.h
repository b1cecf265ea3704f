/* extend_patch.h: changes of a config.json as JSON: keys with their new values, and null for keys to remove (RFC 7396),
 * except that the objects of a scaling are replaced whole, as the engines do. */
#ifndef GYRE_TOOLS_EXTEND_PATCH_H
#define GYRE_TOOLS_EXTEND_PATCH_H
#include <jansson.h>

/* Makers return NULL if memory runs out. */
/* out = the changes from `before` to `after`. */
json_t *extend_patch_between(const json_t *before, const json_t *after);
/* out = a copy without the keys to remove.  For vLLM: its overrides are set one by one, and in transformers 5 rope_scaling
 * is another name of rope_parameters, so a null there would undo the other. */
json_t *extend_patch_without_nulls(const json_t *patch);
/* out = a copy of `config` with the changes. */
json_t *extend_patch_apply(const json_t *config, const json_t *patch);

/* out = 1 if the changes concern one rotation for all layers, at the top level and under its usual names, so that they can
 * be said in the form of transformers 4 as well as in that of transformers 5. */
int extend_patch_is_plain(const json_t *patch);
/* The same changes with the scaling in rope_parameters (transformers 5, vLLM), and in rope_scaling and rope_theta
 * (transformers 4).  before, after: whole configs; base: for a config that leaves it to its class. */
json_t *extend_patch_as_rope_parameters(const json_t *before, const json_t *after, double base);
json_t *extend_patch_as_rope_scaling(const json_t *before, const json_t *after, double base);
/* The latter for the configuration of Phi-3, which takes exactly three keys and finds the original length beside them; the
 * factor is the ratio of the lengths.  NULL also where the scaling has no lists. */
json_t *extend_patch_as_three_keys(const json_t *before, const json_t *after, double base);

#endif

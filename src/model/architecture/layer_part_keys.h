/* layer_part_keys.h: the parts that layers train beside their encoding, in the keys of Gyre's config.json. */
#ifndef GYRE_MODEL_LAYER_PART_KEYS_H
#define GYRE_MODEL_LAYER_PART_KEYS_H
#include "files/json_write.h"
#include "gyre/gyre_model.h"
#include "reading/json_scope.h"

/* out = a set of gyre_layer_part.  A key that makes no sense fails the scope's build (EFORMAT). */
int64_t gyre_layer_parts_read(const gyre_scope *s);
void gyre_layer_parts_write(gyre_json_writer *w, int64_t parts);
/* out = the key of the first part of a set; NULL = the set is empty. */
const char *gyre_layer_part_key(int64_t parts);

#endif

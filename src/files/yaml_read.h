/* yaml_read.h: reads a YAML file of settings as PyYAML's safe_load does, within bounds. */
#ifndef GYRE_FILES_YAML_READ_H
#define GYRE_FILES_YAML_READ_H
#include "gyre/gyre.h"

#include <jansson.h>

enum { GYRE_YAML_MAX_DEPTH = 32, GYRE_YAML_MAX_NODES = 20000, GYRE_YAML_MAX_BYTES = 1 << 20 };

/* *root = the mapping in the text; *lines = the line of each key, by its path: {"model.rope_theta": 3}.  The caller decrefs
 * both.  Of a key that occurs twice, the last counts.  An alias counts as many nodes as what it stands for.
 * Errors: EFORMAT (malformed, no mapping, several documents, beyond the bounds); EUNSUPPORTED (tags, merge keys, or built
 * without libyaml); ENOMEM.  path: for messages. */
gyre_status gyre_yaml_read(json_t **root, json_t **lines, const char *text, size_t bytes, const char *path, gyre_error *err);

#endif

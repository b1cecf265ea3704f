/* convert_source.h: a model to be converted, in whichever container. */
#ifndef GYRE_CONVERT_SOURCE_H
#define GYRE_CONVERT_SOURCE_H
#include "convert/convert_llama2c.h"
#include "model/architecture/architecture.h"

typedef enum gyre_source_kind { GYRE_SOURCE_FOLDER, GYRE_SOURCE_GGUF, GYRE_SOURCE_LLAMA2C } gyre_source_kind;

typedef struct gyre_convert_source {
    const char *path;
    gyre_source_kind kind;
    gyre_tensor_store *store;    /* NULL for llama2.c */
    gyre_llama2c *checkpoint;    /* NULL for the others */
    gyre_config_document config; /* of a folder; otherwise all zeros */
    char config_path[PATH_MAX];
    gyre_reading *reading; /* by the default profile; NULL for llama2.c */
    int64_t count;
    gyre_file_tensor *tensors; /* [count] sorted by name */
    int has_architecture;      /* 1: arch is set */
    gyre_architecture arch;
} gyre_convert_source;

gyre_status gyre_convert_source_open(gyre_convert_source *out, const char *path, gyre_error *err);
/* EIO if one of its files was written to since it was opened: what was converted may be part of both contents. */
gyre_status gyre_convert_source_check(const gyre_convert_source *source, gyre_error *err);
void gyre_convert_source_close(gyre_convert_source *source);
/* out = the tensor of that name, or NULL. */
const gyre_file_tensor *gyre_convert_source_find(const gyre_convert_source *source, const char *name);
/* Sets arch, once.  EUNSUPPORTED names the family. */
gyre_status gyre_convert_source_architecture(gyre_convert_source *source, gyre_error *err);
/* out = the rotation that all layers share, or NULL if they differ or do not rotate. */
const gyre_layer_reading *gyre_convert_source_rotation(const gyre_convert_source *source);

#endif

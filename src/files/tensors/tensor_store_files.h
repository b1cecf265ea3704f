/* tensor_store_files.h: inside a gyre_tensor_store, for the tensor_store_*.c files. */
#ifndef GYRE_FILES_TENSOR_STORE_FILES_H
#define GYRE_FILES_TENSOR_STORE_FILES_H
#include "files/tensors/safetensors.h"
#include "files/tensors/tensor_store.h"

typedef struct gyre_tensor_store_file {
    char *path;
    gyre_safetensors *safetensors; /* NULL for a GGUF */
    gyre_mapping map;              /* of `safetensors`, or of the GGUF */
} gyre_tensor_store_file;

struct gyre_tensor_store {
    char *path;
    gyre_tensor_store_file *files; /* sorted by path */
    int64_t files_count;
    gyre_file_tensor *tensors; /* sorted by name */
    int64_t count;
    gyre_gguf *gguf;
    int heads;   /* 1: of gyre_tensor_store_open_head */
    char *names; /* of the GGUF's tensors, NUL-terminated */
};

/* out = "folder/name", which the caller frees; NULL without memory. */
char *gyre_path_join(const char *folder, const char *name);
/* Opens a .safetensors file as the next of store->files, which has room for it. */
gyre_status gyre_tensor_store_add_safetensors(gyre_tensor_store *store, const char *path, gyre_error *err);
/* Fills store->tensors from all files. */
gyre_status gyre_tensor_store_list(gyre_tensor_store *store, gyre_error *err);
/* tensor_store_index.c: opens the files that the index at `path` lists. */
gyre_status gyre_tensor_store_open_index(gyre_tensor_store *store, const char *path, gyre_error *err);
/* tensor_store_gguf.c: opens store->path, which is a GGUF. */
gyre_status gyre_tensor_store_open_gguf(gyre_tensor_store *store, gyre_error *err);

#endif

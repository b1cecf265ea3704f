/* tensor_store_files.h: what is inside a gyre_tensor_store. */
#ifndef GYRE_MODEL_TENSOR_STORE_FILES_H
#define GYRE_MODEL_TENSOR_STORE_FILES_H
#include "files/safetensors.h"
#include "files/tensor_store.h"

typedef struct gyre_tensor_store_file {
    char *path;
    gyre_safetensors *safetensors; /* NULL: the file is the GGUF */
    gyre_mapping map;              /* that of safetensors where there is one */
} gyre_tensor_store_file;

struct gyre_tensor_store {
    char *path;
    gyre_tensor_store_file *files; /* by path */
    int64_t files_count;
    gyre_file_tensor *tensors; /* by name */
    int64_t count;
    gyre_gguf *gguf;
    char *names; /* of the GGUF's tensors, ended by NULs */
};

/* out = "folder/name", to be freed, or NULL. */
char *gyre_path_join(const char *folder, const char *name);
/* Opens one .safetensors as the next of store->files, which has room. */
gyre_status gyre_tensor_store_add_safetensors(gyre_tensor_store *store, const char *path, gyre_error *err);
/* Takes the tensors of all files. */
gyre_status gyre_tensor_store_list(gyre_tensor_store *store, gyre_error *err);
/* stored_index.c: the files that an index in the folder store->path lists. */
gyre_status gyre_tensor_store_open_index(gyre_tensor_store *store, const char *path, gyre_error *err);
/* stored_gguf.c: the whole of a store that is a GGUF; store->path is set. */
gyre_status gyre_tensor_store_open_gguf(gyre_tensor_store *store, gyre_error *err);

#endif

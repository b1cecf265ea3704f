/* tensor_store.h: the tensors of a model, from one .safetensors file, several with an index, or a GGUF. */
#ifndef GYRE_FILES_TENSOR_STORE_H
#define GYRE_FILES_TENSOR_STORE_H
#include "files/gguf.h"
#include "gyre/gyre.h"
#include "kernels/kernels.h"

/* How numbers are stored (kernels/quants/stored_types.def).  ggml's block types group numbers along a row. */
typedef enum gyre_stored_type {
#define GYRE_STORED_PLAIN(NAME, ...) GYRE_STORED_##NAME,
#define GYRE_STORED_BLOCK(NAME, ...) GYRE_STORED_##NAME,
#define GYRE_STORED_RARE(NAME, ...)  GYRE_STORED_##NAME,
#include "kernels/quants/stored_types.def"
    GYRE_STORED_OTHER /* checked but not read: I32, F8_E4M3, ... */
} gyre_stored_type;

/* A tensor in a mapped file. */
typedef struct gyre_file_tensor {
    const char *name, *file; /* valid as long as the store */
    const char *file_dtype;  /* type as the file names it, also "I64" or "IQ2_XS" */
    gyre_stored_type type;
    int rank;         /* above 4 only for type OTHER */
    int64_t shape[4]; /* slowest first in every format: a matrix is [out, in]; 1 past the rank */
    int64_t count;    /* of numbers */
    const unsigned char *data;
    uint64_t bytes, offset; /* offset: in the file, for messages */
} gyre_file_tensor;

/* out = "F32", "Q4_K", ... */
const char *gyre_stored_type_name(gyre_stored_type type);
/* out = the type of that name, or OTHER. */
gyre_stored_type gyre_stored_type_named(const char *name);
/* out = its number in a GGUF, and that of a model whose matrices are mostly of it (general.file_type). */
uint32_t gyre_stored_ggml_type(gyre_stored_type type);
uint32_t gyre_stored_ggml_file_type(gyre_stored_type type);
/* out = numbers per block: 1, 32, 64 or 256. */
int64_t gyre_stored_block_size(gyre_stored_type type);
/* out = bytes of a row of n numbers, n a multiple of the block. */
int64_t gyre_stored_row_bytes(gyre_stored_type type, int64_t n);
/* out[0 .. n - 1] = the numbers of a row.  n is a multiple of the block; `row` needs no alignment. */
void gyre_stored_dequantize(const gyre_kernels *kernels, gyre_stored_type type, const void *row, float *out, int64_t n);

typedef struct gyre_tensor_store gyre_tensor_store;
/* Opens the model at `path`: a folder with model.safetensors, or with model.safetensors.index.json and the files it
 * lists (plain names in that folder, every tensor in the file that the index names, none twice); a .safetensors file; a
 * GGUF.  Files are mapped, and their offsets and sizes checked.  Errors name file, tensor or field, and offset: EIO,
 * EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_tensor_store_open(gyre_tensor_store **out, const char *path, gyre_error *err);
/* gyre_tensor_store_open for names and shapes: a GGUF may end within the data of its tensors, and then data is NULL of those
 * that are not whole. */
gyre_status gyre_tensor_store_open_head(gyre_tensor_store **out, const char *path, gyre_error *err);
void gyre_tensor_store_free(gyre_tensor_store *store); /* NULL does nothing */
/* Tensors of all files, sorted by name bytewise. */
int64_t gyre_tensor_store_count(const gyre_tensor_store *store);
gyre_file_tensor gyre_tensor_store_at(const gyre_tensor_store *store, int64_t index);
/* out = 1 and *tensor; 0 if there is no tensor of that name. */
int gyre_tensor_store_find(const gyre_tensor_store *store, const char *name, gyre_file_tensor *tensor);
/* out = the parsed GGUF; NULL for safetensors. */
const gyre_gguf *gyre_tensor_store_gguf(const gyre_tensor_store *store);
const char *gyre_tensor_store_path(const gyre_tensor_store *store);
int64_t gyre_tensor_store_bytes(const gyre_tensor_store *store); /* of all files */
/* *hash = FNV-1a, 64 bits, of the bytes of all files in order of their names.  EIO as gyre_tensor_store_check. */
gyre_status gyre_tensor_store_hash(const gyre_tensor_store *store, uint64_t *hash, gyre_error *err);
/* EIO if one of the files was shortened or written to since it was opened (gyre_mapping_check). */
gyre_status gyre_tensor_store_check(const gyre_tensor_store *store, gyre_error *err);
/* out[0 .. count - 1] = the whole tensor in float.  EFORMAT, with the offset, if a number is not finite.  EUNSUPPORTED
 * for a type that is not read. */
gyre_status gyre_stored_read(const gyre_kernels *kernels, const gyre_file_tensor *tensor, float *out, gyre_error *err);
/* at[0 .. count - 1] = where in a block its f16 scales are.  out = count: 0, 1 or 2. */
int gyre_stored_scales(gyre_stored_type type, int64_t at[2]);
/* EUNSUPPORTED, "NAME: Gyre does not read ... yet", for type OTHER. */
gyre_status gyre_stored_check_read(const gyre_file_tensor *tensor, gyre_error *err);
/* The check of gyre_stored_read alone: looks at every number, or at every scale of a block type. */
gyre_status gyre_stored_check_finite(const gyre_kernels *kernels, const gyre_file_tensor *tensor, gyre_error *err);
/* out = the largest magnitude of a tensor of a type that is read, or a NaN if it holds one; *index = its first element. */
float gyre_stored_largest(const gyre_kernels *kernels, const gyre_file_tensor *tensor, int64_t *index);
/* Releases the tensor's pages, after it was copied elsewhere. */
void gyre_stored_release_pages(const gyre_file_tensor *tensor);

#endif

/* fuzz_tensor_store.h: uses the tensors of a model in every possible way. */
#ifndef GYRE_FUZZ_TENSOR_STORE_H
#define GYRE_FUZZ_TENSOR_STORE_H
#include <stddef.h>
#include <stdint.h>

/* Aborts if `truth` is 0: the library broke a promise. */
void fuzz_require(int truth, const char *what);
/* out = a path at which these bytes are a file, until the next call. */
const char *fuzz_file(const uint8_t *bytes, size_t size);
/* Opens the store at `path`. If it opens, queries everything and reads every tensor. */
void fuzz_store(const char *path);

#endif

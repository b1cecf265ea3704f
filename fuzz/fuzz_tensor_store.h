/* fuzz_tensor_store.h: a model's tensors, used in every way there is. */
#ifndef GYRE_FUZZ_TENSOR_STORE_H
#define GYRE_FUZZ_TENSOR_STORE_H
#include <stddef.h>
#include <stdint.h>

/* Ends the program where what was promised is not so. */
void fuzz_require(int truth, const char *what);
/* out = a path at which these bytes are a file, until the next call. */
const char *fuzz_file(const uint8_t *bytes, size_t size);
/* Opens what is there; what is let in is asked for everything, and every tensor read. */
void fuzz_store(const char *path);

#endif

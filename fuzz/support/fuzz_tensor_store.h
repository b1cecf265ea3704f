/* fuzz_tensor_store.h: uses the tensors of a model in every possible way. */
#ifndef GYRE_FUZZ_TENSOR_STORE_H
#define GYRE_FUZZ_TENSOR_STORE_H
/* Opens the store at `path`. If it opens, queries everything and reads every tensor. */
void fuzz_store(const char *path);

#endif

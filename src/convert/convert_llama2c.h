/* convert_llama2c.h: checkpoints of llama2.c, mapped. */
#ifndef GYRE_CONVERT_LLAMA2C_H
#define GYRE_CONVERT_LLAMA2C_H
#include "files/tensors/tensor_store.h"
#include "gyre/gyre_model.h"

typedef struct gyre_llama2c gyre_llama2c;

/* *out = 1 if `folder` holds a checkpoint: no config.json, and a *.bin whose header fits its size.
 * Errors: EINVAL (two such files), EIO. */
gyre_status gyre_llama2c_find(int *out, const char *folder, gyre_error *err);
gyre_status gyre_llama2c_open(gyre_llama2c **out, const char *folder, gyre_error *err);
void gyre_llama2c_free(gyre_llama2c *checkpoint); /* NULL is fine */
/* EIO if the file was written to since it was opened. */
gyre_status gyre_llama2c_check(const gyre_llama2c *checkpoint, gyre_error *err);

int64_t gyre_llama2c_count(const gyre_llama2c *checkpoint);
/* out = a tensor under its Hugging Face name.  The order is that of the file. */
gyre_file_tensor gyre_llama2c_at(const gyre_llama2c *checkpoint, int64_t index);
/* out = the config that the converted model will have, with pairs in halves.  The checkpoint's own pairs are
 * interleaved. */
gyre_model_config gyre_llama2c_config(const gyre_llama2c *checkpoint, int *tied);
/* out = "folder/tok512.bin", or NULL if there is no tokenizer. */
const char *gyre_llama2c_tokenizer_path(const gyre_llama2c *checkpoint);

#endif

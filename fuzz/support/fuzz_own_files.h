/* fuzz_own_files.h: models made here, and checkpoints whose bias table alone is read. */
#ifndef GYRE_FUZZ_OWN_FILES_H
#define GYRE_FUZZ_OWN_FILES_H
#include "fuzz_bytes.h"

/* A model of gyre_model_create is saved, opened both ways, damaged and converted. */
void fuzz_own_model(fuzz_bytes *b);
/* gyre_checkpoint_bias on a folder with the bias table of a T5 or its kin. */
void fuzz_bias_table(fuzz_bytes *b);

#endif

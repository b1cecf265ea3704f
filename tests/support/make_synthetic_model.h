/* make_synthetic_model.h: models of every family with synthetic weights, as described by tests/families/NAME.json.
 *
 * The numbers of a tensor follow from the fixture's seed, the tensor's name and the index alone
 * (tests/oracle/synthetic_weights.py makes the same ones). So no weights are stored, only the logits that an independent
 * decoder computed from them. */
#ifndef GYRE_TESTS_MAKE_SYNTHETIC_MODEL_H
#define GYRE_TESTS_MAKE_SYNTHETIC_MODEL_H
#include "support.h"

/* The object in tests/families/<name>.json. The test fails where it cannot be read. The caller releases it with
 * json_decref. */
json_t *synthetic_fixture(const char *name);
/* out = the *count numbers of the tensor; the caller frees them. Fails if the fixture has no such tensor. */
float *synthetic_tensor(const json_t *fixture, const char *name, int64_t *count);
/* Writes config.json and model.safetensors, with the fixture's "dtype", into the existing folder `folder`. */
void synthetic_write_folder(const json_t *fixture, const char *folder);
/* Writes the same model in F32 with the layout of llama.cpp's converter. Fails if the fixture has no "gguf". */
void synthetic_write_gguf(const json_t *fixture, const char *path);

#endif

/* make_synthetic_model.h: models of every family with made-up weights, as tests/families/NAME.json describes them.
 *
 * A tensor's numbers follow from the fixture's seed, its name and their index alone (tests/oracle/synthetic_weights.py makes
 * the same ones), so that no weights are stored: only what an independent decoder gave for them. */
#ifndef GYRE_TESTS_MAKE_SYNTHETIC_MODEL_H
#define GYRE_TESTS_MAKE_SYNTHETIC_MODEL_H
#include "support.h"

/* The object in tests/families/<name>.json; the test fails where it cannot be read.  json_decref it. */
json_t *synthetic_fixture(const char *name);
/* out = the tensor's numbers, which the caller frees; *count of them.  Fails where the fixture has none of that name. */
float *synthetic_tensor(const json_t *fixture, const char *name, int64_t *count);
/* Writes config.json and model.safetensors, of the fixture's "dtype", into `folder`, which exists. */
void synthetic_write_folder(const json_t *fixture, const char *folder);
/* Writes the same model, of F32, as llama.cpp's converter lays it out; fails where the fixture has no "gguf". */
void synthetic_write_gguf(const json_t *fixture, const char *path);

#endif

/* fuzz_model_laws.h: what the public header promises of every model that opens. */
#ifndef GYRE_FUZZ_MODEL_LAWS_H
#define GYRE_FUZZ_MODEL_LAWS_H
#include "fuzz_bytes.h"
#include "gyre/gyre_model.h"
#include "gyre/gyre_research.h"

/* logits[n][vocab] = those of one read in the fixed order, on one thread.  The same bits must come from any cut into reads,
 * on two threads, with any type of cache, and after a truncation; watched weights of a token must sum to 1.  out = 1; 0 =
 * the model cannot read so far, which it says. */
int fuzz_model_read(const gyre_model *model, const int32_t *ids, int64_t n, fuzz_bytes *b, float *logits);
/* gyre_model_open, which must succeed if and only if gyre_weight_faults_open finds nothing; *out NULL after a failure, whose
 * text is one line. */
gyre_status fuzz_model_open(gyre_model **out, const char *path);
/* fuzz_require that the text of a failure is one line. */
void fuzz_one_line(gyre_status status, const gyre_error *err);
/* Removes a folder of models, or a file, of fuzz_path. */
void fuzz_model_remove(const char *name);
/* fuzz_require that the folder of fuzz_path holds nothing but these names; list: separated by spaces. */
void fuzz_holds_only(const char *list);

#endif

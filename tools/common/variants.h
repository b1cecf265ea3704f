/* variants.h: the encodings that a model can be trained with, by name: every kind, and kinds with one thing changed. */
#ifndef GYRE_TOOLS_VARIANTS_H
#define GYRE_TOOLS_VARIANTS_H
#include "gyre/gyre.h"
#include "tools/common/methods.h"

enum { MAX_VARIANTS = 32, VARIANT_NAME = 24, VARIANT_LIST = 512 };

typedef struct variant {
    const char *name;
    gyre_kind kind;
} variant;

/* out = how many there are: the kinds in their order, then the changed ones. */
int variants_count(void);
variant variant_at(int index);
/* The names in a row, "nope, learned, ...". */
void variants_list(char out[VARIANT_LIST]);
/* *out = the variant of that name.  EINVAL: err lists the names. */
gyre_status variant_find(const char *name, size_t length, variant *out, gyre_error *err);
/* out[0 .. count - 1] = those of a comma list, or every one for "all"; none twice.  EINVAL: err says what is wrong. */
gyre_status variants_parse(const char *list, variant out[MAX_VARIANTS], int *count, gyre_error *err);

/* Sets config up for a model that is trained on `trained` tokens and may meet `longest` (a variant that is trained under a
 * scaling takes their ratio): head_dim, heads and input.dim are in it before.  Errors: those of gyre_config_suggest. */
gyre_status variant_config(const variant *v, int64_t trained, int64_t longest, const method_betas *betas,
                           gyre_config *config);

#endif

/* variants.h: the encodings that a model can be trained with, by name: every kind, and kinds with one setting changed. */
#ifndef GYRE_TOOLS_VARIANTS_H
#define GYRE_TOOLS_VARIANTS_H
#include "gyre/gyre_train.h"
#include "report/report.h"
#include "tools/common/methods.h"

enum { MAX_VARIANTS = 64, VARIANT_NAME = 24, VARIANT_LIST = 1024 };

typedef struct variant {
    const char *name;
    gyre_kind kind;
} variant;

/* out = the number of variants: the kinds in their order, then the changed ones.  Further ones that answer a question of
 * docs/questions.md are found by name only. */
int variants_count(void);
variant variant_at(int index);
/* Writes the names: "nope, learned, ...". */
void variants_list(char out[VARIANT_LIST]);
/* *out = the variant of that name.  EUNSUPPORTED: there is none; err is the name alone. */
gyre_status variant_find(const char *name, size_t length, variant *out, gyre_error *err);
/* Usage error of an option whose names variant_find or variants_parse refused. */
_Noreturn void variants_refuse(const char *option, gyre_status status, const gyre_error *err);
/* Reads --encoding into the variant at `at` (cli_read); an unknown name is a usage error. */
void variant_read(const char *option, const char *text, void *at);
/* out[0 .. *count - 1] = the variants of a comma list, or all for "all".  Errors: those of variant_find; EINVAL, a name
 * twice: err says so. */
gyre_status variants_parse(const char *list, variant out[MAX_VARIANTS], int *count, gyre_error *err);

/* Completes config, whose head_dim, heads and input.dim are set, for a model that is trained on `trained` tokens and used
 * with up to `longest`.  head_dim is that of keys, and becomes that of queries.  A variant that is trained under a scaling
 * takes the ratio of the lengths as factor.  Errors: those of gyre_config_suggest; EINVAL (a scaled variant with longest <=
 * trained; more rotated channels than a head has). */
gyre_status variant_config(const variant *v, int64_t trained, int64_t longest, const method_betas *betas,
                           gyre_config *config);

/* Sets what a variant changes in the model beside its encoding.  model: heads and head_dim are set. */
void variant_model(const variant *v, gyre_model_config *model);

/* out = how a variant draws the positions of its training sequences. */
gyre_position_draw variant_draw(const variant *v);
/* Reads --positions, "randomized:2048", into positions and position_range; a wrong one is a usage error. */
void draw_read(const char *option, const char *text, gyre_train_options *out);
/* A learned table gets a row for each position that the options draw from. */
void draw_fit(const gyre_train_options *options, gyre_config *position);

/* *out = the sinusoid of the paper, whose rows have dim channels.  Errors: those of gyre_encoding_create. */
gyre_status sinusoid_create(gyre_encoding **out, int64_t dim, double base, gyre_sinusoid layout, gyre_error *err);

/* rows[count][dim] = its rows of positions first .. first + count - 1, in double. */
gyre_status sinusoid_rows(const gyre_encoding *sinusoid, int64_t first, int64_t count, double *rows, const gyre_exec *exec,
                          gyre_error *err);
/* PE(p + k) = M_k PE(p), with one matrix M_k for all p: a rotation of each pair [sin cos] by k theta. */
/* *out = the rotation in pairs [x y x y ...] that applies M_k at position k / factor.  clockwise 0: the inverse. */
gyre_status shift_create(gyre_encoding **out, int64_t dim, double base, int clockwise, double factor, gyre_error *err);
/* out[count][dim] = M_k times each of rows[count][dim]. */
gyre_status shift_rows(const gyre_encoding *shift, int64_t k, const double *rows, int64_t count, double *out,
                       const gyre_exec *exec, gyre_error *err);

/* out = the look of the method or encoding that a label names or begins with ("rope+yarn", "ntk:4", "yarn, causal"), in
 * every figure: the plain name is solid; its variants have hollow symbols and dashes, which differ from one power of two to
 * the next; zeros for another label. */
gyre_report_look subject_look(const char *label);

#endif

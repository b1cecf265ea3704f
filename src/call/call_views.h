/* call_views.h: checks of the views of a call.  Each fills in err, which may be NULL, with "NAME: why (WHERE)": name is the
 * argument, where the function that the user called. */
#ifndef GYRE_CALL_CALL_VIEWS_H
#define GYRE_CALL_CALL_VIEWS_H
#include "gyre/gyre.h"

enum { GYRE_MAX_CALL_CHANNELS = 65536 };

/* -- one view -- */
/* Sets of element types, a bit for each. */
typedef enum gyre_call_types {
    GYRE_TYPES_F32 = 1 << GYRE_DTYPE_F32,
    GYRE_TYPES_F64 = 1 << GYRE_DTYPE_F64,
    GYRE_TYPES_WIDE = GYRE_TYPES_F32 | GYRE_TYPES_F64,
    GYRE_TYPES_FLOATS = GYRE_TYPES_F32 | 1 << GYRE_DTYPE_F16 | 1 << GYRE_DTYPE_BF16,
    GYRE_TYPES_REALS = GYRE_TYPES_FLOATS | GYRE_TYPES_F64,
    GYRE_TYPES_KEYS = GYRE_TYPES_FLOATS | 1 << GYRE_DTYPE_Q8_0 | 1 << GYRE_DTYPE_Q4_0
} gyre_call_types;
/* Errors: EDTYPE. */
gyre_status gyre_call_check_type(gyre_dtype dtype, gyre_call_types types, const char *name, const char *where,
                                 gyre_error *err);
/* A type of keys or values, and channels that are whole blocks of it.  Errors: EDTYPE, ESHAPE. */
gyre_status gyre_call_check_blocks(const gyre_cview *view, gyre_call_types types, const char *name, const char *where,
                                   gyre_error *err);
/* Out of range: ESHAPE.  No tokens are fine, no heads and no channels are not. */
gyre_status gyre_call_check_extents(const int64_t shape[4], int64_t most_tokens, int64_t least_tokens, const char *name,
                                    const char *where, gyre_error *err);
/* Memory of a shape that is read, or written.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_call_check_input(const gyre_cview *view, const int64_t shape[4], gyre_call_types types, const char *name,
                                  const char *where, gyre_error *err);
gyre_status gyre_call_check_result(const gyre_view *view, const int64_t shape[4], gyre_call_types types, const char *name,
                                   const char *where, gyre_error *err);
/* A number that floats are multiplied by.  Errors: EINVAL. */
gyre_status gyre_call_check_factor(double value, const char *name, const char *where, gyre_error *err);

/* -- of a call -- */
/* q, k and v by themselves and with each other, without looking at memory.  Errors: EDTYPE, ESHAPE. */
gyre_status gyre_call_check_qkv(const gyre_cview *q, const gyre_cview *k, const gyre_cview *v, gyre_call_types types,
                                const char *where, gyre_error *err);
/* dout, shaped as out.  Errors: EDTYPE, ESHAPE, EINVAL (also NULL). */
gyre_status gyre_call_check_dout(const gyre_cview *dout, const gyre_view *out, gyre_call_types types, const char *where,
                                 gyre_error *err);

/* -- memory that is written -- */
typedef struct gyre_named_view {
    const char *name;
    gyre_cview view;
} gyre_named_view;
/* Views of a call by name.  Those without memory are listed too, and share it with none. */
enum { GYRE_CALL_MOST_VIEWS = 16 };
typedef struct gyre_named_views {
    int count;
    gyre_named_view at[GYRE_CALL_MOST_VIEWS];
} gyre_named_views;
void gyre_named_views_add(gyre_named_views *views, const char *name, gyre_cview view);
/* EINVAL: one that is written shares a byte with one that is read, or with another that is written. */
gyre_status gyre_call_check_apart(const gyre_named_views *written, const gyre_named_views *read, const char *where,
                                  gyre_error *err);
/* Each of the views.  Errors: EINVAL, ESHAPE. */
gyre_status gyre_call_check_inputs(const gyre_named_views *views, const char *where, gyre_error *err);
/* A gradient that may be wanted. */
typedef struct gyre_named_result {
    const char *name;
    const gyre_view *view; /* data NULL: not wanted */
    const int64_t *shape;
    gyre_call_types types;
} gyre_named_result;
/* What a call writes, of any real type; a gradient reads out and lse. */
typedef struct gyre_call_results {
    const gyre_cview *q, *v;
    const gyre_view *out, *lse;
    const gyre_cview *dout;
    const gyre_named_result *gradients;
    int count;
} gyre_call_results;
/* Results by themselves, apart from each other, and from the views that are read.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_call_check_results(const gyre_call_results *results, int gradient, gyre_named_views *read,
                                    const char *where, gyre_error *err);

#endif

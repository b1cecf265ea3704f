/* call_views.h: checks of the views of a call.  Each fills in err, which may be NULL, with "NAME: why (WHERE)": name is the
 * argument, where the function that the user called. */
#ifndef GYRE_TILING_CALL_VIEWS_H
#define GYRE_TILING_CALL_VIEWS_H
#include "gyre/gyre.h"

enum { GYRE_MAX_CALL_CHANNELS = 65536 };

typedef struct gyre_named_view {
    const char *name;
    gyre_cview view;
} gyre_named_view;

/* Out of range: ESHAPE.  No tokens are fine, no heads and no channels are not. */
gyre_status gyre_call_check_extents(const int64_t shape[4], int64_t most_tokens, int64_t least_tokens, const char *name,
                                    const char *where, gyre_error *err);
/* wide_alone 1: F32 or F64; 0: F16 and BF16 too.  Errors: EDTYPE. */
gyre_status gyre_call_check_type(gyre_dtype dtype, int wide_alone, const char *name, const char *where, gyre_error *err);
/* q, k and v by themselves and with each other.  Errors: EDTYPE, ESHAPE. */
gyre_status gyre_call_check_qkv(const gyre_cview *q, const gyre_cview *k, const gyre_cview *v, const char *where,
                                gyre_error *err);
/* A number that floats are multiplied by.  Errors: EINVAL. */
gyre_status gyre_call_check_factor(double value, const char *name, const char *where, gyre_error *err);

/* Memory that is written, of a shape.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_call_check_result(const gyre_view *view, const int64_t shape[4], int wide_alone, const char *name,
                                   const char *where, gyre_error *err);
/* out and lse of a call; the gradient (1) needs lse. */
gyre_status gyre_call_check_out(const gyre_view *out, const gyre_view *lse, const gyre_cview *q, const gyre_cview *v,
                                int gradient, const char *where, gyre_error *err);
/* Memory that is written shares no byte with any of `others`.  Errors: EINVAL. */
gyre_status gyre_call_check_apart(const gyre_view *output, const char *name, const gyre_named_view *others, int count,
                                  const char *where, gyre_error *err);
/* out and lse of a forward call, which lie apart from `others` and from each other; others has room for one more. */
gyre_status gyre_call_check_out_apart(const gyre_view *out, const gyre_view *lse, gyre_named_view *others, int count,
                                      const char *where, gyre_error *err);

/* -- of a gradient -- */
/* dout, shaped as out.  Errors: EINVAL, EDTYPE, ESHAPE. */
gyre_status gyre_call_check_dout(const gyre_cview *dout, const gyre_view *out, const char *where, gyre_error *err);
typedef struct gyre_named_result {
    const char *name;
    const gyre_view *view; /* data NULL: not wanted */
    const int64_t *shape;
    int wide_alone; /* 1: F32 or F64 */
} gyre_named_result;
/* Results, each apart from `others` and from those before it; others has room for all of them. */
gyre_status gyre_call_check_results(const gyre_named_result *results, int results_count, gyre_named_view *others, int count,
                                    const char *where, gyre_error *err);

#endif

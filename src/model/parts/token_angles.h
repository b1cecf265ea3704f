/* token_angles.h: what parts share whose tokens make angles.  Queries and keys rotate by running sums, an angle for each
 * pair of each key head, which a token keeps: first the angles, [kv_heads][pairs], then what else the part keeps. */
#ifndef GYRE_MODEL_TOKEN_ANGLES_H
#define GYRE_MODEL_TOKEN_ANGLES_H
#include "gyre/gyre_trained.h"
#include "model/parts/head_parts.h"

/* out = the angles of a token. */
static inline int64_t gyre_token_angles(const gyre_trained_heads *t) {
    return t->kv_heads * t->pairs;
}
static inline double *gyre_kept_of(const gyre_head_views *heads, int64_t batch, int64_t token) {
    return gyre_view_at(&heads->kept, batch, token, 0, 0);
}

/* Queries and keys of key head h: out = in, rotated by angles that they share. */
gyre_status gyre_turn_key_head(const gyre_trained_heads *t, int64_t h, const gyre_angle_rotation *rotation,
                               gyre_direction direction, const gyre_view in[2], const gyre_view out[2],
                               const gyre_exec *exec, gyre_error *err);
/* dangles += the gradient to these angles, given the rotated queries and keys and the gradients to them. */
gyre_status gyre_turn_key_head_gradient(const gyre_trained_heads *t, int64_t h, const gyre_angle_rotation *rotation,
                                        const gyre_view rotated[2], const gyre_view dout[2], const gyre_view *dangles,
                                        gyre_error *err);

/* heads->kept has what each token adds; then it has the sums, and out is in, rotated by them. */
gyre_status gyre_token_angles_forward(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_exec *exec,
                                      gyre_error *err);
/* d->in = d->out, rotated back.  made[batch][token][kv_heads][pairs] = the gradient to what a token adds; sums: room for as
 * many numbers. */
gyre_status gyre_token_angles_gradient(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d,
                                       double *sums, double *made, gyre_error *err);

#endif

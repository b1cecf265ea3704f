/* head_parts.h: every part that makes queries and keys, one file each (architecture/head_part.h). */
#ifndef GYRE_MODEL_HEAD_PARTS_H
#define GYRE_MODEL_HEAD_PARTS_H
#include "core/view.h"
#include "model/architecture/head_part.h"

#define GYRE_HEAD_PART(name, key, option, acts, channels, note) extern const gyre_head_part gyre_head_part_##name;
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART

/* out = the heads of `view` that key head h serves. */
static inline gyre_view gyre_heads_of_key(const gyre_trained_heads *t, const gyre_view *view, int64_t h) {
    gyre_view part = *view;
    const int64_t group = view->shape[2] / t->kv_heads;
    part.data = gyre_view_at(view, 0, 0, h * group, 0);
    part.shape[2] = group;
    return part;
}

#endif

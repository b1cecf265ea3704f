/* view_overlap.c: whether two strided views share memory.
 *
 * An element of a view is at low + sum of stride x index, in bytes.  Two views share a byte where
 *
 *     low_a + sum a_i x_i + u = low_b + sum b_j y_j + w        u, w: bytes inside an element
 *
 * With y counted from the far end all terms are on one side: sum of stride x count = target, each count from 0 to a
 * last.  Equal strides of both views are one term.  Strides are mostly nested, larger than all that is below them, so
 * the search has one or two counts to try for each. */
#include "core/view.h"

#include <stdint.h>

enum { MAX_TERMS = 9, MAX_STEPS = 4096 };

typedef struct term {
    int64_t stride, last;
} term;

/* Terms by falling stride.  reach[i]: the most that terms i and later make. */
typedef struct terms {
    int count;
    term all[MAX_TERMS];
    int64_t reach[MAX_TERMS + 1];
    int64_t steps; /* left to the search */
} terms;

/* Bytes low .. low + span of a view. */
typedef struct extent {
    uint64_t low;
    int64_t span;
} extent;

/* 0 for a view without elements, and for one that cannot be: neither has memory. */
static int find_extent(const gyre_cview *view, extent *out) {
    const int64_t size = (int64_t)gyre_dtype_size(view->dtype); /* 0: the type is unknown */
    gyre_reach reach;
    if (!view->data || size == 0 || gyre_view_elements(view->shape) <= 0 || !gyre_view_reach(view, &reach)) return 0;
    *out = (extent){(uintptr_t)view->data - (uint64_t)reach.below, reach.below + reach.above + size - 1};
    return 1;
}

static void add_term(terms *t, int64_t stride, int64_t last) {
    int at = 0;
    while (at < t->count && t->all[at].stride > stride)
        at++;
    if (at < t->count && t->all[at].stride == stride) {
        t->all[at].last += last;
        return;
    }
    for (int i = t->count; i > at; i--)
        t->all[i] = t->all[i - 1];
    t->all[at] = (term){stride, last};
    t->count++;
}

static void add_view(terms *t, const gyre_cview *view) {
    const int64_t size = (int64_t)gyre_dtype_size(view->dtype);
    for (int i = 0; i < 4; i++)
        if (view->stride[i] != 0 && view->shape[i] > 1)
            add_term(t, (view->stride[i] < 0 ? -view->stride[i] : view->stride[i]) * size, view->shape[i] - 1);
    if (size > 1) add_term(t, 1, size - 1);
}

/* out = 1 if terms i and later can make `target`. */
static int can_make(terms *t, int i, int64_t target) {
    if (target < 0 || target > t->reach[i] || t->steps-- <= 0) return 0;
    if (i == t->count || t->all[i].stride == 1) return 1;
    const int64_t stride = t->all[i].stride, most = target / stride;
    for (int64_t n = most < t->all[i].last ? most : t->all[i].last; n >= 0 && t->steps > 0; n--) {
        if (target - n * stride > t->reach[i + 1]) return 0;
        if (can_make(t, i + 1, target - n * stride)) return 1;
    }
    return 0;
}

int gyre_views_overlap(const gyre_cview *a_view, const gyre_cview *b_view) {
    const gyre_cview bytes_of_a = gyre_bytes_of_blocks(a_view), bytes_of_b = gyre_bytes_of_blocks(b_view);
    const gyre_cview *a = &bytes_of_a, *b = &bytes_of_b;
    extent of_a, of_b;
    if (!find_extent(a, &of_a) || !find_extent(b, &of_b)) return 0;
    const int64_t apart = (int64_t)(of_b.low - of_a.low); /* addresses wrap, so their difference decides */
    if (apart > of_a.span || apart < -of_b.span) return 0;
    terms t = {.steps = MAX_STEPS};
    add_view(&t, a);
    add_view(&t, b);
    for (int i = t.count - 1; i >= 0; i--)
        t.reach[i] = t.reach[i + 1] + t.all[i].stride * t.all[i].last;
    return can_make(&t, 0, apart + of_b.span);
}

/* random_views.h: views of random types, orders and strides with the doubles that they hold, and random batches of them. */
#ifndef GYRE_TESTS_RANDOM_VIEWS_H
#define GYRE_TESTS_RANDOM_VIEWS_H
#include "support.h"

#include <math.h>
#include <stdlib.h>

static inline int64_t draw(test_random *random, int64_t least, int64_t most) {
    return least + (int64_t)(test_next(random) % (uint64_t)(most - least + 1));
}

static inline gyre_dtype draw_type(int short_types, test_random *random) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F64, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    return types[draw(random, 0, short_types ? 3 : 1)];
}

/* -- a view -- */

typedef struct random_view {
    gyre_view view;
    void *memory;
    double *values; /* dense [batch][token][head][channel] */
} random_view;

static inline size_t count_of(const random_view *x) {
    const int64_t *s = x->view.shape;
    return (size_t)(s[0] * s[1] * s[2] * s[3]);
}

/* out = element i in the order of values. */
static inline void *element_of(const random_view *x, size_t i) {
    const gyre_view *view = &x->view;
    const int64_t *s = view->shape, c = (int64_t)i % s[3], h = (int64_t)i / s[3] % s[2], t = (int64_t)i / s[3] / s[2] % s[1],
                  b = (int64_t)i / s[3] / s[2] / s[1];
    const int64_t offset = b * view->stride[0] + t * view->stride[1] + h * view->stride[2] + c * view->stride[3];
    return (char *)view->data + offset * (int64_t)gyre_dtype_size(view->dtype);
}

static inline double get_element(const random_view *x, size_t i) {
    return test_get(element_of(x, i), x->view.dtype, 0);
}
static inline void put_element(const random_view *x, size_t i, double value) {
    test_put(element_of(x, i), x->view.dtype, 0, value);
}

/* New memory in a random order of axes, with room between rows, channels now and then backwards. */
static inline void make_view(random_view *x, gyre_dtype dtype, const int64_t shape[4], test_random *random) {
    gyre_view *view = &x->view;
    *view = gyre_dense(NULL, dtype, shape[0], shape[1], shape[2], shape[3]);
    const int order = (int)draw(random, 0, 2), room = (int)draw(random, 0, 3), back = draw(random, 0, 3) == 0;
    const int64_t row = shape[3] + room;
    view->stride[3] = back ? -1 : 1;
    view->stride[2] = order ? row * shape[1] : row;
    view->stride[1] = order ? row : row * shape[2];
    view->stride[0] = row * shape[1] * shape[2];
    const size_t elements = (size_t)(view->stride[0] * shape[0]) + 1;
    x->memory = calloc(elements, gyre_dtype_size(dtype));
    x->values = calloc(count_of(x) + 1, sizeof(double));
    view->data = (char *)x->memory + (back && shape[3] > 0 ? (size_t)(shape[3] - 1) * gyre_dtype_size(dtype) : 0);
}

static inline void free_view(random_view *x) {
    free(x->memory);
    free(x->values);
}

/* Random numbers up to `size`, in memory and, as rounded there, in values. */
static inline void fill_view(random_view *x, double size, test_random *random) {
    for (size_t i = 0; i < count_of(x); i++) {
        put_element(x, i, size * test_uniform(random));
        x->values[i] = get_element(x, i);
    }
}

/* out = norm of what memory is off its values, relative to their norm (at least 1). */
static inline double view_error(const random_view *x) {
    double off = 0, norm = 0;
    for (size_t i = 0; i < count_of(x); i++) {
        const double want = x->values[i], got = get_element(x, i);
        if (want == got) continue; /* infinities */
        off += (got - want) * (got - want);
        norm += want * want;
    }
    return sqrt(off) / fmax(sqrt(norm), 1);
}

/* -- a batch -- */

enum { MAX_SEQUENCES = 5 };
typedef struct random_batch {
    int64_t sequences, q_starts[MAX_SEQUENCES + 1], k_starts[MAX_SEQUENCES + 1];
    int64_t k_first[MAX_SEQUENCES], k_end[MAX_SEQUENCES];
    int packed, has_first, has_end;
    int64_t rows, queries, keys; /* of the views */
} random_batch;

/* At most `queries` and `keys` a sequence; keys 0 and more queries than keys among them. */
static inline void draw_batch(random_batch *b, int64_t most_queries, int64_t most_keys, test_random *random) {
    *b = (random_batch){.sequences = draw(random, 1, 3), .rows = 1};
    for (int64_t s = 0; s < b->sequences; s++) {
        const int64_t keys = draw(random, 0, most_keys), queries = draw(random, 0, 4) == 0 ? draw(random, 0, most_queries)
                                                                   : keys < most_queries   ? keys
                                                                                           : draw(random, 1, most_queries);
        b->q_starts[s + 1] = b->q_starts[s] + queries;
        b->k_starts[s + 1] = b->k_starts[s] + keys;
    }
    b->packed = draw(random, 0, 1) != 0;
    if (!b->packed) b->rows = b->sequences;
    b->queries = b->q_starts[b->packed ? b->sequences : 1];
    b->keys = b->k_starts[b->packed ? b->sequences : 1];
    if (draw(random, 0, 2) != 0) return;
    for (int64_t s = 0; s < b->sequences; s++) {
        const int64_t keys = b->packed ? b->k_starts[s + 1] - b->k_starts[s] : b->keys;
        b->k_first[s] = draw(random, 0, keys);
        b->k_end[s] = draw(random, b->k_first[s], keys);
    }
    b->has_first = draw(random, 0, 1) != 0;
    b->has_end = draw(random, 0, 1) != 0;
}

/* Queries and keys of a sequence, as places in the views. */
typedef struct batch_place {
    int64_t row, query, queries, key, keys, padding; /* padding: keys of the sequence before the first that counts */
} batch_place;
static inline batch_place place_in_batch(const random_batch *b, int64_t s) {
    const int64_t all = b->packed ? b->k_starts[s + 1] - b->k_starts[s] : b->keys;
    const int64_t first = b->has_first ? b->k_first[s] : 0, end = b->has_end ? b->k_end[s] : all;
    return (batch_place){.row = b->packed ? 0 : s,
                         .query = b->packed ? b->q_starts[s] : 0,
                         .queries = b->packed ? b->q_starts[s + 1] - b->q_starts[s] : b->queries,
                         .key = (b->packed ? b->k_starts[s] : 0) + first,
                         .keys = end - first,
                         .padding = first};
}

/* Sets the fields that all arguments with batches have. */
#define SET_BATCH(args, b)                                                                                                  \
    do {                                                                                                                    \
        (args)->q_starts = (b)->packed ? (b)->q_starts : NULL;                                                              \
        (args)->k_starts = (b)->packed ? (b)->k_starts : NULL;                                                              \
        (args)->sequences = (b)->packed ? (b)->sequences : 0;                                                               \
        (args)->k_first = (b)->has_first ? (b)->k_first : NULL;                                                             \
        (args)->k_end = (b)->has_end ? (b)->k_end : NULL;                                                                   \
    } while (0)

#endif

/* bench_shapes.h: shapes of models for gyre bench model. */
#ifndef GYRE_TOOLS_BENCH_SHAPES_H
#define GYRE_TOOLS_BENCH_SHAPES_H
#include "gyre/gyre_model.h"
#include "tools/bench/bench.h"

typedef struct bench_model_shape {
    const char *name;
    int64_t vocab, layers, model_dim, heads, kv_heads, head_dim, mlp_dim;
    double base; /* of RoPE */
} bench_model_shape;

/* The first is that of gyre bench model without --shape. */
#define BENCH_SHAPE_NAMES "100m, smollm2, smollm2-360m"
enum { BENCH_SHAPES = 3 };
extern const bench_model_shape bench_shapes[BENCH_SHAPES];

/* out = a llama of that shape, whose head is its embedding. */
gyre_model_config bench_shape_config(const bench_model_shape *shape);
/* Reads the lengths of o->encodings.tokens with a model of the shape.  out = the exit status. */
int bench_shape_measure(const bench_options *o, const bench_model_shape *shape);

#endif

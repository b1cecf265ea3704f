/* shard.h: gyre shard: what each rank of a context-parallel group would hold and send.  Arithmetic alone: nothing is read
 * but the config, and nothing is computed or sent. */
#ifndef GYRE_TOOLS_SHARD_H
#define GYRE_TOOLS_SHARD_H
#include "gyre/gyre_positions.h"
#include "tools/cli/cli.h"

/* What the plan needs of a decoder. */
typedef struct shard_model {
    char family[64]; /* model_type */
    int64_t layers, width, heads, kv_heads, head_dim, mlp, vocab;
    int64_t mlp_matrices, experts, active_experts; /* experts 1: no mixture */
    int tied;                                      /* 1: the output matrix is the embedding */
    double weights, active_weights;                /* active: that a token is multiplied with */
} shard_model;

typedef struct shard_options {
    cli_options common; /* first */
    const char *path;   /* MODEL */
    int64_t context, ranks, tensor;
    gyre_shard_layout layout;
    gyre_dtype dtype;
    double bandwidth, latency, flops, memory; /* bytes and floating-point operations a second of a device; memory 0 = any */
    int gradient;
} shard_options;

/* Of the rank that has most.  A rank is `tensor` devices, over which heads and weights are split; bytes are of a device. */
typedef struct shard_plan {
    double tokens;                        /* of a rank */
    double pairs, pairs_all;              /* of a query and a key, one head: the most of a rank; of all */
    double step_pairs;                    /* what a ring waits for: the slowest of each step, added up */
    double weights, cache, blocks, state; /* bytes held */
    double message, messages, sent;       /* bytes of a message; how many; bytes in all */
    double linear, attention, transfer;   /* seconds: products with weights; attention; messages */
    double exposed;                       /* seconds of messages that attention does not hide */
    double overlapped, apart;             /* seconds in all: messages behind attention; one after the other */
    double single;                        /* seconds of one rank that had everything */
    double hiding_block;                  /* tokens of a rank from which messages hide behind attention that is not causal */
} shard_plan;

/* Reads the sizes.  Errors: EIO, EFORMAT, EUNSUPPORTED (latent attention, experts that are counted otherwise). */
gyre_status shard_model_read(const char *path, shard_model *out, gyre_error *err);
void shard_plan_make(const shard_model *m, const shard_options *o, shard_plan *out);
/* out = time of one rank / ranks / time of this plan: 1 is a speed-up by the number of ranks. */
double shard_efficiency(const shard_options *o, const shard_plan *p, double seconds);
enum { SHARD_MAX_RANKS = 65536 };

#endif

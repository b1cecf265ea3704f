/* call_steps.h: a call whose arguments are read, in the steps that all kinds of attention take: check, plan, take the
 * scratch, run. */
#ifndef GYRE_CALL_CALL_STEPS_H
#define GYRE_CALL_CALL_STEPS_H
#include "call/arena.h"
#include "call/key_source.h"
#include <stdatomic.h>

/* How a call over a batch is used.  CACHED: keys and values are not in memory of the caller. */
typedef enum gyre_call_use { GYRE_CALL_FORWARD, GYRE_CALL_GRADIENT, GYRE_CALL_CACHED } gyre_call_use;

/* What calls of every kind have. */
typedef struct gyre_call {
    const char *where; /* the function called, for messages */
    gyre_call_use use;
    const gyre_key_source *source; /* keys and values of a cache; NULL: those of the arguments */
    const gyre_cview *dout;        /* of a gradient */
} gyre_call;

/* A planned call while jobs compute it: each takes tasks from `next` until none is left. */
typedef struct gyre_call_tasks {
    const void *plan;
    char *scratch;
    atomic_int_least64_t next;
} gyre_call_tasks;

/* What a kind of attention does.  `call` is its own struct: the arguments, and room for the plan. */
typedef struct gyre_call_steps {
    /* All that the bytes of scratch depend on, without looking at elements and positions. */
    gyre_status (*check_shapes)(const void *call, gyre_error *err);
    /* All that a call must satisfy.  After GYRE_OK nothing but a lack of scratch can fail. */
    gyre_status (*check)(const void *call, gyre_error *err);
    /* out = 1 if there is nothing to write. */
    int (*is_empty)(const void *call);
    /* *bytes = scratch, not 0.  Errors: ENOMEM (more bytes than can be counted). */
    gyre_status (*plan)(void *call, const gyre_exec *exec, size_t *bytes);
    /* Computes what is planned.  scratch: checked. */
    void (*run)(void *call, char *scratch, const gyre_exec *exec);
} gyre_call_steps;

/* The step `plan`, and its message.  where: the function that the user called. */
gyre_status gyre_call_plan(const gyre_call_steps *steps, void *call, const char *where, const gyre_exec *exec, size_t *bytes,
                           gyre_error *err);
/* *bytes = scratch that a call needs.  EINVAL: bytes is NULL. */
gyre_status gyre_call_bytes(const gyre_call_steps *steps, void *call, const char *where, const gyre_exec *exec,
                            size_t *bytes, gyre_error *err);
/* The whole of a call. */
gyre_status gyre_call_perform(const gyre_call_steps *steps, void *call, const char *where, gyre_scratch scratch,
                              const gyre_exec *exec, gyre_error *err);

#endif

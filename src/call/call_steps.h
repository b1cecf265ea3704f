/* call_steps.h: a call in the steps that all kinds of attention take: read the arguments, check, plan, take the scratch,
 * run. */
#ifndef GYRE_CALL_CALL_STEPS_H
#define GYRE_CALL_CALL_STEPS_H
#include "call/arena.h"
#include "call/key_source.h"
#include <stdatomic.h>
#include <stddef.h>

/* How a call over a batch is used.  CACHED: keys and values are not in memory of the caller. */
typedef enum gyre_call_use { GYRE_CALL_FORWARD, GYRE_CALL_GRADIENT, GYRE_CALL_CACHED } gyre_call_use;

/* What calls of every kind begin with. */
typedef struct gyre_call {
    const char *where; /* the function called, for messages */
    gyre_call_use use;
    const void *given, *given_gradients; /* the caller's structs, whatever their version, which gyre_call_read reads */
    const gyre_key_source *source;       /* keys and values of a cache; NULL: those of the arguments */
    const gyre_cview *dout;              /* of a gradient */
} gyre_call;

/* A planned call while jobs compute it: each takes tasks from `next` until none is left. */
typedef struct gyre_call_tasks {
    const void *plan;
    char *scratch;
    atomic_int_least64_t next;
} gyre_call_tasks;

/* A struct within that of a call, as which the caller's is read. */
typedef struct gyre_call_struct {
    size_t at, size;
    const char *name;
} gyre_call_struct;

/* What a kind of attention does.  `call` is its struct: a gyre_call, the arguments, and room for the plan. */
typedef struct gyre_call_steps {
    gyre_call_struct args, gradients; /* name NULL = read before */
    void (*set_defaults)(void *call); /* of the arguments; NULL = none */
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
    void (*run_gradient)(void *call, char *scratch, const gyre_exec *exec); /* GYRE_CALL_GRADIENT; NULL = run does both */
} gyre_call_steps;

/* The call of a kind of attention that has a gyre_KIND_args, _gradients and _plan, and the functions of its steps. */
#define GYRE_CALL_KIND(kind)                                                                                                \
    typedef struct gyre_##kind##_call {                                                                                     \
        gyre_call common;                                                                                                   \
        gyre_##kind##_args args;                                                                                            \
        gyre_##kind##_gradients gradients;                                                                                  \
        gyre_##kind##_plan plan;                                                                                            \
    } gyre_##kind##_call;                                                                                                   \
    void gyre_##kind##_set_defaults(void *call);                                                                            \
    gyre_status gyre_##kind##_check_shapes(const void *call, gyre_error *err);                                              \
    gyre_status gyre_##kind##_check(const void *call, gyre_error *err);                                                     \
    int gyre_##kind##_is_empty(const void *call);                                                                           \
    gyre_status gyre_##kind##_plan_make(void *call, const gyre_exec *exec, size_t *bytes);                                  \
    void gyre_##kind##_run(void *call, char *scratch, const gyre_exec *exec);                                               \
    void gyre_##kind##_gradient_run(void *call, char *scratch, const gyre_exec *exec);                                      \
    extern const gyre_call_steps gyre_##kind##_steps
#define GYRE_CALL_STRUCT(kind, name)                                                                                        \
    { offsetof(gyre_##kind##_call, name), sizeof(gyre_##kind##_##name), "gyre_" #kind "_" #name }
#define GYRE_CALL_STEPS(kind)                                                                                               \
    {                                                                                                                       \
        GYRE_CALL_STRUCT(kind, args), GYRE_CALL_STRUCT(kind, gradients), gyre_##kind##_set_defaults,                        \
            gyre_##kind##_check_shapes, gyre_##kind##_check, gyre_##kind##_is_empty, gyre_##kind##_plan_make,               \
            gyre_##kind##_run, gyre_##kind##_gradient_run                                                                   \
    }

/* Reads the arguments, and for GYRE_CALL_GRADIENT the gradients.  Errors: EINVAL. */
gyre_status gyre_call_read(const gyre_call_steps *steps, void *call, gyre_error *err);
/* The step `plan`, and its message. */
gyre_status gyre_call_plan(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* *bytes = scratch that a call needs.  EINVAL: bytes is NULL. */
gyre_status gyre_call_bytes(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* All of a call but its run: reads, checks and plans.  *bytes = the scratch that `run` needs; 0 = there is nothing to
 * write. */
gyre_status gyre_call_prepare(const gyre_call_steps *steps, void *call, const gyre_exec *exec, size_t *bytes,
                              gyre_error *err);
/* The whole of a call: prepares it where the caller has its struct, and runs it. */
gyre_status gyre_call_perform(const gyre_call_steps *steps, void *call, gyre_scratch scratch, const gyre_exec *exec,
                              gyre_error *err);

#endif

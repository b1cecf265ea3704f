/* threads_and_memory.c: threads of the library, a parallel loop and an allocator of the caller. */
#include "example.h"

enum { TOKENS = 512, HEADS = 8, DIM = 64 };

static float x[TOKENS][HEADS][DIM], alone[TOKENS][HEADS][DIM], out[TOKENS][HEADS][DIM];

static void rotate(const gyre_encoding *rope, void *to, const gyre_exec *exec) {
    const gyre_positions from_zero = {0};
    gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
    args.positions = &from_zero;
    args.in = gyre_cdense(x, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    args.out = gyre_dense(to, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    check(gyre_rotate(rope, &args, exec, &err));
}

static void use_pool(const gyre_encoding *rope) {
    /* [gyre_pool_create gyre_pool_exec gyre_pool_free] */
    gyre_pool *pool = NULL;
    check(gyre_pool_create(&pool, 4, &err)); /* 0 = one thread per processor */
    const gyre_exec exec = gyre_pool_exec(pool);
    rotate(rope, out, &exec);                    /* gyre_rotate, or any other call that takes a gyre_exec */
    expect(memcmp(out, alone, sizeof out) == 0); /* the same bits as with one thread */
    gyre_pool_free(pool);
    /* [end] */
}

/* An engine that has threads of its own gives its parallel loop instead; this one runs the parts one by one. */
static void run(void *ctx, void (*part)(void *arg, int64_t i), void *arg, int64_t n) {
    *(int64_t *)ctx += n;
    for (int64_t i = 0; i < n; i++)
        part(arg, i);
}

static void use_own_loop(const gyre_encoding *rope) {
    int64_t parts = 0;
    const gyre_exec exec = {.run = run, .ctx = &parts, .concurrency = 1};
    memset(out, 0, sizeof out);
    rotate(rope, out, &exec);
    expect(memcmp(out, alone, sizeof out) == 0);
}

/* An arena: one block, handed out from front to back and given back as a whole. */
typedef struct arena {
    char *next, *end;
} arena;
static void *arena_alloc(void *ctx, size_t bytes, size_t align) {
    arena *a = ctx;
    char *memory = a->next + (align - (uintptr_t)a->next % align) % align;
    if (memory > a->end || bytes > (size_t)(a->end - memory)) return NULL;
    a->next = memory + bytes;
    return memory;
}
static void arena_free(void *ctx, void *memory) {
    (void)ctx, (void)memory;
}

/* [gyre_encoding_create] */
static gyre_encoding *create_in(arena *a, const gyre_config *config) {
    /* void *arena_alloc(void *ctx, size_t bytes, size_t align) returns NULL when the arena is full: GYRE_ENOMEM. */
    const gyre_alloc alloc = {.alloc = arena_alloc, .free = arena_free, .ctx = a};
    gyre_encoding *encoding = NULL;
    check(gyre_encoding_create(&encoding, config, &alloc, &err));
    return encoding;
}
/* [end] */

int main(void) {
    static char memory[1 << 16];
    arena own = {memory, memory + sizeof memory};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    gyre_encoding *rope = create_in(&own, &config);
    fill(&x[0][0][0], TOKENS * HEADS * DIM, 1);
    rotate(rope, alone, NULL);
    use_pool(rope);
    use_own_loop(rope);
    expect(own.next > memory);
    gyre_encoding_free(rope);
    return 0;
}

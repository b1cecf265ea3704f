/* bench_attention_memory.c: what a long prefill needs beyond its queries, keys, values and outputs. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS; NOLINT(bugprone-reserved-identifier): the system asks for it */
#include "tools/bench/bench_attention.h"

#include <sys/mman.h>

enum { FIRST_TOKENS = 64 };

/* The call that a child of this process makes. */
typedef struct memory_job {
    attn_memory *about;
    attn_call call;
    gyre_pool *pool;
    gyre_exec exec;
} memory_job;

/* Pages that nobody touched. */
static void *map_untouched_pages(size_t bytes) {
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    return memory == MAP_FAILED ? NULL : memory;
}

static int run_shortened(const memory_job *job) {
    attn_call little = job->call;
    gyre_attention_args *args = &little.args;
    args->q.shape[1] = args->k.shape[1] = args->v.shape[1] = args->out.shape[1] = FIRST_TOKENS;
    little.bytes = attn_scratch_bytes(&little, &job->exec);
    little.scratch = map_untouched_pages(little.bytes);
    const int failed = !little.scratch || attn_run(&little, &job->exec) != GYRE_OK;
    if (little.scratch) munmap(little.scratch, little.bytes);
    return failed;
}

/* Threads and code are there before; the scratch has an address, but no page yet. */
static int prepare(void *arg) {
    memory_job *job = arg;
    if (gyre_pool_create(&job->pool, (int)job->about->threads, NULL)) return 1;
    job->exec = gyre_pool_exec(job->pool);
    if (run_shortened(job)) return 1;
    job->call.bytes = attn_scratch_bytes(&job->call, &job->exec);
    job->call.scratch = map_untouched_pages(job->call.bytes);
    return !job->call.scratch;
}
static int work(void *arg) {
    const memory_job *job = arg;
    return attn_run((void *)&job->call, &job->exec) != GYRE_OK;
}

static void run_nothing(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx, (void)fn, (void)arg, (void)n;
}

gyre_status attn_measure_memory(attn_memory *m, int peak, gyre_error *err) {
    static float nothing[16];
    const gyre_exec exec = {run_nothing, NULL, m->threads}; /* scratch asks for its width alone */
    attn_data data = {.queries = m->tokens,
                      .keys = m->tokens,
                      .heads = m->heads,
                      .key_heads = m->key_heads,
                      .q_dtype = GYRE_DTYPE_F32,
                      .dtype = GYRE_DTYPE_F32};
    memory_job job = {.about = m};
    gyre_status status = peak ? attn_data_create(&data, 0, err) : GYRE_OK;
    if (status) return status;
    if (!peak) data.q = data.k = data.v = data.out = nothing; /* only shapes matter */
    attn_call_init_args(&job.call, &data);
    m->scratch = (int64_t)attn_scratch_bytes(&job.call, &exec);
    m->peak = peak ? bench_peak_rss_growth(prepare, work, &job) : -1;
    if (peak) attn_data_free(&data);
    return m->scratch ? GYRE_OK : gyre_fail(err, GYRE_EINVAL, "attention: this library does not take the call (gyre bench)");
}

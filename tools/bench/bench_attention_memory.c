/* bench_attention_memory.c: the memory of a long prefill beyond its queries, keys, values and outputs. */
#include "tools/bench/bench_attention.h"

#include <sys/mman.h>

enum { FIRST_TOKENS = 64 };

/* The call that the child process makes. */
typedef struct memory_job {
    attn_memory *about;
    attn_call call;
    gyre_pool *pool;
    gyre_exec exec;
} memory_job;

static int run_shortened(const memory_job *job) {
    attn_call shortened = job->call;
    gyre_attention_args *args = &shortened.args;
    args->q.shape[1] = args->k.shape[1] = args->v.shape[1] = args->out.shape[1] = FIRST_TOKENS;
    shortened.bytes = attn_scratch_bytes(&shortened, &job->exec);
    shortened.scratch = bench_map_untouched(shortened.bytes);
    const int failed = !shortened.scratch || attn_run(&shortened, &job->exec);
    if (shortened.scratch) munmap(shortened.scratch, shortened.bytes);
    return failed;
}

/* Creates the threads and touches the code.  Maps the scratch without touching its pages. */
static int prepare(void *arg) {
    memory_job *job = arg;
    if (gyre_pool_create(&job->pool, (int)job->about->threads, NULL)) return 1;
    job->exec = gyre_pool_exec(job->pool);
    if (run_shortened(job)) return 1;
    job->call.bytes = attn_scratch_bytes(&job->call, &job->exec);
    job->call.scratch = bench_map_untouched(job->call.bytes);
    return !job->call.scratch;
}
static int work(void *arg) {
    const memory_job *job = arg;
    return !!attn_run((void *)&job->call, &job->exec);
}

static void run_nothing(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx, (void)fn, (void)arg, (void)n;
}

gyre_status attn_measure_memory(attn_memory *m, int peak, gyre_error *err) {
    static float nothing[16];
    const gyre_exec exec = {run_nothing, NULL, m->threads}; /* computing the scratch only uses its concurrency */
    attn_data data = {.queries = m->tokens,
                      .keys = m->tokens,
                      .heads = m->heads,
                      .key_heads = m->key_heads,
                      .q_dtype = GYRE_DTYPE_F32,
                      .dtype = GYRE_DTYPE_F32};
    memory_job job = {.about = m};
    gyre_status status = peak ? attn_data_create(&data, 0, err) : GYRE_OK;
    if (status) return status;
    if (!peak) data.q = data.k = data.v = data.out = nothing; /* only the shapes are used */
    attn_call_init_args(&job.call, &data);
    m->scratch = (int64_t)attn_scratch_bytes(&job.call, &exec);
    m->peak = peak ? bench_peak_rss_growth(prepare, work, &job) : -1;
    if (peak) attn_data_free(&data);
    return m->scratch ? GYRE_OK : gyre_fail(err, GYRE_EINVAL, "attention: this library does not take the call (gyre bench)");
}

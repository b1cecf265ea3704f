/* bench_cache.c: gyre bench cache: the time of each cache call, compared with attention of one query over the same
 * tokens. */
#include "gyre/gyre_cache.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_in_place.h"
#include "tools/cli/temporary_folder.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 8, QUERY_HEADS = 32, HEAD_DIM = 128, TOKENS = 4096, PAGE = 16, SINKS = 4, SHIFTED_TOKENS = 3000 };
enum { REPETITIONS = 64, DECODES = 4, ALIGNMENT = 64 };
/* A ragged batch: a piece of a prompt, then single tokens, of 4096 tokens each. */
enum { RAGGED = 16, PROMPT = 16, MOST_QUERIES = PROMPT + RAGGED - 1, MOST_SLICES = 64 };

/* Sequence 0 has TOKENS tokens before each measurement. */
typedef struct cache_bench {
    gyre_cache *cache;
    gyre_encoding *encoding[2]; /* the cache is switched to the second and back */
    float *q, *k, *v, *out;
    void *scratch;
    size_t scratch_bytes, slice_bytes; /* slice: of one of the slices, which share the scratch */
    const gyre_exec *exec;
    gyre_order order; /* of attention */
    temporary_folder folder;
    char path[2048 + 16]; /* of the saved cache, there */
} cache_bench;

/* -- the calls: out = seconds of one call; negative if it failed -- */

static gyre_status append(cache_bench *b, int64_t tokens) {
    const gyre_cview k = gyre_cdense(b->k, GYRE_DTYPE_F32, 1, tokens, HEADS, HEAD_DIM),
                     v = gyre_cdense(b->v, GYRE_DTYPE_F32, 1, tokens, HEADS, HEAD_DIM);
    const gyre_positions at = {.base = gyre_cache_tokens(b->cache, 0)};
    return gyre_cache_append(b->cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .v = v, .positions = &at), b->exec, NULL);
}

static double time_prompt(cache_bench *b) {
    if (gyre_cache_remove(b->cache, (gyre_cache_range){0, 0, TOKENS}, NULL)) return -1;
    const double started = cli_seconds();
    return append(b, TOKENS) ? -1 : cli_seconds() - started;
}

static double time_append(cache_bench *b) {
    const double started = cli_seconds();
    for (int i = 0; i < REPETITIONS; i++)
        if (append(b, 1)) return -1;
    return (cli_seconds() - started) / REPETITIONS;
}

static double time_fork(cache_bench *b) {
    const double started = cli_seconds();
    return gyre_cache_fork(b->cache, 0, 1, NULL) ? -1 : cli_seconds() - started;
}

static double time_shift(cache_bench *b) {
    const double started = cli_seconds();
    for (int i = 0; i < REPETITIONS; i++) {
        const int64_t delta[GYRE_MAX_AXES] = {i % 2 ? -1 : 1};
        if (gyre_cache_shift(b->cache, (gyre_cache_range){0, TOKENS - SHIFTED_TOKENS, SHIFTED_TOKENS}, delta, NULL))
            return -1;
    }
    return (cli_seconds() - started) / REPETITIONS;
}

static double time_drop(cache_bench *b) {
    const double started = cli_seconds();
    for (int i = 0; i < REPETITIONS; i++)
        if (gyre_cache_remove(b->cache, (gyre_cache_range){0, SINKS, 1}, NULL)) return -1;
    return (cli_seconds() - started) / REPETITIONS;
}

static double time_slide(cache_bench *b) {
    double all = 0;
    for (int i = 0; i < REPETITIONS; i++) {
        if (append(b, 1)) return -1;
        const double started = cli_seconds();
        if (gyre_cache_slide(b->cache, 0, SINKS, TOKENS, NULL, NULL)) return -1;
        all += cli_seconds() - started;
    }
    return all / REPETITIONS;
}

static double time_replan(cache_bench *b) {
    const int other = gyre_cache_get_config(b->cache)->encoding == b->encoding[0];
    const double started = cli_seconds();
    return gyre_cache_set_encoding(b->cache, b->encoding[other], 0, b->exec, NULL) ? -1 : cli_seconds() - started;
}

static double time_save(cache_bench *b) {
    const double started = cli_seconds();
    return gyre_cache_save(b->cache, b->path, NULL) ? -1 : cli_seconds() - started;
}

static double time_load(cache_bench *b) {
    gyre_cache *loaded = NULL;
    if (gyre_cache_save(b->cache, b->path, NULL)) return -1;
    const double started = cli_seconds();
    const gyre_status status = gyre_cache_load(&loaded, b->path, gyre_cache_get_config(b->cache)->encoding, NULL, NULL);
    const double seconds = cli_seconds() - started;
    gyre_cache_free(loaded);
    return status ? -1 : seconds;
}

static gyre_attention_args query(const cache_bench *b) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(b->q, GYRE_DTYPE_F32, 1, 1, QUERY_HEADS, HEAD_DIM);
    args.out = gyre_dense(b->out, GYRE_DTYPE_F32, 1, 1, QUERY_HEADS, HEAD_DIM);
    args.q_pos.base = TOKENS - 1;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.order = b->order;
    return args;
}

static gyre_status attend(cache_bench *b) {
    const gyre_attention_args args = query(b);
    const int64_t sequence = 0;
    return gyre_cache_attention(b->cache, &sequence, &args, (gyre_scratch){b->scratch, b->scratch_bytes}, b->exec, NULL);
}

static double time_decode(cache_bench *b) {
    const double started = cli_seconds();
    for (int i = 0; i < DECODES; i++)
        if (attend(b)) return -1;
    return (cli_seconds() - started) / DECODES;
}

static double time_decode_fixed(cache_bench *b) {
    b->order = GYRE_ORDER_FIXED;
    const double seconds = time_decode(b);
    b->order = GYRE_ORDER_FAST;
    return seconds;
}

/* The shifted tokens overlap the earlier ones, as after a part of a prompt was removed. */
static double time_decode_shifted(cache_bench *b) {
    const int64_t delta[GYRE_MAX_AXES] = {-500};
    return gyre_cache_shift(b->cache, (gyre_cache_range){0, TOKENS - SHIFTED_TOKENS, SHIFTED_TOKENS}, delta, NULL)
               ? -1
               : time_decode(b);
}

/* -- a ragged batch, and slices -- */

typedef struct ragged_call {
    int64_t starts[RAGGED + 1], sequences[RAGGED];
    gyre_attention_batch batch;
    gyre_attention_args args;
} ragged_call;

static void take_ragged(const cache_bench *b, ragged_call *c) {
    *c = (ragged_call){.batch = GYRE_INIT(gyre_attention_batch), .args = query(b)};
    for (int s = 0; s < RAGGED; s++)
        c->starts[s + 1] = PROMPT + s;
    c->batch.q_starts = c->starts, c->batch.sequences = RAGGED;
    c->args.batch = &c->batch;
    c->args.q.shape[1] = c->args.out.shape[1] = MOST_QUERIES;
    c->args.q_pos.base = 0; /* the last tokens */
}

/* The batch in one call, and a call for each sequence. */
static double time_ragged(cache_bench *b) {
    ragged_call c;
    take_ragged(b, &c);
    const double started = cli_seconds();
    return gyre_cache_attention(b->cache, c.sequences, &c.args, (gyre_scratch){b->scratch, b->scratch_bytes}, b->exec, NULL)
               ? -1
               : cli_seconds() - started;
}

static double time_ragged_apart(cache_bench *b) {
    ragged_call c;
    take_ragged(b, &c);
    const double started = cli_seconds();
    for (int s = 0; s < RAGGED; s++) {
        gyre_attention_args args = c.args;
        args.batch = NULL;
        args.q.shape[1] = args.out.shape[1] = c.starts[s + 1] - c.starts[s];
        args.q.data = b->q + c.starts[s] * QUERY_HEADS * HEAD_DIM;
        args.out.data = b->out + c.starts[s] * QUERY_HEADS * HEAD_DIM;
        if (gyre_cache_attention(b->cache, c.sequences, &args, (gyre_scratch){b->scratch, b->scratch_bytes}, b->exec, NULL))
            return -1;
    }
    return cli_seconds() - started;
}

/* A call over arrays in as many slices as there are threads, each with its part of the scratch. */
typedef struct sliced_call {
    gyre_attention_args args;
    char *scratch;
    size_t each;
    int64_t count;
    gyre_status status[MOST_SLICES];
} sliced_call;

static gyre_attention_args query_of_arrays(const cache_bench *b) {
    gyre_attention_args args = query(b);
    args.k = gyre_cdense(b->k, GYRE_DTYPE_F32, 1, TOKENS, HEADS, HEAD_DIM);
    args.v = gyre_cdense(b->v, GYRE_DTYPE_F32, 1, TOKENS, HEADS, HEAD_DIM);
    return args;
}

static void run_slice(void *arg, int64_t i) {
    sliced_call *c = arg;
    c->status[i] = gyre_attention_slice(&c->args, (gyre_slice){i, c->count},
                                        (gyre_scratch){c->scratch + (size_t)i * c->each, c->each}, NULL);
}

static int64_t slices_of(const cache_bench *b) {
    const int64_t threads = b->exec && b->exec->run ? b->exec->concurrency : 1;
    return threads < MOST_SLICES ? threads : MOST_SLICES;
}

static double time_slices(cache_bench *b) {
    sliced_call c = {.args = query_of_arrays(b), .scratch = b->scratch, .each = b->slice_bytes, .count = slices_of(b)};
    const double started = cli_seconds();
    for (int i = 0; i < DECODES; i++) {
        if (c.count > 1)
            b->exec->run(b->exec->ctx, run_slice, &c, c.count);
        else
            run_slice(&c, 0);
        for (int64_t s = 0; s < c.count; s++)
            if (c.status[s]) return -1;
    }
    return (cli_seconds() - started) / DECODES;
}

static double time_arrays(cache_bench *b) {
    const gyre_attention_args args = query_of_arrays(b);
    const double started = cli_seconds();
    for (int i = 0; i < DECODES; i++)
        if (gyre_attention(&args, (gyre_scratch){b->scratch, b->scratch_bytes}, b->exec, NULL)) return -1;
    return (cli_seconds() - started) / DECODES;
}

static const struct {
    const char *name;
    double (*time)(cache_bench *b);
} CALLS[] = {{"append 4096", time_prompt},
             {"append 1", time_append},
             {"fork", time_fork},
             {"shift 3000", time_shift},
             {"drop 1", time_drop},
             {"slide by 1", time_slide},
             {"replan", time_replan},
             {"save", time_save},
             {"load", time_load},
             {"decode", time_decode},
             {"decode fixed", time_decode_fixed},
             {"decode shifted", time_decode_shifted},
             {"ragged 16", time_ragged},
             {"ragged apart", time_ragged_apart},
             {"decode arrays", time_arrays},
             {"decode sliced", time_slices}};
enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS };

/* -- the cache -- */

/* out = in (0, 1). */
static double uniform(uint64_t *seed) {
    return bench_random(seed) + 0x1p-25;
}

/* out = `count` normally distributed numbers (Box-Muller); NULL = out of memory. */
static float *alloc_random(int64_t count, uint64_t seed) {
    float *out = malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; out && i < count; i++) {
        const double size = sqrt(-2 * log(uniform(&seed)));
        out[i] = (float)(size * cos(6.283185307179586 * uniform(&seed)));
    }
    return out;
}

static void close_bench(cache_bench *b) {
    temporary_folder_remove(&b->folder);
    gyre_cache_free(b->cache);
    for (int i = 0; i < 2; i++)
        gyre_encoding_free(b->encoding[i]);
    free(b->q);
    free(b->k);
    free(b->v);
    free(b->out);
    free(b->scratch);
}

static gyre_status open_cache(cache_bench *b, gyre_dtype type, gyre_error *err) {
    gyre_config rope = GYRE_INIT(gyre_config);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_status status = GYRE_OK;
    rope.kind = gyre_kind_find("rope");
    rope.head_dim = rope.rope.dim = HEAD_DIM;
    for (int i = 0; i < 2 && !status; i++) {
        rope.rope.base = i ? 500000 : 10000;
        status = gyre_encoding_create(&b->encoding[i], &rope, NULL, err);
    }
    config.encoding = b->encoding[0];
    config.keys = GYRE_CACHE_KEYS_ROTATED;
    config.key_dtype = config.value_dtype = type;
    config.heads = HEADS;
    config.head_dim = HEAD_DIM;
    config.sequences = 2;
    config.max_tokens = 2 * TOKENS;
    config.page_tokens = PAGE;
    return status ? status : gyre_cache_create(&b->cache, &config, NULL, err);
}

/* What a ragged batch, arrays and their slices need. */
static gyre_status measure_other_scratch(cache_bench *b, gyre_error *err) {
    const gyre_attention_args arrays = query_of_arrays(b);
    ragged_call ragged;
    size_t bytes = 0;
    take_ragged(b, &ragged);
    gyre_status status = gyre_cache_attention_scratch(b->cache, NULL, &ragged.args, b->exec, &b->scratch_bytes, err);
    if (!status) status = gyre_attention_scratch(&arrays, 0, b->exec, &bytes, err);
    if (bytes > b->scratch_bytes) b->scratch_bytes = bytes;
    if (!status) status = gyre_attention_scratch(&arrays, 0, NULL, &b->slice_bytes, err);
    b->slice_bytes = (b->slice_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t slices = (size_t)slices_of(b) * b->slice_bytes;
    if (slices > b->scratch_bytes) b->scratch_bytes = slices;
    return status;
}

static gyre_status open_bench(cache_bench *b, gyre_dtype type, gyre_error *err) {
    const gyre_status status = open_cache(b, type, err);
    if (status) return status;
    b->q = alloc_random(MOST_QUERIES * QUERY_HEADS * HEAD_DIM, 1);
    b->k = alloc_random((int64_t)TOKENS * HEADS * HEAD_DIM, 2);
    b->v = alloc_random((int64_t)TOKENS * HEADS * HEAD_DIM, 3);
    b->out = alloc_random(MOST_QUERIES * QUERY_HEADS * HEAD_DIM, 4);
    const gyre_status other = measure_other_scratch(b, err);
    if (other) return other;
    for (int order = GYRE_ORDER_FAST; order <= GYRE_ORDER_FIXED; order++) {
        gyre_attention_args args = query(b);
        args.order = (gyre_order)order;
        size_t bytes = 0;
        const gyre_status measured = gyre_cache_attention_scratch(b->cache, NULL, &args, b->exec, &bytes, err);
        if (measured) return measured;
        b->scratch_bytes = bytes > b->scratch_bytes ? bytes : b->scratch_bytes;
    }
    b->scratch = aligned_alloc(ALIGNMENT, (b->scratch_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!b->q || !b->k || !b->v || !b->out || !b->scratch)
        return gyre_fail(err, GYRE_ENOMEM, "cache: out of memory (gyre bench)");
    const gyre_status made = temporary_folder_create(&b->folder, "bench", err);
    snprintf(b->path, sizeof b->path, "%s/saved", b->folder.path);
    return made;
}

/* -- rounds -- */

static gyre_status refill(cache_bench *b) {
    for (int64_t i = 0; i < 2; i++)
        if (gyre_cache_remove(b->cache, (gyre_cache_range){i, 0, gyre_cache_tokens(b->cache, i)}, NULL)) return GYRE_EINVAL;
    return append(b, TOKENS);
}

static int print_call(const bench_options *o, const char *name, double seconds, int64_t threads, const bench_quiet *quiet) {
    if (o->common.json)
        return cli_json_line(JSON_OBJECT(
            "bench", JSON("cache"), "call", JSON(name), "threads", JSON(threads), "us", JSON(seconds * 1e6), "quiet_rounds",
            quiet->quiet < 0 ? json_null() : JSON(quiet->quiet), "nops_per_cycle", JSON(quiet->nops)));
    fprintf(cli_stdout(), "  %-15s %10.1f\n", name, seconds * 1e6);
    return 0;
}

static int run_calls(cache_bench *b, double seconds[CALL_COUNT][BENCH_MAX_ROUNDS], int64_t round) {
    for (int i = 0; i < CALL_COUNT; i++) {
        seconds[i][round] = refill(b) ? -1 : CALLS[i].time(b);
        if (seconds[i][round] < 0) return cli_fail("%s: failed (gyre bench cache)", CALLS[i].name);
    }
    return 0;
}

static int measure(const bench_options *o, cache_bench *b, int64_t threads) {
    char text[32];
    static double seconds[CALL_COUNT][BENCH_MAX_ROUNDS];
    int status = 0;
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), o->rounds);
    status = run_calls(b, seconds, 0); /* touches the memory and is not counted */
    while (!status && bench_rounds_next(&rounds)) {
        status = run_calls(b, seconds, rounds.count);
        bench_rounds_end(&rounds);
    }
    const bench_quiet quiet = bench_rounds_quiet(&rounds);
    if (!status && !o->common.json)
        fprintf(cli_stdout(), "%lld threads%9s us, quiet %s\n", (long long)threads, "", bench_quiet_text(&quiet, text));
    for (int i = 0; i < CALL_COUNT && !status; i++)
        status = print_call(o, CALLS[i].name, bench_rounds_median(&rounds, seconds[i]), threads, &quiet);
    return status;
}

static int run(const bench_options *o, const gyre_exec *exec, int64_t threads) {
    gyre_error err = {0, ""};
    cache_bench b = {.exec = exec};
    const gyre_status status = open_bench(&b, GYRE_DTYPE_F16, &err);
    const int out = status ? cli_fail_error(&err) : measure(o, &b, threads);
    close_bench(&b);
    return out;
}

/* -- types -- */

static const gyre_dtype TYPES[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

static int print_type(const bench_options *o, int type, double error) {
    const gyre_dtype dtype = TYPES[type];
    const size_t row = HEAD_DIM * gyre_dtype_size(dtype) + (dtype == GYRE_DTYPE_Q8 ? sizeof(float) : 0);
    if (o->common.json)
        return cli_json_line(JSON_OBJECT("bench", JSON("cache"), "type", JSON(dtype_name(dtype)), "error", JSON(error),
                                         "token_bytes", JSON(2 * HEADS * row)));
    fprintf(cli_stdout(), "  %-15s %10.1e %8zu\n", dtype_name(dtype), error, 2 * HEADS * row);
    return 0;
}

/* Measures the error of attention with keys and values in fewer bits than f32. */
static int measure_types(const bench_options *o) {
    float exact[QUERY_HEADS * HEAD_DIM] = {0}; /* with f32, the first type */
    int out = 0;
    if (!o->common.json) fprintf(cli_stdout(), "type%8s rms error to f32, bytes of a token\n", "");
    for (int i = 0; i < TYPE_COUNT && !out; i++) {
        gyre_error err = {0, ""};
        cache_bench b = {.exec = NULL};
        gyre_status status = open_bench(&b, TYPES[i], &err);
        if (!status && (append(&b, TOKENS) || attend(&b)))
            status = gyre_fail(&err, GYRE_EINVAL, "types: failed (gyre bench)");
        double all = 0, off = 0;
        for (int j = 0; j < QUERY_HEADS * HEAD_DIM && !status; j++) {
            if (i == 0) exact[j] = b.out[j];
            all += (double)exact[j] * (double)exact[j];
            off += ((double)b.out[j] - (double)exact[j]) * ((double)b.out[j] - (double)exact[j]);
        }
        out = status ? cli_fail_error(&err) : print_type(o, i, sqrt(off / all));
        close_bench(&b);
    }
    return out;
}

int bench_cache(const bench_options *o) {
    if (!o->common.json)
        fprintf(cli_stdout(),
                "%d tokens, %d key heads of %d, rotated, f16, pages of %d; medians of the quiet rounds of %lld.\n", TOKENS,
                HEADS, HEAD_DIM, PAGE, (long long)o->rounds);
    const int status = bench_for_threads(o, run);
    return status ? status : measure_types(o);
}

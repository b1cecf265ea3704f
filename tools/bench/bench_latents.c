/* bench_latents.c: gyre bench latents: decoding over a cache of latents (multi-head latent attention, absorbed) against
 * reading each latent once, the arithmetic peak, and the plain form over a cache of the keys and values of every head. */
#include "gyre/gyre_cache.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_in_place.h"
#include "tools/bench/bench_only.h"
#include "tools/bench/bench_roofline.h"
#include "tools/options/value_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* DeepSeek-V2 and V3: channels of a latent, of the rotated slice, and of a plain key (with the slice) and value. */
enum { RANK = 512, ROPE = 64, PLAIN_KEY = 192, PLAIN_VALUE = 128, TOKENS = 4096, PIECE = 32, ALIGNMENT = 64 };
enum { LATENT, PLAIN, FORMS };

/* -- cases -- */

typedef struct latent_case {
    char name[32];
    int64_t heads; /* of queries: DeepSeek-V2-Lite, DeepSeek-V3 */
    gyre_dtype dtype;
} latent_case;

static const int64_t HEADS[] = {16, 128};
static const gyre_dtype TYPES[] = {GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
enum { CASES = 6 };

static void list_cases(latent_case cases[CASES]) {
    for (int i = 0; i < CASES; i++) {
        latent_case *c = &cases[i];
        c->heads = HEADS[i / 3];
        c->dtype = TYPES[i % 3];
        snprintf(c->name, sizeof c->name, "decode-%lldh-%s", (long long)c->heads, dtype_name(c->dtype));
    }
}

/* -- one form -- */

typedef struct form {
    gyre_encoding *encoding;
    gyre_cache *cache;
    float *q, *out;
    void *scratch;
    size_t bytes; /* of scratch */
    gyre_attention_args args;
    size_t token_bytes; /* of keys and values, without bookkeeping */
    double flops;       /* of a call */
} form;

static const int64_t sequence = 0;

static gyre_status run_form(void *arg, const gyre_exec *exec) {
    const form *f = arg;
    return gyre_cache_attention(f->cache, &sequence, &f->args, (gyre_scratch){f->scratch, f->bytes}, exec, NULL);
}

static float *alloc_random(int64_t count, uint64_t seed) {
    float *out = bench_alloc_huge((size_t)count * sizeof *out);
    for (int64_t i = 0; out && i < count; i++)
        out[i] = -1 + 2 * (float)bench_random(&seed);
    return out;
}

static void form_close(form *f) {
    gyre_cache_free(f->cache);
    gyre_encoding_free(f->encoding);
    free(f->q);
    free(f->out);
    free(f->scratch);
}

static gyre_cache_config config_of(const latent_case *c, int which) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.keys = GYRE_CACHE_KEYS_ROTATED;
    config.key_dtype = config.value_dtype = c->dtype;
    config.heads = which == LATENT ? 1 : c->heads;
    config.head_dim = which == LATENT ? RANK + ROPE : PLAIN_KEY;
    config.value_dim = which == LATENT ? RANK : PLAIN_VALUE;
    config.values_in_keys = which == LATENT;
    config.max_tokens = TOKENS;
    return config;
}

static gyre_status append_all(form *f, const gyre_cache_config *config, gyre_error *err) {
    const int64_t k = PIECE * config->heads * config->head_dim, v = PIECE * config->heads * config->value_dim;
    float *numbers = bench_alloc_huge((size_t)(k + v) * sizeof *numbers);
    gyre_status status = numbers ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "keys: out of memory (gyre bench)");
    uint64_t seed = 3;
    for (int64_t first = 0; first < TOKENS && !status; first += PIECE) {
        for (int64_t i = 0; i < k + v; i++)
            numbers[i] = -1 + 2 * (float)bench_random(&seed);
        const gyre_cview keys = gyre_cdense(numbers, GYRE_DTYPE_F32, 1, PIECE, config->heads, config->head_dim),
                         values = gyre_cdense(numbers + k, GYRE_DTYPE_F32, 1, PIECE, config->heads, config->value_dim);
        const gyre_positions at = {.base = first};
        gyre_cache_append_args args = GYRE_INIT(gyre_cache_append_args);
        args.k = keys;
        if (!config->values_in_keys) args.v = values;
        args.positions = &at;
        status = gyre_cache_append(f->cache, &args, NULL, err);
    }
    free(numbers);
    return status;
}

static gyre_status form_open(form *f, const latent_case *c, int which, const gyre_exec *exec, gyre_error *err) {
    gyre_config rope = GYRE_INIT(gyre_config);
    gyre_cache_config config = config_of(c, which);
    rope.kind = gyre_kind_find("rope");
    rope.head_dim = config.head_dim;
    rope.rope.first_channel = config.head_dim - ROPE;
    rope.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    gyre_status status = gyre_encoding_create(&f->encoding, &rope, NULL, err);
    config.encoding = f->encoding;
    if (!status) status = gyre_cache_create(&f->cache, &config, &bench_huge_alloc, err);
    if (!status) status = append_all(f, &config, err);
    if (status) return status;
    f->q = alloc_random(c->heads * config.head_dim, 1);
    f->out = alloc_random(c->heads * config.value_dim, 2);
    f->args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    f->args.q = gyre_cdense(f->q, GYRE_DTYPE_F32, 1, 1, c->heads, config.head_dim);
    f->args.out = gyre_dense(f->out, GYRE_DTYPE_F32, 1, 1, c->heads, config.value_dim);
    f->args.q_pos.base = TOKENS - 1;
    f->args.causal = GYRE_CAUSAL_BY_POSITION;
    f->args.scale = 1 / sqrt(PLAIN_KEY);
    status = gyre_cache_attention_scratch(f->cache, &sequence, &f->args, exec, &f->bytes, err);
    if (status) return status;
    f->scratch = f->bytes ? bench_alloc_huge(f->bytes) : NULL;
    f->token_bytes = gyre_cache_token_bytes(&config) - sizeof(int64_t) - sizeof(int32_t);
    f->flops = 2.0 * (double)c->heads * TOKENS * (double)(config.head_dim + config.value_dim);
    return f->q && f->out && f->scratch ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (gyre bench)", c->name);
}

/* -- measuring -- */

typedef struct latent_result {
    double error, ms, of_read, of_peak, plain_ms, ratio;
    size_t bytes, plain_bytes; /* of a token */
    bench_quiet quiet;
} latent_result;

/* *error = root mean square of out over latents of a type less that over latents of f32, relative to the latter. */
static gyre_status measure_error(const latent_case *c, form *f, const gyre_exec *exec, double *error, gyre_error *err) {
    latent_case exact = *c;
    form wide = {0};
    double off = 0, all = 0;
    exact.dtype = GYRE_DTYPE_F32;
    gyre_status status = form_open(&wide, &exact, LATENT, exec, err);
    if (!status && (run_form(&wide, exec) || run_form(f, exec)))
        status = gyre_fail(err, GYRE_EINVAL, "%s: failed (gyre bench)", c->name);
    for (int64_t i = 0; !status && i < c->heads * RANK; i++) {
        off += ((double)f->out[i] - (double)wide.out[i]) * ((double)f->out[i] - (double)wide.out[i]);
        all += (double)wide.out[i] * (double)wide.out[i];
    }
    *error = sqrt(off / all);
    form_close(&wide);
    return status;
}

enum { RUN_LATENT, RUN_PLAIN, RUN_READ, RUN_PEAK, RUNS };

static void summarise(const bench_series s[RUNS], const form forms[FORMS], const bench_rounds *rounds, latent_result *r) {
    const bench_series *latent = &s[RUN_LATENT], *peak = &s[RUN_PEAK];
    r->quiet = bench_rounds_quiet(rounds);
    r->ms = 1e3 * bench_series_seconds(latent, rounds);
    r->plain_ms = 1e3 * bench_series_seconds(&s[RUN_PLAIN], rounds);
    r->ratio = bench_series_ratio(latent, &s[RUN_PLAIN], rounds);
    r->of_read = bench_series_ratio(&s[RUN_READ], latent, rounds);
    r->of_peak = bench_series_ratio(peak, latent, rounds) * latent->amount / peak->amount;
    r->bytes = forms[LATENT].token_bytes;
    r->plain_bytes = forms[PLAIN].token_bytes;
}

static gyre_status measure(const bench_options *o, const latent_case *c, const gyre_exec *exec, latent_result *r,
                           gyre_error *err) {
    form forms[FORMS] = {{0}};
    bench_series s[RUNS] = {{0}}, *const all[RUNS] = {&s[0], &s[1], &s[2], &s[3]};
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), o->quick ? BENCH_QUICK_ROUNDS : o->rounds);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < FORMS && !status; i++)
        status = form_open(&forms[i], c, i, exec, err);
    if (!status) status = measure_error(c, &forms[LATENT], exec, &r->error, err);
    const int64_t bytes = TOKENS * (int64_t)forms[LATENT].token_bytes;
    void *latents = status ? NULL : bench_alloc_huge((size_t)bytes);
    bench_memory_read read = {latents, bytes};
    if (!status && !latents) status = gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (gyre bench)", c->name);
    if (!status) {
        memset(latents, 1, (size_t)bytes);
        s[RUN_LATENT] = (bench_series){run_form, &forms[LATENT], exec, forms[LATENT].flops, 0, {0}};
        s[RUN_PLAIN] = (bench_series){run_form, &forms[PLAIN], exec, 0, 0, {0}};
        s[RUN_READ] = (bench_series){bench_run_memory_read, &read, exec, (double)bytes, 0, {0}};
        s[RUN_PEAK] = (bench_series){bench_run_fma, NULL, exec, bench_fma_flops(exec), 0, {0}};
        status = bench_run_interleaved(all, RUNS, 0, &rounds, NULL);
        if (status) (void)gyre_fail(err, status, "%s: %s (gyre bench)", c->name, gyre_status_text(status));
    }
    if (!status) summarise(s, forms, &rounds, r);
    free(latents);
    for (int i = 0; i < FORMS; i++)
        form_close(&forms[i]);
    return status;
}

/* -- results -- */

static const bench_column columns[] = {{"name", "case", -16, 0, 0},
                                       {"threads", "threads", 7, 0, 0},
                                       {"ms", "ms", 9, 3, 0},
                                       {"of_read", "of read", 8, 3, 0},
                                       {"of_peak", "of peak", 8, 2, 0},
                                       {"plain_ms", "plain ms", 9, 3, 0},
                                       {"ratio", "ratio", 7, 3, 0},
                                       {"error", "error", 9, BENCH_EXPONENT, 0},
                                       {"token_bytes", "bytes", 7, 0, 0},
                                       {"plain_token_bytes", "plain", 7, 0, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_row(const bench_options *o, const latent_case *c, const latent_result *r, int64_t threads) {
    json_t *row =
        JSON_OBJECT("bench", JSON("latents"), "name", JSON(c->name), "heads", JSON(c->heads), "dtype",
                    JSON(dtype_name(c->dtype)), "tokens", JSON(TOKENS), "threads", JSON(threads), "rounds",
                    JSON(r->quiet.rounds), "token_bytes", JSON(r->bytes), "plain_token_bytes", JSON(r->plain_bytes), "ms",
                    JSON(r->ms), "of_read", JSON(r->of_read), "of_peak", JSON(r->of_peak), "plain_ms", JSON(r->plain_ms),
                    "ratio", JSON(r->ratio), "error", JSON(r->error), "goal", json_null());
    return bench_print_row(o, row, &r->quiet, columns, COLUMNS, NULL);
}

static void print_head(void) {
    cli_page_printf(cli_stdout(),
                    "One token over %d latents of %d + %d channels, for all heads; plain: %d and %d for each head.\n",
                    TOKENS, RANK, ROPE, PLAIN_KEY, PLAIN_VALUE);
    cli_page_printf(
        cli_stdout(),
        "Medians of the quiet rounds. of read: reading the latents once, over the call; of peak: of fused "
        "multiply-adds in registers; ratio: to the plain form; error: of the output, to f32; bytes: of keys and values "
        "of a token. Multiplying queries and outputs by the up-projections is not timed.\n\n");
    bench_print_titles(columns, COLUMNS, NULL);
}

static int run(const bench_options *o, const gyre_exec *exec, int64_t threads) {
    latent_case cases[CASES];
    gyre_error err = {0, ""};
    int failed = 0;
    list_cases(cases);
    for (int i = 0; i < CASES && !failed; i++) {
        latent_result r = {0};
        if (o->only && !bench_only_matches(o->only, cases[i].name)) continue;
        failed = measure(o, &cases[i], exec, &r, &err) ? cli_fail_error(&err) : print_row(o, &cases[i], &r, threads);
    }
    return failed;
}

int bench_latents(const bench_options *o) {
    latent_case cases[CASES];
    const char *names[CASES];
    list_cases(cases);
    for (int i = 0; i < CASES; i++)
        names[i] = cases[i].name;
    bench_only_check(o->only, names, CASES);
    if (!o->common.json) print_head();
    return bench_for_threads(o, run);
}

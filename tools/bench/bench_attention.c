/* bench_attention.c: gyre bench attention: prefill against the arithmetic peak, decoding against the roofline, and the extra
 * cost of positions, gradients and length policies, with all calls interleaved. */
#include "tools/bench/bench_attention.h"

#include "tools/bench/bench_only.h"
#include "tools/bench/bench_roofline.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- cases -- */
typedef struct attn_goal {
    const char *of; /* the number that it is for (bench_goal); NULL = none */
    double value;
} attn_goal;
#define SPEEDUP_GOAL 1.8 /* of two threads */

typedef struct attn_case {
    char name[48];
    const char *kind, *with; /* with: the variant, or NULL */
    gyre_dtype dtype;        /* of keys and values; in a prefill also of queries */
    int64_t n;
    attn_goal goal;
} attn_case;

enum { MAX_CASES = 96, QUICK_TOKENS = 4096, MEMORY_TOKENS = 65536, MEMORY_HEADS = 4, MEMORY_LIMIT = 64 << 20 };

typedef struct case_list {
    attn_case cases[MAX_CASES];
    int count;
} case_list;

static void add_case(case_list *list, const char *kind, int64_t n, gyre_dtype dtype, const char *with, attn_goal goal) {
    attn_case *c = &list->cases[list->count++];
    *c = (attn_case){.kind = kind, .with = with, .dtype = dtype, .n = n, .goal = goal};
    snprintf(c->name, sizeof c->name, "%s-%lld-%s%s%s", kind, (long long)n, dtype_name(dtype), with ? "-" : "",
             with ? with : "");
}

/* Keys rotated when they are appended, and keys rotated each time they are read; then in the fixed order. */
static void add_cached_cases(case_list *list, int64_t n) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    static const char *const keys[] = {"rotated", "raw"};
    for (int k = 0; k < 2; k++)
        for (int t = 0; t < 4; t++) {
            attn_goal goal = {NULL, 0};
            if (types[t] == GYRE_DTYPE_Q8) goal = (attn_goal){"ratio", 0.60};
            if (k == 0 && (types[t] == GYRE_DTYPE_F16 || types[t] == GYRE_DTYPE_BF16))
                goal = (attn_goal){"of_roofline", 0.75};
            add_case(list, "decode", n, types[t], keys[k], goal);
        }
    for (int t = 0; t < 4; t++)
        add_case(list, "decode", n, types[t], "fixed", (attn_goal){NULL, 0});
    add_case(list, "decode", n, GYRE_DTYPE_F16, "raw-fixed", (attn_goal){NULL, 0});
}

static case_list list_all_cases(void) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static const int64_t prefills[] = {512, 2048, 8192}, decodes[] = {4096, 32768};
    static const double of_peak[] = {0.65, 0.75, 0.80};
    static const attn_goal none = {NULL, 0}, roofline = {"of_roofline", 0.60};
    case_list list = {.count = 0};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 3; t++)
            add_case(&list, "prefill", prefills[i], types[t], NULL, t ? none : (attn_goal){"of_peak", of_peak[i]});
    for (int i = 0; i < 3; i++) {
        add_case(&list, "prefill", prefills[i], GYRE_DTYPE_F32, "alibi", (attn_goal){"ratio", 1.05});
        add_case(&list, "prefill", prefills[i], GYRE_DTYPE_F32, "rope", (attn_goal){"ratio", 1.05});
        add_case(&list, "prefill", prefills[i], GYRE_DTYPE_F32, "t5", (attn_goal){"ratio", 1.10});
    }
    for (int i = 0; i < 2; i++) /* 8192 would take minutes */
        add_case(&list, "prefill", prefills[i], GYRE_DTYPE_F32, "fixed", none);
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < 3; t++)
            add_case(&list, "decode", decodes[i], types[t], NULL, t ? roofline : none);
        add_case(&list, "decode", decodes[i], GYRE_DTYPE_F32, "per-head", (attn_goal){"of_read", 0.85});
        add_cached_cases(&list, decodes[i]);
    }
    add_case(&list, "gradient", 2048, GYRE_DTYPE_F32, NULL, (attn_goal){"ratio", 3.6});
    add_case(&list, "policy", 8192, GYRE_DTYPE_F32, "causal", (attn_goal){"ratio", 1.15});
    add_case(&list, "memory", MEMORY_TOKENS, GYRE_DTYPE_F32, NULL, none);
    return list;
}

static int is_chosen(const attn_case *c, const bench_options *o) {
    const char *only = o->only;
    if (o->quick && c->n > QUICK_TOKENS) return 0;
    if (!only) return strcmp(c->kind, "memory") != 0 || o->attention.memory;
    if (o->attention.memory && strcmp(c->kind, "memory") == 0) return 1;
    return bench_only_matches(only, c->name);
}

/* A word that names no case is a usage error. */
static case_list choose_cases(const bench_options *o) {
    const case_list all = list_all_cases();
    case_list chosen = {.count = 0};
    const char *names[MAX_CASES];
    for (int i = 0; i < all.count; i++)
        names[i] = all.cases[i].name;
    bench_only_check(o->only, names, all.count);
    for (int i = 0; i < all.count; i++)
        if (is_chosen(&all.cases[i], o)) chosen.cases[chosen.count++] = all.cases[i];
    if (!chosen.count) cli_usage_error("--only: --quick leaves out all of it");
    return chosen;
}

/* -- a case, ready to run -- */
typedef struct prepared_case {
    attn_data data;
    attn_call call, baseline; /* baseline: what the call is compared with, if has_baseline */
    int has_baseline;
    bench_memory_read memory_read; /* bytes 0: reading memory is not the limit */
    double flops;
} prepared_case;

static gyre_config rope_config(int64_t tokens) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.trained_length = tokens;
    return config;
}

static gyre_config scheme_config(const char *name, int64_t tokens) {
    gyre_config config = rope_config(tokens);
    config.kind = gyre_kind_find(name);
    if (gyre_config_suggest(&config)) abort(); /* no such scheme */
    return config;
}

/* `tokens` is twice the trained length. */
static gyre_config policy_config(int64_t tokens, gyre_length_policy policy) {
    gyre_config config = rope_config(tokens / 2);
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 2;
    config.context_length = tokens;
    config.length_policy = policy;
    return config;
}

static int is_fixed(const attn_case *c) {
    return c->with && strstr(c->with, "fixed");
}

/* out = the call, and its baseline. */
static gyre_status open_pair(prepared_case *s, const gyre_config *const configs[2], const attn_options options[2],
                             const bench_execs *m, gyre_error *err) {
    gyre_status status = attn_call_create(&s->call, configs[0], &options[0], &s->data, m->of, m->count, err);
    if (!status && s->has_baseline)
        status = attn_call_create(&s->baseline, configs[1], &options[1], &s->data, m->of, m->count, err);
    return status;
}

/* The baseline of the fixed order is the fast one, that of q8 otherwise f16. */
static gyre_status open_caches(prepared_case *s, const attn_case *c, const bench_execs *m, gyre_error *err) {
    const gyre_config config = rope_config(c->n);
    const gyre_config *const configs[] = {&config, &config};
    const int fixed = is_fixed(c);
    attn_options options[] = {{.cached = 1, .dtype = c->dtype}, {.cached = 1, .dtype = fixed ? c->dtype : GYRE_DTYPE_F16}};
    options[0].keys = options[1].keys = strncmp(c->with, "raw", 3) == 0 ? GYRE_CACHE_KEYS_RAW : GYRE_CACHE_KEYS_ROTATED;
    if (fixed) options[0].order = GYRE_ORDER_FIXED;
    s->has_baseline = fixed || c->dtype == GYRE_DTYPE_Q8;
    return open_pair(s, configs, options, m, err);
}

static gyre_status open_calls(prepared_case *s, const attn_case *c, const bench_execs *m, gyre_error *err) {
    const int gradient = strcmp(c->kind, "gradient") == 0, policy = strcmp(c->kind, "policy") == 0;
    const int fixed = is_fixed(c), scheme = strcmp(c->kind, "prefill") == 0 && c->with && !fixed;
    const attn_options options[] = {{.gradient = gradient, .order = fixed ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST}, {0}};
    gyre_config config = rope_config(c->n), base = config;
    if (scheme) config = scheme_config(c->with, c->n);
    if (policy) {
        config = policy_config(c->n, GYRE_LENGTH_POLICY_CAUSAL);
        base = policy_config(c->n, GYRE_LENGTH_POLICY_DECLARED);
    }
    const gyre_config *const configs[] = {scheme || policy ? &config : NULL, policy ? &base : NULL};
    s->has_baseline = gradient || policy || scheme || fixed;
    return open_pair(s, configs, options, m, err);
}

static void prepared_case_close(prepared_case *s) {
    attn_call_free(&s->call);
    attn_call_free(&s->baseline);
    attn_data_free(&s->data);
}

static gyre_status prepared_case_open(prepared_case *s, const attn_case *c, const bench_execs *m, gyre_error *err) {
    const int decode = strcmp(c->kind, "decode") == 0, gradient = strcmp(c->kind, "gradient") == 0;
    const int per_head = c->with && strcmp(c->with, "per-head") == 0;
    *s = (prepared_case){.data = {.queries = decode ? 1 : c->n,
                                  .keys = c->n,
                                  .heads = ATTN_HEADS,
                                  .key_heads = per_head ? ATTN_HEADS : ATTN_KV_HEADS,
                                  .q_dtype = decode ? GYRE_DTYPE_F32 : c->dtype,
                                  .dtype = c->dtype}};
    gyre_error why = {0, ""};
    gyre_status status = attn_data_create(&s->data, gradient, err);
    if (status) return status;
    s->flops = attn_flops(&s->data, gradient);
    if (decode) s->memory_read = (bench_memory_read){s->data.k, (int64_t)attn_kv_bytes(&s->data)};
    status = decode && c->with && !per_head ? open_caches(s, c, m, &why) : open_calls(s, c, m, &why);
    if (status) prepared_case_close(s);
    return status ? gyre_fail(err, status, "%s: %s", c->name, why.text) : GYRE_OK;
}

/* -- how far it is -- */
/* out = about how many microseconds the case takes: at 50 GFLOP/s and 10 GB/s on one thread, twice as fast on two, and with
 * the time of filling the memory and of the limits beside it.  What counts is how cases compare. */
static int64_t case_cost(const attn_case *c, int64_t rounds, int execs_count) {
    const int decode = strcmp(c->kind, "decode") == 0, gradient = strcmp(c->kind, "gradient") == 0;
    const attn_data sizes = {
        .queries = decode ? 1 : c->n, .keys = c->n, .heads = ATTN_HEADS, .key_heads = ATTN_KV_HEADS, .dtype = c->dtype};
    const double calls = (execs_count > 1 ? 1.5 : 1) * (c->with || gradient ? 2 : 1);
    const double run = calls * (attn_flops(&sizes, gradient) / 50e3 + attn_kv_bytes(&sizes) / 10e3);
    const double fit = 25e6 / run; /* as in bench_run_interleaved */
    const double fitting = fit < BENCH_QUICK_ROUNDS ? BENCH_QUICK_ROUNDS : fit < (double)rounds ? fit : (double)rounds;
    return (int64_t)(run * (fitting + 1) + 0.5e6);
}

static int64_t cases_cost(const case_list *list, int64_t rounds, int execs_count) {
    int64_t cost = 0;
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->cases[i].kind, "memory") != 0) cost += case_cost(&list->cases[i], rounds, execs_count);
    return cost;
}

/* -- measuring -- */
typedef struct attn_result {
    int64_t threads;
    bench_quiet quiet;
    /* NAN = not applicable.  Ratios are medians over the quiet rounds. */
    double ns, gflops, gbps, of_peak, of_roofline, of_read, base_ns, ratio, speedup;
    double peak_gflops, read_gbps;
} attn_result;

/* The series of one number of threads. */
enum { SERIES_BASELINE, SERIES_CALL, SERIES_PEAK, SERIES_READ, SERIES_COUNT };
typedef struct series_set {
    bench_series of[SERIES_COUNT];
} series_set;

static void set_up_series(series_set *set, prepared_case *s, bench_execs *m, int index) {
    const gyre_exec *exec = &m->of[index];
    const double bytes = (double)s->memory_read.bytes;
    set->of[SERIES_BASELINE] = (bench_series){s->has_baseline ? attn_run : NULL, &s->baseline, exec, 0, 0, {0}};
    set->of[SERIES_CALL] = (bench_series){attn_run, &s->call, exec, s->flops, 0, {0}};
    set->of[SERIES_PEAK] = (bench_series){bench_run_fma, NULL, exec, bench_fma_flops(exec), 0, {0}};
    set->of[SERIES_READ] = (bench_series){bytes > 0 ? bench_run_memory_read : NULL, &s->memory_read, exec, bytes, 0, {0}};
}

/* out = the median over quiet rounds of (minimum time for flops and bytes) / (time of the call). */
static double of_roofline(const series_set *set, const bench_rounds *rounds) {
    double fractions[BENCH_MAX_ROUNDS];
    const bench_series *call = &set->of[SERIES_CALL], *peak = &set->of[SERIES_PEAK], *read = &set->of[SERIES_READ];
    for (int64_t r = 0; r < rounds->count; r++) {
        const double min_seconds = call->amount / peak->amount * peak->seconds[r];
        fractions[r] = (read->run ? fmax(min_seconds, read->seconds[r]) : min_seconds) / call->seconds[r];
    }
    return bench_rounds_median(rounds, fractions);
}

static attn_result summarise(const series_set *set, const series_set *alone, int gradient, int64_t threads,
                             const bench_rounds *rounds) {
    const bench_series *base = &set->of[SERIES_BASELINE], *call = &set->of[SERIES_CALL], *peak = &set->of[SERIES_PEAK],
                       *read = &set->of[SERIES_READ];
    attn_result r = {
        .threads = threads, .quiet = bench_rounds_quiet(rounds), .ns = 1e9 * bench_series_seconds(call, rounds)};
    r.gflops = 1e-9 * bench_series_rate(call, rounds);
    r.peak_gflops = 1e-9 * bench_series_rate(peak, rounds);
    r.of_roofline = of_roofline(set, rounds);
    r.base_ns = base->run ? 1e9 * bench_series_seconds(base, rounds) : NAN;
    r.ratio = base->run ? bench_series_ratio(call, base, rounds) + (gradient ? 1 : 0) : NAN;
    r.of_peak = read->run ? NAN : bench_series_ratio(peak, call, rounds) * call->amount / peak->amount;
    r.read_gbps = read->run ? 1e-9 * bench_series_rate(read, rounds) : NAN;
    r.gbps = read->run ? read->amount / r.ns : NAN;
    r.of_read = read->run ? bench_series_ratio(read, call, rounds) : NAN;
    r.speedup = set != alone ? bench_series_ratio(&alone->of[SERIES_CALL], call, rounds) : NAN;
    return r;
}

static gyre_status measure(const attn_case *c, int64_t limit, bench_execs *m, cli_progress *progress, attn_result *results,
                           gyre_error *err) {
    prepared_case s;
    series_set sets[BENCH_MAX_EXECS];
    bench_series *all[BENCH_MAX_EXECS * SERIES_COUNT];
    int count = 0;
    const bench_part part = {progress, case_cost(c, limit, m->count)};
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), limit);
    gyre_status status = prepared_case_open(&s, c, m, err);
    if (status) return status;
    for (int w = 0; w < m->count; w++) {
        set_up_series(&sets[w], &s, m, w);
        for (int i = 0; i < SERIES_COUNT; i++)
            if (sets[w].of[i].run) all[count++] = &sets[w].of[i];
    }
    status = bench_run_interleaved(all, count, 0, &rounds, &part);
    if (status) (void)gyre_fail(err, status, "%s: %s (gyre bench)", c->name, gyre_status_text(status));
    for (int w = 0; w < m->count && !status; w++)
        results[w] = summarise(&sets[w], &sets[0], s.call.gradient, m->of[w].concurrency, &rounds);
    prepared_case_close(&s);
    return status;
}

/* -- results -- */
/* Goals are set for one thread.  Two threads have a goal for the speedup. */
static attn_goal goal_of(const attn_case *c, const attn_result *r) {
    if (r->threads == 1) return c->goal;
    const int faster = r->threads == 2 && !isnan(r->speedup);
    return faster ? (attn_goal){"speedup", SPEEDUP_GOAL} : (attn_goal){NULL, 0};
}

static const bench_column columns[] = {{"name", "case", -26, 0, 0},     {"threads", "threads", 7, 0, 0},
                                       {"ns", "ms", 10, 3, 1e-6},       {"gflops", "GFLOP/s", 8, 1, 0},
                                       {"of_peak", "of peak", 8, 2, 0}, {"of_roofline", "of roof", 7, 2, 0},
                                       {"gbps", "GB/s", 7, 1, 0},       {"of_read", "of read", 7, 2, 0},
                                       {"ratio", "ratio", 7, 3, 0},     {"speedup", "speedup", 7, 2, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_row(const bench_options *o, const attn_case *c, const attn_result *r) {
    const attn_goal goal = goal_of(c, r);
    char note[80];
    json_t *row =
        JSON_OBJECT("bench", JSON("attention"), "name", JSON(c->name), "case", JSON(c->kind), "dtype",
                    JSON(dtype_name(c->dtype)), "with", JSON(c->with), "n", JSON(c->n), "threads", JSON(r->threads),
                    "rounds", JSON(r->quiet.rounds), "ns", JSON(r->ns), "gflops", JSON(r->gflops), "peak_gflops",
                    JSON(r->peak_gflops), "of_peak", JSON(r->of_peak), "of_roofline", JSON(r->of_roofline), "gbps",
                    JSON(r->gbps), "read_gbps", JSON(r->read_gbps), "of_read", JSON(r->of_read), "base_ns", JSON(r->base_ns),
                    "ratio", JSON(r->ratio), "speedup", JSON(r->speedup), "goal", bench_goal(goal.of, goal.value));
    return bench_print_row(o, row, &r->quiet, columns, COLUMNS, bench_goal_note(row, &r->quiet, note));
}

static void print_head(const bench_execs *m) {
    cli_page_printf(cli_stdout(), "Causal attention, head dim %d, %d query heads, %d key heads; one call at a time%s.\n",
                    ATTN_HEAD_DIM, ATTN_HEADS, ATTN_KV_HEADS, m->count > 1 ? ", on one thread and on two" : "");
    cli_page_printf(
        cli_stdout(),
        "GFLOP/s: of the pairs that are seen; of peak: of fused multiply-adds in registers; of roof: least time of flops "
        "and bytes over the time; of read: rate of keys and values over that of reading them in a loop; ratio: to the call "
        "without (decoding with q8: to f16; fixed: to the fast order; gradient: both over the forward)\n\n");
    bench_print_titles(columns, COLUMNS, "goal");
}

/* -- memory -- */
static int print_memory(const bench_options *o, const attn_memory *m) {
    if (o->common.json)
        return cli_json_line(JSON_OBJECT("bench", JSON("attention"), "case", JSON("memory"), "dtype", JSON("f32"), "n",
                                         JSON(m->tokens), "threads", JSON(m->threads), "heads", JSON(m->heads), "key_heads",
                                         JSON(m->key_heads), "scratch_bytes", JSON(m->scratch), "peak_bytes",
                                         m->peak < 0 ? json_null() : JSON(m->peak), "goal_bytes", JSON(MEMORY_LIMIT)));
    char peak[48] = "";
    if (m->peak >= 0) snprintf(peak, sizeof peak, ", resident memory grew by %.2f MiB", (double)m->peak / 1048576);
    fprintf(cli_stdout(),
            "prefill of %lld tokens, f32, %lld query heads, %lld key heads, %lld thread%s: scratch %.2f MiB%s%s\n",
            (long long)m->tokens, (long long)m->heads, (long long)m->key_heads, (long long)m->threads,
            m->threads == 1 ? "" : "s", (double)m->scratch / 1048576, peak,
            m->scratch > MEMORY_LIMIT || m->peak > MEMORY_LIMIT ? ", above 64 MiB" : "");
    return bench_flush();
}

/* Measures the scratch with all heads, and the growth of the process with fewer heads, which already takes minutes. */
static int measure_memory_case(const bench_options *o, int64_t threads) {
    gyre_error err = {0, ""};
    attn_memory whole = {.tokens = MEMORY_TOKENS, .heads = ATTN_HEADS, .key_heads = ATTN_KV_HEADS, .threads = threads};
    attn_memory fewer_heads = {.tokens = MEMORY_TOKENS, .heads = MEMORY_HEADS, .key_heads = 1, .threads = threads};
    if (attn_measure_memory(&whole, 0, &err) || attn_measure_memory(&fewer_heads, 1, &err)) return cli_fail_error(&err);
    const int failed = print_memory(o, &whole);
    return failed ? failed : print_memory(o, &fewer_heads);
}

/* -- the benchmark -- */
static int run_cases(const bench_options *o, const case_list *list, bench_execs *m) {
    gyre_error err = {0, ""};
    attn_result results[BENCH_MAX_EXECS];
    cli_progress progress;
    int failed = 0, rows = 0;
    int64_t done = 0;
    cli_progress_begin(&progress, "attention", NULL, cases_cost(list, o->rounds, m->count));
    for (int i = 0; i < list->count && !failed; i++) {
        const attn_case *c = &list->cases[i];
        if (strcmp(c->kind, "memory") == 0) continue;
        cli_progress_label(&progress, "%s", c->name);
        if (measure(c, o->rounds, m, &progress, results, &err)) {
            failed = cli_fail_error(&err);
            break;
        }
        cli_progress_set(&progress, done += case_cost(c, o->rounds, m->count));
        cli_progress_mark(&progress);
        cli_progress_erase();
        if (!o->common.json && rows++ == 0) print_head(m);
        for (int w = 0; w < m->count && !failed; w++)
            failed = print_row(o, c, &results[w]);
    }
    cli_progress_end(&progress);
    return failed;
}

int bench_attention(const bench_options *options) {
    bench_options own = *options;
    const bench_options *o = &own;
    if (own.quick && own.attention.memory) cli_usage_error("--memory: contradicts --quick");
    if (own.quick && own.rounds > BENCH_QUICK_ROUNDS) own.rounds = BENCH_QUICK_ROUNDS;
    const case_list list = choose_cases(o);
    const int threads = o->common.threads, execs_count = threads ? 1 : BENCH_MAX_EXECS;
    const int memory = list.count > 0 && strcmp(list.cases[list.count - 1].kind, "memory") == 0;
    gyre_error err = {0, ""};
    bench_execs m;
    int failed = 0;
    for (int i = 0; memory && i < execs_count && !failed; i++) /* while there is one thread */
        failed = measure_memory_case(o, threads ? threads : i + 1);
    if (failed || list.count == memory) return failed;
    if (bench_execs_open(&m, threads, &err)) return cli_fail_error(&err);
    failed = run_cases(o, &list, &m);
    bench_execs_close(&m);
    return failed;
}

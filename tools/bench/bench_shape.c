/* bench_shape.c: gyre bench model --shape: a model of a published shape reads a long text, and the time is split into its
 * matrix products, its attention, the rotation in it, and the rest.
 *
 * The text is read in passes.  After each pass the parts of that pass are run alone, on memory of the same shape: so a slow
 * moment of the machine affects all of them.  Attention is that of one layer, times the layers. */
#include "gyre/gyre_cache.h"
#include "model/ops/float_buffer.h"
#include "model/ops/matrix.h"
#include "tools/bench/bench_roofline.h"
#include "tools/bench/bench_shapes.h"
#include "tools/cli/temporary_folder.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASS = 512, MATRICES = 7 };
enum { QUERY, KEY, VALUE, GATE, UP, OUT, DOWN };

/* -- the parts -- */
typedef struct one_layer_attention {
    gyre_encoding *encoding; /* NULL = without positions */
    gyre_cache *cache;
    void *scratch;
    size_t bytes;
} one_layer_attention;

typedef struct shape_bench {
    const bench_model_shape *shape;
    int64_t parameters;
    const gyre_exec *exec;
    const gyre_kernels *kernels;
    gyre_context *context;
    int32_t *ids;  /* [PASS] */
    float *logits; /* [vocab] */
    int decodes;   /* 1: each pass is taken back, so that the same token is decoded again */
    one_layer_attention rotated, plain;
    unsigned char *weights; /* of all layers, then of the head; f16 */
    int64_t layer_bytes, weight_bytes;
    float *qkv, *norm, *hidden, *out; /* activations of a pass */
    float *gemm_scratch;
} shape_bench;

static int64_t qkv_dim(const bench_model_shape *s) {
    return (s->heads + 2 * s->kv_heads) * s->head_dim;
}

/* The matrices of a layer at `data`. */
static void layer_matrices(const bench_model_shape *s, const unsigned char *data, gyre_matrix out[MATRICES]) {
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, dim = s->model_dim, mlp = s->mlp_dim;
    const int64_t sizes[MATRICES][2] = {{q, dim}, {kv, dim}, {kv, dim}, {mlp, dim}, {mlp, dim}, {dim, q}, {dim, mlp}};
    for (int i = 0; i < MATRICES; i++) {
        out[i] = (gyre_matrix){GYRE_STORED_F16, data, sizes[i][0], sizes[i][1], 2 * sizes[i][1]};
        data += 2 * sizes[i][0] * sizes[i][1];
    }
}

/* The products of a layer; with last set, those of the last layer, which needs one row after attention. */
static void run_layer(const shape_bench *b, int64_t layer, int64_t rows, int last) {
    const bench_model_shape *s = b->shape;
    const int64_t kv = s->kv_heads * s->head_dim, q = s->heads * s->head_dim, width = qkv_dim(s);
    const int64_t wanted = last ? 1 : rows;
    gyre_matrix m[MATRICES];
    layer_matrices(s, b->weights + layer * b->layer_bytes, m);
    const gyre_gemm qkv[] = {{&m[QUERY], NULL, b->norm, b->qkv, rows, s->model_dim, width, 0},
                             {&m[KEY], NULL, b->norm, b->qkv + q, rows, s->model_dim, width, 0},
                             {&m[VALUE], NULL, b->norm, b->qkv + q + kv, rows, s->model_dim, width, 0}};
    const gyre_gemm gate_up[] = {{&m[GATE], NULL, b->norm, b->hidden, wanted, s->model_dim, 2 * s->mlp_dim, 0},
                                 {&m[UP], NULL, b->norm, b->hidden + s->mlp_dim, wanted, s->model_dim, 2 * s->mlp_dim, 0}};
    const gyre_gemm out = {&m[OUT], NULL, b->qkv, b->out, wanted, q, s->model_dim, 1};
    const gyre_gemm down = {&m[DOWN], NULL, b->hidden, b->out, wanted, s->mlp_dim, s->model_dim, 1};
    gyre_gemm_run_many(qkv, 3, b->kernels, b->gemm_scratch, b->exec);
    gyre_gemm_run(&out, b->kernels, b->gemm_scratch, b->exec);
    gyre_gemm_run_many(gate_up, 2, b->kernels, b->gemm_scratch, b->exec);
    gyre_gemm_run(&down, b->kernels, b->gemm_scratch, b->exec);
}

static gyre_matrix head_of(const shape_bench *b) {
    const bench_model_shape *s = b->shape;
    return (gyre_matrix){GYRE_STORED_F16, b->weights + s->layers * b->layer_bytes, s->vocab, s->model_dim, 2 * s->model_dim};
}

static gyre_status run_products(shape_bench *b, int64_t from, int64_t rows) {
    const gyre_matrix head = head_of(b);
    const gyre_gemm logits = {&head, NULL, b->norm, b->logits, 1, b->shape->model_dim, b->shape->vocab, 0};
    (void)from;
    for (int64_t layer = 0; layer < b->shape->layers; layer++)
        run_layer(b, layer, rows, layer + 1 == b->shape->layers);
    gyre_gemm_run(&logits, b->kernels, b->gemm_scratch, b->exec);
    return GYRE_OK;
}

/* -- attention of a layer -- */
static gyre_view heads_at(const shape_bench *b, int64_t first, int64_t heads, int64_t rows) {
    const bench_model_shape *s = b->shape;
    gyre_view view = gyre_dense(b->qkv + first * s->head_dim, GYRE_DTYPE_F32, 1, rows, heads, s->head_dim);
    view.stride[0] = rows * qkv_dim(s);
    view.stride[1] = qkv_dim(s);
    return view;
}

static gyre_attention_args attention_args(const shape_bench *b, int64_t from, int64_t rows) {
    const bench_model_shape *s = b->shape;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_const(heads_at(b, 0, s->heads, rows));
    args.q_pos.base = from;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(b->out, GYRE_DTYPE_F32, 1, rows, s->heads, s->head_dim);
    return args;
}

/* Appends the keys of the pass and attends to all so far, as a layer does. */
static gyre_status run_attention(shape_bench *b, const one_layer_attention *a, int64_t from, int64_t rows) {
    const bench_model_shape *s = b->shape;
    const gyre_attention_args args = attention_args(b, from, rows);
    const gyre_positions at = {.base = from};
    const int64_t sequence = 0;
    gyre_cache_append_args append = GYRE_INIT(gyre_cache_append_args);
    append.k = gyre_const(heads_at(b, s->heads, s->kv_heads, rows));
    append.v = gyre_const(heads_at(b, s->heads + s->kv_heads, s->kv_heads, rows));
    append.positions = &at;
    gyre_status status = gyre_cache_append(a->cache, &append, b->exec, NULL);
    if (!status)
        status = gyre_cache_attention(a->cache, &sequence, &args, (gyre_scratch){a->scratch, a->bytes}, b->exec, NULL);
    if (!status && b->decodes) status = gyre_cache_remove(a->cache, (gyre_cache_range){0, from, 1}, NULL);
    return status;
}
static gyre_status run_rotated(shape_bench *b, int64_t from, int64_t rows) {
    return run_attention(b, &b->rotated, from, rows);
}
static gyre_status run_plain(shape_bench *b, int64_t from, int64_t rows) {
    return run_attention(b, &b->plain, from, rows);
}

/* Fills the encoding's table of angles, as the layers of a model share one. */
static gyre_status fill_angles(const shape_bench *b, const gyre_encoding *encoding, int64_t tokens, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t at = 0; at < tokens && !status; at += PASS) {
        const int64_t rows = tokens - at < PASS ? tokens - at : PASS;
        const gyre_positions positions = {.base = at};
        const gyre_view view = gyre_dense(b->out, GYRE_DTYPE_F32, 1, rows, 1, b->shape->head_dim);
        gyre_rotate_args args = GYRE_INIT(gyre_rotate_args);
        args.positions = &positions;
        args.in = gyre_const(view);
        args.out = view;
        status = gyre_rotate(encoding, &args, b->exec, err);
    }
    return status;
}

static gyre_status attention_open(shape_bench *b, one_layer_attention *a, const char *kind, int64_t tokens,
                                  gyre_error *err) {
    const bench_model_shape *s = b->shape;
    gyre_config position = GYRE_INIT(gyre_config);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_status status = GYRE_OK;
    if (kind) {
        position.kind = gyre_kind_find(kind);
        position.head_dim = s->head_dim;
        position.rope.base = s->base;
        status = gyre_encoding_create(&a->encoding, &position, NULL, err);
        if (!status) status = fill_angles(b, a->encoding, tokens, err);
    }
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.encoding = a->encoding;
    config.heads = s->kv_heads;
    config.head_dim = config.value_dim = s->head_dim;
    config.max_tokens = tokens;
    if (!status) status = gyre_cache_create(&a->cache, &config, NULL, err);
    for (int64_t rows = 1; rows <= PASS && !status; rows += PASS - 1) {
        const gyre_attention_args args = attention_args(b, 0, rows);
        size_t bytes = 0;
        status = gyre_cache_attention_scratch(a->cache, NULL, &args, b->exec, &bytes, err);
        if (bytes > a->bytes) a->bytes = bytes;
    }
    if (status) return status;
    a->scratch = bench_alloc_huge(a->bytes ? a->bytes : 1);
    return a->scratch ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "attention: out of memory (gyre bench model)");
}
static void attention_close(one_layer_attention *a) {
    gyre_cache_free(a->cache);
    gyre_encoding_free(a->encoding);
    free(a->scratch);
}

/* -- the whole -- */
static gyre_status run_whole(shape_bench *b, int64_t from, int64_t rows) {
    gyre_status status = gyre_context_forward(b->context, b->ids, rows, 1, b->logits, NULL);
    if (!status && b->decodes) status = gyre_context_truncate(b->context, from);
    return status;
}

static void shape_bench_close(shape_bench *b) {
    gyre_context_free(b->context);
    attention_close(&b->rotated);
    attention_close(&b->plain);
    free(b->ids);
    free(b->logits);
    free(b->weights);
    free(b->qkv);
    free(b->norm);
    free(b->hidden);
    free(b->out);
    free(b->gemm_scratch);
}

static float *random_floats(int64_t n) {
    uint64_t seed = 1;
    float *out = bench_alloc_huge((size_t)n * sizeof *out);
    for (int64_t i = 0; out && i < n; i++)
        out[i] = (float)(bench_random(&seed) - 0.5);
    return out;
}

/* Weights of random signs and sizes, so that no product is of zeros. */
static unsigned char *random_halves(int64_t bytes) {
    uint64_t seed = 2;
    unsigned char *out = bench_alloc_huge((size_t)bytes);
    for (int64_t i = 0; out && i < bytes; i++) {
        const unsigned byte = (unsigned)(256 * bench_random(&seed));
        out[i] = (unsigned char)(i % 2 ? (byte & 0x83) | 0x20 : byte);
    }
    return out;
}

static gyre_status allocate(shape_bench *b) {
    const bench_model_shape *s = b->shape;
    gyre_matrix m[MATRICES];
    layer_matrices(s, NULL, m);
    int64_t scratch = 0;
    for (int i = 0; i < MATRICES; i++) {
        const int64_t floats = gyre_gemm_scratch(&m[i], PASS, b->exec->concurrency);
        b->layer_bytes += m[i].out * m[i].row_bytes;
        if (floats > scratch) scratch = floats;
    }
    b->weight_bytes = s->layers * b->layer_bytes + 2 * s->vocab * s->model_dim;
    b->weights = random_halves(b->weight_bytes);
    b->ids = malloc(PASS * sizeof *b->ids);
    b->logits = random_floats(s->vocab);
    b->qkv = random_floats(PASS * qkv_dim(s));
    b->norm = random_floats(PASS * s->model_dim);
    b->hidden = random_floats(PASS * 2 * s->mlp_dim);
    b->out = random_floats(PASS * (s->model_dim > s->heads * s->head_dim ? s->model_dim : s->heads * s->head_dim));
    b->gemm_scratch = random_floats(scratch + 16);
    for (int i = 0; b->ids && i < PASS; i++)
        b->ids[i] = (int32_t)(i * 7919 % s->vocab);
    return b->weights && b->ids && b->logits && b->qkv && b->norm && b->hidden && b->out && b->gemm_scratch ? GYRE_OK
                                                                                                            : GYRE_ENOMEM;
}

static gyre_status shape_bench_open(shape_bench *b, const gyre_model *model, const bench_model_shape *shape, int64_t tokens,
                                    const gyre_exec *exec, gyre_error *err) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    *b = (shape_bench){
        .shape = shape, .parameters = gyre_model_parameters(model), .exec = exec, .kernels = gyre_kernels_select()};
    options.max_tokens = tokens + 1;
    options.exec = exec;
    gyre_status status = allocate(b);
    if (status) (void)gyre_fail(err, status, "activations: out of memory (gyre bench model)");
    if (!status) status = gyre_context_create(&b->context, model, &options, err);
    if (!status) status = attention_open(b, &b->rotated, "rope", tokens + 1, err);
    if (!status) status = attention_open(b, &b->plain, NULL, tokens + 1, err);
    return status;
}

/* -- measuring -- */
/* Processor time of all threads, in seconds: on a shared machine the clock counts other programs too. */
typedef struct shape_times {
    double whole, products, attention, plain, peak, read; /* attention and plain: of all layers; peak, read: of a run */
    int64_t peaks;                                        /* runs of the peak, one for each pass */
    bench_quiet quiet;                                    /* passes, or tries to decode */
} shape_times;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static gyre_status time_run(gyre_status (*run)(shape_bench *, int64_t, int64_t), shape_bench *b, int64_t from, int64_t rows,
                            double *seconds) {
    const double before = processor_seconds();
    const gyre_status status = run(b, from, rows);
    *seconds = processor_seconds() - before;
    return status;
}

/* The time of the parts of a pass of `rows` tokens from token `from` on.  The last layer attends with one token. */
static gyre_status time_pass(shape_bench *b, int64_t from, int64_t rows, shape_times *t) {
    const double layers = (double)(b->decodes ? b->shape->layers : b->shape->layers - 1);
    gyre_status status = time_run(run_whole, b, from, rows, &t->whole);
    if (!status) status = time_run(run_products, b, from, rows, &t->products);
    if (!status) status = time_run(run_rotated, b, from, rows, &t->attention);
    if (!status) status = time_run(run_plain, b, from, rows, &t->plain);
    t->attention *= layers;
    t->plain *= layers;
    const double before = processor_seconds();
    if (!status) status = bench_run_fma(NULL, b->exec);
    t->peak = processor_seconds() - before;
    return status;
}

static void add_times(shape_times *sum, const shape_times *t) {
    sum->whole += t->whole;
    sum->products += t->products;
    sum->attention += t->attention;
    sum->plain += t->plain;
    sum->peak += t->peak;
    sum->peaks++;
}

/* Adds up which passes were quiet.  All of them count: a text is read once. */
static void add_quiet(bench_quiet *sum, const bench_quiet *pass) {
    sum->rounds += pass->rounds;
    sum->quiet = pass->quiet < 0 ? -1 : sum->quiet + pass->quiet;
    sum->nops = sum->rounds == 1 ? pass->nops : fmin(sum->nops, pass->nops);
}

/* The least times of several tries to decode a token after `tokens`, and of reading the weights, over quiet tries. */
static gyre_status time_decoding(shape_bench *b, int64_t tries, int64_t tokens, shape_times *least) {
    double whole[BENCH_MAX_ROUNDS], products[BENCH_MAX_ROUNDS], attention[BENCH_MAX_ROUNDS], plain[BENCH_MAX_ROUNDS],
        weights[BENCH_MAX_ROUNDS];
    const bench_memory_read reading = {(const float *)(const void *)b->weights, b->weight_bytes};
    b->decodes = 1;
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), tries);
    while (bench_rounds_next(&rounds)) {
        const int64_t i = rounds.count;
        shape_times t = {0};
        bench_memory_read read = reading;
        const gyre_status status = time_pass(b, tokens, 1, &t);
        if (status) return status;
        const double before = processor_seconds();
        (void)bench_run_memory_read(&read, b->exec);
        weights[i] = processor_seconds() - before;
        whole[i] = t.whole, products[i] = t.products, attention[i] = t.attention, plain[i] = t.plain;
        bench_rounds_end(&rounds);
    }
    *least = (shape_times){.whole = bench_rounds_least(&rounds, whole),
                           .products = bench_rounds_least(&rounds, products),
                           .attention = bench_rounds_least(&rounds, attention),
                           .plain = bench_rounds_least(&rounds, plain),
                           .read = bench_rounds_least(&rounds, weights),
                           .quiet = bench_rounds_quiet(&rounds)};
    b->decodes = 0;
    return GYRE_OK;
}

/* -- results -- */
/* out = floating-point operations of reading the first `tokens` tokens in passes: the last layer computes one row of each
 * after its keys, and the head one. */
static double flops_of(const bench_model_shape *s, int64_t tokens, double passes) {
    const double layers = (double)s->layers, dim = (double)s->model_dim;
    const double qkv = dim * (double)qkv_dim(s), q = (double)(s->heads * s->head_dim);
    const double after = dim * (q + 3 * (double)s->mlp_dim), pairs = (double)tokens * (double)(tokens + 1) / 2;
    const double rows = (double)tokens * (layers - 1) + passes;
    return 2 * (qkv * layers * (double)tokens + after * rows + passes * dim * (double)s->vocab) +
           4 * pairs * q * (layers - 1);
}

static const bench_column columns[] = {{"case", "case", -8, 0, 0},
                                       {"tokens", "tokens", 6, 0, 0},
                                       {"threads", "threads", 7, 0, 0},
                                       {"ns", "ms", 10, 1, 1e-6},
                                       {"tokens_per_s", "tokens/s", 9, 1, 0},
                                       {"rate", "rate", 7, 1, 0},
                                       {"limit", "limit", 7, 1, 0},
                                       {"unit", "in", -8, 0, 0},
                                       {"value", "share", 6, 2, 0},
                                       {"products", "products", 8, 2, 0},
                                       {"attention", "attention", 9, 2, 0},
                                       {"rotation", "rotation", 8, 2, 0},
                                       {"rest", "rest", 6, 2, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* amount, limit: operations or bytes, and those of a second on all threads. */
static int print_times(const bench_options *o, const shape_bench *b, const char *name, int64_t tokens, int64_t read,
                       const shape_times *t, double amount, double limit) {
    const double threads = (double)(b->exec->concurrency > 1 ? b->exec->concurrency : 1), seconds = t->whole / threads;
    const int decodes = read == 1;
    json_t *row = JSON_OBJECT(
        "bench", JSON("model-shape"), "shape", JSON(b->shape->name), "layers", JSON(b->shape->layers), "parameters",
        JSON(b->parameters), "case", JSON(name), "dtype", JSON("f16"), "tokens", JSON(tokens), "threads",
        JSON((int64_t)threads), "rounds", JSON(decodes ? o->rounds : (int64_t)1), "ns", JSON(1e9 * seconds), "tokens_per_s",
        JSON((double)read / seconds), "unit", JSON(decodes ? "GB/s" : "GFLOP/s"), "rate", JSON(1e-9 * amount / seconds),
        "limit", JSON(1e-9 * limit), "value", JSON(amount / seconds / limit), "products", JSON(t->products / t->whole),
        "attention", JSON(t->plain / t->whole), "rotation", JSON((t->attention - t->plain) / t->whole), "rest",
        JSON(1 - (t->products + t->attention) / t->whole));
    return bench_print_row(o, row, &t->quiet, columns, COLUMNS, NULL);
}

static int report_prefill(const bench_options *o, const shape_bench *b, int64_t tokens, const shape_times *t) {
    const double threads = (double)(b->exec->concurrency > 1 ? b->exec->concurrency : 1);
    const double peak = bench_fma_flops(b->exec) * (double)t->peaks / t->peak * threads;
    return print_times(o, b, "prefill", tokens, tokens, t, flops_of(b->shape, tokens, (double)t->peaks), peak);
}

/* Bytes: every weight, and the keys and values of every layer. */
static int report_decoding(const bench_options *o, const shape_bench *b, int64_t tokens, const shape_times *t) {
    const bench_model_shape *s = b->shape;
    const double threads = (double)(b->exec->concurrency > 1 ? b->exec->concurrency : 1);
    const double cached = 8 * (double)tokens * (double)(s->layers * s->kv_heads * s->head_dim);
    return print_times(o, b, "decode", tokens, 1, t, (double)b->weight_bytes + cached,
                       (double)b->weight_bytes / t->read * threads);
}

/* An untimed pass, after which memory has pages. */
static gyre_status warm_up(shape_bench *b, int64_t rows) {
    const one_layer_attention *const attention[] = {&b->rotated, &b->plain};
    shape_times unused = {0};
    gyre_status status = time_pass(b, 0, rows, &unused);
    gyre_context_reset(b->context);
    for (int i = 0; i < 2 && !status; i++)
        status = gyre_cache_remove(attention[i]->cache, (gyre_cache_range){0, 0, rows}, NULL);
    return status;
}

static int measure_lengths(const bench_options *o, shape_bench *b, const int64_t *lengths, int64_t count,
                           cli_progress *progress) {
    shape_times sum = {0};
    int64_t read = 0;
    gyre_status status = warm_up(b, lengths[0] < PASS ? lengths[0] : PASS);
    for (int64_t i = 0; i < count; i++) {
        shape_times decoding = {0};
        while (read < lengths[i] && !status && !cli_interrupted()) {
            const int64_t rows = lengths[i] - read < PASS ? lengths[i] - read : PASS;
            shape_times t = {0};
            bench_rounds pass = bench_rounds_begin(bench_this_core(), 1);
            (void)bench_rounds_next(&pass);
            status = time_pass(b, read, rows, &t);
            bench_rounds_end(&pass);
            t.quiet = bench_rounds_quiet(&pass);
            add_times(&sum, &t);
            add_quiet(&sum.quiet, &t.quiet);
            cli_progress_set(progress, read += rows);
        }
        if (!status && !cli_interrupted()) status = time_decoding(b, o->rounds, read, &decoding);
        cli_progress_erase();
        if (cli_interrupted()) return CLI_FAILED;
        if (status) return cli_fail("%s: %s (gyre bench model)", b->shape->name, gyre_status_text(status));
        int failed = report_prefill(o, b, read, &sum);
        if (!failed) failed = report_decoding(o, b, read, &decoding);
        if (failed) return failed;
    }
    return 0;
}

/* -- the benchmark -- */
static gyre_status open_model(gyre_model **out, const bench_model_shape *shape, gyre_error *err) {
    const gyre_model_config config = bench_shape_config(shape);
    temporary_folder folder;
    char path[2064];
    gyre_model *made = NULL;
    gyre_status status = temporary_folder_create(&folder, "bench", err);
    snprintf(path, sizeof path, "%s/f16", folder.path);
    if (!status) status = gyre_model_create(&made, &config, 1, err);
    if (!status) status = gyre_model_save(made, path, GYRE_DTYPE_F16, err);
    gyre_model_free(made);
    if (!status) status = gyre_model_open(out, path, NULL, err);
    temporary_folder_remove(&folder); /* the files are mapped */
    return status;
}

static void print_head(const shape_bench *b, const gyre_model *model) {
    const bench_model_shape *s = b->shape;
    cli_page_printf(
        cli_stdout(),
        "A llama of the shape %s in f16: %.1fM parameters, %lld layer%s, width %lld, %lld heads on %lld of %lld, "
        "hidden %lld, a vocabulary of %lld, tied.\n",
        s->name, 1e-6 * (double)gyre_model_parameters(model), (long long)s->layers, s->layers == 1 ? "" : "s",
        (long long)s->model_dim, (long long)s->heads, (long long)s->kv_heads, (long long)s->head_dim, (long long)s->mlp_dim,
        (long long)s->vocab);
    cli_page_printf(cli_stdout(),
                    "prefill: the first tokens of a text, in passes of %d; decode: one more token. Processor time, over the "
                    "threads. share: of fused multiply-adds in registers, or of reading the bytes of the weights. The last "
                    "four: shares of the time. Parts are run alone after each pass.\n\n",
                    PASS);
    bench_print_titles(columns, COLUMNS, NULL);
}

static int run_on(const bench_options *o, const bench_model_shape *shape, const gyre_model *model, const gyre_exec *exec,
                  int is_first) {
    static const int64_t usual[] = {2048, 8192, 16384};
    const int64_t *lengths = o->encodings.tokens ? o->encodings.tokens : usual;
    const int64_t count = o->encodings.tokens ? o->encodings.tokens_count : 3, longest = lengths[count - 1];
    gyre_error err = {0, ""};
    cli_progress progress;
    shape_bench b;
    int failed = shape_bench_open(&b, model, shape, longest, exec, &err) ? cli_fail_error(&err) : 0;
    if (!failed && is_first && !o->common.json) print_head(&b, model);
    cli_progress_begin(&progress, shape->name, NULL, longest);
    if (!failed) failed = measure_lengths(o, &b, lengths, count, &progress);
    cli_progress_end(&progress);
    shape_bench_close(&b);
    return failed;
}

int bench_shape_measure(const bench_options *o, const bench_model_shape *shape) {
    gyre_error err = {0, ""};
    gyre_model *model = NULL;
    bench_execs execs = {.count = 0};
    if (o->encodings.tokens) cli_check_rising("--tokens", o->encodings.tokens, o->encodings.tokens_count);
    cli_defer_signals_to_window();
    int failed = open_model(&model, shape, &err) ? cli_fail_error(&err) : cli_interrupted() ? CLI_FAILED : 0;
    if (!failed && bench_execs_open(&execs, o->common.threads, &err)) failed = cli_fail_error(&err);
    for (int i = 0; i < execs.count && !failed; i++)
        failed = run_on(o, shape, model, &execs.of[i], i == 0);
    bench_execs_close(&execs);
    gyre_model_free(model);
    return failed;
}

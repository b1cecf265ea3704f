/* test_accuracy.c: gyre explain --accuracy and gyre diff --accuracy: the errors against the recipes written out here, the
 * position from which scores move against random queries and keys, what caches lose against laws of rounding. */
#include "run_command.h"
#include "tools/explain/explain_accuracy.h"
#include <math.h>

static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32,\n"
                             " \"num_hidden_layers\": 2, \"max_position_embeddings\": %s}\n";

/* Files of `config`, with what stands there in place of its last value.  Heads of 64 channels take half of the work. */
static const struct {
    const char *name, *rest;
} files[] = {
    {"plain.json", "8192, \"rope_theta\": 500000.0, \"torch_dtype\": \"bfloat16\""},
    {"dynamic.json",
     "8192, \"head_dim\": 64, \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}"},
    {"linear.json",
     "8192, \"head_dim\": 64, \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.5}"},
    {"yarn.json",
     "8192, \"head_dim\": 64, \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, "
     "\"original_max_position_embeddings\": 4096, \"truncate\": false}"},
};

/* Models of Gyre's own, with what their layers train or turn by beside plain rotations; why no other program's angles are
 * computed. */
static const struct {
    const char *name, *rest, *reason;
    int gyre_too;     /* Gyre's own rotation does not turn them either */
    int like_another; /* with GYRE_TEST_ALL */
} layers[] = {
    {"own.json", "", NULL, 0, 0},
    {"trained.json", ", \"trained_frequencies\": true", "the frequencies are in the weights", 1, 0},
    {"fope.json", ", \"fourier\": true", "the frequencies are in the weights", 1, 1},
    {"fope-paper.json", ", \"fourier\": true, \"fourier_still\": true", "the frequencies are in the weights", 1, 1},
    {"pope.json", ", \"polar\": true", "it has no such layers", 0, 0},
    {"xpos.json", ", \"rope_xpos_base\": 512.0", "it has no xPos", 0, 0},
    {"rerope.json", ", \"rope_far\": \"clamped\", \"rope_far_window\": 1024", "it has no ReRoPE", 0, 1},
};

/* LongRoPE in a head of 32 channels; with GYRE_TEST_ALL Phi 3.5's, which has three times as many. */
enum { LONG_PAIRS = 16 };
static const char *longrope(void) {
    return test_all() ? GYRE_TEST_DATA "/configs/phi-3.5-mini.json" : "@longrope.json";
}

static void write_longrope(void) {
    char text[2048];
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         "{\"model_type\": \"phi3\", \"hidden_size\": 64, \"num_attention_heads\": 2,\n"
                         " \"num_hidden_layers\": 2, \"max_position_embeddings\": 131072, \"rope_theta\": 10000.0,\n"
                         " \"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": \"longrope\"");
    for (int list = 0; list < 2; list++)
        for (int i = 0; i < LONG_PAIRS; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.2f%s",
                                     i      ? ", "
                                     : list ? ",\n \"long_factor\": ["
                                            : ",\n \"short_factor\": [",
                                     list ? 1.08 + 2.5 * i : 1.0 + 0.02 * i, i + 1 < LONG_PAIRS ? "" : "]");
    used += (size_t)snprintf(text + used, sizeof text - used, "}}\n");
    write_file("longrope.json", text, used);
}

static int write_configs(void **state) {
    char text[1024];
    if (make_folder(state)) return -1;
    write_longrope();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_file(files[i].name, text, (size_t)snprintf(text, sizeof text, config, files[i].rest));
    write_file("chunks.json", text,
               (size_t)snprintf(text, sizeof text,
                                "{\"model_type\": \"qwen2\", \"hidden_size\": 4096, \"num_attention_heads\": 32,\n"
                                " \"num_hidden_layers\": 2, \"max_position_embeddings\": 65536, \"rope_theta\": 500000.0,\n"
                                " \"dual_chunk_attention_config\": {\"chunk_size\": 8191, \"local_size\": 1024,\n"
                                " \"original_max_position_embeddings\": 8192}}\n"));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        write_file(layers[i].name, text,
                   (size_t)snprintf(text, sizeof text,
                                    "{\"model_type\": \"gyre\", \"vocab_size\": 256, \"hidden_size\": 64,\n"
                                    " \"intermediate_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 2,\n"
                                    " \"head_dim\": 32, \"max_position_embeddings\": 8192,\n"
                                    " \"position_embedding_type\": \"rope\", \"rope_theta\": 500000.0%s}\n",
                                    layers[i].rest));
    return 0;
}

/* Of one group. */
static void compute(explain_accuracy *out, const explain_stats *stats) {
    explain_accuracy *made = NULL;
    gyre_error err = {0, ""};
    if (explain_accuracy_compute(&made, &stats, 1, &err)) fail_msg("%s", err.text);
    *out = *made;
    explain_accuracy_free(&made, 1);
}

/* What a line prints, and its exit status.  Each is run once: its figures take a second, and are the same each time. */
typedef struct printed {
    char *line, *out;
    int exit;
} printed;

static printed *runs;
static size_t run_lines;

static const printed *run_once(const char *line) {
    for (size_t i = 0; i < run_lines; i++)
        if (strcmp(runs[i].line, line) == 0) return &runs[i];
    const outcome *o = run(line);
    runs = realloc(runs, (run_lines + 1) * sizeof *runs);
    assert_non_null(runs);
    runs[run_lines] = (printed){strdup(line), strdup(o->out), o->exit};
    return &runs[run_lines++];
}

static int remove_all(void **state) {
    for (size_t i = 0; i < run_lines; i++)
        free(runs[i].line), free(runs[i].out);
    free(runs);
    return remove_folder(state);
}

static json_t *accuracy_of(const char *line) {
    const printed *o = run_once(line);
    json_t *root = o->exit ? NULL : json_loads(o->out, 0, NULL);
    json_t *found = json_object_get(json_array_get(json_object_get(root, "groups"), 0), "accuracy");
    assert_true(json_is_object(found));
    json_incref(found);
    json_decref(root);
    return found;
}

static const json_t *program_of(const json_t *accuracy, const char *name) {
    const json_t *program;
    size_t i;
    json_array_foreach(json_object_get(accuracy, "programs"), i, program) {
        if (strcmp(test_string(program, "program"), name) == 0) return program;
    }
    fail_msg("no program %s", name);
    return NULL;
}

/* -- errors of angles -- */
enum { DIM = 128, SMALL_DIM = 64 }; /* of plain.json and llama-2-7b.json; of dynamic.json */
static const double base = 500000;

typedef struct recipe {
    int dim;
    float inv_freq[DIM / 2], step; /* as the program has them; step: llama.cpp's, each pair's angle over the one before */
    double exact[DIM / 2];
} recipe;

/* Of frequencies base^(-2 i / dim). */
static recipe recipe_of(int dim, double own_base) {
    recipe r = {.dim = dim, .step = powf((float)own_base, -2.0f / (float)dim)};
    for (int i = 0; i < dim / 2; i++) {
        r.inv_freq[i] = 1 / powf((float)own_base, (float)(2 * i) / (float)dim);
        r.exact[i] = (double)powl((long double)own_base, -2.0L * i / dim);
    }
    return r;
}

/* Largest error at positions 0 .. length - 1, of the recipe of transformers or of llama.cpp, with the functions of the C
 * library. */
static double largest_error(const recipe *r, int is_llama_cpp, int64_t length) {
    double most = 0;
    for (int64_t m = 0; m < length; m++) {
        float running = (float)m;
        for (int i = 0; i < r->dim / 2; i++) {
            const float angle = is_llama_cpp ? running : (float)m * r->inv_freq[i];
            const double exact = (double)m * r->exact[i];
            most = fmax(most, fmax(fabs(cos(exact) - (double)cosf(angle)), fabs(sin(exact) - (double)sinf(angle))));
            running *= r->step;
        }
    }
    return most;
}

static double error_at(const json_t *accuracy, const char *program, int64_t length) {
    const json_t *lengths = json_object_get(accuracy, "lengths");
    const json_t *errors = json_object_get(program_of(accuracy, program), "largest_error");
    for (size_t i = 0; i < json_array_size(lengths); i++)
        if (json_integer_value(json_array_get(lengths, i)) == length) return json_number_value(json_array_get(errors, i));
    fail_msg("no length %lld", (long long)length);
    return 0;
}

static int has_torch(const json_t *accuracy) {
    return !json_is_null(json_object_get(program_of(accuracy, "transformers, float32"), "largest_error"));
}

/* All positions of 32768, and a sample beyond that finds nine tenths of the largest error. */
static void errors_are_the_largest_of_the_recipes(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    const json_t *lengths = json_object_get(accuracy, "lengths"), *measured = json_object_get(accuracy, "measured");
    static const int64_t want[] = {4096, 8192, 32768, 131072, 1048576}; /* the model's own length among them */
    const recipe r = recipe_of(DIM, base);
    assert_int_equal(json_array_size(lengths), 5);
    assert_int_equal(test_integer(measured, "all_below"), 32768);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(json_integer_value(json_array_get(lengths, i)), want[i]);
    for (int i = 0; i < 3; i++) {
        assert_float_equal(error_at(accuracy, "llama.cpp", want[i]), largest_error(&r, 1, want[i]), 1e-7);
        if (has_torch(accuracy))
            assert_float_equal(error_at(accuracy, "transformers, float32", want[i]), largest_error(&r, 0, want[i]), 1e-7);
    }
    const double all = largest_error(&r, 1, 131072), sampled = error_at(accuracy, "llama.cpp", 131072);
    if (sampled > all + 1e-7 || sampled < 0.9 * all) fail_msg("%g of %g", sampled, all);
    json_decref(accuracy);
}

static void errors_never_fall(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @chunks.json --as vllm --accuracy --json",
                                        "explain " GYRE_TEST_DATA "/configs/llama-2-7b.json --accuracy --json",
                                        "explain @linear.json --accuracy --json",
                                        "explain " GYRE_TEST_DATA "/configs/qwen2.5-7b-1m.json --accuracy --json"};
    for (int l = 0; l < (test_all() ? 4 : 3); l++) {
        json_t *accuracy = accuracy_of(lines[l]);
        const json_t *program;
        size_t p;
        json_array_foreach(json_object_get(accuracy, "programs"), p, program) {
            const json_t *errors = json_object_get(program, "largest_error");
            for (size_t i = 1; i < json_array_size(errors); i++)
                if (json_number_value(json_array_get(errors, i)) < json_number_value(json_array_get(errors, i - 1)))
                    fail_msg("%s, %s: column %zu falls", lines[l], test_string(program, "program"), i);
        }
        json_decref(accuracy);
    }
}

/* transformers' base at n tokens; and LongRoPE's list at n tokens, of a file that has both. */
static void frequencies_are_those_of_the_length(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @dynamic.json --accuracy --json");
    assert_true(json_is_true(json_object_get(accuracy, "follows_length")));
    if (!has_torch(accuracy)) {
        json_decref(accuracy);
        skip();
    }
    for (int64_t n = 4096; n <= 32768; n *= 8) {
        const double times = n > 8192 ? 2.0 * (double)n / 8192 - 1 : 1;
        const recipe r = recipe_of(SMALL_DIM, 10000 * pow(times, (double)SMALL_DIM / (SMALL_DIM - 2)));
        assert_float_equal(error_at(accuracy, "transformers, float32", n), largest_error(&r, 0, n), 1e-7);
    }
    json_decref(accuracy);
    static const char *const lengths[] = {"4k", "128k"};
    char line[512];
    snprintf(line, sizeof line, "explain %s --accuracy --json", longrope());
    accuracy = accuracy_of(line);
    for (int i = 0; i < (test_all() ? 2 : 1); i++) {
        snprintf(line, sizeof line, "explain %s --length %s --accuracy --json", longrope(), lengths[i]);
        json_t *own = accuracy_of(line);
        const int64_t n = (int64_t[]){4096, 131072}[i];
        assert_true(error_at(accuracy, "llama.cpp", n) == error_at(own, "llama.cpp", n));
        assert_true(error_at(accuracy, "vLLM, bfloat16", n) == error_at(own, "vLLM, bfloat16", n));
        json_decref(own);
    }
    json_decref(accuracy);
}

/* A chunk of 8191 turns no pair by more than 8191 positions: the errors are those of 8192 tokens of the same rotation. */
static void chunks_end_the_angles(void **state) {
    (void)state;
    json_t *plain = accuracy_of("explain @plain.json --accuracy --json");
    json_t *chunks = accuracy_of("explain @chunks.json --as vllm --accuracy --json");
    static const char *const others[] = {"transformers, float32", "transformers, bfloat16", "llama.cpp", "TensorRT-LLM"};
    assert_int_equal(test_integer(chunks, "largest_position"), 8191);
    for (int i = 0; i < 4; i++)
        assert_string_equal(test_string(program_of(chunks, others[i]), "reason"), "it runs no dual chunks");
    if (has_torch(plain)) {
        const double whole = error_at(plain, "vLLM, bfloat16", 8192);
        assert_true(error_at(chunks, "vLLM, bfloat16", 4096) == error_at(plain, "vLLM, bfloat16", 4096));
        for (int64_t n = 32768; n <= 1 << 20; n *= n < 131072 ? 4 : 8)
            assert_true(error_at(chunks, "vLLM, bfloat16", n) == whole);
        assert_true(json_is_null(json_object_get(program_of(chunks, "vLLM, float16"), "moves_from")));
    }
    json_decref(plain);
    json_decref(chunks);
}

/* Gyre's own rotation of floats, in every layout: each number is cos or sin, rounded once. */
static void gyre_runs_its_rotation(void **state) {
    (void)state;
    static const gyre_layout layouts[] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_INTERLEAVED_TO_HALF};
    for (int i = 0; i < 3; i++) {
        gyre_config c = GYRE_INIT(gyre_config);
        c.kind = GYRE_KIND_ROPE;
        c.head_dim = 64;
        c.rope.base = base;
        c.rope.dim = 48;
        c.rope.first_channel = 16;
        c.rope.layout = layouts[i];
        c.rope.clockwise = i == 1;
        c.rope.attention_factor = 4;
        gyre_encoding *e = test_encoding(&c);
        explain_stats stats = {.config = gyre_encoding_get_config(e), .pairs = 24, .trained = 8192};
        explain_accuracy a;
        compute(&a, &stats);
        for (int l = 0; l < a.count; l++) /* half a unit in the last place of 2 .. 4, and nearly reached */
            if (a.error[0][l] > 0x1p-23 * 1.0001 || a.error[0][l] < 0.95 * 0x1p-23) fail_msg("%d: %g", i, a.error[0][l]);
        gyre_encoding_free(e);
    }
}

/* -- scores -- */
static gyre_encoding *encoding_of(gyre_angle_path path) {
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ROPE;
    c.head_dim = DIM;
    c.rope.base = base;
    c.rope.angles = path;
    return test_encoding(&c);
}

static void rotate(const gyre_encoding *e, int64_t position, const double *x, double *out) {
    const gyre_positions at = {.base = position};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = to), NULL,
                          NULL));
}

static double score(const gyre_encoding *e, int64_t m, int64_t n, const double *q, const double *k) {
    double a[DIM], b[DIM], sum = 0;
    rotate(e, m, q, a);
    rotate(e, n, k, b);
    for (int c = 0; c < DIM; c++)
        sum += a[c] * b[c];
    return sum;
}

/* Root mean square of the change of random scores, over theirs, with the key at which it is largest. */
static double movement(const gyre_encoding *program, const gyre_encoding *exact, int64_t position) {
    enum { TRIALS = 400 };
    double most = 0;
    test_random random = {7};
    for (int64_t distance = 1;; distance *= 8) {
        const int64_t n = position > distance ? position - distance : 0;
        double moved = 0, whole = 0, q[DIM], k[DIM];
        for (int trial = 0; trial < TRIALS; trial++) {
            for (int c = 0; c < DIM; c++) {
                q[c] = test_uniform(&random);
                k[c] = test_uniform(&random);
            }
            const int64_t m = position - trial % 8;
            const double right = score(exact, m, n, q, k), off = score(program, m, n, q, k) - right;
            moved += off * off;
            whole += right * right;
        }
        most = fmax(most, sqrt(moved / whole));
        if (n == 0) return most;
    }
}

/* Random trials are within 15 % of the sums over pairs. */
static void scores_move_from_there_on(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    gyre_encoding *exact = encoding_of(GYRE_ANGLE_PATH_EXACT), *program = encoding_of(GYRE_ANGLE_PATH_LLAMA_CPP);
    const double rounding = test_number(accuracy, "rounding");
    const int64_t from = test_integer(program_of(accuracy, "llama.cpp"), "moves_from");
    assert_true(from > 4096 && from < 1 << 20);
    assert_true(movement(program, exact, from) > 0.85 * rounding);
    assert_true(movement(program, exact, from - (from > 100000 ? 10000 : 1000)) < 1.15 * rounding);
    assert_true(json_is_null(json_object_get(program_of(accuracy, "Gyre, float32"), "moves_from")));
    gyre_encoding_free(exact);
    gyre_encoding_free(program);
    json_decref(accuracy);
}

/* Largest root mean square of the change of a score, over its own, with keys 1, 8, 64 ... tokens before and the first one:
 * transformers' recipe in floats against exact angles, without Gyre. */
static double recipe_movement(const recipe *r, int64_t position) {
    double most = 0;
    for (int64_t distance = 1;; distance *= 8) {
        const int64_t n = position > distance ? position - distance : 0;
        double moved = 0;
        for (int64_t m = position - 7; m <= position; m++)
            for (int i = 0; i < DIM / 2; i++) {
                const float q = (float)m * r->inv_freq[i], k = (float)n * r->inv_freq[i];
                const double a = (double)cosf(q), b = (double)sinf(q), c = (double)cosf(k), d = (double)sinf(k);
                const double exact = (double)(m - n) * r->exact[i];
                const double re = a * c + b * d - cos(exact), im = b * c - a * d - sin(exact);
                moved += (re * re + im * im) / (4 * DIM);
            }
        most = fmax(most, sqrt(moved));
        if (n == 0) return most;
    }
}

/* Llama 2's rotation: to two digits, not to half an octave.  The number below it moves scores by no more than rounding. */
static void positions_have_two_digits(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain " GYRE_TEST_DATA "/configs/llama-2-7b.json --accuracy --json");
    const json_t *search = json_object_get(accuracy, "search");
    assert_int_equal(test_integer(search, "end"), 1 << 24);
    assert_int_equal(test_integer(search, "of_each_doubling"), 2);
    assert_int_equal(test_integer(search, "digits"), 2);
    if (!has_torch(accuracy)) {
        json_decref(accuracy);
        skip();
    }
    const recipe r = recipe_of(DIM, 10000);
    const double rounding = test_number(accuracy, "rounding");
    const int64_t from = test_integer(program_of(accuracy, "transformers, float32"), "moves_from");
    assert_true(from >= 100000 && from < 1000000 && from % 10000 == 0);
    const double there = recipe_movement(&r, from), before = recipe_movement(&r, from - 10000);
    double least = INFINITY, most = 0; /* neighbours differ by about a tenth, as docs/questions.md says */
    for (int64_t m = 274000; m <= 286000; m += 2000) {
        least = fmin(least, recipe_movement(&r, m));
        most = fmax(most, recipe_movement(&r, m));
    }
    assert_true(most > 1.1 * least && most < 1.3 * least);
    if (there < 0.999 * rounding || before > 1.001 * rounding) fail_msg("%g, before %g: %g", there, before, rounding);
    json_decref(accuracy);
}

/* A table in bfloat16 rounds the attention factor: 1.0693147 to 1.0703125, of 1 + n / 128. */
static void tables_round_the_attention_factor(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @yarn.json --accuracy --json");
    const double factor = 1 + 0.1 * log(2), rounded = 1.0703125;
    if (has_torch(accuracy)) {
        const json_t *program = program_of(accuracy, "vLLM, bfloat16");
        test_close(test_number(program, "table_factor"), rounded, 1e-12, "table_factor");
        test_close(test_number(program, "factor_moves"), pow(rounded / factor, 2) - 1, 1e-12, "factor_moves");
        assert_true(test_number(program_of(accuracy, "transformers, float16"), "factor_moves") < 0x1p-10);
        assert_true(json_is_null(json_object_get(program_of(accuracy, "transformers, float32"), "table_factor")));
        assert_non_null(strstr(run_once("explain @yarn.json --accuracy")->out, "the attention factor 1.06931 as 1.07031"));
        assert_null(strstr(run_once("explain @yarn.json --accuracy")->out, "so scores move"));
        assert_null(strstr(run_once("explain @own.json --accuracy")->out, "attention factor 1 as"));
        /* 1.19024 becomes 1.1875: more than the rounding of query and key, so that every position moves scores */
        char line[512];
        snprintf(line, sizeof line, "explain %s --as vllm --accuracy", longrope());
        assert_non_null(strstr(run_once(line)->out, "as 1.1875"));
        assert_non_null(strstr(run_once(line)->out, "so scores move"));
    }
    json_decref(accuracy);
}

/* -- caches -- */
/* A rounding to p bits of a random mantissa has the root mean square 2^-p / sqrt(3) of its binade: 0.42 2^-p x of x. */
enum { KEYS_ROUNDED = 2000 };
/* Root mean square of the error of random keys that have one scale for `block` channels, whose largest is 127 steps. */
static double error_of_steps(int block) {
    double off = 0, whole = 0;
    test_random random = {11};
    for (int key = 0; key < KEYS_ROUNDED; key++) {
        double x[DIM], most = 0;
        for (int c = 0; c < DIM; c++) {
            x[c] = -6;
            for (int i = 0; i < 12; i++)
                x[c] += (double)test_uniform(&random) / 2 + 0.5;
        }
        for (int c = 0; c < DIM; c++) {
            most = c % block ? most : 0;
            if (c % block == 0)
                for (int i = c; i < c + block; i++)
                    most = fmax(most, fabs(x[i]));
            const double error = rint(x[c] / (most / 127)) * (most / 127) - x[c];
            off += error * error;
            whole += x[c] * x[c];
        }
    }
    return sqrt(off / whole);
}

static void caches_lose_what_rounding_does(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    const json_t *kept = json_object_get(accuracy, "kept"), *cache;
    const double want[] = {0x1p-11 * 0.42, 0x1p-8 * 0.42, error_of_steps(DIM),
                           0x1p-11 * 0.42, 0x1p-8 * 0.42, error_of_steps(32)};
    size_t i, s;
    assert_true(want[2] > 1.15 * want[5]); /* the two 8-bit types are not one */
    assert_int_equal(json_array_size(kept), 6);
    json_array_foreach((json_t *)kept, i, cache) {
        const int is_gyre = strcmp(test_string(cache, "cache"), "gyre_cache") == 0;
        const double one = test_number(cache, "moves");
        double before = one;
        assert_int_equal(is_gyre, i < 3);
        if (fabs(one - want[i]) > 0.06 * want[i]) fail_msg("%zu: %g, not %g", i, one, want[i]);
        const json_t *row;
        json_array_foreach(json_object_get(cache, "shifted"), s, row) {
            const double moves = test_number(row, "moves");
            if (is_gyre ? fabs(moves - one) > 0.01 * one : moves <= before) fail_msg("%zu: %g after %g", i, moves, before);
            before = moves;
        }
        assert_true(is_gyre || before > 5 * one); /* a hundred shifts */
    }
    assert_float_equal(test_number(accuracy, "rounding"), sqrt(2) * test_number(json_array_get(kept, 4), "moves"), 1e-12);
    json_decref(accuracy);
}

static float to_bf16(double x) {
    int exponent;
    const double mantissa = frexp(x, &exponent);
    return (float)ldexp(rint(mantissa * 256), exponent - 8);
}

/* How far a key is off that stands at `position` in bf16 and is turned by `shift` positions and rounded so many times. */
static double error_of_shifts(int64_t position, int64_t shift, int shifts) {
    const recipe r = recipe_of(DIM, base);
    double off = 0, whole = 0;
    test_random random = {5};
    for (int key = 0; key < 200; key++)
        for (int i = 0; i < DIM / 2; i++) {
            const double x = test_uniform(&random), y = test_uniform(&random);
            const double first = (double)position * r.exact[i], last = (double)(position + shifts * shift) * r.exact[i];
            const double c = cos((double)shift * r.exact[i]), s = sin((double)shift * r.exact[i]);
            float u = to_bf16(x * cos(first) - y * sin(first)), v = to_bf16(x * sin(first) + y * cos(first));
            for (int t = 0; t < shifts; t++) {
                const double turned = (double)u * c - (double)v * s;
                v = to_bf16((double)u * s + (double)v * c);
                u = to_bf16(turned);
            }
            const double dx = (double)u - (x * cos(last) - y * sin(last)), dy = (double)v - (x * sin(last) + y * cos(last));
            off += dx * dx + dy * dy;
            whole += x * x + y * y;
        }
    return sqrt(off / whole);
}

/* The keys and shifts that are named lose what is said. */
static void shifts_are_those_that_are_named(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    const json_t *keys = json_object_get(accuracy, "keys"), *row;
    const int64_t position = test_integer(keys, "position"), shift = test_integer(keys, "shift");
    size_t i;
    assert_int_equal(test_integer(keys, "count"), 64);
    assert_int_equal(shift, -64);
    assert_int_equal(position, 65536);
    json_array_foreach(json_object_get(json_array_get(json_object_get(accuracy, "kept"), 4), "shifted"), i, row) {
        const double want = error_of_shifts(position, shift, (int)test_integer(row, "shifts")),
                     got = test_number(row, "moves");
        if (fabs(got - want) > 0.08 * want) fail_msg("%zu: %g, not %g", i, got, want);
    }
    assert_non_null(strstr(run_once("explain @yarn.json --accuracy")->out,
                           "keys: 64 random ones at position 65536, which each shift moves 64 tokens back"));
    json_decref(accuracy);
}

/* -- the commands -- */
static void expect(const char *line, int exit, const char *says) {
    const printed *o = run_once(line);
    if (o->exit != exit || !strstr(o->out, says)) fail_msg("gyre %s: exit %d: %s", line, o->exit, o->out);
}

static void reasons_are_the_true_ones(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @dynamic.json --accuracy --json");
    assert_true(json_is_null(json_object_get(program_of(accuracy, "llama.cpp"), "largest_error")));
    assert_string_equal(test_string(program_of(accuracy, "llama.cpp"), "reason"), "llama.cpp has no dynamic NTK");
    json_decref(accuracy);
    expect("explain @yarn.json --accuracy", 0, "not computed: llama.cpp has no ramp with fractional ends");
    expect("explain @yarn.json --accuracy", 0, "not computed: Gyre has no path for TensorRT-LLM with YaRN");
    expect("explain " GYRE_TEST_DATA "/configs/qwen2-vl-7b.json --as llama.cpp --accuracy", 0,
           "Gyre has no path for llama.cpp with several");
    expect("explain @yarn.json --accuracy", 0, "transformers, float32");
    expect("explain models/alibi --accuracy", 0, "slopes");
    if (!test_all()) return;
    expect("explain @dynamic.json --accuracy", 0, "not computed: llama.cpp has no dynamic NTK");
    expect("explain @chunks.json --as vllm --accuracy", 0, "not computed: it runs no dual chunks");
    expect("diff @plain.json --with llama.cpp --accuracy", 0, "Accuracy under the frequencies of both");
    expect("diff @plain.json @dynamic.json --accuracy --json", 3, "\"accuracy\": {");
}

/* What layers train or turn by beside plain rotations is of no other program, and trained turns are not in the config. */
static void layers_of_gyre_have_no_other_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char line[128];
        const json_t *program;
        size_t p;
        if (layers[i].like_another && !test_all()) continue;
        snprintf(line, sizeof line, "explain @%s --accuracy --json", layers[i].name);
        json_t *accuracy = accuracy_of(line);
        json_array_foreach(json_object_get(accuracy, "programs"), p, program) {
            const int computed = !layers[i].reason || (p == 0 && !layers[i].gyre_too);
            if (json_is_array(json_object_get(program, "largest_error")) == computed && computed) continue;
            if (!layers[i].reason || computed) { /* a build without SLEEF */
                assert_true(p > 0 && !has_torch(accuracy));
                continue;
            }
            assert_string_equal(test_string(program, "reason"), layers[i].reason);
            assert_true(json_is_null(json_object_get(program, "largest_error")));
            assert_true(json_is_null(json_object_get(program, "moves_from")));
        }
        const json_t *kept = json_object_get(accuracy, "kept");
        for (size_t c = 0; c < 6; c++) {
            const int by_gyre = !layers[i].gyre_too && strcmp(layers[i].name, "xpos.json") != 0;
            const int has = c < 3 ? by_gyre : !layers[i].reason;
            assert_int_equal(json_is_number(json_object_get(json_array_get(kept, c), "moves")), has);
        }
        assert_int_equal(json_is_null(json_object_get(accuracy, "rounding")), layers[i].gyre_too);
        json_decref(accuracy);
        if (i > 1 && !test_all()) continue; /* one of each kind */
        snprintf(line, sizeof line, "explain @%s --accuracy", layers[i].name);
        const printed *o = run_once(line);
        assert_int_equal(o->exit, 0);
        assert_int_equal(strstr(o->out, "moves from: ") != NULL, !layers[i].gyre_too);
    }
}

/* vLLM chooses LongRoPE's list once, transformers by the length. */
static void contexts_are_followed_where_programs_follow_them(void **state) {
    (void)state;
    static const char follows[] = "frequencies follow the context";
    char line[512], other[600];
    snprintf(line, sizeof line, "explain %s --accuracy", longrope());
    assert_non_null(strstr(run_once(line)->out, follows));
    snprintf(other, sizeof other, "%s --as vllm", line);
    assert_null(strstr(run_once(other)->out, follows));
    snprintf(other, sizeof other, "%s --as vllm --json", line);
    json_t *accuracy = accuracy_of(other);
    assert_true(json_is_false(json_object_get(accuracy, "follows_length")));
    json_decref(accuracy);
}

/* One page of figures only where both have the same. */
static void diff_merges_what_is_the_same(void **state) {
    (void)state;
    static const struct {
        const char *line, *a, *b; /* NULL: merged */
        int of_more;              /* with GYRE_TEST_ALL */
    } cases[] = {
        {"diff " GYRE_TEST_DATA "/configs/phi-3.5-mini.json --with vllm --accuracy", "of hf-5", "of vllm-2026.09", 1},
        {"diff " GYRE_TEST_DATA "/configs/qwen2.5-7b-1m.json --as vllm --with hf-5 --accuracy", "of vllm-2026.09", "of hf-5",
         0},
        {"diff @own.json @trained.json --accuracy", "of A", "of B", 0},
        {"diff @own.json @pope.json --accuracy", "of A", "of B", 1},
        {"diff " GYRE_TEST_DATA "/configs/llama-3.1-8b.json --with vllm --accuracy", NULL, NULL, 0},
        {"diff @trained.json @trained.json --accuracy", NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].of_more && !test_all()) continue;
        char title[80];
        const printed *o = run_once(cases[i].line);
        assert_int_equal(strstr(o->out, "Accuracy under the frequencies of both") != NULL, !cases[i].a);
        for (int s = 0; s < 2 && cases[i].a; s++) {
            snprintf(title, sizeof title, "Accuracy under the frequencies %s\n", s ? cases[i].b : cases[i].a);
            if (!strstr(o->out, title)) fail_msg("%s: no %s", cases[i].line, title);
        }
    }
}

/* Positions are divided by vLLM, frequencies by transformers: by 2.5 their tables differ. */
static void linear_tells_vllm_from_transformers(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @linear.json --accuracy --json");
    if (has_torch(accuracy))
        assert_true(error_at(accuracy, "vLLM, float16", 131072) != error_at(accuracy, "transformers, float16", 131072));
    json_decref(accuracy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_the_largest_of_the_recipes),
        cmocka_unit_test(errors_never_fall),
        cmocka_unit_test(frequencies_are_those_of_the_length),
        cmocka_unit_test(chunks_end_the_angles),
        cmocka_unit_test(gyre_runs_its_rotation),
        cmocka_unit_test(scores_move_from_there_on),
        cmocka_unit_test(positions_have_two_digits),
        cmocka_unit_test(tables_round_the_attention_factor),
        cmocka_unit_test(caches_lose_what_rounding_does),
        cmocka_unit_test(shifts_are_those_that_are_named),
        cmocka_unit_test(reasons_are_the_true_ones),
        cmocka_unit_test(layers_of_gyre_have_no_other_rows),
        cmocka_unit_test(contexts_are_followed_where_programs_follow_them),
        cmocka_unit_test(diff_merges_what_is_the_same),
        cmocka_unit_test(linear_tells_vllm_from_transformers),
    };
    return cmocka_run_group_tests(tests, write_configs, remove_all);
}

/* test_accuracy.c: gyre explain --accuracy and gyre diff --accuracy: the errors against the recipes written out here, the
 * position from which scores move against random queries and keys, what caches lose against laws of rounding. */
#include "run_command.h"
#include "tools/explain/explain_accuracy.h"
#include <math.h>

static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32,\n"
                             " \"num_hidden_layers\": 2, \"max_position_embeddings\": %s}\n";

static int write_configs(void **state) {
    char text[512];
    if (make_folder(state)) return -1;
    write_file("plain.json", text,
               (size_t)snprintf(text, sizeof text, config, "8192, \"rope_theta\": 500000.0, \"torch_dtype\": \"bfloat16\""));
    write_file(
        "dynamic.json", text,
        (size_t)snprintf(text, sizeof text, config,
                         "8192, \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}"));
    return 0;
}

static json_t *accuracy_of(const char *line) {
    json_t *root = run_json(line);
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
enum { DIM = 128 };
static const double base = 500000;

/* Largest error in the 16 positions up to `last`, of the recipe of transformers or of llama.cpp, with the functions of the C
 * library. */
static double largest_error(int is_llama_cpp, int64_t last) {
    double most = 0;
    const float step = powf((float)base, -2.0f / DIM);
    for (int64_t m = last - 15; m <= last; m++) {
        float running = (float)m;
        for (int i = 0; i < DIM / 2; i++, running *= step) {
            const float inv_freq = 1 / powf((float)base, (float)(2 * i) / DIM);
            const float angle = is_llama_cpp ? running : (float)m * inv_freq;
            const long double exact = (long double)m * powl((long double)base, -2.0L * i / DIM);
            most = fmax(most, fmax(fabs((double)(cosl(exact) - (long double)cosf(angle))),
                                   fabs((double)(sinl(exact) - (long double)sinf(angle)))));
        }
    }
    return most;
}

static void errors_are_those_of_the_recipes(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    const json_t *positions = json_object_get(accuracy, "positions");
    static const int64_t want[] = {4096, 8192, 32768, 131072, 1048576}; /* the model's own length among them */
    assert_int_equal(json_array_size(positions), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(json_integer_value(json_array_get(positions, i)), want[i]);
        const json_t *exact = json_object_get(program_of(accuracy, "exact (Gyre)"), "largest_error");
        const json_t *llama = json_object_get(program_of(accuracy, "llama.cpp"), "largest_error");
        const json_t *torch = json_object_get(program_of(accuracy, "transformers, float32"), "largest_error");
        assert_true(json_number_value(json_array_get(exact, i)) < 0x1p-24);
        assert_float_equal(json_number_value(json_array_get(llama, i)), largest_error(1, want[i]), 1e-6);
        if (json_is_null(torch)) continue; /* without SLEEF */
        assert_float_equal(json_number_value(json_array_get(torch, i)), largest_error(0, want[i]), 1e-6);
    }
    json_decref(accuracy);
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
    assert_ok(gyre_rotate(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &at, &in, &to, NULL, NULL));
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
    assert_true(movement(program, exact, llround((double)from / sqrt(2))) < 1.15 * rounding);
    assert_true(json_is_null(json_object_get(program_of(accuracy, "exact (Gyre)"), "moves_from")));
    gyre_encoding_free(exact);
    gyre_encoding_free(program);
    json_decref(accuracy);
}

/* -- caches -- */
/* A rounding to p bits of a random mantissa has the root mean square 2^-p / sqrt(3) of its binade: 0.42 2^-p x of x. */
static void caches_lose_what_rounding_does(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @plain.json --accuracy --json");
    const json_t *kept = json_object_get(accuracy, "kept"), *type;
    static const double want[] = {0x1p-11 * 0.42, 0x1p-8 * 0.42, 0.0052};
    size_t i;
    assert_int_equal(json_array_size(kept), 3);
    json_array_foreach((json_t *)kept, i, type) {
        const double one = test_number(type, "moves");
        assert_float_equal(one, want[i], 0.1 * want[i]);
        double before = one;
        const json_t *shifted = json_object_get(type, "shifted"), *row;
        size_t s;
        json_array_foreach((json_t *)shifted, s, row) {
            assert_true(test_number(row, "moves") > before);
            before = test_number(row, "moves");
        }
        assert_true(before > 5 * one); /* a hundred shifts */
    }
    assert_float_equal(test_number(accuracy, "rounding"), sqrt(2) * test_number(json_array_get(kept, 1), "moves"), 1e-12);
    json_decref(accuracy);
}

/* -- the commands -- */
static void expect(const char *line, int exit, const char *says) {
    const outcome *o = run(line);
    if (o->exit != exit || !strstr(o->out, says)) fail_msg("gyre %s: exit %d: %s%s", line, o->exit, o->out, o->err);
}

static void programs_without_the_scaling_are_named(void **state) {
    (void)state;
    json_t *accuracy = accuracy_of("explain @dynamic.json --accuracy --json");
    assert_true(json_is_null(json_object_get(program_of(accuracy, "llama.cpp"), "largest_error")));
    json_decref(accuracy);
    expect("explain @dynamic.json --accuracy", 0, "not computed: it has no such scaling");
    expect("explain @plain.json --accuracy", 0, "transformers, float32");
    expect("explain models/alibi --accuracy", 0, "slopes");
    expect("diff @plain.json --with llama.cpp --accuracy", 0, "Accuracy under the frequencies of both");
    expect("diff @plain.json @dynamic.json --accuracy --json", 3, "\"accuracy\": {");
}

/* A file may state any width of a head: above 1024 channels the work stays the same. */
static void wide_heads_take_no_more_work(void **state) {
    (void)state;
    static const int64_t dims[] = {128, 1024, 2048, 65536}, keys[] = {64, 64, 32, 1}, neighbours[] = {16, 16, 8, 1};
    for (int i = 0; i < 4; i++) {
        gyre_config c = GYRE_INIT(gyre_config);
        c.kind = GYRE_KIND_ROPE;
        c.head_dim = dims[i];
        c.rope.base = base;
        gyre_encoding *e = test_encoding(&c);
        explain_stats stats = {.config = gyre_encoding_get_config(e), .pairs = dims[i] / 2, .trained = 8192};
        explain_accuracy a;
        gyre_error err = {0, ""};
        if (explain_accuracy_compute(&a, &stats, &err)) fail_msg("%s", err.text);
        assert_int_equal(a.keys, keys[i]);
        assert_int_equal(a.neighbours, neighbours[i]);
        for (int t = 0; t < ACCURACY_TYPES; t++) /* a sample of as many numbers */
            assert_true(fabs(a.kept[t] - (double[]){0x1p-11 * 0.42, 0x1p-8 * 0.42, 0.0052}[t]) < 0.1 * a.kept[t]);
        assert_true(a.error[0][0] > 0 && a.error[0][0] < 0x1p-24);
        gyre_encoding_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_recipes), cmocka_unit_test(scores_move_from_there_on),
        cmocka_unit_test(caches_lose_what_rounding_does),  cmocka_unit_test(programs_without_the_scaling_are_named),
        cmocka_unit_test(wide_heads_take_no_more_work),
    };
    return cmocka_run_group_tests(tests, write_configs, remove_folder);
}

/* test_audit_cache.c: gyre audit --cache from outside: what it prints of tables made by the formula of the papers, its exit
 * status, and its refusals. */
#include "files/tensors/safetensors.h"
#include "run_command.h"

#include <math.h>

enum { RIGHT = 0, FAILED = 1, USAGE = 2, FOUND = 3, PAIRS = 8, ROWS = 512 };

static const char config[] = "{\n \"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4,\n"
                             " \"num_hidden_layers\": 2, \"max_position_embeddings\": 512, \"rope_theta\": 10000.0,\n"
                             " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": 1.0,\n"
                             "  \"original_max_position_embeddings\": 128}\n}\n";

/* Half-YaRN: frequencies of YaRN's released code with this factor of cos and sin. */
static void fill(float numbers[ROWS][2 * PAIRS], double factor) {
    const double two_pi = 2 * acos(-1);
    const double low = fmax(0, floor(2 * PAIRS * log(128 / (32 * two_pi)) / (2 * log(10000)))),
                 high = ceil(2 * PAIRS * log(128 / two_pi) / (2 * log(10000)));
    for (int m = 0; m < ROWS; m++)
        for (int i = 0; i < PAIRS; i++) {
            const double f = pow(10000, -(double)i / PAIRS), ramp = fmin(1, fmax(0, (i - low) / (high - low)));
            const double angle = m * (f / 4 * ramp + f * (1 - ramp));
            numbers[m][i] = (float)(factor * cos(angle));
            numbers[m][PAIRS + i] = (float)(factor * sin(angle));
        }
}

static void write_table(const char *name, const float *numbers, int rows) {
    static unsigned char bytes[128 + sizeof(float) * ROWS * 2 * PAIRS];
    const int length =
        snprintf((char *)bytes + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 16), }\n", rows);
    memcpy(bytes, "\x93NUMPY\x01\0", 8);
    bytes[8] = (unsigned char)length, bytes[9] = 0;
    const size_t size = sizeof(float) * 2 * PAIRS * (size_t)rows;
    memcpy(bytes + 10 + length, numbers, size);
    write_file(name, bytes, 10 + (size_t)length + size);
}

static int write_tables(void **state) {
    static float exact[ROWS][2 * PAIRS], scaled[ROWS][2 * PAIRS];
    gyre_error err;
    if (make_empty_folder(state)) return -1;
    write_file("config.json", config, sizeof config - 1);
    write_file("bert.json", "{\"model_type\": \"t5\"}", 20);
    fill(exact, 1);
    fill(scaled, 0.1 * log(4) + 1);
    write_table("exact.npy", *exact, ROWS);
    write_table("scaled.npy", *scaled, ROWS);
    exact[300][5] += 0.01f;
    write_table("spoilt.npy", *exact, ROWS);
    const gyre_safetensors_input tensors[] = {{"cos_sin_cache", 2, {ROWS, 2 * PAIRS, 1, 1}, *scaled, 0},
                                              {"rope.other", 3, {4, 4, 4, 1}, *scaled, 0}};
    assert_ok(gyre_safetensors_write(in_folder("engine.safetensors"), tensors, 2, GYRE_DTYPE_BF16, &err));
    assert_ok(gyre_safetensors_write(in_folder("other.safetensors"), tensors + 1, 1, GYRE_DTYPE_F32, &err));
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "160", 1);
}

static json_t *audited(const char *line, int status) {
    const outcome *o = run(line);
    if (o->exit != status) fail_msg("gyre %s: exit %d, not %d: %s%s", line, o->exit, status, o->err, o->out);
    json_error_t error;
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("gyre %s: %s", line, o->out);
    assert_int_equal(json_is_true(json_object_get(root, "ok")), status == RIGHT);
    return root;
}

static const json_t *table_of(const json_t *root, size_t i) {
    return json_array_get(json_object_get(root, "tables"), i);
}

static int is_same(const json_t *table, const char *profile) {
    const json_t *match;
    size_t i;
    json_array_foreach(json_object_get(table, "matches"), i, match) {
        if (strcmp(test_string(match, "profile"), profile) == 0) return json_is_true(json_object_get(match, "same"));
    }
    return -1;
}

/* attention_factor 1 is read by transformers and by vLLM of September 2026, not by that of May. */
static void test_which_profile(void **state) {
    (void)state;
    json_t *root = audited("audit @config.json --cache @exact.npy --json", RIGHT);
    const json_t *table = table_of(root, 0);
    assert_int_equal(is_same(table, "hf-5"), 1);
    assert_int_equal(is_same(table, "vllm-2026.09"), 1);
    assert_int_equal(is_same(table, "vllm-2026.05"), 0);
    assert_string_equal(test_string(table, "form"), "cos-sin");
    assert_string_equal(test_string(table, "rounded"), "f32");
    assert_int_equal(test_integer(table, "positions"), ROWS);
    assert_int_equal(json_array_size(json_object_get(table, "frequencies")), PAIRS);
    json_decref(root);
    root = audited("audit @config.json --cache @scaled.npy --json", RIGHT);
    assert_int_equal(is_same(table_of(root, 0), "vllm-2026.05"), 1);
    assert_int_equal(is_same(table_of(root, 0), "hf-5"), 0);
    json_decref(root);
    root = audited("audit @config.json --cache @scaled.npy --as hf-5 --json", FOUND); /* only that profile counts */
    assert_int_equal(json_array_size(json_object_get(table_of(root, 0), "matches")), 1);
    assert_non_null(strstr(test_string(table_of(root, 0), "verdict"), "factor 1.13863, those of the config 1."));
    json_decref(root);
    json_decref(audited("audit @config.json --cache @scaled.npy --as vllm-2026.05 --json", RIGHT));
}

static void test_off_position(void **state) {
    (void)state;
    json_t *root = audited("audit @config.json --cache @spoilt.npy --as hf-5 --json", FOUND);
    const json_t *match = json_array_get(json_object_get(table_of(root, 0), "matches"), 0);
    assert_int_equal(test_integer(match, "first_position"), 300);
    assert_int_equal(test_integer(match, "first_pair"), 5);
    assert_int_equal(test_integer(match, "positions_off"), 1);
    assert_true(fabs(test_number(match, "largest_error") - 0.01) < 1e-4);
    json_decref(root);
    const outcome *o = run("audit @config.json --cache @spoilt.npy --as hf-5");
    assert_int_equal(o->exit, FOUND);
    assert_non_null(strstr(o->out, "off from position 300, pair 5; up to 0.01"));
    assert_non_null(strstr(o->out, "1 of 512 positions are off."));
}

/* A tensor that is not a table of angles is left out, unless it is the only one. */
static void test_several_tensors(void **state) {
    (void)state;
    json_t *root = audited("audit @config.json --cache @engine.safetensors --json", RIGHT);
    assert_int_equal(json_array_size(json_object_get(root, "tables")), 1);
    assert_string_equal(test_string(table_of(root, 0), "name"), "cos_sin_cache");
    assert_string_equal(test_string(table_of(root, 0), "rounded"), "bf16");
    const json_t *left = json_array_get(json_object_get(root, "left_out"), 0);
    assert_string_equal(test_string(left, "name"), "rope.other");
    assert_non_null(strstr(test_string(left, "text"), "[4, 4, 4, 1]"));
    json_decref(root);
    const outcome *o = run("audit @config.json --cache @engine.safetensors");
    assert_non_null(strstr(o->out, "cos of all pairs, then sin: 512 positions, 8 pairs, numbers of bf16"));
    assert_non_null(strstr(o->out, "computed in f32 and rounded to bf16 at the end"));
    assert_fails("audit @config.json --cache @other.safetensors", FAILED, "--cache: table: the shape [4, 4, 4, 1]");
}

static void test_refusals(void **state) {
    (void)state;
    assert_fails("audit @config.json --cache @missing.npy", FAILED, "missing.npy: No such file");
    assert_fails("audit @missing.json --cache @exact.npy", FAILED, "missing.json");
    assert_fails("audit @config.json --cache @config.json", FAILED, "config.json");
    assert_fails("audit @config.json --cache @exact.npy --text @config.json", USAGE, "--cache: reads a table");
    const outcome *o = run("audit @bert.json --cache @exact.npy"); /* nothing rotates */
    assert_int_equal(o->exit, FOUND);
    assert_non_null(strstr(o->out, "no reading rotates"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_profile), cmocka_unit_test(test_off_position),
                                       cmocka_unit_test(test_several_tensors), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, write_tables, remove_folder);
}

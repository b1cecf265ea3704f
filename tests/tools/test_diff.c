/* test_diff.c: gyre diff from outside: its figures against the formulas of the papers and of the programs, its verdicts, its
 * exit status; and the first position that differs, by the law that defines it. */
#include "run_command.h"
#include "tools/diff/diff_compare.h"
#include <math.h>

enum { SAME = 0, FAILED = 1, USAGE = 2, DIFFERENT = 3, REFUSED = 4 };

/* The settings of a llama of 128 channels a head, and more of them. */
static void write_llama(const char *name, const char *more) {
    char text[2048];
    const int length = snprintf(text, sizeof text,
                                "{\n \"model_type\": \"llama\",\n \"hidden_size\": 4096,\n \"num_attention_heads\": 32,\n"
                                " \"num_hidden_layers\": 2,\n%s\n}\n",
                                more);
    assert_true(length > 0 && length < (int)sizeof text);
    write_file(name, text, (size_t)length);
}

static int write_configs(void **state) {
    if (make_folder(state)) return -1;
    write_llama("plain.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0");
    write_llama("spelled.json", " \"max_position_embeddings\": 4096, \"rope_parameters\": {\"rope_theta\": 1e4}");
    write_llama("chunks.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                               " \"dual_chunk_attention_config\": {\"chunk_size\": 3072, \"local_size\": 512}");
    write_llama("base.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10001.0");
    write_llama("linear.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                               " \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}");
    /* The dictionary of Qwen2.5 for long texts, with the enlarged length that some write beside it. */
    write_llama("yarn.json", " \"max_position_embeddings\": 131072, \"rope_theta\": 1000000.0,\n"
                             " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,\n"
                             "  \"original_max_position_embeddings\": 32768}");
    write_llama("factor.json", " \"max_position_embeddings\": 131072, \"rope_theta\": 1000000.0,\n"
                               " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": 1.0,\n"
                               "  \"original_max_position_embeddings\": 32768}");
    write_llama("mismatch.json", " \"max_position_embeddings\": 262144, \"rope_theta\": 1000000.0,\n"
                                 " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,\n"
                                 "  \"original_max_position_embeddings\": 32768}");
    write_llama("dynamic.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                                " \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}");
    write_llama("untyped.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                                " \"rope_scaling\": {\"factor\": 4.0}");
    write_llama("new.json", " \"max_position_embeddings\": 4096,\n"
                            " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}");
    write_llama("proportional.json", " \"max_position_embeddings\": 4096, \"rope_parameters\": {\"rope_type\":\n"
                                     "  \"proportional\", \"rope_theta\": 10000.0, \"partial_rotary_factor\": 0.5}");
    static const char kinds[] =
        "{\"model_type\": \"gemma3_text\", \"head_dim\": 64, \"hidden_size\": 256, \"num_attention_heads\": 4,\n"
        " \"num_hidden_layers\": 2, \"max_position_embeddings\": 4096, \"sliding_window\": %d,\n"
        " \"layer_types\": [\"sliding_attention\", \"full_attention\"],\n"
        " \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": %s},\n"
        "  \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}}\n";
    char text[1024];
    write_file("kinds.json", text, (size_t)snprintf(text, sizeof text, kinds, 512, "1000000.0"));
    write_file("window.json", text, (size_t)snprintf(text, sizeof text, kinds, 1024, "1000000.0"));
    write_file("kinds-base.json", text, (size_t)snprintf(text, sizeof text, kinds, 512, "500000.0"));
    static const char bloom[] = "{\"model_type\": \"bloom\", \"hidden_size\": %d, \"n_head\": %d, \"n_layer\": 2}\n";
    write_file("bloom.json", text, (size_t)snprintf(text, sizeof text, bloom, 1024, 16));
    write_file("bloom-8.json", text, (size_t)snprintf(text, sizeof text, bloom, 512, 8));
    static const char gpt2[] =
        "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": %d}\n";
    write_file("gpt2.json", text, (size_t)snprintf(text, sizeof text, gpt2, 1024));
    write_file("gpt2-long.json", text, (size_t)snprintf(text, sizeof text, gpt2, 2048));
    static const char follows[] =
        "{\"model_type\": \"gyre\", \"position_embedding_type\": \"rope\", \"hidden_size\": 256,\n"
        " \"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"head_dim\": 64, \"max_position_embeddings\": 4096,\n"
        " \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"dynamic-yarn\"},\n"
        " \"length_policy\": \"%s\", \"length_block\": %d}\n";
    write_file("causal.json", text, (size_t)snprintf(text, sizeof text, follows, "causal", 64));
    write_file("causal-16.json", text, (size_t)snprintf(text, sizeof text, follows, "causal", 16));
    write_file("prefix.json", text, (size_t)snprintf(text, sizeof text, follows, "prefix", 64));
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "160", 1);
}

/* The JSON of a comparison that ends with this status. */
static json_t *compare(const char *line, int status) {
    const outcome *o = run(line);
    if (o->exit != status) fail_msg("gyre %s: exit %d, not %d: %s%s", line, o->exit, status, o->err, o->out);
    assert_string_equal(o->err, "");
    json_error_t error;
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("gyre %s: %s: %s", line, error.text, o->out);
    assert_int_equal(json_is_true(json_object_get(root, "same")), status == SAME);
    return root;
}

/* The same frequencies at every length, and another length. */
static void test_length_policies(void **state) {
    (void)state;
    assert_non_null(strstr(run("diff @causal.json @prefix.json")->out, "length_policy"));
    assert_null(strstr(run("diff @causal.json @prefix.json")->out, "length_block"));
    assert_non_null(strstr(run("diff @causal.json @causal-16.json")->out, "length_block"));
    json_decref(compare("diff @causal.json @causal-16.json --json", DIFFERENT));
    json_decref(compare("diff @causal.json @causal.json --json", SAME));
}

static const json_t *group_at(const json_t *root, size_t i) {
    const json_t *group = json_array_get(json_object_get(root, "groups"), i);
    assert_non_null(group);
    return group;
}

static void assert_verdict(const char *line, int status, const char *verdict) {
    json_t *root = compare(line, status);
    assert_string_equal(test_string(root, "verdict"), verdict);
    json_decref(root);
}

/* -- which layers -- */
/* A Gemma 3 with a window in the layers of an "s". */
static void write_pattern(const char *name, const char *pattern) {
    char text[4096];
    int used =
        snprintf(text, sizeof text,
                 "{\"model_type\": \"gemma3_text\", \"head_dim\": 64, \"hidden_size\": 256, \"num_attention_heads\": 4,\n"
                 "\"num_hidden_layers\": %zu, \"max_position_embeddings\": 4096, \"sliding_window\": 512,\n"
                 "\"layer_types\": [",
                 strlen(pattern));
    for (int i = 0; pattern[i]; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s\"%s_attention\"", i ? ", " : "",
                         pattern[i] == 's' ? "sliding" : "full");
    used += snprintf(text + used, sizeof text - (size_t)used, "]}\n");
    write_file(name, text, (size_t)used);
}

/* Groups of one name rotate alike but hold other layers.  A larger model may have more of them. */
static void test_lists_of_layers(void **state) {
    (void)state;
    write_pattern("sssf.json", "sssf");
    write_pattern("sfss.json", "sfss");
    write_pattern("sssfsssf.json", "sssfsssf");
    assert_verdict("diff @sssf.json @sssfsssf.json --json", SAME, "Same.");
    json_t *root = compare("diff @sssf.json @sfss.json --json", DIFFERENT);
    assert_non_null(strstr(test_string(root, "verdict"), "the list of layers is 0-2 under "));
    assert_non_null(strstr(test_string(root, "verdict"), ", 0, 2-3 under "));
    assert_non_null(strstr(test_string(root, "verdict"), "the list of layers is 3 under "));
    json_decref(root);
    write_pattern("long-a.json", "sfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsf");
    write_pattern("long-b.json", "sfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfss");
    root = compare("diff @long-a.json @long-b.json --json", DIFFERENT);
    assert_non_null(strstr(test_string(root, "verdict"), "the list of layers is without layer 39 under "));
    assert_non_null(strstr(test_string(root, "verdict"), "the list of layers is with layer 39 under "));
    json_decref(root);
}

/* -- the first position that differs -- */
static void check_first(double gap) {
    const int64_t m = diff_first_position(gap);
    const long double w = (long double)gap, limit = 0.01L;
    if (m < 0) {
        assert_true(2147483648.0L * w <= limit);
        return;
    }
    assert_true(m >= 1 && m <= 2147483648);
    if (!((long double)m * w > limit)) fail_msg("%.17g: at %lld not yet", gap, (long long)m);
    if (!((long double)(m - 1) * w <= limit)) fail_msg("%.17g: before %lld already", gap, (long long)m);
}

static void test_first_position(void **state) {
    (void)state;
    test_random random = {11};
    for (int i = 0; i < 20000; i++)
        check_first(exp2(-20 + 22 * test_uniform(&random)));
    for (int64_t m = 1; m < 3000; m++) { /* where the product lands beside 0.01 */
        const double edge = 0.01 / (double)m;
        check_first(edge);
        check_first(nextafter(edge, 0));
        check_first(nextafter(edge, 1));
    }
    /* By hand: 2^-10 is 1/1024, and 0.01 * 1024 is 10.24. */
    assert_int_equal(diff_first_position(1.0 / 1024), 11);
    assert_int_equal(diff_first_position(0.5), 1);
    assert_int_equal(diff_first_position(0.004), 3);
    assert_int_equal(diff_first_position(0), -1);
    assert_int_equal(diff_first_position(1e-12), -1); /* 0.002 rad at 2^31 */
    assert_int_equal(diff_first_position(4.7e-12), 2127659575);
}

/* -- frequencies -- */
/* What a comparison of two lists of 64 frequencies comes to. */
typedef struct expected {
    long double relative, gap;
    int pair, max_difference_pair;
} expected;

static expected expect(const long double a[64], const long double b[64]) {
    expected e = {0, 0, -1, -1};
    for (int i = 0; i < 64; i++) {
        const long double gap = fabsl(b[i] - a[i]);
        if (gap / a[i] > e.relative * (1 + 1e-9L)) {
            e.relative = gap / a[i];
            e.pair = i;
        }
        if (gap > e.gap) {
            e.gap = gap;
            e.max_difference_pair = i;
        }
    }
    return e;
}

static long double theta(long double base, int pair) {
    return powl(base, -(long double)pair / 64);
}

/* YaRN's released code, d = 128, base 1e6. */
static long double yarn(int pair, long double length, long double factor) {
    const long double two_pi = 6.283185307179586476925286766559005768L, base = 1e6L;
    const long double low = floorl(128 * logl(length / (two_pi * 32)) / (2 * logl(base)));
    const long double high = ceill(128 * logl(length / two_pi) / (2 * logl(base)));
    long double ramp = ((long double)pair - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return theta(base, pair) * (1 - ramp + ramp / factor);
}

static void check_figures(const char *line, const long double a[64], const long double b[64], int64_t length) {
    const expected e = expect(a, b);
    json_t *root = compare(line, DIFFERENT);
    const json_t *group = group_at(root, 0);
    test_close(test_number(group, "max_relative_difference"), e.relative, 1e-9L * e.relative, line);
    test_close(test_number(group, "max_difference"), e.gap, 1e-9L * e.gap, line);
    assert_int_equal(test_integer(group, "pair"), e.pair);
    assert_int_equal(test_integer(group, "max_difference_pair"), e.max_difference_pair);
    assert_int_equal(test_integer(group, "first_position"), (int64_t)floorl(0.01L / e.gap) + 1);
    assert_int_equal(test_integer(group, "length"), length);
    test_close(test_number(group, "angle_at_length"), e.gap * (long double)length, 1e-9L * e.gap * (long double)length,
               line);
    json_decref(root);
}

static void test_figures(void **state) {
    (void)state;
    long double a[64], b[64];
    for (int i = 0; i < 64; i++) {
        a[i] = theta(10000, i);
        b[i] = theta(10001, i);
    }
    check_figures("diff @plain.json @base.json --json", a, b, 4096);
    check_figures("diff @base.json @plain.json --json --length 100000", b, a, 100000);
    for (int i = 0; i < 64; i++)
        b[i] = a[i] / 4;
    check_figures("diff @plain.json @linear.json --json", a, b, 4096);
    /* Before 4.51 the ramp lay over the enlarged length. */
    for (int i = 0; i < 64; i++) {
        a[i] = yarn(i, 32768, 4);
        b[i] = yarn(i, 131072, 4);
    }
    check_figures("diff @yarn.json --as hf-5 --with hf-4.43 --json --length 64k", a, b, 65536);
    /* From 4.51 to 4.55 the factor was the ratio of the lengths, 8, whatever the file said. */
    for (int i = 0; i < 64; i++)
        b[i] = yarn(i, 32768, 8);
    check_figures("diff @mismatch.json --as hf-5 --with hf-4.51 --json --length 32k", a, b, 32768);
    json_t *root = compare("diff @mismatch.json --as hf-5 --with hf-4.51 --json", DIFFERENT);
    const long double ratio = (0.1L * logl(8) + 1) / (0.1L * logl(4) + 1);
    test_close(test_number(group_at(root, 0), "attention_factor_ratio"), ratio, 1e-12L, "factors");
    test_close(test_number(group_at(root, 0), "score_ratio"), ratio * ratio, 1e-12L, "scores");
    json_decref(root);
}

/* What vLLM makes of a config otherwise than transformers. */
static void test_vllm(void **state) {
    (void)state;
    long double a[64], b[64];
    /* In May 2026 it did not read attention_factor: its own is 0.1 ln 4 + 1 where the file says 1. */
    const long double factor = 0.1L * logl(4) + 1;
    json_t *root = compare("diff @factor.json --with vllm-2026.05 --json", DIFFERENT);
    const json_t *group = group_at(root, 0);
    assert_string_equal(test_string(root, "verdict"),
                        "Same rotations, but scores are 1.30 times larger under vllm-2026.05.");
    test_close(test_number(group, "max_relative_difference"), 0, 1e-12L, "frequencies");
    assert_true(json_is_null(json_object_get(group, "first_position")));
    test_close(test_number(group, "attention_factor_ratio"), factor, 1e-12L, "factor");
    test_close(test_number(group, "score_ratio"), factor * factor, 1e-12L, "scores");
    test_close(test_number(group, "scale_ratio"), 1, 0, "scale");
    json_decref(root);
    assert_verdict(
        "diff @chunks.json --as vllm --with hf-5 --json", DIFFERENT,
        "Same frequencies, but keys of other chunks rotate otherwise from a distance of 514 tokens on; also far is chunked "
        "under vllm-2026.09, as-near under hf-5; chunk_size is 3072 under vllm-2026.09, 0 under hf-5; chunk_local is 512 "
        "under vllm-2026.09, 0 under hf-5.");
    root = compare("diff @chunks.json --as vllm --with hf-5 --json", DIFFERENT);
    assert_int_equal(test_integer(group_at(root, 0), "first_distance"), 514); /* a query 513 past its chunk's start */
    json_decref(root);
    assert_verdict("diff @factor.json --as vllm-2026.05 --with hf-5 --json", DIFFERENT,
                   "Same rotations, but scores are 1.30 times smaller under hf-5.");
    assert_verdict("diff @factor.json --with vllm --json", SAME, "Same.");
    /* Its dynamic base was that of 2 x 4096 tokens at every length: 10000 x 3^(128/126). */
    for (int i = 0; i < 64; i++) {
        a[i] = theta(10000, i);
        b[i] = theta(10000 * powl(3, 128.0L / 126), i);
    }
    check_figures("diff @dynamic.json --with vllm-2026.05 --json --length 4096", a, b, 4096);
    /* There the other one gets at 8192: 2 x 8192 / 4096 - 1 is 3 too. */
    assert_verdict("diff @dynamic.json --with vllm-2026.05 --json --length 8192", SAME,
                   "Same at length 8192, where rope+dynamic and rope+ntk meet.");
}

/* A pair that stands still in one reading has no relative difference, and its whole turn is the gap. */
static void test_unrotated_pairs(void **state) {
    (void)state;
    json_t *root = compare("diff @plain.json @proportional.json --json", DIFFERENT);
    test_close(test_number(group_at(root, 0), "max_relative_difference"), 1, 0, "still in b");
    /* Pairs 32 to 63 stand still; the fastest of them turns by 10000^-0.5 = 0.01 a position. */
    assert_int_equal(test_integer(group_at(root, 0), "max_difference_pair"), 32);
    test_close(test_number(group_at(root, 0), "max_difference"), 0.01L, 1e-15L, "gap");
    json_decref(root);
    root = compare("diff @proportional.json @plain.json --json", DIFFERENT);
    assert_true(json_is_null(json_object_get(group_at(root, 0), "max_relative_difference")));
    assert_non_null(strstr(test_string(root, "verdict"), "does not rotate, under A only"));
    json_decref(root);
}

/* -- the same -- */
static void test_same(void **state) {
    (void)state;
    assert_verdict("diff @plain.json --as hf-5 --with hf-4.43 --json", SAME, "Same.");
    assert_verdict("diff @plain.json @plain.json --json", SAME, "Same.");
    /* Where a value comes from is no difference, nor how it is written. */
    json_t *root = compare("diff @plain.json @spelled.json --json", SAME);
    assert_int_equal(json_array_size(json_object_get(group_at(root, 0), "fields")), 0);
    json_decref(root);
    assert_verdict("diff @bloom.json @bloom.json --json", SAME, "Same.");
    assert_int_equal(run("diff @plain.json --with reference")->exit, SAME);
    assert_non_null(strstr(run("diff @plain.json --with reference")->out, "\nSame.\n"));
}

/* -- words -- */
/* Frequencies that all but vanish, and "all" layers beside a tower's. */
static void test_extreme_numbers(void **state) {
    (void)state;
    char list[2][1024] = {"", ""};
    for (int i = 0; i < 16; i++) {
        snprintf(list[0] + strlen(list[0]), 1024 - strlen(list[0]), "%s1.0", i ? ", " : "");
        snprintf(list[1] + strlen(list[1]), 1024 - strlen(list[1]), "%s%s", i ? ", " : "", i == 15 ? "1e30" : "1.0");
    }
    for (int k = 0; k < 2; k++) {
        char text[4096];
        write_file(k ? "vast.json" : "near.json", text,
                   (size_t)snprintf(text, sizeof text,
                                    "{\"model_type\": \"phi3\", \"hidden_size\": 64, \"num_attention_heads\": 2,\n"
                                    " \"num_hidden_layers\": 2, \"max_position_embeddings\": 8192,\n"
                                    " \"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": "
                                    "\"longrope\", \"short_factor\": [%s], \"long_factor\": [%s]}}",
                                    list[k], list[k]));
    }
    json_t *root = compare("diff @near.json @vast.json --json", DIFFERENT);
    assert_non_null(strstr(test_string(root, "verdict"), "pair 15 does not rotate, under B only"));
    json_decref(root);
    const outcome *o = run("diff @near.json @vast.json");
    assert_non_null(strstr(o->out, "against none")); /* a turn takes 2 pi 10000^(15/16) 10^30 tokens */
    static const char vl[] = "{\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 256, \"num_attention_heads\": 2,\n"
                             " \"num_hidden_layers\": 2, \"max_position_embeddings\": 4096, \"rope_theta\": %s,\n"
                             " \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]},\n"
                             " \"vision_config\": {\"hidden_size\": 256, \"num_heads\": 4, \"depth\": 2,\n"
                             "  \"fullatt_block_indexes\": [1], \"patch_size\": 14, \"spatial_merge_size\": 2}}";
    char text[1024];
    write_file("vl.json", text, (size_t)snprintf(text, sizeof text, vl, "1000000.0"));
    write_file("vl-base.json", text, (size_t)snprintf(text, sizeof text, vl, "500000.0"));
    root = compare("diff @vl.json @vl-base.json --json", DIFFERENT);
    assert_int_equal(strncmp(test_string(root, "verdict"), "In the decoder: different", 25), 0);
    json_decref(root);
}

static void test_verdicts(void **state) {
    (void)state;
    assert_verdict("diff @plain.json @linear.json --json", DIFFERENT,
                   "Different from position 1 on: every pair rotates 4.00 times slower under B.");
    /* g(4) = 0.1 ln 4 + 1 = 1.1386, and scores take its square, 1.2965, which is 1.30. */
    assert_verdict("diff @factor.json @yarn.json --json", DIFFERENT,
                   "Same rotations, but scores are 1.30 times larger under B.");
    assert_verdict("diff @yarn.json @factor.json --json", DIFFERENT,
                   "Same rotations, but scores are 1.30 times smaller under B.");
    assert_verdict("diff @plain.json @bloom.json --json", DIFFERENT, "Different schemes: rope under A, alibi under B.");
    assert_verdict("diff @gpt2.json @gpt2-long.json --json", DIFFERENT,
                   "Different: table_rows is 1024 under A, 2048 under B.");
    assert_verdict("diff @bloom.json @bloom-8.json --json", DIFFERENT, "Different: heads is 16 under A, 8 under B.");
    /* A rope_parameters is not known to transformers 4: the base falls back to 10000. */
    json_t *root = compare("diff @new.json --with hf-4.56 --json", DIFFERENT);
    assert_non_null(strstr(test_string(root, "verdict"), "under hf-4.56"));
    json_decref(root);
}

static void test_groups(void **state) {
    (void)state;
    assert_verdict("diff @kinds.json @window.json --json", DIFFERENT,
                   "In sliding_attention: the same rotations, but window is 512 under A, 1024 under B; the same elsewhere.");
    json_t *root = compare("diff @kinds.json @kinds-base.json --json", DIFFERENT);
    assert_int_equal(json_array_size(json_object_get(root, "groups")), 2);
    assert_true(json_is_true(json_object_get(group_at(root, 0), "same")));
    assert_false(json_is_true(json_object_get(group_at(root, 1), "same")));
    assert_non_null(strstr(test_string(root, "verdict"), "In full_attention: different from position "));
    json_decref(root);
    assert_verdict("diff @kinds.json @kinds-base.json --layer-type sliding_attention --json", SAME, "Same.");
    /* One kind of layers stands against each of several. */
    root = compare("diff @plain.json @kinds.json --json", DIFFERENT);
    assert_int_equal(json_array_size(json_object_get(root, "groups")), 2);
    assert_string_equal(test_string(json_object_get(group_at(root, 1), "name"), "a"), "all");
    assert_string_equal(test_string(json_object_get(group_at(root, 1), "name"), "b"), "full_attention");
    json_decref(root);
}

static const json_t *field_of(const json_t *group, const char *name) {
    size_t i;
    json_t *field;
    json_array_foreach(json_object_get(group, "fields"), i, field) {
        if (strcmp(test_string(field, "name"), name) == 0) return field;
    }
    fail_msg("no field %s", name);
    return NULL;
}

static void test_fields(void **state) {
    (void)state;
    json_t *root = compare("diff @plain.json @linear.json --json", DIFFERENT);
    const json_t *factor = field_of(group_at(root, 0), "factor"), *scaling = field_of(group_at(root, 0), "scaling");
    assert_true(json_is_null(json_object_get(factor, "a")));
    assert_string_equal(test_string(json_object_get(factor, "b"), "value"), "4");
    assert_string_equal(test_string(json_object_get(factor, "b"), "key"), "rope_scaling.factor");
    assert_int_equal(test_integer(json_object_get(factor, "b"), "line"), 7);
    assert_string_equal(test_string(json_object_get(scaling, "a"), "value"), "default");
    assert_string_equal(test_string(json_object_get(scaling, "b"), "value"), "linear");
    json_decref(root);
    /* The reason stands with the reader that has one. */
    root = compare("diff @yarn.json --with hf-4.43 --json", DIFFERENT);
    const json_t *trained = field_of(group_at(root, 0), "trained_length");
    assert_string_equal(test_string(json_object_get(trained, "a"), "value"), "32768");
    assert_string_equal(test_string(json_object_get(trained, "b"), "value"), "131072");
    assert_true(json_is_null(json_object_get(json_object_get(trained, "a"), "why")));
    assert_non_null(strstr(test_string(json_object_get(trained, "b"), "why"), "max_position_embeddings"));
    json_decref(root);
    const outcome *o = run("diff @yarn.json --with hf-4.43");
    assert_int_equal(o->exit, DIFFERENT);
    assert_non_null(strstr(o->out, "hf-5: rope_scaling.original_max_position_embeddings, line 8"));
    assert_non_null(strstr(o->out, "  first position        "));
    assert_null(strchr(o->out, 0x1b));
}

/* -- two formats -- */
enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_STRING = 8 };

static void put_text(FILE *file, const char *text) {
    const uint64_t length = strlen(text);
    assert_int_equal(fwrite(&length, sizeof length, 1, file), 1);
    assert_int_equal(fwrite(text, 1, length, file), length);
}

static void put_key(FILE *file, const char *key, uint32_t type, const void *value) {
    put_text(file, key);
    assert_int_equal(fwrite(&type, sizeof type, 1, file), 1);
    if (type == GGUF_STRING)
        put_text(file, value);
    else
        assert_int_equal(fwrite(value, 4, 1, file), 1);
}

/* llama.cpp's converter reorders the rows of a llama, so that a GGUF pairs neighbours where the config pairs halves: the
 * rotations are the same. */
static void test_formats(void **state) {
    (void)state;
    const uint32_t version = 3, context = 131072, width = 4096, layers = 2, heads = 32, dim = 128, original = 32768;
    const uint64_t counts[2] = {0, 10};
    const float base = 1e6f, factor = 4;
    FILE *file = fopen(in_folder("model.gguf"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("GGUF", 4, 1, file), 1);
    assert_int_equal(fwrite(&version, sizeof version, 1, file), 1);
    assert_int_equal(fwrite(counts, sizeof counts, 1, file), 1);
    put_key(file, "general.architecture", GGUF_STRING, "llama");
    put_key(file, "llama.context_length", GGUF_U32, &context);
    put_key(file, "llama.embedding_length", GGUF_U32, &width);
    put_key(file, "llama.block_count", GGUF_U32, &layers);
    put_key(file, "llama.attention.head_count", GGUF_U32, &heads);
    put_key(file, "llama.rope.dimension_count", GGUF_U32, &dim);
    put_key(file, "llama.rope.freq_base", GGUF_F32, &base);
    put_key(file, "llama.rope.scaling.type", GGUF_STRING, "yarn");
    put_key(file, "llama.rope.scaling.factor", GGUF_F32, &factor);
    put_key(file, "llama.rope.scaling.original_context_length", GGUF_U32, &original);
    assert_int_equal(fclose(file), 0);
    assert_verdict(
        "diff @yarn.json @model.gguf --json", SAME,
        "Same but for the order of channels, which follows that of the weights (half under hf-5, interleaved under "
        "llama.cpp).");
    json_t *root = compare("diff @factor.json @model.gguf --json", DIFFERENT);
    assert_string_equal(test_string(root, "verdict"), "Same rotations, but scores are 1.30 times larger under llama.cpp.");
    assert_true(json_is_true(json_object_get(group_at(root, 0), "reordered")));
    json_decref(root);
}

/* LongRoPE's list goes by the length of a call in transformers and by the allocated context in llama.cpp, which the table
 * and the verdict say whether or not the lists meet. */
static void test_choice_of_list(void **state) {
    (void)state;
    char line[2048];
    static const char *const lengths[] = {"", "--length 4k", "--length 128k"}, *const tokens[] = {"131072", "4096",
                                                                                                  "131072"};
    for (int i = 0; i < 3; i++) {
        char choice[256];
        snprintf(line, sizeof line, "diff %s/configs/phi-3-mini-128k.json --with llama.cpp --json %s", GYRE_TEST_DATA,
                 lengths[i]);
        snprintf(choice, sizeof choice,
                 " hf-5 chooses between the short and the long list in each call, by the tokens it holds: long past 4096; "
                 "llama.cpp when it starts, by the context that it allocates (--ctx-size, %s here).",
                 tokens[i]);
        json_t *root = compare(line, i ? SAME : DIFFERENT);
        assert_non_null(strstr(test_string(root, "verdict"), choice));
        assert_int_equal(json_array_size(json_object_get(group_at(root, 0), "fields")), 2);
        json_decref(root);
    }
    snprintf(line, sizeof line, "diff %s/configs/qwen3-vl-30b-a3b.json --with llama.cpp", GYRE_TEST_DATA);
    const outcome *o = run(line);
    assert_non_null(strstr(o->out, "pair 61 does not rotate, under llama.cpp only"));
    assert_non_null(strstr(o->out, "wavelength 15.2M against none"));
    assert_null(strstr(o->out, "e+30"));
}

/* Start tokens turn as trained in one reading, four times as fast as in the other, whose position 1 is already off. */
static void test_start_tokens(void **state) {
    (void)state;
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
        "\"max_position_embeddings\": 1024, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 1], "
        "\"long_factor\": [1, 4], \"original_max_position_embeddings\": 256, \"start_token_idx\": 64}}";
    write_file("starts.json", text, sizeof text - 1);
    json_t *root = compare("diff @starts.json --with reference --length 1024 --json", DIFFERENT);
    const json_t *group = group_at(root, 0);
    assert_non_null(strstr(test_string(root, "verdict"), "Same frequencies, but start_tokens is 0 under hf-5, 64"));
    test_close(test_number(group, "max_difference"), 0.01 - 0.01 / 4, 1e-12, "of pair 1");
    assert_int_equal(test_integer(group, "first_position"), 2); /* 0.015 rad */
    json_decref(root);
    root =
        compare("diff @starts.json --with reference --length 256 --json", DIFFERENT); /* a setting, without effect there */
    assert_true(json_is_null(json_object_get(group_at(root, 0), "first_position")));
    json_decref(root);
    assert_non_null(strstr(run("diff @starts.json --with reference --length 1024")->out, "rad off, up to token 63"));
}

/* -- refusals and failures -- */
static void test_refusals(void **state) {
    (void)state;
    write_llama("named.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                              " \"rope_scaling\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5}");
    /* transformers 4 never knew "proportional". */
    json_t *root = compare("diff @named.json --as hf-5 --with hf-4.43 --json", REFUSED);
    assert_non_null(strstr(test_string(root, "verdict"), "hf-4.43 refuses this config: "));
    json_decref(root);
    /* A scaling without a type is none to transformers; vLLM raised an error. */
    root = compare("diff @untyped.json --with vllm-2026.05 --json", REFUSED);
    assert_non_null(strstr(test_string(root, "verdict"), "vllm-2026.05 refuses this config: "));
    assert_true(json_is_null(json_object_get(json_object_get(root, "a"), "refused")));
    assert_non_null(strstr(test_string(json_object_get(root, "b"), "refused"), "type"));
    json_decref(root);
    /* The program that refuses is named where the format chose it, too. */
    write_llama("dynamic-yarn.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                                     " \"rope_scaling\": {\"type\": \"dynamic-yarn\", \"factor\": 4.0}");
    root = compare("diff @dynamic-yarn.json --with llama.cpp --json", REFUSED);
    assert_string_equal(test_string(json_object_get(root, "a"), "profile"), "hf-5");
    assert_string_equal(test_string(json_object_get(root, "b"), "profile"), "llama.cpp");
    json_decref(root);
    assert_non_null(strstr(run("diff @dynamic-yarn.json --with llama.cpp")->out, "dynamic-yarn.json read as hf-5\n"));
    const outcome *o = run("diff @untyped.json --as vllm-2026.05 --with hf-5");
    assert_int_equal(o->exit, REFUSED);
    assert_non_null(strstr(o->out, "vllm-2026.05 refuses this config: "));
    write_llama("unknown.json", " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                                " \"rope_scaling\": {\"rope_type\": \"ntk-by-tea-leaves\", \"factor\": 2.0}");
    assert_fails("diff @unknown.json --as hf-5 --with hf-4.56", FAILED, "ntk-by-tea-leaves"); /* nobody reads it */
    assert_fails("diff @plain.json @missing.json", FAILED, "No such file");
    assert_fails("diff @missing.json @plain.json", FAILED, "No such file");
    assert_fails("diff @plain.json @empty", FAILED, "neither a GGUF, which begins with GGUF, nor a JSON object");
}

static void test_failures(void **state) {
    (void)state;
    assert_fails("diff", USAGE, "A: missing");
    assert_fails("diff @plain.json", USAGE, "--with");
    assert_fails("diff @plain.json @base.json @yarn.json", USAGE, "two models at most");
    /* A pipe read twice is empty the second time, which is no refusal. */
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_fails("diff @pipe --with vllm", 1, "not a regular file");
    assert_fails("diff @plain.json --with vllm -o @plain.json", USAGE, "read by this run");
    assert_fails("diff @plain.json --with hf-9", USAGE, "--with: \"hf-9\" is not one of hf-5");
    assert_fails("diff @plain.json --with hf-4.43 --length 0", USAGE, "--length: 0 is below 1");
    assert_fails("diff @kinds.json @plain.json --layer-type none", USAGE,
                 "\"none\" is not one of sliding_attention, full_attention, all");
    assert_int_equal(run("diff --help")->exit, 0);
    assert_int_equal(run("diff @plain.json @base.json -o @result.txt")->exit, DIFFERENT);
    assert_int_equal(access(in_folder("result.txt"), R_OK), 0); /* to differ is no failure: the file stays */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_length_policies), cmocka_unit_test(test_first_position),
                                       cmocka_unit_test(test_figures),         cmocka_unit_test(test_vllm),
                                       cmocka_unit_test(test_unrotated_pairs), cmocka_unit_test(test_same),
                                       cmocka_unit_test(test_extreme_numbers), cmocka_unit_test(test_verdicts),
                                       cmocka_unit_test(test_groups),          cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_formats),         cmocka_unit_test(test_choice_of_list),
                                       cmocka_unit_test(test_start_tokens),    cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_failures),        cmocka_unit_test(test_lists_of_layers)};
    return cmocka_run_group_tests(tests, write_configs, remove_folder);
}

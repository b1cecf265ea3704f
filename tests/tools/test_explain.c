/* test_explain.c: gyre explain from outside: its numbers against 50-digit references and the papers' formulas, its text, and
 * its errors. */
#include "run_command.h"
#include <math.h>

static const long double two_pi = 6.283185307179586476925286766559005768L;

static void write_config(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static const char LLAMA3[] = "{\n"
                             "  \"model_type\": \"llama\",\n"
                             "  \"hidden_size\": 4096,\n"
                             "  \"num_attention_heads\": 32,\n"
                             "  \"num_hidden_layers\": 4,\n"
                             "  \"max_position_embeddings\": 131072,\n"
                             "  \"rope_scaling\": {\n"
                             "    \"factor\": 8.0,\n"
                             "    \"low_freq_factor\": 1.0,\n"
                             "    \"high_freq_factor\": 4.0,\n"
                             "    \"original_max_position_embeddings\": 8192,\n"
                             "    \"rope_type\": \"llama3\"\n"
                             "  },\n"
                             "  \"rope_theta\": 500000.0\n"
                             "}\n";
static const char BLOOM[] = "{\"model_type\": \"bloom\",\n \"hidden_size\": 1024, \"n_head\": 16, \"n_layer\": 2}\n";
static const char T5[] = "{\"model_type\": \"t5\", \"d_kv\": 64, \"num_heads\": 8, \"num_layers\": 2,\n"
                         " \"relative_attention_num_buckets\": 32, \"relative_attention_max_distance\": 128}\n";
static const char GPT2[] = "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": "
                           "1024}\n";
/* Two kinds of layers, each with its own base. */
static const char TWO_KINDS[] =
    "{\"model_type\": \"gemma3_text\", \"head_dim\": 64, \"hidden_size\": 256, \"num_attention_heads\": 4,\n"
    " \"num_hidden_layers\": 6, \"max_position_embeddings\": 32768, \"sliding_window\": 512,\n"
    " \"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"sliding_attention\",\n"
    "  \"sliding_attention\", \"full_attention\"],\n"
    " \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 1000000.0},\n"
    "  \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}}\n";

/* A model by Gyre whose scaling depends on the length. */
static const char FOLLOWS[] =
    "{\"model_type\": \"gyre\", \"position_embedding_type\": \"rope\", \"hidden_size\": 256,\n"
    " \"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"head_dim\": 64, \"max_position_embeddings\": 4096,\n"
    " \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"dynamic-yarn\"}%s}\n";

static int write_configs(void **state) {
    if (make_folder(state)) return -1;
    write_config("llama3.json", LLAMA3);
    write_config("bloom.json", BLOOM);
    write_config("t5.json", T5);
    write_config("gpt2.json", GPT2);
    write_config("kinds.json", TWO_KINDS);
    char text[sizeof FOLLOWS + 64];
    snprintf(text, sizeof text, FOLLOWS, "");
    write_config("declared.json", text);
    snprintf(text, sizeof text, FOLLOWS, ",\n \"length_policy\": \"causal\", \"length_block\": 48");
    write_config("causal.json", text);
    snprintf(text, sizeof text, FOLLOWS, ",\n \"length_policy\": \"prefix\"");
    write_config("prefix.json", text);
    write_config("broken.json", "{\n \"model_type\": \"llama\",\n oops\n}\n");
    if (mkdir(in_folder("model"), 0777)) return -1;
    write_config("model/config.json", LLAMA3);
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "100", 1);
}

/* -- numbers -- */
static void check_case(const json_t *reference) {
    char line[64] = "explain @case.json --json";
    double want[256], got[256], waves[256];
    const char *name = test_string(reference, "name");
    char *text = json_dumps(json_object_get(reference, "config"), 0);
    assert_non_null(text);
    write_config("case.json", text);
    free(text);
    if (!json_is_null(json_object_get(reference, "seq_len")))
        snprintf(line, sizeof line, "explain @case.json --json --length %d", (int)test_integer(reference, "seq_len"));
    json_t *root = run_json(line);
    const size_t pairs = test_numbers(reference, "inv_freq", want, 256);
    assert_int_equal(test_numbers(root, "inv_freq", got, 256), pairs);
    assert_int_equal(test_integer(root, "rotary_dim"), test_integer(reference, "rotary_dim"));
    const json_t *scaling = json_object_get(root, "scaling");
    const int proportional = strcmp(test_string(scaling, "type"), "proportional") == 0;
    if (!proportional)
        assert_int_equal(test_numbers(root, "wavelength", waves, 256), pairs); /* null for a pair that does not rotate */
    for (size_t i = 0; i < pairs; i++) {
        if (fabs(got[i] - want[i]) > 1e-12 * fabs(want[i]))
            fail_msg("%s: pair %zu: %.17g, not %.17g", name, i, got[i], want[i]);
        if (!proportional) test_close(waves[i], two_pi / (long double)want[i], 2e-12L * two_pi / (long double)want[i], name);
    }
    test_close(test_number(root, "attention_factor"), test_number(reference, "attention_factor"), 1e-12L, name);
    json_decref(root);
}

static void test_references(void **state) {
    (void)state;
    json_t *cases = test_reference("rope.json");
    assert_int_equal(json_array_size(cases), 24);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
    json_decref(cases);
}

/* Llama 3.1's rule, pair by pair. */
typedef struct counts {
    int kept, blended, divided, unfinished, incomplete_max_length;
} counts;

static counts count_llama3(void) {
    counts c = {0, 0, 0, 0, 0};
    for (int i = 0; i < 64; i++) {
        const long double theta = powl(500000.0L, -(long double)i / 64), wave = two_pi / theta;
        const long double smooth = (8192 / wave - 1) / 3;
        long double used = (1 - smooth) * theta / 8 + smooth * theta;
        if (wave < 8192.0L / 4) used = theta;
        if (wave > 8192.0L) used = theta / 8;
        c.kept += wave < 8192.0L / 4;
        c.divided += wave > 8192.0L;
        c.unfinished += two_pi / used > 8192;
        c.incomplete_max_length += two_pi / used > 131072;
    }
    c.blended = 64 - c.kept - c.divided;
    return c;
}

/* The current length is reported if something depends on it and it is not the default. */
static void test_length_policies(void **state) {
    (void)state;
    const char *causal = "the length in use is each token's own, its position + 1 up to a multiple of 48",
               *prefix = "the length in use is that of each pass, up to its last token";
    json_t *root = run_json("explain @causal.json --json --length 16384");
    assert_string_equal(test_string(root, "encoding"), "rope+dynamic-yarn");
    const json_t *group = json_array_get(json_object_get(root, "groups"), 0), *scaling = json_object_get(root, "scaling");
    assert_string_equal(test_string(group, "length_policy"), "causal");
    assert_int_equal(test_integer(group, "length_block"), 48);
    assert_string_equal(test_string(scaling, "type"), "dynamic-yarn");
    test_close(test_number(root, "attention_factor"), 0.1L * logl(4) + 1, 1e-15L, "at four times the trained length");
    test_close(test_number(scaling, "attention_factor"), 0.1L * logl(4) + 1, 1e-15L, "the same");
    const json_t *parts = json_object_get(group, "parts"); /* base 10000, 64 channels: the ramp from pair 10 to 23 */
    assert_int_equal(test_integer(parts, "kept"), 11);
    assert_int_equal(test_integer(parts, "divided"), 9);
    json_decref(root);
    root = run_json("explain @declared.json --json");
    group = json_array_get(json_object_get(root, "groups"), 0);
    assert_string_equal(test_string(group, "length_policy"), "declared");
    assert_true(json_is_null(json_object_get(group, "length_block")));
    assert_true(test_number(root, "attention_factor") == 1);
    json_decref(root);
    root = run_json("explain @llama3.json --json");
    group = json_array_get(json_object_get(root, "groups"), 0);
    assert_true(json_is_null(json_object_get(group, "length_policy")));
    json_decref(root);
    assert_non_null(strstr(run("explain @causal.json")->out, causal));
    assert_non_null(strstr(run("explain @prefix.json")->out, prefix));
    assert_null(strstr(run("explain @declared.json")->out, "the length in use is"));
    assert_non_null(strstr(run("explain @declared.json --length 16384")->out, "11 kept, 12 blended, 9 divided"));
}

/* Under dynamic NTK the base follows the length: base (s n / L - (s - 1))^(d / (d - 2)). */
static void test_base_in_use(void **state) {
    (void)state;
    write_config("dynamic.json", "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4,\n"
                                 " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0,\n"
                                 " \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}\n");
    static const struct {
        const char *length;
        double grown;
    } cases[] = {{"2048", 1}, {"4096", 1}, {"8192", 4 * 2 - 3}, {"16384", 4 * 4 - 3}};
    for (int i = 0; i < 4; i++) {
        char line[96];
        snprintf(line, sizeof line, "explain @dynamic.json --json --length %s", cases[i].length);
        json_t *root = run_json(line);
        const json_t *group = json_array_get(json_object_get(root, "groups"), 0);
        const long double want = 10000 * powl(cases[i].grown, 64.0L / 62);
        test_close(test_number(group, "base_in_use"), want, 1e-9L * want, "base in use");
        assert_true(test_number(group, "base") == 10000);
        test_close(test_number(group, "base_in_use"),
                   powl(json_real_value(json_array_get(json_object_get(group, "inv_freq"), 1)), -32), 1e-9L * want,
                   "that of the frequencies");
        json_decref(root);
    }
    assert_non_null(
        strstr(run("explain @dynamic.json --length 16384")->out, "base 141214 in use at 16384 tokens, in place"));
    assert_null(strstr(run("explain @dynamic.json --length 4096")->out, "in use at"));
    unlink(in_folder("dynamic.json"));
}

static void test_parts(void **state) {
    (void)state;
    const counts c = count_llama3();
    json_t *root = run_json("explain @llama3.json --json");
    const json_t *group = json_array_get(json_object_get(root, "groups"), 0), *parts = json_object_get(group, "parts");
    assert_int_equal(test_integer(parts, "kept"), c.kept);
    assert_int_equal(test_integer(parts, "blended"), c.blended);
    assert_int_equal(test_integer(parts, "divided"), c.divided);
    assert_int_equal(test_integer(group, "unfinished"), c.unfinished);
    assert_int_equal(test_integer(group, "reach"), 131072);
    assert_int_equal(test_integer(group, "unfinished_in_reach"), c.incomplete_max_length);
    json_decref(root);
}

/* Every key is there, at the top and in the group. What the file lacks has its default and is marked so. */
static void test_keys(void **state) {
    (void)state;
    static const char *const both[] = {"encoding", "kind",           "layout", "head_dim",           "rotary_dim",
                                       "base",     "scaling",        "length", "attention_factor",   "inv_freq",
                                       "scale",    "trained_length", "window", "softmax_multiplier", "wavelength"};
    static const char *const top[] = {"path", "format", "model_type", "profile", "warnings", "groups"};
    static const char *const group_only[] = {"name", "layers", "fields", "parts", "unfinished"};
    static const char *const files[] = {"explain @llama3.json --json", "explain @t5.json --json",
                                        "explain @gpt2.json --json"};
    for (size_t f = 0; f < 3; f++) {
        json_t *root = run_json(files[f]);
        const json_t *group = json_array_get(json_object_get(root, "groups"), 0);
        for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
            assert_non_null(json_object_get(root, both[i]));
            assert_true(json_equal(json_object_get(root, both[i]), json_object_get(group, both[i])));
        }
        for (size_t i = 0; i < sizeof top / sizeof *top; i++)
            assert_non_null(json_object_get(root, top[i]));
        for (size_t i = 0; i < sizeof group_only / sizeof *group_only; i++)
            assert_non_null(json_object_get(group, group_only[i]));
        json_decref(root);
    }
    json_t *root = run_json("explain @llama3.json --json");
    assert_string_equal(test_string(root, "encoding"), "rope+llama3");
    assert_string_equal(test_string(root, "kind"), "rope");
    assert_string_equal(test_string(root, "layout"), "half");
    assert_string_equal(test_string(root, "profile"), "hf-5");
    assert_int_equal(test_integer(root, "head_dim"), 128);
    assert_int_equal(test_integer(root, "trained_length"), 8192);
    const json_t *scaling = json_object_get(root, "scaling");
    assert_string_equal(test_string(scaling, "type"), "llama3");
    assert_true(test_number(scaling, "factor") == 8 && test_number(scaling, "high_freq_factor") == 4);
    test_close(test_number(root, "scale"), 1 / sqrtl(128.0L), 1e-16L, "scale");
    json_decref(root);
    root = run_json("explain @t5.json --json");
    assert_true(json_is_null(json_object_get(root, "inv_freq")) && json_is_null(json_object_get(root, "base")));
    json_decref(root);
}

/* A model of Gyre's own: its scale is that of the amplitudes. */
static void test_tapa(void **state) {
    static const char config[] =
        "{\"model_type\": \"gyre\", \"position_embedding_type\": \"tapa\", \"tapa_amplitudes\": 9,\n"
        "\"tapa_exponent\": 0.25, \"vocab_size\": 256, \"hidden_size\": 96, \"intermediate_size\": 48,\n"
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"rms_norm_eps\": 1e-5}";
    (void)state;
    write_config("tapa.json", config);
    const outcome *o = run("explain @tapa.json");
    assert_int_equal(o->exit, 0);
    assert_non_null(
        strstr(o->out, "9 of 24 channels are amplitudes, the others rotate them by distance^0.25, at any length"));
    assert_non_null(strstr(o->out, "scores scaled by 0.333333"));
    json_t *root = run_json("explain @tapa.json --json");
    assert_string_equal(test_string(root, "kind"), "tapa");
    test_close(test_number(root, "scale"), 1.0L / 3, 1e-16L, "scale");
    json_decref(root);
    o = run("extend @tapa.json --to 4k");
    assert_non_null(strstr(o->out, "its phase is computed at any length"));
    write_config("paper.json", "{\"model_type\": \"gyre\", \"position_embedding_type\": \"tapa\", \"vocab_size\": 256,\n"
                               "\"hidden_size\": 96, \"intermediate_size\": 48, \"num_hidden_layers\": 2,\n"
                               "\"num_attention_heads\": 4, \"rms_norm_eps\": 1e-5}");
    o = run("diff @tapa.json @paper.json");
    assert_int_equal(o->exit, 3);
    assert_non_null(strstr(o->out, "amplitudes"));
    assert_non_null(strstr(o->out, "exponent"));
}

/* A scheme without a sentence of its own is described by its settings, as config.def names them. */
static void test_settings(void **state) {
    static const struct {
        const char *kind, *says;
    } cases[] = {{"kerple", "decay: log"}, {"fire", "hidden_units: 32"}, {"sandwich", "sinusoid_dim: 128"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[400];
        snprintf(
            config, sizeof config,
            "{\"model_type\": \"gyre\", \"position_embedding_type\": \"%s\", \"vocab_size\": 256, \"hidden_size\": 64,\n"
            "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"rms_norm_eps\": 1e-5}",
            cases[i].kind);
        write_config("settings.json", config);
        json_t *root = run_json("explain @settings.json --json");
        assert_string_equal(test_string(json_array_get(json_object_get(root, "groups"), 0), "scheme"), cases[i].says);
        json_decref(root);
    }
}

static const json_t *field_of(const json_t *group, const char *name) {
    size_t i;
    json_t *field;
    json_array_foreach(json_object_get(group, "fields"), i,
                       field) if (strcmp(test_string(field, "name"), name) == 0) return field;
    fail_msg("no field %s", name);
    return NULL;
}

static void test_fields(void **state) {
    (void)state;
    json_t *root = run_json("explain @llama3.json --json");
    const json_t *group = json_array_get(json_object_get(root, "groups"), 0), *factor = field_of(group, "factor");
    assert_string_equal(test_string(factor, "value"), "8");
    assert_string_equal(test_string(factor, "from"), "file");
    assert_string_equal(test_string(factor, "key"), "rope_scaling.factor");
    assert_int_equal(test_integer(factor, "line"), 8);
    const json_t *head = field_of(group, "head_dim");
    assert_string_equal(test_string(head, "from"), "derived");
    assert_string_not_equal(test_string(field_of(group, "layout"), "from"), "file");
    json_decref(root);
}

/* -- layers -- */
static void test_layer_types(void **state) {
    (void)state;
    json_t *root = run_json("explain @kinds.json --json");
    const json_t *groups = json_object_get(root, "groups");
    assert_int_equal(json_array_size(groups), 2);
    assert_string_equal(test_string(json_array_get(groups, 0), "name"), "sliding_attention");
    assert_int_equal(json_array_size(json_object_get(json_array_get(groups, 0), "layers")), 5);
    assert_int_equal(test_integer(json_array_get(groups, 0), "layers_in_all"), 6);
    assert_true(test_number(root, "base") == 10000);
    json_decref(root);
    root = run_json("explain @kinds.json --json --layer-type full_attention");
    assert_int_equal(json_array_size(json_object_get(root, "groups")), 1);
    assert_true(test_number(root, "base") == 1000000);
    assert_string_equal(test_string(root, "encoding"), "rope+linear");
    json_decref(root);
    const outcome *o = run("explain @kinds.json");
    assert_non_null(strstr(o->out, "sliding_attention - rope - layers 0-4 (of 6)\n"));
    assert_non_null(strstr(o->out, "full_attention - rope+linear - layers 5 (of 6)\n"));
    o = run("explain @kinds.json --layer-type full_attention");
    assert_null(strstr(o->out, "layers 0-4"));
    assert_fails("explain @kinds.json --layer-type full", 2, "\"full\" is not one of sliding_attention, full_attention");
}

/* -- what people see -- */
/* The first line of the output that begins with this, after spaces. Runs of spaces count as one. */
static const char *line_of(const char *out, const char *begins) {
    static char line[512];
    while (*out) {
        size_t n = 0;
        for (out += strspn(out, " "); *out && *out != '\n'; out++)
            if ((*out != ' ' || out[1] != ' ') && n + 1 < sizeof line) line[n++] = *out;
        line[n] = 0;
        if (strncmp(line, begins, strlen(begins)) == 0) return line;
        out += *out == '\n';
    }
    fail_msg("no line \"%s...\"", begins);
    return "";
}

static void test_view(void **state) {
    (void)state;
    char want[256];
    const counts c = count_llama3();
    const outcome *o = run("explain @llama3.json");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, "");
    assert_string_equal(line_of(o->out, "llama -"), "llama - config.json read as hf-5 (transformers 5)");
    assert_string_equal(line_of(o->out, "all -"), "all - rope+llama3 - layers 0-3");
    assert_string_equal(line_of(o->out, "factor "), "factor 8 rope_scaling.factor, line 8");
    assert_string_equal(line_of(o->out, "base "), "base 500000 rope_theta, line 14");
    assert_string_equal(line_of(o->out, "head_dim "), "head_dim 128 derived");
    assert_string_equal(line_of(o->out, "layout "), "layout half default of llama");
    assert_string_equal(line_of(o->out, "pairs "), "pairs wavelength turns in 8192");
    /* Pairs 0 to 3 of base 500000: wavelengths 2 pi to 2 pi 500000^(3/64), revolutions are 8192 over that. */
    assert_string_equal(line_of(o->out, "0-3 "), "0-3 6.28-11.6 1.3k-705 ############################### kept");
    assert_non_null(strstr(line_of(o->out, "35-38 "), "divided (/ 8)"));
    snprintf(want, sizeof want, "64 pairs: %d kept, %d blended, %d divided", c.kept, c.blended, c.divided);
    assert_string_equal(line_of(o->out, "64 pairs"), want);
    snprintf(want, sizeof want, "%d never finish a turn within 8192 tokens, %d within 131072", c.unfinished,
             c.incomplete_max_length);
    assert_string_equal(line_of(o->out, want), want);
    assert_string_equal(line_of(o->out, "attention factor"), "attention factor 1, scores scaled by 0.0883883 in all");
    assert_null(strchr(o->out, 0x1b)); /* no colour into a file */
    o = run("explain @llama3.json --length 32k");
    assert_non_null(strstr(o->out, "length in use 32768"));
    assert_non_null(strstr(o->out, "within 32768\n"));
}

/* At most sixteen rows, in order, that contain every pair once. */
static void test_rows(void **state) {
    (void)state;
    int next = 0, rows = 0, begin, end;
    const outcome *o = run("explain @llama3.json");
    const char *at = strstr(o->out, "pairs ");
    assert_non_null(at);
    for (at = strchr(at, '\n') + 1; next < 64; at = strchr(at, '\n') + 1, rows++) {
        const int found = sscanf(at, " %d-%d ", &begin, &end);
        assert_true(found >= 1);
        if (found == 1) end = begin;
        assert_int_equal(begin, next);
        assert_true(end >= begin && end < 64);
        next = end + 1;
    }
    assert_true(rows <= 16 && rows > 8);
}

/* Unrotated pairs are not spread over rows. Gemma 4: a quarter of 128 pairs rotates. */
static void test_unrotated_pairs(void **state) {
    (void)state;
    write_config("still.json", "{\"model_type\": \"llama\", \"head_dim\": 256, \"max_position_embeddings\": 4096,\n"
                               " \"rope_parameters\": {\"rope_type\": \"proportional\", \"rope_theta\": 1000000.0,\n"
                               "  \"partial_rotary_factor\": 0.25}}");
    const outcome *o = run("explain @still.json");
    assert_string_equal(line_of(o->out, "32-127"), "32-127 still");
    assert_string_equal(line_of(o->out, "128 pairs"), "128 pairs: 32 kept, 96 still");
    assert_string_equal(line_of(o->out, "96 never"), "96 never finish a turn within 4096 tokens");
    json_t *root = run_json("explain @still.json --json");
    assert_true(json_is_null(json_array_get(json_object_get(root, "wavelength"), 32)));
    json_decref(root);
}

/* Wavelengths of 2 pi, 20, 63 and 199 tokens. */
static void test_revolutions_within_a_length(void **state) {
    (void)state;
    write_config("quick.json", "{\"model_type\": \"llama\", \"head_dim\": 8, \"max_position_embeddings\": 4096,\n"
                               " \"rope_theta\": 100.0}");
    assert_string_equal(line_of(run("explain @quick.json")->out, "every"), "every pair finishes a turn within 4096 tokens");
    assert_string_equal(line_of(run("explain @quick.json --length 200")->out, "every"),
                        "every pair finishes a turn within 4096 tokens");
    assert_string_equal(line_of(run("explain @quick.json --length 50")->out, "every"),
                        "every pair finishes a turn within 4096 tokens, all but 2 within 50");
}

static int longest_line(const char *out) {
    int longest = 0, here = 0;
    for (; *out; out++) {
        here = *out == '\n' ? 0 : here + ((*out & 0xC0) != 0x80);
        if (here > longest) longest = here;
    }
    return longest;
}

static void test_width_and_locale(void **state) {
    (void)state;
    write_config("deep.json", "{\"model_type\": \"gemma3_text\", \"head_dim\": 64, \"hidden_size\": 256, "
                              "\"num_attention_heads\": 4,\n \"num_hidden_layers\": 90, \"sliding_window_pattern\": 2, "
                              "\"sliding_window\": 512, \"max_position_embeddings\": 8192}");
    write_config("untold.json", "{\"model_type\": \"llama4\", \"text_config\": {\"model_type\": \"llama4_text\", "
                                "\"head_dim\": 64, \"num_hidden_layers\": 4}, \"vision_config\": {\"hidden_size\": 256, "
                                "\"num_attention_heads\": 4, \"num_hidden_layers\": 2}}");
    static const struct {
        const char *columns;
        int most;
    } widths[] = {{"72", 72}, {"20", 72}, {"100", 100}, {"1000", 160}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        assert_int_equal(setenv("COLUMNS", widths[i].columns, 1), 0);
        const int longest = longest_line(run("explain @llama3.json")->out);
        if (longest > widths[i].most) fail_msg("COLUMNS=%s: a line of %d", widths[i].columns, longest);
        const int layers = longest_line(run("explain @deep.json")->out);
        if (layers > widths[i].most) fail_msg("COLUMNS=%s: a line of %d of layers", widths[i].columns, layers);
        assert_null(strstr(run("explain @untold.json")->out, " \n")); /* no spaces at the end of a line */
    }
    assert_int_equal(setenv("COLUMNS", "100", 1), 0);
    assert_null(strstr(run("explain @llama3.json")->out, "\xe2"));
    assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
    assert_non_null(strstr(run("explain @llama3.json")->out, "\xe2\x96\x88"));
    assert_non_null(strstr(run("explain @llama3.json")->out, "divided (\xc3\xb7"
                                                             "8)"));
    assert_int_equal(setenv("LC_ALL", "C", 1), 0);
}

/* -- schemes without pairs -- */
static void test_schemes(void **state) {
    (void)state;
    double slopes[16];
    /* 16 heads: 2^-0.5, 2^-1, ..., 2^-8; a weight halves where the bias is ln 2: 0.98 and 177 tokens. */
    json_t *root = run_json("explain @bloom.json --json");
    assert_int_equal(test_numbers(json_array_get(json_object_get(root, "groups"), 0), "slopes", slopes, 16), 16);
    for (int h = 0; h < 16; h++)
        test_close(slopes[h], powl(2.0L, -0.5L * (long double)(h + 1)), 1e-15L, "slope");
    json_decref(root);
    assert_int_equal(setenv("COLUMNS", "160", 1), 0);
    assert_string_equal(line_of(run("explain @bloom.json")->out, "16 slopes"),
                        "16 slopes, 0.707107 to 0.00390625 per token: a weight halves every 0.98-177 tokens");
    /* The first distances of T5's buckets, causal, as its paper's code has them. */
    const outcome *o = run("explain @t5.json --layer-type decoder");
    const char *line =
        strstr(o->out, "32 buckets: distances 0-15 have one each, then one begins at 16, 19, 21, 24, 27, 31, 35");
    assert_non_null(line);
    assert_non_null(strstr(line, "77, 87, 99, 113; the last has no end"));
    assert_int_equal(setenv("COLUMNS", "100", 1), 0);
    assert_string_equal(line_of(run("explain @gpt2.json")->out, "a table"),
                        "a table of 1024 rows: positions 0-1023, and none past them");
}

/* -- warnings, files, failures -- */
static void test_warnings(void **state) {
    (void)state;
    /* A model that does not exist is read as a llama, with a warning. */
    write_config("odd.json", "{\"model_type\": \"oddity\",\n \"head_dim\": 64,\n \"max_position_embeddings\": 2048, "
                             "\"rope_theta\": 10000.0}");
    const outcome *o = run("explain @odd.json");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, "");
    const char *mark = strstr(o->out, "\n! ");
    assert_non_null(mark);
    assert_non_null(strstr(mark, "model_type"));
    json_t *root = run_json("explain @odd.json --json");
    const json_t *warning = json_array_get(json_object_get(root, "warnings"), 0);
    assert_string_equal(test_string(warning, "key"), "model_type");
    assert_int_equal(test_integer(warning, "line"), 1);
    assert_non_null(strstr(test_string(warning, "text"), "oddity"));
    json_decref(root);
}

/* Text from a file must not move the cursor of a terminal, nor break JSON. */
static void test_control_characters(void **state) {
    (void)state;
    write_config("escape.json", "{\"model_type\": \"a\\u001b[2Jb\\u000ac\", \"head_dim\": 64,\n"
                                " \"max_position_embeddings\": 2048, \"rope_theta\": 10000.0}");
    const outcome *o = run("explain @escape.json");
    assert_int_equal(o->exit, 0);
    assert_null(strchr(o->out, 0x1b));
    assert_non_null(strstr(o->out, "a?[2Jb?c"));
    json_decref(run_json("explain @escape.json --json"));
    write_config("latin-\xe9.json", LLAMA3);
    json_decref(run_json("explain @latin-\xe9.json --json"));
}

static void test_output_file(void **state) {
    (void)state;
    static char printed[1 << 16], written[1 << 16];
    memcpy(printed, run("explain @model")->out, sizeof printed);
    assert_non_null(strstr(printed, "/model/config.json\n"));
    const outcome *o = run("explain @model -o @result.txt");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->out, "");
    read_whole(in_folder("result.txt"), written, sizeof written);
    assert_string_equal(written, printed);
    assert_fails("explain @model -o @nowhere/result.txt", 1, "--output");
}

static void test_failures(void **state) {
    (void)state;
    assert_fails("explain", 2, "MODEL: missing");
    assert_fails("explain @llama3.json @t5.json", 2, "one model at a time");
    assert_fails("explain @llama3.json -o @llama3.json", 2, "read by this run");
    assert_fails("explain @llama3.json --as hf-3", 2, "--as: \"hf-3\" is not one of hf-5");
    assert_fails("explain @llama3.json --length 0", 2, "--length: 0 is below 1");
    assert_fails("explain @llama3.json --length 4294967296", 2, "--length");
    assert_fails("explain @llama3.json --length long", 2, "not a whole number");
    assert_fails("explain @missing.json", 1, "No such file");
    /* The name of a model on a hub. */
    assert_fails("explain Qwen/Qwen2.5-7B", 1,
                 "Qwen/Qwen2.5-7B: no such file or folder, and not in the Hugging Face cache; nothing is");
    assert_fails("eval Qwen/Qwen2.5-7B --text @t5.json", 1, "nothing is downloaded");
    assert_fails("diff Qwen/Qwen2.5-7B --with vllm", 1, "nothing is downloaded");
    assert_fails("explain missing/config.json", 1, "No such file");
    assert_fails("explain @nothing", 1, "config.json");
    assert_fails("explain @broken.json", 1, "line 3");
    assert_fails("explain @broken.json --json", 1, "line 3");
    assert_fails("explain @empty", 1, "neither a GGUF, which begins with GGUF, nor a JSON object");
    assert_int_equal(run("explain --help")->exit, 0);
    assert_non_null(strstr(run("--help")->out, "explain"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_references),
                                       cmocka_unit_test(test_base_in_use),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_length_policies),
                                       cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_tapa),
                                       cmocka_unit_test(test_settings),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_layer_types),
                                       cmocka_unit_test(test_view),
                                       cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_unrotated_pairs),
                                       cmocka_unit_test(test_revolutions_within_a_length),
                                       cmocka_unit_test(test_width_and_locale),
                                       cmocka_unit_test(test_schemes),
                                       cmocka_unit_test(test_warnings),
                                       cmocka_unit_test(test_control_characters),
                                       cmocka_unit_test(test_output_file),
                                       cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, write_configs, remove_folder);
}

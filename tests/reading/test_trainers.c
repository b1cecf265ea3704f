/* test_trainers.c: the rotation that the settings of trainers state, by values of each trainer's formula written again here,
 * and settings that are refused. */
#include "check_engine_reading.h"

#include "files/yaml_read.h"
#include "temp_folder.h"

#ifdef GYRE_HAVE_YAML
#define NEEDS_YAML() (void)0
#else
#define NEEDS_YAML() skip() /* built without libyaml */
#endif

static gyre_status try_text(gyre_profile profile, const char *text, size_t bytes, gyre_reading **out, gyre_error *err) {
    *out = NULL;
    return gyre_reading_parse(out, text, bytes, GYRE_ARGS(gyre_reading_options, .profile = profile, .name = "settings"),
                              err);
}
static gyre_reading *read_text(gyre_profile profile, const char *text) {
    gyre_reading *reading;
    gyre_error err = {0, ""};
    if (try_text(profile, text, strlen(text), &reading, &err)) fail_msg("%s\n%s", err.text, text);
    return reading;
}
static void refuses_bytes(gyre_profile profile, const char *text, size_t bytes, gyre_status status, const char *part) {
    gyre_reading *reading;
    gyre_error err = {0, ""};
    const gyre_status got = try_text(profile, text, bytes, &reading, &err);
    gyre_reading_free(reading);
    if (got != status || !strstr(err.text, part)) fail_msg("%d \"%s\" for\n%.300s", (int)got, err.text, text);
}
static void refuses(gyre_profile profile, const char *text, gyre_status status, const char *part) {
    refuses_bytes(profile, text, strlen(text), status, part);
}
static gyre_reading *read_file(gyre_profile profile, const char *name) {
    char path[400];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    snprintf(path, sizeof path, GYRE_TEST_DATA "/trainers/%s", name);
    if (gyre_reading_open(&reading, path, GYRE_ARGS(gyre_reading_options, .profile = profile), &err))
        fail_msg("%s", err.text);
    assert_int_equal(reading->profile, profile);
    assert_string_equal(reading->format, "settings");
    return reading;
}

/* The frequencies of a group. */
static engine_figures figures_of(const gyre_layer_reading *group) {
    engine_figures out = {{0}, 0, 0};
    gyre_encoding *encoding = test_encoding(&group->config);
    out.pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    assert_true(out.pairs <= ENGINE_PAIRS);
    assert_ok(gyre_encoding_frequencies(encoding, 0, out.omega, &out.attention));
    gyre_encoding_free(encoding);
    return out;
}

/* -- formulas of the trainers -- */
static const long double two_pi = 6.283185307179586476925286766559L;

/* Of Megatron and torchtitan: slow wavelengths are divided, and those between take a share of both. */
static long double llama_frequency(long double freq, long double factor, long double low, long double high,
                                   long double old) {
    const long double wave = two_pi / freq, divided = wave > old / low ? freq / factor : freq;
    if (wave < old / high || wave > old / low) return divided;
    const long double smooth = (old / wave - low) / (high - low);
    return (1.0L - smooth) * divided / factor + smooth * divided;
}

/* The pair that turns `turns` times in `old` tokens. */
static long double correction(long double turns, long double dim, long double base, long double old) {
    return dim * logl(old / (turns * two_pi)) / (2.0L * logl(base));
}

/* Of Megatron, torchtitan and transformers: a ramp between two pairs, rounded outwards or not. */
static long double yarn_frequency(int64_t pair, int64_t dim, long double base, long double factor, long double old,
                                  int rounds) {
    long double low = correction(32.0L, (long double)dim, base, old), high = correction(1.0L, (long double)dim, base, old);
    if (rounds) low = floorl(low), high = ceill(high);
    low = fmaxl(low, 0.0L);
    high = fminl(high, (long double)dim - 1.0L);
    if (low == high) high += 0.001L;
    const long double ramp = fminl(fmaxl(((long double)pair - low) / (high - low), 0.0L), 1.0L),
                      freq = 1.0L / powl(base, 2.0L * (long double)pair / (long double)dim);
    return freq / factor * ramp + freq * (1.0L - ramp);
}

static void check_yarn(const engine_figures *got, int64_t dim, long double base, long double factor, long double old,
                       int rounds) {
    assert_int_equal(got->pairs, dim / 2);
    for (int64_t i = 0; i < got->pairs; i++)
        engine_is(got->omega[i], yarn_frequency(i, dim, base, factor, old, rounds), "yarn");
}

/* -- Megatron-LM -- */
static void megatron_llama3(void **state) {
    (void)state;
    gyre_reading *reading = read_file(GYRE_PROFILE_MEGATRON, "megatron-llama3.sh");
    const gyre_layer_reading *group = group_of(reading, "all");
    const engine_figures got = figures_of(group);
    assert_int_equal(got.pairs, 32); /* half of 128 channels */
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], llama_frequency(paper_theta(500000.0L, 64, i), 32.0L, 1.0L, 4.0L, 8192.0L), "llama3");
    assert_int_equal(group->config.rope.layout, GYRE_LAYOUT_HALF);
    assert_field(group, "base", "500000", GYRE_ORIGIN_FILE, "rotary_base", 9);
    assert_field(group, "factor", "32", GYRE_ORIGIN_FILE, "rope_scaling_factor", 11);
    assert_int_equal(group->layers_count, 6);
    const gyre_layer_reading *still = group_of(reading, "no_rope");
    assert_int_equal(still->layers_count, 2);
    assert_int_equal(still->layers[0], 3);
    assert_int_equal(still->layers[1], 7);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
}

static void megatron_yarn(void **state) {
    (void)state;
    NEEDS_YAML();
    gyre_reading *reading = read_file(GYRE_PROFILE_MEGATRON, "megatron-yarn.yaml");
    const engine_figures got = figures_of(group_of(reading, "all"));
    check_yarn(&got, 64, 150000.0L, 32.0L, 4096.0L, 0);
    test_close(got.attention, 1.3465735902799727L, 1e-12L, "0.1 ln 32 + 1");
    gyre_reading_free(reading);
}

static void megatron_arguments(void **state) {
    (void)state;
    static const struct {
        const char *text;
        long double base, divisor;
        int64_t dim;
        gyre_layout layout;
    } lines[] = {
        {"pretrain.py --position-embedding-type rope --kv-channels 64 --num-layers 2", 10000, 1, 64, GYRE_LAYOUT_HALF},
        {"--use-rotary-position-embeddings --kv-channels=64 --rotary-base=1000000", 1e6L, 1, 64, GYRE_LAYOUT_HALF},
        {"--position-embedding-type rope --kv-channels 64 --rotary-interleaved --rotary-seq-len-interpolation-factor 8",
         10000, 8, 64, GYRE_LAYOUT_INTERLEAVED},
        {"B=20000\nA=($B)\n--position-embedding-type \"rope\" --rotary-base ${B} --hidden-size 256 --num-attention-heads 4",
         20000, 1, 64, GYRE_LAYOUT_HALF},
        {"--position-embedding-type rope --kv-channels 64 --rotary-percent 0.25", 10000, 1, 16, GYRE_LAYOUT_HALF}};
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        gyre_reading *reading = read_text(GYRE_PROFILE_MEGATRON, lines[n].text);
        const engine_figures got = figures_of(reading->groups[0]);
        assert_int_equal(got.pairs, lines[n].dim / 2);
        assert_int_equal(reading->groups[0]->config.rope.layout, lines[n].layout);
        for (int64_t i = 0; i < got.pairs; i++)
            engine_is(got.omega[i], paper_theta(lines[n].base, lines[n].dim, i) / lines[n].divisor, lines[n].text);
        gyre_reading_free(reading);
    }
}

/* Latent attention: scores are multiplied by the square of the magnitude, under rope too. */
static void megatron_latent(void **state) {
    (void)state;
    static const char *const types[] = {"yarn", "rope"};
    for (int t = 0; t < 2; t++) {
        char text[400];
        snprintf(text, sizeof text,
                 "--multi-latent-attention --position-embedding-type rope --rope-type %s --qk-head-dim 128 "
                 "--qk-pos-emb-head-dim 64 --rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0",
                 types[t]);
        gyre_reading *reading = read_text(GYRE_PROFILE_MEGATRON, text);
        const gyre_layer_reading *group = reading->groups[0];
        const engine_figures got = figures_of(group);
        const long double magnitude = 0.1L * logl(40.0L) + 1.0L;
        for (int64_t i = 0; i < got.pairs; i++)
            engine_is(got.omega[i], t ? paper_theta(10000.0L, 64, i) : yarn_frequency(i, 64, 10000.0L, 40.0L, 4096.0L, 1),
                      text);
        assert_int_equal(got.pairs, 32);
        test_close(got.attention, 1.0L, 1e-15L, "attention factor");
        test_close(group->softmax_multiplier, magnitude * magnitude, 1e-14L, "softmax");
        test_close(group->scale, magnitude * magnitude / sqrtl(192.0L), 1e-14L, "scale");
        assert_int_equal(group->config.rope.first_channel, 128);
        assert_int_equal(group->config.rope.layout, GYRE_LAYOUT_INTERLEAVED_TO_HALF);
        gyre_reading_free(reading);
    }
}

static void megatron_layers(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *still; /* a letter for each layer that does not rotate */
    } rows[] = {{"3", "001001"}, {"[1]+[0]*5", "100000"}, {"([0]*2+[1]*1)*2", "001001"}, {"[0,1,0,1,0,1]", "010101"}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        char text[200];
        snprintf(text, sizeof text, "--position-embedding-type rope --kv-channels 8 --num-layers 6 --no-rope-freq '%s'",
                 rows[n].pattern);
        gyre_reading *reading = read_text(GYRE_PROFILE_MEGATRON, text);
        const gyre_layer_reading *still = group_of(reading, "no_rope");
        char got[7] = "000000";
        for (int64_t i = 0; i < still->layers_count; i++)
            got[still->layers[i]] = '1';
        assert_string_equal(got, rows[n].still);
        gyre_reading_free(reading);
    }
    gyre_reading *reading = read_text(GYRE_PROFILE_MEGATRON, "--position-embedding-type none");
    assert_int_equal(reading->groups[0]->config.kind, GYRE_KIND_NOPE);
    gyre_reading_free(reading);
}

#define ROPE "--position-embedding-type rope --kv-channels 64 "
static void megatron_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
        gyre_status status;
    } rows[] = {{"--hidden-size 64", "Megatron's default, learned_absolute, has no rotation", GYRE_EUNSUPPORTED},
                {"--position-embedding-type mrope --kv-channels 64", "\"mrope\" is not read", GYRE_EUNSUPPORTED},
                {"--position-embedding-type rope", "hidden_size: missing", GYRE_EFORMAT},
                {"--position-embedding-type rope --hidden-size 100 --num-attention-heads 3", "do not divide", GYRE_EFORMAT},
                {ROPE "--rotary-base $BASE", "$BASE is not set in this text", GYRE_EFORMAT},
                {ROPE "--rotary-base 1", "is not above 1", GYRE_EFORMAT},
                {ROPE "--rotary-base many", "rotary_base", GYRE_EFORMAT},
                {ROPE "--rotary-base 1 2 3", "rotary_base", GYRE_EFORMAT},
                {ROPE "--rotary-percent 0.001", "less than a pair", GYRE_EFORMAT},
                {ROPE "--use-rope-scaling --rotary-seq-len-interpolation-factor 2", "together with use_rope_scaling",
                 GYRE_EUNSUPPORTED},
                {ROPE "--rotary-seq-len-interpolation-factor 0.5", "below 1", GYRE_EFORMAT},
                {"--position-embedding-type yarn --kv-channels 64 --rotary-interleaved", "refuses interleaved pairs",
                 GYRE_EUNSUPPORTED},
                {ROPE "--num-layers 8 --no-rope-freq 3", "does not divide", GYRE_EFORMAT},
                {ROPE "--num-layers 8 --no-rope-freq [0,1]", "2 entries for 8 layers", GYRE_EFORMAT},
                {ROPE "--num-layers 8 --no-rope-freq [2]*8", "not a list", GYRE_EFORMAT},
                {ROPE "--num-layers 8 --no-rope-freq ([0]*4096)*4096", "not a list", GYRE_EFORMAT},
                {ROPE "--num-layers 8 --no-rope-freq ((((((((((((((((((((([0]", "not a list", GYRE_EFORMAT},
                {ROPE "--num-layers 100000", "the most is 4096", GYRE_EFORMAT},
                {ROPE "--kv-channels 100000000", "the most is 65536", GYRE_EFORMAT},
                {"{\"model_type\": \"llama\"}", "this is a config.json", GYRE_EUNSUPPORTED}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
#ifndef GYRE_HAVE_YAML
        if (*rows[n].text == '{') continue;
#endif
        refuses(GYRE_PROFILE_MEGATRON, rows[n].text, rows[n].status, rows[n].part);
    }
}

static void megatron_doubts_what_it_does_not_read(void **state) {
    (void)state;
    gyre_reading *reading = read_text(GYRE_PROFILE_MEGATRON, ROPE "\n--window-size 128,0");
    assert_warns(reading, "window_size", "window_size", 2);
    gyre_reading_free(reading);
}

/* -- torchtitan -- */
static void torchtitan(void **state) {
    (void)state;
    gyre_reading *reading = read_file(GYRE_PROFILE_TORCHTITAN, "torchtitan.py");
    assert_int_equal(reading->groups_count, 2);
    engine_figures got = figures_of(group_of(reading, "debugmodel"));
    assert_int_equal(got.pairs, 64);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], llama_frequency(paper_theta(500000.0L, 128, i), 8.0L, 1.0L, 4.0L, 8192.0L), "llama");
    assert_int_equal(group_of(reading, "debugmodel")->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    assert_field(group_of(reading, "debugmodel"), "base", "500000", GYRE_ORIGIN_FILE, "debugmodel.theta", 11);
    got = figures_of(group_of(reading, "oss"));
    check_yarn(&got, 64, 150000.0L, 32.0L, 4096.0L, 0);
    test_close(got.attention, 1.0L, 1e-15L, "a pure rotation");
    assert_int_equal(group_of(reading, "oss")->config.rope.layout, GYRE_LAYOUT_HALF);
    gyre_reading_free(reading);
    static const struct {
        const char *text, *part;
        gyre_status status;
    } rows[] = {
        {"[job]\nfolder = \"x\"\n", "a TOML file names only the model", GYRE_EUNSUPPORTED},
        {"x = RoPE.Config(dim=64, max_context_length=1)", "a matter of ComplexRoPE and CosSinRoPE", GYRE_EUNSUPPORTED},
        {"ComplexRoPE.Config(dim=64, max_context_length=1", "parenthesis is not closed", GYRE_EFORMAT},
        {"ComplexRoPE.Config(max_context_length=1)", "dim", GYRE_EFORMAT},
        {"ComplexRoPE.Config(dim=head_dim)", "only numbers, words, and products", GYRE_EUNSUPPORTED},
        {"def f():\n    a = 2 * a\n    ComplexRoPE.Config(dim=a)", "only numbers, words", GYRE_EUNSUPPORTED},
        {"ComplexRoPE.Config(**kwargs)", "not NAME=VALUE", GYRE_EUNSUPPORTED},
        {"CosSinRoPE.Config(dim=64, scaling=\"llama\")", "CosSinRoPE refuses it", GYRE_EUNSUPPORTED},
        {"CosSinRoPE.Config(dim=64, scaling=\"ntk\")", "\"ntk\" is not known", GYRE_EUNSUPPORTED},
        {"CosSinRoPE.Config(dim=64, scaling=\"yarn\", rope_factor=0.5)", "below 1", GYRE_EFORMAT}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        refuses(GYRE_PROFILE_TORCHTITAN, rows[n].text, rows[n].status, rows[n].part);
}

/* Names that lead to names: each one is looked for in the text, so their number is bounded. */
static void torchtitan_is_bounded(void **state) {
    (void)state;
    enum { SIZE = 200000 };
    char *text = calloc(1, SIZE);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < 9; i++)
        used += (size_t)snprintf(text + used, SIZE - used, "a%d = 1 * a%d * a%d * a%d * a%d * a%d * a%d * a%d\n", i, i + 1,
                                 i + 1, i + 1, i + 1, i + 1, i + 1, i + 1);
    memset(text + used, ' ', 150000);
    used += 150000;
    snprintf(text + used, SIZE - used, "ComplexRoPE.Config(dim=a0)");
    refuses(GYRE_PROFILE_TORCHTITAN, text, GYRE_EUNSUPPORTED, "only numbers");
    free(text);
    text = calloc(1, 1 << 19);
    memset(text, ' ', (1 << 19) - 1);
    text[(1 << 19) - 1] = '\0';
    refuses(GYRE_PROFILE_TORCHTITAN, text, GYRE_EFORMAT, "longer than 256 KiB");
    free(text);
}

/* -- axolotl and LLaMA-Factory -- */
static void axolotl(void **state) {
    (void)state;
    NEEDS_YAML();
    gyre_reading *reading = read_file(GYRE_PROFILE_AXOLOTL, "axolotl-yarn.yaml");
    const gyre_layer_reading *group = group_of(reading, "all");
    engine_figures got = figures_of(group);
    check_yarn(&got, 128, 250000.0L, 4.0L, 8192.0L, 1);
    test_close(got.attention, paper_magnitude(4.0L, 1.0L), 1e-14L, "attention factor");
    assert_field(group, "factor", "4", GYRE_ORIGIN_FILE, "rope_parameters.factor", 14);
    assert_field(group, "max_length", "32768", GYRE_ORIGIN_FILE, "max_position_embeddings", 10);
    assert_string_equal(reading->model_type, "llama");
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    /* rope_scaling is another name of rope_parameters, and a rope_theta beside it comes too late. */
    reading = read_file(GYRE_PROFILE_AXOLOTL, "axolotl-old-names.yaml");
    got = figures_of(group_of(reading, "all"));
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(500000.0L, 128, i) / 2.0L, "linear");
    assert_warns(reading, "an old name of rope_parameters", "overrides_of_model_config.rope_scaling", 5);
    assert_warns(reading, "has no effect", "overrides_of_model_config.rope_theta", 4);
    gyre_reading_free(reading);
}

static void llama_factory(void **state) {
    (void)state;
    NEEDS_YAML();
    gyre_reading *reading = read_file(GYRE_PROFILE_LLAMA_FACTORY, "llama-factory-yarn.yaml");
    engine_figures got = figures_of(group_of(reading, "all"));
    check_yarn(&got, 128, 500000.0L, 4.0L, 8192.0L, 1); /* 4 = ceil(30000 / 8192) */
    test_close(got.attention, paper_magnitude(4.0L, 1.0L), 1e-14L, "attention factor");
    assert_field(group_of(reading, "all"), "max_length", "32768", GYRE_ORIGIN_FILE, "max_position_embeddings", 5);
    assert_warns(reading, "with transformers 5 LLaMA-Factory stops", "rope_scaling", 3);
    gyre_reading_free(reading);
    reading = read_file(GYRE_PROFILE_LLAMA_FACTORY, "llama-factory-short.yaml");
    got = figures_of(group_of(reading, "all"));
    check_base(&got, 500000.0L);
    assert_warns(reading, "LLaMA-Factory leaves it out", "rope_scaling", 2);
    gyre_reading_free(reading);
}

/* Writes settings to a file, and reads them. */
static void check_changed(gyre_profile profile, const char *text, gyre_status status, const char *part) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    write_file("run.yaml", text, strlen(text));
    const gyre_status got =
        gyre_reading_open(&reading, in_folder("run.yaml"), GYRE_ARGS(gyre_reading_options, .profile = profile), &err);
    gyre_reading_free(reading);
    if (got != status || !strstr(err.text, part)) fail_msg("%d \"%s\" for\n%s", (int)got, err.text, text);
}

static void changed_configs_refuse(void **state) {
    (void)state;
    NEEDS_YAML();
    static const struct {
        gyre_profile profile;
        const char *text, *part;
        gyre_status status;
    } rows[] = {
        {GYRE_PROFILE_AXOLOTL, "base_model: NousResearch/Llama-3.2-1B", "nothing is downloaded", GYRE_EUNSUPPORTED},
        {GYRE_PROFILE_AXOLOTL, "sequence_len: 1", "base_model", GYRE_EFORMAT},
        {GYRE_PROFILE_AXOLOTL, "base_model: base\nrope_scaling: {type: linear}", "belongs under overrides_of_model_config",
         GYRE_EFORMAT},
        {GYRE_PROFILE_AXOLOTL,
         "base_model: base\noverrides_of_model_config:\n  rope_parameters: {rope_type: linear, factor: 2.0}",
         "without a base transformers 5 stops", GYRE_EFORMAT},
        {GYRE_PROFILE_AXOLOTL, "base_model: base\noverrides_of_model_config: 5", "overrides_of_model_config", GYRE_EFORMAT},
        {GYRE_PROFILE_LLAMA_FACTORY, "model_name_or_path: x/y", "nothing is downloaded", GYRE_EUNSUPPORTED},
        {GYRE_PROFILE_LLAMA_FACTORY, "model_name_or_path: base\nrope_scaling: longrope", "\"longrope\" is not known",
         GYRE_EUNSUPPORTED},
        {GYRE_PROFILE_NANOTRON, "model: {model_config: {hidden_size: 8}}", "the model of nanotron is unknown",
         GYRE_EFORMAT}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        check_changed(rows[n].profile, rows[n].text, rows[n].status, rows[n].part);
    refuses(GYRE_PROFILE_AXOLOTL, "base_model: llama", GYRE_EUNSUPPORTED, "only settings in a file can name a model");
}

/* -- nanotron -- */
static void nanotron(void **state) {
    (void)state;
    NEEDS_YAML();
    gyre_reading *reading = read_file(GYRE_PROFILE_NANOTRON, "nanotron-qwen2.yaml");
    const gyre_layer_reading *group = group_of(reading, "all");
    const engine_figures got = figures_of(group);
    assert_int_equal(got.pairs, 64);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(50000.0L, 128, i) / 4.0L, "positions over 4");
    assert_int_equal(group->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    assert_int_equal(group_of(reading, "no_rope")->layers[0], 2);
    assert_int_equal(group_of(reading, "no_rope")->layers[1], 5);
    gyre_reading_free(reading);
    /* Its Llama reads no factor, and no model a rope_scaling. */
    reading = read_text(GYRE_PROFILE_NANOTRON, "model:\n  model_config:\n    is_llama_config: true\n    hidden_size: 256\n"
                                               "    num_attention_heads: 4\n    rope_seq_len_interpolation_factor: 4.0\n"
                                               "    rope_scaling: {type: linear, factor: 4.0}\n");
    const engine_figures plain = figures_of(reading->groups[0]);
    check_base(&plain, 10000.0L);
    assert_warns(reading, "no model of nanotron reads it", "model.model_config.rope_scaling", 7);
    assert_warns(reading, "rope_seq_len_interpolation_factor", "model.model_config.rope_seq_len_interpolation_factor", 6);
    gyre_reading_free(reading);
    refuses(GYRE_PROFILE_NANOTRON,
            "model: {model_config: {is_llama_config: true, hidden_size: 64, num_attention_heads: 1, rope_theta: 5e5}}",
            GYRE_EFORMAT, "is a text to YAML, which writes the number as 500000.0");
}

/* -- YAML from strangers -- */
static void hostile_yaml(void **state) {
    (void)state;
    NEEDS_YAML();
    enum { SIZE = (1 << 20) + 2 };
    char *text = calloc(1, SIZE);
    assert_non_null(text);
    static const struct {
        const char *text, *part;
        gyre_status status;
    } rows[] = {{"", "empty", GYRE_EFORMAT},
                {"- 1\n- 2\n", "not a mapping", GYRE_EFORMAT},
                {"a: 1\n---\nb: 2\n", "more than one document", GYRE_EFORMAT},
                {"a: !!python/object/apply:os.system [ls]\n", "tags are not read", GYRE_EUNSUPPORTED},
                {"a: &x {b: 1}\nc: {<<: *x}\n", "merge keys", GYRE_EUNSUPPORTED},
                {"a: *nowhere\n", "alias of nothing", GYRE_EFORMAT},
                {"a: &x [*x]\n", "alias of nothing", GYRE_EFORMAT},
                {"a: \"\\0\"\n", "NUL", GYRE_EFORMAT},
                {"a: [1, 2\n", "YAML", GYRE_EFORMAT},
                {"a: \xff\n", "YAML", GYRE_EFORMAT},
                {"? [1, 2]\n: 3\n", "a key that is no text", GYRE_EFORMAT}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        refuses(GYRE_PROFILE_NANOTRON, rows[n].text, rows[n].status, rows[n].part);
    refuses_bytes(GYRE_PROFILE_NANOTRON, "a: \0b", 5, GYRE_EFORMAT, "not a text");
    /* Depth. */
    memset(text, '[', 1000);
    memcpy(text, "a: ", 3);
    text[1000] = '\0';
    refuses(GYRE_PROFILE_NANOTRON, text, GYRE_EFORMAT, "nested too deeply");
    /* Ten aliases of ten aliases of ...: 10^9 values if they were expanded. */
    size_t used = (size_t)snprintf(text, SIZE, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 9; i++)
        used += (size_t)snprintf(text + used, SIZE - used,
                                 "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
                                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    refuses(GYRE_PROFILE_NANOTRON, text, GYRE_EFORMAT, "too many values");
    /* Length. */
    memset(text, 'a', SIZE - 1);
    text[SIZE - 1] = '\0';
    refuses(GYRE_PROFILE_NANOTRON, text, GYRE_EFORMAT, "longer than 1 MiB");
    memset(text, 'a', 3000);
    strcpy(text + 3000, ": 1\n");
    refuses(GYRE_PROFILE_NANOTRON, text, GYRE_EFORMAT, "YAML");
    free(text);
}

static void yaml_scalars(void **state) {
    (void)state;
    NEEDS_YAML();
    static const char text[] =
        "a: 1\nb: 1.5\nc: 1e5\nd: 1.0e+5\ne: yes\nf: ~\ng: '1'\nh: 1_000\ni: 010\nj: -3\nk: .5\nl: off\n"
        "m: 1e400\nn: 99999999999999999999\no: null text\na: 2\n";
    json_t *root, *lines;
    gyre_error err = {0, ""};
    assert_ok(gyre_yaml_read(&root, &lines, text, strlen(text), "x", &err));
    char *got = json_dumps(root, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    assert_string_equal(got,
                        "{\"a\": 2, \"b\": 1.5, \"c\": \"1e5\", \"d\": 100000.0, \"e\": true, \"f\": null, \"g\": \"1\", "
                        "\"h\": 1000, \"i\": \"010\", \"j\": -3, \"k\": 0.5, \"l\": false, \"m\": \"1e400\", "
                        "\"n\": 1e20, \"o\": \"null text\"}");
    assert_int_equal(json_integer_value(json_object_get(lines, "d")), 4);
    free(got);
    json_decref(root);
    json_decref(lines);
}

static void without_yaml_the_message_says_so(void **state) {
    (void)state;
#ifdef GYRE_HAVE_YAML
    skip();
#else
    refuses(GYRE_PROFILE_NANOTRON, "a: 1\n", GYRE_EUNSUPPORTED, "built without libyaml");
#endif
}

static void only_settings_are_read(void **state) {
    (void)state;
#ifdef GYRE_HAVE_YAML
    refuses(GYRE_PROFILE_AXOLOTL, "{\"model_type\": \"llama\"}", GYRE_EUNSUPPORTED, "this is a config.json");
#endif
    refuses(GYRE_PROFILE_MEGATRON, "--position-embedding-type rope --kv-channels \xff", GYRE_EFORMAT, "not UTF-8");
    static char many[90000];
    for (size_t i = 0; i + 3 < sizeof many; i += 3)
        memcpy(many + i, "-a ", 3);
    memcpy(many, "--b ", 4);
    refuses(GYRE_PROFILE_MEGATRON, many, GYRE_EFORMAT, "too many words");
    memset(many, 'x', 5000);
    memcpy(many, "--b ", 4);
    refuses(GYRE_PROFILE_MEGATRON, many, GYRE_EFORMAT, "too long");
}

static int make_base(void **state) {
    static const char config[] = "{\"model_type\": \"llama\", \"head_dim\": 64, \"num_hidden_layers\": 1}";
    if (make_empty_folder(state) || mkdir(in_folder("base"), 0700)) return -1;
    write_file("base/config.json", config, sizeof config - 1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(megatron_llama3),
                                       cmocka_unit_test(megatron_yarn),
                                       cmocka_unit_test(megatron_arguments),
                                       cmocka_unit_test(megatron_latent),
                                       cmocka_unit_test(megatron_layers),
                                       cmocka_unit_test(megatron_refuses),
                                       cmocka_unit_test(megatron_doubts_what_it_does_not_read),
                                       cmocka_unit_test(torchtitan),
                                       cmocka_unit_test(torchtitan_is_bounded),
                                       cmocka_unit_test(axolotl),
                                       cmocka_unit_test(llama_factory),
                                       cmocka_unit_test(changed_configs_refuse),
                                       cmocka_unit_test(nanotron),
                                       cmocka_unit_test(hostile_yaml),
                                       cmocka_unit_test(yaml_scalars),
                                       cmocka_unit_test(without_yaml_the_message_says_so),
                                       cmocka_unit_test(only_settings_are_read)};
    return cmocka_run_group_tests(tests, make_base, remove_folder);
}

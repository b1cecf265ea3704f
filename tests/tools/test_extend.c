/* test_extend.c: gyre extend from outside: its numbers, the files it writes, its refusals. */
#include "make_gguf.h"
#include "run_command.h"
#include <float.h>
#include <math.h>
#include <sys/resource.h>

static const long double two_pi = 6.283185307179586476925286766559L;
enum { LAYERS = 32 }; /* of each model below */

/* -- models -- */
static void put_config(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static int make_models(void **state) {
    if (make_empty_folder(state)) return -1;
    put_config("llama2",
               "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096,\n  \"num_attention_heads\": 32,\n"
               "  \"num_hidden_layers\": 32,\n  \"max_position_embeddings\": 4096,\n  \"rope_theta\": 10000.0\n}\n");
    put_config("llama31", "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096,\n  \"num_attention_heads\": 32,\n"
                          "  \"num_hidden_layers\": 32,\n  \"max_position_embeddings\": 131072,\n  \"rope_scaling\": {\n"
                          "    \"factor\": 8.0,\n    \"high_freq_factor\": 4.0,\n    \"low_freq_factor\": 1.0,\n"
                          "    \"original_max_position_embeddings\": 8192,\n    \"rope_type\": \"llama3\"\n  },\n"
                          "  \"rope_theta\": 500000.0\n}\n");
    put_config("partial", "{\"model_type\": \"stablelm\", \"hidden_size\": 2560, \"num_attention_heads\": 32, "
                          "\"num_hidden_layers\": 32, \"max_position_embeddings\": 4096, \"partial_rotary_factor\": 0.25, "
                          "\"rope_theta\": 10000}");
    put_config("linear", "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, "
                         "\"num_hidden_layers\": 32, \"max_position_embeddings\": 16384, "
                         "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}");
    put_config("bloom", "{\"model_type\": \"bloom\", \"n_head\": 16, \"hidden_size\": 1024, \"n_layer\": 2}");
    put_config("gpt2", "{\"model_type\": \"gpt2\", \"n_head\": 12, \"n_embd\": 768, \"n_layer\": 2, \"n_positions\": 1024}");
    put_config("old", "old");
    return mkdir(in_folder("dir"), 0777);
}

/* -- figures, by the formulas -- */
/* A model of `pairs` pairs, trained on `length` tokens, extended `factor` times. */
typedef struct stretch {
    int pairs, low, high; /* the ramp of by-parts and yarn: unchanged up to low, divided from high on */
    double base, length, factor;
} stretch;

typedef long double bending(const stretch *s, int pair, long double theta);

static long double as_it_is(const stretch *s, int pair, long double theta) {
    (void)s, (void)pair;
    return theta;
}
static long double linear(const stretch *s, int pair, long double theta) {
    (void)pair;
    return theta / s->factor;
}
static long double ntk(const stretch *s, int pair, long double theta) {
    return theta * powl(s->factor, -(long double)pair / (s->pairs - 1));
}
/* With the scale that the length needs. */
static long double grown(const stretch *s) {
    return s->factor * s->factor - (s->factor - 1);
}
static long double dynamic(const stretch *s, int pair, long double theta) {
    return theta * powl(grown(s), -(long double)pair / (s->pairs - 1));
}
static long double by_parts(const stretch *s, int pair, long double theta) {
    const long double ramp = fminl(1, fmaxl(0, (long double)(pair - s->low) / (s->high - s->low)));
    return theta * (1 - ramp) + theta / s->factor * ramp;
}
static long double llama3(const stretch *s, int pair, long double theta) {
    (void)pair;
    const long double keep = fminl(1, fmaxl(0, (s->length * theta / two_pi - 1) / 3));
    return keep * theta + (1 - keep) * theta / s->factor;
}

static const struct {
    const char *name;
    bending *bend;
    int follows; /* short contexts are unchanged */
} methods[] = {{"none", as_it_is, 0}, {"linear", linear, 0},     {"ntk", ntk, 0},      {"dynamic", dynamic, 1},
               {"llama3", llama3, 0}, {"by-parts", by_parts, 0}, {"yarn", by_parts, 0}};

static const json_t *row_of(const json_t *root, const char *method) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(root, "methods"), i, row) {
        if (strcmp(test_string(row, "method"), method) == 0) return row;
    }
    fail_msg("no row for %s", method);
    return NULL;
}

/* Counted naively: position by position, pair by pair. */
static int64_t first_moved(const stretch *s, bending *bend) {
    for (int64_t m = 0; m < (int64_t)s->length; m++)
        for (int i = 0; i < s->pairs; i++) {
            const long double theta = powl(s->base, -(long double)i / s->pairs);
            if ((long double)m * fabsl(bend(s, i, theta) - theta) > 0.01L) return m;
        }
    return -1;
}

static void check_row(const json_t *root, const stretch *s, size_t which) {
    const json_t *row = row_of(root, methods[which].name), *pairs = json_object_get(row, "pairs");
    long double lost = 0, most = 0, slowest = 1;
    int64_t kept = 0, divided = 0, unfinished = 0, unseen = 0;
    const long double by = methods[which].bend == dynamic ? grown(s) : s->factor;
    for (int i = 0; i < s->pairs; i++) {
        const long double theta = powl(s->base, -(long double)i / s->pairs), omega = methods[which].bend(s, i, theta);
        const long double turns = s->length * (theta - omega) / two_pi;
        lost += turns;
        most = fmaxl(most, turns);
        slowest = fminl(slowest, omega);
        kept += fabsl(omega - theta) < 1e-9L * theta;
        divided += omega != theta && fabsl(omega * by - theta) < 1e-9L * theta;
        unfinished += s->length * theta < two_pi;
        unseen += s->length * theta < two_pi && s->factor * omega > theta * (1 + 1e-9L);
    }
    test_close(test_number(row, "turns_lost"), lost, 1e-9L * (1 + lost), "turns lost");
    test_close(test_number(row, "most_turns_lost"), most, 1e-9L * (1 + most), "most turns lost");
    test_close(test_number(row, "slowest_turn"), two_pi / slowest, 1e-9L * two_pi / slowest, "slowest turn");
    const long double angle = s->factor * s->length * slowest;
    const double coherence = angle < two_pi / 4 ? (double)powl(cosl(angle), LAYERS) : 0;
    test_close(test_number(row, "coherence"), coherence, 1e-9L, "coherence");
    assert_int_equal(test_integer(pairs, "kept"), kept);
    assert_int_equal(test_integer(pairs, "divided"), divided);
    assert_int_equal(test_integer(pairs, "blended"), s->pairs - kept - divided);
    assert_int_equal(test_integer(row, "unfinished_pairs"), unfinished);
    assert_int_equal(test_integer(row, "unseen_pairs"), unseen);
    const int64_t moved = methods[which].follows ? -1 : first_moved(s, methods[which].bend);
    const json_t *from = json_object_get(row, "changed_from");
    if (moved < 0)
        assert_true(json_is_null(from));
    else
        assert_int_equal(json_integer_value(from), moved);
    const double attention = strcmp(methods[which].name, "yarn") == 0 ? 0.1 * log(s->factor) + 1 : 1;
    test_close(test_number(row, "attention_factor"), attention, 1e-12L, "attention factor");
    test_close(test_number(row, "scores"), attention * attention, 1e-12L, "scores");
}

/* Liu 2026: what a base leaves at the new length, put in again. */
static void check_bases(const json_t *root, const stretch *s) {
    const json_t *bases = json_object_get(root, "bases"), *most = json_object_get(bases, "most");
    const long double to = s->factor * s->length;
    assert_int_equal(test_integer(bases, "layers"), LAYERS);
    test_close(test_number(bases, "turn"), to / two_pi, 1e-9L * to, "base of a turn");
    test_close((double)powl(cosl(to / (long double)test_number(bases, "half")), LAYERS), 0.5L, 1e-9L, "half");
    test_close((double)powl(cosl(to / (long double)test_number(bases, "nine_tenths")), LAYERS), 0.9L, 1e-9L, "nine tenths");
    /* The first base whose step is lost beside 1: that of the spacing of the type there. */
    assert_true(test_number(most, "float32") == 1 / (double)FLT_EPSILON);
    assert_true(test_number(most, "float16") == 1024 && test_number(most, "bfloat16") == 128);
}

static void figures_match_the_formulas(void **state) {
    (void)state;
    /* Ramps: 64 ln(4096 / 64 pi) / ln 10000 = 20.94 and 45.03; 64 ln(8192 / 64 pi) / ln 500000 = 18.08 and 34.98;
     * 10 ln(4096 / 64 pi) / ln 10000 = 3.27 and 7.04. */
    static const struct {
        const char *command;
        stretch s;
    } cases[] = {
        {"extend @llama2 --to 16k --json", {64, 20, 46, 1e4, 4096, 4}},
        {"extend @llama31 --to 256k --json --methods linear,ntk,dynamic,llama3,by-parts,yarn", {64, 18, 35, 5e5, 8192, 32}},
        {"extend @partial --to 10000 --json", {10, 3, 8, 1e4, 4096, 10000.0 / 4096}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = run_json(cases[i].command);
        assert_int_equal(test_integer(root, "trained_length"), (int64_t)cases[i].s.length);
        check_bases(root, &cases[i].s);
        /* For Llama 3.1, "none" is its own scaling. */
        for (size_t m = i == 1; m < sizeof methods / sizeof *methods; m++)
            check_row(root, &cases[i].s, m);
        json_decref(root);
    }
}

static const char *says(const json_t *root, const char *method, const char *reader) {
    return test_string(json_object_get(json_object_get(row_of(root, method), "readers"), reader), "says");
}

/* vLLM's dynamic NTK is fixed.  llama.cpp has no dynamic NTK and ignores attention_factor. */
static void each_profile_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *method, *vllm, *llama_cpp;
    } cases[] = {{"none", "same", "same"},          {"linear", "same", "same"}, {"ntk", "same", "same"},
                 {"dynamic", "differs", "differs"}, {"llama3", "same", "same"}, {"by-parts", "same", "differs"},
                 {"yarn", "same", "same"}};
    json_t *root = run_json("extend @llama2 --to 16k --json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(says(root, cases[i].method, "hf-5"), "same");
        assert_string_equal(says(root, cases[i].method, "vllm"), cases[i].vllm);
        assert_string_equal(says(root, cases[i].method, "llama.cpp"), cases[i].llama_cpp);
    }
    assert_string_equal(test_string(row_of(root, "yarn"), "config"), "yarn, factor 4, original 4096");
    json_decref(root);
    root = run_json("extend @llama2 --to 16k --json --methods rerope,yarn+logn");
    assert_string_equal(says(root, "rerope", "hf-5"), "no"); /* no config can state it */
    assert_string_equal(says(root, "yarn+logn", "hf-5"), "no");
    json_decref(root);
}

/* Python writes Infinity and NaN, and they change nothing of what a method can do. */
static void infinity_of_python(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, "
                                 "\"num_hidden_layers\": 32, \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0, "
                                 "\"time_step_limit\": [%s, %s]}";
    static const char *const pairs[][2] = {{"0.0", "1.0"}, {"NaN", "Infinity"}};
    const json_t *rows[2];
    json_t *roots[2];
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, config, pairs[i][0], pairs[i][1]);
        write_file("python", text, strlen(text));
        roots[i] = run_json("extend @python --to 16k --json --methods linear,yarn");
        assert_string_equal(says(roots[i], "yarn", "hf-5"), "same");
        rows[i] = row_of(roots[i], "yarn");
    }
    assert_true(json_equal(rows[0], rows[1]));
    json_decref(roots[0]);
    json_decref(roots[1]);
    assert_int_equal(run("extend @python --to 16k --method yarn --write @longer")->exit, 0);
    assert_non_null(strstr(run("explain @longer")->out, "yarn"));
}

/* What a program does not read besides frequencies is a difference too: start tokens, and chunks of positions. */
static void settings_beside_frequencies_count(void **state) {
    (void)state;
    put_config("starts",
               "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
               "\"max_position_embeddings\": 1024, \"rope_scaling\": {\"rope_type\": \"longrope\", "
               "\"short_factor\": [1, 1], \"long_factor\": [1, 4], \"start_token_idx\": 64, "
               "\"original_max_position_embeddings\": 256}}");
    put_config("chunks",
               "{\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
               "\"max_position_embeddings\": 8192, \"dual_chunk_attention_config\": {\"chunk_size\": 512, "
               "\"local_size\": 128}}");
    json_t *root = run_json("extend @starts --as reference --to 1024 --json --methods none");
    assert_string_equal(says(root, "none", "hf-5"), "differs");
    assert_string_equal(says(root, "none", "vllm"), "differs");
    json_decref(root);
    root = run_json("extend @chunks --as vllm --to 16k --json --methods none");
    assert_string_equal(says(root, "none", "hf-5"), "differs");
    assert_string_equal(says(root, "none", "vllm"), "same");
    json_decref(root);
}

/* A config says dual chunks, and vLLM alone reads them.  Those of the paper have no key. */
static void dual_chunks_have_a_key(void **state) {
    (void)state;
    json_t *root = run_json("extend @llama2 --to 16k --json --methods dca:1024,dca-paper,rerope");
    assert_string_equal(says(root, "dca:1024", "hf-5"), "differs");
    assert_string_equal(says(root, "dca:1024", "vllm"), "same");
    assert_string_equal(says(root, "dca:1024", "llama.cpp"), "differs");
    assert_string_equal(says(root, "dca-paper", "vllm"), "no");
    assert_string_equal(test_string(row_of(root, "dca:1024"), "config"),
                        "dual_chunk_attention_config, chunk_size 1024, local_size 170");
    assert_string_equal(test_string(row_of(root, "dca-paper"), "config"), "no config can state it");
    assert_string_equal(test_string(row_of(root, "rerope"), "config"), "no config can state it");
    json_decref(root);
    root = run_json("extend @llama2 --to 16k --json --methods dca");
    const json_t *vllm = json_object_get(json_object_get(json_object_get(root, "verdict"), "engines"), "vLLM");
    const json_t *chunks = json_object_get(json_object_get(vllm, "keys"), "dual_chunk_attention_config");
    assert_int_equal(test_integer(chunks, "chunk_size"), 3072);
    assert_int_equal(test_integer(chunks, "local_size"), 512);
    assert_non_null(strstr(test_string(vllm, "note"), "up to 0.10"));
    json_decref(root);
}

/* The reach of a linear scaling, divided by its factor. */
static void existing_scaling_counts_from_original_length(void **state) {
    (void)state;
    json_t *root = run_json("extend @linear --to 32k --json --methods linear,yarn");
    assert_int_equal(test_integer(root, "trained_length"), 2048);
    assert_true(test_number(row_of(root, "linear"), "factor") == 16);
    json_decref(root);
    root = run_json("extend @linear --to 32k --json --methods linear --trained 8k");
    assert_true(test_number(row_of(root, "linear"), "factor") == 4);
    json_decref(root);
    const outcome *o = run("extend @llama31 --to 256k");
    assert_non_null(strstr(o->out, "its scaling, llama3, gives way"));
    /* Nothing replaces it in the model as it is. */
    static const char *const kept[] = {"extend @llama31 --to 128k", "extend @llama31 --to 4k",
                                       "extend @llama31 --to 256k --methods none",
                                       "extend @llama31 --to 256k --methods clipped"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        o = run(kept[i]);
        if (!strstr(o->out, "its scaling, llama3, stays") || strstr(o->out, "gives way"))
            fail_msg("%s:\n%s", kept[i], o->out);
    }
}

/* Proportional scaling has no original length either: a second extension starts from the first. */
static void config_can_be_extended_twice(void **state) {
    (void)state;
    put_config("still", "{\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 4096, "
                        "\"rope_parameters\": {\"rope_type\": \"proportional\", \"rope_theta\": 10000.0, "
                        "\"partial_rotary_factor\": 0.25}}");
    json_decref(run_json("extend @still --to 16k --method linear --write @once.json --json"));
    json_t *root = run_json("extend @once.json --to 32k --json --methods linear");
    assert_int_equal(test_integer(root, "trained_length"), 4096);
    assert_string_equal(test_string(root, "scaling"), "proportional");
    assert_true(test_number(row_of(root, "linear"), "factor") == 8);
    json_decref(root);
    root = run_json("extend @still --to 16k --json --methods none");
    assert_true(json_is_null(json_object_get(root, "scaling"))); /* it has no scaling to replace */
    json_decref(root);
}

/* Dynamic YaRN leaves short contexts unchanged: the angles and the factor of the scores. */
static void dynamic_methods_leave_short_contexts(void **state) {
    (void)state;
    put_config("follows", "{\"model_type\": \"gyre\", \"position_embedding_type\": \"rope\", \"hidden_size\": 256, "
                          "\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"head_dim\": 64, "
                          "\"max_position_embeddings\": 4096, \"rope_theta\": 10000.0, "
                          "\"rope_scaling\": {\"rope_type\": \"dynamic-yarn\"}}");
    json_t *root = run_json("extend @follows --to 16k --json --methods none");
    const json_t *row = row_of(root, "none");
    assert_true(json_is_null(json_object_get(row, "changed_from")));
    test_close(test_number(row, "attention_factor"), 0.1L * logl(4) + 1, 1e-12L, "attention factor");
    assert_true(test_number(row, "scores") == 1);
    json_decref(root);
}

/* Where far pairs rotate by less, the largest distance decides what is new, together with the window: 2048. */
static void far_pairs_are_counted_by_their_angles(void **state) {
    (void)state;
    json_t *root =
        run_json("extend @llama2 --to 16k --json --methods none,rerope,leaky,self-extend,rerope:8192,self-extend:2,"
                 "dca,dca-paper,dca:8192");
    static const char *const fit[] = {"rerope", "leaky", "self-extend"};
    const int64_t unfinished = test_integer(row_of(root, "none"), "unfinished_pairs");
    assert_int_equal(test_integer(row_of(root, "none"), "unseen_pairs"), unfinished);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_integer(row_of(root, fit[i]), "unseen_pairs"), 0);
        assert_int_equal(test_integer(row_of(root, fit[i]), "changed_from"), 2049);
    }
    /* Distances up to 8192, and up to 16383 / 2 + 2048 / 2: both beyond 4095. */
    assert_int_equal(test_integer(row_of(root, "rerope:8192"), "unseen_pairs"), unfinished);
    assert_int_equal(test_integer(row_of(root, "self-extend:2"), "unseen_pairs"), unfinished);
    assert_true(json_is_null(json_object_get(row_of(root, "rerope:8192"), "changed_from")));
    /* No pair rotates by more than trained ones; a query w (paper: w - 1) past its chunk's start reaches the cap. */
    assert_int_equal(test_integer(row_of(root, "dca"), "unseen_pairs"), 0);
    assert_int_equal(test_integer(row_of(root, "dca"), "changed_from"), 512 + 2);
    assert_int_equal(test_integer(row_of(root, "dca-paper"), "unseen_pairs"), 0);
    assert_int_equal(test_integer(row_of(root, "dca-paper"), "changed_from"), 1024 + 1);
    assert_int_equal(test_integer(row_of(root, "dca:8192"), "unseen_pairs"), unfinished);
    json_decref(root);
}

/* Phi-3's window is longer than its trained length. */
static void window_wider_than_the_context_is_no_limit(void **state) {
    (void)state;
    put_config("windowed", "{\"model_type\": \"mistral\", \"head_dim\": 64, \"max_position_embeddings\": 4096, "
                           "\"sliding_window\": 8192}");
    assert_non_null(strstr(run("extend @windowed --to 16k")->out, "8192 tokens: no distance grows past it"));
    assert_null(strstr(run("extend @windowed --to 8k")->out, "window  "));
    put_config("windowed", "{\"model_type\": \"mistral\", \"head_dim\": 64, \"max_position_embeddings\": 4096, "
                           "\"sliding_window\": 4096}");
    assert_non_null(strstr(run("extend @windowed --to 16k")->out, "4096 tokens: no distance grows with the length"));
}

static void table_output(void **state) {
    (void)state;
    const outcome *o = run("extend @llama2 --to 16k --all");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "trained on 4096 tokens"));
    assert_non_null(strstr(o->out, "16384 tokens, 4 times the trained length"));
    assert_non_null(strstr(o->out, "by-parts       21       25       18"));
    assert_non_null(strstr(o->out, "linear, factor 4"));
    assert_non_null(strstr(o->out, "by-parts, llama.cpp: attention factor 1.13863, not 1"));
    o = run("extend @llama2 --to 16k -o @table");
    assert_string_equal(o->out, "");
    /* A reason is printed once for all methods with it, without a name that the table contains. */
    o = run("extend @llama2 --to 1M --methods rerope");
    assert_non_null(strstr(o->out, "1048576 tokens"));
    assert_non_null(
        strstr(o->out, "rerope, hf-5, vllm and llama.cpp: far positions: no key of a config.json states that\n"));
}

/* -- writing -- */
static void written_changes_are_reported(void **state) {
    (void)state;
    static char before[4096], after[4096];
    const outcome *o = run("extend @llama31 --to 256k --method yarn --write @dir");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "dir/config.json"));
    assert_non_null(strstr(o->out, "131072 -> 262144"));
    assert_non_null(strstr(o->out, "\"llama3\" -> \"yarn\""));
    assert_non_null(strstr(o->out, "4.0 -> (none)"));
    read_whole(in_folder("llama31"), before, sizeof before);
    read_whole(in_folder("dir/config.json"), after, sizeof after);
    const char *same = "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 4096,\n  \"num_attention_heads\": 32,\n"
                       "  \"num_hidden_layers\": 32,\n  \"max_position_embeddings\": ";
    assert_memory_equal(before, same, strlen(same));
    assert_memory_equal(after, same, strlen(same));
    assert_string_equal(after + strlen(same), "262144,\n  \"rope_scaling\": {\n    \"factor\": 32.0,\n"
                                              "    \"original_max_position_embeddings\": 8192,\n"
                                              "    \"rope_type\": \"yarn\"\n  },\n  \"rope_theta\": 500000.0\n}\n");
}

/* A config that says clipped pairs or start tokens, under positions without them, says them no more: every pair of base 2
 * makes a whole turn, so that none is clipped, and YaRN has no start tokens. */
static void clips_and_start_tokens_are_taken_away(void **state) {
    (void)state;
    static const char *const keys[] = {"rope_clip", "rope_clip_pairs", "rope_start_tokens", "rope_starts"};
#define OWN                                                                                                                 \
    "{\"model_type\": \"gyre\", \"position_embedding_type\": \"rope\", \"hidden_size\": 32, \"num_hidden_layers\": 2,"      \
    " \"num_attention_heads\": 4, \"max_position_embeddings\": 1024,"
    put_config("clips", OWN "\"rope_theta\": 2.0, \"rope_clip\": \"soft\", \"rope_clip_pairs\": 3}");
    put_config("starts", OWN "\"rope_theta\": 100.0, \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 4.0,"
                             "\"short_factor\": [1.0, 1.0, 1.0, 1.0], \"long_factor\": [1.0, 2.0, 3.0, 4.0],"
                             "\"original_max_position_embeddings\": 256}, \"rope_start_tokens\": 4}");
    for (int i = 0; i < 2; i++) {
        json_error_t error;
        if (run(i ? "extend @starts --to 4k --method yarn --force --write @taken.json"
                  : "extend @clips --to 4k --method clipped --force --write @taken.json")
                ->exit)
            fail_msg("%s", run("explain @taken.json")->err);
        json_t *root = json_load_file(in_folder("taken.json"), 0, &error);
        assert_int_equal(test_integer(root, "max_position_embeddings"), 4096);
        for (int k = 0; k < 4; k++)
            assert_null(json_object_get(root, keys[k]));
        json_decref(root);
        json_decref(run_json("explain @taken.json --json"));
    }
}

static void explicit_factor(void **state) {
    (void)state;
    json_t *root = run_json("extend @llama2 --to 10000 --method linear:8 --write @out.json --json");
    assert_string_equal(test_string(root, "method"), "linear:8");
    assert_int_equal(json_array_size(json_object_get(root, "changes")), 3); /* the length, the type, the factor */
    json_decref(root);
    root = json_load_file(in_folder("out.json"), 0, NULL);
    assert_int_equal(test_integer(root, "max_position_embeddings"), 10000);
    assert_true(test_number(json_object_get(root, "rope_scaling"), "factor") == 8);
    json_decref(root);
    /* The extension may reach less far than the length. It is written all the same, with a warning. */
    const outcome *o = run("extend @llama2 --to 64k --method yarn:8 --write @short.json");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->err, "reaches 32768 tokens of the 65536"));
    assert_string_equal(run("extend @llama2 --to 64k --method yarn:16 --write @short.json --force")->err, "");
}

/* A name that is no file's means a folder, with or without the slash, and it is made. */
static void missing_folder_is_made(void **state) {
    (void)state;
    static const char *const names[] = {"made", "with-slash/"};
    for (int i = 0; i < 2; i++) {
        char line[128], file[64];
        snprintf(line, sizeof line, "extend @llama2 --to 16k --method yarn --write @%s", names[i]);
        snprintf(file, sizeof file, "%s%sconfig.json", names[i], i ? "" : "/");
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s", o->err);
        json_t *root = json_load_file(in_folder(file), 0, NULL);
        assert_int_equal(test_integer(root, "max_position_embeddings"), 16384);
        json_decref(root);
    }
}

/* -- GGUF -- */
enum { WEIGHTS = 1000 };

static void put_gguf(const char *name, float *weights) {
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "llama");
    made_u32(made, "llama.context_length", 4096);
    made_u32(made, "llama.embedding_length", 4096);
    made_u32(made, "llama.block_count", 2);
    made_u32(made, "llama.attention.head_count", 32);
    made_f32(made, "llama.rope.freq_base", 10000);
    made_words(made, "tokenizer.ggml.tokens", 100);
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (float)sin(i);
    made_tensor(made, "token_embd.weight", weights, WEIGHTS);
    made_finish(made);
    write_file(name, (const char *)made->file, made->file_bytes);
    free(made);
}

static size_t bytes_of(const char *name, char *out, size_t room) {
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t bytes = fread(out, 1, room, file);
    fclose(file);
    return bytes;
}

static void gguf_tensors_are_preserved(void **state) {
    (void)state;
    static float weights[WEIGHTS];
    static char before[1 << 16], after[1 << 16];
    put_gguf("model.gguf", weights);
    json_t *root = run_json("extend @model.gguf --to 16k --json");
    assert_string_equal(says(root, "yarn", "llama.cpp"), "same");
    assert_string_equal(says(root, "yarn", "hf-5"), "no");
    assert_string_equal(says(root, "dynamic", "llama.cpp"), "no");
    json_decref(root);
    const outcome *o = run("extend @model.gguf --to 16k --method yarn --write @dir");
    if (o->exit) fail_msg("%s", o->err);
    assert_non_null(strstr(o->out, "dir/model.gguf"));
    assert_non_null(strstr(o->out, "llama.context_length"));
    const size_t old = bytes_of("model.gguf", before, sizeof before), new = bytes_of("dir/model.gguf", after, sizeof after);
    assert_true(old > sizeof weights && new > sizeof weights);
    int found = 0;
    for (size_t i = 0; i + sizeof weights <= new && !found; i++)
        found = memcmp(after + i, weights, sizeof weights) == 0;
    assert_true(found);
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_open(&reading, in_folder("dir/model.gguf"),
                                GYRE_ARGS(gyre_reading_options, .context_length = 16384), NULL));
    gyre_encoding *encoding = test_encoding(&reading->groups[0]->config);
    double got[64], factor;
    assert_ok(gyre_encoding_frequencies(encoding, 16384, got, &factor));
    const stretch s = {64, 20, 46, 1e4, 4096, 4};
    for (int i = 0; i < 64; i++) {
        const long double want = by_parts(&s, i, powl(10000, -i / 64.0L));
        test_close(got[i], want, 1e-6L * want, "frequency");
    }
    test_close(factor, 0.1 * log(4) + 1, 1e-6L, "attention factor");
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

/* YaRN without its factor: a key compensates for it, to the precision of a float. */
static void gguf_changed_keys_are_reported(void **state) {
    (void)state;
    static float weights[WEIGHTS];
    put_gguf("parts.gguf", weights);
    const outcome *o = run("extend @parts.gguf --to 16k --method by-parts --write @parts-out.gguf");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "llama.rope.scaling.attn_factor"));
    assert_non_null(strstr(o->out, "(none) -> 0.8782"));
    o = run("explain @parts-out.gguf");
    assert_non_null(strstr(o->out, "attention factor 1, scores scaled")); /* the factor is 1, so nothing is printed */
    assert_null(strstr(o->out, "do not shift"));
    struct stat info;
    assert_int_equal(chmod(in_folder("parts-out.gguf"), 0600), 0);
    assert_int_equal(run("extend @parts.gguf --to 16k --method yarn --write @parts-out.gguf --force")->exit, 0);
    assert_int_equal(stat(in_folder("parts-out.gguf"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600); /* same mode as the file it replaces */
}

/* A large file is not copied for a table. Whether the format has the keys is known without that. */
static void large_gguf_is_not_copied(void **state) {
    (void)state;
    static float weights[WEIGHTS];
    put_gguf("large.gguf", weights);
    assert_int_equal(truncate(in_folder("large.gguf"), 1LL << 32), 0);
    json_t *root = run_json("extend @large.gguf --to 16k --json");
    assert_string_equal(says(root, "none", "llama.cpp"), "same");
    assert_string_equal(says(root, "yarn", "llama.cpp"), "untried");
    assert_string_equal(says(root, "ntk-mixed", "llama.cpp"), "no");
    assert_string_equal(says(root, "yarn", "vllm"), "no");
    json_decref(root);
    assert_int_equal(remove(in_folder("large.gguf")), 0);
}

/* -- what else there is to say -- */
static void other_schemes_are_refused(void **state) {
    (void)state;
    const outcome *o = run("extend @bloom --to 16k");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "alibi"));
    assert_null(strstr(o->out, "nothing to stretch"));
    json_t *root = run_json("extend @bloom --to 16k --json");
    assert_string_equal(test_string(root, "kind"), "alibi");
    assert_non_null(strstr(test_string(root, "note"), "its slopes can be stretched"));
    assert_non_null(strstr(test_string(root, "note"), "--contexts 16384 --methods none,ntk,linear"));
    assert_int_equal(json_array_size(json_object_get(root, "methods")), 0);
    json_decref(root);
    /* The command begins a line and names the model, or a folder where a config alone has no weights. */
    assert_non_null(strstr(run("extend alibi --to 1k")->out,
                           "\n  gyre eval alibi --text TEXT --contexts 256,1024 --methods none,ntk,linear --passkey 20\n"));
    assert_non_null(strstr(run("extend " GYRE_TEST_DATA "/configs/bloom-176b.json --to 4k")->out,
                           "\n  gyre eval FOLDER --text TEXT --contexts 2048,4096 --methods"));
    assert_fails("extend @bloom --to 16k --method yarn --write @out", 1, "stretch slopes");
    assert_fails("extend @gpt2 --to 16k", 1, "table");
}

/* -- what goes wrong halfway -- */
static void full_disk_leaves_no_file(void **state) {
    (void)state;
    struct rlimit was, little;
    const int before = count_entries(folder);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    little = was;
    little.rlim_cur = 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    const outcome *o = run("extend @llama2 --to 16k --method ntk-mixed --write @too-big");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(o->exit, 1);
    assert_non_null(strstr(o->err, "File too large"));
    assert_int_equal(count_entries(folder), before);
}

/* out = 1 if a half-written copy is in the folder. */
static int has_temporary(void) {
    DIR *dir = opendir(folder);
    int found = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        found |= strstr(entry->d_name, ".tmp") != NULL;
    closedir(dir);
    return found;
}

static void interrupt_leaves_no_file(void **state) {
    (void)state;
    static float weights[WEIGHTS];
    outcome *o = calloc(1, sizeof *o);
    assert_non_null(o);
    put_gguf("huge.gguf", weights);
    assert_int_equal(truncate(in_folder("huge.gguf"), (off_t)2 << 30), 0); /* without blocks */
    const pid_t child = start("extend @huge.gguf --to 16k --method yarn --write @copy.gguf", in_folder(".out"));
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < 5000 && !has_temporary(); i++)
        nanosleep(&nap, NULL);
    assert_true(has_temporary());
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, o);
    assert_int_equal(o->signal, SIGINT);
    assert_false(has_temporary());
    assert_int_not_equal(access(in_folder("copy.gguf"), F_OK), 0);
    remove(in_folder("huge.gguf"));
    free(o);
}

/* A pipe is empty once it was read. */
static void pipes_are_refused(void **state) {
    (void)state;
    static char text[1024];
    const char *path = in_folder("pipe");
    read_whole(in_folder("llama2"), text, sizeof text);
    assert_int_equal(mkfifo(path, 0600), 0);
    const pid_t writer = fork();
    if (writer == 0) {
        const int fd = open(path, O_WRONLY);
        _exit(write(fd, text, strlen(text)) < 0);
    }
    assert_true(writer > 0);
    assert_fails("extend @pipe --to 16k", 1, "not a regular file");
    assert_int_equal(waitpid(writer, NULL, 0), writer);
}

static void wrong_use(void **state) {
    (void)state;
    static char text[16];
    assert_fails("extend", 2, "MODEL");
    assert_fails("extend @llama2", 2, "--to");
    assert_fails("extend @llama2 --to 0", 2, "--to");
    assert_fails("extend @llama2 --to 16k --method yarn", 2, "--write");
    assert_fails("extend @llama2 --to 16k --write @out", 2, "--method");
    assert_fails("extend @llama2 --to 16k --methods yarm", 2, "yarm");
    assert_fails("extend @llama2 --to 16k --methods base:500000", 2, "rope_theta");
    assert_fails("extend @llama2 --to 16k --methods ntk-past:4", 2, "no config can state it");
    assert_fails("extend @llama2 --to 16k --methods llama3:0", 2, "llama3:0");
    assert_fails("extend @llama2 --to 16k --as pytorch", 2, "--as");
    assert_fails("extend @llama2 --to 16k --layer-type sliding", 2, "all");
    assert_fails("extend @llama2 --to 4096 --method yarn --write @out", 1, "trained length of 4096");
    assert_fails("extend @llama2 --to 16k --methods longrope", 1, "no lists");
    assert_fails("extend @nowhere --to 16k", 1, "nowhere");
    assert_fails("extend @old --to 16k", 1, "old");
    assert_fails("extend @llama2 --to 16k --method yarn --write @llama2", 2, "read by this run");
    assert_fails("extend @llama2 --to 16k --method yarn --write @missing/out", 1, "missing");
    assert_fails("extend @llama2 --to 16k --method rerope --write @new", 1, "far positions");
    assert_fails("extend @llama2 --to 16k --method yarn --write @old", 2, "exists; --force replaces it");
    /* All that there are. */
    assert_fails("extend @llama2 --to 16k --methods wavelets", 2, "dca, dca-paper, clipped, clipped-hard, longrope");
    assert_fails("extend @llama2 --to 16k -o @llama2", 2, "read by this run");
    read_whole(in_folder("old"), text, sizeof text);
    assert_string_equal(text, "old");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_match_the_formulas),
                                       cmocka_unit_test(each_profile_is_checked),
                                       cmocka_unit_test(infinity_of_python),
                                       cmocka_unit_test(settings_beside_frequencies_count),
                                       cmocka_unit_test(dual_chunks_have_a_key),
                                       cmocka_unit_test(existing_scaling_counts_from_original_length),
                                       cmocka_unit_test(config_can_be_extended_twice),
                                       cmocka_unit_test(dynamic_methods_leave_short_contexts),
                                       cmocka_unit_test(far_pairs_are_counted_by_their_angles),
                                       cmocka_unit_test(window_wider_than_the_context_is_no_limit),
                                       cmocka_unit_test(table_output),
                                       cmocka_unit_test(missing_folder_is_made),
                                       cmocka_unit_test(written_changes_are_reported),
                                       cmocka_unit_test(clips_and_start_tokens_are_taken_away),
                                       cmocka_unit_test(explicit_factor),
                                       cmocka_unit_test(gguf_tensors_are_preserved),
                                       cmocka_unit_test(gguf_changed_keys_are_reported),
                                       cmocka_unit_test(large_gguf_is_not_copied),
                                       cmocka_unit_test(other_schemes_are_refused),
                                       cmocka_unit_test(full_disk_leaves_no_file),
                                       cmocka_unit_test(interrupt_leaves_no_file),
                                       cmocka_unit_test(pipes_are_refused),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}

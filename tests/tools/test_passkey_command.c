/* test_passkey_command.c: gyre passkey: where keys are hidden, what counts as found, and that results do not depend on
 * threads or interruptions. */
#include "model/model.h"
#include "run_command.h"
#include "tools/common/utf8_text.h"
#include "tools/passkey/passkey_run.h"

static const passkey_phrases published = {PASSKEY_NEEDLE, PASSKEY_QUESTION, PASSKEY_ANSWER, 0, NULL, NULL};
enum { LONGEST_SENTENCE = 22 }; /* "There and back again." and the space before it */

static gyre_tokenizer *bytes(void) {
    gyre_tokenizer *tokenizer = NULL;
    gyre_error err = {0, ""};
    if (gyre_tokenizer_create_bytes(&tokenizer, &err)) fail_msg("%s", err.text);
    return tokenizer;
}

/* -- the format -- */
static void test_marks(void **state) {
    (void)state;
    const passkey_phrases marks = passkey_marks();
    char *text = passkey_prompt_text(&marks, 2, 1, 471);
    assert_string_equal(text, "The grass is green.\n\xF5"
                              "0471\xFD\nThe grass is green.\n\xF5");
    free(text);
    for (int key = 10000; key < 100000; key += 37) {
        const int k = passkey_marked_key(key);
        assert_true(k >= 0 && k < 10000);
        assert_true(k / 100 != k / 10 % 100 && k / 10 % 100 != k % 100 && k / 100 != k % 100);
    }
}

/* A bundled model is asked as gyre train asks, and finds what it cannot find in words. */
static void test_known_format(void **state) {
    (void)state;
    static const char rope[] = "passkey " GYRE_TEST_DATA "/../models/rope --lengths 256 --depths 2 --trials 2";
    char line[512];
    outcome *o = run(rope);
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "format   marks, for the model finds 8 of 8 marked keys in a trial at 128 tokens\n"));
    assert_true(strstr(o->out, " 100%\n") && !strstr(o->out, " 0%\n"));
    snprintf(line, sizeof line, "%s --json --journal @formats", rope);
    json_t *root = run_json(line), *prompt = json_object_get(root, "prompt");
    assert_string_equal(test_string(prompt, "format"), "marks");
    assert_string_equal(test_string(prompt, "chosen"), "for the model finds 8 of 8 marked keys in a trial at 128 tokens");
    assert_true(json_is_null(json_object_get(prompt, "needle")) && json_is_null(json_object_get(prompt, "question")));
    assert_string_equal(test_string(json_object_get(root, "card"), "prompts"), "marks");
    json_decref(root);
    /* The journal has no cell of the other format. */
    snprintf(line, sizeof line, "%s --json --format words --journal @formats --resume", rope);
    root = run_json(line);
    prompt = json_object_get(root, "prompt");
    assert_string_equal(test_string(prompt, "format"), "words");
    assert_string_equal(test_string(prompt, "needle"), PASSKEY_NEEDLE);
    assert_string_equal(test_string(json_object_get(root, "card"), "prompts"), "words");
    assert_non_null(test_string(root, "verdict"));
    json_decref(root);
    static char journal[1 << 16];
    read_whole(in_folder("formats"), journal, sizeof journal);
    int marked = 0, cells = 0;
    for (const char *at = journal; (at = strstr(at, "\"command\"")); at++)
        cells++;
    for (const char *at = journal; (at = strstr(at, "\"format\"")); at++)
        marked++;
    assert_int_equal(cells, 4);
    assert_int_equal(marked, 2);
    /* A model that has learnt nothing, phrases of the user's, and wrong use. */
    o = run("passkey @rope --lengths 320 --depths 2 --trials 1 --report @none.html");
    assert_non_null(strstr(o->out, "format   words, for the model finds 0 of 8 marked keys"));
    static char page[1 << 21];
    read_whole(in_folder("none.html"), page, sizeof page);
    assert_non_null(strstr(page, "None of the 2 keys is found"));
    assert_null(strstr(page, "By depth"));
    snprintf(line, sizeof line, "%s --needle K{key}", rope);
    assert_non_null(strstr(run(line)->out, "format   words, as the phrases are given"));
    snprintf(line, sizeof line, "%s --needle K{key} --format marks", rope);
    assert_fails(line, 2, "marks have no phrases");
}

/* -- the prompt -- */
/* The prompt of the paper, written independently. */
static void test_text(void **state) {
    (void)state;
    char *text = passkey_prompt_text(&published, 7, 2, 71432);
    assert_string_equal(
        text,
        "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz you "
        "about the important information there.\n"
        "The grass is green. The sky is blue.\n"
        "The pass key is 71432. Remember it. 71432 is the pass key.\n"
        "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n"
        "What is the pass key? The pass key is");
    free(text);
    const passkey_phrases other = {"{key}{key} sun {keys}", "{key}?", "a{key}b", 0, NULL, NULL};
    text = passkey_prompt_text(&other, 0, 0, 12345);
    assert_non_null(strstr(text, "there.\n\n1234512345 sun {keys}\n\n12345?"));
    free(text);
}

/* out = the text whose bytes are the ids of a prompt. */
static char *text_of(const passkey_prompt *p) {
    char *text = malloc((size_t)p->count + 1);
    assert_non_null(text);
    for (int64_t i = 0; i < p->count; i++)
        text[i] = (char)p->ids[i];
    text[p->count] = 0;
    return text;
}

/* For a prompt: bytes of filler before the needle, and in all. */
static void measure_filler(const char *text, int key, double *before, double *all) {
    char needle[64];
    snprintf(needle, sizeof needle, "\nThe pass key is %d. Remember it. %d is the pass key.\n", key, key);
    const char *first = strchr(text, '\n') + 1, *hidden = strstr(text, needle), *question = strrchr(text, '\n');
    assert_non_null(hidden);
    *before = (double)(hidden - first);
    *all = *before + (double)(question - (hidden + strlen(needle)));
    assert_string_equal(question + 1, PASSKEY_QUESTION);
}

static void test_depth_and_length(void **state) {
    (void)state;
    gyre_tokenizer *tokenizer = bytes();
    static const int64_t lengths[] = {284, 290, 300, 512, 1000, 4096, 20000};
    static const double depths[] = {0, 0.01, 0.1, 0.25, 1.0 / 3, 0.5, 0.77, 0.999, 1};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        passkey_template template;
        gyre_error err = {0, ""};
        if (passkey_template_init(&template, tokenizer, &published, lengths[l], 0, &err)) fail_msg("%s", err.text);
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            passkey_prompt p = {0};
            double before, all;
            assert_ok(passkey_prompt_make(&p, &template, depths[d], 50123, &err));
            assert_string_equal(p.answer, "50123");
            assert_int_equal(p.steps, 6);
            char *text = text_of(&p);
            measure_filler(text, 50123, &before, &all);
            test_close(before, depths[d] * all, LONGEST_SENTENCE, "bytes before the needle");
            /* The five tokens of the answer fit after it; one more sentence would not. */
            assert_true(p.count + 5 <= lengths[l]);
            assert_true(p.count + 5 + LONGEST_SENTENCE > lengths[l]);
            char *longer = passkey_prompt_text(&published, p.sentences + 1, p.before, 50123);
            assert_true((int64_t)strlen(longer) + 5 > lengths[l]);
            free(longer);
            free(text);
            passkey_prompt_free(&p);
        }
    }
    gyre_tokenizer_free(tokenizer);
}

static void test_too_short(void **state) {
    (void)state;
    gyre_tokenizer *tokenizer = bytes();
    passkey_template template;
    gyre_error err = {0, ""};
    char *text = passkey_prompt_text(&published, 0, 0, 10000);
    const int64_t bare = (int64_t)strlen(text);
    free(text);
    assert_ok(passkey_template_init(&template, tokenizer, &published, bare + 5, 0, &err));
    assert_int_equal(passkey_template_init(&template, tokenizer, &published, bare + 4, 0, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "too short"));
    assert_ok(passkey_template_init(&template, tokenizer, &published, bare, 1, &err));
    assert_int_equal(passkey_template_init(&template, tokenizer, &published, 2, 0, &err), GYRE_EINVAL);
    gyre_tokenizer_free(tokenizer);
}

static void test_keys(void **state) {
    (void)state;
    int seen = 0, last = 0;
    for (int64_t t = 0; t < 1000; t++) {
        const int key = passkey_key(1, 4096, 0.3, t);
        assert_true(key >= 10000 && key <= 99999);
        assert_int_equal(key, passkey_key(1, 4096, 0.3, t));
        seen += key != last;
        last = key;
    }
    assert_true(seen > 990);
    assert_int_not_equal(passkey_key(1, 4096, 0.3, 0), passkey_key(2, 4096, 0.3, 0));
    assert_int_not_equal(passkey_key(1, 4096, 0.3, 0), passkey_key(1, 8192, 0.3, 0));
    assert_int_not_equal(passkey_key(1, 4096, 0.3, 0), passkey_key(1, 4096, 0.4, 0));
}

static void test_exact_lengths(void **state) {
    (void)state;
    static const struct {
        const char *answer, *text;
        int exact;
    } cases[] = {{"71432", "71432", 1},   {"71432", " 71432", 1},  {"71432", "\n\t71432.", 1}, {"71432", "71432 is", 1},
                 {"71432", "714325", 0},  {"71432", "7143", 0},    {"71432", "", 0},           {"71432", "x71432", 0},
                 {"71432", " 7 1432", 0}, {"71432", "71433", 0},   {"blue", " blue sky", 1},   {"blue", "blueish", 1},
                 {"blue", "Blue", 0},     {"room 7", "room 77", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (passkey_is_exact(cases[i].answer, cases[i].text) != cases[i].exact)
            fail_msg("\"%s\" for \"%s\"", cases[i].text, cases[i].answer);
}

/* -- asking a model -- */
enum { LENGTH = 700, DEPTHS = 5, TRIALS = 3, CELL_TRIALS = DEPTHS * TRIALS };

typedef struct asked {
    passkey_cell cells[DEPTHS];
    passkey_trial trials[CELL_TRIALS];
    int64_t read;
    double order[DEPTHS]; /* of the calls of report */
    int reported;
} asked;

static gyre_model *model_of(gyre_kind kind) {
    gyre_model_config config = small_config(kind, 2, 256);
    if (kind == GYRE_KIND_LEARNED) config.position.input.positions = LENGTH - 100;
    return create_model(&config, 4);
}

static gyre_status note_order(void *ctx, const passkey_cell *cell, gyre_error *err) {
    asked *a = ctx;
    (void)err;
    assert_true(a->reported < DEPTHS);
    a->order[a->reported++] = cell->depth;
    return GYRE_OK;
}

static gyre_status ask(asked *a, const gyre_model *model, const gyre_encoding *encoding, int threads, gyre_error *err) {
    gyre_tokenizer *tokenizer = bytes();
    gyre_pool *pool = NULL;
    passkey_template template;
    *a = (asked){.read = 0};
    assert_ok(passkey_template_init(&template, tokenizer, &published, LENGTH, 0, err));
    assert_ok(gyre_pool_create(&pool, threads, err));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int d = 0; d < DEPTHS; d++)
        a->cells[d] = (passkey_cell){(double)d / (DEPTHS - 1), 0, a->trials + (ptrdiff_t)d * TRIALS};
    passkey_job job = {.model = model,
                       .encoding = encoding,
                       .template = &template,
                       .cache = GYRE_DTYPE_F32,
                       .unchunked_prefill =
                           encoding && gyre_encoding_get_config(encoding)->length_policy == GYRE_LENGTH_POLICY_PREFIX,
                       .seed = 1,
                       .trials = TRIALS,
                       .cells = a->cells,
                       .cells_count = DEPTHS,
                       .report = note_order,
                       .ctx = a};
    const gyre_status status = passkey_run(&job, &exec, err);
    a->read = job.read;
    gyre_pool_free(pool);
    gyre_tokenizer_free(tokenizer);
    return status;
}

/* A model's answer to a prompt: the whole prompt read at once in a context of its own, then token by token. */
static void say(const gyre_model *model, const gyre_encoding *encoding, double depth, int key, char said[8]) {
    gyre_tokenizer *tokenizer = bytes();
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    passkey_template template;
    passkey_prompt p = {0};
    float logits[256];
    assert_ok(passkey_template_init(&template, tokenizer, &published, LENGTH, 0, &err));
    assert_ok(passkey_prompt_make(&p, &template, depth, key, &err));
    assert_ok(gyre_context_create(
        &context, model,
        &(gyre_context_options){.size = sizeof(gyre_context_options), .encoding = encoding, .max_tokens = LENGTH}, &err));
    assert_ok(gyre_context_forward(context, p.ids, p.count, 1, logits, &err));
    int n = 0;
    for (; n < 6; n++) {
        int32_t best = 0;
        for (int32_t i = 1; i < 256; i++)
            if (logits[i] > logits[best]) best = i;
        said[n] = (char)best;
        if (n < 5) assert_ok(gyre_context_forward(context, &best, 1, 1, logits, &err));
    }
    said[n] = 0;
    gyre_context_free(context);
    passkey_prompt_free(&p);
    gyre_tokenizer_free(tokenizer);
}

static void compare_with_said(const asked *a, const gyre_model *model, const gyre_encoding *encoding) {
    for (int i = 0; i < CELL_TRIALS; i++) {
        char said[8], shown[32];
        say(model, encoding, a->cells[i / TRIALS].depth, a->trials[i].key, said);
        utf8_sanitize(shown, sizeof shown, said, 6);
        assert_string_equal(a->trials[i].output, shown);
        assert_int_equal(a->trials[i].right, 0); /* a random model finds no key */
    }
}

/* With any number of threads: the same answers, and common prefixes are read once. */
static void test_prompts(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_ROPE);
    gyre_error err = {0, ""};
    static asked one, several;
    int64_t all = 0, least = 0;
    assert_ok(ask(&one, model, NULL, 1, &err));
    compare_with_said(&one, model, NULL);
    for (int i = 0; i < CELL_TRIALS; i++) {
        const passkey_trial *t = &one.trials[i];
        all += t->tokens + 5;
        least += (int64_t)((1 - t->depth) * 400); /* the key is followed by about that many bytes of filler */
        assert_int_equal(t->key, passkey_key(1, LENGTH, one.cells[i / TRIALS].depth, i % TRIALS));
        test_close(t->depth, one.cells[i / TRIALS].depth, 0.05, "depth");
    }
    assert_true(one.read < all * 3 / 4 && one.read > least);
    assert_int_equal(one.reported, DEPTHS);
    for (int d = 0; d < DEPTHS; d++)
        test_close(one.order[d], (double)d / (DEPTHS - 1), 0, "order");
    static const int threads[] = {2, 4, 32}; /* 32: more than the number of trials */
    for (int i = 0; i < 3; i++) {
        assert_ok(ask(&several, model, NULL, threads[i], &err));
        assert_memory_equal(several.trials, one.trials, sizeof one.trials);
        assert_int_equal(several.reported, DEPTHS);
    }
    gyre_model_free(model);
}

/* Dynamic NTK as in an engine: the prompt rotates by its own length, so no trial may reuse the keys of another. */
static void test_prompts_with_a_prefix(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_ROPE);
    gyre_config config = *gyre_encoding_get_config(gyre_model_get_encoding(model));
    gyre_error err = {0, ""};
    static asked a;
    config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    config.rope.factor = 1;
    config.length_policy = GYRE_LENGTH_POLICY_PREFIX;
    gyre_encoding *encoding = test_encoding(&config);
    assert_ok(ask(&a, model, encoding, 2, &err));
    compare_with_said(&a, model, encoding);
    gyre_encoding_free(encoding);
    gyre_model_free(model);
}

static void test_encoding_with_a_maximum_position(void **state) {
    (void)state;
    gyre_model *model = model_of(GYRE_KIND_LEARNED);
    gyre_error err = {0, ""};
    static asked a;
    assert_int_equal(ask(&a, model, NULL, 2, &err), GYRE_ERANGE);
    gyre_model_free(model);
}

/* -- the command -- */
static void test_errors(void **state) {
    (void)state;
    assert_fails("passkey", 2, "MODEL: missing");
    assert_fails("passkey @rope @rope", 2, "one argument too many");
    assert_fails("passkey @nowhere --lengths 320", 1, "nowhere");
    assert_fails("passkey @rope --lengths 64", 1, "length 64: too short");
    assert_fails("passkey @rope --lengths 320,64", 2, "does not rise");
    assert_fails("passkey @rope --lengths 320 --depths 50,20", 2, "does not rise");
    assert_fails("passkey @rope --lengths 320 --depths 0,101", 2, "--depths: 101 is above 100");
    assert_fails("passkey @rope --lengths 320 --methods yarm", 2, "method \"yarm\"");
    assert_fails("passkey @rope --lengths 320 --cache f64", 2, "one of f32, f16, bf16, q8");
    assert_fails("passkey @rope --lengths 320 --length-policy all", 2, "one of declared, causal, prefix");
    assert_fails("passkey @rope --lengths 320 --figure @f.svg", 2, "two lengths and two depths");
    assert_fails("passkey @rope --lengths 320 --resume", 2, "--resume: needs the --journal");
    assert_fails("passkey @rope --lengths 320 --json --json-lines", 2, "contradicts --json");
    assert_fails("passkey @rope --lengths 320 --needle nothing", 2, "asks for the {key}");
    assert_fails("passkey @alibi --lengths 320 --methods yarn", 1, "no rotation to scale");
    assert_fails("passkey @rope --lengths 320 --tokenizer @nowhere", 1, "nowhere");
    assert_fails("passkey @rope --lengths 320 --journal @text", 1, "journal: its content is not a journal of Gyre");
    assert_fails("passkey @rope --lengths 320 --report @texts", 1, "folder");
}

/* Ids that are not bytes, and no tokenizer for them. */
static void test_no_tokenizer(void **state) {
    (void)state;
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.vocab = 300;
    config.model_dim = config.mlp_dim = 32;
    config.layers = 1;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.position.kind = GYRE_KIND_ROPE;
    if (gyre_model_create(&model, &config, 1, &err) || gyre_model_save(model, in_folder("wordless"), GYRE_DTYPE_F32, &err))
        fail_msg("%s", err.text);
    gyre_model_free(model);
    assert_fails("passkey @wordless --lengths 320", 1, "tokenizer");
    assert_fails("generate @wordless --prompt a", 1, "tokenizer");
}

static json_t *cell_of(const json_t *root, size_t i) {
    json_t *cell = json_array_get(json_object_get(root, "results"), i);
    assert_non_null(cell);
    return cell;
}

static void test_json(void **state) {
    (void)state;
    json_t *root = run_json("passkey @rope --lengths 320,400 --depths 0,40,100 --trials 2 --methods none,yarn --json");
    const json_t *results = json_object_get(root, "results");
    assert_int_equal(json_array_size(results), 12);
    static const double depths[] = {0, 0.4, 1};
    for (size_t i = 0; i < 12; i++) {
        const json_t *cell = cell_of(root, i), *trials = json_object_get(cell, "trials");
        assert_string_equal(test_string(cell, "label"), i < 6 ? "none" : "yarn");
        assert_int_equal(test_integer(cell, "length"), i / 3 % 2 ? 400 : 320);
        test_close(test_number(cell, "depth"), depths[i % 3], 1e-12, "depth");
        assert_int_equal(json_array_size(trials), 2);
        for (size_t t = 0; t < 2; t++) {
            const json_t *trial = json_array_get(trials, t);
            assert_true(test_integer(trial, "prompt_tokens") + 5 <= test_integer(cell, "length"));
            /* Every method is asked for the same keys. */
            assert_int_equal(test_integer(trial, "key"),
                             test_integer(json_array_get(json_object_get(cell_of(root, i % 6), "trials"), t), "key"));
        }
    }
    assert_int_equal(json_array_size(json_object_get(root, "totals")), 4);
    const json_t *card = json_object_get(root, "card");
    assert_string_equal(test_string(card, "methods"), "none, yarn");
    json_decref(root);
}

/* A random model fails at its trained length, so nothing can be said about methods. */
static void test_verdict(void **state) {
    (void)state;
    gyre_model_config config = gyre_model_config_default();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    config.model_dim = config.mlp_dim = 32;
    config.layers = 1;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 320;
    if (gyre_model_create(&model, &config, 1, &err) || gyre_model_save(model, in_folder("unfit"), GYRE_DTYPE_F32, &err))
        fail_msg("%s", err.text);
    gyre_model_free(model);
    const char *says =
        "None of the 12 keys is found, not even at 320 tokens, within the trained length of 320: the model lacks";
    outcome *o = run("passkey @unfit --lengths 300,320,640 --depths 2 --trials 1 --methods none,yarn");
    assert_int_equal(o->exit, 0);
    char *flat = o->out; /* broken between words */
    for (char *c = flat; *c; c++)
        if (*c == '\n' && c[1] != '\n') *c = ' ';
    assert_non_null(strstr(o->out, says));
    assert_null(strstr(o->out, "right at length")); /* no tables of nothing but zeros */
    says = "None of the 2 keys is found, not even at 320 tokens, within the trained length of 320: the model lacks";
    json_t *root = run_json("passkey @unfit --lengths 320 --depths 2 --trials 1 --json");
    assert_non_null(strstr(test_string(root, "verdict"), says));
    json_decref(root);
    o = run("passkey @unfit --lengths 640 --depths 2 --trials 1");
    assert_non_null(strstr(o->out, "no length within the trained one was measured"));
    /* The model's own first letter made the right answer: no verdict. */
    static const char grid[] = "passkey " GYRE_TEST_DATA "/../models/rope --lengths 256 --depths 1 --trials 1 --json "
                               "--needle K{key} --question ? --answer-tokens 8 --match contains --answer";
    char line[512];
    snprintf(line, sizeof line, "%s xyz", grid);
    root = run_json(line);
    assert_non_null(test_string(root, "verdict"));
    const char *said = test_string(json_array_get(json_object_get(cell_of(root, 0), "trials"), 0), "said");
    snprintf(line, sizeof line, "%s %c", grid, said[strcspn(said, "abcdefghijklmnopqrstuvwxyz")]);
    json_decref(root);
    root = run_json(line);
    assert_true(json_is_null(json_object_get(root, "verdict")));
    json_decref(root);
}

/* The model's own words are made the right answer: at the beginning it counts; in the middle only where that is allowed. */
static void test_right_answers(void **state) {
    (void)state;
    static const char grid[] = "passkey " GYRE_TEST_DATA "/../models/rope --lengths 320 --depths 1 --trials 1 --json "
                               "--needle K{key} --answer-tokens 8";
    char line[512], word[16] = "";
    snprintf(line, sizeof line, "%s --answer xyz", grid);
    json_t *root = run_json(line);
    const json_t *trial = json_array_get(json_object_get(cell_of(root, 0), "trials"), 0);
    const char *said = test_string(trial, "said") + strspn(test_string(trial, "said"), " \n");
    assert_false(json_is_true(json_object_get(trial, "right")));
    for (size_t n = 0; said[n] > ' ' && n < 3; n++)
        word[n] = said[n];
    assert_true(strlen(word) >= 2);
    json_decref(root);
    static const struct {
        const char *match;
        int skip;
        double right;
    } cases[] = {{"exact", 0, 1}, {"contains", 0, 1}, {"exact", 1, 0}, {"contains", 1, 1}};
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "%s --answer %s --match %s", grid, word + cases[i].skip, cases[i].match);
        root = run_json(line);
        test_close(test_number(cell_of(root, 0), "right"), cases[i].right, 0, "right");
        test_close(test_number(json_array_get(json_object_get(root, "totals"), 0), "right"), cases[i].right, 0, "total");
        json_decref(root);
    }
}

static void test_threads(void **state) {
    (void)state;
    static outcome one;
    const char *line =
        "passkey @rope --lengths 320,400 --depths 3 --trials 2 --methods none,dynamic --length-policy %s --json "
        "--force --threads %d -o %s";
    static const char *const policies[] = {"declared", "causal", "prefix"};
    for (int p = 0; p < 3; p++) {
        char command[512], path[256];
        static char first[1 << 16], second[1 << 16];
        for (int t = 1; t <= 2; t++) {
            snprintf(path, sizeof path, "@out");
            snprintf(command, sizeof command, line, policies[p], t, path);
            one = *run(command);
            assert_int_equal(one.exit, 0);
            read_whole(in_folder("out"), t == 1 ? first : second, sizeof first);
        }
        /* Everything except the command, which contains the threads. */
        char *a = strstr(first, "\"totals\""), *b = strstr(second, "\"totals\"");
        assert_true(a && b);
        assert_string_equal(a, b);
    }
}

static int count_lines(const char *name) {
    static char text[1 << 17];
    int lines = 0;
    read_whole(in_folder(name), text, sizeof text);
    for (const char *c = text; *c; c++)
        lines += *c == '{' && (c == text || c[-1] == '\n');
    return lines;
}

/* Interrupted in the middle of a line, then resumed: the same output, and nothing is measured twice. */
static void test_resume(void **state) {
    (void)state;
    static char whole[1 << 16], again[1 << 16], journal[1 << 16];
    const char *grid = "passkey @rope --lengths 320,400 --depths 3 --trials 2 --methods none,ntk";
    char line[512];
    snprintf(line, sizeof line, "%s --journal @j", grid);
    const outcome *o = run(line);
    assert_int_equal(o->exit, 0);
    memcpy(whole, o->out, sizeof whole);
    assert_int_equal(count_lines("j"), 12);
    assert_fails(line, 1, "--resume continues from them, --force replaces them");
    read_whole(in_folder("j"), journal, sizeof journal);
    char *cut = journal;
    for (int i = 0; i < 5; i++)
        cut = strchr(cut + (*cut == '\n'), '\n');
    assert_non_null(cut);
    write_file("j", journal, (size_t)(cut - journal) + 40);
    snprintf(line, sizeof line, "%s --journal @j --resume", grid);
    o = run(line);
    assert_int_equal(o->exit, 0);
    memcpy(again, o->out, sizeof again);
    char *a = strstr(whole, "card:"), *b = strstr(again, "card:");
    assert_true(a && b);
    *a = *b = 0;
    assert_string_equal(whole, again);
    assert_true(count_lines("j") >= 12 && count_lines("j") <= 13);
    /* Complete now: nothing is added. */
    const int before = count_lines("j");
    assert_int_equal(run(line)->exit, 0);
    assert_int_equal(count_lines("j"), before);
    /* Other keys are other cells. */
    snprintf(line, sizeof line, "%s --seed 2 --journal @j --resume", grid);
    assert_int_equal(run(line)->exit, 0);
    assert_int_equal(count_lines("j"), before + 12);
}

static void test_lines(void **state) {
    (void)state;
    const outcome *o = run("passkey @learned --lengths 320,400 --depths 3 --trials 1 --json-lines");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->err, "none at 320: "));
    o = run("passkey @rope --lengths 320,400 --depths 3 --trials 1 --json-lines");
    assert_int_equal(o->exit, 0);
    char text[sizeof o->out], *rest = text;
    memcpy(text, o->out, sizeof text);
    int lines = 0;
    for (char *line; (line = strtok_r(rest, "\n", &rest)); lines++) {
        json_t *root = json_loads(line, 0, NULL);
        const json_t *json = json_object_get(root, lines < 6 ? "result" : "run");
        assert_non_null(json);
        if (lines < 6) {
            test_close(test_number(json, "depth"), lines % 3 / 2.0, 0, "depth");
            assert_int_equal(test_integer(json, "length"), lines < 3 ? 320 : 400);
        } else {
            assert_non_null(json_object_get(json, "card"));
        }
        json_decref(root);
    }
    assert_int_equal(lines, 7);
}

static void test_tables_and_page(void **state) {
    (void)state;
    static char page[1 << 21];
    const outcome *o =
        run("passkey " GYRE_TEST_DATA "/../models/rope --lengths 256,400 --depths 0,10,100 --trials 1 --methods none,yarn "
            "--report @r.html --figure @f.svg");
    if (o->exit) fail_msg("%s", o->err);
    static const char *const said[] = {
        "right at length", "256", "400", "none", "yarn", "10%", "card: model", "fnv1a64:", "begins what is generated"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(o->out, said[i])) fail_msg("lacks \"%s\": %s", said[i], o->out);
    read_whole(in_folder("r.html"), page, sizeof page);
    static const char *const shown[] = {"<svg",
                                        "</html>",
                                        "By depth",
                                        "<text>256</text>",
                                        "<text>10%</text>",
                                        "Colour: the share",
                                        "four digits between",
                                        "gyre passkey"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (!strstr(page, shown[i])) fail_msg("the page lacks \"%s\"", shown[i]);
    read_whole(in_folder("f.svg"), page, sizeof page);
    assert_non_null(strstr(page, "</svg>"));
    assert_int_equal(run("passkey @learned --lengths 320 --depths 2 --trials 1 --report @l.html")->exit, 0);
}

/* Of methods that find as much, none finds the most; a length is not compared with itself. */
static void test_answer_of_the_page(void **state) {
    (void)state;
    static char page[1 << 21];
    static const char grid[] = "passkey " GYRE_TEST_DATA "/../models/rope --trials 1 --depths 2 --report @a.html --lengths";
    static const struct {
        const char *rest, *says[3];
    } pages[] = {
        {"128 --methods none,yarn",
         {"At 128 tokens the model as it is finds 100 % of the keys, as many as any.", " 1 trial of each length",
          " 119 at 128."}},
        {"128 --methods yarn,none", {"the model as it is finds 100 % of the keys, as many as any.", "yarn", "none"}},
        {"128,640 --methods none,yarn",
         {"At 640 tokens <code>yarn</code> finds ", " of the keys, the most, after 100 % at 128.",
          "The model as it is finds 0 % there."}},
    };
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char line[512];
        snprintf(line, sizeof line, "%s %s --force", grid, pages[i].rest);
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s: %s", line, o->err);
        read_whole(in_folder("a.html"), page, sizeof page);
        for (int s = 0; s < 3; s++)
            if (!strstr(page, pages[i].says[s])) fail_msg("%s lacks \"%s\"", line, pages[i].says[s]);
    }
}

/* Lengths that the trained length makes end where those of --lengths do. */
static void test_trained_length_past_all_lengths(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("far"), 0700), 0);
    assert_int_equal(symlink("../rope/model.safetensors", in_folder("far/model.safetensors")), 0);
    json_t *config = json_load_file(in_folder("rope/config.json"), 0, NULL);
    assert_non_null(config);
    assert_int_equal(json_object_set_new(config, "max_position_embeddings", json_integer(9007199254740990)), 0);
    assert_int_equal(json_dump_file(config, in_folder("far/config.json"), 0), 0);
    json_decref(config);
    assert_fails(
        "passkey @far --trials 1 --depths 1", 1,
        "its trained length is 9007199254740990, and 4 times as many tokens are more than 2^31; name the lengths with "
        "--lengths (lengths)");
    assert_fails("eval @far --text @text", 1, "name the lengths with --contexts (contexts)");
    assert_int_equal(run("passkey @far --trials 1 --depths 1 --lengths 320")->exit, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_marks),
                                       cmocka_unit_test(test_known_format),
                                       cmocka_unit_test(test_depth_and_length),
                                       cmocka_unit_test(test_too_short),
                                       cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_exact_lengths),
                                       cmocka_unit_test(test_prompts),
                                       cmocka_unit_test(test_prompts_with_a_prefix),
                                       cmocka_unit_test(test_encoding_with_a_maximum_position),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_trained_length_past_all_lengths),
                                       cmocka_unit_test(test_no_tokenizer),
                                       cmocka_unit_test(test_verdict),
                                       cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_right_answers),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_resume),
                                       cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_tables_and_page),
                                       cmocka_unit_test(test_answer_of_the_page)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

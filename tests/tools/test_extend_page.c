/* test_extend_page.c: the page of gyre extend: what comes first, and lines that fit the width and can be copied. */
#include "extend_models.h"

static int make_models(void **state) {
    if (make_folder(state)) return -1;
    put_llamas();
    return 0;
}

static int longest_line(const char *page) {
    int longest = 0;
    for (const char *line = page; *line; line += strcspn(line, "\n") + 1) {
        const int length = (int)strcspn(line, "\n");
        if (length > longest) longest = length;
        if (!line[length]) break;
    }
    return longest;
}

/* out = the keys that the page prints for transformers 5, read as JSON. */
static json_t *printed_keys(const char *page) {
    static char text[1 << 16];
    static const char title[] = "in config.json:\n";
    const char *from = strstr(page, title), *end = from ? strstr(from, "\n\n") : NULL, *but = strstr(page, "  (and without");
    assert_true(from && end);
    if (but && but < end) end = but;
    from += sizeof title - 1;
    snprintf(text, sizeof text, "{%.*s}", (int)(end - from), from);
    json_t *keys = json_loads(text, 0, NULL);
    if (!keys) fail_msg("no JSON: %s", text);
    return keys;
}

/* out = the words of a command as a shell reads them, one on a line. */
static char *shell_words(const char *command, char *out, size_t size) {
    char script[8192];
    snprintf(script, sizeof script,
             "vllm() { for word; do printf '%%s\\n' \"$word\" | tr -s ' \\n' ' '; echo; done; }\n%s\n", command);
    write_file("words.sh", script, strlen(script));
    snprintf(script, sizeof script, "sh '%s'", in_folder("words.sh"));
    FILE *shell = popen(script, "r");
    assert_non_null(shell);
    out[fread(out, 1, size - 1, shell)] = 0;
    assert_int_equal(pclose(shell), 0);
    return out;
}

/* Keys and commands are broken so that JSON and a shell read them as if they were whole. */
static void copied_text_survives_the_width(void **state) {
    (void)state;
    static const char *const models[] = {"extend " GYRE_TEST_DATA "/configs/phi-3-mini-128k.json --to 256k",
                                         "extend @llama2 --to 16k"};
    for (size_t i = 0; i < 2; i++) {
        char line[512];
        static char page[1 << 16], folded[8192], whole[8192];
        snprintf(line, sizeof line, "%s --json", models[i]);
        json_t *v = verdict_of(line);
        setenv("COLUMNS", "72", 1);
        memcpy(page, run(models[i])->out, sizeof page);
        unsetenv("COLUMNS");
        json_t *printed = printed_keys(page), *keys = json_copy(json_object_get(engine_of(v, "transformers"), "keys")),
               *value;
        void *next;
        const char *key;
        json_object_foreach_safe(keys, next, key, value) {
            if (json_is_null(value)) json_object_del(keys, key);
        }
        assert_true(json_equal(printed, keys));
        char *command = strstr(page, "  vllm serve"), *note = strstr(page, "  vLLM before");
        assert_true(command && note);
        *note = 0;
        assert_non_null(strchr(command, '\\'));
        shell_words(command, folded, sizeof folded);
        shell_words(test_string(engine_of(v, "vLLM"), "command"), whole, sizeof whole);
        assert_non_null(strstr(whole, "--max-model-len"));
        assert_string_equal(folded, whole);
        json_decref(printed);
        json_decref(keys);
        json_decref(v);
    }
}

/* out = the first option on the page that a backslash parts from its value, or NULL. */
static const char *parted_option(const char *page) {
    for (const char *end = page; (end = strstr(end, " \\\n")); end++) {
        const char *word = end;
        while (word > page && word[-1] != ' ')
            word--;
        if (*word == '-' && end[3 + strspn(end + 3, " ")] != '-') return word;
    }
    return NULL;
}

static void options_keep_their_values(void **state) {
    (void)state;
    static const char *const lines[] = {"extend @llama2 --to 32k", "extend alibi --to 1k",
                                        "extend @llama2 --to 16k --methods llama3"};
    int broken = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int width = 72; width <= 120; width++) {
            char columns[16];
            snprintf(columns, sizeof columns, "%d", width);
            setenv("COLUMNS", columns, 1);
            const outcome *o = run(lines[i]);
            unsetenv("COLUMNS");
            broken += strstr(o->out, " \\\n") != NULL;
            if (parted_option(o->out)) fail_msg("%s at %d:\n%s", lines[i], width, parted_option(o->out));
        }
    assert_true(broken > 0);
}

/* The answer comes first; --all and --methods add the tables. */
static void answer_comes_first(void **state) {
    (void)state;
    const outcome *o = run("extend rope --to 1k");
    const char *model = strstr(o->out, "\n\nmodel "), *keys = strstr(o->out, "\n\ntransformers 5, in");
    assert_int_equal(strncmp(o->out, "Recommended: yarn x 4\nReason", 28), 0);
    assert_true(model && keys && model < keys);
    assert_null(strstr(o->out, "turns lost"));
    assert_non_null(strstr(o->out, "\n--all adds what each of 8 methods does"));
    static const char *const more[] = {"extend rope --to 1k --all", "extend rope --to 1k --methods none,yarn"};
    for (size_t i = 0; i < 2; i++) {
        o = run(more[i]);
        keys = strstr(o->out, "transformers 5, in");
        assert_true(keys && keys < strstr(o->out, "turns lost"));
        assert_null(strstr(o->out, "--all adds"));
    }
    /* One row alone is not several. */
    o = run("extend @llama31 --to 4k");
    assert_int_equal(strncmp(o->out, "Recommended: the model as it is\n", 32), 0);
    assert_non_null(strstr(o->out, "\n--all adds the figures of this rotation"));
    o = run("extend " GYRE_TEST_DATA "/configs/phi-3-mini-128k.json --to 256k");
    assert_null(strstr(o->out, "longrope x"));
    assert_non_null(strstr(o->out, "its scaling, longrope, stays"));
    assert_fails("extend @rope --to 64 --all --method yarn --write @out", 2, "--all: adds tables");
}

static void page_follows_the_width(void **state) {
    (void)state;
    static const int widths[] = {72, 90, 120};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char columns[16];
        snprintf(columns, sizeof columns, "%d", widths[i]);
        setenv("COLUMNS", columns, 1);
        const outcome *o = run("extend rope --to 1k --all");
        assert_int_equal(o->exit, 0);
        if (longest_line(o->out) > widths[i]) fail_msg("%d columns of %d:\n%s", longest_line(o->out), widths[i], o->out);
        /* One table, or one below the other. */
        assert_int_equal(strstr(o->out, "\nmethod        from") != NULL || strstr(o->out, "\nmethod     coherence"),
                         widths[i] < 120);
    }
    unsetenv("COLUMNS");
    const outcome *o = run("extend rope --to 1k --all"); /* no terminal: always the same */
    assert_true(longest_line(o->out) <= 100 && longest_line(o->out) > 90);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_comes_first), cmocka_unit_test(copied_text_survives_the_width),
        cmocka_unit_test(options_keep_their_values), cmocka_unit_test(page_follows_the_width)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}

/* test_glossary.c: docs/glossary.md and the list of its entries agree, each entry says what it should, and warnings name the
 * entry of their key. */
#include "run_command.h"
#include "tools/explain/glossary.h"

static char page[1 << 17];

static int read_page(void **state) {
    if (make_folder(state)) return -1;
    read_whole(GYRE_TEST_DATA "/../docs/glossary.md", page, sizeof page);
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "100", 1);
}

static const char *const entries[][2] = {
#define ENTRY(key, entry) {key, entry},
#include "tools/explain/glossary.def"
#undef ENTRY
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* out = where the text of an entry begins, or NULL. */
static const char *section_of(const char *entry) {
    char heading[128];
    snprintf(heading, sizeof heading, "\n### %s\n", entry);
    const char *at = strstr(page, heading);
    return at ? at + strlen(heading) : NULL;
}

static void test_list(void **state) {
    (void)state;
    int headings = 0, own = 0;
    for (const char *at = page; (at = strstr(at, "\n### ")); at++) {
        char name[64];
        assert_int_equal(sscanf(at, "\n### %63[^\n]", name), 1);
        assert_true(headings < ENTRIES);
        assert_string_equal(entries[headings][0], name); /* the same order */
        headings++;
    }
    for (int i = 0; i < ENTRIES; i++) {
        if (!section_of(entries[i][1])) fail_msg("no entry for %s", entries[i][0]);
        own += strcmp(entries[i][0], entries[i][1]) == 0;
        for (int k = 0; k < i; k++)
            assert_string_not_equal(entries[i][0], entries[k][0]);
    }
    assert_int_equal(own, headings);
    assert_true(headings >= 45);
}

/* An entry says who writes and reads the key, and what the trap is, or refers to the one that does. */
static void test_parts(void **state) {
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        if (strcmp(entries[i][0], entries[i][1]) != 0) continue;
        const char *from = section_of(entries[i][0]), *end = strstr(from, "\n##");
        char *text = strndup(from, end ? (size_t)(end - from) : strlen(from));
        assert_non_null(text);
        const int whole =
            strstr(text, "\n* **Written by** ") && strstr(text, "\n* **Read by** ") && strstr(text, "\n* **Trap:** ");
        if (!whole && strncmp(text, "\nSee [", 6) != 0) fail_msg("%s: not whole", entries[i][0]);
        free(text);
    }
}

static void test_places(void **state) {
    (void)state;
    char out[GLOSSARY_PLACE];
    assert_string_equal(glossary_place("no_rope_layers", out), "docs/glossary.md#no_rope_layers");
    assert_string_equal(glossary_place("text_config.rope_scaling.mscale", out), "docs/glossary.md#mscale");
    assert_string_equal(glossary_place("llama.rope.dimension_count", out), "docs/glossary.md#rope_dim");
    assert_null(glossary_place("hidden_size", out));
    assert_null(glossary_place("no_rope_layers.", out));
    assert_null(glossary_place("", out));
    assert_null(glossary_place(NULL, out));
}

static void test_warnings(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"qwen3\", \"head_dim\": 64, \"rope_theta\": 10000.0,\n"
                                 " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,\n"
                                 " \"max_position_embeddings\": 4096,\n"
                                 " \"no_rope_layers\": [1, 0], \"rope_fudge\": 2}\n";
    write_file("unread.json", config, sizeof config - 1);
    json_t *root = run_json("explain @unread.json --json");
    const json_t *warnings = json_object_get(root, "warnings");
    assert_int_equal(json_array_size(warnings), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *w = json_array_get(warnings, i), *see = json_object_get(w, "see");
        if (strcmp(test_string(w, "key"), "no_rope_layers") == 0)
            assert_string_equal(json_string_value(see), "docs/glossary.md#no_rope_layers");
        else
            assert_true(json_is_null(see));
    }
    json_decref(root);
    static const char says[] = "see docs/glossary.md#no_rope_layers";
    static const char *const lines[] = {"explain @unread.json", "diff @unread.json --with vllm", "audit @unread.json",
                                        "explain @unread.json --timeline"};
    for (size_t i = 0; i < 4; i++) {
        const outcome *o = run(lines[i]);
        char joined[sizeof o->out];
        size_t n = 0;
        for (const char *c = o->out; *c; c++) /* lines may break between the words */
            if (*c != '\n' && !(*c == ' ' && n && joined[n - 1] == ' '))
                joined[n++] = *c;
            else if (*c == '\n' && n && joined[n - 1] != ' ')
                joined[n++] = ' ';
        joined[n] = 0;
        if (!strstr(joined, says)) fail_msg("gyre %s lacks \"%s\":\n%s", lines[i], says, o->out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_places), cmocka_unit_test(test_warnings)};
    return cmocka_run_group_tests(tests, read_page, remove_folder);
}

/* test_config_edit.c: edits of the text of a JSON file, byte for byte. */
#include "reading/config_edit.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One edit of a text. A NULL value removes the key. */
typedef struct change {
    const char *name, *before, *object, *key, *value, *after_key, *want;
} change;

static const change changes[] = {
    /* A file as transformers writes it. */
    {"replace", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "", "a", "8", NULL, "{\n  \"a\": 8,\n  \"b\": 2\n}\n"},
    {"append", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "", "c", "8", NULL, "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 8\n}\n"},
    {"insert", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "", "c", "8", "a", "{\n  \"a\": 1,\n  \"c\": 8,\n  \"b\": 2\n}\n"},
    {"insert after none", "{\n  \"a\": 1\n}", "", "c", "8", "z", "{\n  \"a\": 1,\n  \"c\": 8\n}"},
    {"a null becomes an object", "{\n  \"a\": null,\n  \"b\": 2\n}\n", "", "a", "{\"x\": 1, \"y\": 2}", NULL,
     "{\n  \"a\": {\n    \"x\": 1,\n    \"y\": 2\n  },\n  \"b\": 2\n}\n"},
    {"a new object", "{\n  \"a\": 1\n}\n", "", "o", "{\"x\": 1.5, \"y\": \"z\"}", "a",
     "{\n  \"a\": 1,\n  \"o\": {\n    \"x\": 1.5,\n    \"y\": \"z\"\n  }\n}\n"},
    {"a list", "{\n  \"o\": {\n    \"x\": 1\n  }\n}\n", "o", "l", "[1.5, 2.0]", NULL,
     "{\n  \"o\": {\n    \"x\": 1,\n    \"l\": [\n      1.5,\n      2.0\n    ]\n  }\n}\n"},
    {"into an empty object", "{\n  \"o\": {},\n  \"b\": 1\n}", "o", "x", "1", NULL,
     "{\n  \"o\": {\n    \"x\": 1\n  },\n  \"b\": 1\n}"},
    {"remove the first", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "", "a", NULL, NULL, "{\n  \"b\": 2\n}\n"},
    {"remove the last", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "", "b", NULL, NULL, "{\n  \"a\": 1\n}\n"},
    {"remove between", "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n", "", "b", NULL, NULL,
     "{\n  \"a\": 1,\n  \"c\": 3\n}\n"},
    {"remove the only", "{\n  \"o\": {\n    \"x\": 1\n  }\n}\n", "o", "x", NULL, NULL, "{\n  \"o\": {}\n}\n"},
    {"remove what is not there", "{\n  \"a\": 1\n}\n", "", "b", NULL, NULL, "{\n  \"a\": 1\n}\n"},
    {"remove an object", "{\n  \"o\": {\"x\": [1, {\"y\": \"}\"}]},\n  \"b\": 2\n}\n", "", "o", NULL, NULL,
     "{\n  \"b\": 2\n}\n"},
    /* Four spaces; tabs; Windows line ends; no line end at the end. */
    {"four spaces", "{\n    \"a\": null\n}", "", "a", "{\"x\": 1}", NULL, "{\n    \"a\": {\n        \"x\": 1\n    }\n}"},
    {"tabs", "{\n\t\"a\": 1\n}", "", "o", "{\"x\": 1}", NULL, "{\n\t\"a\": 1,\n\t\"o\": {\n\t\t\"x\": 1\n\t}\n}"},
    {"CRLF", "{\r\n  \"a\": 1\r\n}\r\n", "", "o", "{\"x\": 1}", NULL,
     "{\r\n  \"a\": 1,\r\n  \"o\": {\r\n    \"x\": 1\r\n  }\r\n}\r\n"},
    {"no indentation", "{\n\"a\": 1\n}", "", "o", "{\"x\": 1}", NULL, "{\n\"a\": 1,\n\"o\": {\n\"x\": 1\n}\n}"},
    /* In one line, with spaces and without. */
    {"one line", "{\"a\": 1, \"b\": 2}", "", "o", "{\"x\": 1, \"y\": [1.5, 2.5]}", "a",
     "{\"a\": 1, \"o\": {\"x\": 1, \"y\": [1.5, 2.5]}, \"b\": 2}"},
    {"dense", "{\"a\":1,\"b\":2}", "", "o", "{\"x\": 1, \"y\": 2}", "a", "{\"a\":1,\"o\":{\"x\":1,\"y\":2},\"b\":2}"},
    {"dense, last out", "{\"a\":1,\"b\":2}", "", "b", NULL, NULL, "{\"a\":1}"},
    {"one line, first out", "{\"a\": 1, \"b\": 2}", "", "a", NULL, NULL, "{\"b\": 2}"},
    {"padded braces", "{ \"a\" : 1 }", "", "b", "2", NULL, "{ \"a\" : 1, \"b\" : 2 }"},
    {"into an empty file", "{}", "", "a", "1", NULL, "{\"a\": 1}"},
    /* A dict in one line of a file that has many. */
    {"inline object", "{\n  \"o\": {\"type\": \"linear\", \"factor\": 2.0},\n  \"b\": 1\n}\n", "o", "n", "7", "factor",
     "{\n  \"o\": {\"type\": \"linear\", \"factor\": 2.0, \"n\": 7},\n  \"b\": 1\n}\n"},
    {"a list in an inline object", "{\n  \"o\": {\"x\": 1},\n  \"b\": 1\n}\n", "o", "l", "[1, 2]", NULL,
     "{\n  \"o\": {\"x\": 1, \"l\": [1, 2]},\n  \"b\": 1\n}\n"},
    /* Unusual spellings, which are preserved. */
    {"commas first", "{ \"a\": 1\n, \"b\": 2\n}", "", "b", NULL, NULL, "{ \"a\": 1\n}"},
    {"space before the comma", "{\n  \"a\": 1 ,\n  \"b\": 2\n}", "", "c", "3", "a",
     "{\n  \"a\": 1,\n  \"c\": 3 ,\n  \"b\": 2\n}"},
    {"numbers as they are spelled", "{\"a\": 1e-05, \"b\": 500000.00, \"c\": 1}", "", "c", "2", NULL,
     "{\"a\": 1e-05, \"b\": 500000.00, \"c\": 2}"},
    {"the same number", "{\"a\": 4e0}", "", "a", "4.0", NULL, "{\"a\": 4e0}"},
    {"the same word", "{\"a\": \"\\u0079arn\"}", "", "a", "\"yarn\"", NULL, "{\"a\": \"\\u0079arn\"}"},
    {"brackets in strings", "{\"s\": \"}\\\"],{\", \"a\": 1}", "", "a", "2", NULL, "{\"s\": \"}\\\"],{\", \"a\": 2}"},
    {"deep", "{\"t\": {\"r\": {\"f\": {\"x\": 1}}}}", "t.r.f", "x", "2", NULL, "{\"t\": {\"r\": {\"f\": {\"x\": 2}}}}"},
    {"the fewest digits", "{\"a\": 1}", "", "a", "0.1", NULL, "{\"a\": 0.1}"},
    {"all digits", "{\"a\": 1}", "", "a", "0.30000000000000004", NULL, "{\"a\": 0.30000000000000004}"}};

static json_t *parse(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value) fail_msg("not JSON: %s", text);
    return value;
}

/* The object under keys joined by dots. */
static json_t *object_in(json_t *root, const char *path) {
    char copy[100], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key; (key = strtok_r(rest, ".", &rest)) != NULL;)
        root = json_object_get(root, key);
    return root;
}

static void apply(gyre_config_edit *edit, const change *c) {
    if (c->value)
        gyre_edit_set(edit, c->object, c->key, parse(c->value), c->after_key);
    else
        gyre_edit_remove(edit, c->object, c->key);
}

static void edits_preserve_other_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        gyre_error err = {0, ""};
        gyre_config_edit edit;
        gyre_edit_begin(&edit, c->before, strlen(c->before), &err);
        apply(&edit, c);
        assert_int_equal(edit.status, GYRE_OK);
        if (strcmp(edit.text, c->want) != 0) fail_msg("%s:\n%s\nexpected\n%s", c->name, edit.text, c->want);
        assert_int_equal(edit.bytes, strlen(c->want));
        gyre_edit_end(&edit);
    }
}

/* Jansson, which shares no code with the edits, must read the changed file as the change asks. */
static void edits_change_the_named_key(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        gyre_config_edit edit;
        gyre_edit_begin(&edit, c->before, strlen(c->before), NULL);
        apply(&edit, c);
        json_t *want = parse(c->before), *got = parse(edit.text), *object = object_in(want, c->object);
        if (c->value)
            json_object_set_new(object, c->key, parse(c->value));
        else
            json_object_del(object, c->key);
        if (!json_equal(want, got) && strcmp(c->name, "the same number") != 0) fail_msg("%s: %s", c->name, edit.text);
        json_decref(want);
        json_decref(got);
        gyre_edit_end(&edit);
    }
}

static void edits_can_be_chained(void **state) {
    (void)state;
    const char *text =
        "{\n  \"rope_scaling\": {\n    \"factor\": 8.0,\n    \"rope_type\": \"llama3\"\n  },\n  \"n\": 1\n}\n";
    gyre_config_edit edit;
    gyre_edit_begin(&edit, text, strlen(text), NULL);
    gyre_edit_remove(&edit, "rope_scaling", "factor");
    gyre_edit_set(&edit, "rope_scaling", "rope_type", json_string("yarn"), NULL);
    gyre_edit_set(&edit, "rope_scaling", "factor", json_real(4.0), "rope_type");
    gyre_edit_set(&edit, "", "n", json_integer(9), NULL);
    assert_true(gyre_edit_has(&edit, "rope_scaling", "factor"));
    assert_false(gyre_edit_has(&edit, "", "factor"));
    assert_string_equal(
        edit.text, "{\n  \"rope_scaling\": {\n    \"rope_type\": \"yarn\",\n    \"factor\": 4.0\n  },\n  \"n\": 9\n}\n");
    gyre_edit_end(&edit);
}

static void a_missing_object_is_an_error(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_config_edit edit;
    gyre_edit_begin(&edit, "{\"a\": 1}", 8, &err);
    gyre_edit_set(&edit, "a.b", "c", json_integer(1), NULL);
    assert_int_equal(edit.status, GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "a.b"));
    gyre_edit_set(&edit, "", "a", json_integer(2), NULL); /* the first failure is kept */
    assert_string_equal(edit.text, "{\"a\": 1}");
    gyre_edit_end(&edit);
    gyre_edit_begin(&edit, "{\"a\": 1}", 8, NULL);
    gyre_edit_set(&edit, "", "a", NULL, NULL);
    assert_int_equal(edit.status, GYRE_ENOMEM);
    gyre_edit_end(&edit);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(edits_preserve_other_bytes),
                                       cmocka_unit_test(edits_change_the_named_key), cmocka_unit_test(edits_can_be_chained),
                                       cmocka_unit_test(a_missing_object_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_json_locate.c: locations of keys in a JSON file, values by key, and readings under construction. */
#include "files/json_locate.h"

#include "check_reading.h"
#include "reading/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* -- places -- */
/* The text at a path and its line, checked against the file. */
static void assert_found(const char *text, const char *path, const char *key, const char *value, int64_t line) {
    gyre_json_member m = {0, 0, 0, 0};
    if (!gyre_json_locate(text, strlen(text), path, &m)) fail_msg("%s is not found", path);
    assert_memory_equal(text + m.key, key, strlen(key));
    if (m.end - m.value != strlen(value) || memcmp(text + m.value, value, strlen(value)) != 0)
        fail_msg("%s: \"%.*s\", not \"%s\"", path, (int)(m.end - m.value), text + m.value, value);
    assert_int_equal(m.line, line);
}
static void assert_missing(const char *text, const char *path) {
    gyre_json_member m = {1, 2, 3, 4};
    assert_int_equal(gyre_json_locate(text, strlen(text), path, &m), 0);
    assert_int_equal(m.line, 4);
}

static const char nested[] = "{\n"
                             "  \"a\": 1,\n"
                             "  \"b\": {\"a\": 2,\n"
                             "        \"c\": {\"a\" : -3.5e+2 }},\n"
                             "  \"d\": [1, {\"a\": 9}, \"]\"],\n"
                             "  \"e\": true,\"f\":null,\n"
                             "  \"g\": \"a \\\" } b\\\\\",\n"
                             "  \"b.c\": {\"x\": 7},\n"
                             "  \"h.i\": 8,\n"
                             "  \"j\": {\"k.l\": {\"m\": \"n\"}},\n"
                             "  \"o\": {}, \"p\": []\t,\r\n"
                             "  \"q\": {\"r\": 0}\n"
                             "}\n";

static void test_finds_nested_keys(void **state) {
    (void)state;
    assert_found(nested, "a", "\"a\"", "1", 2);
    assert_found(nested, "b.a", "\"a\"", "2", 3);
    assert_found(nested, "b.c.a", "\"a\"", "-3.5e+2", 4);
    assert_found(nested, "b.c", "\"c\"", "{\"a\" : -3.5e+2 }", 4);
    assert_found(nested, "d", "\"d\"", "[1, {\"a\": 9}, \"]\"]", 5);
    assert_found(nested, "e", "\"e\"", "true", 6);
    assert_found(nested, "f", "\"f\"", "null", 6);
    assert_found(nested, "g", "\"g\"", "\"a \\\" } b\\\\\"", 7);
    assert_found(nested, "b.c.x", "\"x\"", "7", 8);
    assert_found(nested, "h.i", "\"h.i\"", "8", 9);
    assert_found(nested, "j.k.l.m", "\"m\"", "\"n\"", 10);
    assert_found(nested, "o", "\"o\"", "{}", 11);
    assert_found(nested, "p", "\"p\"", "[]", 11);
    assert_found(nested, "q.r", "\"r\"", "0", 12);
}

static void test_missing_keys(void **state) {
    (void)state;
    static const char *const missing[] = {"",   "A",  "aa",   "b.b", "a.a", "d.a", "b.c.a.x", "e.",
                                          ".a", "b.", "b..a", "g.a", "h",   "j.k", "o.p",     "9"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_missing(nested, missing[i]);
    assert_missing("[{\"a\": 1}]", "a");
    assert_missing("", "a");
    assert_missing("   ", "a");
    assert_missing("{}", "a");
}

static void test_ends_of_values(void **state) {
    (void)state;
    static const char *const values[] = {"0",
                                         "-1e-5",
                                         "true",
                                         "null",
                                         "\"\"",
                                         "\"\\\\\"",
                                         "\"\\\"\"",
                                         "\"}\"",
                                         "[]",
                                         "{}",
                                         "[[]]",
                                         "[\"[\", {\"b\": [1]}]",
                                         "{\"x\": {\"y\": \"}\"}}",
                                         "\"\\u0041\""};
    static const char *const after[] = {"}", " }", ", \"b\": 2}", "\n, \"b\": [{}]}", "\r\n\t}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; j < sizeof after / sizeof *after; j++) {
            char text[200];
            snprintf(text, sizeof text, "{\"a\":%s%s", values[i], after[j]);
            assert_found(text, "a", "\"a\"", values[i], 1);
        }
}

/* An escaped key is another spelling of a key that jansson knows. It has no location then, rather than a wrong one. */
static void test_escaped_keys(void **state) {
    (void)state;
    assert_missing("{\"\\u0061\": 1}", "a");
    assert_found("{\"x\\\"y\": {\"a\": 1},\n\"a\": 2}", "a", "\"a\"", "2", 2);
    assert_found("{\"s\": \"\\\\\",\n\"a\": 2}", "a", "\"a\"", "2", 2);
}

static void test_finds_objects(void **state) {
    (void)state;
    gyre_json_member m = {0, 0, 0, 0};
    const size_t bytes = strlen(nested);
    assert_int_equal(gyre_json_locate_object(nested, bytes, "", &m), 1);
    assert_int_equal(m.value, 0);
    assert_int_equal(m.end, bytes - 1);
    assert_int_equal(m.line, 1);
    assert_int_equal(gyre_json_locate_object("\n\n {}", 5, "", &m), 1);
    assert_int_equal(m.value, 3);
    assert_int_equal(m.end, 5);
    assert_int_equal(m.line, 3);
    assert_int_equal(gyre_json_locate_object(nested, bytes, "b.c", &m), 1);
    assert_memory_equal(nested + m.value, "{\"a\"", 4);
    assert_int_equal(nested[m.end - 1], '}');
    assert_int_equal(m.line, 4);
    assert_int_equal(gyre_json_locate_object(nested, bytes, "o", &m), 1);
    assert_int_equal(m.end - m.value, 2);
    assert_int_equal(gyre_json_locate_object(nested, bytes, "d", &m), 0);
    assert_int_equal(gyre_json_locate_object(nested, bytes, "z", &m), 0);
    assert_int_equal(gyre_json_locate_object("[]", 2, "", &m), 0);
}

/* Truncated anywhere and with any byte changed: everything found is inside the text. Each copy has a heap block of exactly
 * its size, so that sanitizers find reads past it. */
static void test_reads_no_byte_past_the_end(void **state) {
    (void)state;
    static const char *const paths[] = {"a", "b.c.a", "q.r", "g", "zz", "j.k.l.m"};
    const size_t all = strlen(nested);
    for (size_t bytes = 0; bytes <= all; bytes++)
        for (int broken = 0; broken < 6; broken++) {
            char *text = malloc(bytes + (bytes == 0));
            memcpy(text, nested, bytes);
            if (broken > 0 && bytes > 0) text[bytes - 1] = "\"\\{[}"[broken - 1];
            for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
                gyre_json_member m = {0, 0, 0, 0};
                if (gyre_json_locate(text, bytes, paths[p], &m))
                    assert_true(m.key < m.value && m.value <= m.end && m.end <= bytes && m.line >= 1);
                if (gyre_json_locate_object(text, bytes, p ? paths[p] : "", &m))
                    assert_true(m.value <= m.end && m.end <= bytes);
            }
            free(text);
        }
}

static void test_deep_nesting(void **state) {
    (void)state;
    enum { DEEP = 300000 };
    char *text = malloc(2 * DEEP + 20);
    memcpy(text, "{\"x\":", 5);
    memset(text + 5, '[', DEEP);
    memset(text + 5 + DEEP, ']', DEEP);
    memcpy(text + 5 + 2 * DEEP, ",\n\"a\":1}", 9);
    assert_found(text, "a", "\"a\"", "1", 2);
    text[5 + 2 * DEEP - 1] = '[';
    assert_missing(text, "a");
    free(text);
}

/* -- values by key -- */
/* A scope of the whole text, in a build whose errors go to `err`. */
typedef struct bench {
    gyre_error err;
    gyre_build *build;
    gyre_json_source source;
    json_t *root;
    gyre_scope scope;
} bench;

static void open_bench(bench *b, const char *text) {
    memset(b, 0, sizeof *b);
    b->build = gyre_build_begin("x/config.json", "config.json", GYRE_PROFILE_HF_5, 0, &b->err);
    assert_non_null(b->build);
    b->root = json_loads(text, 0, NULL);
    assert_non_null(b->root);
    b->source = (gyre_json_source){b->build, text, strlen(text), NULL, NULL};
    b->scope = (gyre_scope){&b->source, b->root, ""};
}
/* The error text, or "" if nothing failed. */
static void close_bench(bench *b, gyre_status status, const char *words) {
    gyre_reading *reading = NULL;
    const gyre_status got = gyre_build_status(b->build);
    (void)gyre_build_add_group(b->build, "all");
    assert_int_equal(gyre_build_finish(b->build, &reading), got);
    gyre_reading_free(reading);
    json_decref(b->root);
    assert_int_equal(got, status);
    if (status != GYRE_OK && !strstr(b->err.text, words)) fail_msg("\"%s\" lacks \"%s\"", b->err.text, words);
}

static const char kinds[] = "{\n\"whole\": 7, \"real\": 2.5, \"even\": 3.0, \"yes\": true, \"no\": 0,\n"
                            "\"text\": \"words\", \"nothing\": null, \"list\": [1, 2.5, 3],\n"
                            "\"inner\": {\"deep\": {\"n\": 4}}, \"large\": 9007199254740993, \"below\": -2}";

static void test_values(void **state) {
    (void)state;
    static const char *const names[] = {"missing", "nothing", "real", "whole", NULL}, *const none[] = {"missing", NULL};
    bench b;
    open_bench(&b, kinds);
    const gyre_scope *s = &b.scope;
    assert_int_equal(gyre_scope_integer(s, "whole", 1, 9), 7);
    assert_int_equal(gyre_scope_integer(s, "even", 1, 9), 3);
    assert_int_equal(gyre_scope_integer(s, "missing", 1, 9), 9);
    assert_int_equal(gyre_scope_integer(s, "nothing", 1, 9), 9);
    assert_int_equal(gyre_scope_integer(s, "below", -2, 9), -2);
    assert_true(gyre_scope_number(s, "real", 1.0) == 2.5);
    assert_true(gyre_scope_number(s, "whole", 1.0) == 7.0);
    assert_true(gyre_scope_number(s, "nothing", 1.0) == 1.0);
    assert_int_equal(gyre_scope_bool(s, "yes", 0), 1);
    assert_int_equal(gyre_scope_bool(s, "no", 1), 0);
    assert_int_equal(gyre_scope_bool(s, "missing", 1), 1);
    assert_string_equal(gyre_scope_string(s, "text", "x"), "words");
    assert_string_equal(gyre_scope_string(s, "missing", "x"), "x");
    assert_string_equal(gyre_scope_first(s, names), "real");
    assert_null(gyre_scope_first(s, none));
    assert_int_equal(gyre_scope_has(s, "nothing"), 1);
    assert_int_equal(gyre_scope_has(s, "missing"), 0);
    const double *list = gyre_scope_numbers(s, "list", 3);
    assert_true(list && list[0] == 1.0 && list[1] == 2.5 && list[2] == 3.0);
    const gyre_scope inner = gyre_scope_child(s, "inner"), deep = gyre_scope_child(&inner, "deep");
    assert_int_equal(gyre_scope_integer(&deep, "n", 1, 0), 4);
    const gyre_scope gone = gyre_scope_child(s, "missing"), further = gyre_scope_child(&gone, "more");
    assert_int_equal(gyre_scope_integer(&further, "n", 1, 5), 5);
    close_bench(&b, GYRE_OK, "");
}

static void test_lines_and_columns(void **state) {
    (void)state;
    bench b;
    open_bench(&b, kinds);
    const gyre_scope inner = gyre_scope_child(&b.scope, "inner"), deep = gyre_scope_child(&inner, "deep");
    gyre_place place = gyre_scope_place(&deep, "n");
    assert_string_equal(place.key, "inner.deep.n");
    assert_int_equal(place.line, 4);
    assert_int_equal(place.offset, strstr(kinds, "\"n\"") - kinds);
    place = gyre_scope_place(&deep, "absent"); /* where its object is */
    assert_string_equal(place.key, "inner.deep.absent");
    assert_int_equal(place.line, 4);
    assert_int_equal(place.offset, strstr(kinds, "\"deep\"") - kinds);
    place = gyre_scope_place(&b.scope, "absent");
    assert_string_equal(place.key, "absent");
    assert_int_equal(place.line, 0);
    assert_int_equal(place.offset, 0);
    close_bench(&b, GYRE_OK, "");
}

typedef void fault(const gyre_scope *s);
#define FAULT(name, statement)                                                                                              \
    static void name(const gyre_scope *s) {                                                                                 \
        statement;                                                                                                          \
    }
FAULT(size_of_text, assert_int_equal(gyre_scope_integer(s, "text", 1, 9), 9))
FAULT(size_of_real, assert_int_equal(gyre_scope_integer(s, "real", 1, 9), 9))
FAULT(size_of_flag, assert_int_equal(gyre_scope_integer(s, "yes", 0, 9), 9))
FAULT(size_below, assert_int_equal(gyre_scope_integer(s, "below", 0, 9), 9))
FAULT(size_past, assert_int_equal(gyre_scope_integer(s, "large", 0, 9), 9))
FAULT(number_missing, assert_true(gyre_scope_number(s, "missing", NAN) == 0.0))
FAULT(number_null, assert_true(gyre_scope_number(s, "nothing", NAN) == 0.0))
FAULT(number_text, assert_true(gyre_scope_number(s, "text", 3.0) == 3.0))
FAULT(flag_number, assert_int_equal(gyre_scope_bool(s, "whole", 1), 1))
FAULT(text_number, assert_string_equal(gyre_scope_string(s, "whole", NULL), ""))
FAULT(text_missing, assert_string_equal(gyre_scope_string(s, "missing", NULL), ""))
FAULT(list_missing, assert_null(gyre_scope_numbers(s, "missing", 3)))
FAULT(list_short, assert_null(gyre_scope_numbers(s, "list", 4)))
FAULT(list_text, assert_null(gyre_scope_numbers(s, "text", 1)))
FAULT(into_number, assert_null(gyre_scope_child(s, "whole").object))
#undef FAULT

static void test_wrong_values(void **state) {
    (void)state;
    static const struct {
        fault *cause;
        const char *words;
    } faults[] = {
        {size_of_text, "text: not a whole number of at least 1 (x/config.json, line 3)"},
        {size_of_real, "real: not a whole number of at least 1 (x/config.json, line 2)"},
        {size_of_flag, "yes: not a whole number of at least 0"},
        {size_below, "below: not a whole number of at least 0 (x/config.json, line 4)"},
        {size_past, "large: 9.0072e+15 is too large"},
        {number_missing, "missing: missing (x/config.json)"},
        {number_null, "nothing: missing (x/config.json, line 3)"},
        {number_text, "text: not a number"},
        {flag_number, "whole: neither true nor false"},
        {text_number, "whole: not a string"},
        {text_missing, "missing: missing"},
        {list_missing, "missing: missing"},
        {list_short, "list: not a list of 4 numbers (x/config.json, line 3)"},
        {list_text, "text: not a list of 1 numbers"},
        {into_number, "whole: not an object"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        bench b;
        open_bench(&b, kinds);
        faults[i].cause(&b.scope);
        /* Only the first error counts. Later calls change nothing. */
        gyre_scope_fail(&b.scope, GYRE_EINVAL, "whole", "again");
        assert_int_equal(gyre_scope_integer(&b.scope, "whole", 1, 11), 11);
        close_bench(&b, GYRE_EFORMAT, faults[i].words);
    }
    bench b;
    open_bench(&b, "{\"list\": [1, \"2\"]}");
    assert_null(gyre_scope_numbers(&b.scope, "list", 2));
    close_bench(&b, GYRE_EFORMAT, "list: entry 1 is not a number (x/config.json, line 1)");
}

static void test_names_that_are_too_long(void **state) {
    (void)state;
    char text[600], key[260];
    bench b;
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    snprintf(text, sizeof text, "{\"%s\": {\"a\": 1}}", key);
    open_bench(&b, text);
    (void)gyre_scope_child(&b.scope, key);
    assert_int_equal(gyre_build_status(b.build), GYRE_EUNSUPPORTED);
    close_bench(&b, GYRE_EUNSUPPORTED, "the name of an object above it is too long");
}

/* -- a reading under construction -- */
static void test_fields_replace_each_other(void **state) {
    (void)state;
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_VLLM, 77, NULL);
    gyre_layer_group *group = gyre_build_add_group(build, "all");
    gyre_reading *reading = NULL;
    char local[16] = "here";
    const gyre_place place = {local, 3, 14};
    gyre_build_set_number(build, group, "factor", GYRE_ORIGIN_FILE, &place, NULL, 4.0);
    gyre_build_set_field(build, group, "scaling", GYRE_ORIGIN_READER, NULL, local, "%s", local);
    gyre_build_set_number(build, group, "factor", GYRE_ORIGIN_DERIVED, NULL, "why", 0.1);
    gyre_build_set_model_type(build, local);
    memset(local, 'x', 4); /* strings are copied */
    assert_ok(gyre_build_finish(build, &reading));
    assert_int_equal(reading->groups[0]->fields_count, 2);
    assert_field(reading->groups[0], "factor", "0.1", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_string_equal(field_of(reading->groups[0], "factor")->note, "why");
    assert_field(reading->groups[0], "scaling", "here", GYRE_ORIGIN_READER, NULL, 0);
    assert_string_equal(reading->model_type, "here");
    assert_int_equal(reading->context_length, 77);
    assert_int_equal(reading->profile, GYRE_PROFILE_VLLM);
    gyre_reading_free(reading);
}

/* The shortest digits that read back as the same double. */
static void test_numbers_read_back(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{0.0, "0"},
                   {4.0, "4"},
                   {-1.0, "-1"},
                   {0.1, "0.1"},
                   {1.0 / 3.0, "0.3333333333333333"},
                   {10000.0, "10000"},
                   {1e6, "1000000"},
                   {131072.0, "131072"},
                   {1e15, "1e+15"},
                   {0.1 + 0.2, "0.30000000000000004"},
                   {1e-5, "1e-05"},
                   {5e-324, "5e-324"},
                   {1.7976931348623157e308, "1.7976931348623157e+308"}};
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, NULL);
    gyre_layer_group *group = gyre_build_add_group(build, "all");
    gyre_reading *reading = NULL;
    char name[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(name, sizeof name, "n%zu", i);
        gyre_build_set_number(build, group, name, GYRE_ORIGIN_DERIVED, NULL, NULL, numbers[i].value);
    }
    assert_ok(gyre_build_finish(build, &reading));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(name, sizeof name, "n%zu", i);
        assert_string_equal(field_of(reading->groups[0], name)->value, numbers[i].text);
        assert_true(strtod(numbers[i].text, NULL) == numbers[i].value);
    }
    gyre_reading_free(reading);
}

static void test_groups_and_layers(void **state) {
    (void)state;
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, NULL);
    gyre_layer_group *a = gyre_build_add_group(build, "a"), *b = gyre_build_add_group(build, "b"),
                     *c = gyre_build_add_group(build, "c");
    gyre_reading *reading = NULL;
    for (int64_t i = 0; i < 100; i++)
        gyre_build_add_layer(build, i % 4 == 0 ? a : b, i);
    gyre_build_add_layer(build, c, 100);
    gyre_build_set_number(build, b, "factor", GYRE_ORIGIN_DERIVED, NULL, NULL, 2.0);
    assert_ptr_equal(gyre_build_find_group(build, "c"), c);
    assert_null(gyre_build_find_group(build, "d"));
    gyre_build_sort_groups(build);
    assert_ok(gyre_build_finish(build, &reading));
    assert_int_equal(reading->groups_count, 3);
    assert_string_equal(reading->groups[0]->name, "b");
    assert_string_equal(reading->groups[1]->name, "a");
    assert_string_equal(reading->groups[2]->name, "c");
    assert_int_equal(reading->groups[0]->layers_count, 75);
    assert_int_equal(reading->groups[0]->layers[74], 99);
    assert_int_equal(reading->groups[1]->layers_count, 25);
    assert_int_equal(reading->groups[1]->layers[24], 96);
    assert_string_equal(field_of(reading->groups[0], "factor")->value, "2");
    gyre_reading_free(reading);
}

/* It is usable after sorting, and writable after a failure. */
static void test_continues_after_an_error(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, &err);
    gyre_layer_group *group = gyre_build_add_group(build, "a");
    gyre_reading *reading = NULL;
    const gyre_place place = {"key", 5, 44};
    gyre_build_fail(build, GYRE_EUNSUPPORTED, &place, "key: %s", "because");
    gyre_build_fail(build, GYRE_EFORMAT, NULL, "later");
    gyre_build_set_number(build, group, "x", GYRE_ORIGIN_DERIVED, NULL, NULL, 1.0);
    gyre_build_add_layer(build, group, 1);
    gyre_build_warn(build, &place, "no");
    gyre_build_add_group(build, "b")->config.heads = 3;
    assert_null(gyre_build_find_group(build, "b"));
    assert_int_equal(gyre_build_finish(build, &reading), GYRE_EUNSUPPORTED);
    assert_null(reading);
    assert_string_equal(err.text, "key: because (p, line 5)");
    assert_int_equal(err.offset, 44);
}

static void test_too_many_groups(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, &err);
    gyre_reading *reading = NULL;
    for (int i = 0; i < 40; i++)
        assert_non_null(gyre_build_add_group(build, "g"));
    assert_int_equal(gyre_build_finish(build, &reading), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "layers: more than 16 kinds (p)"));
}

static void test_warnings_are_not_repeated(void **state) {
    (void)state;
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, NULL);
    gyre_reading *reading = NULL;
    const gyre_place one = {"one", 1, 10}, two = {"two", 2, 20};
    (void)gyre_build_add_group(build, "all");
    for (int i = 0; i < 3; i++) {
        gyre_build_warn(build, &one, "text %d", 1);
        gyre_build_warn(build, &two, "text %d", 1);
        gyre_build_warn(build, NULL, "text %d", 2);
    }
    for (int i = 0; i < 50; i++)
        gyre_build_warn(build, &one, "number %d", i);
    assert_ok(gyre_build_finish(build, &reading));
    assert_int_equal(reading->warnings_count, 53);
    assert_warns(reading, "text 1", "one", 1);
    assert_null(reading->warnings[2].key);
    gyre_reading_free(reading);
}

static void test_unsupported_configs_are_refused(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    gyre_build *build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, &err);
    assert_int_equal(gyre_build_finish(build, &reading), GYRE_EFORMAT);
    assert_string_equal(err.text, "positions: the file has no key about them (p)");
    build = gyre_build_begin("p", "config.json", GYRE_PROFILE_HF_5, 0, &err);
    gyre_build_add_group(build, "odd")->config.kind = GYRE_KIND_ALIBI;
    assert_int_equal(gyre_build_finish(build, &reading), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "odd layers: heads: missing"));
    assert_null(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_nested_keys),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_ends_of_values),
        cmocka_unit_test(test_escaped_keys),
        cmocka_unit_test(test_finds_objects),
        cmocka_unit_test(test_reads_no_byte_past_the_end),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lines_and_columns),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(test_fields_replace_each_other),
        cmocka_unit_test(test_numbers_read_back),
        cmocka_unit_test(test_groups_and_layers),
        cmocka_unit_test(test_continues_after_an_error),
        cmocka_unit_test(test_too_many_groups),
        cmocka_unit_test(test_warnings_are_not_repeated),
        cmocka_unit_test(test_unsupported_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

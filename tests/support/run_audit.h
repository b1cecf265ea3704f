/* run_audit.h: small models whose files can be spoiled, and the findings of gyre audit about them. */
#ifndef GYRE_TESTS_RUN_AUDIT_H
#define GYRE_TESTS_RUN_AUDIT_H
#include "make_tensor_store.h"
#include "run_command.h"

#define ROPE GYRE_TEST_DATA "/../models/rope"
enum { RIGHT = 0, FAILED = 1, USAGE = 2, FOUND = 3 };

/* -- models -- */
static inline void write_folder(const char *name) {
    if (mkdir(in_folder(name), 0777)) fail_msg("%s: cannot be made", name);
}

static inline void write_in(const char *place, const char *file, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", place, file);
    write_file(path, text, strlen(text));
}

/* A folder with a llama of four pairs, base 10000: frequencies 1, 0.1, 0.01, 0.001. */
static inline void write_llama(const char *name, const char *more) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\": \"llama\", \"hidden_size\": 16, \"num_attention_heads\": 2, \"num_hidden_layers\": 2,\n"
             " \"rope_theta\": 10000.0,\n %s}\n",
             more);
    write_folder(name);
    write_in(name, "config.json", text);
}

/* -- running -- */
/* Runs gyre audit --json and checks its status. */
static inline json_t *audited(const char *arguments, int status) {
    char line[512];
    json_error_t error;
    snprintf(line, sizeof line, "audit %s --json", arguments);
    const outcome *o = run(line);
    if (o->exit != status) fail_msg("gyre %s: exit %d, expected %d: %s%s", line, o->exit, status, o->out, o->err);
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("gyre %s: %s", line, o->out);
    assert_int_equal(json_is_true(json_object_get(root, "ok")), status == RIGHT);
    return root;
}

/* out = the findings of a check with this status and text in them. */
static inline int count_findings(const json_t *root, const char *check, const char *status, const char *says) {
    const json_t *finding;
    size_t i;
    int count = 0;
    json_array_foreach(json_object_get(root, "findings"), i, finding) {
        count += strcmp(test_string(finding, "check"), check) == 0 && strcmp(test_string(finding, "status"), status) == 0 &&
                 strstr(test_string(finding, "text"), says) != NULL;
    }
    return count;
}

/* Fails unless there are `count` such findings. */
static inline void expect_count(const json_t *root, int count, const char *check, const char *status, const char *says) {
    const int found = count_findings(root, check, status, says);
    if (found == count) return;
    char *text = json_dumps(root, JSON_INDENT(1));
    fail_msg("%d findings of %s, %s, with \"%s\", where %d were expected: %s", found, check, status, says, count, text);
}

/* Fails unless gyre audit has exactly one such finding. */
static inline void expect(const char *arguments, int exit, const char *check, const char *status, const char *says) {
    json_t *root = audited(arguments, exit);
    expect_count(root, 1, check, status, says);
    json_decref(root);
}

#endif

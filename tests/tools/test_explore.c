/* test_explore.c: gyre explore finds the page, puts a config into a copy of it, and opens it with xdg-open. */
#include "run_command.h"
#include "tools/cli/cli.h"

static const char page[] = "<body>before<!-- CONFIG -->after</body>\n", config[] = "{\"a\": \"</script>\"}\n";

static void use_page(const char *text) {
    write_file("page.html", text, strlen(text));
    assert_int_equal(setenv("GYRE_EXPLORER", in_folder("page.html"), 1), 0);
}

/* A browser that writes down what it is asked to open. */
static int make_browser(void **state) {
    char path[4096];
    if (make_empty_folder(state) || mkdir(in_folder("bin"), 0777)) return -1;
    const int n = snprintf(path, sizeof path, "#!/bin/sh\nprintf '%%s' \"$1\" >'%s.opened'\n", in_folder(""));
    write_file("bin/xdg-open", path, (size_t)n);
    write_file("config.json", config, sizeof config - 1);
    snprintf(path, sizeof path, "%s:%s", in_folder("bin"), getenv("PATH"));
    return chmod(in_folder("bin/xdg-open"), 0755) || setenv("PATH", path, 1) || setenv("TMPDIR", in_folder(""), 1);
}

/* out = the content of a file of the folder; "" if it is not there. */
static const char *content(const char *path) {
    static char text[1 << 12];
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
    if (file) fclose(file);
    return text;
}

/* out = the path that the command prints, which it also opened; the caller frees it. */
static char *opened_by(const char *arguments) {
    use_page(page);
    setenv("DISPLAY", ":0", 1);
    const outcome *o = run(arguments);
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, "");
    char *line = strdup(o->out);
    assert_non_null(line);
    line[strcspn(line, "\n")] = 0;
    assert_string_equal(content(in_folder(".opened")), line);
    return line;
}

static void opens(void **state) {
    (void)state;
    char *line = opened_by("explore");
    assert_non_null(strstr(line, "/page.html"));
    free(line);
}

static void opens_a_copy_with_a_config(void **state) {
    (void)state;
    char *line = opened_by("explore @config.json");
    assert_string_equal(
        content(line), "<body>before<script type=\"text/plain\" id=\"given-config\">%7B%22a%22%3A%20%22%3C%2Fscript%3E%22%7D"
                       "%0A</script>after</body>\n");
    free(line);
}

static void writes(void **state) {
    (void)state;
    use_page(page);
    const outcome *o = run("explore -o @copy.html");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->out, "");
    assert_string_equal(content(in_folder("copy.html")), page);
    assert_int_equal(run("explore @config.json -o @copy.html")->exit, CLI_USAGE);
    assert_string_equal(content(in_folder("copy.html")), page);
    assert_int_equal(run("explore @config.json -o @copy.html --force")->exit, 0);
    assert_non_null(strstr(content(in_folder("copy.html")), "%7B%22a%22"));
}

static void without_a_browser(void **state) {
    (void)state;
    use_page(page);
    unsetenv("DISPLAY");
    unsetenv("WAYLAND_DISPLAY");
    const outcome *o = run("explore");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "/page.html\n"));
    assert_non_null(strstr(o->err, "no display"));
}

static void failures(void **state) {
    (void)state;
    use_page("<body>a page of another version</body>");
    assert_fails("explore @config.json -o @copy.html --force", CLI_FAILED, "no place for a config");
    use_page(page);
    assert_fails("explore @nowhere.json", CLI_FAILED, "No such file");
    assert_fails("explore @config.json @config.json", CLI_USAGE, "one argument too many");
    write_file("model.gguf", "GGUF....", 8);
    assert_fails("explore @model.gguf", CLI_FAILED, "drop the file");
    setenv("GYRE_EXPLORER", in_folder("missing.html"), 1);
    assert_fails("explore", CLI_FAILED, "make explorer builds it");
}

/* A page of the manual names every variable that the command asks for and a user sets. */
static void pages_name_the_variables(void **state) {
    (void)state;
    static const char *const variables[] = {
        "GYRE_THREADS",          "GYRE_CPU",       "GYRE_EXPLORER", "GYRE_RANK_TIMEOUT", "HF_HOME", "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "TMPDIR",        "NO_COLOR",          "COLUMNS"};
    const outcome *o = run("help --man explore");
    assert_int_equal(o->exit, 0);
    const char *section = strstr(o->out, ".SH ENVIRONMENT");
    assert_non_null(section);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (!strstr(section, variables[i])) fail_msg("the page of explore lacks %s", variables[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(opens),    cmocka_unit_test(opens_a_copy_with_a_config),
                                       cmocka_unit_test(writes),   cmocka_unit_test(without_a_browser),
                                       cmocka_unit_test(failures), cmocka_unit_test(pages_name_the_variables)};
    return cmocka_run_group_tests(tests, make_browser, remove_folder);
}

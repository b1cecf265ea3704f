/* check_report.h: assertions on HTML and text of the report, and a folder per test. */
#ifndef GYRE_TESTS_CHECK_REPORT_H
#define GYRE_TESTS_CHECK_REPORT_H
#include "support.h"

#include "report/report.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

static inline void assert_contains(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("\"%s\" is not in: %.2000s", what, text);
}

static inline void assert_lacks(const char *text, const char *what) {
    if (strstr(text, what)) fail_msg("\"%s\" is in: %.200s", what, strstr(text, what));
}

/* Fails unless every tag is closed by its own name, in order, and quotes inside tags are closed. meta, <.../> and <!...>
 * stand alone. */
static inline void assert_balanced(const char *text) {
    static char open[64][32];
    int depth = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const int closing = at[1] == '/';
        const char *name = at + 1 + closing;
        const int length = (int)strcspn(name, " \t\n>/");
        const char *end = name;
        for (char quote = 0; *end && (quote || *end != '>'); end++) {
            assert_true(quote || *end != '<');
            if (quote && *end == quote)
                quote = 0;
            else if (!quote && (*end == '"' || *end == '\''))
                quote = *end;
        }
        assert_int_equal(*end, '>');
        assert_in_range(length, 1, 31);
        if (closing) {
            assert_true(depth > 0);
            if (strlen(open[--depth]) != (size_t)length || strncmp(open[depth], name, (size_t)length) != 0)
                fail_msg("<%s> is closed by %.*s", open[depth], length, name);
        } else if (*name != '!' && end[-1] != '/' && strncmp(name, "meta", 4) != 0) {
            assert_true(depth < 64);
            snprintf(open[depth++], sizeof open[0], "%.*s", length, name);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

static const double four_x[] = {256, 512, 1024, 2048}, four_y[] = {1, 10, 100, 1000};

static inline gyre_report_chart chart_of(const gyre_report_series *series, int64_t n) {
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "a title";
    chart.x.label = "context (tokens)";
    chart.y.label = "perplexity";
    chart.series = series;
    chart.series_count = n;
    return chart;
}

/* A folder for one test, removed with its contents. */
static inline char *new_folder(void) {
    const char *root = getenv("TMPDIR");
    char *folder = malloc(400);
    assert_non_null(folder);
    snprintf(folder, 400, "%s/gyre-report-XXXXXX", root && *root ? root : "/tmp");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static inline int entries(const char *folder, int remove_them) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.')) continue;
        n++;
        if (remove_them) assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    }
    closedir(dir);
    return n;
}

static inline void drop_folder(char *folder) {
    entries(folder, 1);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

#endif

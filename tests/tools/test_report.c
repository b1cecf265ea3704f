/* test_report.c: tables and pages, as text and as files. */
#define _XOPEN_SOURCE 700 /* mkdtemp, symlink and setrlimit in one */
#include "check_report.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static gyre_error err;

/* The contents of the file from its beginning. The caller frees it. */
static char *slurp(FILE *file) {
    char *text = NULL;
    size_t length = 0;
    rewind(file);
    for (int c; (c = getc(file)) != EOF;) {
        text = realloc(text, length + 2);
        assert_non_null(text);
        text[length++] = (char)c;
        text[length] = '\0';
    }
    return text ? text : calloc(1, 1);
}

static char *slurp_path(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = slurp(file);
    fclose(file);
    return text;
}

static char *print_table(const gyre_report_table *table, int terminal) {
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_ok(gyre_report_table_print(table, file, terminal, &err));
    char *text = slurp(file);
    fclose(file);
    return text;
}

static gyre_report_page *small_page(void) {
    gyre_report_page *page = NULL;
    assert_ok(gyre_report_page_create(&page, "A page", &err));
    assert_ok(gyre_report_page_paragraph(page, "words"));
    return page;
}

/* -- tables -- */
static const gyre_report_column columns[] = {
    {"method", NULL, NULL, 0, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE},
    {"256", "perplexity", NULL, 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_LOWEST},
    {"4k", "perplexity", NULL, 2, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_LOWEST},
    {"4k", "passkey found", "%", 0, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_HIGHEST},
};

static void fill_table(gyre_report_table *table, gyre_report_cell cells[5][4]) {
    memset(cells, 0, 5 * sizeof *cells);
    cells[0][0] = gyre_report_cell_text("none");
    cells[0][1] = gyre_report_cell_number(3.104);
    cells[0][2] = gyre_report_cell_number(1234567.8);
    cells[0][3] = gyre_report_cell_number(-0.2);
    cells[1][0] = gyre_report_cell_text("naïve");
    cells[1][1] = gyre_report_cell_number(3.096);
    cells[1][2] = gyre_report_cell_number(12.5);
    cells[1][3] = gyre_report_cell_number(99.6);
    cells[2][0] = gyre_report_cell_heading("tuned");
    cells[3][0] = gyre_report_cell_text("yarn");
    cells[3][1] = gyre_report_cell_number(NAN);
    cells[3][2] = gyre_report_cell_number(INFINITY);
    cells[4][0] = gyre_report_cell_text("ntk");
    cells[4][1] = gyre_report_cell_number(2);
    cells[4][2] = gyre_report_cell_text("n/a");
    *table = (gyre_report_table)GYRE_REPORT_TABLE_INIT;
    table->caption = "Caption";
    table->note = "Note.";
    table->columns = columns;
    table->columns_count = 4;
    table->cells = &cells[0][0];
    table->rows = 5;
}

static void table_text(void **state) {
    (void)state;
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    fill_table(&table, cells);
    char *text = print_table(&table, 0);
    assert_string_equal(text, "Caption\n"
                              "\n"
                              "            perplexity      passkey found\n"
                              "method     256        4k               4k\n"
                              "none      3.10  1.23e+06               0%\n"
                              "naïve     3.10     12.50             100%\n"
                              "\n"
                              "tuned\n"
                              "yarn         -       inf                -\n"
                              "ntk       2.00       n/a                -\n"
                              "\n"
                              "Note.\n");
    free(text);
}

/* 0 % is nobody's success: a column in which nothing was found has no best. */
static void highest_of_zero_is_not_emphasised(void **state) {
    (void)state;
    const gyre_report_column two[] = {columns[0], columns[3]};
    const gyre_report_cell cells[] = {gyre_report_cell_text("none"), gyre_report_cell_number(0),
                                      gyre_report_cell_text("yarn"), gyre_report_cell_number(0)};
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    table.columns = two;
    table.columns_count = 2;
    table.cells = cells;
    table.rows = 2;
    char *text = print_table(&table, 1);
    assert_null(strstr(text, "\033[1m0%"));
    free(text);
    const gyre_report_cell one[] = {cells[0], gyre_report_cell_number(1), cells[2], cells[3]};
    table.cells = one;
    text = print_table(&table, 1);
    assert_non_null(strstr(text, "\033[1m"));
    assert_non_null(strstr(text, "1%"));
    free(text);
}

static void table_alignment(void **state) {
    (void)state;
    const gyre_report_column three[] = {{"l", NULL, NULL, 0, GYRE_REPORT_ALIGN_RIGHT, GYRE_REPORT_EMPHASIS_NONE},
                                        {"c", NULL, NULL, 0, GYRE_REPORT_ALIGN_CENTER, GYRE_REPORT_EMPHASIS_NONE},
                                        {"r", NULL, NULL, 0, GYRE_REPORT_ALIGN_LEFT, GYRE_REPORT_EMPHASIS_NONE}};
    const gyre_report_cell cells[] = {gyre_report_cell_text("wide"), gyre_report_cell_text("字字字"),
                                      gyre_report_cell_text("long\x1b[31m\n.")};
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    table.columns = three;
    table.columns_count = 3;
    table.cells = cells;
    table.rows = 1;
    char *text = print_table(&table, 0);
    /* Wide characters take two columns; control characters never reach the terminal. */
    assert_string_equal(text, "   l    c     r\nwide  字字字  long [31m .\n");
    free(text);
}

static void table_emphasis(void **state) {
    (void)state;
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    fill_table(&table, cells);
    char *text = print_table(&table, 1);
    /* Both read 3.10, so both are best. A single number among dashes is not. */
    assert_int_equal(count(text, "\033[1m3.10\033[0m"), 2);
    assert_int_equal(count(text, "\033[1m12.50\033[0m"), 1);
    assert_int_equal(count(text, "\033[1m100%\033[0m"), 1);
    assert_lacks(text, "\033[1m2.00");
    assert_lacks(text, "\033[1m1.23e+06");
    assert_int_equal(count(text, "\033[0m"), count(text, "\033[1m") + count(text, "\033[2m"));
    free(text);
    text = print_table(&table, 0);
    assert_lacks(text, "\033");
    free(text);
}

/* What a small screen folds: names of groups before their cells, titles of cells that stand under no title of their own. */
static void table_folds(void **state) {
    (void)state;
    gyre_report_column wide[] = {
        {.title = "method"},           {"256", "perplexity", NULL, 2, 0, 0}, {"4096", "perplexity", NULL, 2, 0, 0},
        {"256", "keys", "%", 0, 0, 0}, {"4096", "keys", "%", 0, 0, 0},       {"kept", "pairs", NULL, 0, 0, 0}};
    gyre_report_cell row[] = {gyre_report_cell_text("a method of some length"),
                              gyre_report_cell_number(3),
                              gyre_report_cell_number(39),
                              gyre_report_cell_number(100),
                              gyre_report_cell_number(0),
                              gyre_report_cell_number(16)};
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    table.columns = wide;
    table.columns_count = 6;
    table.cells = row;
    table.rows = 1;
    char *html = NULL;
    assert_ok(gyre_report_table_html(&table, &html, &err));
    assert_balanced(html);
    assert_contains(html, "<table class=\"parts\" style=\"--abreast:2;");
    assert_contains(html, "<td class=\"part\" aria-hidden=\"true\">perplexity</td><td class=\"right\">3.00</td>");
    assert_contains(
        html, "<td class=\"part\" aria-hidden=\"true\">keys</td><td class=\"right\">100%</td><td class=\"right\">0%</td>");
    assert_contains(html,
                    "<td class=\"part\" aria-hidden=\"true\">pairs</td><td class=\"right\" data-label=\"kept\">16</td>");
    assert_int_equal(count(html, " shared"), 3); /* method, 256, 4096 */
    gyre_report_free(html);
    for (int c = 0; c < 6; c++)
        wide[c].group = NULL;
    assert_ok(gyre_report_table_html(&table, &html, &err));
    assert_contains(html, "<table class=\"lines\">");
    assert_int_equal(count(html, "data-label=\""), 5);
    gyre_report_free(html);
    table.columns_count = 2; /* fits */
    assert_ok(gyre_report_table_html(&table, &html, &err));
    assert_contains(html, "<table>");
    assert_lacks(html, "data-label");
    gyre_report_free(html);
}

static void table_html(void **state) {
    (void)state;
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    fill_table(&table, cells);
    table.caption = "a < b & \"c\" 'd' \\ \xff é";
    cells[0][2].heat = 0.25;
    cells[1][2].heat = 7;
    table.colors = "Colour: a < b";
    char *html = NULL;
    assert_ok(gyre_report_table_html(&table, &html, &err));
    assert_balanced(html);
    assert_contains(html, "<caption><div>a &lt; b &amp; &quot;c&quot; &#39;d&#39; \\ \xEF\xBF\xBD é<small>Colour: a &lt; "
                          "b</small></div></caption>");
    assert_contains(html, "<th scope=\"colgroup\" colspan=\"2\"><span>perplexity</span></th>");
    assert_contains(html, "<td class=\"right best\">3.10</td>");
    assert_contains(html, "<td class=\"right heat\" style=\"--heat:0.250\">1.23e+06</td>");
    assert_contains(html, "<td class=\"right best heat\" style=\"--heat:1.000\">12.50</td>");
    assert_contains(html, "<td class=\"right missing\">–</td>");
    assert_contains(html, "<tr class=\"heading\"><th colspan=\"4\"><span>tuned</span></th></tr>");
    assert_int_equal(count(html, "<tr"), 2 + 5 + 1);
    gyre_report_free(html);
}

/* Head, rows and note, printed one after the other, are the table.  Rows may still be unknown when the head is printed. */
static void table_in_parts(void **state) {
    (void)state;
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    int64_t width[4];
    fill_table(&table, cells);
    char *whole = print_table(&table, 0);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_ok(gyre_report_table_print_head(&table, width, file, 0, &err));
    for (int64_t r = 0; r < table.rows; r++)
        assert_ok(gyre_report_table_print_rows(&table, r, r + 1, width, file, 0, &err));
    assert_ok(gyre_report_table_print_note(&table, file, 0, &err));
    char *parts = slurp(file);
    assert_string_equal(parts, whole);
    assert_int_equal(gyre_report_table_print_rows(&table, 0, table.rows + 1, width, file, 0, &err), GYRE_EINVAL);
    assert_int_equal(gyre_report_table_print_rows(&table, 2, 1, width, file, 0, &err), GYRE_EINVAL);
    free(parts);
    free(whole);
    fclose(file);
}

static void table_errors(void **state) {
    (void)state;
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    char *html = NULL;
    fill_table(&table, cells);
    table.columns_count = 0;
    assert_int_equal(gyre_report_table_html(&table, &html, &err), GYRE_EINVAL);
    fill_table(&table, cells);
    table.size = 0;
    assert_int_equal(gyre_report_table_print(&table, stdout, 0, &err), GYRE_EINVAL);
    fill_table(&table, cells);
    const gyre_report_column wrong = {"x", NULL, NULL, 18, GYRE_REPORT_ALIGN_AUTO, GYRE_REPORT_EMPHASIS_NONE};
    table.columns = &wrong;
    table.columns_count = 1;
    assert_int_equal(gyre_report_table_html(&table, &html, NULL), GYRE_EINVAL);
    assert_null(html);
    fill_table(&table, cells);
    FILE *full = fopen("/dev/full", "r+");
    if (!full) skip();
    assert_int_equal(gyre_report_table_print(&table, full, 0, &err), GYRE_EIO);
    assert_string_equal(err.text, "table: No space left on device (report)");
    fclose(full);
}

/* -- pages -- */
static gyre_report_page *full_page(void) {
    const gyre_report_series series = {"yarn", 4, four_x, four_y, NULL, NULL, {0, 0, 0, 0}, NULL};
    const gyre_report_chart chart = chart_of(&series, 1);
    const gyre_report_heatmap map = {"one", 2, 2, four_y};
    const gyre_report_key_value facts[] = {{"command", "`gyre lab --text 'a<b'`"}, {"text", "fnv1a64:0123456789abcdef"}};
    gyre_report_table table;
    gyre_report_cell cells[5][4];
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    gyre_report_page *page = NULL;
    fill_table(&table, cells);
    panels.maps = &map;
    panels.maps_count = 1;
    assert_ok(gyre_report_page_create(&page, "A <page> & more", &err));
    gyre_report_page_paragraph(page, "Run `gyre <lab>` with a ` alone");
    gyre_report_page_key_values(page, facts, 2);
    gyre_report_page_section(page, "First");
    gyre_report_page_table(page, &table);
    gyre_report_page_chart(page, &chart, "A caption & more");
    gyre_report_page_section(page, "Second");
    gyre_report_page_heatmap_grid(page, &panels, NULL);
    gyre_report_page_chart(page, &chart, NULL);
    gyre_report_page_details_begin(page, "More");
    gyre_report_page_code(page, "a < b\nc");
    gyre_report_page_details_end(page);
    assert_ok(gyre_report_page_footer(page, facts, 2));
    return page;
}

static void page_whole(void **state) {
    (void)state;
    gyre_report_page *page = full_page();
    char *html = NULL;
    assert_ok(gyre_report_page_html(page, &html, &err));
    gyre_report_page_free(page);
    assert_balanced(html);
    assert_int_equal(strncmp(html, "<!DOCTYPE html>\n<html lang=\"en\">", 32), 0);
    assert_contains(html, "<title>A &lt;page&gt; &amp; more</title>");
    assert_contains(html, "<p class=\"lead\">Run <code>gyre &lt;lab&gt;</code> with a ` alone</p>");
    assert_contains(html, "<figcaption>A caption &amp; more</figcaption>");
    assert_contains(html, "<summary>More</summary>\n<pre><code>a &lt; b\nc</code></pre>\n</details>");
    assert_contains(html, "<dt>command</dt><dd><code>gyre lab --text &#39;a&lt;b&#39;</code></dd>");
    assert_contains(html, "<a href=\"#section-2\">Second</a>");
    assert_contains(html, "prefers-color-scheme:dark");
    assert_int_equal(count(html, "<section "), 2);
    assert_int_equal(count(html, "<figure "), 3);
    assert_int_equal(count(html, "<footer>"), 1);
    gyre_report_free(html);
}

/* A page loads nothing: no address except the names of XML vocabularies, no import, no script. */
static void page_needs_no_network(void **state) {
    (void)state;
    gyre_report_page *page = full_page();
    char *html = NULL;
    assert_ok(gyre_report_page_html(page, &html, &err));
    gyre_report_page_free(page);
    assert_lacks(html, "https://");
    assert_int_equal(count(html, "http://"), count(html, "xmlns=\"http://www.w3.org/2000/svg\"") +
                                                 count(html, "xmlns:xlink=\"http://www.w3.org/1999/xlink\""));
    assert_int_equal(count(html, "http://"), 2 * 2 * 3); /* three figures, wide and narrow */
    assert_lacks(html, "@import");
    assert_lacks(html, "<script");
    assert_lacks(html, "src=");
    gyre_report_free(html);
}

/* The values of an attribute that begin with a prefix. out = the count. */
static int values_of(const char *html, const char *attribute, char names[][48], int limit) {
    int n = 0;
    for (const char *at = strstr(html, attribute); at && n < limit; at = strstr(at + 1, attribute)) {
        const char *value = at + strlen(attribute) + 1;
        snprintf(names[n++], 48, "%.*s", (int)strcspn(value, "'\""), value);
    }
    return n;
}

static int found(char names[][48], int n, const char *name) {
    int times = 0;
    for (int i = 0; i < n; i++)
        times += strcmp(names[i], name) == 0;
    return times;
}

/* Three figures in one page: each id once, each reference resolved. */
static void page_ids(void **state) {
    (void)state;
    enum { LIMIT = 2000 };
    static char ids[LIMIT][48], references[LIMIT][48];
    gyre_report_page *page = full_page();
    char *html = NULL;
    assert_ok(gyre_report_page_html(page, &html, &err));
    gyre_report_page_free(page);
    const int n = values_of(html, " id=", ids, LIMIT), m = values_of(html, "href=", references, LIMIT);
    assert_in_range(n, 30, LIMIT - 1);
    assert_in_range(m, 10, LIMIT - 1);
    for (int i = 0; i < n; i++)
        if (found(ids, n, ids[i]) != 1) fail_msg("id %s is there %d times", ids[i], found(ids, n, ids[i]));
    for (int i = 0; i < m; i++)
        if (references[i][0] == '#' && found(ids, n, references[i] + 1) != 1) fail_msg("%s leads nowhere", references[i]);
    gyre_report_free(html);
}

static void page_keeps_first_error(void **state) {
    (void)state;
    gyre_report_page *page = small_page();
    const gyre_report_chart chart = chart_of(NULL, 0);
    assert_int_equal(gyre_report_page_chart(page, &chart, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_report_page_details_end(page), GYRE_EINVAL);
    assert_int_equal(gyre_report_page_paragraph(page, "later"), GYRE_EINVAL);
    char *html = NULL;
    assert_int_equal(gyre_report_page_html(page, &html, &err), GYRE_EINVAL);
    assert_null(html);
    assert_string_equal(err.text, "chart: no series to draw (figure)");
    char *folder = new_folder(), path[440];
    snprintf(path, sizeof path, "%s/report.html", folder);
    assert_int_equal(gyre_report_page_write(page, path, &err), GYRE_EINVAL);
    assert_int_equal(entries(folder, 0), 0);
    drop_folder(folder);
    gyre_report_page_free(page);
    gyre_report_page_free(NULL);
}

/* -- files -- */
static void write_replaces(void **state) {
    (void)state;
    char *folder = new_folder(), path[440], link[440];
    snprintf(path, sizeof path, "%s/report.html", folder);
    snprintf(link, sizeof link, "%s/link.html", folder);
    gyre_report_page *page = small_page();
    char *html = NULL;
    assert_ok(gyre_report_page_html(page, &html, &err));
    assert_ok(gyre_report_page_write(page, path, &err));
    char *text = slurp_path(path);
    assert_string_equal(text, html);
    free(text);
    /* Written again, longer, through a link: the link and the mode of the file are preserved. */
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink("report.html", link), 0);
    assert_ok(gyre_report_page_paragraph(page, "more"));
    assert_ok(gyre_report_page_write(page, link, &err));
    struct stat found;
    assert_int_equal(lstat(link, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    text = slurp_path(path);
    assert_contains(text, "more");
    free(text);
    assert_int_equal(entries(folder, 0), 2);
    gyre_report_free(html);
    gyre_report_page_free(page);
    drop_folder(folder);
}

static void write_fails(void **state) {
    (void)state;
    char *folder = new_folder(), path[440], expected[900];
    gyre_report_page *page = small_page();
    snprintf(path, sizeof path, "%s/none/report.html", folder);
    snprintf(expected, sizeof expected, "report: No such file or directory (%s)", path);
    assert_int_equal(gyre_report_page_write(page, path, &err), GYRE_EIO);
    assert_string_equal(err.text, expected);
    snprintf(expected, sizeof expected, "report: Is a directory (%s)", folder);
    assert_int_equal(gyre_report_page_write(page, folder, &err), GYRE_EIO);
    assert_string_equal(err.text, expected);
    assert_int_equal(entries(folder, 0), 0);
    gyre_report_page_free(page);
    drop_folder(folder);
}

/* A pipe in the test's own folder: with a device, a failure would destroy it for the whole machine. */
static void write_into_special(void **state) {
    (void)state;
    char *folder = new_folder(), path[440], begin[16] = "";
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    gyre_report_page *page = small_page();
    assert_ok(gyre_report_page_write(page, path, &err)); /* a page without figures fits the pipe */
    gyre_report_page_free(page);
    assert_int_equal(read(reader, begin, 15), 15);
    assert_string_equal(begin, "<!DOCTYPE html>");
    close(reader);
    struct stat kept;
    assert_int_equal(lstat(path, &kept), 0);
    assert_true(S_ISFIFO(kept.st_mode));
    assert_int_equal(entries(folder, 0), 1);
    drop_folder(folder);
}

/* A limit on file sizes in a child ends the write half way: the old file stays, and nothing next to it. */
static void write_keeps_old(void **state) {
    (void)state;
    char *folder = new_folder(), path[440];
    snprintf(path, sizeof path, "%s/report.html", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("old", file);
    fclose(file);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {1000, 1000};
        signal(SIGXFSZ, SIG_IGN);
        gyre_report_page *page = small_page();
        const int limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
        const int right =
            limited && gyre_report_page_write(page, path, &err) == GYRE_EIO && strstr(err.text, "File too large");
        gyre_report_page_free(page);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    char *text = slurp_path(path);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(entries(folder, 0), 1);
    drop_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_text),         cmocka_unit_test(highest_of_zero_is_not_emphasised),
        cmocka_unit_test(table_alignment),    cmocka_unit_test(table_emphasis),
        cmocka_unit_test(table_html),         cmocka_unit_test(table_folds),
        cmocka_unit_test(table_in_parts),     cmocka_unit_test(table_errors),
        cmocka_unit_test(page_whole),         cmocka_unit_test(page_needs_no_network),
        cmocka_unit_test(page_ids),           cmocka_unit_test(page_keeps_first_error),
        cmocka_unit_test(write_replaces),     cmocka_unit_test(write_fails),
        cmocka_unit_test(write_into_special), cmocka_unit_test(write_keeps_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

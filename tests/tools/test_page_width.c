/* test_page_width.c: what commands print first keeps to the width of the page, at every width. */
#include "report/report.h"
#include "run_command.h"
#include "tools/cli/cli_page.h"
#include "tools/common/result_table.h"

#define MODELS GYRE_TEST_DATA "/../models/"

/* -- folding -- */
static const char *folded(int width, const char *text) {
    static char out[1 << 14];
    char columns[16];
    FILE *file = fmemopen(out, sizeof out, "w");
    assert_non_null(file);
    snprintf(columns, sizeof columns, "%d", width);
    setenv("COLUMNS", columns, 1);
    cli_page_printf(file, "%s", text);
    unsetenv("COLUMNS");
    assert_int_equal(fclose(file), 0);
    return out;
}

static void lines_go_on_below_their_text(void **state) {
    (void)state;
    static const char words[] = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen";
    char text[512];
    snprintf(text, sizeof text, "%s\n", words);
    assert_string_equal(folded(80, text), text);
    assert_string_equal(folded(72, text), "one two three four five six seven eight nine ten eleven twelve thirteen\n"
                                          "fourteen\n");
    snprintf(text, sizeof text, "label   %s\n\n  %s\n", words, words);
    assert_string_equal(folded(72, text), "label   one two three four five six seven eight nine ten eleven twelve\n"
                                          "        thirteen fourteen\n"
                                          "\n"
                                          "  one two three four five six seven eight nine ten eleven twelve\n"
                                          "    thirteen fourteen\n");
    /* A command can be copied: an option and its value, and what is quoted, stay together. */
    assert_string_equal(folded(72, "Example: gyre generate llama --prompt 'Once upon a time' --tokens 200 --top-p 0.95\n"
                                   "  gyre eval models/rope --text book.txt --contexts 256,512,1k --json --methods none\n"),
                        "Example: gyre generate llama --prompt 'Once upon a time' --tokens 200 \\\n"
                        "           --top-p 0.95\n"
                        "  gyre eval models/rope --text book.txt --contexts 256,512,1k --json \\\n"
                        "    --methods none\n");
    /* Bytes are not columns. */
    assert_int_equal(cli_display_width("\xc3\xa9\xe2\x96\x88x"), 3);
}

/* -- tables -- */
enum { COLUMNS = 12, ROWS = 2 };
static const char *printed(int width, const char *group) {
    static char out[1 << 14];
    static char titles[COLUMNS][16];
    gyre_report_column columns[COLUMNS] = {{.title = "method"}};
    gyre_report_cell cells[ROWS * COLUMNS];
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    char width_text[16];
    for (int c = 0; c < COLUMNS; c++) {
        snprintf(titles[c], sizeof titles[c], "column%02d", c);
        if (c) columns[c] = (gyre_report_column){.title = titles[c], .group = group};
        for (int r = 0; r < ROWS; r++)
            cells[r * COLUMNS + c] = c ? gyre_report_cell_number(100 * r + c) : gyre_report_cell_text(r ? "yarn" : "none");
    }
    table.columns = columns, table.columns_count = COLUMNS;
    table.cells = cells, table.rows = ROWS;
    table.caption = "caption", table.note = "a note";
    FILE *file = fmemopen(out, sizeof out, "w");
    assert_non_null(file);
    snprintf(width_text, sizeof width_text, "%d", width);
    setenv("COLUMNS", width_text, 1);
    assert_int_equal(result_table_print(&table, file), 0);
    unsetenv("COLUMNS");
    assert_int_equal(fclose(file), 0);
    return out;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

static int widest(const char *page) {
    int most = 0;
    char copy[1 << 16], *rest = copy;
    snprintf(copy, sizeof copy, "%s", page);
    for (char *line; (line = strtok_r(rest, "\n", &rest));)
        if (cli_display_width(line) > most) most = cli_display_width(line);
    return most;
}

/* Every column is printed once, caption and note too, and the first column beside each part. */
static void tables_are_cut_between_columns(void **state) {
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++)
        for (int width = 72; width <= 160; width += 22) {
            const int whole = widest(printed(160, grouped ? "group" : NULL));
            const char *page = printed(width, grouped ? "group" : NULL);
            if (widest(page) > width) fail_msg("%d columns of %d:\n%s", widest(page), width, page);
            const int parts = whole <= width ? 1 : 2;
            for (int c = 1; c < COLUMNS; c++) {
                char title[16];
                snprintf(title, sizeof title, "column%02d", c);
                if (count(page, title) != 1) fail_msg("%s:\n%s", title, page);
            }
            if (count(page, "yarn") != parts) fail_msg("not %d parts at %d:\n%s", parts, width, page);
            assert_int_equal(count(page, "caption"), 1);
            assert_int_equal(count(page, "\n\na note\n"), 1);
        }
}

/* -- commands -- */
static void first_screens_fit(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",
        "help",
        "explain " MODELS "rope",
        "explain " GYRE_TEST_DATA "/configs/qwen2.5-7b-yarn.json",
        "explain " GYRE_TEST_DATA "/configs/deepseek-v3.json",
        "explain " MODELS "rope --accuracy",
        "audit " MODELS "rope",
        "diff " GYRE_TEST_DATA "/configs/qwen2.5-7b-yarn.json --with llama.cpp",
        "extend " MODELS "rope --to 1k",
        "extend " MODELS "rope --to 1k --all",
        "extend " GYRE_TEST_DATA "/configs/llama-3-8b.json --to 32k --all",
        "extend " MODELS "alibi --to 1k",
        "extend " MODELS "sinusoidal --to 1k",
        "extend " GYRE_TEST_DATA "/configs/falcon-rw-1b.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/bloom-176b.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/mpt-7b.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/whisper-tiny.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/t5-base.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/deberta-base.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/xlnet-base.json --to 256k",
        "extend " GYRE_TEST_DATA "/configs/llama-3.1-8b.json --to 4k",
        "extend " MODELS "rope --to 1k --method dynamic --force --write @dynamic.json",
        "eval " MODELS
        "rope --text @text --contexts 64,96,128,160,192,224,256 --windows 3 --methods none,yarn --by-position 4",
        "passkey " MODELS "rope --lengths 64,96,128,160,192,224,256 --depths 2 --trials 1",
        "shard " GYRE_TEST_DATA "/configs/llama-3.1-8b.json --context 128k --ranks 8",
        "show rotation",
        "show shift",
        "show repeats --positions 1000",
        "show interpolation-error --positions 64",
        "show stretched --positions 64"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int width = 80; width <= 120; width += 40) {
            char columns[16];
            snprintf(columns, sizeof columns, "%d", width);
            setenv("COLUMNS", columns, 1);
            const outcome *o = run(lines[i]);
            unsetenv("COLUMNS");
            if (o->exit && o->exit != 3) fail_msg("gyre %s: exit %d: %s", lines[i], o->exit, o->err);
            if (!*o->out || widest(o->out) > width)
                fail_msg("gyre %s: %d columns of %d:\n%s", lines[i], widest(o->out), width, o->out);
        }
}

static void helps_fit(void **state) {
    (void)state;
    static const char *const commands[] = {"audit",    "bench", "convert", "diff", "eval",   "explain", "explore", "extend",
                                           "generate", "lab",   "passkey", "plot", "search", "shard",   "show",    "train"};
    setenv("COLUMNS", "80", 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[64];
        snprintf(line, sizeof line, "help %s", commands[i]);
        const outcome *o = run(line);
        assert_int_equal(o->exit, 0);
        if (!*o->out || widest(o->out) > 80) fail_msg("gyre %s: %d columns of 80:\n%s", line, widest(o->out), o->out);
    }
    const char *show = run("help show")->out;
    if (!strstr(show, "between two\n                       rows\n")) fail_msg("%s", show);
    const char *train = run("help train")->out;
    if (!strstr(train, "256,512,1k \\\n    --methods none,ntk,yarn\n")) fail_msg("%s", train);
    unsetenv("COLUMNS");
}

/* Explain says a length once if it is trained and original length alike, and JSON both. */
static void one_length_is_printed_once(void **state) {
    (void)state;
    const outcome *o = run("explain " GYRE_TEST_DATA "/configs/qwen2.5-7b-yarn.json");
    assert_non_null(strstr(o->out, "  trained_length "));
    assert_null(strstr(o->out, "original_length "));
    assert_non_null(strstr(run("explain " GYRE_TEST_DATA "/configs/qwen2.5-7b-yarn.json --json")->out, "original_length"));
}

/* Fewer windows than an interval takes: a sentence, and no table of dashes. */
static void no_table_of_dashes(void **state) {
    (void)state;
    static const char *const windows[] = {"2", "3"};
    for (int i = 0; i < 2; i++) {
        char line[256];
        snprintf(line, sizeof line, "eval @rope --text @text --contexts 32,64 --windows %s", windows[i]);
        const outcome *o = run(line);
        assert_int_equal(strstr(o->out, "No intervals: ") != NULL, i == 0);
        assert_int_equal(strstr(o->out, "95 % interval") != NULL, i == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_go_on_below_their_text),
                                       cmocka_unit_test(tables_are_cut_between_columns),
                                       cmocka_unit_test(first_screens_fit),
                                       cmocka_unit_test(helps_fit),
                                       cmocka_unit_test(no_table_of_dashes),
                                       cmocka_unit_test(one_length_is_printed_once)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

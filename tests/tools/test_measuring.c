/* test_measuring.c: what gyre eval, passkey and extend --text share: one measurement for equal encodings, the table so far
 * (--watch), and what fits into a time (--budget). */
#define _XOPEN_SOURCE   700 /* posix_openpt */
#define _DEFAULT_SOURCE     /* winsize */
#include "run_command.h"
#include "tools/common/methods.h"
#include "tools/measuring/run_budget.h"
#include "tools/measuring/same_encoding.h"
#include "util/error.h"

#include <math.h>
#include <sys/ioctl.h>

/* -- equal encodings -- */
static gyre_config rope(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = 64;
    config.trained_length = 256;
    return config;
}

static gyre_encoding *encoding_of(const char *text, const gyre_config *base, int64_t length) {
    gyre_error err = {0, ""};
    gyre_encoding *out = NULL;
    method m;
    assert_int_equal(method_parse(text, &m, &err), GYRE_OK);
    if (method_encoding(&m, base, base->trained_length, length, &(method_betas){0, 0}, &out, &err)) fail_msg("%s", err.text);
    return out;
}

static int are_same(const char *a, const char *b, const gyre_config *base, int64_t length) {
    gyre_encoding *x = encoding_of(a, base, length), *y = encoding_of(b, base, length);
    const int same = encodings_are_same(x, y, 0, length);
    assert_int_equal(encodings_are_same(y, x, 0, length), same);
    gyre_encoding_free(x);
    gyre_encoding_free(y);
    return same;
}

/* Within the trained length every method that follows the context has a factor of 1.  Past it, dynamic:1 is ntk with the
 * factor of the length in use (methods.h). */
static void methods_that_are_one(void **state) {
    (void)state;
    static const char *const within[] = {"linear", "ntk",    "dynamic", "dynamic:1", "by-parts",
                                         "yarn",   "llama3", "rerope",  "dca",       "ntk-past:4"};
    gyre_config base = rope();
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (!are_same("none", within[i], &base, 256)) fail_msg("none and %s differ at 256", within[i]);
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (are_same("none", within[i], &base, 512)) fail_msg("none and %s are the same at 512", within[i]);
    assert_true(are_same("ntk", "dynamic:1", &base, 1024));
    assert_true(are_same("ntk:4", "ntk", &base, 1024));
    assert_false(are_same("ntk:4", "ntk", &base, 512));
    assert_false(are_same("by-parts", "yarn", &base, 512)); /* their attention factors differ */
    assert_false(are_same("none", "none+logn", &base, 512));
    assert_true(are_same("rerope", "rerope:128", &base, 512));
    assert_false(are_same("rerope", "rerope:129", &base, 512));
}

/* A length in use that grows with the text says nothing of the numbers at its end. */
static void lengths_in_use_are_not_one(void **state) {
    (void)state;
    gyre_config base = rope();
    base.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    assert_false(are_same("ntk", "dynamic:1", &base, 1024));
    assert_true(are_same("dynamic", "dynamic:4", &base, 1024)); /* one config under two names */
    base.length_policy = GYRE_LENGTH_POLICY_DECLARED;
    base.kind = GYRE_KIND_ALIBI;
    base.heads = 8;
    assert_true(are_same("none", "linear", &base, 256));
    assert_false(are_same("none", "linear", &base, 512));
    assert_true(are_same("ntk", "dynamic", &base, 512));
}

/* One bit of one number is a difference: the next base, a layout, the direction. */
static void a_bit_is_a_difference(void **state) {
    (void)state;
    gyre_config base = rope(), other = rope();
    base.rope.base = other.rope.base = 10000;
    for (int change = 0; change < 4; change++) {
        gyre_encoding *a = NULL, *b = NULL;
        other = base;
        if (change == 1) other.rope.base = nextafter(10000, 20000) * (1 + 1e-9);
        if (change == 2) other.rope.clockwise = 1;
        if (change == 3) other.rope.layout = GYRE_LAYOUT_INTERLEAVED;
        assert_int_equal(gyre_encoding_create(&a, &base, NULL, NULL), GYRE_OK);
        assert_int_equal(gyre_encoding_create(&b, &other, NULL, NULL), GYRE_OK);
        assert_int_equal(encodings_are_same(a, b, 0, 100000), change == 0);
        gyre_encoding_free(a);
        gyre_encoding_free(b);
    }
}

/* Also where the slopes of keys up to the query are the same. */
static void slopes_after_the_query_count(void **state) {
    (void)state;
    double slopes[2] = {0.5, 0.25}, after[2][2] = {{0.5, 0.25}, {0.5, 0.125}};
    for (int change = 0; change < 2; change++) {
        gyre_encoding *made[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            gyre_config config = GYRE_INIT(gyre_config);
            config.kind = GYRE_KIND_ALIBI;
            config.heads = 2;
            config.score.slopes = slopes;
            config.score.slopes_after = after[i * change];
            config.score.max_bias = 8 - i; /* of no use beside slopes */
            assert_int_equal(gyre_encoding_create(&made[i], &config, NULL, NULL), GYRE_OK);
        }
        assert_int_equal(encodings_are_same(made[0], made[1], 0, 64), !change);
        gyre_encoding_free(made[0]);
        gyre_encoding_free(made[1]);
    }
}

static gyre_status nth_encoding(void *ctx, int64_t row, int64_t length, gyre_encoding **out, gyre_error *err) {
    static const char *const names[] = {"none", "yarn", "ntk:2", "nothing", "ntk", "dynamic:1"};
    if (row == 3) return gyre_fail(err, GYRE_EUNSUPPORTED, "nothing: is no method (test)");
    *out = encoding_of(names[row], ctx, length);
    return GYRE_OK;
}

static const char *nth_name(const void *of, int64_t row) {
    (void)of;
    static const char *const names[] = {"none", "yarn", "ntk:2", "nothing", "ntk", "dynamic:1"};
    return names[row];
}

static void rows_that_share(void **state) {
    (void)state;
    static const int64_t lengths[] = {128, 256, 512};
    static const int64_t expected[3][6] = {{-1, 0, -1, -1, 0, 0}, {-1, 0, -1, -1, 0, 0}, {-1, -1, -1, -1, 2, 2}};
    gyre_config base = rope();
    same_rows_search search = {.rows = 6, .lengths = lengths, .count = 3, .make = nth_encoding, .ctx = &base};
    same_rows same;
    char text[SAME_ROWS_TEXT];
    assert_int_equal(same_rows_find(&same, &search, NULL), GYRE_OK);
    for (int64_t at = 0; at < 3; at++)
        for (int64_t r = 0; r < 6; r++)
            if (same_rows_of(&same, r, at) != expected[at][r])
                fail_msg("row %d at %d: %d", (int)r, (int)lengths[at], (int)same_rows_of(&same, r, at));
    same_rows_describe(&same, lengths, 3, nth_name, NULL, text);
    assert_string_equal(text, "The same encoding to the bit, so one result: none, yarn, ntk and dynamic:1 at "
                              "128 and 256; ntk:2, ntk and dynamic:1 at 512.");
    same_rows_describe(&same, lengths, 1, nth_name, NULL, text);
    assert_string_equal(text, "The same encoding to the bit, so one result: none, yarn, ntk and dynamic:1 at "
                              "128.");
    same_rows_free(&same);
    search.rows = 1;
    assert_int_equal(same_rows_find(&same, &search, NULL), GYRE_OK);
    same_rows_describe(&same, lengths, 3, nth_name, NULL, text);
    assert_string_equal(text, "");
    same_rows_free(&same);
    assert_int_equal(same_rows_of(&same, 0, 0), -1);
}

/* -- one measurement -- */
/* out = the results of a row; of: "methods.label" is at `key`. */
static json_t *rows_of(const json_t *list, const char *key, const char *label) {
    json_t *out = json_array(), *row;
    size_t i;
    json_array_foreach((json_t *)list, i, row) {
        if (strcmp(json_string_value(json_object_get(row, key)), label) != 0) continue;
        json_t *copy = json_deep_copy(row);
        json_object_del(copy, "same_as");
        json_object_del(copy, "near_same_as");
        json_object_del(copy, "far_same_as");
        (void)json_array_append_new(out, copy);
    }
    return out;
}

static const json_t *at_path(const json_t *root, const char *path) {
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *name; (name = strtok_r(rest, ".", &rest));)
        root = json_object_get(root, name);
    return root;
}

/* Each method alone, which shares nothing, has the figures of its row among others. */
static void each_row_as_alone(void **state) {
    (void)state;
    static const struct {
        const char *line, *path, *key;
    } commands[] = {{"eval @rope --text @text --text @texts/a --contexts 16,32,64 --windows 4 --by-position 2 --json",
                     "results", "label"},
                    {"eval @rope --text @text --contexts 64,256 --windows 2 --passkey 3 --json", "results", "label"},
                    {"passkey @rope --lengths 32,64 --depths 2 --trials 2 --format marks --json", "results", "label"},
                    {"extend @rope --to 128 --text @text --windows 3 --json", "verdict.cost.methods", "method"}};
    static const char *const methods[] = {"none", "linear", "ntk", "dynamic:1", "yarn", "rerope"};
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        char line[400];
        snprintf(line, sizeof line, "%s --methods none,linear,ntk,dynamic:1,yarn,rerope", commands[c].line);
        json_t *all = run_json(line);
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            snprintf(line, sizeof line, "%s --methods %s", commands[c].line, methods[m]);
            json_t *alone = run_json(line);
            json_t *a = rows_of(at_path(all, commands[c].path), commands[c].key, methods[m]);
            json_t *b = rows_of(at_path(alone, commands[c].path), commands[c].key, methods[m]);
            assert_true(json_array_size(a) > 0);
            if (!json_equal(a, b)) fail_msg("%s: %s", line, json_dumps(a, 0));
            json_decref(a);
            json_decref(b);
            json_decref(alone);
        }
        json_decref(all);
    }
}

/* Changes a number of the only line of a journal. */
static void forge(const char *name, const char *nats) {
    static char text[1 << 16];
    read_whole(in_folder(name), text, sizeof text);
    char *at = strstr(text, "\"nats\":");
    assert_non_null(at);
    char changed[1 << 12];
    const char *rest = at + strcspn(at, ",");
    const int bytes = snprintf(changed, sizeof changed, "%.*s\"nats\":%s%s", (int)(at - text), text, nats, rest);
    write_file(name, changed, (size_t)bytes);
}

static double perplexity_of(const json_t *root, size_t i) {
    return json_number_value(json_object_get(json_array_get(json_object_get(root, "results"), i), "perplexity"));
}

/* A number that only the journal's row of none holds appears in the row that shares its cell, and in no other.  A row that
 * has a line, as older journals have for each row, keeps it. */
static void journals_and_shared_cells(void **state) {
    (void)state;
    json_decref(run_json("eval @rope --text @text --contexts 32 --windows 2 --methods none --json --journal @one"));
    forge("one", "2.5");
    json_t *root =
        run_json("eval @rope --text @text --contexts 32 --windows 2 --methods none,ntk,ntk:2 --json --journal @one "
                 "--resume");
    test_close(perplexity_of(root, 0), exp(2.5), 1e-12, "none");
    test_close(perplexity_of(root, 1), exp(2.5), 1e-12, "ntk");
    assert_true(fabs(perplexity_of(root, 2) - exp(2.5)) > 1e-6);
    json_t *results = json_object_get(root, "results");
    assert_string_equal(json_string_value(json_object_get(json_array_get(results, 1), "same_as")), "none");
    assert_null(json_object_get(json_array_get(results, 0), "same_as"));
    assert_null(json_object_get(json_array_get(results, 2), "same_as"));
    json_decref(root);
    json_decref(run_json("eval @rope --text @text --contexts 32 --windows 2 --methods ntk --json --journal @two"));
    forge("two", "2.25");
    root = run_json("eval @rope --text @text --contexts 32 --windows 2 --methods none,ntk --json --journal @two --resume");
    test_close(perplexity_of(root, 1), exp(2.25), 1e-12, "ntk of the journal");
    assert_true(fabs(perplexity_of(root, 0) - exp(2.25)) > 1e-6);
    json_decref(root);
}

/* What the layers train beside the encoding takes no method, also where the method changes nothing. */
static void refusals_stay(void **state) {
    (void)state;
    write_model_with("frequencies", GYRE_KIND_ROPE, GYRE_LAYER_PART_FREQUENCIES);
    const outcome *o = run("eval @frequencies --text @text --contexts 32 --windows 2 --methods ntk");
    const int status = o->exit;
    assert_int_equal(run("eval @frequencies --text @text --contexts 32 --windows 2 --methods none,ntk")->exit, status);
}

static void one_sentence(void **state) {
    (void)state;
    static const char sentence[] = "The same encoding to the bit, so one result: ";
    static const char *const lines[] = {
        "eval @rope --text @text --contexts 32,64 --windows 2 --methods none,ntk",
        "passkey @rope --lengths 32,64 --depths 1 --trials 1 --format marks --methods none,ntk",
        "extend @rope --to 128 --text @text --windows 3 --methods ntk,ntk:4"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        const char *found = strstr(o->out, sentence);
        if (o->exit || !found) fail_msg("%s: %s%s", lines[i], o->out, o->err);
        assert_null(strstr(found + 1, sentence));
    }
    assert_null(
        strstr(run("eval @rope --text @text --contexts 64 --windows 2 --methods none,ntk")->out, "The same encoding"));
}

/* -- the table so far -- */
static const char *const watched[] = {
    "eval @rope --text @text --contexts 32,64 --windows 4 --methods none,ntk",
    "passkey @rope --lengths 32,64 --depths 2 --trials 2 --format marks --methods none,ntk",
    "extend @rope --to 128 --text @text --windows 3 --methods none,ntk"};
enum { WATCHED = sizeof watched / sizeof *watched };

/* Where stderr is no terminal, a line for each cell; standard output stays as it is. */
static void a_line_for_each_cell(void **state) {
    (void)state;
    static const char *const first[] = {"gyre: none at 32: perplexity ",
                                        "gyre: none at 32, depth 0%: ", "gyre: none at 32: perplexity "};
    static const char *const last[] = {"gyre: ntk at 64: perplexity ",
                                       "gyre: ntk at 64, depth 100%: ", "gyre: ntk at 128: perplexity "};
    static const int cells[] = {4, 8, 4};
    for (int i = 0; i < WATCHED; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s --json", watched[i]);
        json_t *plain = run_json(line);
        snprintf(line, sizeof line, "%s --json --watch", watched[i]);
        json_t *shown = run_json(line);
        const outcome *o = run(line);
        json_object_del(plain, "card");
        json_object_del(shown, "card"); /* it holds the command */
        assert_true(json_equal(plain, shown));
        json_decref(plain);
        json_decref(shown);
        int lines = 0;
        for (const char *c = o->err; (c = strstr(c, " at ")); c++)
            lines++;
        if (lines != cells[i] || strncmp(o->err, first[i], strlen(first[i])) != 0 || !strstr(o->err, last[i]))
            fail_msg("%s: %s", line, o->err);
    }
    assert_fails("extend @rope --to 128 --watch", 2, "--watch: nothing is measured without --text");
}

/* A terminal of ROWS lines, as far as the command moves about on it. */
enum { ROWS = 40, COLUMNS = 100, BYTES = 1 << 18 };
typedef struct screen {
    char cell[ROWS][COLUMNS + 1];
    int row, column, drawn; /* drawn: how often a part of the screen was erased to draw a table */
} screen;

static void erase_from(screen *s, int row, int column) {
    for (int r = row; r < ROWS; r++)
        memset(s->cell[r] + (r == row ? column : 0), ' ', (size_t)(COLUMNS - (r == row ? column : 0)));
}

/* out = the bytes of an escape that begins here. */
static size_t obey(screen *s, const char *text) {
    int number = 0, bytes = 0;
    char what = 0;
    if (sscanf(text, "\033[%d%c%n", &number, &what, &bytes) < 2 && sscanf(text, "\033[%c%n", &what, &bytes) < 1)
        fail_msg("an escape that is none: %.8s", text + 1);
    if (what == 'A') s->row -= number;
    if (what == 'J') {
        erase_from(s, s->row, s->column);
        s->drawn++;
    }
    if (what == 'K') memset(s->cell[s->row] + s->column, ' ', (size_t)(COLUMNS - s->column));
    assert_true(s->row >= 0 && strchr("AJKm", what));
    return (size_t)bytes;
}

static void show(screen *s, const char *text) {
    *s = (screen){.row = 0};
    erase_from(s, 0, 0);
    while (*text) {
        if (*text == '\033') {
            text += obey(s, text);
            continue;
        }
        if (*text == '\n') {
            assert_true(++s->row < ROWS);
        } else if (*text == '\r') {
            s->column = 0;
        } else {
            assert_true(s->column < COLUMNS);
            s->cell[s->row][s->column++] = *text;
        }
        text++;
    }
}

/* Runs a command whose stderr, with both also its standard output, is a terminal of so many rows.  out = what it wrote
 * there; skips without terminals. */
static char *on_terminal(const char *line, int rows, int both) {
    static char text[BYTES];
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip();
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = COLUMNS};
    char slave[64];
    snprintf(slave, sizeof slave, "%s", ptsname(master));
    const int terminal = open(slave, O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && ioctl(terminal, TIOCSWINSZ, &size) == 0);
    const pid_t child = start_with_stderr(line, both ? slave : in_folder(".out"), slave);
    close(terminal);
    size_t used = 0;
    for (ssize_t n; (n = read(master, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = 0;
    close(master);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: %s", line, text);
    return text;
}

/* out = 1 if a row of the screen without figures is there twice: what is left of a table that was drawn before. */
static int has_title_twice(const screen *s) {
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < r; k++)
            if (strspn(s->cell[r], " ") < COLUMNS && !strpbrk(s->cell[r], "0123456789") &&
                strcmp(s->cell[r], s->cell[k]) == 0)
                return 1;
    return 0;
}

/* After all cells the screen holds the table once, with every row, whichever tables were drawn before. */
static void a_table_is_drawn_again(void **state) {
    (void)state;
    static const int cells[] = {4, 8, 4};
    for (int i = 0; i < WATCHED; i++) {
        char line[300], all[ROWS * (COLUMNS + 1) + 1] = "";
        screen s;
        snprintf(line, sizeof line, "%s --watch", watched[i]);
        show(&s, on_terminal(line, ROWS, 0));
        for (int r = 0; r < ROWS; r++) {
            strcat(all, s.cell[r]);
            strcat(all, "\n");
        }
        assert_int_equal(s.drawn, cells[i] - 1);
        const char *head = strstr(all, i == 1 ? "depth" : "method");
        if (!head || !strstr(head, "\nnone ") || !strstr(head, "\nntk ") || has_title_twice(&s))
            fail_msg("%s: %s", line, all);
        assert_null(strstr(all, "not measured yet"));
    }
    const char *low = on_terminal("eval @rope --text @text --contexts 32,64 --windows 4 --methods none,ntk --watch", 4, 0);
    assert_non_null(strstr(low, "gyre: ntk at 64: perplexity ")); /* the table does not fit */
}

/* A table that is drawn again would erase lines of standard output on the same terminal. */
static void lines_stay_on_the_terminal(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s --watch --json-lines", watched[i]);
        const char *shown = on_terminal(line, ROWS, 1);
        assert_non_null(strstr(shown, "{\"result\""));
        assert_null(strstr(shown, "\033[J"));
        assert_non_null(strstr(shown, "gyre: ntk at 64"));
    }
}

/* -- Ctrl-C -- */
/* The figures of a row that shares a cell are known with that cell, also where the run did not come to the row.  They are
 * not in the journal, whose lines stay in the order of a run that nobody stopped. */
static void a_stop_keeps_shared_cells(void **state) {
    (void)state;
    static outcome o;
    write_text("long", 1 << 20);
    static const char line[] = "eval @rope --text @long --contexts 32,4096 --windows 100 --methods none,linear --threads 1 "
                               "--json --journal @stopped -o @partial";
    const pid_t child = start(line, in_folder(".out"));
    const int measured = wait_for_text("stopped", "\"nats\"", child);
    (void)kill(child, SIGINT);
    finish(child, &o);
    assert_true(measured);
    assert_int_equal(o.exit, 130);
    read_whole(in_folder("partial"), o.out, sizeof o.out);
    json_t *root = json_loads(o.out, 0, NULL);
    assert_non_null(root);
    test_close(perplexity_of(root, 2), perplexity_of(root, 0), 0, "linear at 32"); /* rows of 32 and 4096 tokens */
    assert_true(perplexity_of(root, 0) > 1);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(root, "results"), 3), "perplexity")));
    json_decref(root);
    read_whole(in_folder("stopped"), o.out, sizeof o.out);
    assert_null(strstr(o.out, "\"method\":\"linear\""));
}

/* Cells of the journal and what is made of them keep their figures where the run stops before it comes to them. */
static void a_stop_keeps_journaled_cells(void **state) {
    (void)state;
    static outcome o;
    static const char cells[] = "eval @rope --text @long --text @longer --windows 40 --methods none,linear --threads 1 "
                                "--journal @cells";
    char line[300];
    size_t found = 0;
    write_text("long", 1 << 20);
    write_text("longer", 3 << 19);
    snprintf(line, sizeof line, "%s --contexts 32 --json", cells);
    json_t *whole = run_json(line);
    const json_t *results = json_object_get(whole, "results");
    assert_int_equal(json_array_size(results), 6); /* of two texts and of both together */
    snprintf(line, sizeof line, "%s --contexts 32,8192 --json-lines --resume", cells);
    const pid_t child = start(line, in_folder(".out"));
    const int begun = wait_for_text(".out", "\"result\"", child);
    (void)kill(child, SIGINT);
    finish(child, &o);
    assert_true(begun);
    assert_int_equal(o.exit, 130);
    read_whole(in_folder(".out"), o.out, sizeof o.out);
    for (const char *at = o.out; *at; at = strchr(at, '\n') + 1) {
        json_t *root = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *row = json_object_get(root, "result");
        if (json_integer_value(json_object_get(row, "context")) == 32) {
            const json_t *bits = json_object_get(row, "bits_per_byte");
            assert_true(json_is_number(bits));
            assert_true(json_equal(bits, json_object_get(json_array_get(results, found++), "bits_per_byte")));
        }
        json_decref(root);
    }
    assert_int_equal(found, 6);
    json_decref(whole);
}

/* -- what fits -- */
typedef struct table {
    int64_t lengths[3];
    int calls;
} table;

/* A unit takes a second per token. */
static double seconds_of(void *ctx, int64_t units, int64_t lengths) {
    table *t = ctx;
    double sum = 0;
    t->calls++;
    for (int64_t l = 0; l < lengths; l++)
        sum += (double)(units * t->lengths[l]);
    return sum;
}

static void assert_fits(double budget, int64_t units, int64_t kept) {
    table t = {{10, 20, 40}, 0};
    run_plan plan = {.command = "eval",
                     .option = "--windows",
                     .unit = "window",
                     .before_all = "of",
                     .after_all = "",
                     .lengths_of = "contexts",
                     .lengths = t.lengths,
                     .count = 3,
                     .all = 8,
                     .seconds = seconds_of,
                     .ctx = &t};
    const int status = run_plan_fit(&plan, budget);
    assert_int_equal(status, kept ? 0 : 1);
    if (!kept) return;
    if (plan.units != units || plan.kept != kept)
        fail_msg("%g s: %d units, %d lengths", budget, (int)plan.units, (int)plan.kept);
}

/* 70 seconds for one unit of all three lengths: three are kept as long as they fit, then the longest length goes. */
static void what_fits(void **state) {
    (void)state;
    assert_fits(560, 8, 3);
    assert_fits(559, 7, 3);
    assert_fits(210, 3, 3);
    assert_fits(209, 6, 2); /* 30 for one unit of two lengths */
    assert_fits(90, 3, 2);
    assert_fits(89, 8, 1);
    assert_fits(29, 2, 1); /* of the shortest alone fewer than three are better than none */
    assert_fits(10, 1, 1);
    assert_fits(9, 0, 0);
}

/* The parts of a window cost what the window does. */
static void costs_add_up(void **state) {
    (void)state;
    const run_cost cost = {.per_token = 3, .per_pair = 0.5};
    test_close(run_cost_seconds(&cost, 0, 10), 80, 1e-15, "a window");
    test_close(run_cost_seconds(&cost, 0, 4) + run_cost_seconds(&cost, 4, 10), 80, 1e-15, "its parts");
}

/* Takes next to no time, so that the clock says nothing. */
static gyre_status no_work(void *ctx, int64_t tokens, gyre_error *err) {
    int64_t *most = ctx;
    if (tokens > *most) *most = tokens;
    return tokens > 2048 ? gyre_fail(err, GYRE_EIO, "too long (test)") : GYRE_OK;
}

/* The trial is never longer than the run's windows, nor than two thousand tokens, and what it says of attention stays near
 * what the model's products say: 2 heads of 16 channels in one layer. */
static void the_trial_is_short(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{16, 16}, {300, 300}, {512, 512}, {8192, 512}, {16384, 1024}, {1 << 20, 2048}};
    const gyre_model_config config = small_config(GYRE_KIND_ROPE, 1, TRAINED);
    gyre_model *model = create_model(&config, 1);
    const double counted = 32.0 / (double)gyre_model_parameters(model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_cost cost;
        int64_t most = 0;
        assert_int_equal(run_cost_try(&cost, model, cases[i][0], no_work, &most, NULL), GYRE_OK);
        assert_int_equal(most, cases[i][1]);
        assert_int_equal(cost.trial, cases[i][1]);
        assert_true(cost.per_token > 0);
        assert_true(cost.per_pair >= cost.per_token * counted / 4.001 && cost.per_pair <= cost.per_token * counted * 8.001);
    }
    gyre_model_free(model);
}

/* A window past the table of a model is no failure of the trial: a shorter one is tried. */
static gyre_status up_to_100(void *ctx, int64_t tokens, gyre_error *err) {
    int64_t *most = ctx;
    if (tokens > 100) return gyre_fail(err, GYRE_ERANGE, "too long (test)");
    if (tokens > *most) *most = tokens;
    return GYRE_OK;
}

static void the_trial_fits_the_table(void **state) {
    (void)state;
    gyre_model_config config = small_config(GYRE_KIND_LEARNED, 1, TRAINED);
    config.position.input.positions = TRAINED;
    gyre_model *model = create_model(&config, 1);
    run_cost cost;
    int64_t most = 0;
    assert_int_equal(run_positions(model), TRAINED);
    assert_int_equal(run_cost_try(&cost, model, 1024, up_to_100, &most, NULL), GYRE_OK);
    assert_int_equal(most, 64);
    assert_int_equal(cost.trial, 64);
    gyre_model_free(model);
    const outcome *o = run("eval @learned --text @text --contexts 16,32,512 --windows 2 --budget 100h --json");
    if (o->exit) fail_msg("%s", o->err);
    assert_non_null(strstr(o->err, "by a trial of"));
    assert_null(strstr(o->err, "left out"));
    assert_int_equal(run("eval @learned --text @text --contexts 512,1024 --windows 2 --budget 0.000000001s --json")->exit,
                     0);
    o = run("passkey @learned --lengths 32,512 --depths 1 --trials 1 --format marks --budget 100h");
    if (o->exit) fail_msg("%s", o->err);
}

/* Attention to many tokens is long where the weights are few: 2 heads of 16 channels in one layer. */
static void attention_counts(void **state) {
    (void)state;
    const gyre_model_config config = small_config(GYRE_KIND_ROPE, 1, TRAINED);
    gyre_model *model = create_model(&config, 1);
    const double parameters = (double)gyre_model_parameters(model);
    const run_cost counted = run_products(model);
    test_close(run_cost_seconds(&counted, 0, 1000), 1000 * parameters + 32e6, 1e-12, "products of a window");
    gyre_model_free(model);
}

/* A budget in which all fits changes nothing, and one in which nothing fits is an error.  What lies between depends on the
 * clock. */
static void budgets(void **state) {
    (void)state;
    static const char *const few[] = {"are too few for one window of 32 tokens under each method",
                                      "are too few for one trial at each depth of 32 tokens under each method",
                                      "are too few for one window of 128 tokens under each method"};
    for (int i = 0; i < WATCHED; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s --json", watched[i]);
        json_t *plain = run_json(line);
        snprintf(line, sizeof line, "%s --json --budget 100h", watched[i]);
        json_t *ample = run_json(line);
        assert_non_null(strstr(run(line)->err, " here, by a trial of "));
        json_object_del(plain, "card");
        json_object_del(ample, "card");
        assert_true(json_equal(plain, ample));
        json_decref(plain);
        json_decref(ample);
        snprintf(line, sizeof line, "%s --budget 0.000000001s", watched[i]);
        assert_fails(line, 1, few[i]);
        snprintf(line, sizeof line, "%s --budget 5", watched[i]);
        assert_fails(line, 2, "--budget: \"5\" is not a time such as 30s, 5min or 2h");
        snprintf(line, sizeof line, "%s --budget -5s", watched[i]);
        assert_fails(line, 2, "is not a time");
        snprintf(line, sizeof line, "%s --budget 1e9s", watched[i]);
        assert_fails(line, 2, "--budget: \"1e9s\" is above 10000h");
        snprintf(line, sizeof line, "%s --budget 2000000s --json", watched[i]);
        assert_int_equal(run(line)->exit, 0);
        snprintf(line, sizeof line, "%s --budget 500m --json", watched[i]);
        assert_int_equal(run(line)->exit, 0);
    }
    assert_fails("extend @rope --to 128 --budget 5s", 2, "--budget: nothing is measured without --text");
}

/* Cells that a journal holds take no time, so any budget holds them. */
static void known_cells_take_no_time(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s --journal @known%d", watched[i], i);
        assert_int_equal(run(line)->exit, 0);
        snprintf(line, sizeof line, "%s --journal @known%d --resume --budget 0.000000001s", watched[i], i);
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s: %s", line, o->err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(methods_that_are_one),
                                       cmocka_unit_test(lengths_in_use_are_not_one),
                                       cmocka_unit_test(a_bit_is_a_difference),
                                       cmocka_unit_test(slopes_after_the_query_count),
                                       cmocka_unit_test(rows_that_share),
                                       cmocka_unit_test(each_row_as_alone),
                                       cmocka_unit_test(journals_and_shared_cells),
                                       cmocka_unit_test(refusals_stay),
                                       cmocka_unit_test(one_sentence),
                                       cmocka_unit_test(a_line_for_each_cell),
                                       cmocka_unit_test(a_table_is_drawn_again),
                                       cmocka_unit_test(lines_stay_on_the_terminal),
                                       cmocka_unit_test(a_stop_keeps_shared_cells),
                                       cmocka_unit_test(a_stop_keeps_journaled_cells),
                                       cmocka_unit_test(what_fits),
                                       cmocka_unit_test(costs_add_up),
                                       cmocka_unit_test(the_trial_is_short),
                                       cmocka_unit_test(the_trial_fits_the_table),
                                       cmocka_unit_test(attention_counts),
                                       cmocka_unit_test(budgets),
                                       cmocka_unit_test(known_cells_take_no_time)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* test_plot_drawing.c: what gyre plot shows of two models and of many methods, positions as digits, and the looks of
 * methods and encodings in every figure. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "read_plot_table.h"
#include "tools/cli/cli.h"
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include "util/utf8.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* One-hot and digits are counted out; a pair of the sinusoid is half as fast as the pair before it. */
static void digits(void **state) {
    (void)state;
    table t = table_of("digits");
    const int code = column_of(&t, "code", ""), at = column_of(&t, "position", "tokens"),
              channel = column_of(&t, "channel", ""), period = column_of(&t, "period", "tokens"),
              value = column_of(&t, "value", "");
    int64_t spelled[32] = {0};
    assert_int_equal(rows_of(&t), 32 * 32 + 5 * 32 + 10 * 32);
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const int64_t p = (int64_t)number(&t, r, at), c = (int64_t)number(&t, r, channel), pair = c / 2;
        const double got = number(&t, r, value), its = number(&t, r, period);
        if (strcmp(text(&t, r, code), "one-hot") == 0) {
            assert_true(got == (p == c) && isnan(its));
        } else if (strcmp(text(&t, r, code), "binary digits") == 0) {
            assert_true(its == pow(2, (double)c + 1));
            spelled[p] += (int64_t)got * (int64_t)pow(2, (double)c);
        } else {
            assert_string_equal(text(&t, r, code), "sinusoid");
            const double angle = (double)p * pow(0.5, (double)pair);
            test_close(got, c % 2 ? cos(angle) : sin(angle), 1e-12, "sinusoid");
            test_close(its, 2 * PI * pow(2, (double)pair), 1e-9, "period");
        }
    }
    for (int64_t p = 0; p < 32; p++)
        assert_int_equal(spelled[p], p);
    table_free(&t);
    t = table_of("digits --tokens 33 --head-dim 4 --base 50");
    assert_int_equal(rows_of(&t), 33 * 33 + 6 * 33 + 4 * 33);
    test_close(number(&t, rows_of(&t) - 1, value), cos(32 / sqrt(50)), 1e-12, "sinusoid of another base");
    table_free(&t);
    assert_fails("plot digits --tokens 257 --csv", CLI_USAGE, "at most 256");
    assert_fails("plot digits models/rope --csv", CLI_USAGE, "digits takes no model");
}

static const char *title_of(const table *t) {
    return json_string_value(json_object_get(t->root, "title"));
}

/* Two models: what differs between them is said of each. */
static void two_models(void **state) {
    (void)state;
    static const char a[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                            "\"max_position_embeddings\": 256, \"rope_theta\": 10000}";
    static const char b[] = "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_attention_heads\": 4, "
                            "\"max_position_embeddings\": 512, \"rope_theta\": 500000}";
    write_file("a.json", a, sizeof a - 1);
    write_file("b.json", b, sizeof b - 1);
    char line[400], pair[300];
    snprintf(pair, sizeof pair, "--compare @a.json,%s", in_folder("b.json"));
    snprintf(line, sizeof line, "clock %s", pair);
    table t = table_of(line);
    const int name = column_of(&t, "method", ""), at = column_of(&t, "distance", "tokens");
    assert_non_null(strstr(title_of(&t), "256"));
    assert_non_null(strstr(title_of(&t), "512"));
    assert_int_equal(rows_of(&t), 2 * 6 + 2 * 4); /* eight pairs, of which six are shown, and four */
    static const double positions[] = {255, 1023, 511, 2047};
    const int64_t rows[] = {0, 6, 12, 16};
    for (int i = 0; i < 4; i++) {
        assert_true(number(&t, rows[i], at) == positions[i]);
        assert_non_null(strstr(text(&t, rows[i], name), i < 2 ? "a" : "b"));
        assert_int_equal(strstr(text(&t, rows[i], name), "as trained") != NULL, i % 2 == 0);
    }
    table_free(&t);
    snprintf(line, sizeof line, "decay %s --points 9", pair);
    t = table_of(line);
    assert_non_null(strstr(text(&t, 0, column_of(&t, "rotation", "")), "base 10000"));
    assert_non_null(strstr(text(&t, rows_of(&t) - 1, column_of(&t, "rotation", "")), "base 500000"));
    assert_null(strstr(title_of(&t), "base"));
    assert_non_null(strstr(title_of(&t), "8 pairs"));
    table_free(&t);
    snprintf(line, sizeof line, "wavelengths %s", pair);
    t = table_of(line);
    assert_non_null(strstr(title_of(&t), "(base 10000)"));
    assert_non_null(strstr(title_of(&t), "(base 500000)"));
    table_free(&t);
    unlink(in_folder("a.json"));
    unlink(in_folder("b.json"));
}

/* A leader to a label is not a part of its line: it has neither the colour nor a mark, and begins off the axes. */
static void leaders(void **state) {
    (void)state;
    plot_script s;
    plot_end ends[] = {{"alibi", subject_look("alibi"), 0.99}, {"yarn", subject_look("yarn"), 0.98}};
    assert_true(plot_script_begin(&s));
    plot_box_begin(&s, (plot_box){0, 1, 0, 1});
    plot_end_labels(&s, ends, 2);
    fclose(s.file);
    int arrows = 0;
    for (const char *at = s.text; (at = strstr(at, "set arrow from graph ")); arrows++) {
        char line[200];
        double from;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        at += strlen(line);
        assert_int_equal(sscanf(line, "set arrow from graph %lf", &from), 1);
        assert_true(from > 1);
        assert_null(strstr(line, plot_color(ends[0].look)));
        assert_null(strstr(line, plot_color(ends[1].look)));
        assert_non_null(strstr(line, "dashtype"));
    }
    assert_int_equal(arrows, 2);
    free(s.text);
}

/* Of many points the first are on one position, which has one row. */
static void points_of_accuracy(void **state) {
    (void)state;
    table t = table_of("accuracy --head-dim 32 --to 65536");
    const int name = column_of(&t, "recipe", ""), at = column_of(&t, "position", "tokens");
    for (int64_t r = 1; r < rows_of(&t); r++)
        assert_true(number(&t, r, at) > number(&t, r - 1, at) || strcmp(text(&t, r, name), text(&t, r - 1, name)) != 0);
    table_free(&t);
}

/* A row of a trained table is not what is added to a score. */
static void titles_of_biases(void **state) {
    (void)state;
    table t = table_of("bias --tokens 8");
    assert_string_equal(
        title_of(&t), "What is added to a score, or which row of a trained table: 8 queries and keys; the number at a line "
                      "is its head");
    table_free(&t);
}

/* Variants of a method have its colour, and differ in dash; each looks as it does alone. */
static void variants(void **state) {
    (void)state;
    static const plot_column columns[] = {{"method", NULL}, {NULL, NULL}};
    static const char *const names[] = {"ntk:2", "linear", "ntk", "ntk:4", "rope", "ntk:8"};
    plot_table t = {.rows = 0};
    char looks[6][PLOT_LOOK], color[6][40];
    plot_table_columns(&t, columns);
    for (int i = 0; i < 6; i++)
        plot_table_add(&t, (double[]){plot_table_label(&t, names[i])});
    for (int i = 0; i < 6; i++) {
        plot_look(plot_look_of(&t, i, 0, i), looks[i]);
        snprintf(color[i], sizeof color[i], "%.*s", (int)strcspn(looks[i], "#") + 7, looks[i]);
    }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) {
            const int same = strncmp(names[i], "ntk", 3) == 0 && strncmp(names[k], "ntk", 3) == 0;
            assert_int_equal(strcmp(color[i], color[k]) == 0, same);
            assert_string_not_equal(looks[i], looks[k]);
            if (!same) continue;
            assert_string_equal(color[i], color[k]);
            char dash[2][40];
            for (int j = 0; j < 2; j++) {
                const char *from = strstr(looks[j ? k : i], "dashtype");
                snprintf(dash[j], sizeof dash[j], "%.*s", (int)(strstr(from, " pointtype") - from), from);
            }
            assert_string_not_equal(dash[0], dash[1]);
        }
    char alone[PLOT_LOOK];
    assert_string_equal(looks[2], plot_look(subject_look("ntk"), alone));
    plot_table_free(&t);
}

static void read_figure(char *svg, size_t size) {
    FILE *file = fopen(in_folder("figure.svg"), "r");
    assert_non_null(file);
    svg[fread(svg, 1, size - 1, file)] = 0;
    fclose(file);
}

/* A run of many methods has a panel for each family, and every line its name. */
static void families_of_methods(void **state) {
    (void)state;
    static const char *const names[] = {"none", "linear", "ntk", "ntk:2", "ntk:4", "yarn", "by-parts", "leaky", "ntk:8"};
    static const char *const titles[] = {"(linear)", "(NTK)", "(by parts)", "(far pairs)"};
    char lines[2048] = "", svg[1 << 18];
    for (int i = 0; i < 9; i++)
        for (int k = 1; k <= 2; k++) {
            const size_t used = strlen(lines);
            snprintf(lines + used, sizeof lines - used,
                     "{\"result\": {\"label\": \"%s\", \"context\": %d, \"perplexity\": %d}}\n", names[i], 64 * k,
                     3 + i * k);
        }
    write_file("many.jsonl", lines, strlen(lines));
    assert_int_equal(run("plot perplexity @many.jsonl -o @figure.svg --force")->exit, 0);
    read_figure(svg, sizeof svg);
    for (int i = 0; i < 4; i++)
        if (!strstr(svg, titles[i])) fail_msg("no panel %s", titles[i]);
    int references = 0;
    for (const char *at = svg; (at = strstr(at, ">none<")); at++)
        references++;
    assert_int_equal(references, 4);
    assert_null(strstr(svg, "(others)"));
    assert_int_equal(run("plot perplexity @many.jsonl --methods none,ntk,ntk:2,yarn -o @figure.svg --force")->exit, 0);
    read_figure(svg, sizeof svg);
    assert_null(strstr(svg, "(NTK)")); /* few lines stay together */
    unlink(in_folder("many.jsonl"));
}

/* On a dark page every text has a colour for it: the style of the file maps each that is used. */
static void colours_of_texts(void **state) {
    (void)state;
    static const char *const kinds[] = {"digits",  "table", "shift", "clock",       "helix",   "helix --axis position",
                                        "hands",   "decay", "ramp",  "wavelengths", "methods", "bias",
                                        "accuracy"};
    static char svg[1 << 21];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char line[128];
        int texts = 0;
        snprintf(line, sizeof line, "plot %s -o @figure.svg --force", kinds[i]);
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s: exit %d: %s", kinds[i], o->exit, o->err);
        read_figure(svg, sizeof svg);
        for (const char *at = svg; (at = strstr(at, "\" font-family=")); at++, texts++) {
            char colour[24], rule[40];
            const char *from = at;
            while (from > svg && from[-1] != '"')
                from--;
            snprintf(colour, sizeof colour, "%.*s", (int)(at - from), from);
            snprintf(rule, sizeof rule, "[fill=\"%s\"]{fill:", colour);
            const int is_shown = strncmp(strstr(at, "<text>"), "<text></text>", 13) != 0;
            if (is_shown && !strstr(svg, rule)) fail_msg("%s: no dark form of %s at %.160s", kinds[i], colour, at);
        }
        assert_true(texts > 5);
    }
}

/* Bytes that are no character, marks of direction and codes of terminals in the names of files: the figure is XML. */
static void names_of_any_bytes(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                                 "\"max_position_embeddings\": 256, \"rope_theta\": 10000}";
    static const char *const kinds[] = {"clock", "decay --points 9", "wavelengths", "ramp", "methods --points 8"};
    static const char *const names[] = {"a\xff\xe2\x80\xae\033[1m'\"&<b", "c\xc2\x9b\xef\xbf\xbf\xf0\x9f"};
    static char svg[1 << 20];
    for (int i = 0; i < 2; i++)
        write_file(names[i], config, sizeof config - 1);
    assert_int_equal(chdir(folder), 0); /* so short that the label is the whole name */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char line[256];
        snprintf(line, sizeof line, "plot %s --compare %s,%s -o @figure.svg --force", kinds[i], names[0], names[1]);
        const outcome *o = run(line);
        if (o->exit) fail_msg("%s: exit %d: %s", kinds[i], o->exit, o->err);
        read_figure(svg, sizeof svg);
        assert_true(strstr(svg, "</svg>") && strstr(svg, "a\xef\xbf\xbd"));
        for (const char *at = svg; *at;) {
            uint32_t code = 0;
            const int length = gyre_utf8_decode(at, strnlen(at, 4), &code);
            if (length <= 0 || code == 0xfffe || code == 0xffff || (code != '\n' && gyre_utf8_is_control(code)))
                fail_msg("%s: U+%04X at \"%.40s\"", kinds[i], (unsigned)code, at);
            at += length;
        }
    }
    assert_int_equal(chdir("/"), 0);
    for (int i = 0; i < 2; i++)
        unlink(in_folder(names[i]));
}

/* Of a proportional rotation most pairs have frequency 0, and so no period.  Every figure draws them. */
static void pairs_that_do_not_turn(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 32768, \"rope_parameters\": "
        "{\"rope_type\": \"proportional\", \"rope_theta\": 10000.0, \"partial_rotary_factor\": 0.25}}";
    static const char huge[] = "{\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 32768, "
                               "\"rope_theta\": 1e290}";
    static const char *const kinds[] = {"clock", "wavelengths", "ramp", "methods", "decay", "helix"};
    static char svg[1 << 20];
    write_file("still.json", config, sizeof config - 1);
    write_file("huge.json", huge, sizeof huge - 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char line[160];
        snprintf(line, sizeof line, "plot %s @still.json --methods none,linear --to 64k -o @figure.svg --force", kinds[i]);
        if (strcmp(kinds[i], "helix") == 0) snprintf(line, sizeof line, "plot helix @still.json -o @figure.svg --force");
        const outcome *o = run(line);
        if (o->exit) fail_msg("gyre %s: exit %d, signal %d: %s", line, o->exit, o->signal, o->err);
        read_figure(svg, sizeof svg);
        if (strstr(svg, ">nan") || strstr(svg, ">inf") || strstr(svg, "in inf")) fail_msg("gyre %s: not a number", line);
        if (i == 0) assert_non_null(strstr(svg, "does not rotate"));
    }
    /* A factor so large that no pair turns in any number of tokens, and a base whose powers have three digits. */
    static const char *const lines[] = {"plot wavelengths --methods linear:1e308 -o @figure.svg --force",
                                        "plot wavelengths --methods linear:2e307 -o @figure.svg --force",
                                        "plot ramp --methods linear:1e308 -o @figure.svg --force",
                                        "plot wavelengths @huge.json --to 64k -o @figure.svg --force"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        if (o->exit) fail_msg("gyre %s: exit %d, signal %d: %s", lines[i], o->exit, o->signal, o->err);
    }
    read_figure(svg, sizeof svg);
    assert_non_null(strstr(svg, "10²⁵²")); /* a tick */
    assert_int_equal(unlink(in_folder("still.json")) | unlink(in_folder("huge.json")), 0);
}

/* out = the look of a plain name.  Behind it may stand a factor and modifiers, which make a hollow, dashed line of the same
 * colour and symbol. */
static gyre_report_look look_of(const char *name) {
    static const char *const behind[] = {":16", "+logn", ", causal", ":4+logn"};
    const gyre_report_look look = subject_look(name);
    assert_in_range(look.color, 1, GYRE_REPORT_PAINTS - 1);
    assert_in_range(look.mark, 1, GYRE_REPORT_MARKS - 1);
    assert_true(!look.hollow && look.dash == 1);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        char label[64];
        snprintf(label, sizeof label, "%s%s", name, behind[i]);
        const gyre_report_look varied = subject_look(label);
        assert_int_equal(varied.color, look.color);
        assert_int_equal(varied.mark, look.mark);
        assert_true(varied.hollow);
        assert_in_range(varied.dash, 2, GYRE_REPORT_DASHES);
    }
    return look;
}

static void test_looks(void **state) {
    (void)state;
    static const char *const usual[] = {"none", "linear", "ntk", "yarn", "dynamic", "by-parts", "llama3"};
    char names[] = METHOD_NAMES, *list[64], *rest = NULL;
    int count = 0;
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        list[count++] = name;
    assert_in_range(count, 20, 64);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (look_of(list[i]).color == look_of(list[k]).color) fail_msg("%s and %s share a colour", list[i], list[k]);
    for (int i = 0; i < 7; i++) { /* of those that colour-blind readers tell apart, and with symbols that differ */
        assert_in_range(subject_look(usual[i]).color, GYRE_REPORT_PAINT_BLUE, GYRE_REPORT_PAINT_OLIVE);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(subject_look(usual[i]).mark, subject_look(usual[k]).mark);
    }
    assert_int_equal(subject_look("base 10000").color, GYRE_REPORT_PAINT_AUTO);
    assert_int_equal(subject_look("").color, GYRE_REPORT_PAINT_AUTO);
}

/* The factors that are tried together have different dashes. */
static void test_looks_of_factors(void **state) {
    (void)state;
    int used[GYRE_REPORT_DASHES + 1] = {0};
    for (int factor = 2; factor <= 64; factor *= 2) {
        char label[32];
        snprintf(label, sizeof label, "ntk:%d", factor);
        assert_int_equal(used[subject_look(label).dash]++, 0);
    }
    assert_int_not_equal(subject_look("yarn, causal").dash, subject_look("yarn, chunk").dash);
}

static int same_look(const char *a, const char *b) {
    return subject_look(a).color == subject_look(b).color && subject_look(a).mark == subject_look(b).mark;
}

/* An encoding too; the model as it is has one look under both names. */
static void test_looks_of_encodings(void **state) {
    (void)state;
    for (int i = 0; i < variants_count(); i++)
        for (int k = 0; k < i; k++)
            if (same_look(variant_at(i).name, variant_at(k).name))
                fail_msg("%s and %s look alike", variant_at(i).name, variant_at(k).name);
    for (int i = 0; i < variants_count(); i++) {
        const gyre_report_look look = subject_look(variant_at(i).name);
        assert_in_range(look.color, 1, GYRE_REPORT_PAINTS - 1);
        assert_true(!look.hollow && look.dash == 1);
    }
    for (int i = 1; gyre_kind_name((gyre_kind)i); i++)
        for (int k = 1; k < i; k++) {
            const char *one = gyre_kind_name((gyre_kind)i), *other = gyre_kind_name((gyre_kind)k);
            if (subject_look(one).color == subject_look(other).color) fail_msg("%s and %s have one colour", one, other);
        }
    assert_true(same_look("rope", "none") && same_look("alibi-ntk:4", "ntk"));
    assert_int_not_equal(subject_look("rope+yarn").color, subject_look("rope").color);
    for (int paint = 1; paint < GYRE_REPORT_PAINTS; paint++)
        for (int other = 1; other < paint; other++) {
            assert_string_not_equal(gyre_report_color(paint), gyre_report_color(other));
            assert_string_not_equal(gyre_report_dark_color(paint), gyre_report_dark_color(other));
        }
}

static int clean(void **state) {
    static const char *const files[] = {"numbers.json", "figure.svg"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    return remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits),
                                       cmocka_unit_test(two_models),
                                       cmocka_unit_test(variants),
                                       cmocka_unit_test(leaders),
                                       cmocka_unit_test(points_of_accuracy),
                                       cmocka_unit_test(titles_of_biases),
                                       cmocka_unit_test(families_of_methods),
                                       cmocka_unit_test(colours_of_texts),
                                       cmocka_unit_test(names_of_any_bytes),
                                       cmocka_unit_test(pairs_that_do_not_turn),
                                       cmocka_unit_test(test_looks),
                                       cmocka_unit_test(test_looks_of_factors),
                                       cmocka_unit_test(test_looks_of_encodings)};
    return cmocka_run_group_tests(tests, make_empty_folder, clean);
}

/* test_page_figures.c: figures on a page: series told apart, dark colours, hints, and the numbers as CSV. */
#include "check_report.h"

#include <math.h>

enum { MANY = 13, POINTS = 5 };

static gyre_error err;

/* -- reading a page -- */
static char *page_with(const gyre_report_chart *chart, const gyre_report_heatmap_grid *maps) {
    gyre_report_page *page = NULL;
    char *html = NULL;
    assert_ok(gyre_report_page_create(&page, "page", &err));
    if (chart) gyre_report_page_chart(page, chart, "caption");
    if (maps) gyre_report_page_heatmap_grid(page, maps, NULL);
    if (gyre_report_page_html(page, &html, &err)) fail_msg("%s", err.text);
    gyre_report_page_free(page);
    assert_balanced(html);
    return html;
}

/* Copies the text between `from` and `to`, after *at, which moves behind it.  out = 0 if there is none. */
static int next_between(const char **at, const char *from, const char *to, char *out, size_t size) {
    const char *begin = *at ? strstr(*at, from) : NULL;
    if (!begin) return 0;
    begin += strlen(from);
    const char *end = strstr(begin, to);
    assert_non_null(end);
    assert_true((size_t)(end - begin) < size);
    snprintf(out, size, "%.*s", (int)(end - begin), begin);
    *at = end;
    return 1;
}

/* out = the text that the data: address of the page's first figure holds; to be freed. */
static char *csv_of(const char *html) {
    static const char mark[] = "href=\"data:text/csv;charset=utf-8,";
    const char *at = strstr(html, mark);
    assert_non_null(at);
    assert_contains(html, "download=\"figure-1.csv\"");
    at += strlen(mark);
    char *out = malloc(strlen(at) + 1);
    assert_non_null(out);
    size_t used = 0;
    for (; *at != '"'; at++) {
        unsigned byte = (unsigned char)*at;
        if (*at == '%') {
            assert_int_equal(sscanf(at + 1, "%2X", &byte), 1);
            at += 2;
        }
        out[used++] = (char)byte;
    }
    out[used] = 0;
    return out;
}

/* -- charts -- */
typedef struct many_series {
    gyre_report_series series[MANY];
    char names[MANY][24];
    double x[POINTS], y[MANY][POINTS];
} many_series;

static gyre_report_chart many_chart(many_series *m, int64_t count) {
    for (int i = 0; i < POINTS; i++)
        m->x[i] = 128 << i;
    for (int s = 0; s < count; s++) {
        for (int i = 0; i < POINTS; i++)
            m->y[s][i] = s + i / 7.0;
        snprintf(m->names[s], sizeof m->names[s], "series %d", s);
        m->series[s] = (gyre_report_series){.name = m->names[s], .count = POINTS, .x = m->x, .y = m->y[s]};
    }
    return chart_of(m->series, count);
}

typedef struct sample {
    char color[16], symbol[80];
} sample;

/* The lines of one legend.  Those of other panels, which have no symbol, are left out. */
static int samples_of(const char *legend, sample *out, int limit) {
    char item[800];
    int n = 0;
    for (const char *at = legend; n < limit && next_between(&at, "<li>", "</li>", item, sizeof item);) {
        const char *symbol = strstr(item, "transform=");
        if (!symbol) continue;
        const char *color = strstr(symbol, "stroke=\""), *path = symbol;
        while (strncmp(path, " d=\"", 4) != 0)
            path--;
        snprintf(out[n].color, sizeof out->color, "%.7s", color + 8);
        snprintf(out[n++].symbol, sizeof out->symbol, "%.*s %s", (int)strcspn(path + 4, "\""), path + 4,
                 strstr(symbol, "fill=\"none\"") ? "hollow" : "filled");
    }
    return n;
}

/* out = how many lines all legends show.  In each legend, no two share a colour, and no two a symbol. */
static int check_legends(const char *html) {
    static char legend[16384];
    sample samples[MANY];
    int all = 0;
    for (const char *at = html; next_between(&at, "<ul class=\"legend\">", "</ul>", legend, sizeof legend);) {
        const int n = samples_of(legend, samples, MANY);
        assert_true(n > 0);
        for (int i = 0; i < n; i++) {
            char drawn[64];
            snprintf(drawn, sizeof drawn, "stroke='%.7s'", samples[i].color);
            assert_contains(html, drawn); /* the picture has a line of this colour */
            for (int k = 0; k < i; k++) {
                assert_string_not_equal(samples[i].color, samples[k].color);
                assert_string_not_equal(samples[i].symbol, samples[k].symbol);
            }
        }
        all += n;
    }
    return all;
}

static void series_differ(void **state) {
    (void)state;
    many_series m;
    gyre_report_chart chart = many_chart(&m, 8);
    char *html = page_with(&chart, NULL);
    assert_int_equal(check_legends(html), 8);
    assert_int_equal(count(html, "<div class=\"wide\">"), 1);
    assert_int_equal(count(html, "<div class=\"narrow\">"), 1);
    assert_contains(html, "viewBox=\"0 0 960 ");
    assert_contains(html, "viewBox=\"0 0 440 ");
    gyre_report_free(html);
}

/* More than eight series do not share a picture. */
static void many_series_have_panels(void **state) {
    (void)state;
    many_series m;
    gyre_report_chart chart = many_chart(&m, MANY);
    char *html = page_with(&chart, NULL);
    assert_int_equal(count(html, "<div class=\"panel\">"), MANY);
    assert_int_equal(check_legends(html), MANY);
    assert_int_equal(count(html, "<div class=\"wide\">"), 0);
    gyre_report_free(html);
}

static void too_many_panels(void **state) {
    (void)state;
    enum { TOO_MANY = 65 };
    gyre_report_series series[TOO_MANY];
    char names[TOO_MANY][24];
    gyre_report_page *page = NULL;
    for (int s = 0; s < TOO_MANY; s++) {
        snprintf(names[s], sizeof names[s], "%d", s);
        series[s] = (gyre_report_series){.name = names[s], .count = 4, .x = four_x, .y = four_y};
    }
    gyre_report_chart chart = chart_of(series, TOO_MANY);
    assert_ok(gyre_report_page_create(&page, "page", &err));
    assert_int_equal(gyre_report_page_chart(page, &chart, NULL), GYRE_EINVAL);
    gyre_report_page_free(page);
}

/* Series of a panel differ, also from those of all panels; so do neighbours past the number of colours. */
static void named_panels(void **state) {
    (void)state;
    many_series m;
    gyre_report_chart chart = many_chart(&m, MANY);
    for (int s = 1; s < MANY; s++)
        m.series[s].panel = s < 5 ? "one" : "two <&>";
    char *html = page_with(&chart, NULL);
    assert_int_equal(count(html, "<div class=\"panel\">"), 2);
    assert_contains(html, "<h4>one</h4>");
    assert_contains(html, "<h4>two &lt;&amp;&gt;</h4>");
    assert_int_equal(count(html, "series 0</li>"), 2);
    assert_int_equal(count(html, "series 5</li>"), 1);
    assert_contains(html,
                    "<span>series 5, series 6, series 7, series 8, series 9, series 10, series 11, series 12</span></li>");
    assert_contains(html, "<span>series 1, series 2, series 3, series 4</span></li>");
    gyre_report_free(html);
    for (int s = 8; s < MANY; s++)
        m.series[s].panel = "three";
    html = page_with(&chart, NULL);
    assert_int_equal(check_legends(html), MANY - 1 + 3);
    gyre_report_free(html);
}

/* A wide picture names each line where it ends, in the order of their heights; a small one has no room. */
static void ends_are_named(void **state) {
    (void)state;
    static const double y[3][4] = {{1, 2, 3, 9}, {1, 2, 3, 9.1}, {1, NAN, NAN, NAN}};
    static const char *const names[] = {"upper", "lower", "early"};
    gyre_report_series series[3];
    for (int s = 0; s < 3; s++)
        series[s] = (gyre_report_series){.name = names[s], .count = 4, .x = four_x, .y = y[s]};
    gyre_report_chart chart = chart_of(series, 3);
    char *html = page_with(&chart, NULL), text[40];
    for (int s = 0; s < 3; s++) {
        snprintf(text, sizeof text, "<text>%s</text>", names[s]);
        assert_int_equal(count(html, text), 1);
    }
    assert_true(strstr(html, "<text>upper</text>") < strstr(html, "<div class=\"narrow\">"));
    gyre_report_free(html);
}

/* One line far above the others does not press them together, and the legend says how far it goes. */
static void far_line_is_clipped(void **state) {
    (void)state;
    static const double y[4][4] = {{1, 2, 2, 3}, {1, 1.5, 2, 2.5}, {3, 9, 20, 25.25}, {1, 2, 3, 3.5}};
    static const char *const names[] = {"a", "b", "worst", "c"};
    gyre_report_series series[4];
    for (int s = 0; s < 4; s++)
        series[s] = (gyre_report_series){.name = names[s], .count = 4, .x = four_x, .y = y[s]};
    gyre_report_chart chart = chart_of(series, 4);
    chart.clip = gyre_report_far_above(series, 4);
    assert_true(chart.clip > 3.5 && chart.clip < 7);
    char *html = page_with(&chart, NULL);
    assert_int_equal(count(html, "worst (up to 25.2, beyond the axis)</li>"), 1);
    assert_int_equal(count(html, "beyond the axis"), 1);
    assert_contains(html, "<text>≥ ");
    gyre_report_free(html);
    series[2].y = y[0];
    assert_true(gyre_report_far_above(series, 4) == 0);
    assert_true(gyre_report_far_above(series, 1) == 0);
    series[1].count = 0; /* nothing in it */
    assert_true(gyre_report_far_above(series, 4) == 0);
}

static void chart_numbers(void **state) {
    (void)state;
    const double x[] = {256, 512, 1024}, y[] = {1.0 / 3, 1e-300, NAN}, low[] = {0.1, NAN, NAN}, high[] = {0.5, NAN, NAN};
    const gyre_report_series series[] = {{"a, \"b\" é", 3, x, y, low, high, {0, 0, 0, 0}, NULL},
                                         {"c\nd", 3, x, y, NULL, NULL, {0, 0, 0, 0}, NULL}};
    gyre_report_chart chart = chart_of(series, 2);
    char *csv = NULL;
    assert_ok(gyre_report_chart_csv(&chart, &csv, &err));
    assert_string_equal(csv, "series,context (tokens),perplexity,low,high\r\n"
                             "\"a, \"\"b\"\" é\",256,0.3333333333333333,0.1,0.5\r\n"
                             "\"a, \"\"b\"\" é\",512,1e-300,,\r\n"
                             "\"a, \"\"b\"\" é\",1024,,,\r\n"
                             "c d,256,0.3333333333333333,,\r\n"
                             "c d,512,1e-300,,\r\n"
                             "c d,1024,,,\r\n");
    chart.y.scale = GYRE_REPORT_SCALE_LOG10;
    char *html = page_with(&chart, NULL), *held = csv_of(html);
    assert_string_equal(held, csv);
    free(held);
    gyre_report_free(html);
    gyre_report_free(csv);
    chart.series_count = 0;
    assert_int_equal(gyre_report_chart_csv(&chart, &csv, &err), GYRE_EINVAL);
    chart.series_count = 2;
    assert_int_equal(gyre_report_chart_csv(&chart, NULL, &err), GYRE_EINVAL);
}

/* Each value has a spot with its name and numbers in both pictures.  Values at one place are named together. */
static void chart_hints(void **state) {
    (void)state;
    const double x[] = {256, 512, 1024}, y[] = {1, 2, NAN}, other[] = {1, 9, 9.5}, low[] = {0.5, 1, 1}, high[] = {1.5, 3, 3};
    const gyre_report_series series[] = {{"first <&>", 3, x, y, low, high, {0, 0, 0, 0}, NULL},
                                         {"other", 3, x, other, NULL, NULL, {0, 0, 0, 0}, NULL}};
    gyre_report_chart chart = chart_of(series, 2);
    char *html = page_with(&chart, NULL);
    assert_int_equal(count(html, "<circle class='spot'"), 2 * 5);
    assert_int_equal(
        count(html, "<title>first &lt;&amp;&gt;, other\ncontext (tokens): 256\nperplexity: 1 (0.5 to 1.5)</title>"), 2);
    assert_int_equal(count(html, "<title>first &lt;&amp;&gt;\ncontext (tokens): 512\nperplexity: 2 (1 to 3)</title>"), 2);
    assert_int_equal(count(html, "<title>other\ncontext (tokens): 1024\nperplexity: 9.5</title>"), 2);
    assert_lacks(html, "gnuplot_svg");
    assert_lacks(html, "gnuplot_plot_1</title>");
    gyre_report_free(html);
}

/* -- maps -- */
static gyre_report_heatmap_grid grid_of(const gyre_report_heatmap *maps, int64_t n) {
    gyre_report_heatmap_grid grid = GYRE_REPORT_HEATMAP_GRID_INIT;
    grid.title = "maps";
    grid.x.label = "length (tokens)";
    grid.y.label = "depth";
    grid.z.label = "right";
    grid.maps = maps;
    grid.maps_count = n;
    return grid;
}

/* Ticks are the values themselves, in the middle of cells. */
static void map_values(void **state) {
    (void)state;
    const double x[] = {128, 256, 300}, y[] = {0, 25, 50, 100}, z[] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, NAN};
    const gyre_report_heatmap maps[] = {{"none", 3, 4, z}, {"yarn", 3, 4, z}};
    gyre_report_heatmap_grid grid = grid_of(maps, 2);
    grid.x_values = x;
    grid.y_values = y;
    grid.y_unit = "%";
    char *html = page_with(NULL, &grid);
    assert_int_equal(count(html, "<text>128</text>"), 2 + 1); /* below both maps side by side; below the lower of two */
    assert_int_equal(count(html, "<text>300</text>"), 2 + 1);
    assert_int_equal(count(html, "<text>25%</text>"), 1 + 2);
    assert_lacks(html, "<text>-20");
    assert_lacks(html, "<text>0.5</text>");
    assert_int_equal(count(html, "<rect class='spot'"), 2 * 2 * 12);
    assert_int_equal(count(html, "<title>yarn\nlength (tokens): 256\ndepth: 50%\nright: 70</title>"), 2);
    assert_int_equal(count(html, "<title>none\nlength (tokens): 300\ndepth: 100%\nright: -</title>"), 2);
    char *csv = csv_of(html);
    assert_string_equal(csv,
                        "map,depth,128,256,300\r\nnone,0,0,10,20\r\nnone,25,30,40,50\r\nnone,50,60,70,80\r\n"
                        "none,100,90,95,\r\nyarn,0,0,10,20\r\nyarn,25,30,40,50\r\nyarn,50,60,70,80\r\nyarn,100,90,95,\r\n");
    free(csv);
    gyre_report_free(html);
    const gyre_report_heatmap odd[] = {{"none", 3, 4, z}, {"yarn", 4, 3, z}};
    grid.maps = odd;
    char *svg = NULL;
    assert_int_equal(gyre_report_heatmap_grid_svg(&grid, &svg, &err), GYRE_EINVAL);
    assert_int_equal(gyre_report_heatmap_grid_csv(&grid, &svg, &err), GYRE_EINVAL);
    assert_null(svg);
}

/* Row and column of the cell under the pointer, also where a spot covers many cells: the value says where it is. */
static void map_of_many_cells(void **state) {
    (void)state;
    enum { WIDTH = 100, HEIGHT = 40 };
    static double z[WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        z[i] = i;
    const gyre_report_heatmap map = {"map", WIDTH, HEIGHT, z};
    const gyre_report_heatmap_grid grid = grid_of(&map, 1);
    char *html = page_with(NULL, &grid), text[200];
    int hints = 0;
    for (const char *at = html; next_between(&at, "<title>map\n", "</title>", text, sizeof text); hints++) {
        int x, y, value;
        assert_int_equal(sscanf(text, "length (tokens): %d depth: %d right: %d", &x, &y, &value), 3);
        assert_int_equal(value, y * WIDTH + x);
    }
    assert_int_equal(hints, 2 * 16 * 16);
    gyre_report_free(html);
}

/* -- dark colours -- */
/* Every colour that a figure draws with has a rule for dark grounds. */
static int check_inks(const char *html, const char *attribute) {
    char color[16], rule[64], tag[24];
    int n = 0;
    const char *figure = strstr(html, "<figure"), *rules = strstr(html, "@media screen and (prefers-color-scheme:dark)");
    assert_non_null(rules);
    snprintf(tag, sizeof tag, " %s='#", attribute);
    for (const char *at = figure; next_between(&at, tag, "'", color, sizeof color);) {
        if (strcmp(color, "000") == 0) continue; /* of spots, which are transparent */
        snprintf(rule, sizeof rule, "[%s=\"#%s\"]{%s:#", attribute, color, attribute);
        assert_contains(rules, rule);
        n++;
    }
    return n;
}

static void dark_colors(void **state) {
    (void)state;
    many_series m;
    gyre_report_chart chart = many_chart(&m, 8);
    const gyre_report_marker marker = {300, "trained", 0};
    chart.markers = &marker;
    chart.markers_count = 1;
    char *html = page_with(&chart, NULL);
    assert_lacks(strstr(html, "<figure"), "rgb(");
    assert_true(check_inks(html, "stroke") > 20);
    assert_true(check_inks(html, "color") > 20);
    assert_contains(html, "fill=\"#ffffff\"");
    assert_contains(html, "[fill=\"#ffffff\"]{fill:#16181b}");
    gyre_report_free(html);
    char *svg = NULL; /* alone, it has the rules itself */
    assert_ok(gyre_report_chart_svg(&chart, &svg, &err));
    assert_balanced(svg);
    assert_contains(svg, "<style>@media screen and (prefers-color-scheme:dark){[stroke=\"#ffffff\"]");
    gyre_report_free(svg);
}

/* Maps keep their hue; the scale changes with them. */
static void dark_maps(void **state) {
    (void)state;
    const double z[] = {1, 2, 3, NAN};
    const gyre_report_heatmap map = {"map", 2, 2, z};
    const gyre_report_heatmap_grid grid = grid_of(&map, 1);
    char *html = page_with(NULL, &grid);
    assert_contains(html, "figure image,figure .colorbox{filter:invert(");
    assert_int_equal(count(html, "<g class='colorbox' "), 2);
    assert_contains(html, "fill = '#bdc1c6'"); /* no value, which has a rule of its own */
    assert_contains(html, "[fill=\"#bdc1c6\"]{fill:#");
    gyre_report_free(html);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_differ),  cmocka_unit_test(many_series_have_panels),
        cmocka_unit_test(named_panels),   cmocka_unit_test(too_many_panels),
        cmocka_unit_test(ends_are_named), cmocka_unit_test(far_line_is_clipped),
        cmocka_unit_test(chart_numbers),  cmocka_unit_test(chart_hints),
        cmocka_unit_test(map_values),     cmocka_unit_test(map_of_many_cells),
        cmocka_unit_test(dark_colors),    cmocka_unit_test(dark_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

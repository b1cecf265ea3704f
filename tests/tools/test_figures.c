/* test_figures.c: charts and heat maps, and errors of gnuplot. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "check_report.h"
#include "report/report_internal.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static gyre_error err;

static char *draw(const gyre_report_chart *chart) {
    char *svg = NULL;
    const gyre_status status = gyre_report_chart_svg(chart, &svg, &err);
    if (status) fail_msg("%s", err.text);
    assert_balanced(svg);
    return svg;
}

/* Positions of the symbols `id` in drawing order. */
static int symbols(const char *svg, const char *id, double x[], double y[], int limit) {
    char use[64];
    snprintf(use, sizeof use, "<use xlink:href='#%s' transform='translate(", id);
    int n = 0;
    for (const char *at = strstr(svg, use); at && n < limit; at = strstr(at + 1, use))
        if (sscanf(at + strlen(use), "%lf,%lf", &x[n], &y[n]) == 2) n++;
    return n;
}

/* -- charts -- */
static void chart_scales(void **state) {
    (void)state;
    const gyre_report_series series = {"line", 4, four_x, four_y, NULL, NULL, {0, 0, 0, 0}, NULL};
    gyre_report_chart chart = chart_of(&series, 1);
    double x[8], y[8];
    char *svg = draw(&chart);
    assert_int_equal(symbols(svg, "gpPt6", x, y, 8), 5); /* the legend's is the last */
    test_close((x[2] - x[1]) / (x[1] - x[0]), 2, 0.01, "linear x");
    test_close((y[2] - y[1]) / (y[1] - y[0]), 10, 0.5, "linear y");
    assert_lacks(svg, ">1k<");
    assert_contains(svg, ">context (tokens)<");
    assert_contains(svg, ">perplexity<");
    assert_contains(svg, "<title>a title</title>");
    assert_contains(svg, "<title>line</title>");
    gyre_report_free(svg);

    chart.x.scale = GYRE_REPORT_SCALE_LOG2;
    chart.y.scale = GYRE_REPORT_SCALE_LOG10;
    svg = draw(&chart);
    assert_int_equal(symbols(svg, "gpPt6", x, y, 8), 5);
    test_close((x[2] - x[1]) / (x[1] - x[0]), 1, 0.001, "log x");
    test_close((y[3] - y[2]) / (y[1] - y[0]), 1, 0.001, "log y");
    assert_contains(svg, ">1k<");
    assert_contains(svg, ">2k<");
    assert_contains(svg, ">1000<");
    assert_int_equal(strncmp(svg, "<svg role=\"img\"", 15), 0);
    assert_contains(svg, "viewBox=");
    gyre_report_free(svg);
}

/* A range of less than a decade still has labels. */
static void chart_narrow_log(void **state) {
    (void)state;
    const double y[] = {3.1, 3.2, 3.4, 3.45};
    const gyre_report_series series = {"line", 4, four_x, y, NULL, NULL, {0, 0, 0, 0}, NULL};
    gyre_report_chart chart = chart_of(&series, 1);
    chart.y.scale = GYRE_REPORT_SCALE_LOG10;
    char *svg = draw(&chart);
    assert_contains(svg, ">3.1<");
    assert_contains(svg, ">3.4<");
    gyre_report_free(svg);
}

static void chart_clip(void **state) {
    (void)state;
    const double y[] = {1, 500, INFINITY, 100};
    const gyre_report_series series = {"line", 4, four_x, y, NULL, NULL, {0, 0, 0, 0}, NULL};
    gyre_report_chart chart = chart_of(&series, 1);
    chart.y.scale = GYRE_REPORT_SCALE_LOG10;
    double x[8], at[8];
    char *svg = draw(&chart);
    assert_int_equal(symbols(svg, "gpPt6", x, at, 8), 4); /* the infinite one is not drawn */
    assert_lacks(svg, "≥");
    gyre_report_free(svg);
    chart.clip = 100;
    svg = draw(&chart);
    assert_int_equal(symbols(svg, "gpPt6", x, at, 8), 5);
    test_close(at[1], at[3], 0, "above the clip");
    test_close(at[2], at[3], 0, "infinite");
    assert_contains(svg, ">≥ 100<");
    gyre_report_free(svg);
    chart.clip = 1000;
    svg = draw(&chart); /* only infinity is clipped */
    assert_int_equal(symbols(svg, "gpPt6", x, at, 8), 5);
    assert_true(at[2] < at[1] && at[1] < at[3]);
    assert_contains(svg, ">≥ 1000<");
    gyre_report_free(svg);
}

/* The strokes of the curve's path: its pieces, including the sample in the legend. */
static int strokes(const char *svg, const char *color) {
    char mark[64];
    snprintf(mark, sizeof mark, "stroke='%s'", color);
    const char *at = strstr(svg, mark);
    assert_non_null(at);
    at = strstr(at, " d='");
    int n = 0;
    for (at += 4; *at != '\''; at++)
        n += *at == 'M';
    return n;
}

static void chart_gaps(void **state) {
    (void)state;
    double x[40], y[40];
    for (int i = 0; i < 40; i++) {
        x[i] = i;
        y[i] = i % 7;
    }
    const gyre_report_series series = {"line", 40, x, y, NULL, NULL, {1, 0, 0, 0}, NULL};
    gyre_report_chart chart = chart_of(&series, 1);
    char *svg = draw(&chart);
    assert_int_equal(strokes(svg, "#0072b2"), 2);
    gyre_report_free(svg);
    y[20] = NAN;
    x[30] = NAN;
    svg = draw(&chart);
    assert_int_equal(strokes(svg, "#0072b2"), 4);
    gyre_report_free(svg);
}

static void chart_markers(void **state) {
    (void)state;
    const gyre_report_series series = {"line", 4, four_x, four_y, NULL, NULL, {0, 0, 0, 0}, NULL};
    const gyre_report_marker markers[] = {{300, "trained", 0}, {50, "across", 1}, {NAN, "nowhere", 0}};
    gyre_report_chart chart = chart_of(&series, 1);
    chart.markers = markers;
    chart.markers_count = 3;
    char *svg = draw(&chart);
    assert_contains(svg, ">trained<");
    assert_contains(svg, ">across<");
    assert_lacks(svg, "nowhere");
    gyre_report_free(svg);
}

/* More series than colours and dashes; bands, points, thousands of values, an empty series. */
static void chart_many(void **state) {
    (void)state;
    enum { SERIES = 12, POINTS = 5000 };
    static double x[POINTS], y[SERIES][POINTS], low[POINTS], high[POINTS];
    gyre_report_series series[SERIES];
    char names[SERIES][16];
    for (int s = 0; s < SERIES; s++) {
        for (int i = 0; i < POINTS; i++) {
            x[i] = i;
            y[s][i] = sin(i * 0.01 + s);
            low[i] = y[0][i] - 0.1;
            high[i] = y[0][i] + 0.1;
        }
        snprintf(names[s], sizeof names[s], "series %d", s);
        series[s] = (gyre_report_series){names[s],        s == 5 ? 0 : POINTS, x,   y[s], s ? NULL : low,
                                         s ? NULL : high, {0, 0, 0, 0},        NULL};
    }
    gyre_report_chart chart = chart_of(series, SERIES);
    char *svg = draw(&chart);
    for (int s = 0; s < SERIES; s++)
        assert_contains(svg, names[s]);
    assert_contains(svg, "fill-opacity");
    gyre_report_free(svg);
    chart.style = GYRE_REPORT_CHART_STYLE_POINTS;
    svg = draw(&chart);
    gyre_report_free(svg);
}

/* out = the stroke width of the group that the line of that colour is in; *at = where the line begins. */
static double width_of(const char *svg, const char *color, const char **at) {
    static const char mark[] = "stroke-width=\"";
    char stroke[32];
    snprintf(stroke, sizeof stroke, "stroke='%s'", color);
    const char *line = strstr(svg, stroke);
    assert_non_null(line);
    *at = line;
    while (strncmp(line, mark, strlen(mark)) != 0)
        line--;
    return strtod(line + strlen(mark), NULL);
}

/* All lines are equally wide, and dashed ones lie on solid ones, which show between the dashes. */
static void covered_lines(void **state) {
    (void)state;
    static const double x[] = {1, 2, 3}, same[] = {1, 2, 1}, alone[] = {3, 4, 5};
    gyre_report_series series[] = {{"dashed", 3, x, same, NULL, NULL, {1, 0, 0, 2}, NULL},
                                   {"solid", 3, x, same, NULL, NULL, {2, 0, 0, 1}, NULL},
                                   {"alone", 3, x, alone, NULL, NULL, {3, 0, 0, 1}, NULL}};
    gyre_report_chart chart = chart_of(series, 3);
    char *svg = draw(&chart);
    const char *at[3];
    for (int i = 0; i < 3; i++) {
        const double width = width_of(svg, gyre_report_color(i + 1), &at[i]);
        assert_true(fabs(width - 2) < 1e-9);
    }
    assert_true(at[1] < at[0] && at[2] < at[0]);
    gyre_report_free(svg);
}

/* A whole script, in each format. */
static void scripts(void **state) {
    (void)state;
    gyre_report_script script = GYRE_REPORT_SCRIPT_INIT;
    static const char *const begins[] = {"<svg", "\x89PNG", "%PDF"};
    char *out = NULL;
    size_t bytes = 0;
    script.title = "a < b";
    script.text = "plot [0:1] x title ''\n";
    script.width = 200;
    script.height = 100;
    for (int f = 0; f < 3; f++) {
        script.format = (gyre_report_format)f;
        if (gyre_report_script_draw(&script, &out, &bytes, &err)) fail_msg("%s", err.text);
        assert_true(bytes > 500);
        assert_memory_equal(out, begins[f], 4);
        if (f == 0) assert_contains(out, "<title>a &lt; b</title>");
        gyre_report_free(out);
    }
    script.text = "plot nothing_known(x)\n";
    assert_int_equal(gyre_report_script_draw(&script, &out, &bytes, &err), GYRE_EIO);
    script.width = 0;
    assert_int_equal(gyre_report_script_draw(&script, &out, &bytes, &err), GYRE_EINVAL);
    assert_string_equal(gyre_report_color(1), "#0072b2");
}

static void chart_errors(void **state) {
    (void)state;
    const double nothing[] = {NAN, INFINITY, -INFINITY, NAN};
    gyre_report_series series = {"line", 4, four_x, nothing, NULL, NULL, {0, 0, 0, 0}, NULL};
    char *svg = NULL;
    gyre_report_chart chart = chart_of(NULL, 0);
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "chart: no series to draw (figure)");
    chart = chart_of(&series, 1);
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "chart: nothing finite to draw (figure)");
    series.y = four_y;
    series.look.color = GYRE_REPORT_PAINTS;
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    series.look.color = 0;
    series.look.mark = GYRE_REPORT_MARKS;
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    series.look.mark = 0;
    chart.x.scale = GYRE_REPORT_SCALE_LOG2;
    chart.x.high = 100; /* from 0 */
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    chart.x.low = 200;
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, NULL), GYRE_EINVAL);
    chart.x.low = chart.x.high = 0;
    chart.clip = NAN;
    assert_int_equal(gyre_report_chart_svg(&chart, &svg, &err), GYRE_EINVAL);
    assert_null(svg);
}

/* Names are data: for gnuplot, for its enhanced text, for SVG. */
static void hostile_names(void **state) {
    (void)state;
    char *folder = new_folder();
    char name[1000], file[440];
    snprintf(file, sizeof file, "%s/made", folder);
    snprintf(name, sizeof name, "a_{b}^c'\nsystem('touch %s'); `touch %s` @x \"<&> é \xff \\", file, file);
    const gyre_report_series series = {name, 4, four_x, four_y, NULL, NULL, {0, 0, 0, 0}, NULL};
    const gyre_report_marker marker = {300, name, 0};
    gyre_report_chart chart = chart_of(&series, 1);
    chart.title = chart.x.label = chart.y.label = name;
    chart.markers = &marker;
    chart.markers_count = 1;
    char *svg = draw(&chart);
    assert_contains(svg, "a_{b}^c' system('touch ");
    assert_contains(svg, "` @x \"&lt;&amp;> é \xEF\xBF\xBD \\<");
    gyre_report_free(svg);
    const gyre_report_heatmap map = {name, 2, 2, four_y};
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    panels.title = panels.x.label = panels.y.label = panels.z.label = name;
    panels.maps = &map;
    panels.maps_count = 1;
    assert_ok(gyre_report_heatmap_grid_svg(&panels, &svg, &err));
    assert_balanced(svg);
    gyre_report_free(svg);
    assert_int_equal(entries(folder, 0), 0);
    drop_folder(folder);
}

/* -- panels -- */
static void panels_drawn(void **state) {
    (void)state;
    double z[3 * 5];
    for (int i = 0; i < 15; i++)
        z[i] = cos(i);
    z[4] = NAN;
    const gyre_report_heatmap maps[] = {{"one", 5, 3, z}, {"two", 3, 5, z}, {"three", 5, 3, z}, {"four", 5, 3, z}};
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    panels.title = "angles";
    panels.x.label = "position";
    panels.x.high = 4096;
    panels.z = (gyre_report_axis){"cos", GYRE_REPORT_SCALE_LINEAR, -1, 1};
    panels.maps = maps;
    panels.maps_count = 4;
    char *svg = NULL;
    assert_ok(gyre_report_heatmap_grid_svg(&panels, &svg, &err));
    assert_balanced(svg);
    assert_int_equal(count(svg, "<image "), 4);
    assert_int_equal(count(svg, "data:image/png;base64,"), 4);
    assert_int_equal(count(svg, ">position<"), 3); /* below the lowest of each column */
    assert_int_equal(count(svg, ">cos<"), 1);
    assert_contains(svg, ">three<");
    assert_contains(svg, ">-0.5<");
    gyre_report_free(svg);
}

static void panels_errors(void **state) {
    (void)state;
    const double nothing[] = {NAN, NAN, INFINITY, NAN};
    gyre_report_heatmap map = {"one", 2, 2, nothing};
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    char *svg = NULL;
    assert_int_equal(gyre_report_heatmap_grid_svg(&panels, &svg, &err), GYRE_EINVAL);
    panels.maps = &map;
    panels.maps_count = 1;
    assert_int_equal(gyre_report_heatmap_grid_svg(&panels, &svg, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "panels: nothing finite to draw (figure)");
    map.z = four_y;
    map.width = 1;
    assert_int_equal(gyre_report_heatmap_grid_svg(&panels, &svg, &err), GYRE_EINVAL);
    map.width = 2;
    panels.x.scale = GYRE_REPORT_SCALE_LOG2;
    assert_int_equal(gyre_report_heatmap_grid_svg(&panels, &svg, &err), GYRE_EINVAL);
    assert_null(svg);
}

/* -- the program gnuplot -- */
/* Draws the chart alone, or on a page, where gnuplot waits for another figure.  out = 1 if that fails as it should. */
static int fails_to_draw(const gyre_report_chart *chart, int on_page, gyre_error *why) {
    char *text = NULL;
    if (!on_page) return gyre_report_chart_svg(chart, &text, why) == GYRE_EIO && !text;
    gyre_report_page *page = NULL;
    if (gyre_report_page_create(&page, "page", why)) return 0;
    (void)gyre_report_page_chart(page, chart, NULL);
    const gyre_status status = gyre_report_page_html(page, &text, why);
    gyre_report_page_free(page);
    return status == GYRE_EIO && !text;
}

/* Draws in a child whose PATH begins with a folder that contains `script` as gnuplot, or nothing. Expects failure and fills
 * err. */
static void draw_with(const char *script, int on_page) {
    enum { POINTS = 20000 };
    static double x[POINTS];
    char *folder = new_folder(), program[440];
    snprintf(program, sizeof program, "%s/gnuplot", folder);
    if (script) {
        const int fd = open(program, O_WRONLY | O_CREAT, 0755);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, script, strlen(script)), (ssize_t)strlen(script));
        close(fd);
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < POINTS; i++)
            x[i] = i;
        const gyre_report_series series = {"line", POINTS, x, x, NULL, NULL, {0, 0, 0, 0}, NULL};
        const gyre_report_chart chart = chart_of(&series, 1);
        gyre_error why = {0, ""};
        setenv("PATH", folder, 1);
        for (int fd = 0; fd < 3; fd++) /* the worst case for allocation of descriptors */
            close(fd);
        const int right =
            fails_to_draw(&chart, on_page, &why) && write(ends[1], why.text, sizeof why.text) == (ssize_t)sizeof why.text;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(read(ends[0], err.text, sizeof err.text), sizeof err.text);
    close(ends[0]);
    close(ends[1]);
    drop_folder(folder);
}

static void gnuplot_fails_on(int on_page) {
    draw_with(NULL, on_page);
    assert_string_equal(err.text, "gnuplot: not found in PATH (scripts/install-deps installs it)");
    draw_with("#!/bin/sh\nprintf 'plot x\\n     ^\\n   line 7: no <terminal>\\n\\n' >&2\nexit 3\n", on_page);
    assert_string_equal(err.text, "gnuplot: exit status 3: line 7: no <terminal> (figure)");
    draw_with("#!/bin/sh\nkill -9 $$\n", on_page);
    assert_string_equal(err.text, "gnuplot: killed by signal 9: it says nothing (figure)");
    draw_with("#!/bin/sh\necho '<svg>cut short'\n", on_page);
    assert_string_equal(err.text, "gnuplot: did not draw a whole SVG: it says nothing (figure)");
    /* gnuplot exits at once while half a megabyte is being written: an error, not a SIGPIPE. */
    draw_with("#!/bin/sh\nexec <&-\necho deaf >&2\nexit 1\n", on_page);
    assert_string_equal(err.text, "gnuplot: exit status 1: deaf (figure)");
}

static void gnuplot_fails(void **state) {
    (void)state;
    gnuplot_fails_on(0);
    gnuplot_fails_on(1);
}

/* out = the picture of a script, by the plotter or by a gnuplot for this picture alone; NULL = an error. */
static char *draw_script(gyre_report_plotter *plotter, const char *text) {
    const gyre_report_canvas canvas = {.title = "t", .width = 300, .height = 200, .alone = 1};
    gyre_report_buffer script = {NULL, 0, 0, 0};
    char *svg = NULL;
    gyre_report_put(&script, text);
    const gyre_status status = gyre_report_gnuplot(plotter, &canvas, &script, &svg, &err);
    assert_true(status ? status == GYRE_EIO && !svg : svg != NULL);
    gyre_report_buffer_free(&script);
    return svg;
}

/* A gnuplot that draws several pictures keeps nothing of the ones before, and an error ends it. */
static void pictures_in_turn(void **state) {
    (void)state;
    static const char settings[] = "set logscale y\nset title 'first'\nset key left\nf(x) = x + 1\n"
                                   "$d << EOD\n1 2\n2 30\nEOD\nset multiplot\nset size 0.5\n"
                                   "plot $d with linespoints pointtype 6, f(x)\nplot x\nunset multiplot\n";
    static const char *const scripts[] = {settings,
                                          "plot [0:1] x title ''\n",
                                          settings,
                                          "set title 'a'\nplot nothing_known(x)\n",
                                          "plot [0:1] f(x)\n",
                                          "plot $d\n",
                                          settings};
    static const char *const errors[] = {NULL, NULL, NULL, "nothing_known", "f", "$d", NULL};
    gyre_report_plotter plotter = {0, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const pid_t before = plotter.child;
        char *own = draw_script(NULL, scripts[i]), *in_turn = draw_script(&plotter, scripts[i]);
        assert_int_equal(own != NULL, errors[i] == NULL);
        assert_int_equal(in_turn != NULL, errors[i] == NULL);
        if (before && !errors[i]) assert_int_equal(plotter.child, before);
        if (errors[i]) assert_int_equal(plotter.child, 0);
        if (errors[i]) assert_contains(err.text, errors[i]);
        if (own) assert_string_equal(in_turn, own);
        gyre_report_free(own);
        gyre_report_free(in_turn);
    }
    const pid_t last = plotter.child;
    assert_true(last > 0);
    gyre_report_plotter_end(&plotter);
    assert_int_equal(plotter.child, 0);
    assert_int_equal(waitpid(last, NULL, WNOHANG), -1); /* it has been waited for */
    gyre_report_plotter_end(&plotter);
}

/* gnuplot is killed between two pictures. */
static void gnuplot_killed(void **state) {
    (void)state;
    gyre_report_plotter plotter = {0, {0, 0, 0, 0}};
    char *svg = draw_script(&plotter, "plot x\n");
    assert_non_null(svg);
    gyre_report_free(svg);
    assert_int_equal(kill(plotter.child, SIGKILL), 0);
    assert_null(draw_script(&plotter, "plot x\n"));
    assert_contains(err.text, "gnuplot: killed by signal 9: ");
    svg = draw_script(&plotter, "plot x\n");
    assert_non_null(svg);
    gyre_report_free(svg);
    gyre_report_plotter_end(&plotter);
}

/* A chart alone, and twice on a page. */
static int draws(void) {
    const gyre_report_series series = {"line", 4, four_x, four_y, NULL, NULL, {0, 0, 0, 0}, NULL};
    const gyre_report_chart chart = chart_of(&series, 1);
    gyre_report_page *page = NULL;
    char *svg = NULL, *html = NULL;
    gyre_status status = gyre_report_chart_svg(&chart, &svg, NULL);
    if (!status) status = gyre_report_page_create(&page, "page", NULL);
    if (!status) status = gyre_report_page_chart(page, &chart, NULL);
    if (!status) status = gyre_report_page_html(page, &html, NULL);
    gyre_report_page_free(page);
    gyre_report_free(html);
    gyre_report_free(svg);
    return status == GYRE_OK;
}

/* Callers without standard files, with reaped children, with no signals blocked; none may leak. */
static void odd_callers(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (kind == 0)
                for (int fd = 0; fd < 3; fd++)
                    close(fd);
            else
                signal(SIGCHLD, SIG_IGN);
            _exit(!draws());
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    const int before = dup(0);
    assert_int_equal(close(before), 0);
    assert_true(draws());
    const int after = dup(0);
    assert_int_equal(close(after), 0);
    assert_int_equal(before, after);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chart_scales),  cmocka_unit_test(chart_narrow_log), cmocka_unit_test(chart_clip),
        cmocka_unit_test(chart_gaps),    cmocka_unit_test(chart_markers),    cmocka_unit_test(chart_many),
        cmocka_unit_test(covered_lines), cmocka_unit_test(scripts),          cmocka_unit_test(chart_errors),
        cmocka_unit_test(hostile_names), cmocka_unit_test(panels_drawn),     cmocka_unit_test(panels_errors),
        cmocka_unit_test(gnuplot_fails), cmocka_unit_test(pictures_in_turn), cmocka_unit_test(gnuplot_killed),
        cmocka_unit_test(odd_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_plot_table.c: gyre plot table and shift at the widths of real models, and clock at any: what the figure shows of the
 * numbers, and that its words fit. */
#define _XOPEN_SOURCE 700 /* open_memstream, mkdtemp */
#include "read_plot_table.h"
#include "tools/plot/plot.h"

enum { POSITIONS = 128, MIDDLE = 64, LAYOUTS = 2 };

static double angle_of(double position, int64_t pair, int64_t channels) {
    return position * pow(10000, -2 * (double)pair / (double)channels);
}

/* Every channel is in the numbers, each with its pair. */
static void every_channel(void **state) {
    (void)state;
    static const int64_t widths[] = {512, 1024};
    for (int i = 0; i < 2; i++) {
        const int64_t n = widths[i];
        char line[64];
        snprintf(line, sizeof line, "table --head-dim %lld --tokens 16", (long long)n);
        table t = table_of(line);
        const int at = column_of(&t, "position", "tokens"), channel = column_of(&t, "channel", ""),
                  pair = column_of(&t, "pair", ""), value = column_of(&t, "value", "");
        assert_int_equal(rows_of(&t), LAYOUTS * 16 * n);
        for (int64_t r = 0; r < rows_of(&t); r++) {
            const int64_t c = r % n, in_turn = r < 16 * n, its = in_turn ? c / 2 : c % (n / 2), position = r / n % 16;
            const double angle = angle_of((double)position, its, n);
            assert_true(number(&t, r, channel) == (double)c && number(&t, r, pair) == (double)its);
            assert_true(number(&t, r, at) == (double)position);
            test_close(number(&t, r, value), (in_turn ? c % 2 : c >= n / 2) ? cos(angle) : sin(angle), 1e-9, "value");
        }
        table_free(&t);
    }
}

/* out = the figure's script, which the caller frees. */
static char *script_of_kind(const plot_kind *kind, int64_t channels, int *width) {
    plot_options options = {.kind = kind, .head_dim = channels};
    plot_work work = {.options = &options};
    gyre_error err = {0, ""};
    plot_script s;
    if (kind->takes == PLOT_TAKES_SUBJECT)
        assert_int_equal(plot_subjects_read(&options, work.subjects, &work.subjects_count), 0);
    assert_int_equal(kind->compute(&work, &err), GYRE_OK);
    assert_true(plot_script_begin(&s));
    kind->draw(&work, &s);
    plot_subjects_free(work.subjects, work.subjects_count);
    assert_int_equal(fclose(s.file), 0);
    plot_table_free(&work.table);
    if (width) *width = s.width;
    return s.text;
}

static char *script_of(int64_t channels) {
    return script_of_kind(&plot_rows, channels, NULL);
}

/* out = the next data block of that name, after its first line. */
static const char *block(const char *script, const char *name) {
    const char *at = strstr(script, name);
    assert_non_null(at);
    return strchr(at, '\n') + 1;
}

/* Reads `count` numbers of a line.  out = the next line. */
static const char *read_line(const char *at, int count, double *numbers) {
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        numbers[i] = strtod(at, &end);
        assert_true(end != at);
        at = end;
    }
    assert_true(*at == '\n');
    return at + 1;
}

/* The figure of a wide table has as many sines as cosines, each pair with both, at even steps over all channels. */
static void pairs_drawn(void **state) {
    (void)state;
    static const int64_t widths[] = {64, 512, 1000, 1024};
    for (int i = 0; i < 4; i++) {
        const int64_t n = widths[i], step = (n + 255) / 256, drawn = 2 * ((n / 2 + step - 1) / step);
        char *script = script_of(n);
        const char *at = script;
        for (int layout = 0; layout < LAYOUTS; layout++) {
            at = block(at, "$map << EOD");
            for (int64_t cell = 0; cell < POSITIONS * drawn; cell++) {
                const int64_t k = cell % drawn, half = drawn / 2, pair = step * (layout ? k % half : k / 2);
                const int cosine = layout ? k >= half : k % 2 == 1;
                const int64_t position = cell / drawn;
                const double angle = angle_of((double)position, pair, n), width = (double)n / (double)drawn;
                double got[3]; /* channel, position, value */
                at = read_line(at, 3, got);
                test_close(got[0], ((double)k + 0.5) * width - 0.5, 1e-5, "channel");
                test_close(got[2], cosine ? cos(angle) : sin(angle), 1e-7, "value");
                assert_true(got[1] == (double)position);
            }
            assert_int_equal(strncmp(at, "EOD", 3), 0);
        }
        free(script);
    }
}

/* Two rows are as alike as the mean of cos over the angles of all pairs between them: 0.485 at position 0 of 512 channels,
 * and the same on both sides of the middle. */
static void likeness(void **state) {
    (void)state;
    static const int64_t widths[] = {64, 512, 1024};
    static const double at_zero[] = {0.4346, 0.4854, 0.4866};
    for (int i = 0; i < 3; i++) {
        char *script = script_of(widths[i]);
        const char *at = script;
        for (int layout = 0; layout < LAYOUTS; layout++) {
            double found[POSITIONS];
            at = block(at, "$alike << EOD");
            for (int p = 0; p < POSITIONS; p++) {
                double got[2], sum = 0; /* position, likeness */
                at = read_line(at, 2, got);
                assert_true(got[0] == p);
                found[p] = got[1];
                for (int64_t pair = 0; pair < widths[i] / 2; pair++)
                    sum += cos(angle_of(MIDDLE - p, pair, widths[i]));
                test_close(found[p], 2 * sum / (double)widths[i], 1e-7, "likeness");
                if (p > MIDDLE) test_close(found[p], found[2 * MIDDLE - p], 1e-7, "the other side");
            }
            test_close(found[0], at_zero[i], 1e-4, "at position 0");
            test_close(found[MIDDLE], 1, 1e-7, "itself");
        }
        free(script);
    }
}

/* No more numbers at an axis than fit: every channel up to 16, then every second, fourth and so on.  Below the matrix, 336
 * pixels wide, twelve numbers of three digits have room. */
static void channels_named(void **state) {
    (void)state;
    static const int64_t widths[] = {8, 16, 18, 64, 128, 512}, steps[] = {1, 1, 2, 4, 8, 32},
                         across[] = {1, 1, 2, 4, 16, 64};
    for (int i = 0; i < 6; i++) {
        char line[32];
        char *script = script_of_kind(&plot_shift, widths[i], NULL);
        snprintf(line, sizeof line, "set ytics %lld\n", (long long)steps[i]);
        assert_non_null(strstr(script, line));
        snprintf(line, sizeof line, "set xtics %lld\n", (long long)across[i]);
        assert_non_null(strstr(script, line));
        free(script);
    }
}

/* Captions are whole in a picture of two dials and in one of six: no line is wider than the picture. */
static void captions_fit(void **state) {
    (void)state;
    static const int64_t channels[] = {4, 8, 128};
    for (int i = 0; i < 3; i++) {
        int width = 0;
        char *script = script_of_kind(&plot_clock, channels[i], &width), words[512] = "";
        for (const char *at = script; (at = strstr(at, "set label '"));) {
            at += strlen("set label '");
            const size_t length = strcspn(at, "'");
            if (strncmp(at + length, "' at screen 0.5,", 16) != 0) continue;
            assert_true((int)length * 7 <= width);
            snprintf(words + strlen(words), sizeof words - strlen(words), "%.*s ", (int)length, at);
        }
        assert_non_null(strstr(words, "The key is at the top. "));
        assert_non_null(strstr(words, "red a whole arc past. "));
        assert_null(strstr(words, "Dashed"));
        free(script);
    }
}

static int clean(void **state) {
    unlink(in_folder("numbers.json"));
    return remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_channel), cmocka_unit_test(pairs_drawn),
                                       cmocka_unit_test(likeness), cmocka_unit_test(channels_named),
                                       cmocka_unit_test(captions_fit)};
    return cmocka_run_group_tests(tests, make_empty_folder, clean);
}

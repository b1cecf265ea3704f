/* test_plot.c: the numbers of gyre plot against definitions computed here in double, and where the figures go. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "read_plot_table.h"
#include "tools/cli/cli.h"
#include <math.h>

static const double PI = 3.14159265358979323846;

/* -- definitions -- */
typedef struct rotation {
    double dim, base, trained, factor;
} rotation;

static double theta(const rotation *r, double pair) {
    return pow(r->base, -2 * pair / r->dim);
}

/* YaRN's ramp as in the authors' code: its ends are whole pairs. */
static double ramp(const rotation *r, double pair) {
    const double low = floor(r->dim * log(r->trained / (32 * 2 * PI)) / (2 * log(r->base)));
    const double high = ceil(r->dim * log(r->trained / (2 * PI)) / (2 * log(r->base)));
    return fmin(fmax((pair - fmax(low, 0)) / (fmin(high, r->dim - 1) - fmax(low, 0)), 0), 1);
}

/* length: in use, which dynamic follows. */
static double frequency(const rotation *r, const char *name, double pair, double length) {
    const double exponent = r->dim / (r->dim - 2);
    if (strcmp(name, "linear") == 0) return theta(r, pair) / r->factor;
    if (strcmp(name, "ntk") == 0 || strcmp(name, "dynamic") == 0) {
        const double grown = r->factor * fmax(length, r->trained) / r->trained - (r->factor - 1);
        const double s = strcmp(name, "ntk") == 0 ? r->factor : grown;
        return pow(r->base * pow(s, exponent), -2 * pair / r->dim);
    }
    if (strcmp(name, "yarn") == 0 || strcmp(name, "by-parts") == 0)
        return theta(r, pair) * (1 - ramp(r, pair)) + theta(r, pair) / r->factor * ramp(r, pair);
    assert_string_equal(name, "none");
    return theta(r, pair);
}

static const rotation SMALL = {16, 100, 64, 4};
static const char SMALL_OPTIONS[] = "--head-dim 16 --base 100 --trained 64 --to 256";

/* -- kinds -- */
static void methods(void **state) {
    (void)state;
    char line[256];
    snprintf(line, sizeof line, "methods %s --points 32", SMALL_OPTIONS);
    table t = table_of(line);
    const int name = column_of(&t, "method", ""), pair = column_of(&t, "pair", ""), at = column_of(&t, "distance", "tokens"),
              angle = column_of(&t, "angle", "rad"), excess = column_of(&t, "excess", "arc");
    int64_t unseen = 0;
    assert_int_equal(rows_of(&t), 6 * 8 * 32);
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double m = number(&t, r, at), p = number(&t, r, pair);
        const double want = m * frequency(&SMALL, text(&t, r, name), p, m + 1);
        test_close(cos(number(&t, r, angle)), cos(want), 1e-9, "cos of the angle");
        test_close(sin(number(&t, r, angle)), sin(want), 1e-9, "sin of the angle");
        assert_true(fabs(number(&t, r, angle)) <= PI + 1e-12);
        /* Seen: some trained distance had this angle or a larger one, whole turns apart. */
        const double reached = theta(&SMALL, p) * SMALL.trained, within = want - 2 * PI * floor(want / (2 * PI));
        const int is_seen = reached >= 2 * PI || within <= reached;
        const double past = fmin(fabs(remainder(want - reached, 2 * PI)), fabs(remainder(want, 2 * PI))) / reached;
        if (fabs(within - reached) > 1e-9) test_close(number(&t, r, excess), is_seen ? 0 : past, 1e-9, "excess");
        if (m < SMALL.trained) assert_true(number(&t, r, excess) == 0);
        unseen += !is_seen;
    }
    assert_true(unseen > 0);
    table_free(&t);
}

/* A file may state any width of a head.  The table has what a figure shows of it: no more than 256 pairs. */
static void pairs_of_a_wide_head(void **state) {
    (void)state;
    static const int64_t dims[] = {512, 514, 65536}, pairs_shown[] = {256, 256, 256};
    for (int i = 0; i < 3; i++) {
        char config[256], line[256];
        const int length = snprintf(config, sizeof config,
                                    "{\"model_type\": \"llama\", \"head_dim\": %lld, \"hidden_size\": 64, "
                                    "\"num_attention_heads\": 2, \"max_position_embeddings\": 256, \"rope_theta\": 1e4}",
                                    (long long)dims[i]);
        write_file("wide.json", config, (size_t)length);
        snprintf(line, sizeof line, "methods %s --to 1k --points 8 --methods none,dynamic", in_folder("wide.json"));
        table t = table_of(line);
        const int pair = column_of(&t, "pair", ""), at = column_of(&t, "distance", "tokens");
        const int angle = column_of(&t, "angle", "rad");
        assert_int_equal(rows_of(&t), 2 * 8 * pairs_shown[i]);
        assert_true(number(&t, 0, pair) == 0);
        assert_true(number(&t, rows_of(&t) - 1, pair) == (double)(dims[i] / 2 - 1));
        for (int64_t r = 8; r < 8 * pairs_shown[i]; r += 8)
            assert_true(number(&t, r, pair) - number(&t, r - 8, pair) >= 1 &&
                        number(&t, r, pair) - number(&t, r - 8, pair) <= ceil((double)dims[i] / 2 / 255));
        for (int64_t r = 0; r < 8 * pairs_shown[i]; r++) {
            const double want = number(&t, r, at) * pow(1e4, -2 * number(&t, r, pair) / (double)dims[i]);
            test_close(cos(number(&t, r, angle)), cos(want), 1e-9, "cos of the angle");
        }
        table_free(&t);
    }
    assert_int_equal(run("plot methods @wide.json --to 1k -o @figure.svg")->exit, 0);
    static const struct {
        const char *line;
        int64_t rows;
    } others[] = {{"wavelengths %s --methods none,yarn", 2 * 256},
                  {"ramp %s --methods none,yarn", 2 * 256},
                  {"helix %s", 255 * 24 + 1},
                  {"decay %s --points 8", 8},
                  {"accuracy %s --points 8 --to 1k", 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char line[256];
        snprintf(line, sizeof line, others[i].line, in_folder("wide.json"));
        table t = table_of(line);
        if (others[i].rows) assert_int_equal(rows_of(&t), others[i].rows);
        assert_non_null(strstr(test_string(t.root, "title"), "256 of 32768 pairs"));
        table_free(&t);
    }
    unlink(in_folder("wide.json"));
}

/* What 256 of 2048 pairs say of a wide head is what all 256 of a narrow one say: the frequencies lie on one curve. */
static void decay_of_a_wide_head(void **state) {
    (void)state;
    table wide = table_of("decay --head-dim 4096 --base 1e4 --points 12 --to 64"), narrow;
    narrow = table_of("decay --head-dim 512 --base 1e4 --points 12 --to 64");
    const int mean = column_of(&wide, "mean", ""), bound = column_of(&wide, "bound", "");
    for (int64_t r = 0; r < rows_of(&wide); r++) {
        test_close(number(&wide, r, mean), number(&narrow, r, mean), 0.02, "mean");
        test_close(number(&wide, r, bound) / 8, number(&narrow, r, bound), 0.03 * number(&narrow, r, bound), "bound");
    }
    table_free(&wide);
    table_free(&narrow);
}

static void wavelengths_and_ramp(void **state) {
    (void)state;
    static const char *const kinds[] = {"wavelengths", "ramp --methods none,linear,ntk,yarn"};
    for (int k = 0; k < 2; k++) {
        char line[256];
        snprintf(line, sizeof line, "%s %s", kinds[k], SMALL_OPTIONS);
        table t = table_of(line);
        const int name = column_of(&t, "method", ""), pair = column_of(&t, "pair", "");
        const int wavelength = column_of(&t, "wavelength", "tokens"), by = column_of(&t, "frequency_divided_by", "");
        const int turns = column_of(&t, "turns_in_trained_length", "turns"), bits = column_of(&t, "bits_for_a_step", "bits");
        assert_int_equal(rows_of(&t), 4 * 8);
        for (int64_t r = 0; r < rows_of(&t); r++) {
            const double rate = frequency(&SMALL, text(&t, r, name), number(&t, r, pair), SMALL.trained * 4);
            test_close(number(&t, r, wavelength), 2 * PI / rate, 1e-7, "wavelength");
            const double unscaled = theta(&SMALL, number(&t, r, pair));
            test_close(number(&t, r, turns), SMALL.trained * unscaled / (2 * PI), 1e-9, "turns");
            test_close(number(&t, r, by), theta(&SMALL, number(&t, r, pair)) / rate, 1e-9, "divisor");
            test_close(exp2(-number(&t, r, bits)), rate, 1e-7 * rate, "bits");
        }
        table_free(&t);
    }
}

/* The paper's ramp is linear in the turns: whole from 1 turn down, nothing from 32 turns up. */
static void ramp_by_turns(void **state) {
    (void)state;
    table t = table_of("ramp --methods by-parts-paper --trained 4096 --to 32768");
    const int by = column_of(&t, "frequency_divided_by", ""), turns = column_of(&t, "turns_in_trained_length", "turns");
    int64_t kept = 0, blended = 0, divided = 0;
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double at = number(&t, r, turns), part = fmin(fmax((32 - at) / 31, 0), 1);
        test_close(number(&t, r, by), 1 / (1 - part + part / 8), 1e-9, "divisor by turns");
        kept += at >= 32;
        divided += at <= 1;
        blended += at > 1 && at < 32;
    }
    assert_true(kept > 0 && blended > 0 && divided > 0);
    table_free(&t);
}

static void clocks(void **state) {
    (void)state;
    char line[256];
    snprintf(line, sizeof line, "clock %s --methods linear,ntk --position 200", SMALL_OPTIONS);
    table t = table_of(line);
    const int name = column_of(&t, "method", ""), pair = column_of(&t, "pair", ""), at = column_of(&t, "distance", "tokens"),
              step = column_of(&t, "step", "rad/token"), turns = column_of(&t, "turns", "turns"),
              reached = column_of(&t, "reached_in_training", "rad");
    assert_int_equal(rows_of(&t), 3 * 6);
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double p = number(&t, r, pair);
        char of[16];
        snprintf(of, sizeof of, "%.*s", (int)strcspn(text(&t, r, name), ","), text(&t, r, name));
        const double rate = r < 6 ? theta(&SMALL, p) : frequency(&SMALL, of, p, 256);
        assert_true(number(&t, r, at) == (r < 6 ? 63 : 200));
        test_close(number(&t, r, step), rate, 1e-12, "step");
        test_close(number(&t, r, turns), number(&t, r, at) * rate / (2 * PI), 1e-9, "turns");
        test_close(number(&t, r, reached), fmin(2 * PI, 64 * theta(&SMALL, p)), 1e-12, "reached");
    }
    table_free(&t);
}

static void helix(void **state) {
    (void)state;
    table t = table_of("helix --bases 100,1e4 --head-dim 8 --position 5");
    const int pair = column_of(&t, "pair", ""), c = column_of(&t, "cos", ""), s = column_of(&t, "sin", "");
    const int whole = column_of(&t, "is_pair", "");
    int64_t pairs = 0;
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const rotation rope = {8, r < rows_of(&t) / 2 ? 100 : 1e4, 0, 1};
        const double angle = 5 * theta(&rope, number(&t, r, pair));
        test_close(number(&t, r, c), cos(angle), 1e-12, "cos");
        test_close(number(&t, r, s), sin(angle), 1e-12, "sin");
        pairs += number(&t, r, whole) != 0;
    }
    assert_int_equal(pairs, 2 * 4);
    table_free(&t);
}

static void decay(void **state) {
    (void)state;
    table t = table_of("decay --bases 50 --head-dim 12 --to 4096");
    const int at = column_of(&t, "distance", "tokens"), mean = column_of(&t, "mean", ""), bound = column_of(&t, "bound", "");
    const int low = column_of(&t, "mean_least", ""), high = column_of(&t, "mean_most", "");
    const rotation rope = {12, 50, 0, 1};
    int64_t exact = 0;
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double s = number(&t, r, at);
        const int64_t from = llround(s / sqrt(2)), to = s < 2 ? 1 : llround(s * sqrt(2));
        double means = 0, bounds = 0;
        assert_true(number(&t, r, low) <= number(&t, r, mean) && number(&t, r, mean) <= number(&t, r, high));
        if (to - from >= 256) continue; /* a sample of the octave */
        for (int64_t d = from; d <= to; d++) {
            double re = 0, im = 0;
            for (int p = 0; p < 6; p++) {
                re += cos((double)d * theta(&rope, p));
                im += sin((double)d * theta(&rope, p));
                bounds += sqrt(re * re + im * im) / 6;
            }
            means += re / 6;
        }
        test_close(number(&t, r, mean), means / (double)(to - from + 1), 1e-9, "mean");
        test_close(number(&t, r, bound), bounds / (double)(to - from + 1), 1e-9, "bound");
        exact++;
    }
    assert_true(exact > 50);
    table_free(&t);
}

static void shift(void **state) {
    (void)state;
    table t = table_of("shift --head-dim 6 --base 100 --position 9");
    const int part = column_of(&t, "part", ""), at = column_of(&t, "position", "tokens"), row = column_of(&t, "row", ""),
              column = column_of(&t, "column", ""), value = column_of(&t, "value", "");
    const rotation pe = {6, 100, 0, 1};
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const int i = (int)number(&t, r, row), j = (int)number(&t, r, column), pair = i / 2;
        const double p = number(&t, r, at), got = number(&t, r, value), k = 9;
        if (strcmp(text(&t, r, part), "M_k") == 0) {
            /* sin((p + k) t) = cos(k t) sin(p t) + sin(k t) cos(p t), and so on. */
            const double angle = k * theta(&pe, pair);
            test_close(got, i == j ? cos(angle) : i / 2 != j / 2 ? 0 : i < j ? sin(angle) : -sin(angle), 1e-12, "M_k");
        } else if (strncmp(text(&t, r, part), "PE", 2) == 0) {
            const double angle = (p + (strcmp(text(&t, r, part), "PE(p)") == 0 ? 0 : k)) * theta(&pe, pair);
            test_close(got, i % 2 ? cos(angle) : sin(angle), 1e-12, "PE");
        } else {
            assert_true(fabs(got) < 1e-13);
        }
    }
    table_free(&t);
}

/* T5's buckets, for causal attention with 32 of them up to distance 128. */
static double t5_bucket(double d) {
    return d < 16 ? d : fmin(31, 16 + floor(log(d / 16) / log(8) * 16));
}

static void biases(void **state) {
    (void)state;
    table t = table_of("bias --tokens 48");
    const int name = column_of(&t, "encoding", ""), head = column_of(&t, "head", ""),
              query = column_of(&t, "query", "tokens"), key = column_of(&t, "key", "tokens"),
              value = column_of(&t, "value", "");
    int64_t checked[3] = {0, 0, 0};
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double d = number(&t, r, query) - number(&t, r, key), h = number(&t, r, head), got = number(&t, r, value);
        if (strcmp(text(&t, r, name), "ALiBi") == 0) {
            test_close(got, -d * pow(2, -(h + 1)), 1e-9, "ALiBi");
            checked[0]++;
        } else if (strcmp(text(&t, r, name), "Sandwich") == 0) {
            double sum = 0; /* 128 channels, and heads 1 .. 8 of 8 divide by 8 h / 8 */
            for (int i = 0; i < 64; i++)
                sum += cos(d * pow(10000, -2.0 * i / 128));
            test_close(got, sum / (h + 1), 1e-6, "Sandwich");
            checked[1]++;
        } else if (strncmp(text(&t, r, name), "T5", 2) == 0) {
            test_close(got, t5_bucket(d), 1e-9, "T5");
            checked[2]++;
        }
    }
    assert_int_equal(checked[0], 48 * 49 / 2 + 2 * 48);
    assert_int_equal(checked[1], 48 * 49 / 2 + 2 * 48);
    assert_int_equal(checked[2], 48 * 49 / 2);
    table_free(&t);
}

/* Numbers of models that learned them, from the tensors of the file: T5 by bucket, and KERPLE's -r1 ln(1 + r2 d). */
static void trained_biases(void **state) {
    (void)state;
    write_model("t5", GYRE_KIND_T5);
    write_model("kerple", GYRE_KIND_KERPLE);
    gyre_model *t5 = NULL, *kerple = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_model_open_to_train(&t5, in_folder("t5"), &err), GYRE_OK);
    assert_int_equal(gyre_model_open_to_train(&kerple, in_folder("kerple"), &err), GYRE_OK);
    const float *rows = gyre_model_get_bias_table(t5, 0).data, *r = gyre_model_get_bias_table(kerple, 0).data;
    char line[400];
    snprintf(line, sizeof line, "bias --compare @t5,%s --tokens 24", in_folder("kerple"));
    table t = table_of(line);
    const int name = column_of(&t, "encoding", ""), head = column_of(&t, "head", ""),
              query = column_of(&t, "query", "tokens"), key = column_of(&t, "key", "tokens"),
              value = column_of(&t, "value", "");
    int64_t checked[2] = {0, 0};
    for (int64_t i = 0; i < rows_of(&t); i++) {
        const double d = number(&t, i, query) - number(&t, i, key);
        const int64_t h = (int64_t)number(&t, i, head);
        const int is_t5 = strstr(text(&t, i, name), "T5, layer 0") != NULL;
        assert_true(is_t5 || strstr(text(&t, i, name), "KERPLE, layer 0"));
        const double want =
            is_t5 ? (double)rows[(int64_t)t5_bucket(d) * 2 + h] : -fabs((double)r[h]) * log1p(fabs((double)r[2 + h]) * d);
        test_close(number(&t, i, value), want, 1e-6, is_t5 ? "T5" : "KERPLE");
        checked[is_t5]++;
    }
    assert_true(checked[0] > 300 && checked[1] > 300);
    table_free(&t);
    gyre_model_free(t5);
    gyre_model_free(kerple);
    assert_fails("plot bias @t5 --layer 9 --csv", CLI_FAILED, "--layer: 9, and the model has 1");
    assert_fails("plot bias @alibi --layer 0 --csv", CLI_FAILED, "--layer: the layers have no trained numbers");
    t = table_of("bias @t5/config.json --tokens 8");
    assert_string_equal(text(&t, 0, column_of(&t, "encoding", "")), "T5, row of the table");
    table_free(&t);
}

/* Two models in one figure of tables, and of attention. */
static void compared(void **state) {
    (void)state;
    char line[400];
    snprintf(line, sizeof line, "table --compare @learned,%s --tokens 8", in_folder("learned"));
    table t = table_of(line);
    assert_int_equal(rows_of(&t), 2 * 8 * 32);
    table_free(&t);
    snprintf(line, sizeof line, "attention --compare @rope,%s --text @text --tokens 12 --head 1", in_folder("alibi"));
    t = table_of(line);
    assert_int_equal(rows_of(&t), 2 * 12 * 13 / 2);
    const int method = column_of(&t, "method", "");
    assert_non_null(strstr(text(&t, 0, method), "rope"));
    assert_non_null(strstr(text(&t, 12 * 13 / 2, method), "alibi"));
    table_free(&t);
}

/* The rows of a model's own table: those that gyre_model_get_input_table gives. */
static void tables(void **state) {
    (void)state;
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_model_open_to_train(&model, in_folder("learned"), &err), GYRE_OK);
    const float *rows = gyre_model_get_input_table(model).data;
    table t = table_of("table @learned --tokens 20");
    const int at = column_of(&t, "position", "tokens"), channel = column_of(&t, "channel", ""),
              value = column_of(&t, "value", "");
    const rotation pe = {32, 10000, 0, 1};
    assert_int_equal(rows_of(&t), 2 * 20 * 32);
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const int64_t p = (int64_t)number(&t, r, at), c = (int64_t)number(&t, r, channel);
        const int64_t pair = c / 2;
        const double angle = (double)p * theta(&pe, (double)pair);
        if (r < 20 * 32)
            test_close(number(&t, r, value), (double)rows[p * 32 + c], 1e-9, "learned");
        else
            test_close(number(&t, r, value), c % 2 ? cos(angle) : sin(angle), 1e-9, "sinusoid");
    }
    table_free(&t);
    gyre_model_free(model);
}

/* Rows of softmax, all heads; test_watch.c has the weights themselves. */
static void attention(void **state) {
    (void)state;
    table t = table_of("attention @rope --text @text --tokens 20 --layer 0");
    const int head = column_of(&t, "head", ""), query = column_of(&t, "query", "tokens"),
              key = column_of(&t, "key", "tokens"), weight = column_of(&t, "weight", "");
    double sum = 0;
    assert_int_equal(rows_of(&t), 2 * 20 * 21 / 2);
    for (int64_t r = 0; r < rows_of(&t); r++) {
        assert_true(number(&t, r, head) == (r < 210 ? 0 : 1) && number(&t, r, key) <= number(&t, r, query));
        sum += number(&t, r, weight);
        if (number(&t, r, key) != number(&t, r, query)) continue;
        test_close(sum, 1, 1e-5, "row");
        sum = 0;
    }
    table_free(&t);
    assert_fails("plot attention @rope --text @text --layer 1 --csv", CLI_FAILED, "--layer: 1, and the model has 1");
    assert_fails("plot attention @rope --text @text --head 2 --csv", CLI_FAILED, "--head: 2, and a layer has 2");
    assert_fails("plot attention @rope", CLI_USAGE, "--text: missing");
}

/* The float operations of each program, and the exact angle. */
static void accuracy(void **state) {
    (void)state;
    table t = table_of("accuracy --head-dim 32 --to 65536 --points 17");
    const int name = column_of(&t, "recipe", ""), at = column_of(&t, "position", "tokens"),
              worst = column_of(&t, "largest_error", "");
    int64_t exact = 0, products = 0;
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double m = number(&t, r, at), got = number(&t, r, worst);
        double want = 0;
        if (strncmp(text(&t, r, name), "exact", 5) == 0) {
            assert_true(got <= 0x1p-25 * 1.001);
            exact++;
            continue;
        }
        if (strncmp(text(&t, r, name), "llama.cpp", 9) != 0) continue;
        for (int64_t p = (int64_t)fmax(1, m - 15); p <= (int64_t)m; p++) {
            const float scale = powf(10000.0f, -2.0f / 32.0f);
            float angle = (float)p;
            for (int i = 0; i < 16; i++) {
                const double true_angle = (double)p * pow(10000, -2.0 * i / 32);
                want = fmax(want, fabs(cos(true_angle) - (double)cosf(angle)));
                want = fmax(want, fabs(sin(true_angle) - (double)sinf(angle)));
                angle *= scale;
            }
        }
        test_close(got, want, 1e-9 + 1e-4L * (long double)want, "running product");
        products++;
    }
    assert_int_equal(exact, 17);
    assert_int_equal(products, 17);
    table_free(&t);
}

/* -- runs -- */
static void runs(void **state) {
    (void)state;
    assert_int_equal(run("eval @rope --text @text --contexts 32,64 --methods none,yarn --windows 4 --passkey 4 --json "
                         "--journal @eval.journal -o @eval.json")
                         ->exit,
                     0);
    json_error_t error;
    json_t *eval = json_load_file(in_folder("eval.json"), 0, &error);
    const json_t *results = json_object_get(eval, "results");
    static const char *const files[] = {"eval.json", "eval.journal"};
    for (int f = 0; f < 2; f++) {
        char line[128];
        snprintf(line, sizeof line, "perplexity @%s", files[f]);
        table t = table_of(line);
        const int context = column_of(&t, "context", "tokens"), value = column_of(&t, "perplexity", ""),
                  low = column_of(&t, "low", ""), method = column_of(&t, "method", "");
        assert_int_equal(rows_of(&t), 4);
        for (int64_t r = 0; r < 4; r++) {
            const json_t *result = json_array_get(results, (size_t)r);
            assert_string_equal(text(&t, r, method), json_string_value(json_object_get(result, "label")));
            assert_true(number(&t, r, context) == test_number(result, "context"));
            test_close(number(&t, r, value), test_number(result, "perplexity"), 1e-9, "perplexity");
            test_close(number(&t, r, low),
                       json_number_value(json_array_get(json_object_get(result, "perplexity_interval"), 0)), 1e-9,
                       "interval");
        }
        table_free(&t);
        snprintf(line, sizeof line, "passkey @%s", files[f]);
        t = table_of(line);
        for (int64_t r = 0; r < 4; r++)
            test_close(number(&t, r, column_of(&t, "right", "%")),
                       100 * test_number(json_array_get(results, (size_t)r), "passkey"), 1e-9, "keys");
        table_free(&t);
    }
    table picked = table_of("perplexity @eval.json --methods yarn");
    assert_int_equal(rows_of(&picked), 2);
    table_free(&picked);
    assert_fails("plot perplexity @eval.json --methods ntk", CLI_FAILED, "--methods: no result of them");
    static const char keys[] =
        "{\"result\": {\"label\": \"yarn\", \"length_policy\": \"causal\", \"length\": 64, \"depth\": 0.5, "
        "\"right\": 0.25}}\n{\"run\": {\"trained_length\": 32}}\n";
    write_file("keys.jsonl", keys, sizeof keys - 1);
    table found = table_of("passkey @keys.jsonl");
    assert_int_equal(rows_of(&found), 1);
    assert_string_equal(text(&found, 0, column_of(&found, "method", "")), "yarn, causal");
    assert_true(number(&found, 0, column_of(&found, "length", "tokens")) == 64);
    assert_true(number(&found, 0, column_of(&found, "right", "%")) == 25);
    assert_true(number(&found, 0, column_of(&found, "depth", "%")) == 50);
    table_free(&found);
    table two = table_of("perplexity @eval.json @eval.journal");
    assert_int_equal(rows_of(&two), 8);
    table_free(&two);
    json_decref(eval);
    assert_fails("plot perplexity", CLI_USAGE, "FILE: missing");
    assert_fails("plot perplexity @words", CLI_FAILED, "words");
    assert_fails("plot passkey @rope/config.json", CLI_FAILED, "results: none of gyre passkey");
}

/* -- where results go -- */
static void check_begins(const char *name, const char *with, const char *ends) {
    static char bytes[1 << 20];
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[size] = 0;
    assert_memory_equal(bytes, with, strlen(with));
    if (ends) assert_true(size > 1000 && strstr(bytes + size - 40, ends));
}

/* Every kind draws. */
static void figures(void **state) {
    (void)state;
    static const char *const lines[] = {"methods",
                                        "wavelengths",
                                        "ramp",
                                        "clock",
                                        "helix",
                                        "helix --axis position",
                                        "hands",
                                        "decay",
                                        "table",
                                        "digits",
                                        "shift",
                                        "bias --tokens 24",
                                        "accuracy --to 512 --points 9",
                                        "table @learned",
                                        "bias @alibi --tokens 16",
                                        "bias --compare @alibi,alibi --tokens 16",
                                        "table --compare @learned,learned",
                                        "attention --compare @rope,alibi --text @text --tokens 12 --head 0",
                                        "attention @rope --text @text --tokens 12",
                                        "methods @rope",
                                        "perplexity @eval.json",
                                        "passkey @eval.json",
                                        "wavelengths --compare @rope,rope",
                                        "decay --compare none,yarn",
                                        "clock --compare linear,yarn:8"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[256];
        snprintf(line, sizeof line, "plot %s -o @figure.svg --force", lines[i]);
        const outcome *o = run(line);
        if (o->exit || o->err[0] || o->out[0]) fail_msg("%s: exit %d: %s%s", lines[i], o->exit, o->err, o->out);
        check_begins("figure.svg", "<svg", "</svg>");
        unlink(in_folder("figure.svg"));
    }
    assert_int_equal(run("plot wavelengths -o @figure.png")->exit, 0);
    check_begins("figure.png", "\x89PNG", NULL);
    assert_int_equal(run("plot wavelengths -o @figure.pdf")->exit, 0);
    check_begins("figure.pdf", "%PDF", NULL);
    assert_memory_equal(run("plot shift")->out, "<svg", 4); /* standard output is no terminal */
}

/* out = the exit status of gyre plot shift in the test's folder, with a terminal as standard output. */
static int plot_on_terminal(void) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    char errors[400];
    snprintf(errors, sizeof errors, "%s", in_folder("terminal.err"));
    const char *where = in_folder("nothing");
    const pid_t child = fork();
    if (child == 0) {
        const int err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (err < 0 || chdir(where) || dup2(terminal, 1) < 0 || dup2(err, 2) < 0) _exit(99);
        execl(GYRE_COMMAND, "gyre", "plot", "shift", (char *)NULL);
        _exit(98);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(terminal);
    close(master);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A figure that nobody named is written once, and never over a file. */
static void on_a_terminal(void **state) {
    (void)state;
    assert_int_equal(plot_on_terminal(), 0);
    check_begins("nothing/shift.svg", "<svg", "</svg>");
    check_begins("terminal.err", "gyre: the figure is in shift.svg", NULL);
    write_file("nothing/shift.svg", "mine", 4);
    assert_int_equal(plot_on_terminal(), CLI_FAILED);
    check_begins("nothing/shift.svg", "mine", NULL);
    check_begins("terminal.err", "gyre: shift.svg: exists; --force replaces it", NULL);
    unlink(in_folder("nothing/shift.svg"));
    unlink(in_folder("terminal.err"));
}

static void assert_one_line(const char *line, int exit, const char *with) {
    assert_fails(line, exit, with);
    const char *err = run(line)->err, *end = strchr(err, '\n');
    if (!end || end[1]) fail_msg("%s: more than one line: %s", line, err);
}

static void numbers_and_refusals(void **state) {
    (void)state;
    const outcome *o = run("plot wavelengths --head-dim 4 --methods none --csv");
    assert_int_equal(o->exit, 0);
    assert_memory_equal(o->out, "method,pair,wavelength (tokens),", 32);
    assert_non_null(strstr(o->out, "\nnone,0,6.2831853071795862,"));
    assert_int_equal(run("plot wavelengths --csv -o @both.svg")->exit, 0);
    check_begins("both.svg", "<svg", "</svg>");
    assert_int_equal(run("plot wavelengths -o @both.csv")->exit, 0);
    check_begins("both.csv", "method,pair", NULL);
    assert_fails("plot", CLI_USAGE, "KIND: missing");
    assert_fails("plot circles", CLI_USAGE, "KIND");
    assert_fails("plot methods -o @figure.gif", CLI_USAGE, ".svg, .png or .pdf");
    assert_fails("plot methods --csv --json", CLI_USAGE, "--csv");
    assert_fails("plot methods --to 9k --factor 2", CLI_USAGE, "--factor");
    assert_fails("plot methods @alibi", CLI_FAILED, "alibi does not rotate");
    assert_one_line("plot methods --head-dim 2 --csv", CLI_FAILED,
                    "methods ntk, dynamic: need 4 channels that rotate, not 2");
    assert_one_line("plot ramp --head-dim 2 --methods ntk:8 --csv", CLI_FAILED, "method ntk:8: needs 4 channels");
    assert_fails("plot methods --head-dim 2 --methods none,linear", CLI_FAILED, "2 make one pair");
    assert_int_equal(run("plot ramp --head-dim 2 --methods none,linear,by-parts,yarn --csv")->exit, 0);
    static const char *const by_position[] = {"methods", "clock", "decay"};
    for (int i = 0; i < 3; i++) {
        char line[96];
        snprintf(line, sizeof line, "plot %s --methods none,rerope --csv", by_position[i]);
        assert_fails(line, CLI_FAILED, "method rerope: changes how far apart distant tokens are");
    }
    assert_fails("plot decay --bases 1e4,10000", CLI_USAGE, "--bases: 10000 is named twice");
    assert_fails("plot clock --compare linear,linear", CLI_FAILED, "methods: linear is named twice");
    assert_fails("plot clock --compare linear,foo", CLI_USAGE, "method \"foo\": not one of");
    assert_fails("plot bias @rope", CLI_FAILED, "rope adds no number to scores");
    assert_fails("plot table @rope", CLI_FAILED, "rope adds none at the input");
    assert_fails("plot methods @rope @rope", CLI_USAGE, "one model");
    assert_fails("plot methods @rope --head-dim 8", CLI_USAGE, "--head-dim");
    assert_fails("plot methods --compare @rope", CLI_USAGE, "--compare");
}

/* An option, a model or a target that a kind would not look at. */
static void not_taken(void **state) {
    (void)state;
    static const char *const lines[][2] = {{"table --compare linear,yarn", "--compare: table compares two models"},
                                           {"bias --compare linear,yarn", "--compare: bias compares two models"},
                                           {"table --compare linear", "--compare: table compares two models"},
                                           {"bias --compare @alibi", "takes two models, A,B"},
                                           {"methods --compare linear,yarn,ntk", "--compare: takes two methods, not 3"},
                                           {"methods --compare linear", "--compare: takes two methods, not 1"},
                                           {"decay --compare linear,yarn --methods ntk", "--methods: --compare names"},
                                           {"helix --compare @rope,@rope", "--compare: helix does not take it"},
                                           {"accuracy --method yarn", "--method: accuracy"},
                                           {"shift --methods yarn", "--methods: shift"},
                                           {"table --points 9", "--points: table"},
                                           {"wavelengths --layer 1", "--layer: wavelengths"},
                                           {"bias @alibi @alibi", "bias takes one model; --compare A,B draws two"},
                                           {"shift @rope", "shift takes no model"},
                                           {"attention @rope --text @text --compare @rope,@alibi", "names both"},
                                           {"methods --to 100", "--to: 100 is within the trained length of 4096"},
                                           {"ramp --factor 1", "--factor: 4096 is within"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[256];
        snprintf(line, sizeof line, "plot %s --csv", lines[i][0]);
        assert_fails(line, CLI_USAGE, lines[i][1]);
    }
    assert_one_line("plot bias @nosuch --csv", CLI_FAILED, "nosuch");
    assert_int_equal(run("plot decay --bases 10000.0000000000000000000000000000000000001 --csv")->exit, 0);
    assert_fails("plot decay --csv --bases 10000.00000000000000000000000000000000000000000000000000000000000000000",
                 CLI_USAGE, "--bases: a number of more than 63 characters");
}

static void without_gnuplot(void **state) {
    (void)state;
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    assert_non_null(path);
    setenv("PATH", in_folder("nothing"), 1);
    assert_fails("plot shift", CLI_FAILED, "gnuplot: not found in PATH");
    assert_int_equal(run("plot shift --csv")->exit, 0); /* numbers need none */
    setenv("PATH", path, 1);
    free(path);
}

static int clean(void **state) {
    static const char *const files[] = {"numbers.json", "keys.jsonl", "eval.json", "eval.journal", "figure.svg",
                                        "figure.png",   "figure.pdf", "both.svg",  "both.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    return remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(methods),
                                       cmocka_unit_test(pairs_of_a_wide_head),
                                       cmocka_unit_test(decay_of_a_wide_head),
                                       cmocka_unit_test(wavelengths_and_ramp),
                                       cmocka_unit_test(ramp_by_turns),
                                       cmocka_unit_test(clocks),
                                       cmocka_unit_test(helix),
                                       cmocka_unit_test(decay),
                                       cmocka_unit_test(shift),
                                       cmocka_unit_test(biases),
                                       cmocka_unit_test(tables),
                                       cmocka_unit_test(trained_biases),
                                       cmocka_unit_test(compared),
                                       cmocka_unit_test(on_a_terminal),
                                       cmocka_unit_test(attention),
                                       cmocka_unit_test(accuracy),
                                       cmocka_unit_test(runs),
                                       cmocka_unit_test(figures),
                                       cmocka_unit_test(numbers_and_refusals),
                                       cmocka_unit_test(not_taken),
                                       cmocka_unit_test(without_gnuplot)};
    return cmocka_run_group_tests(tests, make_folder, clean);
}

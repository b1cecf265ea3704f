/* test_diffusers.c: transformers of diffusers rotate a head as the formulas of their classes do, which are written here with
 * tables of one angle for each channel, as diffusers 0.42 has them. */
#include "check_reading.h"

#include <math.h>

enum { MOST = 256 };
/* PAIRS: angles are repeated for neighbours.  HALVES: those of all axes, twice.  DEALT: as HALVES, but one list of
 * frequencies, of which rows take the pairs 1, 4, 7, ... and columns 2, 5, 8, ... */
typedef enum style { PAIRS, HALVES, DEALT } style;
typedef struct class_case {
    const char *text, *group;
    style style;
    int head, axes, channels[4]; /* DEALT: pairs of rows and columns in 1 and 2 */
    long double base, factor[3]; /* factor: 0 = 1 */
} class_case;

static const int64_t positions_of_axes[4] = {17, 5, 1003, 2};

static long double angle_of(const class_case *c, int axis, int pair, int channels) {
    const long double s = axis < 3 && c->factor[axis] > 0 ? c->factor[axis] : 1;
    const long double base = c->base * powl(s, (long double)channels / (channels - 2));
    return (long double)positions_of_axes[axis] * powl(base, -2.0L * pair / channels);
}

/* out = the channels that rotate. */
static int table_of(const class_case *c, long double angle[MOST]) {
    int count = 0;
    for (int a = 0; a < c->axes && c->style != DEALT; a++)
        for (int i = 0; i < c->channels[a] / 2; i++) {
            angle[count++] = angle_of(c, a, i, c->channels[a]);
            if (c->style == PAIRS) angle[count] = angle[count - 1], count++;
        }
    for (int i = 0; i < c->head / 2 && c->style == DEALT; i++) {
        const int axis = i % 3 && i < 3 * c->channels[i % 3] ? i % 3 : 0;
        angle[count++] = angle_of(c, axis, i, c->head);
    }
    if (c->style == PAIRS) return count;
    for (int i = 0; i < count; i++)
        angle[count + i] = angle[i];
    return 2 * count;
}

/* x cos + r(x) sin, where r turns neighbours, or halves, by a quarter. */
static void rotate(const class_case *c, const double *x, long double *out) {
    long double angle[MOST];
    const int count = table_of(c, angle);
    for (int i = 0; i < c->head; i++) {
        const int half = count / 2, is_first = c->style == PAIRS ? i % 2 == 0 : i < half;
        const int other = c->style == PAIRS ? i ^ 1 : is_first ? i + half : i - half;
        out[i] = i >= count ? x[i] : x[i] * cosl(angle[i]) + (is_first ? -x[other] : x[other]) * sinl(angle[i]);
    }
}

static void check_class(const class_case *c) {
    double x[MOST], y[MOST];
    long double want[MOST];
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    if (gyre_reading_parse(&reading, c->text, strlen(c->text), NULL, &err)) fail_msg("%s: %s", c->text, err.text);
    const gyre_config *config = &group_of(reading, c->group)->config;
    assert_int_equal(config->head_dim, c->head);
    for (int i = 0; i < c->head; i++)
        x[i] = cos(3.0 * i) + 0.1 * i;
    rotate(c, x, want);
    gyre_encoding *encoding = test_encoding(config);
    const gyre_positions at = {.data = positions_of_axes, .dtype = GYRE_DTYPE_I64, .stride_axis = 1};
    assert_ok(
        gyre_rotate(encoding,
                    GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, c->head),
                              .out = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, c->head)),
                    NULL, &err));
    for (int i = 0; i < c->head; i++)
        test_close(y[i], want[i], 1e-9L, c->text);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

#define CLASS(name, more) "{\"_class_name\": \"" name "\", \"num_layers\": 4" more "}"

static void classes_rotate_as_in_diffusers(void **state) {
    (void)state;
    static const class_case cases[] = {
        {CLASS("FluxTransformer2DModel", ""), "all", PAIRS, 128, 3, {16, 56, 56}, 10000, {0}},
        {CLASS("WanTransformer3DModel", ""), "all", PAIRS, 128, 3, {44, 42, 42}, 10000, {0}},
        {CLASS("WanAnimate2Transformer3DModel", ", \"dim\": 3072, \"num_heads\": 24"),
         "all",
         PAIRS,
         128,
         3,
         {44, 42, 42},
         10000,
         {0}},
        {CLASS("ConsisIDTransformer3DModel", ", \"use_rotary_positional_embeddings\": true"),
         "all",
         PAIRS,
         64,
         3,
         {16, 24, 24},
         10000,
         {0}},
        {CLASS("EasyAnimateTransformer3DModel", ""), "all", PAIRS, 64, 3, {16, 24, 24}, 10000, {0}},
        {CLASS("HeliosTransformer3DModel", ""), "all", PAIRS, 128, 3, {44, 42, 42}, 10000, {0}},
        {CLASS("JoyImageEditTransformer3DModel", ", \"hidden_size\": 3072, \"num_attention_heads\": 24, \"theta\": 512"),
         "all",
         PAIRS,
         128,
         3,
         {16, 56, 56},
         512,
         {0}},
        {CLASS("JoyImageEditPlusTransformer3DModel", ""), "all", PAIRS, 128, 3, {16, 56, 56}, 256, {0}},
        {CLASS("PRXTransformer2DModel", ", \"hidden_size\": 1792, \"num_heads\": 28"),
         "all",
         PAIRS,
         64,
         2,
         {32, 32},
         10000,
         {0}},
        {CLASS("Kandinsky5Transformer3DModel", ", \"num_visual_blocks\": 3"),
         "visual",
         PAIRS,
         64,
         3,
         {16, 24, 24},
         10000,
         {0}},
        {CLASS("Kandinsky5Transformer3DModel", ", \"num_text_blocks\": 2, \"axes_dims\": [16, 32, 32]"),
         "text",
         PAIRS,
         80,
         1,
         {80},
         10000,
         {0}},
        {CLASS("CosmosTransformer3DModel", ""), "all", HALVES, 128, 3, {44, 42, 42}, 10000, {2, 1, 1}},
        {CLASS("CosmosTransformer3DModel", ", \"attention_head_dim\": 64, \"rope_scale\": [1.0, 3.0, 2.5]"),
         "all",
         HALVES,
         64,
         3,
         {24, 20, 20},
         10000,
         {1, 3, 2.5L}},
        {CLASS("CogView4Transformer2DModel", ", \"attention_head_dim\": 128"), "all", HALVES, 128, 2, {64, 64}, 10000, {0}},
        {CLASS("GlmImageTransformer2DModel", ", \"attention_head_dim\": 40"), "all", HALVES, 40, 2, {20, 20}, 10000, {0}},
        {CLASS("HunyuanDiT2DModel", ""), "all", PAIRS, 88, 2, {44, 44}, 10000, {0}},
        {CLASS("MiniMaxH3Transformer3DModel", ""), "all", HALVES, 128, 3, {32, 32, 32}, 10000, {0}},
        {CLASS("Ideogram4Transformer2DModel", ""), "all", DEALT, 256, 3, {0, 20, 20}, 5000000, {0}},
        {CLASS("Cosmos3OmniTransformer", ", \"rope_axes_dim\": null, \"rope_scaling\": {\"mrope_section\": [28, 18, 18]}"),
         "all",
         DEALT,
         128,
         3,
         {0, 18, 18},
         5000000,
         {0}},
        {CLASS("AceStepTransformer1DModel", ""), "all", HALVES, 128, 1, {128}, 1000000, {0}},
        {CLASS("StableAudioDiTModel", ""), "all", HALVES, 64, 1, {32}, 10000, {0}},
        {CLASS("StableAudio3DiTModel", ", \"embed_dim\": 1536, \"num_heads\": 12"), "all", HALVES, 128, 1, {64}, 10000, {0}},
        {CLASS("MiniMaxMusic3Transformer1DModel", ", \"rotary_dim\": 16"), "all", HALVES, 64, 1, {16}, 10000, {0}},
        {CLASS("LongCatAudioDiTTransformer", ", \"dit_dim\": 1536, \"dit_heads\": 24"),
         "all",
         HALVES,
         64,
         1,
         {64},
         100000,
         {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_class(&cases[i]);
}

/* OmniGen: the long list past 4096 tokens, and sqrt(1 + ln(131072 / 4096) / ln 4096) at every length. */
static void omnigen_has_the_lists_of_longrope(void **state) {
    (void)state;
    static const char text[] =
        CLASS("OmniGenTransformer2DModel",
              ", \"hidden_size\": 32, \"num_attention_heads\": 4, \"rope_base\": 500, \"rope_scaling\": "
              "{\"short_factor\": [1, 1.5, 2, 3], \"long_factor\": [4, 8, 16, 32]}");
    static const double lists[2][4] = {{1, 1.5, 2, 3}, {4, 8, 16, 32}};
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_parse(&reading, text, sizeof text - 1, NULL, &err));
    const gyre_config *config = &reading->groups[0]->config;
    assert_int_equal(config->rope.layout, GYRE_LAYOUT_HALF);
    gyre_encoding *encoding = test_encoding(config);
    for (int is_long = 0; is_long < 2; is_long++) {
        double got[4], factor = 0;
        assert_ok(gyre_encoding_frequencies(encoding, 4096 + is_long, got, &factor));
        for (int i = 0; i < 4; i++)
            test_close(got[i], 1 / (lists[is_long][i] * powl(500.0L, i / 4.0L)), 1e-15L, "a pair");
        test_close(factor, sqrtl(1 + logl(32) / logl(4096)), 1e-15L, "the attention factor");
    }
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void layers_and_positions(void **state) {
    (void)state;
    static const char kandinsky[] = "{\"_class_name\": \"Kandinsky5Transformer3DModel\", \"num_text_blocks\": 2, "
                                    "\"num_visual_blocks\": 32}",
                      cosmos[] = CLASS("CosmosTransformer3DModel", ", \"extra_pos_embed_type\": \"learnable\"");
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_parse(&reading, kandinsky, sizeof kandinsky - 1, NULL, &err));
    assert_int_equal(group_of(reading, "visual")->layers_count, 32);
    assert_int_equal(group_of(reading, "text")->layers_count, 2);
    assert_non_null(find_warning(reading, "divides rows and columns by 2 or 3.16"));
    gyre_reading_free(reading);
    assert_ok(gyre_reading_parse(&reading, cosmos, sizeof cosmos - 1, NULL, &err));
    assert_int_equal(reading->groups[0]->layers_count, 4);
    assert_non_null(find_warning(reading, "multiplied by 24 and divided by its rate"));
    assert_non_null(find_warning(reading, "a learned table is added"));
    gyre_reading_free(reading);
}

static void refused_in_exact_words(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {CLASS("LTXVideoTransformer3DModel", ""), "each head has its own frequencies"},
        {CLASS("LTX2VideoTransformer3DModel", ""), "rise from pi / 2"},
        {CLASS("MochiTransformer3DModel", ""), "learned, for each head and axis"},
        {CLASS("AllegroTransformer3DModel", ""), "(i, i + part / 2)"},
        {CLASS("ErnieImageTransformer2DModel", ""), "different angles, so it is not a rotation"},
        {CLASS("LuminaNextDiT2DModel", ""), "alternate between rows and columns"},
        {CLASS("AnyFlowFARTransformer3DModel", ""), "averages of the angles"},
        {CLASS("OmniGenTransformer2DModel", ""), "short_factor and long_factor"},
        {CLASS("OmniGenTransformer2DModel", ", \"rope_scaling\": {\"short_factor\": [1, 2]}"), "not a list of 48 divisors"},
        {CLASS("CogView3PlusTransformer2DModel", ""), "table of sinusoids"},
        {CLASS("AuraFlowTransformer2DModel", ""), "learned table"},
        {CLASS("LatteTransformer3DModel", ""), "and over time"},
        {CLASS("SanaTransformer2DModel", ""), "its convolutions see"},
        {CLASS("CosmosTransformer3DModel", ", \"rope_scale\": [2.0, 1.0]"), "not a list of three numbers"},
        {CLASS("CosmosTransformer3DModel", ", \"rope_scale\": [2.0, 0.5, 1.0]"), "entry 1 is not a number from 1 on"},
        {CLASS("CogView4Transformer2DModel", ", \"attention_head_dim\": 42"), "do not divide into pairs of two axes"},
        {CLASS("Ideogram4Transformer2DModel", ", \"mrope_section\": [2, 100, 20]"), "among every third of 128"},
        {CLASS("Ideogram4Transformer2DModel", ", \"mrope_section\": [2, 3]"), "not three axes"},
        {CLASS("Ideogram4Transformer2DModel", ", \"attention_head_dim\": 1000000"), "the most is 65536"},
        {CLASS("FluxTransformer2DModel", ", \"attention_head_dim\": 1000000"), "the most is 65536"},
        {CLASS("StableAudio3DiTModel", ", \"embed_dim\": 3, \"num_heads\": 12"), "0 channels are not pairs"},
        {CLASS("MiniMaxH3Transformer3DModel", ", \"rope_freq_dim\": 24"), "144 channels rotate of a head of 128"},
        {CLASS("MiniMaxMusic3Transformer1DModel", ", \"rotary_dim\": 15"), "15 channels are not pairs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_error err = {0, ""};
        gyre_reading *reading = NULL;
        if (!gyre_reading_parse(&reading, rows[i][0], strlen(rows[i][0]), NULL, &err)) fail_msg("%s is read", rows[i][0]);
        if (!strstr(err.text, rows[i][1])) fail_msg("%s: %s", rows[i][0], err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes_rotate_as_in_diffusers),
                                       cmocka_unit_test(omnigen_has_the_lists_of_longrope),
                                       cmocka_unit_test(layers_and_positions), cmocka_unit_test(refused_in_exact_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_model_configs.c: the positions of real models. Every file of tests/configs has its expected reading here; configs.md
 * there names the sources. */
#include "gyre/gyre_model.h"
#include "naive_model_rotations.h"
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- everything else -- */
typedef struct place {
    const char *file, *group; /* NULL = the first */
} place;
typedef struct other {
    place at;
    gyre_kind kind;
    int64_t heads, positions, offset; /* of the input table; 0 = any */
    int64_t distance, buckets;        /* of the score */
    int bidirectional;
    unsigned terms;
} other;
enum { BOTH = GYRE_TERM_QUERY | GYRE_TERM_KEY };
static const other others[] = {
    {{"gpt2", NULL}, GYRE_KIND_LEARNED, 0, 1024, 0, 0, 0, 0, 0},
    {{"opt-1.3b", NULL}, GYRE_KIND_LEARNED, 0, 2050, 2, 0, 0, 0, 0},
    {{"roberta-base", NULL}, GYRE_KIND_LEARNED, 0, 514, 2, 0, 0, 0, 0},
    {{"bart-large", NULL}, GYRE_KIND_LEARNED, 0, 1026, 2, 0, 0, 0, 0},
    {{"whisper-tiny", "decoder"}, GYRE_KIND_LEARNED, 0, 448, 0, 0, 0, 0, 0},
    {{"whisper-tiny", "encoder"}, GYRE_KIND_SINUSOIDAL, 0, 0, 0, 0, 0, 0, 0},
    {{"opus-mt-en-de", NULL}, GYRE_KIND_SINUSOIDAL, 0, 0, 0, 0, 0, 0, 0},
    {{"m2m100-418m", NULL}, GYRE_KIND_SINUSOIDAL, 0, 0, 2, 0, 0, 0, 0},
    {{"bert-base", NULL}, GYRE_KIND_LEARNED, 0, 512, 0, 0, 0, 0, 0},
    {{"bert-relative-key", NULL}, GYRE_KIND_BERT, 0, 0, 0, 512, 0, 0, GYRE_TERM_QUERY},
    {{"bert-relative-key-query", NULL}, GYRE_KIND_BERT, 0, 0, 0, 512, 0, 0, BOTH},
    {{"nezha-base", NULL}, GYRE_KIND_NEZHA, 0, 0, 0, 64, 0, 0, 0},
    {{"deberta-base", NULL}, GYRE_KIND_DEBERTA, 0, 0, 0, 512, 0, 0, BOTH},
    {{"deberta-v3-base", NULL}, GYRE_KIND_DEBERTA, 0, 0, 0, 512, 256, 0, BOTH},
    {{"t5-base", "decoder"}, GYRE_KIND_T5, 12, 0, 0, 128, 32, 0, 0},
    {{"t5-base", "encoder"}, GYRE_KIND_T5, 12, 0, 0, 128, 32, 1, 0},
    {{"xlnet-base", NULL}, GYRE_KIND_TRANSFORMER_XL, 12, 0, 0, 0, 0, 1, 0},
    {{"transfo-xl-wt103", NULL}, GYRE_KIND_TRANSFORMER_XL, 16, 0, 0, 1000, 0, 0, 0},
    {{"falcon-rw-1b", NULL}, GYRE_KIND_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {{"bloom-176b", NULL}, GYRE_KIND_ALIBI, 112, 0, 0, 0, 0, 0, 0},
    {{"bloom-7b1", NULL}, GYRE_KIND_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {{"mpt-7b", NULL}, GYRE_KIND_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {{"mpt-30b", NULL}, GYRE_KIND_ALIBI, 64, 0, 0, 0, 0, 0, 0},
};
enum { OTHERS = sizeof others / sizeof *others };

/* -- reading a file -- */
/* A test reports every error of every file, not only the first. */
static int faults;
static void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fault(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    faults++;
}
static int begin(void **state) {
    (void)state;
    faults = 0;
    return 0;
}
static void assert_no_faults(void) {
    assert_int_equal(faults, 0);
}

/* Not every model can be read with the default profile: transformers 5 no longer has BERT's distances. */
static gyre_profile profile_of(const char *file) {
    return strncmp(file, "bert-relative", 13) == 0 ? GYRE_PROFILE_HF_4_56 : GYRE_PROFILE_DEFAULT;
}

static gyre_status open_as(gyre_reading **out, const char *file, gyre_profile profile, int64_t length, gyre_error *err) {
    char path[1024];
    assert_true((size_t)snprintf(path, sizeof path, "%s/configs/%s.json", GYRE_TEST_DATA, file) < sizeof path);
    return gyre_reading_open(out, path, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), err);
}
/* out = NULL, with an error, if the file cannot be read. */
static gyre_reading *open_config(const char *file) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (open_as(&reading, file, profile_of(file), 0, &err) != GYRE_OK) fault("%s: %s", file, err.text);
    return reading;
}

/* The group of that name, or the first if name is NULL. NULL if there is none or the reading is NULL. */
static const gyre_layer_reading *find_group(const gyre_reading *reading, const char *file, const char *name) {
    if (!reading) return NULL;
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (!name || strcmp(reading->groups[i]->name, name) == 0) return reading->groups[i];
    fault("%s: no layers \"%s\", the first are \"%s\"", file, name, reading->groups[0]->name);
    return NULL;
}

static gyre_encoding *encoding_of(const gyre_layer_reading *group, const char *file) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    if (gyre_encoding_create(&encoding, &group->config, NULL, &err) != GYRE_OK)
        fault("%s, %s: %s", file, group->name, err.text);
    return encoding;
}

static const char *or_all(const char *group) {
    return group ? group : "all layers";
}
static void same_number(const char *file, const char *group, const char *what, double got, double want, double bound) {
    if (!(fabs(got - want) <= bound * fabs(want)))
        fault("%s, %s: %s is %.12g, not %.12g", file, or_all(group), what, got, want);
}
static void same_whole(const char *file, const char *group, const char *what, int64_t got, int64_t want) {
    if (got != want) fault("%s, %s: %s is %lld, not %lld", file, or_all(group), what, (long long)got, (long long)want);
}

/* -- rotations -- */
/* Frequencies that follow from the row directly: theta_i = base^(-2 i / dim), divided by a linear factor, or with an
 * NTK-aware base. */
static void check_frequencies(const rotation *row, const gyre_encoding *encoding) {
    double inv_freq[512], attention;
    assert_true(gyre_encoding_get_config(encoding)->rope.dim / 2 <= 512);
    assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, &attention));
    same_number(row->file, row->group, "attention factor", attention, row->attention, 1e-9); /* known to ten digits */
    /* Dynamic NTK changes nothing at the trained length. */
    const int plain = row->scaling == GYRE_SCALING_NONE || row->scaling == GYRE_SCALING_DYNAMIC_NTK;
    if (!plain && row->scaling != GYRE_SCALING_LINEAR && row->scaling != GYRE_SCALING_NTK) return;
    if (gyre_encoding_get_config(encoding)->rope.dim != row->dim) return;
    const long double dim = (long double)row->dim, factor = (long double)row->factor;
    const long double divisor = row->scaling == GYRE_SCALING_LINEAR ? factor : 1.0L;
    const long double stretch = row->scaling == GYRE_SCALING_NTK ? powl(factor, dim / (dim - 2.0L)) : 1.0L;
    const int before = faults;
    for (int64_t i = 0; i < row->dim / 2 && faults == before; i++) {
        const long double theta = powl((long double)row->base * stretch, -2.0L * (long double)i / dim) / divisor;
        same_number(row->file, row->group, "a frequency", inv_freq[i], (double)theta, 1e-12);
    }
}

static void check_rotation(const rotation *row, const gyre_layer_reading *group) {
    if (!group) return;
    const gyre_config *given = &group->config;
    same_whole(row->file, row->group, "kind", given->kind, row->kind);
    if (row->window >= 0) same_whole(row->file, row->group, "window", group->window, row->window);
    if (row->kind != GYRE_KIND_ROPE || given->kind != GYRE_KIND_ROPE) return;
    gyre_encoding *encoding = encoding_of(group, row->file);
    if (!encoding) return;
    const gyre_config *config = gyre_encoding_get_config(encoding);
    same_whole(row->file, row->group, "layout", config->rope.layout, row->layout);
    same_whole(row->file, row->group, "head_dim", config->head_dim, row->head_dim);
    same_whole(row->file, row->group, "rotated channels", config->rope.dim, row->dim);
    same_whole(row->file, row->group, "scaling", config->rope.scaling, row->scaling);
    same_whole(row->file, row->group, "trained length", config->trained_length, row->length);
    same_number(row->file, row->group, "base", config->rope.base, row->base, 1e-15);
    same_number(row->file, row->group, "factor", config->rope.factor, row->factor, 1e-15);
    check_frequencies(row, encoding);
    gyre_encoding_free(encoding);
}

/* Towers and layers without attention do not belong to the decoder. */
static int is_beside(const char *name) {
    return strcmp(name, "vision") == 0 || strcmp(name, "audio") == 0 || strcmp(name, "linear_attention") == 0;
}

static void check_file(const rotation *rows, size_t count) {
    gyre_reading *reading = open_config(rows[0].file);
    if (!reading) return;
    int64_t groups = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        groups += !is_beside(reading->groups[i]->name);
    same_whole(rows[0].file, NULL, "number of groups", groups, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        check_rotation(&rows[i], find_group(reading, rows[i].file, rows[i].group));
    gyre_reading_free(reading);
}

static void test_rotations(void **state) {
    (void)state;
    for (size_t first = 0, next; first < ROTATIONS; first = next) {
        for (next = first + 1; next < ROTATIONS && strcmp(rotations[next].file, rotations[first].file) == 0;)
            next++;
        check_file(&rotations[first], next - first);
    }
    assert_no_faults();
}

/* -- what only some have -- */
/* Calls check(group, row) for each row of a table. A row begins with the name of the file and of the group. */
typedef void check_row(const gyre_layer_reading *group, const void *row);
static void for_rows(const void *rows, size_t count, size_t size, check_row *check) {
    for (size_t i = 0; i < count; i++) {
        const void *row = (const char *)rows + i * size;
        const place *where = row;
        gyre_reading *reading = open_config(where->file);
        const gyre_layer_reading *group = find_group(reading, where->file, where->group);
        if (group) check(group, row);
        gyre_reading_free(reading);
    }
    assert_no_faults();
}
#define FOR_ROWS(rows, check) for_rows((rows), sizeof(rows) / sizeof *(rows), sizeof *(rows), (check))

/* The total factor of scores: a size from the file, or 1 / sqrt(head_dim) times YaRN's factor under latent attention. */
typedef struct scale_row {
    place at;
    double scale, softmax;
} scale_row;
static void check_scale(const gyre_layer_reading *group, const void *row) {
    const scale_row *want = row;
    const double scale = group->scale != 0.0 ? group->scale : 1.0 / sqrt((double)group->config.head_dim);
    same_number(want->at.file, want->at.group, "scale", scale, want->scale, 1e-9);
    same_number(want->at.file, want->at.group, "softmax multiplier", group->softmax_multiplier, want->softmax, 1e-9);
}
static void test_scales(void **state) {
    (void)state;
    static const scale_row rows[] = {
        {{"llama-2-7b", NULL}, 0.08838834764831845, 1},
        {{"gemma-2-27b", "full_attention"}, 1.0 / 12.0, 1}, /* 144, not the 128 of its heads */
        {{"gemma-2-27b", "sliding_attention"}, 1.0 / 12.0, 1},
        {{"gemma-3-27b", "full_attention"}, 0.07715167498104596, 1}, /* 168 */
        {{"gemma-3-4b", "sliding_attention"}, 0.0625, 1},
        {{"gemma-3n-e4b", "full_attention"}, 1, 1},
        {{"gemma-4", "full_attention"}, 1, 1},
        {{"deepseek-v2-lite", NULL}, 0.1147213868, 1.5896261651}, /* 192 */
        {{"deepseek-v2", NULL}, 0.1352337789, 1.8738542071},
        {{"deepseek-v3", NULL}, 0.1352337789, 1.8738542071},
        {{"kimi-k2", NULL}, 0.1308608000, 1.8132604340},
        {{"mistral-small-4", NULL}, 0.1949694947, 2.2058280296},
        {{"minicpm3-4b", NULL}, 0.1020620726, 1}, /* 96 */
        {{"t5-base", "encoder"}, 1, 1},
        {{"deberta-base", NULL}, 0.07216878365, 1}, /* 64 x 3 */
    };
    FOR_ROWS(rows, check_scale);
}

typedef struct temperature_row {
    place at;
    gyre_temperature temperature;
    int64_t length;
} temperature_row;
static void check_temperature(const gyre_layer_reading *group, const void *row) {
    const temperature_row *want = row;
    same_whole(want->at.file, want->at.group, "temperature", group->config.query.temperature, want->temperature);
    gyre_encoding *encoding = encoding_of(group, want->at.file);
    if (encoding && want->length > 0) {
        const struct gyre_query_config *query = &gyre_encoding_get_config(encoding)->query;
        same_whole(want->at.file, want->at.group, "temperature's length", query->reference_length, want->length);
        same_number(want->at.file, want->at.group, "temperature's slope", query->slope, 0.1, 1e-15);
    }
    gyre_encoding_free(encoding);
}
static void test_temperatures(void **state) {
    (void)state;
    static const temperature_row rows[] = {
        {{"llama-4-scout", "nope"}, GYRE_TEMPERATURE_LLAMA4, 8192},
        {{"llama-4-scout", "chunked_attention"}, GYRE_TEMPERATURE_NONE, 0},
        {{"llama-4-maverick", "nope"}, GYRE_TEMPERATURE_NONE, 0},
        {{"ministral-3-3b", NULL}, GYRE_TEMPERATURE_MINISTRAL, 16384},
        {{"mistral-small-4", NULL}, GYRE_TEMPERATURE_MINISTRAL, 8192},
        {{"llama-3.1-8b", NULL}, GYRE_TEMPERATURE_NONE, 0},
    };
    FOR_ROWS(rows, check_temperature);
}

typedef struct axes_row {
    place at;
    gyre_axes layout;
    int64_t axes, section[4];
} axes_row;
static void check_axes(const gyre_layer_reading *group, const void *row) {
    const axes_row *want = row;
    const struct gyre_rope_config *rope = &group->config.rope;
    same_whole(want->at.file, want->at.group, "axes", rope->axes, want->axes);
    same_whole(want->at.file, want->at.group, "layout of axes", rope->axes_layout, want->layout);
    for (int a = 0; a < 4; a++)
        same_whole(want->at.file, want->at.group, "pairs of an axis", rope->axis_pairs[a], want->section[a]);
}
static void test_axes(void **state) {
    (void)state;
    static const axes_row rows[] = {
        {{"qwen2-vl-7b", NULL}, GYRE_AXES_CHUNKED, 3, {16, 24, 24, 0}},
        {{"qwen2.5-vl-7b", NULL}, GYRE_AXES_CHUNKED, 3, {16, 24, 24, 0}},
        {{"qwen3-vl-30b-a3b", NULL}, GYRE_AXES_INTERLEAVED, 3, {24, 20, 20, 0}},
        {{"qwen3-vl-30b-a3b-yarn", NULL}, GYRE_AXES_INTERLEAVED, 3, {24, 20, 20, 0}},
        {{"qwen3.5-9b", "full_attention"}, GYRE_AXES_INTERLEAVED, 3, {11, 11, 10, 0}},
        {{"qwen3.5-9b-yarn", "full_attention"}, GYRE_AXES_INTERLEAVED, 3, {11, 11, 10, 0}},
        {{"qwen2-vl-7b", "vision"}, GYRE_AXES_AXIAL, 2, {20, 20, 0, 0}}, /* heads of 80 channels */
        {{"qwen2.5-vl-7b", "vision"}, GYRE_AXES_AXIAL, 2, {20, 20, 0, 0}},
        {{"qwen3-vl-30b-a3b", "vision"}, GYRE_AXES_AXIAL, 2, {18, 18, 0, 0}},
    };
    FOR_ROWS(rows, check_axes);
}

/* Heads whose rotated channels are not the first ones: in latent attention they follow the unrotated ones. */
typedef struct first_row {
    place at;
    int64_t first;
} first_row;
static void check_first(const gyre_layer_reading *group, const void *row) {
    const first_row *want = row;
    same_whole(want->at.file, want->at.group, "first channel", group->config.rope.first_channel, want->first);
}
static void test_first_channels(void **state) {
    (void)state;
    static const first_row rows[] = {
        {{"deepseek-v2-lite", NULL}, 128},
        {{"deepseek-v3", NULL}, 128},
        {{"minicpm3-4b", NULL}, 64},
        {{"mistral-small-4", NULL}, 64},
        {{"deepseek-v4-flash", "sliding_attention"}, 448},
        {{"gpt-neox-20b", NULL}, 0},
        {{"gpt-j-6b", NULL}, 0},
        {{"phi-4-mini", NULL}, 0},
    };
    FOR_ROWS(rows, check_first);
}

/* Kinds of layers: every fourth layer of Llama 4 and SmolLM3 has no positions, every sixth of Gemma 3 has no window. */
typedef struct layers_row {
    place at;
    int64_t count, first, step;
} layers_row;
static void check_layers(const gyre_layer_reading *group, const void *row) {
    const layers_row *want = row;
    same_whole(want->at.file, want->at.group, "number of layers", group->layers_count, want->count);
    for (int64_t i = 0; i < want->count && i < group->layers_count; i++)
        same_whole(want->at.file, want->at.group, "a layer", group->layers[i], want->first + i * want->step);
}
static void test_layers(void **state) {
    (void)state;
    static const layers_row rows[] = {
        {{"llama-4-scout", "nope"}, 12, 3, 4},
        {{"smollm3-3b", "nope"}, 9, 3, 4},
        {{"gemma-3-1b", "full_attention"}, 4, 5, 6},
        {{"gemma-3-4b", "full_attention"}, 5, 5, 6},
        {{"gemma-3-12b", "full_attention"}, 8, 5, 6},
        {{"gemma-2-9b", "full_attention"}, 21, 1, 2},
        {{"gpt-oss-20b", "full_attention"}, 12, 1, 2},
        {{"command-r7b", "nope"}, 8, 3, 4},
        {{"modernbert-base", "full_attention"}, 8, 0, 3},
        {{"laguna-xs.2", "full_attention"}, 10, 0, 4},
        {{"cwm", "full_attention"}, 16, 0, 4},
        {{"qwen3-next-80b", "full_attention"}, 12, 3, 4},
    };
    FOR_ROWS(rows, check_layers);
}

/* gpt-oss, and no other model, has "truncate": false. */
typedef struct bounds_row {
    place at;
    int fractional;
} bounds_row;
static void check_bounds(const gyre_layer_reading *group, const void *row) {
    const bounds_row *want = row;
    same_whole(want->at.file, want->at.group, "fractional bounds", group->config.rope.fractional_bounds, want->fractional);
}
static void test_fractional_bounds(void **state) {
    (void)state;
    static const bounds_row rows[] = {
        {{"gpt-oss-20b", "full_attention"}, 1}, {{"gpt-oss-20b", "sliding_attention"}, 1}, {{"qwen2.5-7b-yarn", NULL}, 0}};
    FOR_ROWS(rows, check_bounds);
}

/* -- everything else -- */
static void check_other(const gyre_layer_reading *group, const void *row) {
    const other *want = row;
    const char *file = want->at.file, *name = want->at.group;
    same_whole(file, name, "kind", group->config.kind, want->kind);
    gyre_encoding *encoding = encoding_of(group, file);
    if (!encoding) return;
    const gyre_config *config = gyre_encoding_get_config(encoding);
    if (want->heads) same_whole(file, name, "heads", config->heads, want->heads);
    if (want->positions) same_whole(file, name, "rows of the table", config->input.positions, want->positions);
    if (want->kind == GYRE_KIND_LEARNED || want->kind == GYRE_KIND_SINUSOIDAL)
        same_whole(file, name, "offset", config->input.offset, want->offset);
    if (want->distance)
        same_whole(file, name, "distance",
                   want->kind == GYRE_KIND_BERT ? config->score.max_positions : config->score.max_distance, want->distance);
    if (want->kind == GYRE_KIND_T5 || want->kind == GYRE_KIND_DEBERTA)
        same_whole(file, name, "buckets",
                   want->kind == GYRE_KIND_T5 ? config->score.buckets : config->score.position_buckets, want->buckets);
    if (want->kind == GYRE_KIND_T5 || want->kind == GYRE_KIND_TRANSFORMER_XL)
        same_whole(file, name, "both directions", config->score.bidirectional, want->bidirectional);
    if (want->terms) same_whole(file, name, "terms", config->score.terms, want->terms);
    gyre_encoding_free(encoding);
}
static void test_others(void **state) {
    (void)state;
    FOR_ROWS(others, check_other);
}

typedef struct sinusoid_row {
    place at;
    gyre_sinusoid layout;
    int64_t dim;
} sinusoid_row;
static void check_sinusoid(const gyre_layer_reading *group, const void *row) {
    const sinusoid_row *want = row;
    same_whole(want->at.file, want->at.group, "layout", group->config.input.layout, want->layout);
    same_whole(want->at.file, want->at.group, "width", group->config.input.dim, want->dim);
}
static void test_sinusoids(void **state) {
    (void)state;
    static const sinusoid_row rows[] = {
        {{"whisper-tiny", "encoder"}, GYRE_SINUSOID_SIN_COS_T2T, 384},
        {{"opus-mt-en-de", NULL}, GYRE_SINUSOID_SIN_COS, 512},
        {{"m2m100-418m", NULL}, GYRE_SINUSOID_SIN_COS_T2T, 1024},
    };
    FOR_ROWS(rows, check_sinusoid);
}

/* BLOOM's slopes for 112 heads begin at 2^(-1/8) and end among the odd powers of 2^(-1/16). Falcon's are divided by the
 * square root of its head size. */
typedef struct slopes_row {
    place at;
    int64_t heads;
    double first, last;
} slopes_row;
static void check_slopes(const gyre_layer_reading *group, const void *row) {
    const slopes_row *want = row;
    double slopes[112];
    gyre_encoding *encoding = encoding_of(group, want->at.file);
    if (!encoding) return;
    const int64_t heads = gyre_encoding_get_config(encoding)->heads;
    same_whole(want->at.file, want->at.group, "heads", heads, want->heads);
    if (heads == want->heads) {
        assert_ok(gyre_encoding_slopes(encoding, 0, slopes));
        same_number(want->at.file, want->at.group, "first slope", slopes[0], want->first, 1e-14);
        same_number(want->at.file, want->at.group, "last slope", slopes[heads - 1], want->last, 1e-14);
    }
    gyre_encoding_free(encoding);
}
static void test_slopes(void **state) {
    (void)state;
    static const slopes_row rows[] = {
        {{"bloom-7b1", NULL}, 32, 0.8408964152537145, 0.00390625},             /* 2^-0.25 .. 2^-8 */
        {{"bloom-176b", NULL}, 112, 0.9170040432046712, 0.016316777850428427}, /* 2^-0.125 .. 2^-5.9375 */
        {{"mpt-7b", NULL}, 32, 0.8408964152537145, 0.00390625},
        {{"falcon-rw-1b", NULL}, 32, 0.10511205190671431, 0.00048828125}, /* the same / 8 */
    };
    FOR_ROWS(rows, check_slopes);
}

/* -- all of them -- */
/* test_reports.c has what is expected of these. */
static const char *const of_reports[] = {
    "kimi-k3-dspark-yarn", "nomic-embed-v1.5-original-keys", "protein-llama-v5-only", "qwen3-8b",
    "qwen3.8-flash-next",  "qwen3.8-flash-next-yarn",        "wan2.1-transformer",    "longlora-32k-missing-scaling"};

static int is_expected(const char *file, size_t length) {
    for (size_t i = 0; i < ROTATIONS; i++)
        if (strlen(rotations[i].file) == length && strncmp(rotations[i].file, file, length) == 0) return 1;
    for (size_t i = 0; i < OTHERS; i++)
        if (strlen(others[i].at.file) == length && strncmp(others[i].at.file, file, length) == 0) return 1;
    for (size_t i = 0; i < sizeof of_reports / sizeof *of_reports; i++)
        if (strlen(of_reports[i]) == length && strncmp(of_reports[i], file, length) == 0) return 1;
    return 0;
}

/* A row without its file fails when the file is opened. */
static void test_every_file_is_expected(void **state) {
    (void)state;
    int files = 0;
    DIR *folder = opendir(GYRE_TEST_DATA "/configs");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        if (!is_expected(entry->d_name, (size_t)(dot - entry->d_name))) fault("nothing expected of %s", entry->d_name);
        files++;
    }
    closedir(folder);
    assert_int_equal(files, 157);
    assert_no_faults();
}

/* Every field and warning of every file can be shown, and has the location that it states. */
static void check_fields(const gyre_layer_reading *group, const char *file) {
    if (group->fields_count == 0) fault("%s, %s: nothing to show", file, group->name);
    for (int64_t i = 0; i < group->fields_count; i++) {
        const gyre_reading_field *field = &group->fields[i];
        assert_non_null(field->name);
        if (!field->value || !*field->value) fault("%s, %s: %s without a value", file, group->name, field->name);
        if (field->origin == GYRE_ORIGIN_FILE && (!field->key || field->line < 1))
            fault("%s, %s: %s is from the file, from nowhere in it", file, group->name, field->name);
    }
}

static void test_fields(void **state) {
    (void)state;
    const char *last = "";
    for (size_t i = 0; i < ROTATIONS + OTHERS; i++) {
        const char *file = i < ROTATIONS ? rotations[i].file : others[i - ROTATIONS].at.file;
        if (strcmp(file, last) == 0) continue;
        last = file;
        gyre_reading *reading = open_config(file);
        if (!reading) continue;
        for (int64_t g = 0; g < reading->groups_count; g++)
            check_fields(reading->groups[g], file);
        for (int64_t w = 0; w < reading->warnings_count; w++)
            assert_true(reading->warnings[w].text && *reading->warnings[w].text);
        gyre_reading_free(reading);
    }
    assert_no_faults();
}

/* Why a program does not run a model with RoPE: for MiniCPM, llama.cpp's converter supports only lists. */
static int is_refused(const char *file, gyre_profile profile) {
    return strcmp(file, "minicpm-2b-128k") == 0 && profile == GYRE_PROFILE_LLAMA_CPP;
}

static void check_profile(const char *file, gyre_profile profile, int64_t length, int refused) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const char *name = gyre_profile_name(profile);
    const gyre_status status = open_as(&reading, file, profile, length, &err);
    if ((status != GYRE_OK) != refused) fault("%s as %s: %s", file, name, refused ? "read" : err.text);
    if (status == GYRE_OK && reading->profile != profile) fault("%s as %s: by another", file, name);
    if (status == GYRE_OK && reading->context_length != length) fault("%s as %s: at another length", file, name);
    gyre_reading_free(reading);
}

static void test_every_profile(void **state) {
    (void)state;
    for (size_t i = 0; i < ROTATIONS; i++)
        for (int profile = GYRE_PROFILE_HF_5; profile <= GYRE_PROFILE_REFERENCE; profile++) {
            const int refused = is_refused(rotations[i].file, (gyre_profile)profile);
            check_profile(rotations[i].file, (gyre_profile)profile, 0, refused);
            check_profile(rotations[i].file, (gyre_profile)profile, 131072, refused);
        }
    assert_no_faults();
}

#define TEST(test) cmocka_unit_test_setup(test, begin)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_every_file_is_expected),
        TEST(test_rotations),
        TEST(test_scales),
        TEST(test_temperatures),
        TEST(test_axes),
        TEST(test_first_channels),
        TEST(test_layers),
        TEST(test_fractional_bounds),
        TEST(test_others),
        TEST(test_sinusoids),
        TEST(test_slopes),
        TEST(test_fields),
        TEST(test_every_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* explorer_numbers.c: one rotation as numbers: frequencies, angles, decay, ramp. */
#include "explorer/wasm/explorer_numbers.h"
#include "tools/common/method_map.h"
#include "tools/common/methods.h"
#include "tools/common/variants.h"
#include "util/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double two_pi = 6.28318530717958647692;
enum { MAX_HEAD_DIM = 4096 };

gyre_error explorer_failure;

typedef struct rotation {
    gyre_encoding *encoding;
    const gyre_config *config;
    double *inv_freq; /* [pairs] */
    double attention_factor;
} rotation;

static rotation used, plain; /* under the method; under "none" */
static method chosen;
static int64_t pairs, trained_length;
static double factor_used;
static double *unseen, *kept, *resultants; /* [pairs] */
static float *angles, *excesses;           /* grown as needed */
static size_t angles_bytes, excesses_bytes;

const char *explorer_error(void) {
    return explorer_failure.text;
}

const char *explorer_version(void) {
    return gyre_version();
}

void *explorer_alloc(size_t bytes) {
    return malloc(bytes);
}

void explorer_free(void *memory) {
    free(memory);
}

void *explorer_grow(void **memory, size_t *size, size_t bytes) {
    if (bytes <= *size) return *memory;
    free(*memory);
    *memory = malloc(bytes);
    *size = *memory ? bytes : 0;
    if (!*memory) (void)gyre_fail(&explorer_failure, GYRE_ENOMEM, "memory: none for %zu bytes (explorer)", bytes);
    return *memory;
}

/* -- setup -- */
static void rotation_free(rotation *r) {
    gyre_encoding_free(r->encoding);
    free(r->inv_freq);
    *r = (rotation){.encoding = NULL};
}

/* *out = the rotation of a config at the length in use. */
static gyre_status rotation_make(const gyre_config *config, int64_t length, rotation *out, gyre_error *err) {
    *out = (rotation){.encoding = NULL};
    gyre_status status = gyre_encoding_create(&out->encoding, config, NULL, err);
    if (status) return status;
    out->config = gyre_encoding_get_config(out->encoding);
    out->inv_freq = calloc((size_t)out->config->rope.dim / 2, sizeof *out->inv_freq);
    status = out->inv_freq ? gyre_encoding_frequencies(out->encoding, length, out->inv_freq, &out->attention_factor)
                           : gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (explorer)");
    if (status) rotation_free(out);
    return status;
}

/* out = 1 with the integer in *out; JavaScript gives every number as a double. */
static int whole(const char *name, double value, double least, double most, int64_t *out) {
    if (value >= least && value <= most && value == floor(value)) {
        *out = (int64_t)value;
        return 1;
    }
    (void)gyre_fail(&explorer_failure, GYRE_EINVAL, "%s: %g is not a whole number from %g to %g (explorer)", name, value,
                    least, most);
    return 0;
}

/* *out = the method that the text names; a method whose number may be left out gets `factor`, as if written behind it. */
static gyre_status choose(const char *text, double factor, method *out, gyre_error *err) {
    const gyre_status status = method_parse(text ? text : "", out, err);
    if (status || out->factor != 0 || factor == 0 || out->keeps_model_scaling || out->far != GYRE_FAR_AS_NEAR ||
        out->scaling == GYRE_SCALING_DYNAMIC_YARN)
        return status;
    if (!(factor >= 1) || !isfinite(factor))
        return gyre_fail(err, GYRE_EINVAL, "factor: %g is below 1, the least allowed (explorer)", factor);
    out->factor = factor;
    return GYRE_OK;
}

/* out = the distance between near tokens that turns as much as this one. */
static double reduced(const gyre_config *config, double distance) {
    const struct gyre_rope_config *rope = &config->rope;
    const double window = (double)rope->far_window, group = rope->far_factor;
    if (far_is_chunked(config)) return far_distance(config, distance);
    if (rope->far == GYRE_FAR_AS_NEAR || distance < window) return distance;
    if (rope->far == GYRE_FAR_CLAMPED) return window;
    if (rope->far == GYRE_FAR_LEAKY) return window + (distance - window) / group;
    return floor(distance / group) + window - floor(window / group);
}

/* The last key of each chunk turns most, and those of the chunk before the own one turn no less than later ones. */
static double first_in_chunks(const gyre_config *config, double limit) {
    const double length = (double)(config->rope.chunk.size - config->rope.chunk.local);
    for (int chunk = 0; chunk < 3; chunk++) {
        const far_piece piece = far_piece_at(config, chunk * length);
        const double first = fmax(chunk * length, limit - piece.offset);
        if (first < piece.end) return first;
    }
    return (double)INFINITY;
}

/* out = the least whole distance that turns like `limit` or more, where near ones turn like themselves. */
static double first_reaching(const gyre_config *config, double limit) {
    const struct gyre_rope_config *rope = &config->rope;
    const double window = (double)rope->far_window, group = rope->far_factor;
    if (far_is_chunked(config)) return first_in_chunks(config, ceil(limit));
    if (rope->far == GYRE_FAR_AS_NEAR || ceil(limit) < window) return ceil(limit);
    if (rope->far == GYRE_FAR_CLAMPED) return limit <= window ? window : (double)INFINITY;
    if (rope->far == GYRE_FAR_LEAKY) return fmax(window, ceil(window + (limit - window) * group));
    return fmax(window, group * ceil(limit - window + floor(window / group)));
}

/* Training showed the angles from 0 up to that of position trained_length, where its next token would have been. */
static void fill_unseen(void) {
    for (int64_t i = 0; i < pairs; i++) {
        const double trained_rate = plain.inv_freq[i], rate = used.inv_freq[i];
        const double shown = trained_rate * (double)trained_length;
        unseen[i] = (double)INFINITY;
        if (shown >= two_pi || rate == 0) continue;
        unseen[i] = first_reaching(used.config, shown / rate * (1 - 1e-12)); /* not one late by rounding */
    }
}

static void fill_kept(void) {
    double most = 1;
    for (int64_t i = 0; i < pairs; i++)
        if (used.inv_freq[i] > 0) most = fmax(most, plain.inv_freq[i] / used.inv_freq[i]);
    if (factor_used > 1) most = factor_used; /* a ramp may keep even the slowest pair */
    for (int64_t i = 0; i < pairs; i++) {
        const double ratio = used.inv_freq[i] / plain.inv_freq[i];
        kept[i] = ratio == 0 ? 0 : most > 1 + 1e-9 ? fmin(1, fmax(0, (ratio - 1 / most) / (1 - 1 / most))) : 1;
    }
}

static gyre_status remake(const gyre_config *base, int64_t target, const method_betas *betas, gyre_error *err) {
    gyre_config config;
    gyre_status status = method_config(&chosen, base, trained_length, target, betas, &config, err);
    if (!status) status = rotation_make(base, target, &plain, err);
    if (!status) status = rotation_make(&config, target, &used, err);
    if (status) return status;
    pairs = used.config->rope.dim / 2;
    factor_used = method_factor(&chosen, trained_length, target);
    unseen = calloc((size_t)pairs, sizeof *unseen);
    kept = calloc((size_t)pairs, sizeof *kept);
    resultants = calloc((size_t)pairs, sizeof *resultants);
    if (!unseen || !kept || !resultants) return gyre_fail(err, GYRE_ENOMEM, "setup: out of memory (explorer)");
    fill_unseen();
    fill_kept();
    return GYRE_OK;
}

static void forget(void) {
    rotation_free(&used);
    rotation_free(&plain);
    free(unseen);
    free(kept);
    free(resultants);
    unseen = kept = resultants = NULL;
    pairs = 0;
}

int explorer_setup(const char *text, double factor, double base, double head_dim, double trained, double target,
                   double beta_fast, double beta_slow) {
    const double longest = 2147483648.0;
    int64_t dim, length;
    forget();
    if (!whole("headDim", head_dim, 2, MAX_HEAD_DIM, &dim) || !whole("trained", trained, 1, longest, &trained_length) ||
        !whole("target", target, 1, longest, &length))
        return GYRE_EINVAL;
    gyre_status status = choose(text, factor, &chosen, &explorer_failure);
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.head_dim = dim;
    config.trained_length = trained_length;
    config.rope.base = base;
    config.rope.table_positions = GYRE_NO_TABLE;
    const method_betas betas = {beta_fast, beta_slow};
    if (!status) status = remake(&config, length, &betas, &explorer_failure);
    if (status) forget();
    return status;
}

/* -- numbers -- */
int explorer_pairs(void) {
    return (int)pairs;
}

const double *explorer_inv_freq(int of_training) {
    return of_training ? plain.inv_freq : used.inv_freq;
}

double explorer_attention_factor(void) {
    return used.attention_factor;
}

double explorer_factor(void) {
    return factor_used;
}

const double *explorer_unseen(void) {
    return unseen;
}

const double *explorer_kept(void) {
    return kept;
}

int explorer_part(int which) {
    gyre_scaling_parts parts = {0, 0, 0};
    if (!used.encoding || gyre_encoding_scaling_parts(used.encoding, 0, &parts)) return 0;
    return (int)(which == 0 ? parts.kept : which == 1 ? parts.blended : parts.divided);
}

/* out = *memory with room for [pairs][count] floats; NULL and explorer_failure for wrong arguments. */
static float *grid_of(const char *name, float *grid, size_t *bytes, double from, int count, double step) {
    void *memory = grid;
    if (count < 1 || !isfinite(from) || !isfinite(step) || pairs < 1) {
        (void)gyre_fail(&explorer_failure, GYRE_EINVAL, "%s: %d distances from %g by %g (explorer)", name, count, from,
                        step);
        return NULL;
    }
    return explorer_grow(&memory, bytes, (size_t)pairs * (size_t)count * sizeof *grid);
}

/* A product and a remainder, not gyre_cos_sin and an arc tangent: several times as fast, and a page redraws 60 times a
 * second. */
const float *explorer_angles(double from, int count, double step) {
    float *grid = grid_of("angles", angles, &angles_bytes, from, count, step);
    if (!grid) return NULL;
    angles = grid;
    for (int64_t i = 0; i < pairs; i++) {
        float *row = angles + (size_t)i * (size_t)count;
        const double rate = used.inv_freq[i];
        for (int c = 0; c < count; c++) {
            const double angle = rate * reduced(used.config, from + (double)c * step);
            row[c] = (float)(angle - two_pi * nearbyint(angle / two_pi));
        }
    }
    return angles;
}

const float *explorer_excess(double from, int count, double step) {
    float *grid = grid_of("excess", excesses, &excesses_bytes, from, count, step);
    if (!grid) return NULL;
    excesses = grid;
    for (int64_t i = 0; i < pairs; i++) {
        float *row = excesses + (size_t)i * (size_t)count;
        const double arc = plain.inv_freq[i] * (double)trained_length, rate = used.inv_freq[i];
        for (int c = 0; c < count; c++)
            row[c] = (float)method_map_excess(arc, rate * reduced(used.config, fabs(from + (double)c * step)));
    }
    return excesses;
}

const double *explorer_resultant(double width) {
    /* Past a whole turn, the mean is that of the turn left unfinished: from column to column it would go at a false pace. */
    for (int64_t i = 0; i < pairs; i++)
        resultants[i] = used.inv_freq[i] * width < two_pi ? method_map_resultant(used.inv_freq[i], width) : 0;
    return resultants;
}

void explorer_decay(const double *distances, int n, double *mean, double *bound) {
    for (int k = 0; k < n; k++) {
        const double turned = reduced(used.config, distances[k]);
        double real = 0, imaginary = 0, sizes = 0;
        for (int64_t i = 0; i < pairs; i++) {
            real += cos(used.inv_freq[i] * turned);
            imaginary += sin(used.inv_freq[i] * turned);
            sizes += hypot(real, imaginary);
        }
        mean[k] = real / (double)pairs;
        bound[k] = sizes / (double)(pairs * pairs);
    }
}

int explorer_rotate(float *vector, double position) {
    int64_t at;
    if (!whole("position", position, -2147483648.0, 2147483648.0, &at)) return GYRE_EINVAL;
    const gyre_view x = gyre_dense(vector, GYRE_DTYPE_F32, 1, 1, 1, used.config ? used.config->head_dim : 0);
    return gyre_rotate_dense(used.encoding, GYRE_ROLE_KEY, x, at, 0, &explorer_failure);
}

/* -- a score -- */
/* Rotates query and key each at its position, and multiplies pair by pair: that only the distance counts is a result. */
int explorer_score(const float *q, const float *k, double m, double n, double *bars, double *amplitude, double *phase) {
    const int64_t dim = used.config ? used.config->head_dim : 0, half = dim / 2;
    const double scale = 1 / sqrt((double)dim), factor = used.attention_factor * used.attention_factor;
    float turned[2][MAX_HEAD_DIM];
    if (dim != 2 * pairs || dim > MAX_HEAD_DIM)
        return gyre_fail(&explorer_failure, GYRE_EINVAL, "head: %lld channels in %lld pairs (explorer)", (long long)dim,
                         (long long)pairs);
    memcpy(turned[0], q, (size_t)dim * sizeof *q);
    memcpy(turned[1], k, (size_t)dim * sizeof *k);
    if (explorer_rotate(turned[0], m) || explorer_rotate(turned[1], n)) return GYRE_EINVAL;
    for (int64_t i = 0; i < half; i++) {
        const double q_size = hypot((double)q[i], (double)q[i + half]), k_size = hypot((double)k[i], (double)k[i + half]);
        bars[i] = scale *
                  ((double)turned[0][i] * (double)turned[1][i] + (double)turned[0][i + half] * (double)turned[1][i + half]);
        amplitude[i] = scale * factor * q_size * k_size;
        phase[i] = atan2((double)q[i + half], (double)q[i]) - atan2((double)k[i + half], (double)k[i]);
    }
    return GYRE_OK;
}

/* -- colours -- */
void explorer_wheel(double resultant, int n, uint32_t *pixels) {
    for (int i = 0; i < n; i++) {
        const unsigned color = (unsigned)gyre_report_angle_color((i + 0.5) * two_pi / n - two_pi / 2, resultant);
        pixels[i] = 0xff000000u | (color & 255) << 16 | (color & 0xff00) | color >> 16;
    }
}

int explorer_excess_color(double excess) {
    return gyre_report_excess_color(excess);
}

double explorer_excess_strength(double excess) {
    return gyre_report_excess_strength(excess);
}

/* -- methods -- */
static const char *number_of(const method *m) {
    if (m->number == METHOD_NUMBER_PAIRS) return "pairs";
    if (m->slopes != GYRE_SLOPE_SCALING_NONE && m->scaling == GYRE_SCALING_NONE) return "slopes";
    if (m->keeps_model_scaling || m->scaling == GYRE_SCALING_DYNAMIC_YARN) return "none";
    if (m->number == METHOD_NUMBER_BASE) return "base";
    if (m->number == METHOD_NUMBER_PAST) return "past";
    return m->far == GYRE_FAR_CLAMPED ? "window" : "factor";
}

const char *explorer_look(const char *name) {
    static char line[128];
    const gyre_report_look look = subject_look(name);
    snprintf(line, sizeof line, "%s %s %s", gyre_report_color((int)look.color), gyre_report_dark_color((int)look.color),
             gyre_report_look_style(look).path);
    return line;
}

const char *explorer_method(int index) {
    static const char names[] = METHOD_NAMES;
    static char line[METHOD_LABEL + 128];
    char name[METHOD_LABEL];
    const char *at = names;
    for (; *at && index > 0; index--)
        at += strcspn(at, ","), at += strspn(at, ", ");
    if (!*at) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    method m;
    char with_number[METHOD_LABEL + 8];
    snprintf(with_number, sizeof with_number, "%s:4", name);
    if (method_parse(name, &m, NULL) && method_parse(with_number, &m, NULL)) return NULL;
    const int follows = m.scaling == GYRE_SCALING_DYNAMIC_NTK || m.scaling == GYRE_SCALING_DYNAMIC_YARN;
    snprintf(line, sizeof line, "%s %s %d %s", name, number_of(&m), follows + 2 * (m.far != GYRE_FAR_AS_NEAR),
             explorer_look(name));
    return line;
}

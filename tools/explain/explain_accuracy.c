/* explain_accuracy.c: the angles of each program against exact ones; keys that are kept in few bits, or shifted again and
 * again, against keys in double.
 *
 * A pair of a query at m turns by a complex number u, that of a key at n by v.  Scores of random channels are off by the
 * root mean square sqrt(sum |u v* - u0 v0*|^2) over all pairs, and are themselves sqrt(sum |u0 v0*|^2).  The ratio is by how
 * much a score moves. */
#include "tools/explain/explain_accuracy.h"
#include "gyre/gyre_cache.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 16, KEYS = 64, SAMPLES = 8, LONGEST_LOG2 = 24, USUAL_CHANNELS = 1024 };

/* A file may state any width of a head.  A head of more than USUAL_CHANNELS is measured at fewer positions and with fewer
 * keys, so that memory and work stay about the same: each of them is then a sample of more pairs.  All pairs are measured:
 * gyre_cos_sin computes them together, and llama.cpp's errors add up from pair to pair. */
static int64_t fewer(int64_t usual, int64_t channels) {
    const int64_t count = channels > USUAL_CHANNELS ? usual * USUAL_CHANNELS / channels : usual;
    return count < 1 ? 1 : count;
}

static const struct {
    const char *name;
    gyre_angle_path path;
} programs[ACCURACY_PROGRAMS] = {{"exact (Gyre)", GYRE_ANGLE_PATH_EXACT},
                                 {"transformers, float32", GYRE_ANGLE_PATH_TORCH},
                                 {"transformers or vLLM, float16", GYRE_ANGLE_PATH_TORCH_F16},
                                 {"transformers or vLLM, bfloat16", GYRE_ANGLE_PATH_TORCH_BF16},
                                 {"llama.cpp", GYRE_ANGLE_PATH_LLAMA_CPP},
                                 {"TensorRT-LLM", GYRE_ANGLE_PATH_TENSORRT_LLM}};
static const char *const types[ACCURACY_TYPES] = {"f16", "bf16", "q8"};
static const int64_t shifts[ACCURACY_SHIFTS] = {1, 10, 100};

const char *explain_accuracy_program(int p) {
    return programs[p].name;
}
const char *explain_accuracy_type(int t) {
    return types[t];
}
int64_t explain_accuracy_shifts(int s) {
    return shifts[s];
}

/* -- angles -- */
/* cos and sin of one program and the exact ones.  Each [neighbours][pairs]. */
typedef struct angle_rows {
    gyre_encoding *encoding, *exact;
    int64_t pairs, neighbours, samples;                      /* samples <= neighbours: positions of queries */
    double *cosine, *sine, *exact_cosine, *exact_sine, *key; /* key: [4][pairs], a row of each of the four */
} angle_rows;

/* Rows of `count` positions up to `last`.  The exact ones are rounded to float for the program `exact` itself. */
static gyre_status rows_at(const gyre_encoding *encoding, int64_t last, int64_t count, int64_t pairs, double *cosine,
                           double *sine, gyre_error *err) {
    const gyre_positions at = {.base = last - count + 1};
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, count, 1, pairs);
    const gyre_view s = gyre_dense(sine, GYRE_DTYPE_F64, 1, count, 1, pairs);
    return gyre_cos_sin(encoding, &at, &c, &s, NULL, err);
}

static gyre_status both_rows(const angle_rows *r, int64_t last, int64_t count, double *const out[4], gyre_error *err) {
    gyre_status status = rows_at(r->encoding, last, count, r->pairs, out[0], out[1], err);
    if (!status) status = rows_at(r->exact, last, count, r->pairs, out[2], out[3], err);
    for (int64_t i = 0; r->encoding == r->exact && i < count * r->pairs; i++) {
        out[0][i] = (double)(float)out[0][i];
        out[1][i] = (double)(float)out[1][i];
    }
    return status;
}

static gyre_status largest_error(const angle_rows *r, int64_t position, double *out, gyre_error *err) {
    const int64_t count = position < r->neighbours ? position : r->neighbours;
    double *const rows[4] = {r->cosine, r->sine, r->exact_cosine, r->exact_sine};
    const gyre_status status = both_rows(r, position, count, rows, err);
    *out = 0;
    for (int64_t i = 0; !status && i < count * r->pairs; i++)
        *out = fmax(*out, fmax(fabs(r->cosine[i] - r->exact_cosine[i]), fabs(r->sine[i] - r->exact_sine[i])));
    return status;
}

/* By how much scores of queries in `rows` at count positions move with the key in `key`. */
static double movement(const angle_rows *r, int64_t count) {
    const double *k = r->key;
    const int64_t n = r->pairs;
    double moved = 0, whole = 0;
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = t * n + i;
            const double re = r->cosine[at] * k[i] + r->sine[at] * k[n + i];
            const double im = r->sine[at] * k[i] - r->cosine[at] * k[n + i];
            const double re0 = r->exact_cosine[at] * k[2 * n + i] + r->exact_sine[at] * k[3 * n + i];
            const double im0 = r->exact_sine[at] * k[2 * n + i] - r->exact_cosine[at] * k[3 * n + i];
            moved += (re - re0) * (re - re0) + (im - im0) * (im - im0);
            whole += re0 * re0 + im0 * im0;
        }
    return whole > 0 ? sqrt(moved / whole) : 0;
}

/* The most that scores move for queries up to `position`, with keys 1, 8, 64 ... tokens before them and the first token. */
static gyre_status most_movement(const angle_rows *r, int64_t position, double *out, gyre_error *err) {
    const int64_t count = position < r->samples ? position : r->samples;
    double *const rows[4] = {r->cosine, r->sine, r->exact_cosine, r->exact_sine};
    double *const key[4] = {r->key, r->key + r->pairs, r->key + 2 * r->pairs, r->key + 3 * r->pairs};
    gyre_status status = both_rows(r, position, count, rows, err);
    *out = 0;
    for (int64_t distance = 1; !status; distance *= 8) {
        const int64_t at = position > distance ? position - distance : 0;
        status = both_rows(r, at, 1, key, err);
        if (!status) *out = fmax(*out, movement(r, count));
        if (at == 0) break;
    }
    return status;
}

/* Two positions an octave, from the far end, so that a lucky position in between does not count. */
static gyre_status find_movement(const angle_rows *r, double rounding, int64_t *out, gyre_error *err) {
    gyre_status status = GYRE_OK;
    *out = 0;
    for (int half = 2 * LONGEST_LOG2; half >= 0 && !status; half--) {
        const int64_t position = llround(exp2(half / 2.0));
        double moved = 0;
        status = most_movement(r, position, &moved, err);
        if (status || moved <= rounding) break;
        *out = position;
    }
    return status;
}

static gyre_status measure_program(explain_accuracy *out, int p, angle_rows *r, const gyre_config *config, gyre_error *err) {
    gyre_config own = *config;
    own.rope.angles = programs[p].path;
    own.rope.table_positions = GYRE_NO_TABLE;
    gyre_encoding *made = NULL;
    gyre_status status = gyre_encoding_create(&made, &own, NULL, NULL);
    out->has[p] = !status;
    if (status == GYRE_EUNSUPPORTED) return GYRE_OK;
    if (status) return gyre_encoding_create(&made, &own, NULL, err); /* again, for its reason */
    r->encoding = programs[p].path == GYRE_ANGLE_PATH_EXACT ? r->exact : made;
    for (int i = 0; i < out->count && !status; i++)
        status = largest_error(r, out->positions[i], &out->error[p][i], err);
    if (!status) status = find_movement(r, out->rounding, &out->moves_from[p], err);
    gyre_encoding_free(made);
    return status;
}

/* -- keys kept in few bits -- */
static double random_normal(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum;
}

/* To nearest even, `bits` of them; far from the ends of the type's range. */
static float round_to_bits(float x, int bits) {
    if (x == 0) return x;
    const int unit = ilogbf(x) - bits + 1;
    return ldexpf(rintf(ldexpf(x, -unit)), unit);
}

/* Blocks of 32: the largest magnitude is 127 steps, as Q8_0 has them. */
static void round_to_q8(float *x, int64_t n) {
    for (int64_t first = 0; first < n; first += 32) {
        const int64_t end = first + 32 < n ? first + 32 : n;
        float most = 0;
        for (int64_t i = first; i < end; i++)
            most = fmaxf(most, fabsf(x[i]));
        const float step = round_to_bits(most / 127, 11);
        for (int64_t i = first; i < end && step > 0; i++)
            x[i] = rintf(x[i] / step) * step;
    }
}

static void round_to_type(float *x, int64_t n, int type) {
    if (type == 2) {
        round_to_q8(x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = round_to_bits(x[i], type == 0 ? 11 : 8);
}

/* Random keys at KEY_POSITION and after. */
typedef struct kept_keys {
    const gyre_encoding *exact;
    int64_t channels, count;
    double *raw, *rotated; /* [count][channels]; exact */
    float *kept;           /* what a cache holds, widened */
} kept_keys;
enum { KEY_POSITION = 65536, SHIFT = -64 };

static gyre_status rotate_exactly(const kept_keys *k, int64_t position, gyre_error *err) {
    const gyre_positions at = {.base = position};
    const gyre_cview in = gyre_cdense(k->raw, GYRE_DTYPE_F64, 1, 1, k->count, k->channels);
    const gyre_view out = gyre_dense(k->rotated, GYRE_DTYPE_F64, 1, 1, k->count, k->channels);
    return gyre_rotate(k->exact, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, &at, &in, &out, NULL, err);
}

static double relative_error(const kept_keys *k) {
    double off = 0, whole = 0;
    for (int64_t i = 0; i < k->count * k->channels; i++) {
        off += ((double)k->kept[i] - k->rotated[i]) * ((double)k->kept[i] - k->rotated[i]);
        whole += k->rotated[i] * k->rotated[i];
    }
    return whole > 0 ? sqrt(off / whole) : 0;
}

static gyre_status keep(const kept_keys *k, int type, double *error, gyre_error *err) {
    const gyre_status status = rotate_exactly(k, KEY_POSITION, err);
    if (status) return status;
    for (int64_t i = 0; i < k->count * k->channels; i++)
        k->kept[i] = (float)k->rotated[i];
    round_to_type(k->kept, k->count * k->channels, type);
    *error = relative_error(k);
    return GYRE_OK;
}

/* Shifts the kept keys again and again: each time they are rotated in float and rounded to the type of the cache. */
static gyre_status shift_keys(const kept_keys *k, int type, double *errors, gyre_error *err) {
    gyre_status status = GYRE_OK;
    int64_t position = KEY_POSITION, done = 0;
    for (int s = 0; s < ACCURACY_SHIFTS && !status; s++) {
        for (; done < shifts[s] && !status; done++, position += SHIFT) {
            const gyre_positions before = {.base = position}, after = {.base = position + SHIFT};
            const gyre_cview in = gyre_cdense(k->kept, GYRE_DTYPE_F32, 1, 1, k->count, k->channels);
            const gyre_view out = gyre_dense(k->kept, GYRE_DTYPE_F32, 1, 1, k->count, k->channels);
            status = gyre_rerotate(k->exact, k->exact, &before, &after, &in, &out, NULL, err);
            round_to_type(k->kept, k->count * k->channels, type);
        }
        if (!status) status = rotate_exactly(k, position, err);
        errors[s] = relative_error(k);
    }
    return status;
}

static gyre_status measure_types(explain_accuracy *out, const gyre_encoding *exact, int64_t channels, gyre_error *err) {
    out->keys = fewer(KEYS, channels);
    const size_t n = (size_t)(out->keys * channels);
    kept_keys k = {exact, channels, out->keys, malloc(2 * n * sizeof(double)), NULL, malloc(n * sizeof(float))};
    gyre_status status = GYRE_OK;
    if (!k.raw || !k.kept) status = gyre_fail(err, GYRE_ENOMEM, "keys: out of memory (explain)");
    uint64_t state = 1;
    for (size_t i = 0; !status && i < n; i++)
        k.raw[i] = random_normal(&state);
    k.rotated = status ? NULL : k.raw + n;
    for (int t = 0; t < ACCURACY_TYPES && !status; t++) {
        status = keep(&k, t, &out->kept[t], err);
        if (!status) status = shift_keys(&k, t, out->shifted[t], err);
    }
    out->rounding = sqrt(2) * out->kept[1];
    free(k.raw);
    free(k.kept);
    return status;
}

/* -- all of it -- */
static void add_position(explain_accuracy *out, int64_t position) {
    int i = out->count;
    for (int j = 0; j < out->count; j++)
        if (out->positions[j] == position) return;
    if (position < 1) return;
    for (; i > 0 && out->positions[i - 1] > position; i--)
        out->positions[i] = out->positions[i - 1];
    out->positions[i] = position;
    out->count++;
}

static gyre_status measure(explain_accuracy *out, angle_rows *r, const explain_stats *stats, gyre_error *err) {
    out->neighbours = r->neighbours = fewer(NEIGHBOURS, 2 * r->pairs);
    r->samples = fewer(SAMPLES, 2 * r->pairs);
    const size_t row = (size_t)r->pairs, rows = (size_t)r->neighbours;
    double *memory = calloc((4 * rows + 4) * row, sizeof *memory);
    if (!memory) return gyre_fail(err, GYRE_ENOMEM, "angles: out of memory (explain)");
    r->cosine = memory;
    r->sine = memory + rows * row;
    r->exact_cosine = memory + 2 * rows * row;
    r->exact_sine = memory + 3 * rows * row;
    r->key = memory + 4 * rows * row;
    gyre_status status = measure_types(out, r->exact, stats->config->head_dim, err);
    for (int p = 0; p < ACCURACY_PROGRAMS && !status; p++)
        status = measure_program(out, p, r, stats->config, err);
    free(memory);
    return status;
}

gyre_status explain_accuracy_compute(explain_accuracy *out, const explain_stats *stats, gyre_error *err) {
    memset(out, 0, sizeof *out);
    for (int64_t position = 4096; position <= 131072; position *= position < 32768 ? 8 : 4)
        add_position(out, position);
    add_position(out, 1 << 20);
    add_position(out, stats->max_length > 0 ? stats->max_length : stats->trained);
    gyre_config config = *stats->config;
    config.rope.angles = GYRE_ANGLE_PATH_EXACT;
    config.rope.table_positions = GYRE_NO_TABLE;
    gyre_encoding *exact = NULL;
    const gyre_status created = gyre_encoding_create(&exact, &config, NULL, err);
    if (created) return created;
    angle_rows rows = {.exact = exact, .pairs = stats->pairs};
    const gyre_status status = measure(out, &rows, stats, err);
    gyre_encoding_free(exact);
    return status;
}

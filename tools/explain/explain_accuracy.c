/* explain_accuracy.c: the angles of each program against exact ones.
 *
 * A pair of a query at m is multiplied by a complex number u, that of a key at n by v.  Scores of random channels are
 * off by the root mean square sqrt(sum |u v* - u0 v0*|^2) over all pairs, and are themselves sqrt(sum |u0 v0*|^2).  The
 * ratio is by how much a score moves. */
#include "tools/explain/explain_accuracy.h"
#include "gyre/gyre_fields.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, DISTANCES = 9, LONGEST_LOG2 = 24, OCTAVE_SHARE = 4 };
/* Of a program, over the positions of a wide head whose errors are measured and over those of its search. */
enum { WIDE_ANGLES = 1 << 21, SEARCH_ANGLES = 1 << 22 };
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* ten seconds are too long for a fuzzer's input */
enum { EVERY = 64, EVERY_ANGLE = 1 << 12 };
#else
enum { EVERY = 32768, EVERY_ANGLE = 1 << 21 };
#endif

static const struct {
    const char *name;
    gyre_angle_path path;
    int runs_chunks; /* Dual Chunk Attention */
    int fraction;    /* bits of the type of its table of cos and sin, behind the point of 1.x; 0 = floats */
} programs[ACCURACY_PROGRAMS] = {{"Gyre, float32", GYRE_ANGLE_PATH_EXACT, 1, 0},
                                 {"transformers, float32", GYRE_ANGLE_PATH_TORCH, 0, 0},
                                 {"transformers, float16", GYRE_ANGLE_PATH_TORCH_F16, 0, 10},
                                 {"transformers, bfloat16", GYRE_ANGLE_PATH_TORCH_BF16, 0, 7},
                                 {"vLLM, float16", GYRE_ANGLE_PATH_VLLM_F16, 1, 10},
                                 {"vLLM, bfloat16", GYRE_ANGLE_PATH_VLLM_BF16, 1, 7},
                                 {"llama.cpp", GYRE_ANGLE_PATH_LLAMA_CPP, 0, 0},
                                 {"TensorRT-LLM", GYRE_ANGLE_PATH_TENSORRT_LLM, 0, 0}};

const char *explain_accuracy_program(int p) {
    return programs[p].name;
}

/* -- rows of cos and sin -- */
/* Buffers of BLOCK positions, [BLOCK][pairs] each, and the encodings of all programs at one context length. */
typedef struct angle_rows {
    const gyre_config *config; /* exact angles */
    const char *others_lack;   /* why no program but Gyre runs such layers; NULL = others may */
    gyre_encoding *exact, *program[ACCURACY_PROGRAMS];
    int has_xpos;
    int64_t pairs;
    double *cosine, *sine, *exact_cosine, *exact_sine;
    double *step_cosine, *step_sine; /* exact, of the first positions */
    double *key, *exact_key;         /* [2][pairs], [DISTANCES][2][pairs] */
    int64_t *angles;                 /* pairs computed so far */
    float *unit, *turned;            /* [BLOCK][head_dim]: (1, 0) in each pair, before and after its rotation */
} angle_rows;

static gyre_status rows_at(const angle_rows *r, const gyre_encoding *encoding, int64_t first, int64_t count, double *cosine,
                           double *sine, gyre_error *err) {
    const gyre_positions at = {.base = first};
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, count, 1, r->pairs);
    const gyre_view s = gyre_dense(sine, GYRE_DTYPE_F64, 1, count, 1, r->pairs);
    *r->angles += count * r->pairs;
    return gyre_cos_sin(encoding, &at, &c, &s, NULL, err);
}

/* Channels of the two numbers of pair i in what a rotation reads, or writes. */
static void channels_of(const struct gyre_rope_config *rope, int writes, int64_t i, int64_t *x, int64_t *y) {
    const int halves = rope->layout == GYRE_LAYOUT_HALF || (rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF && writes);
    *x = rope->first_channel + (halves ? i : 2 * i);
    *y = *x + (halves ? rope->dim / 2 : 1);
}

/* Gyre's own rotation of floats, of unit vectors. */
static gyre_status rotated_units(const angle_rows *r, const gyre_encoding *encoding, int64_t first, int64_t count,
                                 double *cosine, double *sine, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const int64_t channels = config->head_dim;
    const gyre_positions at = {.base = first};
    const gyre_cview in = gyre_cdense(r->unit, GYRE_DTYPE_F32, 1, count, 1, channels);
    const gyre_view out = gyre_dense(r->turned, GYRE_DTYPE_F32, 1, count, 1, channels);
    *r->angles += count * r->pairs;
    const gyre_status status = gyre_rotate(
        encoding, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out), NULL, err);
    for (int64_t t = 0; t < count && !status; t++)
        for (int64_t i = 0; i < r->pairs; i++) {
            int64_t x, y;
            channels_of(&config->rope, 1, i, &x, &y);
            cosine[t * r->pairs + i] = (double)r->turned[t * channels + x];
            sine[t * r->pairs + i] = (double)r->turned[t * channels + y];
        }
    return status;
}

static gyre_status program_rows(const angle_rows *r, int p, int64_t first, int64_t count, double *cosine, double *sine,
                                gyre_error *err) {
    if (programs[p].path == GYRE_ANGLE_PATH_EXACT) return rotated_units(r, r->program[p], first, count, cosine, sine, err);
    return rows_at(r, r->program[p], first, count, cosine, sine, err);
}

/* Exact rows of count <= BLOCK positions.  The first is computed, the others are its complex products with the steps,
 * which are off by some 2^-52.  Position 0 shows the attention factor, which a product would have twice. */
static gyre_status exact_rows(const angle_rows *r, int64_t first, int64_t count, gyre_error *err) {
    const int64_t n = r->pairs;
    if (r->config->rope.longrope.start_tokens > 0) /* they rotate otherwise than the steps of later tokens */
        return rows_at(r, r->exact, first, count, r->exact_cosine, r->exact_sine, err);
    const gyre_status status = rows_at(r, r->exact, first, 1, r->exact_cosine, r->exact_sine, err);
    for (int64_t t = 1; t < count && !status; t++)
        for (int64_t i = 0; i < n; i++) {
            const double c = r->exact_cosine[i], s = r->exact_sine[i], factor = r->step_cosine[i];
            r->exact_cosine[t * n + i] = (c * r->step_cosine[t * n + i] - s * r->step_sine[t * n + i]) / factor;
            r->exact_sine[t * n + i] = (s * r->step_cosine[t * n + i] + c * r->step_sine[t * n + i]) / factor;
        }
    return status;
}

/* -- encodings -- */
static void close_programs(angle_rows *r) {
    gyre_encoding_free(r->exact);
    r->exact = NULL;
    for (int p = 0; p < ACCURACY_PROGRAMS; p++) {
        gyre_encoding_free(r->program[p]);
        r->program[p] = NULL;
    }
}

/* The text of an error of the library, "rope.angles: why (gyre_config)", without its ends. */
static void take_reason(char *out, const char *text) {
    static const char prefix[] = "rope.angles: ", suffix[] = " (gyre_config)";
    if (strncmp(text, prefix, strlen(prefix)) == 0) text += strlen(prefix);
    const char *end = strstr(text, suffix);
    size_t length = end ? (size_t)(end - text) : strlen(text);
    if (length >= ACCURACY_REASON) length = ACCURACY_REASON - 1;
    memcpy(out, text, length);
    out[length] = 0;
}

/* out = why program p does not run such layers, NULL = it may. */
static const char *lack_of(const explain_accuracy *a, const angle_rows *r, int p) {
    if (a->largest_position > 0 && !programs[p].runs_chunks) return "it runs no dual chunks";
    if (programs[p].path == GYRE_ANGLE_PATH_EXACT) return NULL;
    if (programs[p].path == GYRE_ANGLE_PATH_LLAMA_CPP && r->config->rope.far == GYRE_FAR_GROUPED)
        return "Gyre has no path for llama.cpp with Self-Extend";
    return r->others_lack;
}

static gyre_status open_program(explain_accuracy *out, angle_rows *r, int p, gyre_config *config, gyre_error *err) {
    gyre_error refusal = {0, ""};
    const char *lack = lack_of(out, r, p);
    config->rope.angles = programs[p].path;
    if (lack) {
        snprintf(out->reason[p], ACCURACY_REASON, "%s", lack);
        return GYRE_OK;
    }
    const gyre_status status = gyre_encoding_create(&r->program[p], config, NULL, &refusal);
    if (status == GYRE_EUNSUPPORTED) {
        take_reason(out->reason[p], refusal.text);
        return GYRE_OK;
    }
    if (status && err) *err = refusal;
    return status;
}

/* Encodings at a context length, 0 = their own. */
static gyre_status open_programs(explain_accuracy *out, angle_rows *r, int64_t length, gyre_error *err) {
    gyre_config config = *r->config;
    if (length > 0) config.context_length = length;
    gyre_status status = gyre_encoding_create(&r->exact, &config, NULL, err);
    for (int p = 0; p < ACCURACY_PROGRAMS && !status; p++)
        status = open_program(out, r, p, &config, err);
    if (status) close_programs(r);
    return status;
}

static gyre_status reopen_programs(explain_accuracy *out, angle_rows *r, int64_t length, gyre_error *err) {
    close_programs(r);
    return open_programs(out, r, length, err);
}

/* One program and the exact encoding, for most_movement alone. */
static gyre_status reopen_program(explain_accuracy *out, angle_rows *r, int p, int64_t length, gyre_error *err) {
    gyre_config config = *r->config;
    close_programs(r);
    config.context_length = length;
    gyre_status status = gyre_encoding_create(&r->exact, &config, NULL, err);
    if (!status) status = open_program(out, r, p, &config, err);
    return status;
}

/* -- largest errors -- */
static double largest_of(const angle_rows *r, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count * r->pairs; i++) {
        const double c = fabs(r->cosine[i] - r->exact_cosine[i]), s = fabs(r->sine[i] - r->exact_sine[i]);
        most = c > most ? c : most;
        most = s > most ? s : most;
    }
    return most;
}

/* Raises most[p] to the largest errors of positions first .. end - 1, at most a->last of them. */
static gyre_status add_block(const angle_rows *r, int64_t first, int64_t end, double most[ACCURACY_PROGRAMS],
                             gyre_error *err) {
    const int64_t count = end - first;
    if (count < 1) return GYRE_OK;
    gyre_status status = exact_rows(r, first, count, err);
    for (int p = 0; p < ACCURACY_PROGRAMS && !status; p++) {
        if (!r->program[p]) continue;
        status = program_rows(r, p, first, count, r->cosine, r->sine, err);
        if (!status) most[p] = fmax(most[p], largest_of(r, count));
    }
    return status;
}

/* out = where block number i begins, the same for every length: all positions below a->every, then a->last consecutive ones
 * somewhere in each part of a doubling.  Rises with i. */
static int64_t block_at(const explain_accuracy *a, int64_t i) {
    const int64_t parts = a->of_octave / a->last;
    int64_t octave = a->every, part = i - a->every / a->last;
    if (part < 0) return i * a->last;
    for (; part >= parts; part -= parts)
        octave *= 2;
    const int64_t width = octave / parts;
    return octave + part * width + (int64_t)((uint64_t)(i * 2654435761) % (uint64_t)(width - a->last + 1));
}

/* Raises most[p] by the measured positions from .. end - 1, *next = the number of the first block that reaches past end. */
static gyre_status add_range(const explain_accuracy *a, const angle_rows *r, int64_t from, int64_t end, int64_t *next,
                             double most[ACCURACY_PROGRAMS], gyre_error *err) {
    const int64_t block = a->last;
    gyre_status status = GYRE_OK;
    for (; !status; (*next)++) {
        const int64_t at = block_at(a, *next), first = at < from ? from : at;
        if (at >= end) break;
        status = add_block(r, first, at + block < end ? at + block : end, most, err);
        if (at + block > end) break; /* its rest belongs to the next length */
    }
    if (status) return status;
    return add_block(r, end - block > 0 ? end - block : 0, end, most, err);
}

/* out = the positions of all contexts, at most. */
static int64_t measured_positions(const explain_accuracy *a) {
    int64_t all = 0;
    for (int i = a->follows_length ? 0 : a->count - 1; i < a->count; i++, all += a->every)
        for (int64_t octave = a->every; octave < a->lengths[i]; octave *= 2)
            all += a->of_octave;
    return all + a->count * a->last;
}

/* pairs: those of the head, or more where many heads share the work. */
static void choose_positions(explain_accuracy *out, int64_t pairs) {
    out->every = EVERY;
    out->last = BLOCK;
    while (out->every > OCTAVE_SHARE * BLOCK && out->every * pairs > EVERY_ANGLE)
        out->every /= 2;
    out->of_octave = out->every / OCTAVE_SHARE;
    while (pairs > ACCURACY_USUAL_PAIRS && out->every > OCTAVE_SHARE && measured_positions(out) * pairs > WIDE_ANGLES) {
        out->every /= 2;
        out->of_octave /= 2;
        if (out->last > out->of_octave) out->last = out->of_octave;
    }
}

/* The rows of a search: of one program at all its positions and, for each of a bisection, of two. */
static void choose_search(explain_accuracy *out, int64_t pairs) {
    static const struct {
        int64_t of_doubling, queries, ratio, distances;
    } plans[] = {
        {2, ACCURACY_USUAL_QUERIES, ACCURACY_USUAL_RATIO, DISTANCES}, {1, 2, 64, 5}, {1, 1, INT64_C(1) << LONGEST_LOG2, 2}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const int64_t rows = (plans[i].queries + plans[i].distances) * (plans[i].of_doubling * LONGEST_LOG2 + 2 * 6);
        out->search_of_doubling = plans[i].of_doubling;
        out->search_queries = plans[i].queries;
        out->distance_ratio = plans[i].ratio;
        if (pairs <= ACCURACY_USUAL_PAIRS || rows * pairs <= SEARCH_ANGLES) break;
    }
}

static gyre_status make_steps(const explain_accuracy *a, const angle_rows *r, gyre_error *err) {
    return rows_at(r, r->exact, 0, a->last, r->step_cosine, r->step_sine, err);
}

static gyre_status measure_errors(explain_accuracy *out, angle_rows *r, gyre_error *err) {
    double most[ACCURACY_PROGRAMS] = {0};
    int64_t next = 0, from = 0;
    gyre_status status = out->follows_length ? GYRE_OK : make_steps(out, r, err);
    for (int i = 0; i < out->count && !status; i++) {
        const int64_t past = out->largest_position + 1, n = out->lengths[i];
        if (out->follows_length) {
            status = reopen_programs(out, r, n, err);
            if (!status) status = make_steps(out, r, err);
            memset(most, 0, sizeof most);
            next = from = 0;
        }
        const int64_t end = out->largest_position > 0 && n > past ? past : n;
        if (!status && end > from) status = add_range(out, r, from, end, &next, most, err);
        from = end;
        for (int p = 0; p < ACCURACY_PROGRAMS; p++)
            out->error[p][i] = most[p];
    }
    return status;
}

/* -- scores -- */
/* By how much scores of queries in the rows of count positions move with the key in `key`, whose exact row is `exact`. */
static double movement(const angle_rows *r, int64_t count, const double *exact) {
    const double *k = r->key;
    const int64_t n = r->pairs;
    double moved = 0, whole = 0;
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = t * n + i;
            const double re = r->cosine[at] * k[i] + r->sine[at] * k[n + i];
            const double im = r->sine[at] * k[i] - r->cosine[at] * k[n + i];
            const double re0 = r->exact_cosine[at] * exact[i] + r->exact_sine[at] * exact[n + i];
            const double im0 = r->exact_sine[at] * exact[i] - r->exact_cosine[at] * exact[n + i];
            moved += (re - re0) * (re - re0) + (im - im0) * (im - im0);
            whole += re0 * re0 + im0 * im0;
        }
    return whole > 0 ? sqrt(moved / whole) : 0;
}

/* Queries up to `position`, and the keys: 1, distance_ratio ... tokens before it, and the first token. */
typedef struct scored {
    int64_t first, count, key[DISTANCES];
    int keys;
} scored;

static scored scored_at(const explain_accuracy *a, int64_t position) {
    scored s = {.count = position < a->search_queries ? position : a->search_queries};
    s.first = position - s.count + 1;
    for (int64_t distance = 1;; distance *= a->distance_ratio) {
        s.key[s.keys] = position > distance ? position - distance : 0;
        if (s.key[s.keys++] == 0) return s;
    }
}

/* The exact rows of a position, for most_movement of every program. */
static gyre_status exact_scores(const explain_accuracy *a, const angle_rows *r, int64_t position, gyre_error *err) {
    const scored s = scored_at(a, position);
    const int64_t n = r->pairs;
    gyre_status status = rows_at(r, r->exact, s.first, s.count, r->exact_cosine, r->exact_sine, err);
    for (int k = 0; k < s.keys && !status; k++)
        status = rows_at(r, r->exact, s.key[k], 1, r->exact_key + 2 * k * n, r->exact_key + (2 * k + 1) * n, err);
    return status;
}

/* The most that scores move under program p, after exact_scores. */
static gyre_status most_movement(const explain_accuracy *a, const angle_rows *r, int p, int64_t position, double *out,
                                 gyre_error *err) {
    const scored s = scored_at(a, position);
    const int64_t n = r->pairs;
    gyre_status status = program_rows(r, p, s.first, s.count, r->cosine, r->sine, err);
    *out = 0;
    for (int k = 0; k < s.keys && !status; k++) {
        status = program_rows(r, p, s.key[k], 1, r->key, r->key + n, err);
        if (!status) *out = fmax(*out, movement(r, s.count, r->exact_key + 2 * k * n));
    }
    return status;
}

/* out = number i of those with two digits before their zeros: 1 .. 99, 100, 110 .. 990, 1000, 1100 ... */
static int64_t two_digits(int i) {
    int64_t unit = 10;
    if (i < 99) return i + 1;
    for (i -= 99; i >= 90; i -= 90)
        unit *= 10;
    return (i + 10) * unit;
}

/* Number i of the positions that are searched. */
static int64_t searched_at(const explain_accuracy *a, int i) {
    return two_digits(i) < a->search_end ? two_digits(i) : a->search_end;
}

/* From the far end, so that a lucky position in between does not count.  moves[p] = the lowest that moves scores, -1 = none;
 * still[p] = the one that ended the search, -1 = none. */
static gyre_status search_octaves(explain_accuracy *out, angle_rows *r, int moves[], int still[], gyre_error *err) {
    int searched[ACCURACY_PROGRAMS], last = 0;
    gyre_status status = GYRE_OK;
    for (int p = 0; p < ACCURACY_PROGRAMS; p++) {
        searched[p] = r->program[p] != NULL;
        moves[p] = still[p] = -1;
    }
    while (two_digits(last) < out->search_end)
        last++;
    const int of_doubling = (int)out->search_of_doubling;
    int left = ACCURACY_PROGRAMS;
    for (int part = of_doubling * LONGEST_LOG2, i = last, before = -1; left > 0 && part >= 0 && !status;
         part--, before = i) {
        while (i > 0 && (double)two_digits(i - 1) >= exp2((double)part / of_doubling))
            i--;
        if (i == before) continue;
        const int64_t position = searched_at(out, i);
        if (out->follows_length) status = reopen_programs(out, r, position + 1, err);
        if (!status) status = exact_scores(out, r, position, err);
        left = 0;
        for (int p = 0; p < ACCURACY_PROGRAMS && !status; p++) {
            double moved = 0;
            if (!searched[p]) continue;
            status = most_movement(out, r, p, position, &moved, err);
            left += searched[p] = moved > out->rounding;
            *(searched[p] ? &moves[p] : &still[p]) = i;
        }
    }
    return status;
}

static gyre_status find_movements(explain_accuracy *out, angle_rows *r, gyre_error *err) {
    int moves[ACCURACY_PROGRAMS], still[ACCURACY_PROGRAMS];
    gyre_status status = search_octaves(out, r, moves, still, err);
    for (int p = 0; p < ACCURACY_PROGRAMS && !status; p++) {
        while (moves[p] - still[p] > 1 && !status) {
            const int middle = (moves[p] + still[p]) / 2;
            const int64_t position = searched_at(out, middle);
            double moved = 0;
            if (out->follows_length) status = reopen_program(out, r, p, position + 1, err);
            if (!status) status = exact_scores(out, r, position, err);
            if (!status) status = most_movement(out, r, p, position, &moved, err);
            *(moved > out->rounding ? &moves[p] : &still[p]) = middle;
        }
        if (moves[p] >= 0) out->moves_from[p] = searched_at(out, moves[p]);
    }
    return status;
}

/* -- the attention factor -- */
/* Every cos and sin of a table has it, so those of pairs that do not rotate are its rounding, and a score has it twice. */
static void round_factors(explain_accuracy *out) {
    for (int p = 0; p < ACCURACY_PROGRAMS; p++) {
        const int bits = programs[p].fraction;
        if (bits == 0 || out->reason[p][0]) continue;
        const double unit = exp2(ilogb(out->attention_factor) - bits);
        const double rounded = out->table_factor[p] = rint(out->attention_factor / unit) * unit;
        out->factor_moves[p] = fabs(rounded / out->attention_factor * (rounded / out->attention_factor) - 1);
    }
}

/* -- all of it -- */
static void add_length(explain_accuracy *out, int64_t length) {
    int i = out->count;
    for (int j = 0; j < out->count; j++)
        if (out->lengths[j] == length) return;
    if (length < 1) return;
    for (; i > 0 && out->lengths[i - 1] > length; i--)
        out->lengths[i] = out->lengths[i - 1];
    out->lengths[i] = length;
    out->count++;
}

/* Dynamic scalings and LongRoPE change at lengths that the search meets, if at all: a reader that chooses a list once gives
 * the same list twice. */
static gyre_status find_following(explain_accuracy *out, const angle_rows *r, gyre_error *err) {
    double *const short_context = r->cosine, *const long_context = r->sine;
    gyre_encoding *exact = NULL;
    gyre_status status = gyre_encoding_create(&exact, r->config, NULL, err);
    if (!status) status = gyre_encoding_frequencies(exact, 0, NULL, &out->attention_factor);
    if (!status) status = gyre_encoding_frequencies(exact, 1, short_context, NULL);
    if (!status) status = gyre_encoding_frequencies(exact, INT64_C(1) << LONGEST_LOG2, long_context, NULL);
    gyre_encoding_free(exact);
    for (int64_t i = 0; i < r->pairs && !status; i++)
        out->follows_length |= short_context[i] != long_context[i];
    return status;
}

static void clear_cache(explain_accuracy *out, int c) {
    out->kept[c] = NAN;
    for (int s = 0; s < ACCURACY_SHIFTS; s++)
        out->shifted[c][s] = NAN;
}

/* out = 1 if a program that has this path does not run such layers. */
static int is_left_out(const explain_accuracy *a, gyre_angle_path path) {
    int left = 0;
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        left |= programs[p].path == path && a->reason[p][0] != 0;
    return left;
}

/* Caches of programs that do not run such layers; gyre_cache keeps no rotated keys of xPos. */
static void clear_caches(explain_accuracy *out, const angle_rows *r) {
    for (int c = 0; c < ACCURACY_CACHES; c++) {
        const int is_other = strcmp(explain_accuracy_cache(c), "llama.cpp") == 0;
        /* llama.cpp has Self-Extend, only Gyre has no path for it. */
        const int lacks = r->config->rope.far != GYRE_FAR_GROUPED && is_left_out(out, GYRE_ANGLE_PATH_LLAMA_CPP);
        if (is_other ? lacks : r->has_xpos) clear_cache(out, c);
    }
}

/* Reasons alone. */
static gyre_status measure_nothing(explain_accuracy *out) {
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        snprintf(out->reason[p], ACCURACY_REASON, "the frequencies are in the weights");
    for (int c = 0; c < ACCURACY_CACHES; c++)
        clear_cache(out, c);
    out->rounding = NAN;
    return GYRE_OK;
}

static gyre_status measure(explain_accuracy *out, angle_rows *r, int64_t pairs, gyre_error *err) {
    gyre_status status = find_following(out, r, err);
    choose_positions(out, pairs);
    choose_search(out, pairs);
    if (!status) status = explain_accuracy_of_caches(out, r->config, err);
    if (!status && !out->follows_length) status = open_programs(out, r, 0, err);
    if (!status) status = measure_errors(out, r, err);
    if (!status) status = find_movements(out, r, err);
    close_programs(r);
    round_factors(out);
    clear_caches(out, r);
    return status;
}

/* Blocks of rows; those of exact_key are two of them. */
enum { ROW_BLOCKS = 9 };

static gyre_status measure_in(explain_accuracy *out, angle_rows *r, int64_t pairs, double *memory, float *floats,
                              gyre_error *err) {
    const int64_t block = BLOCK * r->pairs, channels = r->config->head_dim;
    double **const rows[] = {&r->cosine,      &r->sine,      &r->exact_cosine, &r->exact_sine,
                             &r->step_cosine, &r->step_sine, &r->key,          &r->exact_key};
    for (int i = 0; i < ROW_BLOCKS - 1; i++)
        *rows[i] = memory + i * block;
    r->unit = floats;
    r->turned = floats + BLOCK * channels;
    for (int64_t t = 0; t < BLOCK; t++)
        for (int64_t i = 0; i < r->pairs; i++) {
            int64_t x, y;
            channels_of(&r->config->rope, 0, i, &x, &y);
            r->unit[t * channels + x] = 1;
        }
    return measure(out, r, pairs, err);
}

/* out = the largest position of an angle under Dual Chunk Attention (gyre_far in gyre.h); 0 = each position has its own. */
static int64_t largest_position_of(const gyre_config *config) {
    const int64_t all = 2 * (config->rope.chunk.size - config->rope.chunk.local) - 1;
    const int64_t cap = config->rope.chunk.size - (config->rope.far == GYRE_FAR_CHUNKED_PAPER);
    if (config->rope.far != GYRE_FAR_CHUNKED && config->rope.far != GYRE_FAR_CHUNKED_PAPER) return 0;
    return cap < all ? cap : all;
}

/* 1: layers have a part that makes queries and keys, before the encoding's rotation (0) or in its place (1). */
static int has_head_part(const explain_stats *stats, int replaces) {
    const gyre_head_part_facts *part;
    for (int i = 0; stats->group && (part = gyre_head_part_facts_at(i)); i++)
        if (part->replaces_rotation == replaces && explain_find_field(stats->group, part->key)) return 1;
    return 0;
}

/* out = why no program but Gyre runs such layers; NULL = others may. */
static const char *lack_of_others(const explain_stats *stats) {
    const struct gyre_rope_config *rope = &stats->config->rope;
    if (has_head_part(stats, 0)) return "it has no such layers";
    if (rope->xpos_base > 0) return "it has no xPos";
    return rope->far == GYRE_FAR_CLAMPED   ? "it has no ReRoPE"
           : rope->far == GYRE_FAR_LEAKY   ? "it has no leaky ReRoPE"
           : rope->far == GYRE_FAR_GROUPED ? "it has no Self-Extend"
                                           : NULL;
}

static int turns_in_weights(const explain_stats *stats) {
    return has_head_part(stats, 1);
}

/* pairs: those of the head, or more where many heads share the work. */
static gyre_status compute(explain_accuracy *out, const explain_stats *stats, int64_t pairs, gyre_error *err) {
    memset(out, 0, sizeof *out);
    for (int64_t length = 4096; length <= 131072; length *= length < 32768 ? 8 : 4)
        add_length(out, length);
    add_length(out, 1 << 20);
    add_length(out, stats->max_length > 0 ? stats->max_length : stats->trained);
    /* What multiplies queries and keys beside cos and sin is not measured: magnitudes, temperature, the factor of chunks. */
    gyre_config config = *stats->config;
    config.rope.angles = GYRE_ANGLE_PATH_EXACT;
    config.rope.table_positions = GYRE_NO_TABLE;
    config.rope.xpos_base = 0;
    config.query.temperature = GYRE_TEMPERATURE_NONE;
    config.rope.chunk.original_length = 0;
    gyre_config_clear_unused(&config);
    if (config.context_length == 0) config.context_length = config.trained_length; /* for positions past it, too */
    out->largest_position = largest_position_of(&config);
    out->search_end = out->largest_position > 0 ? out->largest_position : INT64_C(1) << LONGEST_LOG2;
    choose_positions(out, pairs);
    choose_search(out, pairs);
    if ((out->turns_in_weights = turns_in_weights(stats))) return measure_nothing(out);
    angle_rows rows = {.config = &config,
                       .others_lack = lack_of_others(stats),
                       .has_xpos = stats->config->rope.xpos_base > 0,
                       .pairs = stats->pairs,
                       .angles = &out->angles};
    double *memory = calloc((size_t)(ROW_BLOCKS * BLOCK * rows.pairs), sizeof *memory);
    float *floats = calloc((size_t)(2 * BLOCK * config.head_dim), sizeof *floats);
    const gyre_status status = memory && floats ? measure_in(out, &rows, pairs, memory, floats, err)
                                                : gyre_fail(err, GYRE_ENOMEM, "angles: out of memory (explain)");
    free(memory);
    free(floats);
    return status;
}

/* -- several groups -- */
static int same_numbers(const double *a, const double *b, int64_t count) {
    return a == b || (a && b && memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

static int same_bytes(const void *a, const void *b, size_t size) {
    return memcmp(a, b, size) == 0;
}

/* out = 1 if both have the same accuracy.  0 may also mean that they differ in what does not change it. */
static int turn_alike(const explain_stats *a, const explain_stats *b) {
    gyre_config x = *a->config, y = *b->config;
    if (a->pairs != b->pairs || a->trained != b->trained || a->max_length != b->max_length ||
        turns_in_weights(a) != turns_in_weights(b) || lack_of_others(a) != lack_of_others(b))
        return 0;
    if (!same_numbers(x.rope.frequencies, y.rope.frequencies, a->pairs) ||
        !same_numbers(x.rope.short_factor, y.rope.short_factor, a->pairs) ||
        !same_numbers(x.rope.long_factor, y.rope.long_factor, a->pairs))
        return 0;
    x.rope.frequencies = y.rope.frequencies = NULL;
    x.rope.short_factor = x.rope.long_factor = y.rope.short_factor = y.rope.long_factor = NULL;
    x.heads = y.heads = 0;
    return same_bytes(&x, &y, sizeof x);
}

/* out = the first group that rotates as group i does. */
static int first_alike(const explain_stats *const *stats, int i) {
    int first = 0;
    while (first < i && (stats[first]->pairs == 0 || !turn_alike(stats[first], stats[i])))
        first++;
    return first;
}

gyre_status explain_accuracy_compute(explain_accuracy **made, const explain_stats *const *stats, int count,
                                     gyre_error *err) {
    int64_t all = 0;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < count; i++) {
        made[i] = NULL;
        if (stats[i]->pairs > 0 && first_alike(stats, i) == i) all += stats[i]->pairs;
    }
    if (all > ACCURACY_MOST_PAIRS)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "--accuracy: %lld pairs in all kinds of layers; the most is %d; --layer-type picks some (explain)",
                         (long long)all, ACCURACY_MOST_PAIRS);
    for (int i = 0; i < count && !status; i++) {
        if (stats[i]->pairs == 0) continue;
        const int first = first_alike(stats, i);
        made[i] = first < i ? made[first] : malloc(sizeof **made);
        if (!made[i]) return gyre_fail(err, GYRE_ENOMEM, "accuracy: out of memory (explain)");
        const int64_t share = all / 4;
        if (first == i) status = compute(made[i], stats[i], stats[i]->pairs > share ? stats[i]->pairs : share, err);
    }
    return status;
}

void explain_accuracy_free(explain_accuracy **made, int count) {
    for (int i = 0; i < count; i++) {
        int first = 0;
        while (made[first] != made[i])
            first++;
        if (first < i) made[i] = NULL; /* shared with the first, which is freed after it */
    }
    for (int i = 0; i < count; i++)
        free(made[i]);
}

/* -- two of them -- */
static int equal_numbers(const double *a, const double *b, int count) {
    int equal = 1;
    for (int i = 0; i < count; i++)
        equal &= a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
    return equal;
}

static int equal_programs(const explain_accuracy *a, const explain_accuracy *b, int p) {
    return strcmp(a->reason[p], b->reason[p]) == 0 && equal_numbers(a->error[p], b->error[p], a->count) &&
           a->moves_from[p] == b->moves_from[p] && equal_numbers(&a->table_factor[p], &b->table_factor[p], 1) &&
           equal_numbers(&a->factor_moves[p], &b->factor_moves[p], 1);
}

int explain_accuracy_equal(const explain_accuracy *a, const explain_accuracy *b) {
    int equal = a->count == b->count && a->every == b->every && a->of_octave == b->of_octave && a->last == b->last &&
                a->largest_position == b->largest_position && a->follows_length == b->follows_length &&
                a->turns_in_weights == b->turns_in_weights && a->search_end == b->search_end && a->keys == b->keys &&
                a->search_of_doubling == b->search_of_doubling && a->search_queries == b->search_queries &&
                a->distance_ratio == b->distance_ratio && equal_numbers(&a->attention_factor, &b->attention_factor, 1) &&
                equal_numbers(&a->rounding, &b->rounding, 1) && equal_numbers(a->kept, b->kept, ACCURACY_CACHES);
    for (int i = 0; i < a->count && equal; i++)
        equal = a->lengths[i] == b->lengths[i];
    for (int p = 0; p < ACCURACY_PROGRAMS && equal; p++)
        equal = equal_programs(a, b, p);
    for (int c = 0; c < ACCURACY_CACHES && equal; c++)
        equal = equal_numbers(a->shifted[c], b->shifted[c], ACCURACY_SHIFTS);
    return equal;
}

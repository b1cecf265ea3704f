/* show_rotation.c: RoPE on one vector: the matrix of each pair, the companion vector of each layout, the length,
 * which stays, and the score of two rotated vectors, which depends on their distance alone. */
#include "tools/show/show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUTS = 2, DISTANCES = 5, STARTS = 3, SHOWN_PAIRS = 4, VECTORS = 8 };
static const char *const layout_names[LAYOUTS] = {"half", "interleaved"};
static const gyre_layout layouts[LAYOUTS] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED};
static const int64_t distances[DISTANCES] = {0, 1, -1, 10, 1000};
static const int64_t starts[STARTS] = {1000, 50000, 1000000}; /* of the query; the key is a distance further */

/* Vectors of dim channels. */
typedef struct rotation_result {
    int64_t dim, position;
    double *x, *cosine, *sine; /* x: 1, 2, 3, ...; cosine and sine: of each pair */
    double *companion[LAYOUTS], *rotated[LAYOUTS];
    double length, lengths[LAYOUTS];
    double permuted; /* largest difference of the interleaved result from the half result of permuted channels */
    double scores[LAYOUTS][DISTANCES][STARTS], spread;
} rotation_result;

/* out = the channel that is member 0 or 1 of a pair. */
static int64_t channel(gyre_layout layout, int64_t dim, int64_t pair, int member) {
    return layout == GYRE_LAYOUT_HALF ? pair + member * dim / 2 : 2 * pair + member;
}

static double dot(const double *a, const double *b, int64_t dim) {
    double sum = 0;
    for (int64_t c = 0; c < dim; c++)
        sum += a[c] * b[c];
    return sum;
}

static gyre_status rotate(const show_options *o, const gyre_encoding *rope, int64_t at, const double *x, double *out,
                          gyre_error *err) {
    const gyre_positions positions = {.base = at};
    const gyre_view view = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, 1, o->dim);
    memcpy(out, x, (size_t)o->dim * sizeof *x);
    return gyre_rotate(
        rope,
        GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = gyre_const(view), .out = view),
        &o->exec, err);
}

/* Scores of one random query and key.  work: 4 vectors. */
static gyre_status score(const show_options *o, const gyre_encoding *rope, double scores[DISTANCES][STARTS], double *work,
                         gyre_error *err) {
    double *const q = work, *const k = q + o->dim, *const q2 = k + o->dim, *const k2 = q2 + o->dim;
    uint64_t random = 1;
    gyre_status status = GYRE_OK;
    for (int64_t c = 0; c < o->dim; c++)
        q[c] = show_random(&random), k[c] = show_random(&random);
    for (int d = 0; d < DISTANCES; d++)
        for (int s = 0; s < STARTS && !status; s++) {
            status = rotate(o, rope, starts[s], q, q2, err);
            if (!status) status = rotate(o, rope, starts[s] + distances[d], k, k2, err);
            if (!status) scores[d][s] = dot(q2, k2, o->dim);
        }
    return status;
}

static gyre_status measure_layout(const show_options *o, int l, rotation_result *r, double *work, gyre_error *err) {
    const gyre_positions at = {.base = o->position};
    const gyre_view c = gyre_dense(r->cosine, GYRE_DTYPE_F64, 1, 1, 1, o->dim / 2),
                    s = gyre_dense(r->sine, GYRE_DTYPE_F64, 1, 1, 1, o->dim / 2);
    gyre_encoding *rope = NULL;
    gyre_status status = gyre_rope_create(&rope, o->dim, o->base, layouts[l], err);
    if (!status) status = gyre_cos_sin(rope, &at, &c, &s, NULL, err);
    if (!status) status = rotate(o, rope, o->position, r->x, r->rotated[l], err);
    if (!status) status = score(o, rope, r->scores[l], work, err);
    for (int64_t i = 0; i < o->dim / 2 && !status; i++) {
        const int64_t first = channel(layouts[l], o->dim, i, 0), second = channel(layouts[l], o->dim, i, 1);
        r->companion[l][first] = -r->x[second];
        r->companion[l][second] = r->x[first];
    }
    if (!status) r->lengths[l] = sqrt(dot(r->rotated[l], r->rotated[l], o->dim));
    for (int d = 0; d < DISTANCES && !status; d++)
        for (int i = 1; i < STARTS; i++)
            r->spread = fmax(r->spread, fabs(r->scores[l][d][i] - r->scores[l][d][0]));
    gyre_encoding_free(rope);
    return status;
}

/* Puts the members of each interleaved pair where half has them, rotates, and compares.  work: 2 vectors. */
static gyre_status compare_layouts(const show_options *o, rotation_result *r, double *work, gyre_error *err) {
    double *const moved = work, *const turned = moved + o->dim;
    gyre_encoding *rope = NULL;
    gyre_status status = gyre_rope_create(&rope, o->dim, o->base, GYRE_LAYOUT_HALF, err);
    for (int64_t c = 0; c < o->dim; c++)
        moved[channel(GYRE_LAYOUT_HALF, o->dim, c / 2, c % 2)] = r->x[c];
    if (!status) status = rotate(o, rope, o->position, moved, turned, err);
    for (int64_t c = 0; c < o->dim && !status; c++)
        r->permuted = fmax(r->permuted, fabs(turned[channel(GYRE_LAYOUT_HALF, o->dim, c / 2, c % 2)] - r->rotated[1][c]));
    gyre_encoding_free(rope);
    return status;
}

static void print_pairs(const show_options *o, const rotation_result *r, FILE *text) {
    const int64_t shown = o->dim / 2 < SHOWN_PAIRS ? o->dim / 2 : SHOWN_PAIRS;
    fprintf(text, "  pair         theta      m theta   R_m = cos -sin; sin cos\n");
    for (int64_t i = 0; i < shown; i++) {
        const double theta = pow(o->base, -2.0 * (double)i / (double)o->dim);
        fprintf(text, "  %-4lld  %12.6f %12.6f   %9.6f %9.6f; %9.6f %9.6f\n", (long long)i, theta,
                (double)o->position * theta, r->cosine[i], -r->sine[i], r->sine[i], r->cosine[i]);
    }
    for (int l = 0; l < LAYOUTS; l++) {
        fprintf(text, "\n  %-12s pair           x       companion         R_m x = x cos + companion sin\n", layout_names[l]);
        for (int64_t i = 0; i < shown; i++) {
            const int64_t a = channel(layouts[l], o->dim, i, 0), b = channel(layouts[l], o->dim, i, 1);
            fprintf(text, "  channels %2lld, %-4lld %-5lld %4g %4g      %5g %5g        %9.4f %9.4f\n", (long long)a,
                    (long long)b, (long long)i, r->x[a], r->x[b], r->companion[l][a], r->companion[l][b], r->rotated[l][a],
                    r->rotated[l][b]);
        }
    }
}

static void print(const show_options *o, const rotation_result *r, FILE *text) {
    const long long pairs = o->dim / 2;
    fprintf(text, "RoPE turns x = (1, 2");
    if (o->dim == 4) fprintf(text, ", 3, 4");
    if (o->dim > 4) fprintf(text, ", ..., %lld", (long long)o->dim);
    fprintf(text, ") at position m = %lld: %lld pair%s%s, base %g.\n\n", (long long)o->position, pairs,
            pairs == 1 ? "" : "s", pairs > SHOWN_PAIRS ? " (four shown)" : "", o->base);
    print_pairs(o, r, text);
    fprintf(text, "\n  length          |x| %.4f      |R_m x| %.4f half, %.4f interleaved\n", r->length, r->lengths[0],
            r->lengths[1]);
    fprintf(text, "\n  score R_m q . R_n k, half\n  n - m     m = %-10lld  m = %-10lld  m = %lld\n", (long long)starts[0],
            (long long)starts[1], (long long)starts[2]);
    for (int d = 0; d < DISTANCES; d++)
        fprintf(text, "  %-8lld %11.6f %15.6f %15.6f\n", (long long)distances[d], r->scores[0][d][0], r->scores[0][d][1],
                r->scores[0][d][2]);
    fprintf(
        text,
        "\nThe score depends on the distance alone: the largest difference along a row, in both layouts, is %.1e. The "
        "layouts are one rotation of differently ordered channels: with the channels of interleaved pairs moved to those "
        "of half, the results differ by %.1e. q and k are random, in double.\n",
        r->spread, r->permuted);
}

static json_t *json_of_layout(const rotation_result *r, int l) {
    json_t *scores = json_array();
    for (int d = 0; d < DISTANCES; d++)
        scores = cli_json_append(scores, cli_json_numbers(r->scores[l][d], STARTS));
    return JSON_OBJECT("companion", cli_json_numbers(r->companion[l], r->dim), "rotated",
                       cli_json_numbers(r->rotated[l], r->dim), "length", JSON(r->lengths[l]), "scores", scores);
}

static json_t *json_of(const show_options *o, const rotation_result *r) {
    return JSON_OBJECT("question", JSON("rotation"), "dim", JSON(o->dim), "base", JSON(o->base), "position",
                       JSON(o->position), "cos", cli_json_numbers(r->cosine, o->dim / 2), "sin",
                       cli_json_numbers(r->sine, o->dim / 2), "x", cli_json_numbers(r->x, o->dim), "length", JSON(r->length),
                       "half", json_of_layout(r, 0), "interleaved", json_of_layout(r, 1), "distances",
                       cli_json_integers(distances, DISTANCES), "starts", cli_json_integers(starts, STARTS), "score_spread",
                       JSON(r->spread), "permuted_difference", JSON(r->permuted));
}

gyre_status show_rotation(const show_options *o, FILE *text, json_t **out, gyre_error *err) {
    double *memory = cli_alloc((VECTORS + 4) * o->dim, sizeof *memory), *next = memory;
    rotation_result r = {.dim = o->dim, .position = o->position};
    double **const vectors[VECTORS] = {&r.x,          &r.cosine,     &r.sine, &r.companion[0], &r.companion[1],
                                       &r.rotated[0], &r.rotated[1], NULL};
    for (int v = 0; vectors[v]; v++, next += o->dim)
        *vectors[v] = next;
    for (int64_t c = 0; c < o->dim; c++)
        r.x[c] = (double)(c + 1);
    r.length = sqrt(dot(r.x, r.x, o->dim));
    gyre_status status = GYRE_OK;
    for (int l = 0; l < LAYOUTS && !status; l++)
        status = measure_layout(o, l, &r, next, err);
    if (!status) status = compare_layouts(o, &r, next, err);
    if (!status && text)
        print(o, &r, text);
    else if (!status)
        *out = json_of(o, &r);
    free(memory);
    return status;
}

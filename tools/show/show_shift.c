/* show_shift.c: PE(p + k) = M_k PE(p), with one matrix M_k for all p, which shift_rows applies. */
#include "tools/common/variants.h"
#include "tools/show/show.h"
#include <math.h>
#include <stdlib.h>

enum { SHIFTS = 4, ROWS = 1024 };
static const int64_t shifts[SHIFTS] = {1, 10, 1000, 100000};

typedef struct shift_result {
    double error[SHIFTS]; /* max |PE(p + k) - M_k PE(p)| over p and channels */
    double alone[SHIFTS]; /* the same for the best factor of each sine without its cosine */
} shift_result;

/* out = the largest error of sin((p + k) theta) = c sin(p theta), with the c of least squares for each sine. */
static double error_of_sines(const double *rows, const double *later, int64_t count, int64_t dim) {
    double most = 0;
    for (int64_t c = 0; c < dim; c += 2) {
        double product = 0, square = 0;
        for (int64_t p = 0; p < count; p++) {
            product += rows[p * dim + c] * later[p * dim + c];
            square += rows[p * dim + c] * rows[p * dim + c];
        }
        for (int64_t p = 0; p < count && square > 0; p++)
            most = fmax(most, fabs(later[p * dim + c] - product / square * rows[p * dim + c]));
    }
    return most;
}

/* rows: PE(0) .. PE(ROWS - 1).  later, turned: memory of the same size. */
static gyre_status measure(const show_options *o, const gyre_encoding *pe, const gyre_encoding *turn, const double *rows,
                           double *later, double *turned, shift_result *r, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int i = 0; i < SHIFTS && !status; i++) {
        status = sinusoid_rows(pe, shifts[i], ROWS, later, &o->exec, err);
        if (!status) status = shift_rows(turn, shifts[i], rows, ROWS, turned, &o->exec, err);
        for (int64_t c = 0; c < ROWS * o->dim && !status; c++)
            r->error[i] = fmax(r->error[i], fabs(later[c] - turned[c]));
        if (!status) r->alone[i] = error_of_sines(rows, later, ROWS, o->dim);
    }
    return status;
}

static void print(const show_options *o, const double *cosine, const double *sine, const shift_result *r, FILE *text) {
    fprintf(text, "PE(p + k) = M_k PE(p): one matrix M_k for all p, of %lld blocks [cos k theta, sin k theta; -sin, cos].\n",
            (long long)o->dim / 2);
    fprintf(text, "\n  M_1, first blocks       theta         cos         sin\n");
    for (int64_t i = 0; i < o->dim / 2 && i < 4; i++)
        fprintf(text, "  pair %-4lld          %11.6f %11.6f %11.6f\n", (long long)i,
                pow(o->base, -2.0 * (double)i / (double)o->dim), cosine[i], sine[i]);
    fprintf(text, "\n  k        |PE(p + k) - M_k PE(p)|   the best factor for each sine alone\n");
    for (int i = 0; i < SHIFTS; i++)
        fprintf(text, "  %-8lld %.1e                   %.3f\n", (long long)shifts[i], r->error[i], r->alone[i]);
    fprintf(
        text,
        "\nLargest differences over p = 0 .. %d and %lld channels, base %g, in double. Without its cosine no sine can be "
        "shifted by a matrix: that is why they come in pairs.\n",
        ROWS - 1, (long long)o->dim, o->base);
}

static json_t *json_of(const show_options *o, const shift_result *r) {
    return JSON_OBJECT("question", JSON("shift"), "dim", JSON(o->dim), "base", JSON(o->base), "positions", JSON(ROWS), "k",
                       cli_json_integers(shifts, SHIFTS), "error", cli_json_numbers(r->error, SHIFTS), "sines_alone",
                       cli_json_numbers(r->alone, SHIFTS));
}

gyre_status show_shift(const show_options *o, FILE *text, json_t **out, gyre_error *err) {
    const int64_t size = ROWS * o->dim;
    double *memory = cli_alloc(3 * size + o->dim, sizeof *memory);
    double *const rows = memory, *const later = rows + size, *const turned = later + size, *const cosine = turned + size;
    gyre_encoding *pe = NULL, *turn = NULL;
    shift_result r = {{0}, {0}};
    const gyre_positions one = {.base = 1};
    gyre_status status = sinusoid_create(&pe, o->dim, o->base, GYRE_SINUSOID_INTERLEAVED, err);
    if (!status) status = shift_create(&turn, o->dim, o->base, 1, 1, err);
    if (!status) status = sinusoid_rows(pe, 0, ROWS, rows, &o->exec, err);
    if (!status) status = measure(o, pe, turn, rows, later, turned, &r, err);
    if (!status) {
        const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, 1, 1, o->dim / 2),
                        s = gyre_dense(cosine + o->dim / 2, GYRE_DTYPE_F64, 1, 1, 1, o->dim / 2);
        status = gyre_cos_sin(turn, &one, &c, &s, NULL, err);
    }
    for (int64_t i = 0; i < o->dim / 2 && !status; i++) /* the rotation is clockwise */
        cosine[o->dim / 2 + i] = -cosine[o->dim / 2 + i];
    if (!status && text)
        print(o, cosine, cosine + o->dim / 2, &r, text);
    else if (!status)
        *out = json_of(o, &r);
    gyre_encoding_free(pe);
    gyre_encoding_free(turn);
    free(memory);
    return status;
}

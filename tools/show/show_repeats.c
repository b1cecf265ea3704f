/* show_repeats.c: whether rows of a sinusoid repeat.  By PE(p + k) = M_k PE(p) with M_k orthogonal, the distance of two rows
 * depends on k alone, so the distances from row 0 are those of all pairs of rows.  A sample of pairs confirms it. */
#include "tools/common/variants.h"
#include "tools/show/show.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 2048, FROMS = 6, PAIRS = 1000, POSITIONS = 1000000 };
static const int64_t froms[FROMS] = {1, 10, 100, 1000, 10000, 100000};

typedef struct repeats_result {
    double least[FROMS]; /* distance of two rows at least froms[i] apart */
    int64_t at[FROMS];
    double off; /* largest |distance of rows p and q - distance of rows 0 and q - p| over the sample */
} repeats_result;

static double distance(const double *a, const double *b, int64_t dim) {
    double sum = 0;
    for (int64_t c = 0; c < dim; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrt(sum);
}

static gyre_status measure(const show_options *o, const gyre_encoding *pe, int64_t positions, double *rows,
                           repeats_result *r, gyre_error *err) {
    double *const zero = rows + CHUNK * o->dim;
    cli_progress progress;
    gyre_status status = sinusoid_rows(pe, 0, 1, zero, &o->exec, err);
    cli_progress_begin(&progress, "repeats", "positions", positions);
    for (int f = 0; f < FROMS; f++)
        r->least[f] = INFINITY;
    for (int64_t first = 1; first < positions && !status; first += CHUNK) {
        const int64_t count = positions - first < CHUNK ? positions - first : CHUNK;
        status = sinusoid_rows(pe, first, count, rows, &o->exec, err);
        for (int64_t i = 0; i < count && !status; i++) {
            const double d = distance(zero, rows + i * o->dim, o->dim);
            for (int f = 0; f < FROMS && first + i >= froms[f]; f++)
                if (d < r->least[f]) r->least[f] = d, r->at[f] = first + i;
        }
        cli_progress_step(&progress, count, positions);
    }
    cli_progress_end(&progress);
    return status;
}

static gyre_status sample(const show_options *o, const gyre_encoding *pe, int64_t positions, double *rows, repeats_result *r,
                          gyre_error *err) {
    uint64_t random = 1;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < PAIRS && !status; i++) {
        const int64_t p = (int64_t)(fabs(show_random(&random)) * (double)positions),
                      q = (int64_t)(fabs(show_random(&random)) * (double)positions), low = p < q ? p : q;
        const int64_t at[4] = {p, q, 0, p + q - 2 * low};
        for (int j = 0; j < 4 && !status; j++)
            status = sinusoid_rows(pe, at[j], 1, rows + j * o->dim, &o->exec, err);
        if (!status)
            r->off = fmax(r->off, fabs(distance(rows, rows + o->dim, o->dim) -
                                       distance(rows + 2 * o->dim, rows + 3 * o->dim, o->dim)));
    }
    return status;
}

static void print(const show_options *o, int64_t positions, const repeats_result *r, FILE *text) {
    const double apart = sqrt((double)o->dim), rounding = apart * 0x1p-25;
    fprintf(text, "%s of the %lld rows of a sinusoid of %lld channels, base %g, are equal%s.\n",
            r->least[0] > 2 * rounding ? "No two" : "Some", (long long)positions, (long long)o->dim, o->base,
            r->least[0] > 2 * rounding ? "" : " to the precision of float");
    fprintf(text, "\n  positions apart     least distance   at\n");
    for (int f = 0; f < FROMS && froms[f] < positions; f++)
        fprintf(text, r->least[f] < 1e-3 ? "  from %-9lld      %-14.1e   %lld\n" : "  from %-9lld      %-14.4f   %lld\n",
                (long long)froms[f], r->least[f], (long long)r->at[f]);
    fprintf(text,
            "\nDistances in double from row 0; those of %d random pairs of rows differ from them by at most %.1e. Unrelated "
            "rows are %.1f apart. Rounding rows to float moves them by %.1e. ",
            PAIRS, r->off, apart, rounding);
    const double turn = 2 * acos(-1) * pow(o->base, 1 - 2 / (double)o->dim);
    if (o->dim > 2)
        fprintf(text, "The slowest pair returns after %.0f positions, the others have not returned with it.\n", turn);
    else
        fprintf(text, "The only pair turns once in %.2f positions, and no whole number of turns is one of positions.\n",
                turn);
}

gyre_status show_repeats(const show_options *o, FILE *text, json_t **out, gyre_error *err) {
    const int64_t positions = o->positions ? o->positions : POSITIONS;
    double *rows = cli_alloc((CHUNK + 1) * o->dim, sizeof *rows);
    gyre_encoding *pe = NULL;
    repeats_result r = {.off = 0};
    int count = 0;
    gyre_status status = sinusoid_create(&pe, o->dim, o->base, GYRE_SINUSOID_INTERLEAVED, err);
    if (!status) status = measure(o, pe, positions, rows, &r, err);
    if (!status) status = sample(o, pe, positions, rows, &r, err);
    while (count < FROMS && froms[count] < positions)
        count++;
    if (!status && text)
        print(o, positions, &r, text);
    else if (!status)
        *out = JSON_OBJECT("question", JSON("repeats"), "dim", JSON(o->dim), "base", JSON(o->base), "positions",
                           JSON(positions), "apart", cli_json_integers(froms, count), "least_distance",
                           cli_json_numbers(r.least, count), "at", cli_json_integers(r.at, count), "sample_off_by",
                           JSON(r.off));
    gyre_encoding_free(pe);
    free(rows);
    return status;
}

/* fire.c: f(psi(d) / psi(max(m, L))) with psi(x) = ln(c x + 1), d = |m - n|, and f a network of one input, one hidden layer
 * of ReLUs and one output for each head.  c and L enter by magnitude, as in the authors' code, and keys after the query
 * count by their distance, as there.
 *
 * A network of one input is made of straight pieces: past the bend of each hidden unit the next begins.  So a head's pieces
 * are listed once, and a pair costs finding its piece, which is mostly that of the key before. */
#include "core/convert.h"
#include "core/view.h"
#include "encodings/schemes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 256, NUMBERS = 3 * MAX_WIDTH + 3, STORED = 256 };

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; FIRE has a network for each (gyre_config)");
    if (score->width == 0) score->width = 32;
    if (score->width > MAX_WIDTH)
        return gyre_fail(err, GYRE_EINVAL, "score.width: %" PRId64 " is past %d hidden units (gyre_config)", score->width,
                         MAX_WIDTH);
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status != GYRE_OK) return status;
    encoding->table[GYRE_TABLE_BIAS] = (gyre_table_size){1, 3 * score->width + 3, encoding->config.heads};
    return GYRE_OK;
}

static void suggest(gyre_config *config) {
    if (config->score.width == 0) config->score.width = 32;
}

/* -- a head's numbers ---------------------------------------------------------------------------------------------- */

/* At its bend a unit stands still, so one that rises is passed beyond it, one that falls at it. */
typedef struct bend {
    double at;
    int falls, unit;
} bend;

typedef struct network {
    int width, bends;
    double c, threshold; /* by magnitude */
    double number[NUMBERS];
    const double *weight, *bias, *output;
    bend bend[MAX_WIDTH];                               /* from low to high */
    double slope[MAX_WIDTH + 1], offset[MAX_WIDTH + 1]; /* of the piece before bend i */
} network;

static int sooner(const bend *a, const bend *b) {
    return a->at < b->at || (a->at == b->at && a->falls > b->falls);
}

/* Lists the bends in order; *slope and *offset = the sum of the units that are at work before the first. */
static void find_bends(network *f, double *slope, double *offset) {
    *slope = 0;
    *offset = f->number[2 + 3 * f->width];
    f->bends = 0;
    for (int u = 0; u < f->width; u++) {
        const double w = f->weight[u], b = f->bias[u], a = f->output[u];
        const bend here = {-b / w, w < 0, u};
        if (w == 0) {
            *offset += a * (b <= 0 ? 0 : b);
            continue;
        }
        if (here.falls || isnan(here.at)) { /* where a number is NaN, so is the score */
            *slope += a * w;
            *offset += a * b;
        }
        if (isnan(here.at)) continue;
        int i = f->bends++;
        for (; i > 0 && sooner(&here, &f->bend[i - 1]); i--)
            f->bend[i] = f->bend[i - 1];
        f->bend[i] = here;
    }
}

static void read_network(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, network *f) {
    const gyre_cview *table = &tables->bias;
    f->width = (int)encoding->config.score.width;
    gyre_load_row_f64(gyre_cview_at(table, 0, 0, 0, head), table->dtype, table->stride[2], 3 * f->width + 3, f->number);
    f->c = fabs(f->number[0]);
    f->threshold = fabs(f->number[1]);
    f->weight = f->number + 2;
    f->bias = f->weight + f->width;
    f->output = f->bias + f->width;
    double slope, offset;
    find_bends(f, &slope, &offset);
    for (int i = 0; i < f->bends; i++) {
        const int u = f->bend[i].unit;
        const double sign = f->bend[i].falls ? -1 : 1;
        f->slope[i] = slope;
        f->offset[i] = offset;
        slope += sign * f->output[u] * f->weight[u];
        offset += sign * f->output[u] * f->bias[u];
    }
    f->slope[f->bends] = slope;
    f->offset[f->bends] = offset;
}

static int past(const bend *b, double x) {
    return b->falls ? x >= b->at : x > b->at;
}

/* The piece that x is in, looked for from `piece` on. */
static int piece_of(const network *f, double x, int piece) {
    while (piece < f->bends && past(&f->bend[piece], x))
        piece++;
    while (piece > 0 && !past(&f->bend[piece - 1], x))
        piece--;
    return piece;
}

static double distance_of(int64_t q, int64_t k) {
    return (double)llabs(q - k);
}

/* max(m, L). */
static double reach_of(const network *f, int64_t q) {
    const double m = (double)q;
    return m < f->threshold || isnan(f->threshold) ? f->threshold : m;
}

/* Where c or the reach is 0 nothing can be told apart, and every distance counts as 0. */
static double inverse_of(double psi) {
    return psi == 0 ? 0 : 1 / psi;
}

/* -- the score ------------------------------------------------------------------------------------------------------- */

static void score_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_score_row *row, double *out) {
    network f;
    int piece = 0;
    read_network(encoding, tables, row->head, &f);
    const double psi = log1p(f.c * reach_of(&f, row->q));
    for (int64_t j = 0; j < row->n; j++) {
        const double x = psi == 0 ? 0 : log1p(f.c * distance_of(row->q, row->k[j])) / psi;
        piece = piece_of(&f, x, piece);
        out[j] = f.slope[piece] * x + f.offset[piece];
    }
}

/* psi of every distance a tile may have, each found once; where those are too many, of none. */
typedef struct distances {
    int64_t low;
    int stored;
    double psi[STORED];
} distances;

static void extremes(const int64_t *x, int64_t n, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

static void list_distances(const gyre_tile *tile, double c, distances *d) {
    int64_t first_q, last_q, first_k, last_k;
    extremes(tile->q, tile->queries, &first_q, &last_q);
    extremes(tile->k, tile->keys, &first_k, &last_k);
    const int64_t ahead = last_k - first_q, behind = last_q - first_k, high = ahead > behind ? ahead : behind;
    d->low = -ahead > -behind ? -ahead : -behind;
    if (d->low < 0) d->low = 0;
    d->stored = high - d->low < STORED;
    for (int64_t i = d->low; d->stored && i <= high; i++)
        d->psi[i - d->low] = log1p(c * (double)i);
}

static void add_one_by_one(const network *f, const distances *d, const gyre_tile *tile, int64_t i, double inverse) {
    float *row = tile->scores + i * tile->ld;
    int piece = 0;
    for (int64_t j = 0; j < tile->keys; j++) {
        const int64_t far = llabs(tile->q[i] - tile->k[j]);
        const double x = inverse * (d->stored ? d->psi[far - d->low] : log1p(f->c * (double)far));
        piece = piece_of(f, x, piece);
        row[j] += (float)(f->slope[piece] * x + f->offset[piece]);
    }
}

/* to[j] += f(x[j]) where x rises or falls all along: a piece holds a run of them, whose end bisection finds. */
static void add_runs(const network *f, const double *restrict x, int64_t n, float *restrict to) {
    int piece = 0;
    for (int64_t first = 0, end; first < n; first = end) {
        piece = piece_of(f, x[first], piece);
        int64_t out = n; /* the first known to be in another piece */
        for (end = first + 1; end < out;) {
            const int64_t probe = out == n ? n - 1 : end + (out - end) / 2;
            if (piece_of(f, x[probe], piece) == piece)
                end = probe + 1;
            else
                out = probe;
        }
        const double slope = f->slope[piece], offset = f->offset[piece];
        for (int64_t j = first; j < end; j++)
            to[j] += (float)(slope * x[j] + offset);
    }
}

/* Keys at consecutive positions: those up to the query come nearer, those after it move away. */
static void add_both_ways(const network *f, const distances *d, const gyre_tile *tile, int64_t i, double inverse) {
    float *row = tile->scores + i * tile->ld;
    const int64_t n = tile->keys, gap = tile->q[i] - tile->k[0];
    const int64_t behind = gap < 0 ? 0 : gap < n ? gap + 1 : n;
    double x[STORED];
    for (int64_t j = 0; j < behind; j++)
        x[j] = inverse * d->psi[gap - d->low - j];
    for (int64_t j = behind; j < n; j++)
        x[j] = inverse * d->psi[j - gap - d->low];
    add_runs(f, x, behind, row);
    add_runs(f, x + behind, n - behind, row + behind);
}

static void score_tile(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_tile *tile) {
    network f;
    distances d;
    if (tile->queries == 0 || tile->keys == 0) return;
    read_network(encoding, tables, head, &f);
    list_distances(tile, f.c, &d);
    int steady = d.stored && tile->keys <= STORED;
    for (int64_t j = 1; j < tile->keys; j++)
        steady &= tile->k[j] == tile->k[j - 1] + 1;
    for (int64_t i = 0; i < tile->queries; i++) {
        const double inverse = inverse_of(log1p(f.c * reach_of(&f, tile->q[i])));
        if (steady)
            add_both_ways(&f, &d, tile, i, inverse);
        else
            add_one_by_one(&f, &d, tile, i, inverse);
    }
}

/* -- its gradient ---------------------------------------------------------------------------------------------------- */

/* Sums of dscore, and of dscore times x, over the pairs that a unit is at work for. */
typedef struct moments {
    double plain, times_x;
} moments;

static void add_unit(const network *f, int u, moments m, double *sum) {
    const double w = f->weight[u], b = f->bias[u], a = f->output[u];
    sum[2 + u] += a * m.times_x;
    sum[2 + f->width + u] += a * m.plain;
    sum[2 + 2 * f->width + u] += w * m.times_x + b * m.plain;
}

static void add(moments *to, moments more) {
    to->plain += more.plain;
    to->times_x += more.times_x;
}

/* A unit that falls is at work in the pieces up to its bend, one that rises in those from there on, one without a bend in
 * all or none. */
static void add_units(const network *f, const moments *piece, double *sum) {
    moments below = {0, 0}, above = {0, 0};
    for (int i = 0; i < f->bends; i++) {
        add(&below, piece[i]);
        if (f->bend[i].falls) add_unit(f, f->bend[i].unit, below, sum);
    }
    for (int i = f->bends - 1; i >= 0; i--) {
        add(&above, piece[i + 1]);
        if (!f->bend[i].falls) add_unit(f, f->bend[i].unit, above, sum);
    }
    add(&above, piece[0]);
    for (int u = 0; u < f->width; u++)
        if (f->weight[u] == 0 ? f->bias[u] > 0 : isnan(f->bias[u] / f->weight[u])) add_unit(f, u, above, sum);
    sum[2 + 3 * f->width] += above.plain;
}

static void score_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_score_row *row,
                           const double *dscore, const gyre_view *gradient, int64_t column) {
    network f;
    moments moment[MAX_WIDTH + 1];
    double sum[NUMBERS], dc = 0, dreach = 0;
    int piece = 0;
    void *at = gyre_view_at(gradient, 0, 0, 0, column);
    read_network(encoding, tables, row->head, &f);
    memset(moment, 0, (size_t)(f.bends + 1) * sizeof *moment);
    const double reach = reach_of(&f, row->q), psi = log1p(f.c * reach), inverse = inverse_of(psi);
    for (int64_t j = 0; j < row->n; j++) {
        const double far = distance_of(row->q, row->k[j]), x = psi == 0 ? 0 : log1p(f.c * far) / psi;
        piece = piece_of(&f, x, piece);
        add(&moment[piece], (moments){dscore[j], dscore[j] * x});
        const double dx = dscore[j] * f.slope[piece] * inverse;
        dc += dx * (far / (1 + f.c * far) - x * reach / (1 + f.c * reach));
        dreach -= dx * x * f.c / (1 + f.c * reach);
    }
    gyre_load_row_f64(at, gradient->dtype, gradient->stride[2], 3 * f.width + 3, sum);
    sum[0] += f.number[0] < 0 ? -dc : f.number[0] > 0 ? dc : 0;
    if ((double)row->q < f.threshold) sum[1] += f.number[1] < 0 ? -dreach : dreach;
    add_units(&f, moment, sum);
    gyre_store_row_f64(sum, 3 * f.width + 3, at, gradient->dtype, gradient->stride[2]);
}

/* As the authors begin: c at 0.1 and L, 512 for their 2048 tokens, at a quarter of the trained length; the network as
 * PyTorch begins a linear layer, spread by 1 / sqrt(3 inputs). */
static void table_entry(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry) {
    const int64_t width = encoding->config.score.width, length = encoding->config.trained_length;
    (void)which;
    (void)channel;
    if (row < 2) {
        entry->start = row == 0 ? 0.1 : length > 0 ? (double)length / 4 : 512;
        entry->deviation = 0;
    } else {
        entry->deviation = 1 / sqrt(3.0 * (row < 2 + 2 * width ? 1.0 : (double)width));
    }
}

const gyre_scheme gyre_scheme_fire = {.kind = GYRE_FIRE,
                                      .name = "fire",
                                      .places = GYRE_AT_SCORE,
                                      .init = init,
                                      .suggest = suggest,
                                      .score_row = score_row,
                                      .score_gradient = score_gradient,
                                      .score_tile = score_tile,
                                      .table_entry = table_entry};

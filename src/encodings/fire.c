/* fire.c: FIRE: f(psi(d) / psi(max(m, L))) with psi(x) = ln(c x + 1), d = |m - n|, and f an MLP with one input, one hidden
 * layer of ReLUs and one output for each head.  As in the authors' code, c and L enter by magnitude, and keys after the
 * query count by their distance.
 *
 * An MLP of one input is piecewise linear, with a breakpoint where each hidden unit switches on or off:
 *
 *                 piece 0  |  piece 1  |  piece 2   ...
 *                  breakpoint 0   breakpoint 1
 *
 * The pieces of a head are listed once.  A pair then costs a search for its piece, usually that of the previous key. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/relative_table.h"
#include "core/view.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HIDDEN_UNITS = 256, MAX_PARAMS = 3 * MAX_HIDDEN_UNITS + 3, MAX_TILE_DISTANCES = 256 };

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; FIRE has a network for each (gyre_config)");
    if (score->hidden_units == 0) score->hidden_units = 32;
    if (score->hidden_units > MAX_HIDDEN_UNITS)
        return gyre_fail(err, GYRE_EINVAL, "score.hidden_units: %" PRId64 " is past %d (gyre_config)", score->hidden_units,
                         MAX_HIDDEN_UNITS);
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->table[GYRE_TABLE_BIAS] = (gyre_table_size){1, 3 * score->hidden_units + 3, encoding->config.heads};
    return GYRE_OK;
}

static void suggest(gyre_config *config) {
    if (config->score.hidden_units == 0) config->score.hidden_units = 32;
}

/* -- the MLP of a head -- */

/* Where hidden unit `unit` switches.  A unit is not active exactly at its breakpoint. */
typedef struct breakpoint {
    double at;
    int active_below; /* 1: active for x < at; 0: for x > at */
    int unit;
} breakpoint;

typedef struct fire_mlp {
    int hidden_units, breakpoints;
    double c, threshold;                     /* magnitudes; threshold is L */
    double param[MAX_PARAMS];                /* c, L, then those below, then the bias of the output */
    const double *weight, *bias, *output;    /* [hidden_units] each, in param */
    breakpoint breakpoint[MAX_HIDDEN_UNITS]; /* ascending */
    /* f(x) = slope[i] x + offset[i] on the piece before breakpoint i. */
    double slope[MAX_HIDDEN_UNITS + 1], offset[MAX_HIDDEN_UNITS + 1];
} fire_mlp;

static int precedes(const breakpoint *a, const breakpoint *b) {
    return a->at < b->at || (a->at == b->at && a->active_below > b->active_below);
}

/* Lists the breakpoints in order.  *slope, *offset = f before the first one. */
static void find_breakpoints(fire_mlp *f, double *slope, double *offset) {
    *slope = 0;
    *offset = f->param[2 + 3 * f->hidden_units];
    f->breakpoints = 0;
    for (int u = 0; u < f->hidden_units; u++) {
        const double w = f->weight[u], b = f->bias[u], a = f->output[u];
        const breakpoint here = {-b / w, w < 0, u};
        if (w == 0) {
            *offset += a * (b <= 0 ? 0 : b);
            continue;
        }
        if (here.active_below || isnan(here.at)) { /* a NaN parameter must give a NaN score */
            *slope += a * w;
            *offset += a * b;
        }
        if (isnan(here.at)) continue;
        int i = f->breakpoints++;
        for (; i > 0 && precedes(&here, &f->breakpoint[i - 1]); i--)
            f->breakpoint[i] = f->breakpoint[i - 1];
        f->breakpoint[i] = here;
    }
}

static void read_mlp(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, fire_mlp *f) {
    const gyre_cview *table = &tables->bias;
    f->hidden_units = (int)encoding->config.score.hidden_units;
    gyre_load_row_f64(gyre_cview_at(table, 0, 0, 0, head), table->dtype, table->stride[2], 3 * f->hidden_units + 3,
                      f->param);
    f->c = fabs(f->param[0]);
    f->threshold = fabs(f->param[1]);
    f->weight = f->param + 2;
    f->bias = f->weight + f->hidden_units;
    f->output = f->bias + f->hidden_units;
    double slope, offset;
    find_breakpoints(f, &slope, &offset);
    for (int i = 0; i < f->breakpoints; i++) {
        const int u = f->breakpoint[i].unit;
        const double sign = f->breakpoint[i].active_below ? -1 : 1;
        f->slope[i] = slope;
        f->offset[i] = offset;
        slope += sign * f->output[u] * f->weight[u];
        offset += sign * f->output[u] * f->bias[u];
    }
    f->slope[f->breakpoints] = slope;
    f->offset[f->breakpoints] = offset;
}

static int is_past(const breakpoint *b, double x) {
    return b->active_below ? x >= b->at : x > b->at;
}

/* out = the piece that contains x; the search begins at `piece`. */
static int find_piece(const fire_mlp *f, double x, int piece) {
    while (piece < f->breakpoints && is_past(&f->breakpoint[piece], x))
        piece++;
    while (piece > 0 && !is_past(&f->breakpoint[piece - 1], x))
        piece--;
    return piece;
}

static double distance_of(int64_t q, int64_t k) {
    return (double)llabs(q - k);
}

/* max(m, L), the argument of psi in the denominator. */
static double normalizer_of(const fire_mlp *f, int64_t q) {
    const double m = (double)q;
    return m < f->threshold || isnan(f->threshold) ? f->threshold : m;
}

/* psi of the denominator is 0 if c or max(m, L) is.  Then x is 0 for every distance. */
static double inverse_or_zero(double psi) {
    return psi == 0 ? 0 : 1 / psi;
}

/* -- the score -- */

static void bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out) {
    fire_mlp f;
    int piece = 0;
    read_mlp(encoding, tables, row->head, &f);
    const double psi = log1p(f.c * normalizer_of(&f, row->q));
    for (int64_t j = 0; j < row->n; j++) {
        const double x = psi == 0 ? 0 : log1p(f.c * distance_of(row->q, row->k[j])) / psi;
        piece = find_piece(&f, x, piece);
        out[j] = f.slope[piece] * x + f.offset[piece];
    }
}

/* psi of every distance between the queries and keys of a tile, if there are at most MAX_TILE_DISTANCES. */
typedef struct distances {
    int64_t low;
    int stored;                     /* 1: psi is filled in */
    double psi[MAX_TILE_DISTANCES]; /* of distance low + i */
} distances;

static void extremes(const int64_t *x, int64_t n, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

static void list_distances(const gyre_bias_tile *tile, double c, distances *d) {
    int64_t first_q, last_q, first_k, last_k;
    extremes(tile->q, tile->queries, &first_q, &last_q);
    extremes(tile->k, tile->keys, &first_k, &last_k);
    const int64_t ahead = last_k - first_q, behind = last_q - first_k, high = ahead > behind ? ahead : behind;
    d->low = -ahead > -behind ? -ahead : -behind;
    if (d->low < 0) d->low = 0;
    d->stored = high - d->low < MAX_TILE_DISTANCES;
    for (int64_t i = d->low; d->stored && i <= high; i++)
        d->psi[i - d->low] = log1p(c * (double)i);
}

static void add_each_key(const fire_mlp *f, const distances *d, const gyre_bias_tile *tile, int64_t i, double inverse) {
    float *row = tile->scores + i * tile->ld;
    int piece = 0;
    for (int64_t j = 0; j < tile->keys; j++) {
        const int64_t distance = llabs(tile->q[i] - tile->k[j]);
        const double x = inverse * (d->stored ? d->psi[distance - d->low] : log1p(f->c * (double)distance));
        piece = find_piece(f, x, piece);
        row[j] += (float)(f->slope[piece] * x + f->offset[piece]);
    }
}

/* to[j] += f(x[j]) for monotone x: the values in one piece are a run, whose end is found by bisection. */
static void add_runs(const fire_mlp *f, const double *restrict x, int64_t n, float *restrict to) {
    int piece = 0;
    for (int64_t first = 0, end; first < n; first = end) {
        piece = find_piece(f, x[first], piece);
        int64_t upper = n; /* x[upper] is known to be in another piece, unless upper is n */
        for (end = first + 1; end < upper;) {
            const int64_t probe = upper == n ? n - 1 : end + (upper - end) / 2;
            if (find_piece(f, x[probe], piece) == piece)
                end = probe + 1;
            else
                upper = probe;
        }
        const double slope = f->slope[piece], offset = f->offset[piece];
        for (int64_t j = first; j < end; j++)
            to[j] += (float)(slope * x[j] + offset);
    }
}

/* Keys at consecutive positions: distances fall up to the query and rise after it. */
static void add_consecutive_keys(const fire_mlp *f, const distances *d, const gyre_bias_tile *tile, int64_t i,
                                 double inverse) {
    float *row = tile->scores + i * tile->ld;
    const int64_t n = tile->keys, gap = tile->q[i] - tile->k[0];
    const int64_t behind = gap < 0 ? 0 : gap < n ? gap + 1 : n;
    double x[MAX_TILE_DISTANCES];
    for (int64_t j = 0; j < behind; j++)
        x[j] = inverse * d->psi[gap - d->low - j];
    for (int64_t j = behind; j < n; j++)
        x[j] = inverse * d->psi[j - gap - d->low];
    add_runs(f, x, behind, row);
    add_runs(f, x + behind, n - behind, row + behind);
}

static void bias_tile(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_bias_tile *tile) {
    fire_mlp f;
    distances d;
    if (tile->queries == 0 || tile->keys == 0) return;
    read_mlp(encoding, tables, head, &f);
    list_distances(tile, f.c, &d);
    int consecutive = d.stored && tile->keys <= MAX_TILE_DISTANCES;
    for (int64_t j = 1; j < tile->keys; j++)
        consecutive &= tile->k[j] == tile->k[j - 1] + 1;
    for (int64_t i = 0; i < tile->queries; i++) {
        const double inverse = inverse_or_zero(log1p(f.c * normalizer_of(&f, tile->q[i])));
        if (consecutive)
            add_consecutive_keys(&f, &d, tile, i, inverse);
        else
            add_each_key(&f, &d, tile, i, inverse);
    }
}

/* -- its gradient -- */

/* Sums over some pairs of query and key: of dscore and of dscore times x. */
typedef struct moments {
    double dscore, dscore_x;
} moments;

/* Adds to sum the gradient of unit u, which is active for the pairs that m was summed over. */
static void add_unit(const fire_mlp *f, int u, moments m, double *sum) {
    const double w = f->weight[u], b = f->bias[u], a = f->output[u];
    sum[2 + u] += a * m.dscore_x;
    sum[2 + f->hidden_units + u] += a * m.dscore;
    sum[2 + 2 * f->hidden_units + u] += w * m.dscore_x + b * m.dscore;
}

static void add_moments(moments *to, moments more) {
    to->dscore += more.dscore;
    to->dscore_x += more.dscore_x;
}

/* piece[i]: the moments of the pairs in piece i.  A unit is active in the pieces below its breakpoint or in those above it;
 * a unit without a breakpoint is active in all pieces or in none. */
static void add_units(const fire_mlp *f, const moments *piece, double *sum) {
    moments below = {0, 0}, above = {0, 0};
    for (int i = 0; i < f->breakpoints; i++) {
        add_moments(&below, piece[i]);
        if (f->breakpoint[i].active_below) add_unit(f, f->breakpoint[i].unit, below, sum);
    }
    for (int i = f->breakpoints - 1; i >= 0; i--) {
        add_moments(&above, piece[i + 1]);
        if (!f->breakpoint[i].active_below) add_unit(f, f->breakpoint[i].unit, above, sum);
    }
    add_moments(&above, piece[0]);
    for (int u = 0; u < f->hidden_units; u++)
        if (f->weight[u] == 0 ? f->bias[u] > 0 : isnan(f->bias[u] / f->weight[u])) add_unit(f, u, above, sum);
    sum[2 + 3 * f->hidden_units] += above.dscore;
}

static void bias_row_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                              const double *dscore, const gyre_view *gradient, int64_t column) {
    fire_mlp f;
    moments moment[MAX_HIDDEN_UNITS + 1];
    double sum[MAX_PARAMS], dc = 0, dnormalizer = 0;
    int piece = 0;
    void *at = gyre_view_at(gradient, 0, 0, 0, column);
    read_mlp(encoding, tables, row->head, &f);
    memset(moment, 0, (size_t)(f.breakpoints + 1) * sizeof *moment);
    const double normalizer = normalizer_of(&f, row->q), psi = log1p(f.c * normalizer), inverse = inverse_or_zero(psi);
    for (int64_t j = 0; j < row->n; j++) {
        const double d = distance_of(row->q, row->k[j]), x = psi == 0 ? 0 : log1p(f.c * d) / psi;
        piece = find_piece(&f, x, piece);
        add_moments(&moment[piece], (moments){dscore[j], dscore[j] * x});
        const double dx = dscore[j] * f.slope[piece] * inverse;
        dc += dx * (d / (1 + f.c * d) - x * normalizer / (1 + f.c * normalizer));
        dnormalizer -= dx * x * f.c / (1 + f.c * normalizer);
    }
    gyre_load_row_f64(at, gradient->dtype, gradient->stride[2], 3 * f.hidden_units + 3, sum);
    sum[0] += f.param[0] < 0 ? -dc : f.param[0] > 0 ? dc : 0;
    if ((double)row->q < f.threshold) sum[1] += f.param[1] < 0 ? -dnormalizer : dnormalizer;
    add_units(&f, moment, sum);
    gyre_store_row_f64(sum, 3 * f.hidden_units + 3, at, gradient->dtype, gradient->stride[2]);
}

/* The authors' initial values: c = 0.1 and L = a quarter of the trained length (512 for their 2048 tokens).  The MLP starts
 * as a linear layer of PyTorch does, with deviation 1 / sqrt(3 inputs). */
static void table_entry(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry) {
    const int64_t hidden_units = encoding->config.score.hidden_units, length = encoding->config.trained_length;
    (void)which;
    (void)channel;
    if (row < 2) {
        entry->initial_mean = row == 0 ? 0.1 : length > 0 ? (double)length / 4 : 512;
        entry->initial_deviation = 0;
    } else {
        entry->initial_deviation = 1 / sqrt(3.0 * (row < 2 + 2 * hidden_units ? 1.0 : (double)hidden_units));
    }
}

const gyre_scheme gyre_scheme_fire = {.kind = GYRE_KIND_FIRE,
                                      .places = GYRE_PLACE_SCORE,
                                      .init = init,
                                      .suggest = suggest,
                                      .bias_row = bias_row,
                                      .bias_row_gradient = bias_row_gradient,
                                      .bias_tile = bias_tile,
                                      .table_entry = table_entry};

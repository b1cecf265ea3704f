/* method_map.c: the angles under a method. */
#include "tools/common/method_map.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* out = the integral of cos(inv_freq far_distance(d)) from a to b, which are in one piece. */
static double integral(const far_piece *piece, double inv_freq, double a, double b) {
    const double middle = inv_freq * (piece->offset + piece->slope * (a + b) / 2),
                 half = inv_freq * piece->slope * (b - a) / 2;
    return (b - a) * cos(middle) * (fabs(half) > 1e-8 ? sin(half) / half : 1);
}

static double mean_cosine(const gyre_config *config, double inv_freq, double a, double b) {
    double sum = 0, from = a;
    while (from < b) {
        const far_piece piece = far_piece_at(config, from);
        const double end = fmin(b, piece.end);
        sum += integral(&piece, inv_freq, from, end);
        from = end;
    }
    return sum / (b - a);
}

static void fill(const gyre_config *config, method_map *m) {
    const double step = m->longest / (double)(m->columns - 1);
    for (int64_t p = 0; p < m->pairs; p++)
        for (int64_t c = 0; c < m->columns; c++) {
            const double d = (double)c * step, low = fmax(0, d - step / 2), high = fmin(m->longest, d + step / 2);
            m->angle[p * m->columns + c] = m->inv_freq[p] * far_distance(config, d);
            m->cosine[p * m->columns + c] = mean_cosine(config, m->inv_freq[p], low, high);
        }
}

static gyre_status check(const gyre_config *config, const char *label, const method_map_range *range, gyre_error *err) {
    if (range->columns < 2 || !(range->longest > 0))
        return gyre_fail(err, GYRE_EINVAL, "map of %s: %lld columns to distance %g (figure)", label,
                         (long long)range->columns, range->longest);
    if (!gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) || config->rope.dim < 2)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "map of %s: nothing rotates (%s)", label, gyre_kind_name(config->kind));
    return GYRE_OK;
}

gyre_status method_map_of_encoding(const gyre_encoding *encoding, const char *label, const method_map_range *range,
                                   method_map *out, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    *out = (method_map){.pairs = 0};
    gyre_status status = check(config, label, range, err);
    if (status) return status;
    *out = (method_map){.pairs = config->rope.dim / 2, .columns = range->columns, .longest = range->longest};
    snprintf(out->label, sizeof out->label, "%s", label);
    const size_t cells = (size_t)(out->pairs * out->columns);
    out->inv_freq = calloc((size_t)out->pairs, sizeof *out->inv_freq);
    out->angle = calloc(cells, sizeof *out->angle);
    out->cosine = calloc(cells, sizeof *out->cosine);
    status = out->inv_freq && out->angle && out->cosine ? GYRE_OK : GYRE_ENOMEM;
    if (!status) status = gyre_encoding_frequencies(encoding, range->length, out->inv_freq, NULL);
    if (status) {
        method_map_free(out);
        return gyre_fail(err, status, "map of %s: %s (figure)", label, gyre_status_text(status));
    }
    fill(config, out);
    return GYRE_OK;
}

gyre_status method_map_of_method(const method *m, const gyre_config *base, int64_t trained, const method_betas *betas,
                                 const method_map_range *range, method_map *out, gyre_error *err) {
    gyre_config config;
    gyre_encoding *encoding = NULL;
    *out = (method_map){.pairs = 0};
    gyre_status status = method_config(m, base, trained, range->length, betas, &config, err);
    if (!status) status = gyre_encoding_create(&encoding, &config, NULL, err);
    if (!status) status = method_map_of_encoding(encoding, m->label, range, out, err);
    gyre_encoding_free(encoding);
    return status;
}

int method_map_equals(const method_map *a, const method_map *b) {
    if (a->pairs != b->pairs || a->columns != b->columns || a->longest != b->longest) return 0;
    for (int64_t i = 0; i < a->pairs * a->columns; i++) /* two formulas for one rotation may differ in the last bits */
        if (fabs(a->angle[i] - b->angle[i]) > 1e-9 * fabs(a->angle[i])) return 0;
    return 1;
}

void method_maps_add(method_map *maps, int64_t *count, method_map *added) {
    for (int64_t i = 0; i < *count; i++) {
        if (!method_map_equals(&maps[i], added)) continue;
        const size_t used = strlen(maps[i].label);
        snprintf(maps[i].label + used, sizeof maps[i].label - used, ", %.*s", METHOD_LABEL, added->label);
        method_map_free(added);
        return;
    }
    maps[(*count)++] = *added;
    *added = (method_map){.pairs = 0};
}

double method_map_excess(double arc, double angle) {
    static const double TURN = 6.283185307179586;
    if (arc >= TURN) return 0;
    const double turns = angle / TURN, at = (turns - floor(turns)) * TURN;
    if (at <= arc * (1 + 1e-12)) return 0;
    return fmin(at - arc, TURN - at) / arc;
}

double method_map_resultant(double inv_freq, double width) {
    const double half = inv_freq * width / 2;
    return half > 1e-8 ? fabs(sin(half) / half) : 1;
}

void method_map_free(method_map *map) {
    free(map->inv_freq);
    free(map->angle);
    free(map->cosine);
    *map = (method_map){.pairs = 0};
}

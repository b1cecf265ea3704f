/* fuzz_network.c: a pair through the network of adaptive attention, and back. */
#include "fuzz_network.h"

#include <math.h>

static const double ROUNDING = 0x1p-24;
/* Of sums over pairs: 512 of them are added in float, in 4 lanes or more, what they add up to in double. */
enum { PAIR_TERMS = 512 / 4 + 16 };

void fuzz_number_add(fuzz_number *to, fuzz_number a, fuzz_number b, int64_t terms) {
    to->of += a.of * b.of;
    to->error += fabs(a.of) * b.error + (fabs(b.of) + b.error) * a.error;
    to->error += (double)terms * ROUNDING * (fabs(a.of) + a.error) * (fabs(b.of) + b.error);
}

/* A number that is read, as a float, and added to others. */
static fuzz_number given(double x) {
    return (fuzz_number){x, 2 * ROUNDING * fabs(x)};
}

static fuzz_number plus(fuzz_number a, fuzz_number b) {
    return (fuzz_number){a.of + b.of, a.error + b.error + ROUNDING * (fabs(a.of) + fabs(b.of))};
}

static void add_units(const fuzz_network *n, fuzz_network_pair *pair) {
    for (int64_t w = 0; w < n->width; w++) {
        fuzz_number *unit = &pair->unit[w], *hidden = &pair->hidden[w];
        *unit = given(n->b1[w]);
        for (int64_t i = 0; i < n->inputs; i++)
            fuzz_number_add(unit, given(n->w1[w * n->inputs + i]), pair->x[i], n->inputs + 2);
        *hidden = *unit;
        if (unit->of <= 0) hidden->of *= n->slope;
        hidden->error = unit->error * fmax(1, fabs(n->slope)) + 2 * ROUNDING * fabs(hidden->of);
    }
}

void fuzz_network_run(const fuzz_network *n, const fuzz_number *products, const fuzz_number *biases,
                      fuzz_network_pair *pair) {
    for (int64_t h = 0; h < n->heads; h++) {
        const fuzz_number both = plus(products[h], biases[h]);
        pair->x[h] = n->form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL ? both : products[h];
        if (n->form != GYRE_ADAPTIVE_FORM_ADD_RESIDUAL) pair->x[n->heads + h] = biases[h];
        pair->score[h] = n->form == GYRE_ADAPTIVE_FORM_CONCAT ? products[h] : both;
    }
    add_units(n, pair);
    for (int64_t h = 0; h < n->heads; h++) {
        fuzz_number *score = &pair->score[h];
        score->error += (double)(n->width + 2) * ROUNDING * fabs(score->of); /* the sum begins with it */
        fuzz_number_add(score, given(n->b2[h]), (fuzz_number){1, 0}, n->width + 2);
        for (int64_t w = 0; w < n->width; w++)
            fuzz_number_add(score, given(n->w2[h * n->width + w]), pair->hidden[w], n->width + 2);
    }
}

/* out = the gradient to unit w. */
static fuzz_number unit_back(const fuzz_network *n, const fuzz_network_pair *pair, int64_t w, const fuzz_number *dscores) {
    const fuzz_number unit = pair->unit[w];
    fuzz_number sum = {0, 0}, out = {0, 0}, slope = given(unit.of > 0 ? 1 : n->slope);
    if (fabs(unit.of) <= unit.error && unit.error > 0) slope.error += fabs(1 - n->slope);
    for (int64_t h = 0; h < n->heads; h++)
        fuzz_number_add(&sum, given(n->w2[h * n->width + w]), dscores[h], n->heads + 2);
    fuzz_number_add(&out, sum, slope, 1);
    return out;
}

void fuzz_network_back(const fuzz_network *n, const fuzz_network_pair *pair, const fuzz_number *dscores,
                       const fuzz_network_gradients *to, fuzz_number *dproducts, fuzz_number *dbiases) {
    const fuzz_number one = {1, 0};
    fuzz_number dx[2 * FUZZ_NETWORK_HEADS] = {{0, 0}};
    for (int64_t w = 0; w < n->width; w++) {
        const fuzz_number dunit = unit_back(n, pair, w, dscores);
        fuzz_number_add(&to->b1[w], dunit, one, PAIR_TERMS);
        for (int64_t i = 0; i < n->inputs; i++) {
            fuzz_number_add(&to->w1[w * n->inputs + i], dunit, pair->x[i], PAIR_TERMS);
            fuzz_number_add(&dx[i], dunit, given(n->w1[w * n->inputs + i]), n->width + 2);
        }
        for (int64_t h = 0; h < n->heads; h++)
            fuzz_number_add(&to->w2[h * n->width + w], dscores[h], pair->hidden[w], PAIR_TERMS);
    }
    for (int64_t h = 0; h < n->heads; h++) {
        fuzz_number_add(&to->b2[h], dscores[h], one, PAIR_TERMS);
        dproducts[h] = plus(dscores[h], dx[h]);
        dbiases[h] = n->form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL ? dproducts[h]
                     : n->form == GYRE_ADAPTIVE_FORM_CONCAT     ? dx[n->heads + h]
                                                                : plus(dscores[h], dx[n->heads + h]);
    }
}

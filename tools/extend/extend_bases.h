/* extend_bases.h: which base of a rotation suffices for a length, and which a number type cannot carry: Liu 2026, arXiv
 * 2602.10959.  The paper takes the slowest pair to turn 1 / base a token. */
#ifndef GYRE_TOOLS_EXTEND_BASES_H
#define GYRE_TOOLS_EXTEND_BASES_H
#include "tools/extend/extend.h"

/* out = layers of the group, at least 1: a file may not say. */
int64_t extend_layers(const extension *e);
/* out = cos(L theta)^layers, the part of the slowest pair's product at distance L that all layers leave; 0 from a quarter
 * turn on. */
double extend_coherence(double length, double theta, int64_t layers);
/* out = the base below which the coherence is less than `share`: L / arccos(share^(1 / layers)). */
double extend_base_for(double length, int64_t layers, double share);
/* out = the base below which the slowest pair makes a whole turn: L / (2 pi). */
double extend_base_of_a_turn(double length);

/* Number types by the base above which a step of the slowest pair is lost beside an angle of 1: 1 / epsilon. */
typedef struct extend_precision {
    const char *name;
    double most;
} extend_precision;
enum { EXTEND_PRECISIONS = 3 };
extern const extend_precision extend_precisions[EXTEND_PRECISIONS];

json_t *extend_bases_json(const extension *e);
/* One sentence of these numbers for the layers of the model. */
const char *extend_bases_text(const extension *e, char *text, size_t size);

#endif

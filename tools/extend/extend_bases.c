#include "tools/extend/extend_bases.h"
#include "tools/cli/cli_json.h"
#include "util/plain_numbers.h"

#include <math.h>

static const double TURN = 6.283185307179586, HALF = 0.5, NEARLY_ALL = 0.9;
const extend_precision extend_precisions[EXTEND_PRECISIONS] = {
    {"bfloat16", 0x1p7}, {"float16", 0x1p10}, {"float32", 0x1p23}};

double extend_coherence(double length, double theta, int64_t layers) {
    const double angle = length * theta;
    return angle < TURN / 4 ? pow(cos(angle), (double)layers) : 0;
}

double extend_base_for(double length, int64_t layers, double share) {
    return length / acos(pow(share, 1 / (double)layers));
}

double extend_base_of_a_turn(double length) {
    return length / TURN;
}

int64_t extend_layers(const extension *e) {
    return e->group->layers_count > 0 ? e->group->layers_count : 1;
}

json_t *extend_bases_json(const extension *e) {
    const double length = (double)e->to;
    json_t *types = json_object();
    for (int i = 0; i < EXTEND_PRECISIONS; i++)
        JSON_ADD(types, extend_precisions[i].name, JSON(extend_precisions[i].most));
    return JSON_OBJECT("layers", JSON(extend_layers(e)), "turn", JSON(extend_base_of_a_turn(length)), "half",
                       JSON(extend_base_for(length, extend_layers(e), HALF)), "nine_tenths",
                       JSON(extend_base_for(length, extend_layers(e), NEARLY_ALL)), "most", types);
}

const char *extend_bases_text(const extension *e, char *text, size_t size) {
    const double length = (double)e->to;
    const long long layers = (long long)extend_layers(e);
    gyre_plain_snprintf(
        text, size,
        "bases: by arXiv 2602.10959, %lld tokens need a base above %.0f, below which the slowest pair makes a whole turn; "
        "%.0f leaves it a coherence of a half through %lld layers, and %.0f one of nine tenths.  Where angles are in "
        "bfloat16, float16 or float32, a base above %.0f, %.0f or %.0f loses its step.",
        (long long)e->to, extend_base_of_a_turn(length), extend_base_for(length, layers, HALF), layers,
        extend_base_for(length, layers, NEARLY_ALL), extend_precisions[0].most, extend_precisions[1].most,
        extend_precisions[2].most);
    return text;
}

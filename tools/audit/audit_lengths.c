/* audit_lengths.c: the lengths that a config states, and what its scaling reaches. */
#include "gyre/gyre_fields.h"
#include "tools/audit/audit.h"
#include "tools/diff/diff_compare.h"
#include <inttypes.h>
#include <stdlib.h>

static int stretches_evenly(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_LINEAR || scaling == GYRE_SCALING_NTK || scaling == GYRE_SCALING_BY_PARTS ||
           scaling == GYRE_SCALING_YARN;
}

/* The stated length against what the scaling reaches. */
static void check_scaling(audit *a, const gyre_layer_reading *group) {
    const gyre_config *c = &group->config;
    const gyre_reading_field *stated = explain_find_field(group, "max_length"),
                             *original = explain_find_field(group, "original_length");
    if (!gyre_kind_has(c->kind, GYRE_TRAIT_ROTATES) || !stated || c->trained_length < 1) return;
    const double length = strtod(stated->value, NULL), trained = (double)c->trained_length;
    if (original && trained > length) {
        audit_finding *f =
            audit_add(a, AUDIT_DOUBT, "lengths",
                      "%s: trained on %.0f tokens, and no more than %.0f are stated: a scaling should reach further",
                      group->name, trained, length);
        audit_set_place(f, "%s, line %" PRId64, original->key ? original->key : "original length", original->line);
    }
    /* Without an original length the factor counts from the stated one, whichever of the two it is. */
    if (!original || !(c->rope.factor > 1) || !stretches_evenly(c->rope.scaling)) return;
    const double reached = trained * c->rope.factor;
    if (length > reached * 1.001) {
        audit_finding *f =
            audit_add(a, AUDIT_DOUBT, "lengths",
                      "%s: %.0f tokens are stated, and the scaling reaches %.0f (%.0f times %.6g): slow pairs "
                      "meet angles past that which training never showed",
                      group->name, length, reached, trained, c->rope.factor);
        audit_set_place(f, "%s, line %" PRId64, stated->key ? stated->key : "max_length", stated->line);
        audit_set_remedy(f, "a factor of %.6g reaches the stated length; `gyre extend MODEL --to %.0f` weighs the ways",
                         length / trained, length);
    } else if (length < reached * 0.999) {
        audit_add(a, AUDIT_NOTE, "lengths",
                  "%s: %.0f tokens are stated, and the scaling reaches %.0f; programs that trust the first stop there",
                  group->name, length, reached);
    }
}

gyre_status audit_lengths(audit *a, gyre_error *err) {
    const int before = a->count;
    for (int64_t i = 0; a->reading && i < a->reading->groups_count; i++)
        check_scaling(a, a->reading->groups[i]);
    const gyre_status status = audit_limits(a, err);
    if (a->count == before && a->reading)
        audit_add(a, AUDIT_OK, "lengths", "the stated lengths agree");
    else if (a->count == before)
        audit_add(a, AUDIT_LEFT_OUT, "lengths", "no file beside the config states a length, and the config is refused");
    return status;
}

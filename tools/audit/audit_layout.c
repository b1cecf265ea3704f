/* audit_layout.c: the layout of pairs that the weights were trained with (tools/explain/explain_check.h). */
#include "tools/audit/audit.h"
#include "tools/explain/explain_check.h"
#include "tools/options/value_names.h"
#include <math.h>

static void judge(audit *a, const explain_check *c) {
    const char *stated = gyre_layout_name(c->file);
    const double half = exp(c->nats[0]), interleaved = exp(c->nats[1]);
    audit_finding *f;
    switch (c->verdict) {
    case CHECK_NOT_APPLICABLE:
        audit_add(a, AUDIT_LEFT_OUT, "layout", "%s", c->why);
        return;
    case CHECK_UNDECIDED:
        audit_add(a, AUDIT_NOTE, "layout", "%s", c->why);
        return;
    case CHECK_AGREES:
        audit_add(a, AUDIT_OK, "layout", "%s, as the files state: perplexity %.4g under half, %.4g under interleaved",
                  stated, half, interleaved);
        return;
    case CHECK_DISAGREES:
        f = audit_add(a, AUDIT_WRONG, "layout",
                      "the files state %s, and the weights were trained with the other: perplexity %.4g under half, %.4g "
                      "under interleaved",
                      stated, half, interleaved);
        audit_set_remedy(f, "`gyre convert MODEL -o FOLDER --from-layout %s` writes them in the order that the files state",
                         gyre_layout_name(c->file == GYRE_LAYOUT_HALF ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF));
    }
}

gyre_status audit_layout(audit *a, const model_options *options, int argc, char **argv, const gyre_exec *exec,
                         gyre_error *err) {
    explain_check checked = {0};
    gyre_error why = {0, ""};
    if (options->texts_count == 0) {
        audit_add(a, AUDIT_LEFT_OUT, "layout", "the layout of the weights can be checked only with a text: --text FILE");
        return GYRE_OK;
    }
    if (!a->reading || !a->runs) {
        audit_add(a, AUDIT_LEFT_OUT, "layout", "the text is not read, because of the findings about the %s",
                  a->reading ? "weights" : "config");
        return GYRE_OK;
    }
    const gyre_status status = explain_check_run(&checked, options, argc, argv, exec, &why);
    if (status == GYRE_EUNSUPPORTED) {
        audit_add(a, AUDIT_LEFT_OUT, "layout", "%s", why.text);
        return GYRE_OK;
    }
    if (status == GYRE_EFORMAT) { /* the weights overflow */
        audit_add_error(a, AUDIT_WRONG, "weights", why.text);
        return GYRE_OK;
    }
    if (status) {
        *err = why;
        return status;
    }
    judge(a, &checked);
    explain_check_free(&checked);
    return GYRE_OK;
}

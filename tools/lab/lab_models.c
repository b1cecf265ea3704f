/* lab_models.c: models whose cells are wanted, opened or trained when the first of them has to be measured. */
#include "tools/lab/lab.h"

/* In a work folder, the positions of a model follow from the plan.  Those of a bundled one are in its file. */
static gyre_status find_position(lab *l, lab_model *m, gyre_error *err) {
    const lab_model_spec *spec = &m->spec;
    if (!spec->encoding && spec->tuned == LAB_TUNED) return config_drop_rotation(&spec->base->position, &m->position, err);
    if (!spec->encoding) {
        m->position = spec->base->position;
        return GYRE_OK;
    }
    if (l->work) {
        gyre_model_config model = l->plan.run.model;
        const gyre_status status = lab_position_config(l, spec->encoding, &model, err);
        m->position = model.position;
        return status;
    }
    const gyre_model *model = NULL;
    const gyre_status status = lab_model_need(l, m, &model, err);
    if (!status) m->position = gyre_model_get_config(model)->position;
    return status;
}

gyre_status lab_model_begin(lab *l, const lab_model_spec *spec, lab_model *out, gyre_error *err) {
    *out = (lab_model){.spec = *spec};
    lab_model_name(l, spec, out->name);
    return find_position(l, out, err);
}

gyre_status lab_model_need(lab *l, lab_model *m, const gyre_model **out, gyre_error *err) {
    const gyre_model *base = NULL;
    gyre_status status = GYRE_OK;
    if (!m->opened && m->spec.base) status = lab_model_need(l, m->spec.base, &base, err);
    if (!m->opened && !status) status = lab_load_model(l, &m->spec, m->name, base, &m->opened, err);
    *out = m->opened;
    return status;
}

void lab_model_end(lab_model *m) {
    gyre_model_free(m->opened);
    m->opened = NULL;
}

/* -- methods that were added -- */
static gyre_status check_method(const lab *l, const method *m, const gyre_config *position, gyre_error *err) {
    for (int c = 0; c < l->plan.contexts_count; c++) {
        gyre_encoding *encoding = NULL;
        gyre_error why = {0};
        const gyre_status status =
            method_encoding(m, position, l->plan.trained, l->plan.contexts[c], &l->plan.betas, &encoding, &why);
        gyre_encoding_free(encoding);
        if (status)
            return gyre_fail(err, status, "--add-method %s: at %lld tokens: %s", m->label, (long long)l->plan.contexts[c],
                             why.text);
    }
    return GYRE_OK;
}

/* Methods first .. count - 1 on the model of an encoding; encoding < 0: there is none. */
static gyre_status check_methods(lab *l, int encoding, const method *methods, int first, int count, gyre_error *err) {
    if (encoding < 0 || first >= count) return GYRE_OK;
    lab_model model;
    gyre_status status = lab_model_begin(l, &(lab_model_spec){.encoding = &l->plan.encodings[encoding]}, &model, err);
    for (int m = first; m < count && !status; m++)
        status = check_method(l, &methods[m], &model.position, err);
    lab_model_end(&model);
    return status;
}

gyre_status lab_check_added(lab *l, gyre_error *err) {
    const lab_plan *p = &l->plan;
    const gyre_status status = check_methods(l, p->rope, p->methods, p->own_methods, p->methods_count, err);
    return status ? status : check_methods(l, p->alibi, p->stretched, 0, p->stretched_count, err);
}

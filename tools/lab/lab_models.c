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

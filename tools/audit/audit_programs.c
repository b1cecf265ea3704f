/* audit_programs.c: the same files as the programs of today read them. */
#include "tools/audit/audit.h"
#include "tools/diff/diff_compare.h"
#include <string.h>

static const gyre_profile programs[] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_HF_4_56, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP};

/* *from = the first position at which a pair rotates otherwise; 0 if something differs from the first token on. */
static void place_of_difference(const diff_result *r, int64_t *from) {
    *from = r->unmatched_count[0] || r->unmatched_count[1] ? 0 : INT64_MAX;
    for (int i = 0; i < r->count; i++) {
        const diff_layers *d = &r->layers[i];
        if (d->same) continue;
        const int by_angle = d->rotates && !d->same_frequencies && d->settings_count == 0 && d->score_ratio == 1;
        const int64_t own = by_angle ? d->first_position < 0 ? INT64_MAX : d->first_position : 0;
        if (own < *from) *from = own;
    }
}

static void add_difference(audit *a, const diff_result *r, const char *name) {
    int64_t from;
    const int64_t context = audit_context(a);
    place_of_difference(r, &from);
    const int reached = context == 0 || from < context;
    audit_finding *f = audit_add(a, reached ? AUDIT_DOUBT : AUDIT_NOTE, "programs", "%s: %s", name, r->verdict);
    audit_set_remedy(f, "run `gyre diff MODEL --as %s --with %s` for the numbers, and use one of the two for all measuring",
                     gyre_profile_name(a->reading->profile), name);
}

/* The profile that is asked for refuses the file: nothing can be compared. */
static gyre_status ask_alone(audit *a, gyre_profile profile, gyre_error *err) {
    gyre_reading *reading = NULL;
    gyre_error why = {0, ""};
    const char *name = gyre_profile_name(profile), *own = gyre_profile_name(a->profile);
    const gyre_status status = gyre_reading_open(
        &reading, a->path, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = a->length), &why);
    if (audit_is_failure(status)) {
        *err = why;
        return status;
    }
    if (status)
        audit_add(a, AUDIT_NOTE, "programs", "%s does not run it either%s%s", name,
                  strcmp(why.text, a->refused.text) == 0 ? "" : ": ",
                  strcmp(why.text, a->refused.text) == 0 ? "" : why.text);
    else
        audit_add(a, AUDIT_NOTE, "programs", "%s reads it, and %s does not", name, own);
    gyre_reading_free(reading);
    return GYRE_OK;
}

static gyre_status compare(audit *a, gyre_profile profile, gyre_error *err) {
    diff_result r = {.count = 0};
    if (!a->reading) return ask_alone(a, profile, err);
    const char *name = gyre_profile_name(profile), *own = gyre_profile_name(a->profile);
    gyre_status status = GYRE_OK;
    r.operand[0] = (diff_operand){.path = a->path, .profile = a->reading->profile};
    r.operand[0].reading = (gyre_reading *)a->reading; /* borrowed: taken back below */
    r.operand[1] = (diff_operand){.path = a->path, .profile = profile};
    snprintf(r.operand[0].label, sizeof r.operand[0].label, "%s", own);
    snprintf(r.operand[1].label, sizeof r.operand[1].label, "%s", name);
    diff_operand *other = &r.operand[1];
    other->status = gyre_reading_open(
        &other->reading, a->path,
        GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = a->reading->context_length), &other->err);
    if (audit_is_failure(other->status)) {
        *err = other->err;
        status = other->status;
    } else if (other->status) {
        audit_add(a, AUDIT_NOTE, "programs", "%s does not run it: %s", name, other->err.text);
    } else {
        status = diff_compare(&r, NULL, err);
        if (!status && r.same) audit_add(a, AUDIT_OK, "programs", "%s reads the same positions as %s", name, own);
        if (!status && !r.same) add_difference(a, &r, name);
    }
    r.operand[0].reading = NULL;
    diff_result_free(&r);
    return status;
}

gyre_status audit_programs(audit *a, gyre_error *err) {
    gyre_status status = GYRE_OK;
    /* All profiles read such a config alike, because no program but this one has a class for it. */
    if (strcmp(a->model_type, "gyre") == 0 && !a->is_gguf) {
        audit_add(a, AUDIT_NOTE, "programs", "only Gyre runs model_type gyre, so there is no other reading to compare with");
        return GYRE_OK;
    }
    if (audit_has_key_twice(a)) {
        audit_add(
            a, AUDIT_LEFT_OUT, "programs",
            "not compared: Gyre refuses a key that is there twice, because readers of JSON differ on it; that of Python, "
            "and so transformers and vLLM, takes the last value");
        return GYRE_OK;
    }
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !status; i++)
        if (programs[i] != a->profile) status = compare(a, programs[i], err);
    return status;
}

/* config_check.c: ranges and defaults of the fields of a config, from the rows of config.def. */
#include "core/config/config_check.h"
#include "gyre/gyre_fields.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "rope.layout: 7 is not one of half, interleaved" */
static gyre_status refuse_choice(const gyre_config_field *f, int64_t value, gyre_error *err) {
    char list[256] = "";
    for (const gyre_field_name *n = f->names; n->text; n++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", n->text);
    }
    return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not one of %s (gyre_config)", f->name, value, list);
}

static gyre_status check_integer(const gyre_config_field *f, int64_t value, gyre_error *err) {
    if (f->type != GYRE_FIELD_INTEGER && value < 0)
        return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is negative (gyre_config)", f->name, value);
    if (f->type == GYRE_FIELD_COUNT && value > INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is past 2^31 - 1 (gyre_config)", f->name, value);
    if (value == 0 || ((double)value >= f->minimum && (double)value <= f->maximum)) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not within %.0f .. %.0f (gyre_config)", f->name, value,
                     f->minimum, f->maximum);
}

static gyre_status check_number(const gyre_config_field *f, double value, gyre_error *err) {
    if (!isfinite(value)) return gyre_fail(err, GYRE_EINVAL, "%s: %g is not finite (gyre_config)", f->name, value);
    if (value == 0) return GYRE_OK;
    if (f->above_minimum && value <= f->minimum)
        return gyre_fail(err, GYRE_EINVAL, "%s: %g is not above %g (gyre_config)", f->name, value, f->minimum);
    if (value < f->minimum)
        return gyre_fail(err, GYRE_EINVAL, "%s: %g is below %g (gyre_config)", f->name, value, f->minimum);
    if (value > f->maximum)
        return gyre_fail(err, GYRE_EINVAL, "%s: %g is above %g (gyre_config)", f->name, value, f->maximum);
    return GYRE_OK;
}

static gyre_status check_field(const gyre_config *config, const gyre_config_field *f, gyre_error *err) {
    const gyre_field_value value = gyre_config_get(config, f);
    switch (f->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
    case GYRE_FIELD_INTEGER:
        return check_integer(f, value.integer, err);
    case GYRE_FIELD_NUMBER:
        return check_number(f, value.number, err);
    case GYRE_FIELD_FLAG:
        if (value.integer == 0 || value.integer == 1) return GYRE_OK;
        return gyre_fail(err, GYRE_EINVAL, "%s: %d is neither 0 nor 1 (gyre_config)", f->name, (int)value.integer);
    case GYRE_FIELD_CHOICE:
        return gyre_field_spelling(f, (int)value.integer) ? GYRE_OK : refuse_choice(f, value.integer, err);
    case GYRE_FIELD_SET: /* each scheme knows which terms it has */
    case GYRE_FIELD_LIST:
        break;
    }
    return GYRE_OK;
}

static int is_standard(const gyre_config_field *f, gyre_field_value value) {
    if (f->type == GYRE_FIELD_LIST) return value.list == NULL;
    if (f->type == GYRE_FIELD_NUMBER) return value.number == 0 || value.number == f->standard;
    return value.integer == 0 || (double)value.integer == f->standard;
}

/* out = the switch that was left at 0, without which a field that is set changes nothing; NULL = none.  A switch that has
 * another value was chosen: what it does not use may stay for the next choice. */
static const gyre_config_field *forgotten_switch(const gyre_config *config, const gyre_config_field *f) {
    if (f->when == 0 || (unsigned)config->kind >= 32 || !(f->kinds >> config->kind & 1) ||
        is_standard(f, gyre_config_get(config, f)) || gyre_config_field_acts(config, f))
        return NULL;
    const gyre_config_field *decider = gyre_config_field_switch(f);
    return decider && gyre_config_get(config, decider).integer == 0 ? decider : NULL;
}

static gyre_status check_switch(const gyre_config *config, const gyre_config_field *f, gyre_error *err) {
    const gyre_config_field *decider = forgotten_switch(config, f);
    if (!decider) return GYRE_OK;
    const char *spelling = decider->names ? gyre_field_spelling(decider, 0) : NULL;
    return gyre_fail(err, GYRE_EINVAL, "%s: is set, but has no effect where %s is %s (gyre_config)", f->name, decider->name,
                     spelling ? spelling : "0");
}

void gyre_config_clear_unused(gyre_config *config) {
    const gyre_config_field *f;
    const gyre_field_value zero = {0, 0, NULL};
    for (int i = 0; (f = gyre_config_field_at(i)); i++)
        if (forgotten_switch(config, f)) gyre_config_set(config, f, zero);
}

void gyre_config_unscale(gyre_config *config) {
    config->rope.scaling = GYRE_SCALING_NONE;
    config->rope.resonance = 0;
    config->rope.clip = (struct gyre_clip_config){GYRE_CLIP_NONE, 0};
    config->rope.longrope = (struct gyre_longrope_config){0, GYRE_LONGROPE_START_PAPER};
    gyre_config_clear_unused(config);
}

gyre_status gyre_config_check(const gyre_config *config, gyre_error *err) {
    const gyre_config_field *f;
    gyre_status status = GYRE_OK;
    for (int i = 0; !status && (f = gyre_config_field_at(i)); i++)
        status = check_field(config, f, err);
    for (int i = 0; !status && (f = gyre_config_field_at(i)); i++)
        status = check_switch(config, f, err);
    return status;
}

/* Parameters of scalings are filled in whatever rope.scaling says: an axis may have another scaling. */
static int needs_standard(const gyre_config *config, const gyre_config_field *f) {
    if (f->standard == 0 || !(f->kinds >> config->kind & 1)) return 0;
    return f->when == offsetof(gyre_config, rope.scaling) || gyre_config_field_acts(config, f);
}

void gyre_config_fill_standards(gyre_config *config) {
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++) {
        const gyre_field_value value = gyre_config_get(config, f), standard = {(int64_t)f->standard, f->standard, NULL};
        if (needs_standard(config, f) && value.integer == 0 && value.number == 0) gyre_config_set(config, f, standard);
    }
}

/* angle_audit.c: gyre_angles_audit: what a table is, and which readings it is. */
#include "reading/angles/angle_audit.h"
#include "util/error.h"

#include "gyre/gyre_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- names -- */
const char *gyre_angle_form_name(gyre_angle_form form) {
    static const char *const names[] = {"frequencies", "cos-sin", "sin-cos", "pairs", "cos", "sin"};
    return form >= 0 && (size_t)form < sizeof names / sizeof *names ? names[form] : NULL;
}

const char *gyre_angle_columns_name(gyre_angle_columns columns) {
    static const char *const names[] = {"once", "halves", "interleaved"};
    return columns >= 0 && (size_t)columns < sizeof names / sizeof *names ? names[columns] : NULL;
}

const char *gyre_angle_precision_name(gyre_angle_precision precision) {
    static const char *const names[] = {"exact", "f32", "bf16-frequencies", "bf16-angles", "f16-frequencies", "f16-angles"};
    return precision >= 0 && (size_t)precision < sizeof names / sizeof *names ? names[precision] : NULL;
}

/* -- what the readings mean -- */
/* The frequencies of one match. */
typedef struct wanted {
    double *numbers; /* [2 * pairs]: frequencies, then slack */
    int64_t pairs;
    double factor;
} wanted;

/* An audit and its memory.  The public part is first. */
typedef struct own_audit {
    gyre_angle_audit audit;
    gyre_angle_match *matches; /* [room] */
    wanted *wanted;            /* [room] of each match, in the order of readings */
    int64_t room;
    double *frequencies, *row;
    char *verdict;
} own_audit;

static gyre_status fail_memory(gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "table: no memory to audit it");
}

/* *out = the frequencies of an encoding at a length. */
static gyre_status want(wanted *out, const gyre_encoding *encoding, int64_t length, gyre_error *err) {
    out->pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    out->numbers = calloc(2 * (size_t)out->pairs + 1, sizeof *out->numbers);
    if (!out->numbers) return fail_memory(err);
    const gyre_status status = gyre_encoding_frequencies(encoding, length, out->numbers, &out->factor);
    if (status) return gyre_fail(err, status, "table: the frequencies at %lld tokens (a reading)", (long long)length);
    for (int64_t i = 0; i < out->pairs; i++)
        out->numbers[out->pairs + i] = gyre_angle_f32_slack(out->numbers[i]);
    return GYRE_OK;
}

static int is_same(const wanted *a, const wanted *b) {
    if (a->pairs != b->pairs || fabs(a->factor - b->factor) > 1e-12 * fabs(a->factor)) return 0;
    for (int64_t i = 0; i < a->pairs; i++)
        if (fabs(a->numbers[i] - b->numbers[i]) > 1e-13 * fabs(a->numbers[i])) return 0;
    return 1;
}

/* The context length of a reading's frequencies, as gyre explain takes it. */
static int64_t length_of(const gyre_reading *reading, const gyre_config *config) {
    return reading->context_length > 0  ? reading->context_length
           : config->context_length > 0 ? config->context_length
                                        : config->trained_length;
}

/* Adds the frequencies of a group at its own length, and at that of the table where they are others. */
static gyre_status add_group(own_audit *own, const gyre_reading *reading, const gyre_layer_reading *group, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    if (!gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES)) return GYRE_OK;
    gyre_status status = gyre_encoding_create(&encoding, &group->config, NULL, err);
    if (status) return status;
    const int64_t length = length_of(reading, gyre_encoding_get_config(encoding)), rows = own->audit.positions;
    const int tries = reading->context_length > 0 || rows < 2 || rows == length ? 1 : 2;
    for (int k = 0; k < tries && !status; k++) {
        const int64_t i = own->audit.count;
        const int64_t at = k ? rows : length;
        status = want(&own->wanted[i], encoding, at, err);
        if (!status && k && is_same(&own->wanted[i], &own->wanted[i - 1])) {
            free(own->wanted[i].numbers);
            own->wanted[i].numbers = NULL;
            break;
        }
        own->matches[i] =
            (gyre_angle_match){.reading = reading, .group = group, .length = at, .factor = own->wanted[i].factor};
        own->audit.count++; /* also of a failure, which ends the call */
    }
    gyre_encoding_free(encoding);
    return status;
}

static gyre_status add_readings(own_audit *own, const gyre_reading *const *readings, int64_t count, gyre_error *err) {
    for (int64_t i = 0; i < count; i++)
        own->room += 2 * readings[i]->groups_count;
    own->matches = calloc((size_t)own->room + 1, sizeof *own->matches);
    own->wanted = calloc((size_t)own->room + 1, sizeof *own->wanted);
    if (!own->matches || !own->wanted) return fail_memory(err);
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < count && !status; i++)
        for (int64_t g = 0; g < readings[i]->groups_count && !status; g++)
            status = add_group(own, readings[i], readings[i]->groups[g], err);
    return status;
}

/* -- matches -- */
/* Copies what the numbers of the table say from one match to another of the same frequencies. */
static void copy_match(gyre_angle_match *out, const gyre_angle_match *of) {
    const gyre_angle_match old = *out;
    *out = *of;
    out->reading = old.reading, out->group = old.group, out->length = old.length, out->factor = old.factor;
}

static void match_all(own_audit *own, const gyre_angle_rows *rows, const gyre_angle_plan *plan) {
    for (int64_t i = 0; i < own->audit.count; i++) {
        int64_t same = 0;
        while (same < i && !is_same(&own->wanted[same], &own->wanted[i]))
            same++;
        const wanted *w = &own->wanted[i];
        const gyre_angle_wanted frequencies = {w->numbers, w->numbers + w->pairs, w->pairs, w->factor};
        if (same < i)
            copy_match(&own->matches[i], &own->matches[same]);
        else
            gyre_angle_match_table(&own->matches[i], rows, plan, own->audit.rounded, &frequencies, own->row);
    }
}

static int64_t rank_of(const gyre_angle_match *m) {
    return m->first_position < 0 ? INT64_MAX : m->first_position == INT64_MAX ? INT64_MAX - 1 : m->first_position;
}

/* Insertion keeps the order of equal ones. */
static void sort_matches(own_audit *own) {
    for (int64_t i = 1; i < own->audit.count; i++) {
        const gyre_angle_match moved = own->matches[i];
        int64_t at = i;
        for (; at > 0 && rank_of(&own->matches[at - 1]) < rank_of(&moved); at--)
            own->matches[at] = own->matches[at - 1];
        own->matches[at] = moved;
    }
}

/* -- the call -- */
static gyre_status check_view(const gyre_cview *table, gyre_error *err) {
    if (!table->data) return gyre_fail(err, GYRE_EINVAL, "table: has no data");
    if (table->dtype != GYRE_DTYPE_F32 && table->dtype != GYRE_DTYPE_F16 && table->dtype != GYRE_DTYPE_BF16 &&
        table->dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "table: neither F32, F16, BF16 nor F64");
    return GYRE_OK;
}

static gyre_status audit_table(own_audit *own, const gyre_angle_rows *rows, const gyre_reading *const *readings,
                               int64_t count, gyre_error *err) {
    gyre_angle_audit *a = &own->audit;
    gyre_angle_plan plan;
    own->row = calloc(2 * (size_t)rows->width, sizeof *own->row);
    own->frequencies = calloc((size_t)rows->width, sizeof *own->frequencies);
    if (!own->row || !own->frequencies) return fail_memory(err);
    gyre_angle_plan_find(&plan, rows, own->row);
    gyre_angle_measure measure = {.frequencies = own->frequencies};
    gyre_angle_measure_table(&measure, rows, &plan, own->row);
    a->form = plan.form, a->columns = plan.columns, a->pairs = plan.pairs;
    a->positions = plan.form == GYRE_ANGLE_FORM_FREQUENCIES ? 0 : rows->rows;
    a->dtype = rows->view->dtype, a->rounded = measure.rounded;
    a->factor = measure.factor, a->base = measure.base, a->frequencies = own->frequencies;
    const gyre_status status = add_readings(own, readings, count, err);
    if (status) return status;
    match_all(own, rows, &plan);
    sort_matches(own);
    a->matches = own->matches;
    a->restarts =
        a->count > 0 && a->positions > 0 && gyre_angle_restarts(rows, &plan, a->matches[0].first_position, own->row);
    a->verdict = own->verdict = gyre_angle_verdict(a);
    return own->verdict ? GYRE_OK : fail_memory(err);
}

gyre_status gyre_angles_audit(gyre_angle_audit **out, const gyre_cview *table, const gyre_reading *const *readings,
                              int64_t readings_count, gyre_error *err) {
    gyre_angle_rows rows;
    if (!out || !table || readings_count < 0 || (!readings && readings_count > 0))
        return gyre_fail(err, GYRE_EINVAL, "gyre_angles_audit: an argument is missing");
    gyre_status status = check_view(table, err);
    if (!status) status = gyre_angle_rows_open(&rows, table, err);
    if (status) return status;
    own_audit *own = calloc(1, sizeof *own);
    if (!own) return fail_memory(err);
    status = audit_table(own, &rows, readings, readings_count, err);
    if (status)
        gyre_angle_audit_free(&own->audit);
    else
        *out = &own->audit;
    return status;
}

void gyre_angle_audit_free(gyre_angle_audit *audit) {
    own_audit *own = (own_audit *)audit;
    if (!own) return;
    for (int64_t i = 0; own->wanted && i < own->room; i++)
        free(own->wanted[i].numbers);
    free(own->wanted);
    free(own->matches);
    free(own->frequencies);
    free(own->row);
    free(own->verdict);
    free(own);
}

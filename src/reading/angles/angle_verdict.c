/* angle_verdict.c: what a table is, in sentences. */
#include "reading/angles/angle_audit.h"
#include "util/plain_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCES = 2048 };
typedef struct text {
    char bytes[SENTENCES];
} text;

static void append(text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(text *out, const char *format, ...) {
    const size_t used = strlen(out->bytes);
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(out->bytes + used, SENTENCES - used, format, arguments);
    va_end(arguments);
}

static const char *type_name(gyre_dtype type) {
    return type == GYRE_DTYPE_BF16 ? "bf16" : type == GYRE_DTYPE_F16 ? "f16" : type == GYRE_DTYPE_F32 ? "f32" : "f64";
}

/* -- who -- */
static int is_named_before(const gyre_angle_audit *a, int64_t i, int64_t from) {
    for (int64_t k = from; k < i; k++)
        if (a->matches[k].reading->profile == a->matches[i].reading->profile) return 1;
    return 0;
}

/* out = 1 if all matches are of the profiles of matches[0 .. equal - 1]. */
static int are_all_named(const gyre_angle_audit *a, int64_t equal) {
    for (int64_t i = equal; i < a->count; i++)
        if (!is_named_before(a, i, 0)) return 0;
    return 1;
}

static int count_profiles(const gyre_angle_audit *a) {
    int count = 0;
    for (int64_t i = 0; i < a->count; i++)
        count += !is_named_before(a, i, 0);
    return count;
}

/* Appends the profiles of matches[from .. to - 1], each once. */
static void append_profiles(text *out, const gyre_angle_audit *a, int64_t from, int64_t to) {
    int named = 0;
    for (int64_t i = from; i < to; i++)
        if (!is_named_before(a, i, from))
            append(out, "%s%s", named++ ? ", " : "", gyre_profile_name(a->matches[i].reading->profile));
}

/* Appends " (full_attention)" where a reading has groups of several names that rotate. */
static void append_group(text *out, const gyre_angle_match *m) {
    if (strcmp(m->group->name, "all") != 0) append(out, " (%s)", m->group->name);
}

/* -- how -- */
static void append_precision(text *out, const gyre_angle_audit *a, gyre_angle_precision precision) {
    const int is_short = a->rounded == GYRE_DTYPE_BF16 || a->rounded == GYRE_DTYPE_F16;
    const char *half =
        precision == GYRE_ANGLE_PRECISION_BF16_FREQUENCIES || precision == GYRE_ANGLE_PRECISION_BF16_ANGLES ? "bf16" : "f16";
    if (a->form == GYRE_ANGLE_FORM_FREQUENCIES)
        append(out, is_short ? "rounded to %s" : "in %s", type_name(a->rounded));
    else if (precision == GYRE_ANGLE_PRECISION_BF16_ANGLES || precision == GYRE_ANGLE_PRECISION_F16_ANGLES)
        append(out, "with positions and angles computed in %s", half);
    else if (precision != GYRE_ANGLE_PRECISION_EXACT && precision != GYRE_ANGLE_PRECISION_F32)
        append(out, "from frequencies rounded to %s, with angles in f32", half);
    else if (is_short)
        append(out, "computed in f32 and rounded to %s at the end", type_name(a->rounded));
    else
        append(out, "computed in %s", precision == GYRE_ANGLE_PRECISION_F32 ? "f32" : type_name(a->rounded));
}

static void append_place(text *out, const gyre_angle_audit *a, const gyre_angle_match *m) {
    if (m->first_pair < 0)
        append(out, "which rotates another number of pairs than the %" PRId64 " of the table", a->pairs);
    else if (m->first_position == INT64_MAX)
        append(out, "of which pair %" PRId64 " is off, by less than 0.01 rad up to position 2^31", m->first_pair);
    else
        append(out, "from which it is off at position %" PRId64 " in pair %" PRId64, m->first_position, m->first_pair);
}

/* -- why -- */
static double base_of(const gyre_angle_match *m) {
    return m->group->config.rope.base > 0 ? m->group->config.rope.base : 10000;
}

static void append_cause(text *out, const gyre_angle_audit *a, const gyre_angle_match *m) {
    const double base = base_of(m);
    if (m->first_pair < 0) return;
    if (a->form != GYRE_ANGLE_FORM_FREQUENCIES && fabs(a->factor - m->factor) > 0.004 * m->factor)
        append(out, " Its cos and sin have the factor %.6g, those of the config %.6g.", a->factor, m->factor);
    if (a->base > 0 && fabs(a->base / base - 1) > 0.01)
        append(out, " Its frequencies are those of base %.6g; the config says %.6g.", a->base, base);
    if (a->restarts)
        append(out, " At position %" PRId64 " the table begins again at 0: two tables, one after the other.",
               m->first_position);
    else if (a->positions > 0 && m->first_position >= 0 && m->positions_off < a->positions - m->first_position)
        append(out, " %" PRId64 " of %" PRId64 " positions are off.", m->positions_off, a->positions);
}

static int64_t count_equal(const gyre_angle_audit *a) {
    int64_t count = 0;
    while (count < a->count && a->matches[count].first_position < 0)
        count++;
    return count;
}

/* The profiles that have no match that agrees. */
static void append_others(text *out, const gyre_angle_audit *a, int64_t equal) {
    int named = 0;
    for (int64_t i = equal; i < a->count; i++)
        if (!is_named_before(a, i, 0)) {
            const gyre_angle_match *m = &a->matches[i];
            append(out, "%s%s", named++ ? ", " : " Not of ", gyre_profile_name(m->reading->profile));
            if (m->first_pair >= 0 && m->first_position < INT64_MAX)
                append(out, " (off from position %" PRId64 ", pair %" PRId64 ")", m->first_position, m->first_pair);
        }
    if (named) append(out, ".");
}

char *gyre_angle_verdict(const gyre_angle_audit *a) {
    text out = {""};
    const int64_t equal = count_equal(a);
    if (a->count == 0) {
        append(&out, "A table of %" PRId64 " pairs; no reading rotates, so none is compared.", a->pairs);
    } else if (equal > 0) {
        append(&out, "The table of ");
        if (count_profiles(a) > 2 && are_all_named(a, equal))
            append(&out, "all %d profiles", count_profiles(a));
        else
            append_profiles(&out, a, 0, equal);
        append_group(&out, &a->matches[0]);
        append(&out, ", ");
        append_precision(&out, a, a->matches[0].precision);
        append(&out, ".");
        if (a->matches[0].inexact_from >= 0)
            append(&out, " This rounding puts an angle 0.01 rad off from position %" PRId64 " on.",
                   a->matches[0].inexact_from);
        append_others(&out, a, equal);
    } else {
        append(&out, "The table of none of these readings. The nearest is that of %s",
               gyre_profile_name(a->matches[0].reading->profile));
        append_group(&out, &a->matches[0]);
        append(&out, ", ");
        append_place(&out, a, &a->matches[0]);
        append(&out, ".");
        append_cause(&out, a, &a->matches[0]);
    }
    char *copy = malloc(strlen(out.bytes) + 1);
    if (copy) memcpy(copy, out.bytes, strlen(out.bytes) + 1);
    return copy;
}

/* explain_format.c: amounts, ranges, layers, and where a value comes from. */
#include "tools/explain/explain_format.h"
#include "tools/cli/cli_progress.h"
#include "tools/options/reading_options.h"
#include "util/plain_numbers.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *explain_format_amount(double value, char out[EXPLAIN_TEXT_SIZE]) {
    char amount[16];
    if (!isfinite(value))
        snprintf(out, EXPLAIN_TEXT_SIZE, "none");
    else if (fabs(value) >= 999.5e12)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.2g", value);
    else if (fabs(value) >= 99.95)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", cli_format_count(value, amount));
    else if (fabs(value) >= 0.01)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.3g", value);
    else if (fabs(value) >= 0.001 || value == 0)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.1g", value);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "<0.001");
    return out;
}

const char *explain_format_range(double from, double to, char out[EXPLAIN_TEXT_SIZE]) {
    char first[EXPLAIN_TEXT_SIZE], last[EXPLAIN_TEXT_SIZE];
    explain_format_amount(from, first);
    explain_format_amount(to, last);
    if (strcmp(first, last) == 0)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", first);
    else
        gyre_plain_snprintf(out, EXPLAIN_TEXT_SIZE, "%.20s-%.20s", first, last);
    return out;
}

const char *explain_format_number(double value, int digits, char out[EXPLAIN_TEXT_SIZE]) {
    if (value == floor(value) && fabs(value) < 1e15)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.0f", value);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.*g", digits, value);
    return out;
}

const char *explain_profile_name(gyre_profile profile) {
    return gyre_profile_title(profile) ? gyre_profile_title(profile) : "usual";
}

const char *explain_origin_name(gyre_origin origin) {
    static const char *const names[] = {"file", "family", "reader", "derived"};
    return (unsigned)origin < 4 ? names[origin] : "unknown";
}

void explain_format_location(const char *key, int64_t line, char *out, size_t size) {
    char number[32] = "";
    if (line > 0) snprintf(number, sizeof number, "%sline %" PRId64, key && *key ? ", " : "", line);
    gyre_plain_snprintf(out, size, "%.400s%s", key ? key : "", number);
}

void explain_format_source(const gyre_reading *reading, const gyre_reading_field *field, char *out, size_t size) {
    char place[480];
    explain_format_location(field->key, field->line, place, sizeof place);
    const char *program = explain_profile_name(reading->profile), *family = reading->model_type;
    const char *open = *place ? " (" : "", *close = *place ? ")" : "";
    switch (field->origin) {
    case GYRE_ORIGIN_FILE:
        snprintf(out, size, "%s", *place ? place : "the file");
        break;
    case GYRE_ORIGIN_FAMILY:
        gyre_plain_snprintf(out, size, "default of %.100s%s%s%s", *family ? family : "the family", open, place, close);
        break;
    case GYRE_ORIGIN_READER:
        snprintf(out, size, "default of %s%s%s%s", program, open, place, close);
        break;
    default:
        snprintf(out, size, "derived%s%s%s", open, place, close);
    }
}

/* -- layers -- */
void explain_format_layers(const gyre_layer_reading *group, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int64_t i = 0, last; i < group->layers_count; i = last + 1) {
        for (last = i; last + 1 < group->layers_count && group->layers[last + 1] == group->layers[last] + 1;)
            last++;
        char range[64];
        const char *comma = i ? ", " : "";
        if (last > i)
            snprintf(range, sizeof range, "%s%" PRId64 "-%" PRId64, comma, group->layers[i], group->layers[last]);
        else
            snprintf(range, sizeof range, "%s%" PRId64, comma, group->layers[i]);
        if (used + strlen(range) + sizeof ", ..." > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s", range);
    }
}

int explain_layers_overlap(const gyre_layer_reading *a, const gyre_layer_reading *b) {
    for (int64_t i = 0, j = 0; i < a->layers_count && j < b->layers_count;) {
        if (a->layers[i] == b->layers[j]) return 1;
        if (a->layers[i] < b->layers[j])
            i++;
        else
            j++;
    }
    return 0;
}

/* Groups that share a layer number belong to different stacks, because each tower of a model counts from 0. */
int64_t explain_layer_count(const gyre_reading *reading, const gyre_layer_reading *group) {
    int64_t count = group->layers_count;
    for (int64_t i = 0; count > 0 && i < reading->groups_count; i++)
        if (reading->groups[i] != group && !reading_is_beside(reading->groups[i]) &&
            !explain_layers_overlap(reading->groups[i], group))
            count += reading->groups[i]->layers_count;
    return count;
}

void explain_format_value(const gyre_config_field *f, gyre_field_value value, char out[EXPLAIN_TEXT_SIZE]) {
    out[0] = 0;
    if (f->type == GYRE_FIELD_CHOICE)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", gyre_field_spelling(f, (int)value.integer));
    else if (f->type == GYRE_FIELD_FLAG)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", value.integer ? "true" : "false");
    else if (f->type == GYRE_FIELD_SET)
        for (const gyre_field_name *n = f->names; n->text; n++) {
            const size_t used = strlen(out);
            if (value.integer & n->value)
                snprintf(out + used, EXPLAIN_TEXT_SIZE - used, "%s%s", used ? " and " : "", n->text);
        }
    else
        explain_format_number(f->type == GYRE_FIELD_NUMBER ? value.number : (double)value.integer, 17, out);
}

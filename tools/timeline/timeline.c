/* timeline.c: reads a config under every profile, merges neighbours that read alike, and finds equal readings. */
#include "tools/timeline/timeline.h"
#include "tools/cli/cli_json.h"
#include "util/error.h"
#include "util/plain_numbers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- refusals -- */
/* Cuts `part` out of the text. */
static void cut(char *text, const char *part) {
    char *at = part && *part ? strstr(text, part) : NULL;
    if (at) memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
}

/* The place of an error without the path, which heads the page; and the program without its version, so that two versions
 * that refuse for one reason say so in the same words. */
static void set_refusal(timeline_row *row, const char *path, const char *text) {
    char place[600], name[64];
    gyre_plain_snprintf(row->refused, sizeof row->refused, "%.600s", text);
    gyre_plain_snprintf(place, sizeof place, " (%.590s)", path);
    cut(row->refused, place);
    gyre_plain_snprintf(place, sizeof place, "%.590s, ", path);
    cut(row->refused, place);
    const char *title = gyre_profile_title(row->first.profile), *version = title ? strrchr(title, ' ') : NULL;
    if (!version || !row->first.from) return;
    snprintf(name, sizeof name, "%s", title);
    char *at = strstr(row->refused, name);
    if (at) cut(at, version);
}

/* -- reading -- */
static gyre_status read_row(const timeline *t, timeline_row *row, gyre_error *err) {
    const timeline_span *span = &row->first;
    row->profiles[row->profiles_count++] = span->profile;
    row->same_as = row->letter = row->compared = -1;
    row->first_position = -1;
    if (*span->missing) {
        snprintf(row->refused, sizeof row->refused, "%s%s", span->missing,
                 t->has_code ? "; with trust_remote_code, the code beside the file decides" : "");
        return GYRE_OK;
    }
    const gyre_status status = gyre_reading_open(
        &row->reading, t->path, GYRE_ARGS(gyre_reading_options, .profile = span->profile, .context_length = t->length), err);
    if (!status) return GYRE_OK;
    row->reading = NULL;
    set_refusal(row, t->path, err->text);
    return status == GYRE_EUNSUPPORTED || status == GYRE_EFORMAT ? GYRE_OK : status;
}

/* Reads the type of the model, and what the file says of its author's program.  Errors: those of gyre_reading_open. */
static gyre_status read_head(timeline *t, char *type, size_t size, gyre_error *err) {
    struct stat info;
    gyre_reading *reading = NULL;
    if (stat(t->path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return gyre_fail(err, GYRE_EINVAL,
                         "MODEL: not a regular file, but it is read once a program; save it first (%.200s)", t->path);
    gyre_status status = GYRE_EUNSUPPORTED;
    gyre_error first = {0, ""};
    /* Of a file that transformers refuses, the others may know the type. */
    for (int p = GYRE_PROFILE_DEFAULT; status && (!p || gyre_profile_name((gyre_profile)p)); p++) {
        status = gyre_reading_open(&reading, t->path, GYRE_ARGS(gyre_reading_options, .profile = (gyre_profile)p), err);
        if (status && !p) first = *err;
        if (status && status != GYRE_EUNSUPPORTED && status != GYRE_EFORMAT) return status;
    }
    if (status) {
        *err = first;
        return status;
    }
    if (strcmp(reading->format, "GGUF") == 0)
        status = gyre_fail(err, GYRE_EUNSUPPORTED,
                           "--timeline: only llama.cpp reads a GGUF, and one version of it is known (%.200s)", t->path);
    json_t *root = status ? NULL : cli_json_load(reading->path);
    if (!status && json_object_get(root, "_class_name") && !json_object_get(root, "model_type"))
        status = gyre_fail(err, GYRE_EUNSUPPORTED,
                           "_class_name: a model of diffusers, which none of the programs of --timeline reads (%.200s)",
                           reading->path);
    const char *version = json_string_value(json_object_get(root, "transformers_version"));
    gyre_plain_snprintf(t->saved_by, sizeof t->saved_by, "%.20s", version ? version : "");
    t->has_code = json_is_object(json_object_get(root, "auto_map"));
    gyre_plain_snprintf(type, size, "%.60s", reading->model_type);
    t->has_class = !*type || timeline_has_class(type);
    json_decref(root);
    gyre_reading_free(reading);
    return status;
}

/* -- merging -- */
static gyre_status is_same(const timeline *t, const timeline_row *a, timeline_row *b, int *same, gyre_error *err) {
    *same = 0;
    if (strcmp(a->first.program, b->first.program) != 0 || !a->reading != !b->reading) return GYRE_OK;
    if (a->reading) return timeline_compare(t, a, b, 0, same, err);
    *same = strcmp(a->refused, b->refused) == 0;
    return GYRE_OK;
}

static void merge(timeline_row *row, timeline_row *next) {
    row->last = next->first;
    for (int i = 0; i < next->profiles_count; i++)
        if (row->profiles[row->profiles_count - 1] != next->profiles[i])
            row->profiles[row->profiles_count++] = next->profiles[i];
    gyre_reading_free(next->reading);
    memset(next, 0, sizeof *next);
}

static gyre_status read_rows(timeline *t, const timeline_span *spans, int count, gyre_error *err) {
    for (int i = 0; i < count; i++) {
        timeline_row *row = &t->rows[t->count++];
        int same = 0;
        row->first = row->last = spans[i];
        gyre_status status = read_row(t, row, err);
        if (!status && t->count > 1) status = is_same(t, row - 1, row, &same, err);
        if (status) return status;
        if (!same) continue;
        merge(row - 1, row);
        t->count--;
    }
    return GYRE_OK;
}

/* -- equal readings -- */
/* The row before it of its program that is read; for the first of a program the default row. */
static int row_to_compare(const timeline *t, int i) {
    for (int k = i - 1; k >= 0 && strcmp(t->rows[k].first.program, t->rows[i].first.program) == 0; k--)
        if (t->rows[k].reading) return k;
    return t->default_row < i ? t->default_row : -1;
}

static gyre_status name_readings(timeline *t, gyre_error *err) {
    int letters = 0;
    for (int i = 0; i < t->count; i++) {
        timeline_row *row = &t->rows[i];
        if (!row->reading) continue;
        for (int k = 0; k < i && row->same_as < 0; k++) {
            int same = 0;
            if (t->rows[k].same_as != k) continue;
            const gyre_status status = timeline_compare(t, &t->rows[k], row, 0, &same, err);
            if (status) return status;
            if (same) row->same_as = k;
        }
        row->letter = row->same_as < 0 ? letters++ : t->rows[row->same_as].letter;
        if (row->same_as < 0) row->same_as = i;
        row->compared = row_to_compare(t, i);
        if (row->compared < 0) continue;
        int same;
        const gyre_status status = timeline_compare(t, &t->rows[row->compared], row, 1, &same, err);
        if (status) return status;
    }
    return GYRE_OK;
}

static int find_default(const timeline *t) {
    int first = -1;
    for (int i = 0; i < t->count; i++) {
        if (!t->rows[i].reading) continue;
        if (first < 0) first = i;
        for (int k = 0; k < t->rows[i].profiles_count; k++)
            if (t->rows[i].profiles[k] == GYRE_PROFILE_HF_5) return i;
    }
    return first;
}

gyre_status timeline_read(timeline *t, gyre_error *err) {
    char type[64] = "";
    timeline_span spans[TIMELINE_MAX_SPANS];
    gyre_status status = read_head(t, type, sizeof type, err);
    if (!status) status = read_rows(t, spans, timeline_spans(type, spans), err);
    if (status) return status;
    t->default_row = find_default(t);
    return name_readings(t, err);
}

void timeline_free(timeline *t) {
    for (int i = 0; i < t->count; i++) {
        gyre_reading_free(t->rows[i].reading);
        free(t->rows[i].changes);
    }
}

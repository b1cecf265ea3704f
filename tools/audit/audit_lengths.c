/* audit_lengths.c: the lengths that the files of a model state: config, tokenizer, limits of generation. */
#include "tools/audit/audit.h"
#include "tools/diff/diff_compare.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 64 << 20 };
#define GENERATION_FILE "generation_config.json"
/* Above this a tokenizer means "no limit": transformers writes 10^30. */
#define NO_LIMIT 1e15

/* -- the files beside the config -- */
/* *bytes = a copy of a file of the folder, *size long; NULL with a finding if it is no file of a size that is read. */
static gyre_status read_bytes(audit *a, const char *name, char **bytes, size_t *size, gyre_error *err) {
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%s%s", a->folder, name); /* audit_has_file saw that it fits */
    *bytes = NULL;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    gyre_status status = GYRE_OK;
    if (fstat(fd, &info)) {
        status = gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    } else if (!S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES) {
        audit_add(a, AUDIT_WRONG, "lengths", "%s is no file of at most 64 MiB", name);
    } else if (!(*bytes = malloc((size_t)info.st_size + 1))) {
        status = gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (%s)", name, path);
    } else {
        ssize_t got = 1;
        for (*size = 0; *size < (size_t)info.st_size && got > 0; *size += got > 0 ? (size_t)got : 0)
            got = read(fd, *bytes + *size, (size_t)info.st_size - *size);
        if (got < 0) status = gyre_fail(err, GYRE_EIO, "%s: %s (%s)", name, strerror(errno), path);
    }
    close(fd);
    return status;
}

/* *out = the object in a file of the folder; NULL if there is no such file, or with a finding if it holds none. */
static gyre_status load(audit *a, const char *name, json_t **out, gyre_error *err) {
    json_error_t error = {.line = 1};
    char *bytes;
    size_t size;
    *out = NULL;
    if (!audit_has_file(a, name)) return GYRE_OK;
    const gyre_status status = read_bytes(a, name, &bytes, &size, err);
    if (!status && bytes) {
        json_t *root = json_loadb(bytes, size, JSON_DECODE_INT_AS_REAL, &error);
        if (json_is_object(root)) {
            *out = root;
        } else {
            audit_finding *f =
                audit_add(a, AUDIT_WRONG, "lengths", "%s is no JSON object: %s", name, root ? "another value" : error.text);
            audit_set_place(f, "%s, line %d", name, error.line);
            json_decref(root);
        }
    }
    free(bytes);
    return status;
}

/* out = a number of at least 1 under the key; 0 = none. */
static double length_of(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    const double length = json_is_number(value) ? json_number_value(value) : 0;
    return length >= 1 ? length : 0;
}

/* -- what the config says -- */
/* out = positions that have a row of a learned table; 0 = positions do not end. */
static int64_t last_length(const gyre_layer_reading *group) {
    const gyre_reading_field *offset = explain_find_field(group, "offset");
    if (group->config.kind != GYRE_KIND_LEARNED) return 0;
    return group->config.input.positions - (offset ? strtoll(offset->value, NULL, 10) : 0);
}

static int stretches_evenly(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_LINEAR || scaling == GYRE_SCALING_NTK || scaling == GYRE_SCALING_BY_PARTS ||
           scaling == GYRE_SCALING_YARN;
}

/* The stated length against what the scaling reaches. */
static void check_scaling(audit *a, const gyre_layer_reading *group) {
    const gyre_config *c = &group->config;
    const gyre_reading_field *stated = explain_find_field(group, "max_length"),
                             *original = explain_find_field(group, "original_length");
    if (c->kind != GYRE_KIND_ROPE || !stated || c->trained_length < 1) return;
    const double length = strtod(stated->value, NULL), trained = (double)c->trained_length;
    if (original && trained > length) {
        audit_finding *f =
            audit_add(a, AUDIT_DOUBT, "lengths",
                      "%s: trained on %.0f tokens, and no more than %.0f are stated: a scaling is meant to do "
                      "the opposite",
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

/* -- the tokenizer and the limits of generation -- */
/* A file says that texts may have `length` tokens. */
static void check_limit(audit *a, const char *file, const char *key, double length, int cuts) {
    const int64_t context = audit_context(a), end = last_length(a->reading->groups[0]);
    audit_finding *f = NULL;
    if (length >= NO_LIMIT)
        f = audit_add(a, AUDIT_OK, "lengths", "%s sets no limit", file);
    else if (end > 0 && length > (double)end)
        f = audit_add(a, AUDIT_WRONG, "lengths",
                      "%s is %.0f, and the table of positions ends after %" PRId64
                      ": a text in between fails, or reads past the table",
                      key, length, end);
    else if (context > 0 && length > (double)context)
        f = audit_add(a, AUDIT_DOUBT, "lengths", "%s is %.0f, and the model serves %" PRId64 " tokens", key, length,
                      context);
    else if (context > 0 && cuts && length < (double)context)
        f = audit_add(a, AUDIT_NOTE, "lengths",
                      "%s is %.0f: with truncation on, texts are cut there, before the %" PRId64
                      " tokens that the model serves",
                      key, length, context);
    else
        f = audit_add(a, AUDIT_OK, "lengths", "%s is %.0f, within what the model serves", key, length);
    audit_set_place(f, "%s", file);
    if (f->status >= AUDIT_DOUBT) audit_set_remedy(f, "set %s to at most %" PRId64, key, end > 0 ? end : context);
}

static gyre_status check_file(audit *a, const char *file, const char *const *keys, int cuts, gyre_error *err) {
    json_t *root;
    const gyre_status status = load(a, file, &root, err);
    for (int i = 0; root && keys[i]; i++) {
        const double length = length_of(root, keys[i]);
        if (length > 0) check_limit(a, file, keys[i], length, cuts);
    }
    json_decref(root);
    return status;
}

gyre_status audit_lengths(audit *a, gyre_error *err) {
    static const char *const of_tokenizer[] = {"model_max_length", NULL}, *const of_generation[] = {"max_length",
                                                                                                    "max_new_tokens", NULL};
    const int before = a->count;
    for (int64_t i = 0; i < a->reading->groups_count; i++)
        check_scaling(a, a->reading->groups[i]);
    gyre_status status = check_file(a, GYRE_TOKENIZER_CONFIG_FILE, of_tokenizer, 1, err);
    if (!status) status = check_file(a, GENERATION_FILE, of_generation, 0, err);
    if (a->count == before) audit_add(a, AUDIT_OK, "lengths", "the lengths that are stated agree");
    return status;
}

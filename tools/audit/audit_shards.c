/* audit_shards.c: the files that an index of weights names, and that are not there. */
#include "tools/audit/audit.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAMES = 300 }; /* bytes of names in the text */

/* *missing = 1 if the name is that of a file beside the index, and there is none. */
static gyre_status find_shard(const audit *a, const char *name, int *missing, gyre_error *err) {
    char path[PATH_MAX];
    struct stat info;
    int there = 0;
    *missing = 0;
    if (!*name || strchr(name, '/')) return GYRE_OK; /* what is no plain name the reader of the index refuses */
    if (snprintf(path, sizeof path, "%s%s", a->folder, name) >= (int)sizeof path) return GYRE_OK;
    const gyre_status status = audit_find_path(path, &info, &there, err);
    *missing = !there || !S_ISREG(info.st_mode);
    return status;
}

/* files[name] = 1 if the file is there, else 0.  *lost = tensors of files that are not. */
static gyre_status count_missing(const audit *a, const json_t *map, json_t *files, int *lost, gyre_error *err) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name) continue;
        if (!json_object_get(files, name)) {
            int missing;
            const gyre_status status = find_shard(a, name, &missing, err);
            if (status) return status;
            if (json_object_set_new(files, name, json_boolean(!missing))) return audit_no_memory(a, err);
        }
        *lost += json_is_false(json_object_get(files, name));
    }
    return GYRE_OK;
}

static void add_missing(audit *a, const json_t *files, int lost, int tensors) {
    char names[MAX_NAMES + 32] = "";
    size_t length = 0;
    int missing = 0, named = 0;
    const char *name;
    json_t *there;
    json_object_foreach((json_t *)files, name, there) {
        if (json_is_true(there)) continue;
        missing++;
        if (named < missing - 1 || length + strlen(name) + 2 > MAX_NAMES) continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", named++ ? ", " : "", name);
    }
    if (missing > named) snprintf(names + length, sizeof names - length, "%s%d more", named ? " and " : "", missing - named);
    audit_finding *f = audit_add(
        a, AUDIT_WRONG, "weights",
        "%d of %d files that the index names %s not in the folder, with %d of %d tensors: %s. No tensor is checked", missing,
        (int)json_object_size(files), missing == 1 ? "is" : "are", lost, tensors, names);
    audit_set_place(f, "%s" GYRE_WEIGHTS_INDEX_FILE, a->folder);
    audit_set_remedy(f, "bring the missing files into the folder");
}

gyre_status audit_shards(audit *a, int *missing, gyre_error *err) {
    char path[PATH_MAX];
    audit_file index;
    *missing = 0;
    if (snprintf(path, sizeof path, "%s" GYRE_WEIGHTS_INDEX_FILE, a->folder) >= (int)sizeof path) return GYRE_OK;
    /* The code that opens the weights reports faults of the index as a whole. */
    gyre_status status = audit_file_open(&index, path, GYRE_WEIGHTS_INDEX_FILE, err);
    const json_t *map = json_object_get(index.root, "weight_map");
    json_t *files = json_object();
    if (!status && !files) status = audit_no_memory(a, err);
    int lost = 0;
    if (!status) status = count_missing(a, map, files, &lost, err);
    *missing = lost > 0;
    if (lost > 0) add_missing(a, files, lost, (int)json_object_size(map));
    json_decref(files);
    audit_file_close(&index);
    return status;
}

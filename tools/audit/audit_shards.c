/* audit_shards.c: the files that an index of weights names, and that are not there. */
#include "tools/audit/audit.h"
#include "util/checkpoint_files.h"
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAMES = 300 }; /* bytes of names in the text */

/* out = 1 if the name is that of a file beside the index, and there is none. */
static int is_missing(const audit *a, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    if (!name || !*name || strchr(name, '/')) return 0; /* what is no plain name the reader of the index refuses */
    if (snprintf(path, sizeof path, "%s%s", a->folder, name) >= (int)sizeof path) return 0;
    return stat(path, &info) != 0 || !S_ISREG(info.st_mode);
}

/* files[name] = 1 if the file is there, else 0.  out = tensors of files that are not; -1 = out of memory. */
static int count_missing(const audit *a, const json_t *map, json_t *files) {
    const char *tensor;
    json_t *value;
    int lost = 0;
    json_object_foreach((json_t *)map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name) continue;
        if (!json_object_get(files, name) && json_object_set_new(files, name, json_boolean(!is_missing(a, name)))) return -1;
        lost += json_is_false(json_object_get(files, name));
    }
    return lost;
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
        "%d of %d files that the index names %s not in the folder, with %d of %d tensors: %s. No tensor is looked at",
        missing, (int)json_object_size(files), missing == 1 ? "is" : "are", lost, tensors, names);
    audit_set_place(f, "%s" GYRE_WEIGHTS_INDEX_FILE, a->folder);
    audit_set_remedy(f, "bring the missing files into the folder");
}

gyre_status audit_shards(audit *a, int *missing, gyre_error *err) {
    char path[PATH_MAX];
    audit_file index;
    *missing = 0;
    if (audit_has_file(a, GYRE_WEIGHTS_FILE) || !audit_has_file(a, GYRE_WEIGHTS_INDEX_FILE)) return GYRE_OK;
    if (snprintf(path, sizeof path, "%s" GYRE_WEIGHTS_INDEX_FILE, a->folder) >= (int)sizeof path) return GYRE_OK;
    /* What is wrong with the index as a whole is told by whoever opens the weights. */
    gyre_status status = audit_file_open(&index, path, GYRE_WEIGHTS_INDEX_FILE, err);
    const json_t *map = json_object_get(index.root, "weight_map");
    json_t *files = json_object();
    if (!status && !files) status = audit_no_memory(a, err);
    const int lost = status ? 0 : count_missing(a, map, files);
    if (lost < 0) status = audit_no_memory(a, err);
    *missing = lost > 0;
    if (lost > 0) add_missing(a, files, lost, (int)json_object_size(map));
    json_decref(files);
    audit_file_close(&index);
    return status;
}

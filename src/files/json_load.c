/* json_load.c: parses what Python accepts and JSON does not, in a copy. */
#include "files/json_load.h"
#include "util/strict_json.h"

#include <stdlib.h>
#include <string.h>

json_t *gyre_json_load(const char *text, size_t bytes, json_error_t *error) {
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, error);
    if (root || bytes == 0) return root;
    char *copy = malloc(bytes);
    if (!copy) {
        *error->text = 0;
        return NULL;
    }
    memcpy(copy, text, bytes);
    if (gyre_make_json_strict(copy, bytes)) root = json_loadb(copy, bytes, JSON_REJECT_DUPLICATES, error);
    free(copy);
    return root;
}

int gyre_json_lacked_memory(const json_error_t *error) {
    return !*error->text || json_error_code(error) == json_error_out_of_memory;
}

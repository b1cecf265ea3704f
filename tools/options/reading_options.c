/* reading_options.c: --as, --length and --layer-type. */
#include "tools/options/reading_options.h"
#include "tools/cli/cli_error.h"
#include <stdio.h>
#include <string.h>

/* Where all layers are alike, a config need not name their type: their window says it. */
static int is_of(const gyre_layer_reading *group, const char *layer_type) {
    const char *alike = group->window > 0 ? "sliding_attention" : "full_attention";
    return strcmp(group->name, layer_type) == 0 || (strcmp(group->name, "all") == 0 && strcmp(alike, layer_type) == 0);
}

int reading_is_selected(const gyre_layer_reading *group, const char *layer_type) {
    return !layer_type || is_of(group, layer_type);
}

const gyre_layer_reading *reading_find_layers(const gyre_reading *reading, const char *layer_type) {
    for (int64_t i = 0; reading && i < reading->groups_count; i++)
        if (reading_is_selected(reading->groups[i], layer_type)) return reading->groups[i];
    return NULL;
}

const gyre_layer_reading *reading_find_group(const gyre_reading *reading, const char *name) {
    for (int64_t i = 0; reading && i < reading->groups_count; i++)
        if (strcmp(reading->groups[i]->name, name) == 0) return reading->groups[i];
    return NULL;
}

int reading_is_beside(const gyre_layer_reading *group) {
    return strcmp(group->name, "vision") == 0 || strcmp(group->name, "audio") == 0 ||
           strncmp(group->name, "indexer", 7) == 0 || strncmp(group->name, "mtp", 3) == 0;
}

void reading_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other) {
    char known[512] = "";
    size_t used = 0;
    if (!layer_type || reading_find_layers(one, layer_type) || reading_find_layers(other, layer_type)) return;
    for (int r = 0; r < 2; r++) {
        const gyre_reading *reading = r ? other : one;
        for (int64_t i = 0; reading && i < reading->groups_count && used < sizeof known; i++)
            if (!r || !reading_find_group(one, reading->groups[i]->name))
                used +=
                    (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", reading->groups[i]->name);
    }
    cli_usage_error("--layer-type: \"%s\" is not one of %s", layer_type, known);
}

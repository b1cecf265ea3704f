/* extend_lost.c: a scaling that a model was trained with and that its config has lost, guessed from what lies beside it. */
#include "tools/cli/cli_json.h"
#include "tools/extend/extend.h"
#include "util/checkpoint_files.h"
#include "util/path.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST_FACTOR = 512 };

typedef struct extend_lost {
    const char *stated_by; /* "the model's name" */
    double length, factor; /* tokens; over the trained length */
} extend_lost;

/* out = tokens that a name such as "Llama-2-7b-longlora-32k-ft" states; 0 = none. */
static double length_in_name(const char *name) {
    for (const char *c = name; *c; c++) {
        char *end;
        if (!isdigit((unsigned char)*c) || (c > name && c[-1] != '-' && c[-1] != '_')) continue;
        const long number = strtol(c, &end, 10);
        if ((*end == 'k' || *end == 'K') && !isalnum((unsigned char)end[1]) && number < 100000)
            return 1024.0 * (double)number;
    }
    return 0;
}

/* out = tokens that the tokenizer beside the config is limited to; 0 = not stated. */
static double length_of_tokenizer(const extension *e) {
    char folder[4000], path[4200];
    struct stat info;
    (void)gyre_path_folder(e->reading->path, folder, sizeof folder);
    if (snprintf(path, sizeof path, "%s/" GYRE_TOKENIZER_CONFIG_FILE, folder) >= (int)sizeof path || stat(path, &info) ||
        !S_ISREG(info.st_mode) || info.st_size > 1 << 24)
        return 0;
    json_t *root = json_load_file(path, 0, NULL);
    const double length = json_number_value(json_object_get(root, "model_max_length"));
    json_decref(root);
    return length;
}

static double factor_of(const extension *e, double length) {
    const double factor = length / (double)e->trained;
    return factor >= 2 && factor <= LARGEST_FACTOR && factor == floor(factor) ? factor : 0;
}

/* out = 0 if nothing states such a length. */
static int find_lost(const extension *e, extend_lost *out) {
    const gyre_config *config = &e->group->config;
    if (extend_is_gguf(e) || e->trained < 1 || config->rope.scaling != GYRE_SCALING_NONE) return 0;
    const char *named = json_string_value(json_object_get(e->config, "_name_or_path"));
    const double of_tokenizer = factor_of(e, length_of_tokenizer(e));
    const double of_path = factor_of(e, length_in_name(e->reading->path));
    const double of_name = factor_of(e, named ? length_in_name(named) : 0);
    out->factor = of_tokenizer > 0 ? of_tokenizer : of_path > 0 ? of_path : of_name;
    out->length = out->factor * (double)e->trained;
    out->stated_by = of_tokenizer > 0 ? GYRE_TOKENIZER_CONFIG_FILE : of_path > 0 ? "the model's name" : "_name_or_path";
    return out->factor > 0;
}

int extend_lost_scaling(const extension *e, char *out, size_t size) {
    extend_lost lost;
    if (!find_lost(e, &lost)) return 0;
    snprintf(out, size,
             "%s says %.0f tokens, %.0f times what the config does, and no scaling reaches them: the model may have been "
             "trained with one that its config has lost, as LongLoRA's were. Then it needs no stretching but that scaling: "
             "\"max_position_embeddings\": %.0f, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": %.1f}; what is "
             "recommended above is for a model that was trained without",
             lost.stated_by, lost.length, lost.factor, lost.length, lost.factor);
    return 1;
}

json_t *extend_lost_json(const extension *e) {
    extend_lost lost;
    if (!find_lost(e, &lost)) return json_null();
    return JSON_OBJECT("stated_by", JSON(lost.stated_by), "length", JSON((long long)lost.length), "factor",
                       JSON(lost.factor), "keys",
                       JSON_OBJECT("max_position_embeddings", JSON((long long)lost.length), "rope_scaling",
                                   JSON_OBJECT("rope_type", JSON("linear"), "factor", JSON(lost.factor))));
}

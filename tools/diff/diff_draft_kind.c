/* diff_draft_kind.c: what kind of draft a config describes. */
#include "tools/cli/cli_json.h"
#include "tools/diff/diff_draft.h"
#include "util/plain_numbers.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *diff_draft_kind_name(diff_draft_kind kind) {
    return kind == DIFF_DRAFT_HEAD ? "head" : kind == DIFF_DRAFT_CACHE ? "cache" : "model";
}

/* out = 1 if text has the word, in any case of letters. */
static int has_word(const char *text, const char *word) {
    for (; *text; text++) {
        size_t k = 0;
        while (word[k] && tolower((unsigned char)text[k]) == word[k])
            k++;
        if (!word[k]) return 1;
    }
    return 0;
}

/* out = the kind that a model_type, architecture or path names; NONE = none. */
static diff_draft_kind kind_named(const char *text) {
    static const char *const heads[] = {"eagle", "mtp", "dflash", "dspark", "medusa", "nextn", "speculator", "assistant"};
    if (has_word(text, "gemma4") && has_word(text, "assistant")) return DIFF_DRAFT_CACHE;
    if (has_word(text, "gemma-4") && has_word(text, "assistant")) return DIFF_DRAFT_CACHE;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (has_word(text, heads[i])) return DIFF_DRAFT_HEAD;
    return DIFF_DRAFT_NONE;
}

static diff_draft_kind known(char known_by[DIFF_DRAFT_TEXT], diff_draft_kind kind, const char *what, const char *text) {
    (void)gyre_plain_snprintf(known_by, DIFF_DRAFT_TEXT, "%s %.60s", what, text);
    return kind;
}

/* Keys that only configs of draft heads have. */
static diff_draft_kind kind_by_keys(const json_t *root, char known_by[DIFF_DRAFT_TEXT]) {
    static const char *const keys[] = {"draft_vocab_size", "eagle_config", "dflash_config",      "dspark_block_size",
                                       "target_layer_ids", "n_predict",    "target_hidden_size", "speculators_config"};
    const json_t *architectures = json_object_get(root, "architectures"), *name;
    size_t i;
    json_array_foreach(architectures, i, name) {
        const char *text = json_string_value(name);
        const diff_draft_kind kind = text ? kind_named(text) : DIFF_DRAFT_NONE;
        if (kind) return known(known_by, kind, "architectures", text);
    }
    for (i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (value && !json_is_null(value)) return known(known_by, DIFF_DRAFT_HEAD, "the key", keys[i]);
    }
    return DIFF_DRAFT_NONE;
}

/* out = the last two names of a path: ORG/NAME of a model in a folder, or the name of a file. */
static const char *path_end(const char *path) {
    const char *at = path + strlen(path);
    for (int slashes = 0; at > path; at--)
        if (at[-1] == '/' && ++slashes == 2) break;
    return at;
}

diff_draft_kind diff_draft_find_kind(const diff_operand operand[2], char known_by[DIFF_DRAFT_TEXT]) {
    const gyre_reading *draft = operand[0].reading;
    diff_draft_kind kind = kind_named(draft->model_type);
    if (kind) return known(known_by, kind, "model_type", draft->model_type);
    if (strcmp(draft->format, "GGUF") != 0) {
        json_t *root = cli_json_load(draft->path);
        kind = kind_by_keys(root, known_by);
        json_decref(root);
        if (kind) return kind;
    }
    kind = kind_named(path_end(draft->path));
    if (kind) return known(known_by, kind, "its path", path_end(draft->path));
    if (strcmp(operand[0].path, operand[1].path) == 0)
        return known(known_by, DIFF_DRAFT_HEAD, "one file for both:", "layers of multi-token prediction in the target");
    return known(known_by, DIFF_DRAFT_MODEL, "nothing", "that only a draft head has");
}

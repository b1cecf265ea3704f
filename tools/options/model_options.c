/* model_options.c: MODEL, --as, --tokenizer, --text and --ids. */
#include "tools/options/model_options.h"
#include "tools/cli/cli_error.h"
#include "tools/common/model_path.h"
#include <stdlib.h>

void model_options_init(model_options *o, int argc) {
    *o = (model_options){.profile = GYRE_PROFILE_DEFAULT};
    o->texts = calloc((size_t)argc + 1, sizeof *o->texts);
    if (!o->texts) exit(cli_fail("--text: out of memory (options)"));
}

void model_options_free(model_options *o) {
    free(o->texts);
    o->texts = NULL;
}

static void add_text(model_options *o, const char *path, int ids) {
    if (o->texts_count && o->ids != ids) cli_usage_error("--ids: takes the place of --text; give one of them");
    o->ids = ids;
    o->texts[o->texts_count++] = path;
}

error_t model_option(model_options *o, int key, char *text) {
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->path) return ARGP_ERR_UNKNOWN;
        o->path = model_path_find(text);
        return 0;
    case READING_KEY_AS:
        o->profile = profile_option("--as", text);
        return 0;
    case MODEL_KEY_TOKENIZER:
        o->tokenizer = model_path_find_tokenizer(text);
        return 0;
    case MODEL_KEY_TEXT:
    case MODEL_KEY_IDS:
        add_text(o, text, key == MODEL_KEY_IDS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void model_options_check(const model_options *o, int requires_text) {
    if (!o->path) cli_usage_error("MODEL: missing; name a model folder or a GGUF file");
    if (requires_text && !o->texts_count) cli_usage_error("--text: missing; name a text, or token ids with --ids");
    if (o->ids && o->tokenizer) cli_usage_error("--tokenizer: token ids of --ids need none; give one of them");
}

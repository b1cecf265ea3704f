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

int model_options_argument(void *at, char *text) {
    model_options *o = at;
    if (o->path) return 1;
    o->path = model_path_find(text);
    return 0;
}

void model_read_tokenizer(const char *option, const char *text, void *at) {
    (void)option;
    *(const char **)at = model_path_find_tokenizer(text);
}

void model_read_text(const char *option, const char *text, void *at) {
    model_options *o = at;
    (void)option;
    o->texts[o->texts_count++] = text;
}

void model_read_ids(const char *option, const char *text, void *at) {
    ((model_options *)at)->ids = 1;
    model_read_text(option, text, at);
}

void model_options_check(const model_options *o, int requires_text) {
    if (!o->path) cli_usage_error("MODEL: missing; name a model folder or a GGUF file");
    if (requires_text && !o->texts_count) cli_usage_error("--text: missing; name a text, or token ids with --ids");
    if (o->ids && o->tokenizer) cli_usage_error("--tokenizer: token ids of --ids need none; give one of them");
}

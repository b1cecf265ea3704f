/* model_options.h: options that name the model of a command, its tokenizer and its texts: MODEL, --as, --tokenizer, --text
 * and --ids. */
#ifndef GYRE_TOOLS_MODEL_OPTIONS_H
#define GYRE_TOOLS_MODEL_OPTIONS_H
#include "tools/common/model_path.h"
#include "tools/options/reading_options.h"

enum { MODEL_KEY_TOKENIZER = 0x190, MODEL_KEY_TEXT, MODEL_KEY_IDS };

#define OPTION_TOKENIZER(group)                                                                                             \
    {                                                                                                                       \
        "tokenizer", MODEL_KEY_TOKENIZER, "PATH", 0,                                                                        \
            "A tokenizer.json, or a model whose tokenizer is used (default: the model's own)", group                        \
    }
#define OPTION_TEXT(group)                                                                                                  \
    { "text", MODEL_KEY_TEXT, "PATH", 0, "A text to read; a folder means all files under it. Repeat for more texts", group }
#define OPTION_IDS(group)                                                                                                   \
    {                                                                                                                       \
        "ids", MODEL_KEY_IDS, "FILE", 0,                                                                                    \
            "Token ids to read instead of a text: decimal numbers separated by white space or commas. Repeat for more",     \
            group                                                                                                           \
    }

/* What MODEL may be, for help texts. */
#define MODEL_HELP                                                                                                          \
    "MODEL is a folder with config.json and model.safetensors, whole or in shards with an index, or a GGUF file; "          \
    "or " MODEL_PATH_HELP

typedef struct model_options {
    const char *path;      /* MODEL */
    gyre_profile profile;  /* --as; GYRE_PROFILE_DEFAULT without it */
    const char *tokenizer; /* --tokenizer; NULL = the model's own */
    int lists_notes;       /* 1: the command lists the tokenizer's notes, and opening it warns of none */
    const char **texts;    /* [texts_count] of argv, from --text or --ids */
    int64_t texts_count;
    int ids; /* 1: the texts are token ids */
} model_options;

/* Called before parsing.  Usage error if memory runs out. */
void model_options_init(model_options *o, int argc);
void model_options_free(model_options *o);
/* Also takes the argument MODEL.  out = 0, or ARGP_ERR_UNKNOWN if the key is not one of these or a second model is named. */
error_t model_option(model_options *o, int key, char *text);
/* Called after parsing.  Usage error if no model is named, or if requires_text and no text is. */
void model_options_check(const model_options *o, int requires_text);

#endif

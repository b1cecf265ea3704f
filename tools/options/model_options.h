/* model_options.h: options that name the model of a command, its tokenizer and its texts: MODEL, --as, --tokenizer, --text
 * and --ids. */
#ifndef GYRE_TOOLS_MODEL_OPTIONS_H
#define GYRE_TOOLS_MODEL_OPTIONS_H
#include "tools/common/model_path.h"
#include "tools/options/reading_options.h"

#define ROW_TOKENIZER(member, group)                                                                                        \
    {                                                                                                                       \
        "tokenizer", "PATH", "A tokenizer.json, or a model whose tokenizer is used (default: the model's own)", group,      \
            CLI_OTHER(const char *, member, model_read_tokenizer)                                                           \
    }
/* member: a model_options. */
#define ROW_TEXT(member, group)                                                                                             \
    {                                                                                                                       \
        "text", "PATH", "A text to read; a folder means all files under it. Repeat for more texts", group,                  \
            CLI_OTHER(model_options, member, model_read_text), .file = CLI_FILE_READ                                        \
    }
#define ROW_IDS(member, group)                                                                                              \
    {                                                                                                                       \
        "ids", "FILE",                                                                                                      \
            "Token ids to read instead of a text: decimal numbers separated by white space or commas. Repeat for more",     \
            group, CLI_OTHER(model_options, member, model_read_ids), .file = CLI_FILE_READ, .excludes = "text",             \
                                                                     .why = "takes the place of --text; give one of them"   \
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
/* Reads the argument MODEL (cli_command.argument).  at: a model_options. */
int model_options_argument(void *at, char *text);
/* Of the rows above.  at: of tokenizer; of model_options. */
void model_read_tokenizer(const char *option, const char *text, void *at);
void model_read_text(const char *option, const char *text, void *at);
void model_read_ids(const char *option, const char *text, void *at);
/* Called after parsing.  Usage error if no model is named, or if requires_text and no text is. */
void model_options_check(const model_options *o, int requires_text);

#endif

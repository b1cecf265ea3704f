/* model_input.h: the model that a command works on, its tokenizer, and the texts it reads, from options that several
 * commands have.
 *
 * A command puts MODEL_OPTIONS and, where it reads texts, TEXT_OPTIONS into its table, hands what its parser does not know
 * to model_option, and sets `path` from its argument. */
#ifndef GYRE_TOOLS_MODEL_INPUT_H
#define GYRE_TOOLS_MODEL_INPUT_H
#include "gyre/gyre_model.h"
#include "tools/common/cli.h"
#include "tools/common/methods.h"

/* -- options -- */
/* Below CLI_FIRST_KEY, as all that commands share. */
enum { MODEL_KEY_AS = 0x180, MODEL_KEY_TOKENIZER, MODEL_KEY_TEXT, MODEL_KEY_IDS };

/* Entries of an argp table; group: as argp has it. */
#define MODEL_OPTIONS(group)                                                                                                \
    {"as",                                                                                                                  \
     MODEL_KEY_AS,                                                                                                          \
     "PROFILE",                                                                                                             \
     0,                                                                                                                     \
     "Read the model's positions as hf-5, hf-4.56, hf-4.51, hf-4.43, vllm, llama.cpp or reference does (default: hf-5 for " \
     "a folder, llama.cpp for a GGUF)",                                                                                     \
     group},                                                                                                                \
    {                                                                                                                       \
        "tokenizer", MODEL_KEY_TOKENIZER, "PATH", 0,                                                                        \
            "A tokenizer.json, or a model whose tokenizer to take (default: the model's own)", group                        \
    }
#define TEXT_OPTIONS(group)                                                                                                 \
    {"text", MODEL_KEY_TEXT, "PATH", 0, "A text to read; a folder stands for all files under it. Repeat for more texts",    \
     group},                                                                                                                \
    {                                                                                                                       \
        "ids", MODEL_KEY_IDS, "FILE", 0,                                                                                    \
            "Token ids to read in place of a text: decimal numbers between white space or commas. Repeat for more", group   \
    }

/* What MODEL may be, for help texts. */
#define MODEL_HELP                                                                                                          \
    "MODEL is a folder with config.json and model.safetensors, whole or in shards with an index, or a GGUF file."

typedef struct model_options {
    const char *path;      /* MODEL */
    gyre_profile profile;  /* --as; GYRE_PROFILE_DEFAULT without one */
    const char *tokenizer; /* --tokenizer; NULL = the model's own */
    const char **texts;    /* [texts_count] of argv, what --text, or --ids, names */
    int64_t texts_count;
    int ids; /* 1: they hold token ids */
} model_options;

/* Before the arguments are read; cli_usage_error where memory ends. */
void model_options_begin(model_options *o, int argc);
void model_options_free(model_options *o);
/* For a command's parser.  out = 0, ARGP_ERR_UNKNOWN where the key is another's, or cli_usage_error. */
error_t model_option(model_options *o, int key, char *text);
/* After them: cli_usage_error where no model is named; no text either, where wants_text is 1. */
void model_options_check(const model_options *o, int wants_text);

/* -- what they name -- */
typedef struct model_input {
    const model_options *options; /* borrowed */
    gyre_model *model;
    gyre_tokenizer *tokenizer; /* NULL where token ids are read, and before model_input_tokenizer */
    gyre_text *texts;          /* [texts_count] in the order of the options, once model_input_read them */
    int64_t texts_count;
} model_input;

/* Opens the model, its positions as --as reads them at `length` (0 = none is said).  Errors: those of gyre_model_open_as. */
gyre_status model_input_open(model_input *out, const model_options *o, int64_t length, gyre_error *err);
/* *out = the model's positions under a method, at a context length, the model read at that length, too: some programs choose
 * their frequencies by it.  policy: -1 = the model's own.  Errors: those of gyre_model_position_for_length and
 * method_encoding. */
gyre_status model_input_encoding(const model_input *in, const method *m, int policy, int64_t length,
                                 const method_betas *betas, gyre_encoding **out, gyre_error *err);
/* Opens the tokenizer: that of --tokenizer, else the model's own; the error says what else can be named.  Errors: those of
 * gyre_tokenizer_open; EINVAL: its ids reach past the model's vocabulary. */
gyre_status model_input_tokenizer(model_input *in, gyre_error *err);
/* Reads each text on its own, through the tokenizer unless they are ids.  Needs `least` tokens of each.  Errors: those, of
 * gyre_text_tokenize and of gyre_text_open_ids. */
gyre_status model_input_read(model_input *in, int64_t least, gyre_error *err);
/* out = bytes that a token of texts[index] stands for, on average; 0 = not known (token ids). */
double model_input_bytes_per_token(const model_input *in, int64_t index);
void model_input_free(model_input *in); /* one that was zeroed, or opened, or failed to */

#endif

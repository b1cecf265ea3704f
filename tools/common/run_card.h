/* run_card.h: the run card, which makes results traceable: the hash of the model's files, the profile that its positions
 * were read with, the methods, the hashes of the texts, and the command that repeats the run. */
#ifndef GYRE_TOOLS_RUN_CARD_H
#define GYRE_TOOLS_RUN_CARD_H
#include "report/report.h"
#include "tools/common/model_input.h"
#include <jansson.h>

enum { RUN_CARD_LINE = 8192, RUN_CARD_INDENT = 6 /* "card: " */ };

typedef struct run_card {
    const model_input *input; /* borrowed, as are its model and texts */
    char model_hash[32];      /* "fnv1a64:..." of its weight files */
    char config_hash[32];     /* of its config.json; "" = it has none, or it cannot be read */
    char command[4096];       /* from cli_command_line */
    const char *methods;      /* "none, yarn:4"; NULL = the unchanged model */
    const char *prompts;      /* their format, of gyre passkey; NULL = the run has none */
} run_card;

/* out[0 .. argc - 1] = argv without --resume and --force, because a resumed run prints the same as a run in one piece.  Call
 * it before the options are parsed, which reorders argv.  Returns the number of arguments. */
int run_card_argv(int argc, char **argv, char **out);
/* *out = the card of a run on `input`.  Reads all of the model's files.  methods: borrowed.  Errors: those of
 * gyre_model_hash. */
gyre_status run_card_make(run_card *out, const model_input *input, const char *methods, int argc, char **argv,
                          gyre_error *err);
/* Adds to the key of a journal's cell what every result of this model depends on: "gyre", "model", "config", "profile".
 * out = key; NULL, with key released, if key is NULL or memory runs out. */
json_t *run_card_key(const run_card *card, json_t *key);
/* out = the profile that the model's positions were read with: "hf-5". */
const char *run_card_profile(const run_card *card);
/* Writes the card on one line, without a newline: "card: model stories260K fnv1a64:... (llama, safetensors); methods
 * ...". */
void run_card_text(const run_card *card, char out[RUN_CARD_LINE]);
/* Prints that line, folded to the width of the page. */
void run_card_print(const run_card *card, FILE *file);
/* out = {"model": {"path", "hash", "config_hash", "family", "format", "stored", "parameters", "bytes"}, "profile",
 * "methods", "prompts", "texts": [{"path", "hash", "tokens", "bytes"}], "gyre", "command"}; NULL = out of memory.
 * config_hash, methods and bytes are null if there are none; prompts is left out. */
json_t *run_card_json(const run_card *card);
/* The card as the foot of a page.  date: of the run; NULL leaves it out. */
void run_card_foot(const run_card *card, const char *date, gyre_report_page *page);

#endif

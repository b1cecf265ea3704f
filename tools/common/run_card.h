/* run_card.h: what a run was of, so that its figures can be traced: the model's files by their hash, whose reading of their
 * positions, the methods, the texts by their hash, and the command that does it again. */
#ifndef GYRE_TOOLS_RUN_CARD_H
#define GYRE_TOOLS_RUN_CARD_H
#include "report/report.h"
#include "tools/common/model_input.h"

enum { RUN_CARD_MAX_KEY_VALUES = 8, RUN_CARD_LINE = 8192 };

typedef struct run_card {
    const model_input *input; /* borrowed, as are its model and texts */
    char model_hash[32];      /* "fnv1a64:..." of its weight files */
    char config_hash[32];     /* of its config.json; "" = it has none, or it was not read */
    char command[4096];       /* as cli_command_line gives it */
    const char *methods;      /* "none, yarn:4"; NULL = the model as it is */
} run_card;

/* out[0 .. returned - 1] = argv as a card has it, room for argc: without --resume, for a run that was gone on with is the
 * run that would have been, and its output says the same.  Before the options are read, which puts argv into another
 * order. */
int run_card_argv(int argc, char **argv, char **out);
/* *out = the card of a run on what input holds; reads the model's files whole.  methods: borrowed.  Errors: those of
 * gyre_model_hash. */
gyre_status run_card_make(run_card *out, const model_input *input, const char *methods, int argc, char **argv,
                          gyre_error *err);
/* out = whose reading of the model's positions it was: "hf-5". */
const char *run_card_profile(const run_card *card);
/* The card on one line, without its end: "card: model stories260K fnv1a64:... (llama, safetensors), methods none, ...". */
void run_card_text(const run_card *card, char out[RUN_CARD_LINE]);
/* out = {"model": {"path", "hash", "config_hash", "family", "format", "stored", "parameters", "bytes"}, "profile",
 * "methods", "texts": [{"path", "hash", "tokens", "bytes"}], "gyre", "command"}; NULL = out of memory.  config_hash, methods
 * and bytes are null where there is none. */
json_t *run_card_json(const run_card *card);
/* facts[0 .. out - 1] = the same for a page; its values are in `room`. */
int64_t run_card_key_values(const run_card *card, gyre_report_key_value facts[RUN_CARD_MAX_KEY_VALUES],
                            char room[RUN_CARD_LINE]);

#endif

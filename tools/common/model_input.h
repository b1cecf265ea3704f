/* model_input.h: the model that a command works on, its tokenizer and its texts, opened from model_options. */
#ifndef GYRE_TOOLS_MODEL_INPUT_H
#define GYRE_TOOLS_MODEL_INPUT_H
#include "gyre/gyre_model.h"
#include "tools/common/methods.h"
#include "tools/options/model_options.h"

typedef struct model_input {
    const model_options *options; /* borrowed */
    gyre_model *model;
    gyre_tokenizer *tokenizer; /* NULL before model_input_tokenizer, and if the texts are token ids */
    gyre_text *texts;          /* [texts_count] in the order of the options; filled by model_input_read */
    int64_t texts_count;
} model_input;

/* Opens the model.  Its positions are read as --as says, at context length `length` (0 = not stated).  Errors: those of
 * gyre_model_open. */
gyre_status model_input_open(model_input *out, const model_options *o, int64_t length, gyre_error *err);
/* *out = the model's positions under a method at context length `length`.  The config is read again at that length, because
 * some programs choose frequencies by it.  policy: a gyre_length_policy; -1 = the model's own.  Errors: those of
 * gyre_model_position_for_length and method_encoding. */
gyre_status model_input_encoding(const model_input *in, const method *m, int policy, int64_t length,
                                 const method_betas *betas, gyre_encoding **out, gyre_error *err);
/* As above, for `length` tokens at the positions from `first` on: the method is scaled for the length, and the length in use
 * is first + length, the last position + 1, as in an engine that is given such positions. */
gyre_status model_input_encoding_from(const model_input *in, const method *m, int policy, int64_t first, int64_t length,
                                      const method_betas *betas, gyre_encoding **out, gyre_error *err);
/* Opens the tokenizer of --tokenizer, else the model's own, and warns of its notes.  Errors: those of gyre_tokenizer_open,
 * with a hint at the options; EINVAL (it has more tokens than the model's vocabulary). */
gyre_status model_input_tokenizer(model_input *in, gyre_error *err);
/* Reads each text separately, tokenized unless it holds token ids.  Each must have at least min_tokens tokens.  Errors:
 * those of model_input_tokenizer, gyre_text_tokenize and gyre_text_open_ids. */
gyre_status model_input_read(model_input *in, int64_t min_tokens, gyre_error *err);
/* out = mean bytes of text per token of texts[index]; 0 = not known (token ids). */
double model_input_bytes_per_token(const model_input *in, int64_t index);
/* Describes the model in one line: "models/rope: rope, 1.2M weights, trained on 256 tokens". */
void model_input_describe(const model_input *in, char *out, size_t size);
void model_input_free(model_input *in); /* also for one that is zeroed or failed to open */

/* out = FNV-1a of the ids, each as four little-endian bytes. */
uint64_t hash_token_ids(const int32_t *ids, int64_t count);

/* -- notes: what a tokenizer's file asks for and Gyre does otherwise -- */
enum { TOKENIZER_NOTE = 320 };

/* out = the note at *at, which moves to the next.  Returns 0 where there is none.  Begins with *at =
 * gyre_tokenizer_info.notes. */
int tokenizer_note_next(const char **at, char out[TOKENIZER_NOTE]);
/* Warns of each note in a separate line.  path: of the tokenizer's file or model. */
void tokenizer_notes_warn(const gyre_tokenizer *tokenizer, const char *path);

/* out = what gyre_tokenizer_get_info and gyre_model_get_source write. */
gyre_tokenizer_info tokenizer_info(const gyre_tokenizer *tokenizer);
gyre_model_source model_source(const gyre_model *model);

#endif

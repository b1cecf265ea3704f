/* tokenizer_notes.h: what a tokenizer's file asks for and Gyre does otherwise, one note at a time. */
#ifndef GYRE_TOOLS_TOKENIZER_NOTES_H
#define GYRE_TOOLS_TOKENIZER_NOTES_H
#include "gyre/gyre_model.h"

enum { TOKENIZER_NOTE = 320 };

/* out = the note at *at, which moves to the next.  Returns 0 where there is none.  Begins with *at =
 * gyre_tokenizer_info.notes. */
int tokenizer_note_next(const char **at, char out[TOKENIZER_NOTE]);
/* Warns of each note in a line of its own.  path: of the tokenizer's file or model. */
void tokenizer_notes_warn(const gyre_tokenizer *tokenizer, const char *path);

#endif

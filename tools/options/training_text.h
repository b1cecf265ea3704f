/* training_text.h: the texts that gyre train and gyre lab use: those of --text, or the system headers. */
#ifndef GYRE_TOOLS_TRAINING_TEXT_H
#define GYRE_TOOLS_TRAINING_TEXT_H
#include "gyre/gyre_model.h"

enum { MAX_TRAINING_TEXTS = 64 };

/* The values of a repeated --text. */
typedef struct training_texts {
    const char *paths[MAX_TRAINING_TEXTS]; /* [count], borrowed */
    int64_t count;
} training_texts;

/* Adds the value of an option to the training_texts at `at` (cli_read).  Usage error if there are too many. */
void training_texts_read(const char *option, const char *text, void *at);

/* Notes the headers that header_corpus_open reads (tools/cli/cli_guard.h). */
void header_corpus_note(void);
/* *out = part `split` of the C library's and the kernel's headers under /usr/include, a text that every machine with a C
 * compiler has.  It has at least min_bytes bytes.  Errors: EIO (no headers), those of gyre_text_open. */
gyre_status header_corpus_open(gyre_text *out, gyre_text_split split, int64_t min_bytes, gyre_error *err);

#endif

/* completion_words.h: what a shell completes, printed on stdout, one line each of four columns between tabs:
 *
 *     WORD     TAKES              CHOICES        HELP
 *     --as     word               hf-5 vllm ...  Read the model's positions as ...
 *     -        file                              (an argument)
 *
 * Each argument has its own row; a shell takes the first one of which no choice is on the line yet.  TAKES: none, file,
 * folder, word (one of the choices, if there are any) or list (words between commas). */
#ifndef GYRE_TOOLS_COMPLETION_WORDS_H
#define GYRE_TOOLS_COMPLETION_WORDS_H
#include "tools/cli/cli_parse.h"

/* A word that takes nothing: a subcommand. */
void completion_word(const char *word, const char *help);
void completion_words_of_command(const cli_description *command);

#endif

/* length_list.h: the context lengths at which a command measures: --contexts of eval, --lengths of passkey. */
#ifndef GYRE_TOOLS_LENGTH_LIST_H
#define GYRE_TOOLS_LENGTH_LIST_H
#include <stdint.h>

#define DEFAULT_LENGTHS_HELP "(default: 1, 2 and 4 times the trained length)"

typedef struct length_list {
    int64_t *values; /* [count] rising, in tokens; NULL = not given */
    int64_t count;
} length_list;

/* Reads an option into the length_list at `at` (cli_read).  A list that is wrong or does not rise is a usage error. */
void length_list_read(const char *option, const char *text, void *at);
/* Sets a list that was not given to 1, 2 and 4 times the trained length.  out = 0, or CLI_FAILED with the error printed: the
 * model at `path` does not state a trained length, 4 times it are more tokens than an option may name, or memory ran out. */
int length_list_default(length_list *list, const char *option, int64_t trained, const char *path);
void length_list_free(length_list *list);

#endif

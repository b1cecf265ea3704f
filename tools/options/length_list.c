/* length_list.c: rising lists of lengths. */
#include "tools/options/length_list.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_values.h"
#include <stdlib.h>
#include <string.h>

void length_list_read(const char *option, const char *text, void *at) {
    length_list *list = at;
    list->count = cli_integers(option, text, 2, CLI_MAX_TOKENS, &list->values);
    cli_check_rising(option, list->values, list->count);
}

int length_list_default(length_list *list, const char *option, int64_t trained, const char *path) {
    enum { LENGTHS = 3 };
    const char *name = option + strlen("--");
    if (list->values) return 0;
    if (trained < 2)
        return cli_fail("%s: does not say its trained length; name the lengths with %s (%s)", path, option, name);
    if (trained > CLI_MAX_TOKENS >> (LENGTHS - 1))
        return cli_fail(
            "%s: its trained length is %lld, and %d times as many tokens are more than 2^31; name the lengths with "
            "%s (%s)",
            path, (long long)trained, 1 << (LENGTHS - 1), option, name);
    list->values = calloc(LENGTHS, sizeof *list->values);
    if (!list->values) return cli_fail("%s: out of memory (options)", name);
    for (; list->count < LENGTHS; list->count++)
        list->values[list->count] = trained << list->count;
    return 0;
}

void length_list_free(length_list *list) {
    free(list->values);
    *list = (length_list){0};
}

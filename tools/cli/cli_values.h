/* cli_values.h: option values.  A wrong value ends the program with cli_usage_error.
 *
 * option: the name of the option in the message, such as "--stride". */
#ifndef GYRE_TOOLS_CLI_VALUES_H
#define GYRE_TOOLS_CLI_VALUES_H
#include <stdint.h>

/* Positions, and so lengths in tokens, end at 2^31. */
#define CLI_MAX_TOKENS ((int64_t)1 << 31)

int64_t cli_even_integer(const char *option, const char *text, int64_t min, int64_t max); /* refuses odd ones */
int64_t cli_integer(const char *option, const char *text, int64_t min, int64_t max);      /* 4096, 4k, 1M: k = 1024 */
double cli_number(const char *option, const char *text, double min, double max);
/* *out = the integers of a comma list.  Frees the old *out; the caller frees the new one.  out = their count, at least 1. */
int64_t cli_integers(const char *option, const char *text, int64_t min, int64_t max, int64_t **out);
/* The same for numbers. */
int64_t cli_numbers(const char *option, const char *text, double min, double max, double **out);
/* Usage error unless every value is larger than the one before. */
void cli_check_rising(const char *option, const int64_t *values, int64_t count);
/* out = the index of text in names[0 .. count - 1]. */
int cli_choice(const char *option, const char *text, const char *const *names, int count);

#endif

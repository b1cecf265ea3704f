/* cli_values.c: the values of options, read from text. */
#include "tools/cli/cli_values.h"
#include "tools/cli/cli_error.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* out = 1 and *end = the first unread character if text starts with a digit.  strtoll also accepts signs and spaces, which
 * are errors here. */
static int read_integer(const char *text, int64_t *value, const char **end) {
    if (*text < '0' || *text > '9') return 0;
    char *stop;
    errno = 0;
    const long long number = strtoll(text, &stop, 10);
    if (errno) return 0;
    const int thousands = *stop == 'k' || *stop == 'K', millions = *stop == 'm' || *stop == 'M';
    const int64_t unit = millions ? 1 << 20 : thousands ? 1 << 10 : 1;
    if (number > INT64_MAX / unit) return 0;
    *value = number * unit;
    *end = stop + (thousands || millions);
    return 1;
}

static void check_range(const char *option, int64_t value, int64_t min, int64_t max) {
    if (value < min) cli_usage_error("%s: %lld is below %lld", option, (long long)value, (long long)min);
    if (value > max) cli_usage_error("%s: %lld is above %lld", option, (long long)value, (long long)max);
}

int64_t cli_integer(const char *option, const char *text, int64_t min, int64_t max) {
    int64_t value;
    const char *end;
    if (!read_integer(text, &value, &end) || *end)
        cli_usage_error("%s: \"%s\" is not a whole number such as 4096, 4k or 1M", option, text);
    check_range(option, value, min, max);
    return value;
}

int64_t cli_even_integer(const char *option, const char *text, int64_t min, int64_t max) {
    const int64_t value = cli_integer(option, text, min, max);
    if (value % 2) cli_usage_error("%s: %lld is odd", option, (long long)value);
    return value;
}

int64_t cli_integers(const char *option, const char *text, int64_t min, int64_t max, int64_t **out) {
    int64_t *values = malloc((strlen(text) / 2 + 1) * sizeof *values), count = 0;
    if (!values) exit(cli_fail("%s: out of memory (options)", option));
    for (const char *end;; text = end + 1) {
        if (!read_integer(text, &values[count], &end) || (*end && *end != ','))
            cli_usage_error("%s: \"%s\" does not begin with a whole number such as 4096, 4k or 1M", option, text);
        check_range(option, values[count++], min, max);
        if (!*end) break;
    }
    free(*out); /* an option given twice: the last one counts */
    *out = values;
    return count;
}

void cli_check_rising(const char *option, const int64_t *values, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        if (values[i] <= values[i - 1])
            cli_usage_error("%s: %lld after %lld does not rise", option, (long long)values[i], (long long)values[i - 1]);
}

/* *end = behind the number, which `stop` or the end of the text follows. */
static double read_number(const char *option, const char *text, double min, double max, char stop, const char **end) {
    char *behind = NULL;
    const double value = (*text >= '0' && *text <= '9') || *text == '.' ? strtod(text, &behind) : NAN;
    if (!behind || (*behind && *behind != stop) || !isfinite(value))
        cli_usage_error("%s: \"%s\" is not a number", option, text);
    if (value < min) cli_usage_error("%s: %g is below %g", option, value, min);
    if (value > max) cli_usage_error("%s: %g is above %g", option, value, max);
    *end = behind;
    return value;
}

double cli_number(const char *option, const char *text, double min, double max) {
    const char *end;
    return read_number(option, text, min, max, 0, &end);
}

int64_t cli_numbers(const char *option, const char *text, double min, double max, double **out) {
    double *values = malloc((strlen(text) / 2 + 1) * sizeof *values);
    int64_t count = 0;
    if (!values) exit(cli_fail("%s: out of memory (options)", option));
    for (const char *end = text; end; text = end + 1) {
        values[count++] = read_number(option, text, min, max, ',', &end);
        if (!*end) break;
    }
    free(*out);
    *out = values;
    return count;
}

int cli_choice(const char *option, const char *text, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    char known[256] = "";
    for (int i = 0, used = 0; i < count && used < (int)sizeof known; i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "", names[i]);
    cli_usage_error("%s: \"%s\" is not one of %s", option, text, known);
}

/* stretch_options.c: --to, --trained and --write. */
#include "tools/options/stretch_options.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_values.h"

enum { MIN_TRAINED = 4 };

error_t stretch_option(stretch_options *o, int key, char *text) {
    switch (key) {
    case STRETCH_KEY_TO:
        o->to = cli_integer("--to", text, 2, CLI_MAX_TOKENS);
        return 0;
    case STRETCH_KEY_TRAINED:
        o->trained = cli_integer("--trained", text, MIN_TRAINED, CLI_MAX_TOKENS);
        return 0;
    case STRETCH_KEY_WRITE:
        o->write = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void stretch_options_check(const stretch_options *o) {
    if (!o->to) cli_usage_error("--to: missing; name the context length wanted, such as 128k");
    if (o->write && !*o->write) cli_usage_error("--write: the name of the file is empty");
}

int stretch_check_length(const stretch_options *o, int64_t trained, const char *path) {
    if (trained < MIN_TRAINED)
        return cli_fail("trained length: the model does not say it; name it with --trained (%s)", path);
    if (o->to <= trained)
        return cli_fail("--to: %lld is within the trained length of %lld, which needs no stretching (%s)", (long long)o->to,
                        (long long)trained, path);
    return 0;
}

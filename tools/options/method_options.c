/* method_options.c: --methods, --length-policy, --beta-fast, --beta-slow and --cache. */
#include "tools/options/method_options.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_values.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void method_options_init(method_options *o) {
    *o = (method_options){.betas = {32, 1}, .cache = GYRE_DTYPE_F32};
}

void method_options_free(method_options *o) {
    free(o->list);
    o->list = NULL;
}

static void set_list(method_options *o, const char *list) {
    gyre_error err = {0, ""};
    free(o->list);
    const gyre_status status = methods_parse(list, &o->list, &o->count, &err);
    if (status == GYRE_ENOMEM) exit(cli_fail_error(&err));
    if (status) cli_usage_error("%s", err.text);
}

static void set_one(method_options *o, const char *text) {
    gyre_error err = {0, ""};
    if (!o->list) o->list = calloc(1, sizeof *o->list);
    if (!o->list) exit(cli_fail("methods: out of memory (options)"));
    if (method_parse(text, o->list, &err)) cli_usage_error("%s", err.text);
    o->count = 1;
}

/* Adds a policy that is not in the list yet. */
static void add_policy(method_options *o, gyre_length_policy policy) {
    for (int64_t i = 0; i < o->policies_count; i++)
        if (o->policies[i] == policy) return;
    o->policies[o->policies_count++] = policy;
}

static void set_policies(method_options *o, const char *list) {
    o->policies_count = 0;
    for (const char *name = list;; name++) {
        char one[16];
        const size_t length = strcspn(name, ",");
        snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : (int)sizeof one - 1, name);
        const int policy = cli_choice("--length-policy", one, length_policy_choices(), LENGTH_POLICIES + 1);
        for (int p = 0; p < LENGTH_POLICIES; p++)
            if (policy == p || policy == LENGTH_POLICIES) add_policy(o, (gyre_length_policy)p);
        name += length;
        if (!*name) return;
    }
}

error_t method_option(method_options *o, int key, const char *text) {
    switch (key) {
    case METHOD_KEY_LIST:
        set_list(o, text);
        return 0;
    case METHOD_KEY_ONE:
        set_one(o, text);
        return 0;
    case METHOD_KEY_POLICIES:
        set_policies(o, text);
        return 0;
    case METHOD_KEY_POLICY:
        o->policies[0] = (gyre_length_policy)cli_choice("--length-policy", text, length_policy_choices(), LENGTH_POLICIES);
        o->policies_count = 1;
        return 0;
    case METHOD_KEY_BETA_FAST:
        o->betas.fast = cli_number("--beta-fast", text, 1e-6, 1e9);
        return 0;
    case METHOD_KEY_BETA_SLOW:
        o->betas.slow = cli_number("--beta-slow", text, 1e-6, 1e9);
        return 0;
    case METHOD_KEY_CACHE:
        o->cache = dtype_option("--cache", text, 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void method_options_finish(method_options *o) {
    if (!o->list) set_list(o, "none");
    if (o->betas.fast < o->betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->betas.fast, o->betas.slow);
}

int method_options_policy(const method_options *o) {
    return o->policies_count ? (int)o->policies[0] : -1;
}

void method_options_labels(const method_options *o, char out[METHOD_LABELS]) {
    size_t used = 0;
    out[0] = 0;
    for (int64_t m = 0; m < o->count && used < METHOD_LABELS; m++)
        used += (size_t)snprintf(out + used, METHOD_LABELS - used, "%s%s", m ? ", " : "", o->list[m].label);
}

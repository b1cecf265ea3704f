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

void method_read_list(const char *option, const char *text, void *at) {
    method_options *o = at;
    gyre_error err = {0, ""};
    (void)option;
    free(o->list);
    const gyre_status status = methods_parse(text, &o->list, &o->count, &err);
    if (status == GYRE_ENOMEM) exit(cli_fail_error(&err));
    if (status) cli_usage_error("%s", err.text);
}

void method_read_one(const char *option, const char *text, void *at) {
    method_options *o = at;
    gyre_error err = {0, ""};
    (void)option;
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

void method_read_policies(const char *option, const char *text, void *at) {
    method_options *o = at;
    o->policies_count = 0;
    for (const char *name = text;; name++) {
        char one[16];
        const size_t length = strcspn(name, ",");
        snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : (int)sizeof one - 1, name);
        const int policy = cli_choice(option, one, length_policy_choices(), LENGTH_POLICIES + 1);
        for (int p = 0; p < LENGTH_POLICIES; p++)
            if (policy == p || policy == LENGTH_POLICIES) add_policy(o, (gyre_length_policy)p);
        name += length;
        if (!*name) return;
    }
}

void method_read_policy(const char *option, const char *text, void *at) {
    method_options *o = at;
    o->policies[0] = (gyre_length_policy)cli_choice(option, text, length_policy_choices(), LENGTH_POLICIES);
    o->policies_count = 1;
}

void method_options_finish(method_options *o) {
    if (!o->list) method_read_list("--methods", "none", o);
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

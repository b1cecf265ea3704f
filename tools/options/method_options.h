/* method_options.h: options that choose how positions are computed past the trained length, and how keys and values are
 * stored: --methods or --method, --length-policy, --beta-fast, --beta-slow and --cache. */
#ifndef GYRE_TOOLS_METHOD_OPTIONS_H
#define GYRE_TOOLS_METHOD_OPTIONS_H
#include "tools/cli/cli_parse.h"
#include "tools/common/methods.h"
#include "tools/options/value_names.h"

enum {
    METHOD_KEY_LIST = 0x1a0, /* --methods LIST */
    METHOD_KEY_ONE,          /* --method NAME */
    METHOD_KEY_POLICIES,     /* --length-policy LIST */
    METHOD_KEY_POLICY,       /* --length-policy NAME */
    METHOD_KEY_BETA_FAST,
    METHOD_KEY_BETA_SLOW,
    METHOD_KEY_CACHE
};

#define OPTION_METHODS(help, group)                                                                                         \
    { "methods", METHOD_KEY_LIST, "LIST", 0, help, group }
#define OPTION_METHOD(arg, help, group)                                                                                     \
    { "method", METHOD_KEY_ONE, arg, 0, help, group }
#define OPTION_LENGTH_POLICIES(help, group)                                                                                 \
    { "length-policy", METHOD_KEY_POLICIES, "LIST", 0, help, group }
#define OPTION_LENGTH_POLICY(help, group)                                                                                   \
    { "length-policy", METHOD_KEY_POLICY, "declared|causal|prefix", 0, help, group }
#define OPTION_BETA_FAST(usual, group)                                                                                      \
    {                                                                                                                       \
        "beta-fast", METHOD_KEY_BETA_FAST, "X", 0,                                                                          \
            "by-parts and yarn: revolutions over the trained length above which a pair is kept (default: " usual ")", group \
    }
#define OPTION_BETA_SLOW(usual, group)                                                                                      \
    {                                                                                                                       \
        "beta-slow", METHOD_KEY_BETA_SLOW, "X", 0,                                                                          \
            "by-parts and yarn: revolutions below which a pair is divided (default: " usual ")", group                      \
    }
#define OPTION_CACHE(group)                                                                                                 \
    {                                                                                                                       \
        "cache", METHOD_KEY_CACHE, "f32|f16|bf16|q8", 0, "Store keys and values as f32, f16, bf16 or q8 (default: f32)",    \
            group                                                                                                           \
    }

enum { METHOD_LABELS = 1024 };

typedef struct method_options {
    method *list; /* [count] */
    int64_t count;
    gyre_length_policy policies[LENGTH_POLICIES]; /* [policies_count] in the order given; none = the model's own */
    int64_t policies_count;
    method_betas betas;
    gyre_dtype cache;
} method_options;

/* Called before parsing: no method, betas 32 and 1, cache f32. */
void method_options_init(method_options *o);
void method_options_free(method_options *o);
/* out = 0, or ARGP_ERR_UNKNOWN if the key is not one of these.  A wrong value is a usage error. */
error_t method_option(method_options *o, int key, const char *text);
/* Called after parsing: without --methods, the list is "none".  Usage error if beta-fast < beta-slow. */
void method_options_finish(method_options *o);
/* out = the policy that --length-policy NAME names; -1 without it. */
int method_options_policy(const method_options *o);
/* Writes "none, yarn:4". */
void method_options_labels(const method_options *o, char out[METHOD_LABELS]);

#endif

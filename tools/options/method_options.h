/* method_options.h: options that choose how positions are computed past the trained length, and how keys and values are
 * stored: --methods or --method, --length-policy, --beta-fast, --beta-slow and --cache. */
#ifndef GYRE_TOOLS_METHOD_OPTIONS_H
#define GYRE_TOOLS_METHOD_OPTIONS_H
#include "tools/cli/cli_parse.h"
#include "tools/common/methods.h"
#include "tools/options/value_names.h"

/* member: a method_options. */
#define ROW_METHODS(member, help, group)                                                                                    \
    { "methods", "LIST", help, group, CLI_OTHER(method_options, member, method_read_list) }
#define ROW_METHOD(member, arg, help, group)                                                                                \
    { "method", arg, help, group, CLI_OTHER(method_options, member, method_read_one) }
#define ROW_LENGTH_POLICIES(member, help, group)                                                                            \
    { "length-policy", "LIST", help, group, CLI_OTHER(method_options, member, method_read_policies) }
#define ROW_LENGTH_POLICY(member, help, group)                                                                              \
    { "length-policy", "declared|causal|prefix", help, group, CLI_OTHER(method_options, member, method_read_policy) }

#define ROW_BETA_FAST(member, usual, group)                                                                                 \
    {                                                                                                                       \
        "beta-fast", "X",                                                                                                   \
            "by-parts and yarn: revolutions over the trained length above which a pair is kept (default: " usual ")",       \
            group, CLI_NUMBER(member, 1e-6, 1e9)                                                                            \
    }
#define ROW_BETA_SLOW(member, usual, group)                                                                                 \
    {                                                                                                                       \
        "beta-slow", "X", "by-parts and yarn: revolutions below which a pair is divided (default: " usual ")", group,       \
            CLI_NUMBER(member, 1e-6, 1e9)                                                                                   \
    }
#define ROW_CACHE(member, group)                                                                                            \
    {                                                                                                                       \
        "cache", "f32|f16|bf16|q8", "Store keys and values as f32, f16, bf16 or q8 (default: f32)", group,                  \
            CLI_OTHER(gyre_dtype, member, dtype_read)                                                                       \
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
/* Of the rows above.  at: a method_options.  A wrong value is a usage error. */
void method_read_list(const char *option, const char *text, void *at);
void method_read_one(const char *option, const char *text, void *at);
void method_read_policies(const char *option, const char *text, void *at);
void method_read_policy(const char *option, const char *text, void *at);
/* Called after parsing: without --methods, the list is "none".  Usage error if beta-fast < beta-slow. */
void method_options_finish(method_options *o);
/* out = the policy that --length-policy NAME names; -1 without it. */
int method_options_policy(const method_options *o);
/* Writes "none, yarn:4". */
void method_options_labels(const method_options *o, char out[METHOD_LABELS]);

#endif

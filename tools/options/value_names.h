/* value_names.h: how options, tables and JSON spell the values of the library's enums. */
#ifndef GYRE_TOOLS_VALUE_NAMES_H
#define GYRE_TOOLS_VALUE_NAMES_H
#include "gyre/gyre_fields.h"
#include "gyre/gyre_model.h"

/* out = "f32", "f16", "bf16", "f64", "q8". */
const char *dtype_name(gyre_dtype dtype);
/* *at = the gyre_dtype that text names: f32, f16, bf16 or q8.  Another text is a usage error. */
void dtype_read(const char *option, const char *text, void *at);

enum { LENGTH_POLICIES = 3 };
/* out = the LENGTH_POLICIES + 1 words of --length-policy: each policy at its value, then "all". */
const char *const *length_policy_choices(void);

/* out = 1 if the path ends in ".gguf". */
int is_gguf_path(const char *path);

/* For help texts. */
#define PROFILE_NAMES                                                                                                       \
    "hf-5, hf-4.56, hf-4.55, hf-4.51, hf-4.43, vllm-2026.09 (vllm), vllm-2026.05, sglang, mlx-lm (mlx), "                   \
    "llama.cpp, reference, megatron, torchtitan, axolotl, llama-factory or nanotron"
/* *at = the gyre_profile of that name or alias.  Another text is a usage error. */
void profile_read(const char *option, const char *text, void *at);

#endif

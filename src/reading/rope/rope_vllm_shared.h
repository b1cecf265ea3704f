/* rope_vllm_shared.h: shared by the readers for vLLM and SGLang, whose rotations began as vLLM's. */
#ifndef GYRE_READING_ROPE_VLLM_SHARED_H
#define GYRE_READING_ROPE_VLLM_SHARED_H
#include "reading/rope/rope_engine.h"

/* out = 1 for classes with latent attention that read every scaling as DeepSeek's: all but MiniCPM3. */
int gyre_vllm_is_latent(const gyre_rope_engine *e);

/* Both programs take a factor without a point for a list of factors: a warning. */
void gyre_vllm_read_linear(const gyre_rope_engine *e);
/* Sets an NTK-aware base that has grown by `growth`^(d / (d - 2)).  Fails at `key` if growth is below 1. */
void gyre_vllm_set_ntk_base(const gyre_rope_engine *e, const char *key, double growth, const char *scaling_why,
                            const char *factor_why);
/* Base alpha^(d / (d - 2)) at every length. */
void gyre_vllm_read_alpha(const gyre_rope_engine *e);
/* transformers' dynamic base for n = s L', at every n; or alpha. */
void gyre_vllm_read_dynamic(const gyre_rope_engine *e);

void gyre_vllm_read_llama3(const gyre_rope_engine *e);
/* Ignores the factor. */
void gyre_vllm_read_proportional(const gyre_rope_engine *e);

/* gyre_rope_read_ramp.  Fails for 0 or null, which transformers replaces by the defaults and these programs divide by. */
void gyre_vllm_read_ramp(const gyre_rope_engine *e, int truncate_honoured);
/* Applies "extrapolation_factor", the share of each kept frequency. */
void gyre_vllm_weaken_ramp(const gyre_rope_engine *e);
/* Sets what multiplies cos and sin; with times_key, times "attn_factor".  unread: keys of other programs, ended by NULL,
 * which the note names. */
void gyre_vllm_set_attention(const gyre_rope_engine *e, double magnitude, int times_key, const char *const *unread);
/* DeepSeek's YaRN.  has_own_keys: attn_factor and extrapolation_factor are read. */
void gyre_vllm_read_latent_yarn(const gyre_rope_engine *e, int multiplies_scores, int has_own_keys);

#endif

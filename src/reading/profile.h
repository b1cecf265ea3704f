/* profile.h: which program, and of transformers which version, a profile stands for. */
#ifndef GYRE_READING_PROFILE_H
#define GYRE_READING_PROFILE_H
#include "gyre/gyre_reading.h"

/* out = 1 for any version of transformers. */
int gyre_profile_is_hf(gyre_profile profile);
/* out = 1 for transformers 4. */
int gyre_profile_is_hf_4(gyre_profile profile);
/* out = 1 for a transformers 4 before 4.`minor`. */
int gyre_profile_before(gyre_profile profile, int minor);
/* out = 1 for any date of vLLM. */
int gyre_profile_is_vllm(gyre_profile profile);
/* out = 1 for a program with model classes of its own that only generates: vLLM, SGLang, mlx-lm, llama.cpp. */
int gyre_profile_is_engine(gyre_profile profile);
/* out = "transformers 4.56", "vLLM", ...: for messages. */
const char *gyre_profile_program(gyre_profile profile);

#endif

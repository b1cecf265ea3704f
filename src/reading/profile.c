/* profile.c: the profiles in one table. */
#include "reading/profile.h"

typedef struct profile_row {
    const char *name, *program;
    int minor; /* of transformers 4, the first version that reads so; 0 = another program */
} profile_row;
static const profile_row profiles[] = {
    [GYRE_PROFILE_HF_5] = {"hf-5", "transformers 5", 0},
    [GYRE_PROFILE_HF_4_56] = {"hf-4.56", "transformers 4.56", 56},
    [GYRE_PROFILE_HF_4_55] = {"hf-4.55", "transformers 4.55", 55},
    [GYRE_PROFILE_HF_4_51] = {"hf-4.51", "transformers 4.51", 51},
    [GYRE_PROFILE_HF_4_43] = {"hf-4.43", "transformers 4.43", 43},
    [GYRE_PROFILE_VLLM] = {"vllm", "vLLM", 0},
    [GYRE_PROFILE_LLAMA_CPP] = {"llama.cpp", "llama.cpp", 0},
    [GYRE_PROFILE_REFERENCE] = {"reference", "the reference", 0},
};
enum { PROFILES = sizeof profiles / sizeof *profiles };

static const profile_row *row_of(gyre_profile profile) {
    static const profile_row none = {NULL, "the reference", 0};
    return (unsigned)profile < PROFILES ? &profiles[profile] : &none;
}

const char *gyre_profile_name(gyre_profile profile) {
    return row_of(profile)->name;
}

const char *gyre_profile_program(gyre_profile profile) {
    return row_of(profile)->program;
}

int gyre_profile_is_hf_4(gyre_profile profile) {
    return row_of(profile)->minor != 0;
}

int gyre_profile_is_hf(gyre_profile profile) {
    return profile == GYRE_PROFILE_HF_5 || gyre_profile_is_hf_4(profile);
}

int gyre_profile_before(gyre_profile profile, int minor) {
    return gyre_profile_is_hf_4(profile) && row_of(profile)->minor < minor;
}

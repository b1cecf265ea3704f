/* profile.c: the profiles in one table. */
#include "reading/profile.h"

#include <string.h>

typedef struct profile_row {
    const char *name, *alias, *program, *title;
    int minor; /* of transformers 4, the first version that reads so; 0 = another program */
    int is_trainer;
} profile_row;
#define PROFILE(enumerator, ...)                  [GYRE_PROFILE_##enumerator] = {__VA_ARGS__, 0},
#define TRAINER(enumerator, name, program, title) [GYRE_PROFILE_##enumerator] = {name, NULL, program, title, 0, 1},
static const profile_row profiles[] = {
#include "reading/profiles.def"
};
#undef PROFILE
#undef TRAINER
enum { PROFILES = sizeof profiles / sizeof *profiles };

static const profile_row *row_of(gyre_profile profile) {
    static const profile_row none = {NULL, NULL, "the reference", NULL, 0, 0};
    return (unsigned)profile < PROFILES && profiles[profile].name ? &profiles[profile] : &none;
}

const char *gyre_profile_name(gyre_profile profile) {
    return row_of(profile)->name;
}

const char *gyre_profile_alias(gyre_profile profile) {
    return row_of(profile)->alias;
}

const char *gyre_profile_title(gyre_profile profile) {
    return row_of(profile)->title;
}

gyre_profile gyre_profile_find(const char *name) {
    for (int p = GYRE_PROFILE_DEFAULT + 1; name && p < PROFILES; p++)
        if (strcmp(profiles[p].name, name) == 0 || (profiles[p].alias && strcmp(profiles[p].alias, name) == 0))
            return (gyre_profile)p;
    return GYRE_PROFILE_DEFAULT;
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

int gyre_profile_is_vllm(gyre_profile profile) {
    return profile == GYRE_PROFILE_VLLM_2026_05 || profile == GYRE_PROFILE_VLLM_2026_09;
}

int gyre_profile_is_engine(gyre_profile profile) {
    return gyre_profile_is_vllm(profile) || profile == GYRE_PROFILE_SGLANG || profile == GYRE_PROFILE_MLX_LM ||
           profile == GYRE_PROFILE_LLAMA_CPP;
}

int gyre_profile_is_trainer(gyre_profile profile) {
    return row_of(profile)->is_trainer;
}

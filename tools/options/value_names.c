/* value_names.c: tables of names. */
#include "tools/options/value_names.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_values.h"
#include "util/path.h"
#include <string.h>

const char *const *length_policy_choices(void) {
    static const char *names[LENGTH_POLICIES + 1];
    for (int i = 0; i < LENGTH_POLICIES; i++)
        names[i] = gyre_length_policy_name((gyre_length_policy)i);
    names[LENGTH_POLICIES] = "all";
    return names;
}

const char *dtype_name(gyre_dtype dtype) {
    switch (dtype) {
    case GYRE_DTYPE_F32:
        return "f32";
    case GYRE_DTYPE_F16:
        return "f16";
    case GYRE_DTYPE_BF16:
        return "bf16";
    case GYRE_DTYPE_F64:
        return "f64";
    case GYRE_DTYPE_Q8:
        return "q8";
    default:
        return "?";
    }
}

void dtype_read(const char *option, const char *text, void *at) {
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    const char *names[4];
    for (int i = 0; i < 4; i++)
        names[i] = dtype_name(dtypes[i]);
    *(gyre_dtype *)at = dtypes[cli_choice(option, text, names, 4)];
}

int is_gguf_path(const char *path) {
    return strlen(path) > 5 && gyre_ends_with(path, ".gguf");
}

void profile_read(const char *option, const char *text, void *at) {
    enum { FIRST = GYRE_PROFILE_DEFAULT + 1, MAX_PROFILES = 32 };
    const char *names[MAX_PROFILES];
    const gyre_profile found = gyre_profile_find(text);
    int count = 0;
    for (; count < MAX_PROFILES && gyre_profile_name((gyre_profile)(FIRST + count)); count++)
        names[count] = gyre_profile_name((gyre_profile)(FIRST + count));
    *(gyre_profile *)at =
        found != GYRE_PROFILE_DEFAULT ? found : (gyre_profile)(FIRST + cli_choice(option, text, names, count));
}

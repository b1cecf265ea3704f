/* extend_llama_cpp.c: the flags of llama.cpp, applied to what it reads from the unchanged model. */
#include "tools/extend/extend_llama_cpp.h"
#include "gyre/gyre_fields.h"
#include "tools/extend/extend_verdict.h"
#include "tools/options/reading_options.h"
#include "util/error.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds to a list of flags. */
static void add_flag(extend_flags *flags, const char *name, double value) {
    if (flags->count + 2 > EXTEND_MAX_FLAGS) return;
    snprintf(flags->word[flags->count++], sizeof flags->word[0], "%s", name);
    snprintf(flags->word[flags->count++], sizeof flags->word[0], "%.12g", value);
}
static void add_word(extend_flags *flags, const char *name, const char *value) {
    if (flags->count + 2 > EXTEND_MAX_FLAGS) return;
    snprintf(flags->word[flags->count++], sizeof flags->word[0], "%s", name);
    snprintf(flags->word[flags->count++], sizeof flags->word[0], "%s", value);
}

static int has_scaling(gyre_scaling scaling, const gyre_scaling *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == scaling) return 1;
    return 0;
}

/* out = why flags cannot say the method; NULL if they may. */
static const char *refusal(const gyre_config *want, const gyre_config *file, int64_t rotating) {
    static const gyre_scaling in_tensors[] = {GYRE_SCALING_LLAMA3, GYRE_SCALING_LONGROPE, GYRE_SCALING_PROPORTIONAL,
                                              GYRE_SCALING_NTK_MIXED};
    static const gyre_scaling flagged[] = {GYRE_SCALING_NONE, GYRE_SCALING_LINEAR, GYRE_SCALING_NTK, GYRE_SCALING_YARN};
    if (rotating > 1) return "its flags are one for all layers, and this model has several kinds";
    if (want->rope.resonance || want->rope.far != GYRE_FAR_AS_NEAR || want->query.temperature != file->query.temperature ||
        want->rope.clip.mode != GYRE_CLIP_NONE)
        return "it has neither flags nor keys for this";
    if (want->rope.scaling == GYRE_SCALING_DYNAMIC_NTK || want->rope.scaling == GYRE_SCALING_DYNAMIC_YARN)
        return "it has no scaling that follows the length in use";
    if (want->rope.scaling == GYRE_SCALING_BY_PARTS)
        return "it multiplies YaRN's attention factor in, and under YaRN ignores --yarn-attn-factor";
    if (!has_scaling(want->rope.scaling, flagged, sizeof flagged / sizeof *flagged))
        return "factors for each pair come from tensors of the GGUF, not from flags";
    if (has_scaling(file->rope.scaling, in_tensors, sizeof in_tensors / sizeof *in_tensors))
        return "the model's own factors for each pair are tensors of its GGUF, which flags do not remove";
    return NULL;
}

/* *read = what llama.cpp computes from the file and the flags that are written here. */
static void write_flags(const gyre_config *want, int64_t to, gyre_config *read, extend_flags *flags) {
    const struct gyre_rope_config *rope = &want->rope;
    add_flag(flags, "--ctx-size", (double)to);
    read->rope.attention_factor = 0;
    read->rope.scaling = rope->scaling;
    read->rope.factor = rope->factor;
    read->rope.fractional_bounds = 0; /* its ramp always ends at whole pairs */
    if (rope->scaling == GYRE_SCALING_NTK || rope->scaling == GYRE_SCALING_NONE) {
        const double dim = (double)(rope->dim ? rope->dim : want->head_dim - rope->first_channel);
        double base = rope->base ? rope->base : 10000;
        if (rope->scaling == GYRE_SCALING_NTK) base *= pow(rope->factor, dim / (dim - 2));
        add_word(flags, "--rope-scaling", "none");
        add_flag(flags, "--rope-freq-base", base);
        read->rope.scaling = GYRE_SCALING_NONE;
        read->rope.factor = 0;
        read->rope.base = strtod(flags->word[flags->count - 1], NULL);
        return;
    }
    add_word(flags, "--rope-scaling", rope->scaling == GYRE_SCALING_YARN ? "yarn" : "linear");
    add_flag(flags, "--rope-scale", rope->factor);
    read->rope.factor = strtod(flags->word[flags->count - 1], NULL);
    if (rope->scaling != GYRE_SCALING_YARN) return;
    add_flag(flags, "--yarn-orig-ctx", (double)want->trained_length);
    read->trained_length = want->trained_length;
    read->rope.beta_fast = rope->beta_fast;
    read->rope.beta_slow = rope->beta_slow;
    if (rope->beta_fast != 0 && rope->beta_fast != 32) add_flag(flags, "--yarn-beta-fast", rope->beta_fast);
    if (rope->beta_slow != 0 && rope->beta_slow != 1) add_flag(flags, "--yarn-beta-slow", rope->beta_slow);
}

static int64_t count_rotating(const gyre_reading *reading) {
    int64_t count = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        count +=
            gyre_kind_has(reading->groups[i]->config.kind, GYRE_TRAIT_ROTATES) && !reading_is_beside(reading->groups[i]);
    return count;
}

static gyre_status check_flags(const extension *e, const extend_expected *want, const gyre_config *read, double softmax,
                               extend_support *support, char why[200], gyre_error *err) {
    gyre_encoding *got = NULL;
    gyre_status status = gyre_encoding_create(&got, read, NULL, err);
    if (!status) status = extend_compare_encodings(e, want->encoding, got, why, err);
    if (!status && !*why && fabs(softmax - want->softmax) > 1e-6 * fabs(want->softmax))
        snprintf(why, 200, "softmax multiplied by %.6g, not %.6g", softmax, want->softmax);
    *support = *why ? EXTEND_SUPPORT_DIFFERENT : EXTEND_SUPPORT_SAME;
    const int64_t first = !status && *why ? extend_first_difference(e, want->encoding, got) : -1;
    if (first >= 0) {
        const size_t used = strlen(why);
        snprintf(why + used, 200 - used, ", angles by more than 0.01 rad from position %lld on", (long long)first);
    }
    gyre_encoding_free(got);
    return status;
}

gyre_status extend_llama_cpp_flags(const extension *e, const extend_expected *want, int is_none, extend_flags *flags,
                                   extend_support *support, char why[200], gyre_error *err) {
    gyre_reading *reading = NULL;
    gyre_error refused = {0, ""};
    *flags = (extend_flags){.count = 0};
    *support = EXTEND_SUPPORT_NONE;
    why[0] = 0;
    gyre_status status = gyre_reading_open(
        &reading, e->reading->path,
        GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_LLAMA_CPP, .context_length = e->to), &refused);
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", refused.text);
    if (status) {
        extend_drop_location(refused.text, e->reading->path);
        gyre_plain_snprintf(why, 200, "%.190s", refused.text);
        return GYRE_OK;
    }
    const gyre_layer_reading *group = reading_find_group(reading, e->group->name);
    if (!group) group = reading->groups[0];
    gyre_config read = group->config;
    const gyre_config *config = gyre_encoding_get_config(want->encoding);
    const char *cannot = is_none ? NULL : refusal(config, &read, count_rotating(reading));
    if (cannot)
        snprintf(why, 200, "%s", cannot);
    else if (is_none)
        add_flag(flags, "--ctx-size", (double)e->to);
    else
        write_flags(config, e->to, &read, flags);
    if (!cannot) status = check_flags(e, want, &read, group->softmax_multiplier, support, why, err);
    gyre_reading_free(reading);
    return status;
}

/* fuzz_edit.c: writes a scaling into a config.json or a GGUF.  What is written is read back with the frequencies that were
 * asked for, in every layer that does not keep its own, it states the length asked for, and writing it again changes no
 * byte.  Another program that reads the copy otherwise says so in a note or a warning.
 *
 * Of the first byte the low three bits select the scaling, the next another base, the next two the factor, the next a second
 * list of scalings, and the last clipping and start tokens; the rest is the file. */
#include "fuzz_reading_laws.h"
#include "fuzz_support.h"
#include "gyre/gyre_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 4096, MOST_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* out = the first group that rotates, NULL for none. */
static const gyre_config *rotation_of(const gyre_reading *reading) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (reading->groups[i]->config.kind == GYRE_KIND_ROPE) return &reading->groups[i]->config;
    return NULL;
}

/* out = 1 if two configs rotate alike at a context length. */
static int rotate_alike(const gyre_config *want, const gyre_config *got, int64_t length) {
    static double a[MOST_PAIRS], b[MOST_PAIRS];
    double factor_a, factor_b;
    gyre_encoding *of_want = NULL, *of_got = NULL;
    if (got->kind != GYRE_KIND_ROPE || want->rope.dim != got->rope.dim || want->rope.layout != got->rope.layout) return 0;
    fuzz_require(!gyre_encoding_create(&of_want, want, NULL, NULL), "what was written is an encoding");
    fuzz_require(!gyre_encoding_create(&of_got, got, NULL, NULL), "what was read is an encoding");
    fuzz_require(!gyre_encoding_frequencies(of_want, length, a, &factor_a), "frequencies");
    fuzz_require(!gyre_encoding_frequencies(of_got, length, b, &factor_b), "frequencies");
    int same = fabs(factor_a - factor_b) <= 1e-5 * fabs(factor_a);
    for (int64_t i = 0; i < gyre_encoding_get_config(of_got)->rope.dim / 2; i++)
        same = same && fabs(a[i] - b[i]) <= 1e-5 * fabs(a[i]);
    gyre_encoding_free(of_want);
    gyre_encoding_free(of_got);
    return same;
}

static size_t read_whole(const char *path, char *out) {
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(out, 1, MOST_BYTES, file) : 0;
    if (file) fclose(file);
    return size;
}

/* -- the copy -- */
static int rotates(const gyre_layer_reading *group) {
    return group->config.kind == GYRE_KIND_ROPE && strcmp(group->name, "vision") != 0;
}

/* out = the number that a field states; -1 if there is none. */
static double field_of(const gyre_layer_reading *group, const char *name) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0) return strtod(group->fields[i].value, NULL);
    return -1.0;
}

/* out = the layers of that name in the file before. */
static const gyre_layer_reading *named(const gyre_reading *before, const char *name) {
    for (int64_t i = 0; i < before->groups_count; i++)
        if (strcmp(before->groups[i]->name, name) == 0 && rotates(before->groups[i])) return before->groups[i];
    return NULL;
}

/* out = the factor of cos and sin. */
static double attention_of(const gyre_config *config, int64_t length) {
    gyre_encoding *encoding = NULL;
    double factor = 0;
    fuzz_require(!gyre_encoding_create(&encoding, config, NULL, NULL), "a group has an encoding");
    fuzz_require(!gyre_encoding_frequencies(encoding, length, NULL, &factor), "and an attention factor");
    gyre_encoding_free(encoding);
    return factor;
}

/* Layers with a window may have a base, a factor or lists of their own, over which a scaling of all layers gives other
 * frequencies; of the factor of cos and sin there is only the old and the new. */
static void check_windowed(const gyre_reading *before, const gyre_layer_reading *group, const gyre_config *position,
                           int64_t length) {
    const gyre_layer_reading *old = named(before, group->name);
    fuzz_require(old != NULL, "no kind of layers is new");
    const double factor = attention_of(&group->config, length);
    fuzz_require(fabs(factor - attention_of(&old->config, length)) <= 1e-5 * factor ||
                     fabs(factor - attention_of(position, length)) <= 1e-5 * factor,
                 "layers with a window get the attention factor, or keep theirs");
}

static void check_groups(const gyre_reading *reading, const gyre_reading *before, const gyre_config *position,
                         int64_t length) {
    int found = 0, some_see_all = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        some_see_all |= rotates(reading->groups[i]) && reading->groups[i]->window == 0;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *group = reading->groups[i];
        if (!rotates(group)) continue;
        const int as_asked = rotate_alike(position, &group->config, length), windowed = some_see_all && group->window > 0;
        if (!as_asked && windowed) check_windowed(before, group, position, length);
        fuzz_require(as_asked || windowed, "layers get the scaling");
        found |= as_asked;
        const double stated = field_of(group, "max_length");
        const int64_t want = position->rope.scaling == GYRE_SCALING_DYNAMIC_NTK ? position->trained_length : length;
        if (as_asked && stated >= 0.0) fuzz_require(stated == (double)want, "the copy states the length");
    }
    fuzz_require(found, "what is written is read back");
}

/* -- other programs -- */
/* out = 1 if the program says of nothing that it departs from the file. */
static int says_nothing(const gyre_reading *reading, const gyre_layer_reading *group) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (group->fields[i].note) return 0;
    return reading->warnings_count == 0;
}

static void check_other_programs(const char *copy, const gyre_config *position, int64_t length) {
    static const gyre_profile profiles[] = {GYRE_PROFILE_HF_4_56,  GYRE_PROFILE_HF_4_55,      GYRE_PROFILE_HF_4_51,
                                            GYRE_PROFILE_HF_4_43,  GYRE_PROFILE_VLLM_2026_05, GYRE_PROFILE_VLLM_2026_09,
                                            GYRE_PROFILE_SGLANG,   GYRE_PROFILE_MLX_LM,       GYRE_PROFILE_LLAMA_CPP,
                                            GYRE_PROFILE_REFERENCE};
    for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
        gyre_reading *reading = NULL;
        if (gyre_reading_open(&reading, copy,
                              GYRE_ARGS(gyre_reading_options, .profile = profiles[p], .context_length = length), NULL))
            continue;
        const gyre_layer_reading *group = reading->groups[0];
        if (reading->groups_count == 1 && rotates(group) && says_nothing(reading, group)) {
            const int same = rotate_alike(position, &group->config, length);
            if (!same) fprintf(stderr, "as %s\n", gyre_profile_name(profiles[p]));
            fuzz_require(same, "a program that departs from the copy says so");
        }
        gyre_reading_free(reading);
    }
}

static void check_copy(const char *path, const gyre_config *position, int64_t length, const char *copy, const char *again) {
    static char first[MOST_BYTES], second[MOST_BYTES];
    gyre_reading *reading = NULL, *before = NULL;
    gyre_error err = {0, ""};
    fuzz_require(gyre_reading_open(&before, path, GYRE_ARGS(gyre_reading_options, .context_length = length), &err) ==
                     GYRE_OK,
                 err.text);
    fuzz_require(gyre_reading_open(&reading, copy, GYRE_ARGS(gyre_reading_options, .context_length = length), &err) ==
                     GYRE_OK,
                 err.text);
    const size_t size = read_whole(copy, first);
    fuzz_check_reading(reading, (const uint8_t *)first, size);
    check_groups(reading, before, position, length);
    if (says_nothing(reading, reading->groups[0])) check_other_programs(copy, position, length);
    gyre_reading_free(reading);
    gyre_reading_free(before);
    const gyre_status status = gyre_reading_write(copy, position, length, again, &err);
    fuzz_require(!status, status ? err.text : "what was written can be written again");
    fuzz_require(size == read_whole(again, second) && memcmp(first, second, size) == 0, "and is the same bytes");
}

/* -- what is asked for -- */
/* Divisors that grow with the pair, and long ones that are twice the short. */
static void set_lists(gyre_config *position) {
    static double short_factor[MOST_PAIRS], long_factor[MOST_PAIRS];
    for (int i = 0; i < MOST_PAIRS; i++)
        short_factor[i] = 1.0 + i * 0x1p-5, long_factor[i] = 2.0 + i * 0x1p-4;
    position->rope.short_factor = short_factor;
    position->rope.long_factor = long_factor;
}

static gyre_config position_of(const gyre_config *found, uint8_t choice) {
    static const gyre_scaling scalings[2][8] = {
        {GYRE_SCALING_NONE, GYRE_SCALING_LINEAR, GYRE_SCALING_NTK, GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_YARN,
         GYRE_SCALING_LLAMA3, GYRE_SCALING_BY_PARTS, GYRE_SCALING_PROPORTIONAL},
        {GYRE_SCALING_LONGROPE, GYRE_SCALING_NTK_MIXED, GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_BY_PARTS_PAPER,
         GYRE_SCALING_YARN, GYRE_SCALING_LONGROPE, GYRE_SCALING_NTK, GYRE_SCALING_LINEAR}};
    static const double factors[] = {2, 4, 1.5, 32};
    gyre_config position = *found;
    struct gyre_rope_config *rope = &position.rope;
    rope->scaling = scalings[choice >> 6 & 1][choice & 7];
    rope->factor = rope->scaling == GYRE_SCALING_NONE ? 0 : factors[choice >> 4 & 3];
    rope->attention_factor = 0;
    if (choice & 8) rope->base *= 50;
    if (position.trained_length < 1) position.trained_length = 4096;
    if (rope->scaling == GYRE_SCALING_LONGROPE) set_lists(&position);
    if ((choice & 0x47) >= 0x44) { /* the second list again, with other keys of the same scalings */
        rope->attention_factor = 1.25;
        rope->beta_fast = 16, rope->beta_slow = 2;
        rope->fractional_bounds = 1;
        rope->resonance = (choice & 0x47) == 0x46;
    }
    if (choice & 0x80) {
        position.rope.clip = (struct gyre_clip_config){choice & 1 ? GYRE_CLIP_SOFT : GYRE_CLIP_HARD, choice & 2 ? 3 : 0};
        if (rope->scaling == GYRE_SCALING_LONGROPE)
            position.rope.longrope =
                (struct gyre_longrope_config){4, choice & 8 ? GYRE_LONGROPE_START_RELEASED : GYRE_LONGROPE_START_PAPER};
    }
    return position;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (size < 5 || size > MOST_BYTES / 2) return 0;
    const int gguf = memcmp(data + 1, "GGUF", 4) == 0;
    const char *name = gguf ? "model.gguf" : "config.json", *copy = gguf ? "copy.gguf" : "copy.json";
    char path[128], target[128], again[128];
    snprintf(path, sizeof path, "%s", fuzz_path(name));
    snprintf(target, sizeof target, "%s", fuzz_path(copy));
    snprintf(again, sizeof again, "%s.2", target);
    fuzz_write(name, data + 1, size - 1);
    if (gyre_reading_open(&reading, path, NULL, NULL)) return 0;
    const gyre_config *found = rotation_of(reading);
    if (found && found->rope.dim / 2 <= MOST_PAIRS && found->head_dim / 2 <= MOST_PAIRS) {
        const gyre_config position = position_of(found, data[0]);
        const int64_t length = (int64_t)((double)(position.trained_length < 1 << 20 ? position.trained_length : 1 << 20) *
                                         fmax(1, position.rope.factor));
        remove(target);
        const gyre_status status = gyre_reading_write(path, &position, length, target, &err);
        fuzz_require_error(status, &err);
        FILE *there = fopen(target, "rb");
        fuzz_require((!status) == (there != NULL), "a file is there, or the call failed");
        if (there) fclose(there);
        if (!status) check_copy(path, &position, length, target, again);
    }
    gyre_reading_free(reading);
    return 0;
}

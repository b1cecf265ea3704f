/* gguf_rewrite_positions.c: writes a rotation as the keys that llama.cpp reads. */
#include "reading/gguf/gguf_rewrite_positions.h"
#include "files/file_read.h"
#include "files/gguf_rewrite.h"
#include "gyre/gyre_fields.h"
#include "reading/gguf/gguf_source.h"
#include "reading/scaling_traits.h"
#include "reading/temperature_check.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EDITS = 12, MAX_KEY_BYTES = 200, MAX_PATH_BYTES = 4200 };
static const double TOLERANCE = 1e-6; /* keys are floats: rounding a base by 2^-24 moves the slowest pair by about as much */

/* The edits so far, and the names of their keys, which they point to. */
typedef struct edit_plan {
    const gyre_gguf *file;
    const gyre_gguf_architecture *architecture;
    const char *path;
    char names[MAX_EDITS][MAX_KEY_BYTES], name[64];
    gyre_gguf_edit edits[MAX_EDITS];
    int64_t count;
    gyre_error *err;
} edit_plan;

/* -- edits -- */
static const gyre_gguf_value *value_of(const edit_plan *p, const char *suffix) {
    char key[MAX_KEY_BYTES];
    snprintf(key, sizeof key, "%s.%s", p->name, suffix);
    const gyre_gguf_kv *pair = gyre_gguf_find_key(p->file, key);
    return pair ? &pair->value : NULL;
}

/* out = a number; fallback if the key is missing or not a number. */
static double number_of(const edit_plan *p, const char *suffix, double fallback) {
    const gyre_gguf_value *value = value_of(p, suffix);
    double x;
    return value && value->type != GYRE_GGUF_ARRAY && gyre_gguf_number(value, 0, &x) ? x : fallback;
}

static gyre_gguf_edit *add_edit(edit_plan *p, const char *suffix, gyre_gguf_type type) {
    char *name = p->names[p->count];
    gyre_gguf_edit *edit = &p->edits[p->count++];
    snprintf(name, MAX_KEY_BYTES, "%s.%s", p->name, suffix);
    *edit = (gyre_gguf_edit){.key = name, .type = type};
    return edit;
}

static void remove_key(edit_plan *p, const char *suffix) {
    if (value_of(p, suffix)) add_edit(p, suffix, GYRE_GGUF_BOOL)->remove = 1;
}

/* Sets a key unless it has this value already.  A missing key counts as `missing`. */
static void set_real(edit_plan *p, const char *suffix, double x, double missing) {
    const double is = number_of(p, suffix, missing);
    if ((float)is == (float)x) return;
    add_edit(p, suffix, GYRE_GGUF_F32)->number = x;
}

static void set_size(edit_plan *p, const char *suffix, int64_t x, double missing) {
    const gyre_gguf_value *value = value_of(p, suffix);
    if (number_of(p, suffix, missing) == (double)x) return;
    add_edit(p, suffix, value && value->type == GYRE_GGUF_U64 ? GYRE_GGUF_U64 : GYRE_GGUF_U32)->integer = x;
}

static void set_string(edit_plan *p, const char *suffix, const char *text) {
    const gyre_gguf_value *value = value_of(p, suffix);
    if (!value || !gyre_gguf_equals(value, text)) add_edit(p, suffix, GYRE_GGUF_STRING)->text = text;
}

/* -- which keys -- */
static int arch_has(const edit_plan *p, unsigned trait) {
    return (p->architecture->traits & trait) != 0;
}

static gyre_status unsupported(const edit_plan *p, const char *what, const char *why) {
    return gyre_fail(p->err, GYRE_EUNSUPPORTED, "%s: %s (%s)", what, why, p->path);
}

static gyre_status check_rope(const edit_plan *p, const gyre_config *c) {
    const char *what = NULL;
    if (c->rope.resonance) what = "resonance";
    if (c->rope.clip.mode != GYRE_CLIP_NONE) what = "clipped pairs";
    if (c->rope.frequencies) what = "frequencies that are given";
    if (c->rope.longrope.start_tokens != 0) what = "LongRoPE's start tokens";
    if (c->rope.far != GYRE_FAR_AS_NEAR) what = "rotating far pairs less";
    if (c->rope.xpos_base != 0) what = "xPos";
    if (c->rope.clockwise) what = "rotating clockwise";
    return what ? unsupported(p, what, "llama.cpp has no key for it") : GYRE_OK;
}

/* out = the factor of cos and sin that the engine computes if no attention factor is given. */
static double default_attention_factor(const edit_plan *p, const gyre_config *c) {
    const double s = c->rope.factor, ln = s > 1 ? 0.1 * log(s) : 0;
    double m = number_of(p, "rope.scaling.yarn_log_multiplier", 0);
    if (c->rope.scaling != GYRE_SCALING_YARN && c->rope.scaling != GYRE_SCALING_BY_PARTS) return 1;
    if (!arch_has(p, GYRE_GGUF_READS_LOG_MULTIPLIER) || m == 0) return ln + 1;
    if (arch_has(p, GYRE_GGUF_LOG_MULTIPLIER_TENTH)) m /= 0.1;
    return arch_has(p, GYRE_GGUF_MSCALE_IS_ALL_DIM) ? 1 : (ln + 1) / (m * ln + 1);
}

static gyre_status set_ramp(edit_plan *p, const gyre_config *c) {
    const double fast = c->rope.beta_fast != 0 ? c->rope.beta_fast : 32,
                 slow = c->rope.beta_slow != 0 ? c->rope.beta_slow : 1;
    const int betas = arch_has(p, GYRE_GGUF_READS_BETAS);
    if (c->rope.fractional_bounds) return unsupported(p, "truncate false", "llama.cpp rounds the ends of every ramp");
    if (!betas && (fast != 32 || slow != 1))
        return unsupported(p, "beta_fast and beta_slow", "llama.cpp has 32 and 1 for every model of this architecture");
    if (betas) set_real(p, "rope.scaling.yarn_beta_fast", fast, arch_has(p, GYRE_GGUF_BETA_FAST_8) ? 8 : 32);
    if (betas) set_real(p, "rope.scaling.yarn_beta_slow", slow, 1);
    set_size(p, "rope.scaling.original_context_length", c->trained_length, -1);
    return GYRE_OK;
}

static gyre_status set_scaling(edit_plan *p, const gyre_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const double dim = (double)rope->dim, base = rope->base;
    switch (rope->scaling) {
    case GYRE_SCALING_NONE:
    case GYRE_SCALING_NTK: /* written as the base it amounts to */
        set_real(p, "rope.freq_base", rope->scaling == GYRE_SCALING_NTK ? base * pow(rope->factor, dim / (dim - 2)) : base,
                 10000);
        if (value_of(p, "rope.scaling.type")) set_string(p, "rope.scaling.type", "none");
        remove_key(p, "rope.scaling.factor");
        remove_key(p, "rope.scale_linear");
        return GYRE_OK;
    case GYRE_SCALING_LINEAR:
    case GYRE_SCALING_YARN:
    case GYRE_SCALING_BY_PARTS:
        set_real(p, "rope.freq_base", base, 10000);
        set_string(p, "rope.scaling.type", rope->scaling == GYRE_SCALING_LINEAR ? "linear" : "yarn");
        set_real(p, "rope.scaling.factor", rope->factor, 0);
        remove_key(p, "rope.scale_linear");
        return rope->scaling == GYRE_SCALING_LINEAR ? GYRE_OK : set_ramp(p, c);
    case GYRE_SCALING_DYNAMIC_NTK:
        return unsupported(p, "dynamic NTK", "llama.cpp has none; it has a fixed base (ntk)");
    case GYRE_SCALING_LLAMA3:
    case GYRE_SCALING_LONGROPE:
        return unsupported(p, gyre_rope_type(rope->scaling), "a GGUF keeps it in tensors, which are not changed");
    default:
        return unsupported(p, gyre_rope_type(rope->scaling), "llama.cpp has no key for it");
    }
}

static gyre_status check_tensors(const edit_plan *p) {
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gyre_gguf_find_tensor(p->file, names[i]))
            return unsupported(p, names[i], "this tensor also divides the frequencies, and tensors are not changed");
    return GYRE_OK;
}

/* Ministral's temperature counts from the original length, and without that key from context_length, which changes. */
static void keep_temperature(edit_plan *p, const gyre_config *c, int64_t length) {
    const int ramps = c->rope.scaling == GYRE_SCALING_YARN || c->rope.scaling == GYRE_SCALING_BY_PARTS;
    if (c->query.temperature != GYRE_TEMPERATURE_MINISTRAL || ramps) return;
    if (arch_has(p, GYRE_GGUF_TEMPERATURE_ORIGINAL_LENGTH))
        set_size(p, "rope.scaling.original_context_length", c->query.reference_length, (double)length);
}

/* position: complete, as in an encoding. */
static gyre_status make_edits(edit_plan *p, const gyre_config *position, double attention, int64_t length) {
    gyre_status status = check_rope(p, position);
    if (!status) status = check_tensors(p);
    if (!status) status = set_scaling(p, position);
    if (status) return status;
    const double by_hand = attention / default_attention_factor(p, position);
    if (fabs(by_hand - 1) < TOLERANCE / 10)
        remove_key(p, "rope.scaling.attn_factor");
    else
        set_real(p, "rope.scaling.attn_factor", by_hand, 1);
    set_size(p, "context_length", length, -1);
    keep_temperature(p, position, length);
    return GYRE_OK;
}

/* -- reading the copy back -- */
typedef struct expected_rotation {
    const char *path;
    const gyre_mapping *map; /* of the file that is copied */
    gyre_reading *before;    /* the file as it was; NULL = cannot be read */
    const double *frequencies;
    double attention;
    int64_t pairs, length;
    gyre_temperature_expected temperature;
} expected_rotation;

/* out = 1 if the layers have the expected frequencies and attention factor. */
static int rotation_matches(const gyre_reading *reading, const gyre_layer_reading *group, const expected_rotation *w,
                            double *scratch) {
    double attention = 0;
    if (!gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES) || group->config.rope.dim != 2 * w->pairs) return 0;
    const gyre_encoding *encoding = gyre_reading_encoding(reading, group);
    int same = !gyre_encoding_frequencies(encoding, w->length, scratch, &attention) &&
               fabs(attention - w->attention) <= TOLERANCE * w->attention;
    for (int64_t i = 0; i < w->pairs && same; i++)
        same = fabs(scratch[i] - w->frequencies[i]) <= TOLERANCE * fabs(w->frequencies[i]);
    return same;
}

/* out = 1 if this group has the attention factor that it had, or none: llama.cpp multiplies cos and sin of every layer by
 * the file's, also of layers whose frequencies it does not scale. */
static int attention_is_kept(const gyre_reading *reading, const gyre_layer_reading *group, const expected_rotation *w) {
    double now = 1, then = 1;
    if (gyre_encoding_frequencies(gyre_reading_encoding(reading, group), w->length, NULL, &now)) return 0;
    for (int64_t i = 0; w->before && i < w->before->groups_count; i++) {
        const gyre_layer_reading *old = w->before->groups[i];
        if (strcmp(old->name, group->name) != 0 || !gyre_kind_has(old->config.kind, GYRE_TRAIT_ROTATES)) continue;
        if (gyre_encoding_frequencies(gyre_reading_encoding(w->before, old), w->length, NULL, &then)) return 0;
    }
    return fabs(now - 1) <= TOLERANCE || fabs(now - then) <= TOLERANCE * then;
}

/* Layers with a window may have a rotation of their own.  All others must match, and at least one group must. */
static gyre_status check_rotations(const gyre_reading *reading, const expected_rotation *w, double *scratch,
                                   gyre_error *err) {
    int matched = 0, must_match = 0;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *group = reading->groups[i];
        const int same = rotation_matches(reading, group, w, scratch);
        matched |= same;
        const gyre_status status =
            same ? gyre_temperature_check_written(&gyre_encoding_get_config(gyre_reading_encoding(reading, group))->query,
                                                  &w->temperature, group->name, err)
                 : GYRE_OK;
        if (status) return status;
        if (same || !gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES)) continue;
        must_match |= group->window == 0 || reading->groups_count == 1;
        if (!must_match && !attention_is_kept(reading, group, w))
            return gyre_fail(err, GYRE_EUNSUPPORTED,
                             "rope.scaling.attn_factor: llama.cpp would also multiply cos and sin of layers with a window "
                             "by it, whose frequencies have no scaling (%s)",
                             w->path);
    }
    if (matched && !must_match) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "rotation: llama.cpp would read another rotation from these keys (%s)",
                     w->path);
}

/* An error names the model: the file under its temporary name will be gone. */
static gyre_status read_back(gyre_reading **out, const char *written, const expected_rotation *w, gyre_error *err) {
    char name[MAX_PATH_BYTES];
    gyre_mapping map = {0};
    snprintf(name, sizeof name, "the rewritten %s", w->path);
    gyre_status status = gyre_mapping_open(&map, written, err);
    if (!status)
        status = gyre_reading_parse(
            out, map.bytes, map.size,
            GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_LLAMA_CPP, .context_length = w->length, .name = name),
            err);
    gyre_mapping_close(&map);
    return status;
}

static gyre_status check_written(void *context, const char *written, gyre_error *err) {
    const expected_rotation *w = context;
    gyre_reading *reading = NULL;
    gyre_status status = gyre_mapping_check(w->map, w->path, err);
    if (!status) status = read_back(&reading, written, w, err);
    if (status) return status;
    double *scratch = malloc((size_t)w->pairs * sizeof *scratch);
    if (!scratch)
        status = gyre_fail(err, GYRE_ENOMEM, "%s: no memory", w->path);
    else
        status = check_rotations(reading, w, scratch, err);
    free(scratch);
    gyre_reading_free(reading);
    return status;
}

/* -- everything together -- */
static gyre_status read_architecture(edit_plan *p) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(p->file, "general.architecture");
    if (!pair || pair->value.type != GYRE_GGUF_STRING || pair->value.count == 0 || pair->value.count >= sizeof p->name)
        return gyre_fail(p->err, GYRE_EFORMAT, "general.architecture: missing, or not a word of up to 63 characters (%s)",
                         p->path);
    memcpy(p->name, pair->value.data, (size_t)pair->value.count);
    static const gyre_gguf_architecture unknown = {"", 0, GYRE_GGUF_NORM, 0};
    p->architecture = gyre_gguf_architecture_named(p->name);
    if (!p->architecture) p->architecture = &unknown;
    if (p->architecture->pairs > GYRE_GGUF_IMROPE)
        return unsupported(p, p->name, "models of this architecture do not rotate queries and keys");
    return GYRE_OK;
}

static gyre_status rewrite(const gyre_gguf *file, const gyre_encoding *encoding, expected_rotation *w, const char *target,
                           gyre_error *err) {
    edit_plan *p = calloc(1, sizeof *p);
    if (!p) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", w->path);
    p->file = file;
    p->path = w->path;
    p->err = err;
    gyre_status status = read_architecture(p);
    if (!status) status = make_edits(p, gyre_encoding_get_config(encoding), w->attention, w->length);
    const gyre_gguf_edits edits = {p->edits, p->count};
    if (!status) status = gyre_gguf_rewrite_from(file, w->path, &edits, target, check_written, w, err);
    free(p);
    return status;
}

static gyre_status rewrite_mapped(const char *path, const gyre_encoding *encoding, int64_t length, const char *target,
                                  gyre_error *err) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    gyre_mapping map = {0};
    gyre_gguf *file = NULL;
    double *frequencies = malloc((size_t)pairs * sizeof *frequencies);
    expected_rotation w = {.path = path, .frequencies = frequencies, .pairs = pairs, .length = length, .map = &map};
    w.temperature = (gyre_temperature_expected){gyre_encoding_get_config(encoding)->query, TOLERANCE,
                                                "rope.scaling.original_context_length", path};
    gyre_status status = frequencies ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "%s: no memory", path);
    if (!status) status = gyre_encoding_frequencies(encoding, length, frequencies, &w.attention);
    /* Faults of the file are reported for the copy. */
    if (!status && gyre_reading_open(
                       &w.before, path,
                       GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_LLAMA_CPP, .context_length = length), NULL))
        w.before = NULL;
    if (!status) status = gyre_gguf_open_path(&file, &map, path, err);
    if (!status) status = rewrite(file, encoding, &w, target, err);
    gyre_gguf_free(file);
    gyre_mapping_close(&map);
    gyre_reading_free(w.before);
    free(frequencies);
    return status;
}

gyre_status gyre_gguf_rewrite_positions(const char *path, const gyre_config *position, int64_t length, const char *target,
                                        gyre_error *err) {
    gyre_encoding *encoding = NULL;
    if (!path || !position || !target) return gyre_fail(err, GYRE_EINVAL, "GGUF: an argument is missing");
    if (length < 1 || length > INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "length: %" PRId64 " is not from 1 to 2^31 - 1 (%s)", length, path);
    if (!gyre_kind_has(position->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: only rotations are written into a GGUF (%s)",
                         gyre_kind_name(position->kind) ? gyre_kind_name(position->kind) : "kind", path);
    gyre_status status = gyre_encoding_create(&encoding, position, NULL, err);
    if (!status) status = rewrite_mapped(path, encoding, length, target, err);
    gyre_encoding_free(encoding);
    return status;
}

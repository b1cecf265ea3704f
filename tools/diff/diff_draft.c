/* diff_draft.c: what a draft shares with its target, checked. */
#include "tools/diff/diff_draft.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/options/reading_options.h"
#include "tools/options/value_names.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- checks -- */
static diff_draft_check *add(diff_draft_layers *l, const char *name, diff_draft_need need, int agrees, const char *note) {
    diff_draft_check *c = &l->checks[l->count < DIFF_DRAFT_CHECKS ? l->count++ : DIFF_DRAFT_CHECKS - 1];
    *c = (diff_draft_check){.name = name, .need = need, .agrees = agrees, .note = note, .first_position = -1};
    return c;
}

static void set_numbers(diff_draft_check *c, int64_t draft, int64_t target) {
    snprintf(c->draft, sizeof c->draft, "%" PRId64, draft);
    snprintf(c->target, sizeof c->target, "%" PRId64, target);
}

static diff_draft_need need_of(diff_draft_kind kind, diff_draft_need of_head) {
    return kind == DIFF_DRAFT_CACHE ? DIFF_NEED_MUST : kind == DIFF_DRAFT_HEAD ? of_head : DIFF_NEED_OWN;
}

static void describe(const explain_stats *s, char out[DIFF_DRAFT_TEXT]) {
    char base[EXPLAIN_TEXT_SIZE];
    snprintf(out, DIFF_DRAFT_TEXT, "%s, base %.24s, %" PRId64 " pairs", s->label,
             explain_format_number(s->config->rope.base, 6, base), s->pairs);
}

/* -- frequencies -- */
/* *gap = the largest difference of two lists of frequencies; out = 1 if rounding explains all. */
static int are_same(const double *a, const double *b, int64_t pairs, double *gap) {
    int same = 1;
    *gap = 0;
    for (int64_t i = 0; i < pairs; i++) {
        const double apart = fabs(a[i] - b[i]);
        if (apart > DIFF_ROUNDING * fabs(b[i])) same = 0;
        *gap = fmax(*gap, apart);
    }
    return same;
}

/* out[draft->pairs] = the frequencies that the target's base and scaling mean for heads of the draft's size.  out = 0, or 1
 * if there is no such rotation, as of a list with a factor for each pair. */
static int target_at_size(const explain_stats *draft, const explain_stats *target, double *out) {
    gyre_config config = *target->config;
    gyre_encoding *encoding = NULL;
    gyre_error err;
    config.head_dim = draft->config->head_dim;
    config.rope.dim = draft->config->rope.dim;
    config.rope.layout = draft->config->rope.layout;
    if (config.rope.axes > 1) { /* how many pairs turn with which axis changes no frequency of an index */
        config.rope.axes = 1;
        memset(config.rope.axis_pairs, 0, sizeof config.rope.axis_pairs);
    }
    if (gyre_encoding_create(&encoding, &config, NULL, &err)) return 1;
    const gyre_status status = gyre_encoding_frequencies(encoding, target->length, out, NULL);
    gyre_encoding_free(encoding);
    return status != 0;
}

static gyre_status check_frequencies(diff_draft_layers *l, diff_draft_kind kind, const explain_stats *draft,
                                     const explain_stats *target, gyre_error *err) {
    static const char *const notes[] = {
        "its queries meet keys that the target rotated",
        "right only if the head was trained so: trainers take the rotation from the target's "
        "config, and it may have been lost, or another exported"};
    double *there = calloc((size_t)draft->pairs + 1, sizeof *there), gap = INFINITY;
    int same = 0;
    if (!there) return gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (--draft)");
    if (draft->pairs == target->pairs)
        same = are_same(draft->inv_freq, target->inv_freq, draft->pairs, &gap);
    else if (kind == DIFF_DRAFT_HEAD && !target_at_size(draft, target, there))
        same = are_same(draft->inv_freq, there, draft->pairs, &gap);
    diff_draft_check *c = add(l, "frequencies", need_of(kind, DIFF_NEED_TRAINED), same, notes[kind == DIFF_DRAFT_HEAD]);
    if (!same) c->first_position = isfinite(gap) ? diff_first_position(gap) : 0;
    describe(draft, c->draft);
    describe(target, c->target);
    free(there);
    return GYRE_OK;
}

/* -- axes, windows, lengths -- */
static void sections_text(const gyre_config *config, char out[DIFF_DRAFT_TEXT]) {
    snprintf(out, DIFF_DRAFT_TEXT, "one");
    for (int64_t i = 0; config->rope.axes > 1 && i < config->rope.axes && i < GYRE_MAX_AXES; i++) {
        const size_t used = i ? strlen(out) : 0;
        snprintf(out + used, DIFF_DRAFT_TEXT - used, "%s%" PRId64, i ? " + " : "", config->rope.axis_pairs[i]);
    }
}

/* vLLM passes the positions of all axes to a draft that has some, and plain ones to others.  It refuses an independent model
 * with axes. */
static void check_axes(diff_draft_layers *l, diff_draft_kind kind, const gyre_config *draft, const gyre_config *target) {
    const int plain = draft->rope.axes <= 1, target_plain = target->rope.axes <= 1;
    char a[DIFF_DRAFT_TEXT], b[DIFF_DRAFT_TEXT];
    if (plain && target_plain) return;
    sections_text(draft, a);
    sections_text(target, b);
    const int same = strcmp(a, b) == 0 && draft->rope.axes_layout == target->rope.axes_layout;
    const int agrees = kind == DIFF_DRAFT_MODEL ? plain : kind == DIFF_DRAFT_CACHE ? same : plain || same;
    diff_draft_check *c = add(l, "axes", DIFF_NEED_MUST, agrees,
                              agrees && !same            ? "as long as the text has no images: the draft counts tokens"
                              : kind == DIFF_DRAFT_MODEL ? "vLLM refuses an independent draft with axes (M-RoPE)"
                                                         : "the axes of a position turn other pairs");
    memcpy(c->draft, a, sizeof a);
    memcpy(c->target, b, sizeof b);
}

static void window_text(int64_t window, char out[DIFF_DRAFT_TEXT]) {
    snprintf(out, DIFF_DRAFT_TEXT, window ? "%" PRId64 : "none", window);
}

/* An engine frees keys that a layer of the target cannot see. */
static void check_window(diff_draft_layers *l, diff_draft_kind kind) {
    const int64_t a = l->draft->window, b = l->target->window;
    if (a == b) return;
    diff_draft_check *c = add(l, "window", need_of(kind, DIFF_NEED_OWN), b == 0 || (a > 0 && a <= b),
                              "keys past the target's window may have been freed");
    window_text(a, c->draft);
    window_text(b, c->target);
}

/* out = tokens that a group is stated for, from which engines take their limit; 0 = not said. */
static int64_t reach_of(const gyre_layer_reading *group) {
    const gyre_reading_field *stated = explain_find_field(group, "max_length");
    const int64_t max = stated ? strtoll(stated->value, NULL, 10) : 0;
    return max > 0 ? max : group->config.trained_length;
}

static void check_length(diff_draft_layers *l, diff_draft_kind kind, int64_t length) {
    static const char *const notes[] = {
        "vLLM raises max_position_embeddings of an EAGLE draft to the target's length (vllm#48894), and SGLang needs "
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1; past what it was trained for, fewer tokens are accepted",
        "vLLM drafts nothing for a sequence past the draft's length"};
    const int64_t a = reach_of(l->draft), b = length ? length : reach_of(l->target);
    if (a == 0 || b == 0) return;
    set_numbers(add(l, "length", DIFF_NEED_MUST, a >= b, notes[kind == DIFF_DRAFT_MODEL]), a, b);
}

/* -- a group -- */
static void check_channels(diff_draft_layers *l, diff_draft_kind kind, const gyre_config *a, const gyre_config *b) {
    const diff_draft_need need = need_of(kind, DIFF_NEED_OWN);
    set_numbers(add(l, "head size", need, a->head_dim == b->head_dim, "keys of another size cannot be read"), a->head_dim,
                b->head_dim);
    diff_draft_check *c = add(l, "layout", need, a->rope.layout == b->rope.layout, "other channels form a pair");
    snprintf(c->draft, sizeof c->draft, "%s", gyre_layout_name(a->rope.layout));
    snprintf(c->target, sizeof c->target, "%s", gyre_layout_name(b->rope.layout));
}

static void check_factor(diff_draft_layers *l, diff_draft_kind kind, double a, double b) {
    diff_draft_check *c = add(l, "attention factor", need_of(kind, DIFF_NEED_TRAINED), fabs(a - b) <= DIFF_ROUNDING * b,
                              "scores are larger or smaller than those it was trained with");
    char text[EXPLAIN_TEXT_SIZE];
    snprintf(c->draft, sizeof c->draft, "%s", explain_format_number(a, 6, text));
    snprintf(c->target, sizeof c->target, "%s", explain_format_number(b, 6, text));
}

/* Fills in the checks of l->draft and l->target. */
static gyre_status check_layers(diff_draft_layers *l, const diff_operand operand[2], diff_draft_kind kind, int64_t length,
                                gyre_error *err) {
    explain_stats a, b;
    l->count = 0;
    gyre_status status = explain_stats_compute(&a, operand[0].reading, l->draft, err);
    if (status) return status;
    status = explain_stats_compute(&b, operand[1].reading, l->target, err);
    if (!status) {
        status = check_frequencies(l, kind, &a, &b, err);
        check_factor(l, kind, a.attention_factor, b.attention_factor);
        check_channels(l, kind, a.config, b.config);
        check_axes(l, kind, a.config, b.config);
        check_window(l, kind);
        check_length(l, kind, length);
        explain_stats_free(&b);
    }
    explain_stats_free(&a);
    l->agrees = 1;
    for (int i = 0; i < l->count; i++)
        if (l->checks[i].need != DIFF_NEED_OWN) l->agrees &= l->checks[i].agrees;
    return status;
}

/* -- which layers of the target -- */
static int rotates(const gyre_layer_reading *g) {
    return !reading_is_beside(g) && gyre_kind_has(g->config.kind, GYRE_TRAIT_ROTATES);
}

/* A cache is that of layers of the same kind.  Other drafts may rotate as any layers of the target: those that agree are
 * taken, else those of the same name, else the first. */
static gyre_status choose_target(diff_draft_layers *l, const diff_operand operand[2], diff_draft_kind kind, int64_t length,
                                 gyre_error *err) {
    const gyre_reading *target = operand[1].reading;
    const gyre_layer_reading *same = reading_find_group(target, l->draft->name), *first = NULL;
    for (int64_t i = 0; i < target->groups_count; i++) {
        const gyre_layer_reading *g = target->groups[i];
        if (!rotates(g)) continue;
        if (!first) first = g;
        if (kind == DIFF_DRAFT_CACHE) continue;
        l->target = g;
        const gyre_status status = check_layers(l, operand, kind, length, err);
        if (status || l->agrees) return status;
    }
    const int only = strcmp(l->draft->name, "all") == 0 || (first && strcmp(first->name, "all") == 0);
    l->target = same && rotates(same) ? same : kind != DIFF_DRAFT_CACHE || only ? first : NULL;
    if (l->target) return check_layers(l, operand, kind, length, err);
    l->count = l->agrees = 0;
    return GYRE_OK;
}

/* -- the verdict -- */
static void append_group(diff_draft *d, const diff_draft_layers *l) {
    if (strcmp(l->draft->name, "all") != 0) diff_append(d->verdict, sizeof d->verdict, " in %s", l->draft->name);
}

static int is_plural(const char *name) {
    return name[strlen(name) - 1] == 's';
}

static void append_faults(diff_draft *d, const diff_draft_layers *l) {
    if (!l->target)
        diff_append(d->verdict, sizeof d->verdict, " The target has no %s layers whose keys could be read.", l->draft->name);
    for (int i = 0; i < l->count; i++) {
        const diff_draft_check *c = &l->checks[i];
        if (c->agrees || c->need == DIFF_NEED_OWN) continue;
        diff_append(d->verdict, sizeof d->verdict, " The %s%s: %s, and %s of the target", c->name,
                    is_plural(c->name) ? " differ" : " differs", c->draft, c->target);
        append_group(d, l);
        if (c->first_position >= 0)
            diff_append(d->verdict, sizeof d->verdict, "; angles are 0.01 rad apart from position %" PRId64 " on",
                        c->first_position);
        diff_append(d->verdict, sizeof d->verdict, " (%s).", c->note);
    }
}

/* Appends what a draft of one axis, whose target has several, is right for. */
static void append_condition(diff_draft *d, const diff_draft_layers *l) {
    for (int k = 0; k < l->count; k++)
        if (strcmp(l->checks[k].name, "axes") == 0 && strcmp(l->checks[k].draft, l->checks[k].target) != 0)
            diff_append(d->verdict, sizeof d->verdict, " Its positions have one axis: that is right %s.", l->checks[k].note);
}

static void write_verdict(diff_draft *d) {
    static const char *const right[] = {
        [DIFF_DRAFT_HEAD] = "The draft head rotates as its target, and reaches its length.",
        [DIFF_DRAFT_CACHE] = "The draft rotates as the layers whose keys it reads.",
        [DIFF_DRAFT_MODEL] = "An independent draft: it shares tokens and positions alone, and reaches the target's length."};
    static const char *const wrong[] = {[DIFF_DRAFT_HEAD] = "The draft head does not rotate as its target.",
                                        [DIFF_DRAFT_CACHE] = "The draft does not rotate as the layers whose keys it reads.",
                                        [DIFF_DRAFT_MODEL] =
                                            "An independent draft that does not take all that its target takes."};
    diff_append(d->verdict, sizeof d->verdict, "%s", d->agrees ? right[d->kind] : wrong[d->kind]);
    for (int i = 0; i < d->count; i++)
        append_faults(d, &d->layers[i]);
    for (int i = 0; i < d->count && d->agrees; i++)
        append_condition(d, &d->layers[i]);
}

gyre_status diff_draft_compare(diff_draft *out, const diff_operand operand[2], diff_draft_kind kind, int64_t length,
                               gyre_error *err) {
    *out = (diff_draft){.kind = kind, .known_by = "--draft"};
    if (kind == DIFF_DRAFT_AUTO) out->kind = diff_draft_find_kind(operand, out->known_by);
    const gyre_reading *draft = operand[0].reading;
    out->agrees = 1;
    for (int64_t i = 0; i < draft->groups_count && out->count < DIFF_DRAFT_GROUPS; i++) {
        if (!rotates(draft->groups[i])) continue;
        diff_draft_layers *l = &out->layers[out->count++];
        l->draft = draft->groups[i];
        const gyre_status status = choose_target(l, operand, out->kind, length, err);
        if (status) return status;
        out->agrees &= l->agrees;
        if (!l->target && out->kind != DIFF_DRAFT_CACHE) out->count = 0;
    }
    if (out->count == 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "--draft: no layer of the draft or of its target rotates (%s, %s)",
                         draft->path, operand[1].reading->path);
    write_verdict(out);
    return GYRE_OK;
}

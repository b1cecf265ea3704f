/* extend_methods.c: the methods to stretch a rotation, and the effect of each. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/extend/extend.h"
#include "tools/extend/extend_bases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double two_pi = 6.283185307179586476925286766559;
static const double same_angle = 0.01; /* in radians; a smaller difference counts as the same rotation */

/* -- names -- */
static int is_called(const char *text, const char *name) {
    const size_t length = strcspn(text, ":+");
    return length == strlen(name) && strncmp(text, name, length) == 0;
}

static int is_known(const char *text) {
    static const char names[] = EXTEND_METHOD_NAMES;
    for (const char *name = names; *name; name += strspn(name, ", ")) {
        const size_t length = strcspn(name, ",");
        if (strcspn(text, ":+") == length && strncmp(text, name, length) == 0) return 1;
        name += length;
    }
    return 0;
}

gyre_status extend_method_parse(const char *text, extend_method *out, gyre_error *err) {
    extend_method r = {.longrope = is_called(text, "longrope")};
    if (strlen(text) >= sizeof r.label) return gyre_fail(err, GYRE_EINVAL, "method %.40s...: too long a name", text);
    if (!is_known(text)) return method_fail_unknown(text, EXTEND_METHOD_NAMES, err);
    snprintf(r.label, sizeof r.label, "%s", text);
    if (r.longrope) {
        /* Parsed as ntk, which takes the same numbers. */
        char stand_in[sizeof r.label + 8];
        snprintf(stand_in, sizeof stand_in, "ntk%s", text + strcspn(text, ":+"));
        if (method_parse(stand_in, &r.method, NULL))
            return gyre_fail(err, GYRE_EINVAL,
                             "method %s: what follows the name is not a factor of at least 1, nor " METHOD_MODIFIERS, text);
    } else {
        const gyre_status status = method_parse(text, &r.method, err);
        if (status) return status;
        if (r.method.number == METHOD_NUMBER_BASE)
            return gyre_fail(err, GYRE_EINVAL, "method %s: changes rope_theta and is not a scaling; gyre eval measures it",
                             text);
        if (r.method.number == METHOD_NUMBER_PAST)
            return gyre_fail(err, GYRE_EINVAL, "method %s: no config can state it; ntk:FACTOR is what comes nearest", text);
    }
    *out = r;
    return GYRE_OK;
}

gyre_status extend_methods_parse(const char *list, extend_method **out, int64_t *count, gyre_error *err) {
    int64_t n = 1;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    extend_method *methods = calloc((size_t)n, sizeof *methods);
    if (!methods) return gyre_fail(err, GYRE_ENOMEM, "methods: out of memory for %lld", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        char one[METHOD_LABEL * 2];
        const size_t length = strcspn(list, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, list);
        const gyre_status status = extend_method_parse(one, &methods[i], err);
        if (status) {
            free(methods);
            return status;
        }
        list += length + 1;
    }
    *out = methods;
    *count = n;
    return GYRE_OK;
}

const char *extend_methods_for(const extension *e) {
    if (e->group->config.rope.frequencies) return "none,linear,ntk-mixed,llama3"; /* the others are defined by a base */
    switch (e->group->config.rope.scaling) {
    case GYRE_SCALING_PROPORTIONAL:
        return "none,linear";
    case GYRE_SCALING_LONGROPE:
        return "none,linear,ntk,ntk-mixed,dynamic,llama3,by-parts,yarn,longrope";
    default:
        return "none,linear,ntk,ntk-mixed,dynamic,llama3,by-parts,yarn";
    }
}

/* Linear scalings do not keep the original length: the config states the length that they reach. */
int64_t extend_trained_length(const gyre_config *c) {
    const int divides = c->rope.scaling == GYRE_SCALING_LINEAR || c->rope.scaling == GYRE_SCALING_PROPORTIONAL;
    if (!divides || c->rope.factor <= 1) return c->trained_length;
    return (int64_t)llround((double)c->trained_length / c->rope.factor);
}

/* -- positions -- */
gyre_status extend_method_config(const extend_method *r, const extension *e, gyre_config *out, gyre_error *err) {
    const gyre_config *base = &e->group->config;
    gyre_status status = method_config(&r->method, base, e->trained, e->to, &e->betas, out, err);
    if (status) return status;
    if (r->longrope && !base->rope.short_factor)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "method %s: the model has no lists for it (%s)", r->label, e->path);
    if (base->rope.scaling == GYRE_SCALING_PROPORTIONAL && !r->method.keeps_model_scaling) {
        /* Pairs that are not rotated must stay so. */
        if (r->longrope || r->method.scaling != GYRE_SCALING_LINEAR)
            return gyre_fail(err, GYRE_EUNSUPPORTED,
                             "method %s: some pairs of this model do not rotate, but it rotates all (%s)", r->label,
                             e->path);
        out->rope.scaling = GYRE_SCALING_PROPORTIONAL;
        out->rope.proportion = base->rope.proportion;
    }
    if (r->longrope) {
        out->rope.scaling = GYRE_SCALING_LONGROPE;
        out->rope.short_factor = base->rope.short_factor;
        out->rope.long_factor = base->rope.long_factor;
        if (r->method.start_tokens == 0) out->rope.longrope = base->rope.longrope;
    }
    /* The ends of the ramp stay rounded or unrounded, as the model was trained. */
    if (out->rope.scaling == GYRE_SCALING_YARN || out->rope.scaling == GYRE_SCALING_BY_PARTS)
        out->rope.fractional_bounds = base->rope.fractional_bounds;
    /* With latent attention, YaRN's softmax multiplier depends on these two. */
    if (out->rope.scaling == GYRE_SCALING_YARN && !r->method.keeps_model_scaling) {
        out->rope.mscale = base->rope.mscale;
        out->rope.mscale_all_dim = base->rope.mscale_all_dim;
    }
    return GYRE_OK;
}

/* -- effects -- */
/* In radians per position: theta without scaling; near and far under the method, at the trained and at the new length. */
typedef struct pair_frequencies {
    int64_t pairs;
    double *theta, *near, *far;
} pair_frequencies;

static void free_frequencies(pair_frequencies *s) {
    free(s->theta);
    free(s->near);
    free(s->far);
}

static gyre_status read_frequencies(const gyre_encoding *encoding, const extension *e, pair_frequencies *s,
                                    gyre_error *err) {
    gyre_config plain = *gyre_encoding_get_config(encoding);
    gyre_encoding *trained = NULL;
    s->pairs = plain.rope.dim / 2;
    s->theta = calloc((size_t)s->pairs, sizeof(double));
    s->near = calloc((size_t)s->pairs, sizeof(double));
    s->far = calloc((size_t)s->pairs, sizeof(double));
    if (!s->theta || !s->near || !s->far) return gyre_fail(err, GYRE_ENOMEM, "frequencies: out of memory (extend)");
    if (plain.rope.scaling != GYRE_SCALING_PROPORTIONAL) plain.rope.scaling = GYRE_SCALING_NONE;
    plain.rope.factor = 1;
    plain.rope.resonance = 0;
    plain.rope.clip = (struct gyre_clip_config){GYRE_CLIP_NONE, 0};
    plain.rope.longrope = (struct gyre_longrope_config){0, GYRE_LONGROPE_START_PAPER};
    gyre_config_clear_unused(&plain);
    gyre_status status = gyre_encoding_create(&trained, &plain, NULL, err);
    if (!status) status = gyre_encoding_frequencies(trained, e->trained, s->theta, NULL);
    if (!status) status = gyre_encoding_frequencies(encoding, e->trained, s->near, NULL);
    if (!status) status = gyre_encoding_frequencies(encoding, e->to, s->far, NULL);
    gyre_encoding_free(trained);
    return status;
}

/* out = the first position below the trained length where the angle of a pair differs from training; -1 = none. */
static int64_t first_change(const pair_frequencies *s, int64_t trained) {
    double max = 0;
    for (int64_t i = 0; i < s->pairs; i++)
        max = fmax(max, fabs(s->near[i] - s->theta[i]));
    if (!(max * (double)(trained - 1) > same_angle)) return -1;
    int64_t position = (int64_t)floor(same_angle / max);
    while ((double)position * max <= same_angle)
        position++;
    return position;
}

/* Dual Chunk Attention, for `length` tokens: out = 1 + the largest distance that a pair is rotated by. */
static double chunked_length(const gyre_config *config, int64_t length) {
    const int64_t chunk = config->rope.chunk.size - config->rope.chunk.local,
                  paper = config->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t cap = config->rope.chunk.size - paper, last = paper || cap < 2 * chunk - 1 ? cap : 2 * chunk - 1;
    if (length <= chunk) return (double)length;
    if (length > 2 * chunk) return (double)last + 1;
    return (double)(length - 1 < cap ? length - 1 : cap) + 1;
}

/* out = 1 + the distance that the largest distance among `length` tokens is rotated by. */
static double effective_length(const gyre_config *config, int64_t length) {
    const struct gyre_rope_config *rope = &config->rope;
    if (far_is_chunked(config)) return chunked_length(config, length);
    const int64_t max = length - 1, past = max - rope->far_window;
    const int64_t group = rope->far == GYRE_FAR_GROUPED ? (int64_t)rope->far_factor : 1;
    if (rope->far == GYRE_FAR_AS_NEAR || past <= 0) return (double)length;
    if (rope->far == GYRE_FAR_CLAMPED) return (double)rope->far_window + 1;
    if (rope->far == GYRE_FAR_LEAKY) return (double)rope->far_window + (double)past / rope->far_factor + 1;
    const int64_t groups = max / group + rope->far_window - rope->far_window / group;
    return (double)groups + 1;
}

/* out = the first distance whose rotation is changed by the far window; -1 = none below the trained length. */
static int64_t first_far_change(const gyre_config *config, double fastest, int64_t trained) {
    const struct gyre_rope_config *rope = &config->rope;
    double off = fastest; /* radians off per token past the window */
    int64_t distance = far_first_change(config);
    if (distance < 0) return -1;
    if (far_is_chunked(config)) return distance < trained ? distance : -1;
    if (rope->far == GYRE_FAR_LEAKY) off *= fabs(1 - 1 / rope->far_factor);
    if (distance == rope->far_window) return distance;
    while (distance < trained && (double)(distance - rope->far_window) * off <= same_angle)
        distance++;
    return distance < trained ? distance : -1;
}

static int64_t first_of(int64_t a, int64_t b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void measure(const pair_frequencies *s, const extension *e, const gyre_config *config, extend_effect *out) {
    const double trained = (double)e->trained, to = effective_length(config, e->to), rounding = 1 + 1e-9;
    double slowest = 0;
    out->changed_from = first_of(first_change(s, e->trained), first_far_change(config, s->near[0], e->trained));
    for (int64_t i = 0; i < s->pairs; i++) {
        const double lost = trained * (s->theta[i] - s->far[i]) / two_pi;
        out->revolutions_lost += lost;
        out->max_revolutions_lost = fmax(out->max_revolutions_lost, lost);
        if (trained * s->theta[i] < two_pi) {
            out->incomplete++;
            out->unseen += to * s->far[i] > trained * s->theta[i] * rounding;
        }
        if (s->far[i] > 0 && (slowest == 0 || s->far[i] < slowest)) slowest = s->far[i];
    }
    out->max_wavelength = slowest > 0 ? two_pi / slowest : 0;
    out->coherence = slowest > 0 ? extend_coherence(to, slowest, extend_layers(e)) : 0;
}

static gyre_status compute(const extend_candidate *c, const extension *e, extend_effect *f, gyre_error *err) {
    pair_frequencies s = {0, NULL, NULL, NULL};
    const gyre_config *config = gyre_encoding_get_config(c->encoding);
    gyre_status status = gyre_encoding_scaling_parts(c->encoding, e->to, &f->parts);
    if (!status) status = gyre_encoding_frequencies(c->encoding, e->to, NULL, &f->attention_factor);
    if (!status) status = gyre_encoding_frequencies(c->encoding, e->trained, NULL, &f->near_factor);
    if (!status) status = read_frequencies(c->encoding, e, &s, err);
    if (!status) {
        f->factor = config->rope.factor;
        measure(&s, e, config, f);
    }
    free_frequencies(&s);
    return status;
}

gyre_status extend_effect_compute(const extend_method *r, const extension *e, extend_effect *out, gyre_error *err) {
    extend_candidate c = {.method = r};
    extend_effect f = {0};
    gyre_status status = extend_method_config(r, e, &c.config, err);
    if (!status) status = gyre_encoding_create(&c.encoding, &c.config, NULL, err);
    if (!status) status = compute(&c, e, &f, err);
    if (!status) status = extend_check_support(&c, e, &f, err);
    if (!status) *out = f;
    gyre_encoding_free(c.encoding);
    return status;
}

/* search_rescale.c: factors for the pairs: from known methods, and variations that keep them nondecreasing.
 *
 * No libm function is between the seed and a child, so children are the same on every machine. */
#include "tools/search/search_rescale.h"
#include "gyre/gyre_fields.h"
#include "util/random.h"

#include <math.h>
#include <string.h>

static const double mutation_probability = 0.3; /* probability that a factor changes, as in the paper */
static const double steps_per_unit = 1000;

/* Mean 0, variance 1: the sum of twelve uniform numbers minus its mean. */
static double normal(uint64_t *random) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += gyre_random_uniform(random);
    return sum;
}

/* -- the space -- */
search_space search_space_of(int64_t pairs, int64_t trained, int64_t to, double fixed) {
    const double stretch = (double)to / (double)trained;
    search_space space = {.pairs = pairs, .max_factor = 1.25 * stretch, .attention_min = fixed, .attention_max = fixed};
    if (fixed == 0) space.attention_min = 1, space.attention_max = 1 + 0.2 * log(stretch);
    return space;
}

/* Keeps the list in order. */
static void add_start(search_space *space, int64_t tokens) {
    int64_t at = space->starts_count;
    for (int64_t i = 0; i < space->starts_count; i++)
        if (space->starts[i] == tokens) return;
    for (; at > 0 && space->starts[at - 1] > tokens; at--)
        space->starts[at] = space->starts[at - 1];
    space->starts[at] = tokens;
    space->starts_count++;
}

void search_space_add_starts(search_space *space, const int64_t *starts, int64_t count) {
    add_start(space, 0);
    for (int64_t i = 0; i < count && space->starts_count < SEARCH_STARTS; i++)
        add_start(space, starts[i]);
}

static int is_start(const search_space *space, int64_t tokens) {
    int found = tokens == 0;
    for (int64_t i = 0; i < space->starts_count; i++)
        found |= space->starts[i] == tokens;
    return found;
}

int search_is_valid(const search_space *space, const search_rescale *rescale) {
    double below = 1;
    for (int64_t i = 0; i < space->pairs; i++) {
        if (!(rescale->factor[i] >= below && rescale->factor[i] <= space->max_factor)) return 0;
        below = rescale->factor[i];
    }
    return rescale->attention >= space->attention_min && rescale->attention <= space->attention_max &&
           is_start(space, rescale->start_tokens);
}

int search_equal(const search_space *space, const search_rescale *a, const search_rescale *b) {
    for (int64_t i = 0; i < space->pairs; i++)
        if (a->factor[i] != b->factor[i]) return 0;
    return a->attention == b->attention && a->start_tokens == b->start_tokens;
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Finer than the paper's steps of 0.01: fast pairs make many revolutions and react to smaller changes. */
static double round_to_step(double x, double low, double high) {
    return clamp(floor(x * steps_per_unit + 0.5) / steps_per_unit, low, high);
}

/* Clamps to the space and sorts the factors. */
static void repair(const search_space *space, search_rescale *rescale) {
    double *f = rescale->factor;
    for (int64_t i = 0; i < space->pairs; i++) {
        const double x = round_to_step(f[i], 1, space->max_factor);
        int64_t at = i;
        for (; at > 0 && f[at - 1] > x; at--)
            f[at] = f[at - 1];
        f[at] = x;
    }
    rescale->attention = round_to_step(rescale->attention, space->attention_min, space->attention_max);
}

/* -- known methods -- */
/* out[pairs] = the frequencies that scalings divide. */
static gyre_status unscaled_frequencies(const gyre_config *base, double *out, gyre_error *err) {
    gyre_config config = *base;
    gyre_encoding *encoding = NULL;
    gyre_config_unscale(&config);
    config.rope.table_positions = GYRE_NO_TABLE;
    gyre_status status = gyre_encoding_create(&encoding, &config, NULL, err);
    if (!status) status = gyre_encoding_frequencies(encoding, 0, out, NULL);
    gyre_encoding_free(encoding);
    return status;
}

gyre_status search_rotation_init(search_rotation *out, const gyre_config *base, int64_t trained, int64_t to,
                                 gyre_error *err) {
    *out = (search_rotation){.base = base, .trained = trained, .to = to};
    return unscaled_frequencies(base, out->unscaled, err);
}

gyre_status search_rescale_from_method(const search_space *space, const search_rotation *rotation, const method *m,
                                       const method_betas *betas, search_rescale *out, gyre_error *err) {
    double frequencies[SEARCH_PAIRS], below = 1;
    gyre_config config;
    gyre_encoding *encoding = NULL;
    search_rescale rescale = {.attention = 0};
    gyre_status status = method_config(m, rotation->base, rotation->trained, rotation->to, betas, &config, err);
    if (!status) {
        config.rope.table_positions = GYRE_NO_TABLE;
        status = gyre_encoding_create(&encoding, &config, NULL, err);
    }
    if (!status) status = gyre_encoding_frequencies(encoding, rotation->to, frequencies, &rescale.attention);
    gyre_encoding_free(encoding);
    if (status) return status;
    for (int64_t i = 0; i < space->pairs; i++) /* rounding may make a quotient smaller by its last bit */
        below = rescale.factor[i] = clamp(rotation->unscaled[i] / frequencies[i], below, space->max_factor);
    rescale.attention = clamp(rescale.attention, space->attention_min, space->attention_max);
    *out = rescale;
    return GYRE_OK;
}

void search_rescale_config(const search_rescale *rescale, const double *ones, const gyre_config *base, int64_t trained,
                           int64_t to, gyre_config *out) {
    gyre_config config = *base;
    struct gyre_rope_config *rope = &config.rope;
    config.trained_length = trained;
    rope->scaling = GYRE_SCALING_LONGROPE;
    config.context_length = to;
    rope->factor = (double)to / (double)trained;
    rope->attention_factor = rescale->attention;
    rope->mscale = rope->mscale_all_dim = rope->beta_fast = rope->beta_slow = 0;
    rope->low_freq = rope->high_freq = rope->proportion = rope->mixed_exponent = 0;
    rope->fractional_bounds = rope->resonance = 0;
    config.rope.clip = (struct gyre_clip_config){GYRE_CLIP_NONE, 0};
    config.rope.longrope = (struct gyre_longrope_config){rescale->start_tokens, GYRE_LONGROPE_START_PAPER};
    rope->short_factor = ones;
    rope->long_factor = rescale->factor;
    *out = config;
}

/* -- children -- */
/* Processes the first pair to the last.  Each new factor is between its neighbours at that time. */
static void draw_between(const search_space *space, search_rescale *g, uint64_t *random) {
    for (int64_t i = 0; i < space->pairs; i++) {
        const double low = i > 0 ? g->factor[i - 1] : 1, high = i + 1 < space->pairs ? g->factor[i + 1] : space->max_factor;
        const double drawn = low + (high - low) * gyre_random_uniform(random);
        if (gyre_random_uniform(random) < mutation_probability) g->factor[i] = round_to_step(drawn, low, high);
    }
}

/* out = a random relative step size; large and small steps occur at any time of the search. */
static double draw_step(uint64_t *random) {
    static const double steps[] = {0.01, 0.03, 0.1, 0.3};
    return steps[gyre_random_below(random, 4)];
}

static void perturb_some(const search_space *space, search_rescale *g, uint64_t *random) {
    const double step = draw_step(random);
    for (int64_t i = 0; i < space->pairs; i++) {
        const double by = 1 + step * normal(random);
        if (gyre_random_uniform(random) < mutation_probability) g->factor[i] *= by;
    }
}

/* Scales a range of factors, or their distance from 1: fast pairs have factors near 1, where only the latter is a small
 * step. */
static void perturb_range(const search_space *space, search_rescale *g, uint64_t *random) {
    const int64_t first = gyre_random_below(random, space->pairs),
                  count = 1 + gyre_random_below(random, space->pairs - first);
    const double origin = gyre_random_uniform(random) < 0.5 ? 1 : 0, by = 1 + draw_step(random) * normal(random);
    for (int64_t i = first; i < first + count; i++)
        g->factor[i] = origin + (g->factor[i] - origin) * by;
}

static void perturb_attention(const search_space *space, search_rescale *g, uint64_t *random) {
    const double by = 0.15 * (space->attention_max - space->attention_min) * normal(random);
    if (gyre_random_uniform(random) < mutation_probability) g->attention += by;
}

/* A search without start tokens draws nothing here, so that it takes the path that it always took. */
static void redraw_start(const search_space *space, search_rescale *g, uint64_t *random) {
    if (space->starts_count < 2) return;
    const int64_t drawn = space->starts[gyre_random_below(random, space->starts_count)];
    if (gyre_random_uniform(random) < mutation_probability) g->start_tokens = drawn;
}

void search_mutate(const search_space *space, const search_rescale *parent, uint64_t *random, search_rescale *out) {
    search_rescale g = *parent;
    switch (gyre_random_below(random, 3)) {
    case 0:
        draw_between(space, &g, random);
        break;
    case 1:
        perturb_some(space, &g, random);
        break;
    default:
        perturb_range(space, &g, random);
    }
    perturb_attention(space, &g, random);
    redraw_start(space, &g, random);
    repair(space, &g);
    *out = g;
}

static void uniform_crossover(const search_space *space, const search_rescale *b, uint64_t *random, search_rescale *g) {
    for (int64_t i = 0; i < space->pairs; i++)
        if (gyre_random_uniform(random) < 0.5) g->factor[i] = b->factor[i];
    if (gyre_random_uniform(random) < 0.5) g->attention = b->attention;
}

/* The mean of three candidates reduces what each owes to noise in the windows. */
static void average(const search_space *space, const search_rescale *b, const search_rescale *c, search_rescale *g) {
    for (int64_t i = 0; i < space->pairs; i++)
        g->factor[i] = (g->factor[i] + b->factor[i] + c->factor[i]) / 3;
    g->attention = (g->attention + b->attention + c->attention) / 3;
}

/* g += by (b - c) */
static void add_difference(const search_space *space, const search_rescale *b, const search_rescale *c, double by,
                           search_rescale *g) {
    for (int64_t i = 0; i < space->pairs; i++)
        g->factor[i] += by * (b->factor[i] - c->factor[i]);
    g->attention += by * (b->attention - c->attention);
}

void search_cross(const search_space *space, const search_rescale *a, const search_rescale *b, const search_rescale *c,
                  uint64_t *random, search_rescale *out) {
    search_rescale g = *a;
    switch (gyre_random_below(random, 4)) {
    case 0:
        uniform_crossover(space, b, random, &g);
        break;
    case 1:
        add_difference(space, b, a, gyre_random_uniform(random), &g);
        break;
    case 2:
        average(space, b, c, &g);
        break;
    default:
        add_difference(space, b, c, 1.2 * gyre_random_uniform(random), &g);
    }
    if (space->starts_count > 1 && gyre_random_uniform(random) < 0.5) g.start_tokens = b->start_tokens;
    repair(space, &g);
    *out = g;
}

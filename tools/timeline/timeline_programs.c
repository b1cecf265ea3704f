/* timeline_programs.c: the programs of the timeline, their versions, and which of transformers have a class for a model. */
#include "tools/timeline/timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- versions of transformers -- */
typedef struct release {
    int version;                      /* 100 x major + minor */
    const char *month, *added, *gone; /* types, separated by spaces */
} release;
#define TRANSFORMERS(major, minor, month, added, gone) {100 * (major) + (minor), month, added, gone},
static const release releases[] = {
#include "tools/timeline/transformers_classes.def"
};
#undef TRANSFORMERS
enum { RELEASES = sizeof releases / sizeof *releases };

static int lists(const char *types, const char *type) {
    const size_t length = strlen(type);
    for (const char *at = types; length && (at = strstr(at, type)); at += length)
        if ((at == types || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return 1;
    return 0;
}

/* out = the place of the release that changed the class, from 0; -1 = none. */
static int release_of(const char *type, int gone) {
    for (int i = 0; i < RELEASES; i++)
        if (lists(gone ? releases[i].gone : releases[i].added, type)) return i;
    return -1;
}

int timeline_has_class(const char *model_type) {
    return release_of(model_type, 0) >= 0;
}

static const char *month_of(int version) {
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].version == version) return releases[i].month;
    return NULL;
}

/* out = the version before that of a row, in the table; 0 = none. */
static int version_before(int place) {
    for (int i = place; i >= 0; i--)
        if (releases[i].version != releases[place].version) return releases[i].version;
    return 0;
}

/* out = 1 if the row of a release stands for it alone, so that this release brought the class, and not one between it and
 * the row before. */
static int is_exact(int place) {
    return place == 0 || releases[place].month != NULL;
}

static void format_version(int version, char *out, size_t size) {
    snprintf(out, size, "%d.%d", version / 100, version % 100);
}

/* -- spans -- */
/* The versions of hf-4.51 begin with 4.51, those of hf-5 with 5.0.  out = 0 for another program. */
static int version_of(gyre_profile profile) {
    const char *name = gyre_profile_name(profile);
    char *end;
    if (!name || strncmp(name, "hf-", 3) != 0) return 0;
    const long major = strtol(name + 3, &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return (int)(100 * major + minor);
}

/* out = the profile of transformers with the lowest version above `version`, or DEFAULT. */
static gyre_profile next_profile(int version) {
    gyre_profile best = GYRE_PROFILE_DEFAULT;
    for (int p = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)p); p++) {
        const int own = version_of((gyre_profile)p);
        if (own > version && (best == GYRE_PROFILE_DEFAULT || own < version_of(best))) best = (gyre_profile)p;
    }
    return best;
}

/* out = the last version of the releases before `version`. */
static int last_before(int version) {
    int last = 0;
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].version < version) last = releases[i].version;
    return last;
}

/* A release whose month is not known stands for all since the one before it, so what it changed changed after that one. */
static int version_with(int place) {
    return is_exact(place) ? releases[place].version : version_before(place) + 1;
}

/* Splits the span in two if the release at `place` lies within it.  out = 1 if so. */
static int split(timeline_span *span, int place) {
    const int version = place >= 0 ? version_with(place) : 0;
    if (version <= span->from || (span->to && version > span->to)) return 0;
    span[1] = *span;
    span[0].to = version_before(place);
    span[0].last_month = month_of(span[0].to);
    span[1].from = version;
    span[1].since = month_of(version) ? month_of(version) : "";
    return 1;
}

/* added, gone: places of the releases that changed the class; -1 = none. */
static void say_missing(timeline_span *span, const char *type, int added, int gone) {
    const int is_early = added >= 0 && span->from < version_with(added) && added > 0;
    const int is_late = gone >= 0 && span->from >= version_with(gone), place = is_early ? added : gone;
    char version[16];
    if (!is_early && !is_late) return;
    format_version(is_exact(place) ? releases[place].version : version_before(place), version, sizeof version);
    snprintf(span->missing, sizeof span->missing, "no class for %.40s, which %s %s %s", type,
             is_early ? "came" : "was dropped", is_exact(place) ? "with" : "after", version);
}

static int add_transformers(const char *type, timeline_span *out) {
    int count = 0, version = 0;
    const int added = release_of(type, 0), gone = release_of(type, 1);
    for (gyre_profile p; (p = next_profile(version)) != GYRE_PROFILE_DEFAULT;) {
        version = version_of(p);
        const gyre_profile next = next_profile(version);
        timeline_span *span = &out[count];
        *span = (timeline_span){.program = "transformers", .profile = p, .from = version, .since = month_of(version)};
        if (next != GYRE_PROFILE_DEFAULT) span->to = last_before(version_of(next));
        span->last_month = month_of(span->to);
        int last = split(span, added);
        last += split(&span[last], gone);
        for (int i = 0; i <= last; i++)
            say_missing(&span[i], type, added, gone);
        count += last + 1;
    }
    return count;
}

/* month: of the source that the profile follows. */
static const struct {
    const char *program;
    gyre_profile profile;
    const char *month;
} engines[] = {
    {"vLLM", GYRE_PROFILE_VLLM_2026_05, "2026-05"}, {"vLLM", GYRE_PROFILE_VLLM_2026_09, "2026-09"},
    {"mlx-lm", GYRE_PROFILE_MLX_LM, "2026-08"},     {"llama.cpp", GYRE_PROFILE_LLAMA_CPP, "2026-08"},
    {"SGLang", GYRE_PROFILE_SGLANG, "2026-09"},
};

int timeline_spans(const char *model_type, timeline_span out[TIMELINE_MAX_SPANS]) {
    int count = add_transformers(model_type, out);
    for (size_t i = 0; i < sizeof engines / sizeof *engines && count < TIMELINE_MAX_SPANS; i++)
        out[count++] = (timeline_span){.program = engines[i].program,
                                       .profile = engines[i].profile,
                                       .since = engines[i].month,
                                       .last_month = engines[i].month};
    return count;
}

/* -- titles -- */
/* The versions after 5.0 that got a class are not told apart. */
static void format_from(const timeline_span *span, char *out, size_t size) {
    const int major = span->from / 100, minor = span->from % 100;
    if (minor == 0 && !span->to)
        snprintf(out, size, "%d", major);
    else if (minor > 0 && !*span->since)
        snprintf(out, size, "%d after %d.%d", major, major, minor - 1);
    else
        format_version(span->from, out, size);
}

void timeline_versions(const timeline_row *row, char *out, size_t size) {
    char from[40], to[16];
    const timeline_span *first = &row->first, *last = &row->last;
    if (!first->from) {
        snprintf(out, size, strcmp(first->since, last->last_month) == 0 ? "%s" : "%s to %s", first->since, last->last_month);
        return;
    }
    format_from(first, from, sizeof from);
    format_version(last->to, to, sizeof to);
    if (!last->to) snprintf(to, sizeof to, "%d", last->from / 100);
    if (first->from == last->to || (!last->to && first->from / 100 == last->from / 100))
        snprintf(out, size, "%s", from);
    else
        snprintf(out, size, "%s to %s", from, to);
}

void timeline_title(const timeline_row *row, char *out, size_t size) {
    char versions[80];
    timeline_versions(row, versions, sizeof versions);
    snprintf(out, size, "%s %s", row->first.program, versions);
}

/* suggest.h: the known name nearest to a misspelt one, for "did you mean ...?". */
#ifndef GYRE_UTIL_SUGGEST_H
#define GYRE_UTIL_SUGGEST_H

/* The best candidate so far.  Begin with {NULL, limit}: candidates must need fewer edits than `edits`. */
typedef struct gyre_suggestion {
    const char *name;
    int edits; /* bytes inserted, deleted or changed */
} gyre_suggestion;
enum { GYRE_SUGGEST_LIMIT = 3 }; /* three edits make another word */

/* Takes `candidate` if it is nearer to `text` than best->name.  Names over 40 bytes are never near. */
void gyre_suggest(gyre_suggestion *best, const char *text, const char *candidate);
/* out = the nearest of `count` names, the first of equals; NULL if none is near. */
const char *gyre_closest_name(const char *text, const char *const *names, int count);

#endif

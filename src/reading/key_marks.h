/* key_marks.h: which keys of a JSON document its readers have looked up. */
#ifndef GYRE_READING_KEY_MARKS_H
#define GYRE_READING_KEY_MARKS_H
#include <jansson.h>

typedef struct gyre_key_marks gyre_key_marks;

/* out = marks of nothing; NULL without memory. */
gyre_key_marks *gyre_key_marks_new(void);
void gyre_key_marks_free(gyre_key_marks *marks); /* NULL is fine */
/* out = the value, and its key is marked; NULL if the object has no such key.  marks NULL: only the value. */
const json_t *gyre_key_marks_get(gyre_key_marks *marks, const json_t *object, const char *key);
/* out = 1 if the key was looked up.  key: as json_object_foreach of its object gives it, not a copy. */
int gyre_key_marks_has(const gyre_key_marks *marks, const char *key);
/* out = 1 if a mark was lost for want of memory. */
int gyre_key_marks_failed(const gyre_key_marks *marks);

#endif

/* timeline.h: how programs and their versions read one config.json, in the order of time. */
#ifndef GYRE_TOOLS_TIMELINE_H
#define GYRE_TOOLS_TIMELINE_H
#include "tools/diff/diff_compare.h"
#include "tools/explain/explain_terminal.h"
#include <jansson.h>

/* -- programs and versions -- */
enum { TIMELINE_MAX_SPANS = 24 };
/* Versions of one program that read by the same rules. */
typedef struct timeline_span {
    const char *program; /* "transformers" */
    gyre_profile profile;
    int from, to;           /* of transformers: 100 x major + minor; to 0 = the newest.  Of others 0 */
    const char *since;      /* month of the first of them: "2024-07"; of others than transformers, of the source read */
    const char *last_month; /* the same of the last one */
    char missing[96];       /* why these versions have no class for the model; "" = they have one, or it is not known */
} timeline_span;
/* timeline_programs.c: out[0 .. returned - 1] = the spans, program by program in the order of time.  A span of transformers
 * is split where a version got or dropped the class of model_type. */
int timeline_spans(const char *model_type, timeline_span out[TIMELINE_MAX_SPANS]);
/* out = 1 if some version of transformers has a class for the type. */
int timeline_has_class(const char *model_type);

/* -- the table -- */
/* A value that a row reads otherwise than the row that it is compared with. */
typedef struct timeline_change {
    char layers[128]; /* "full_attention, nope"; "" = all */
    int groups;       /* that `layers` names */
    char name[EXPLAIN_TEXT_SIZE], before[64], after[64];
    const char *key, *why; /* of the value after, else before; NULL = none */
    int64_t line;
} timeline_change;
enum { TIMELINE_MAX_CHANGES = 64 };

typedef struct timeline_row {
    timeline_span first, last;                 /* the spans that the row merges; the same for one */
    gyre_profile profiles[TIMELINE_MAX_SPANS]; /* [profiles_count], each once */
    int profiles_count;
    gyre_reading *reading;    /* of the first profile; NULL if refused */
    char refused[640];        /* why */
    int same_as;              /* the first row with this reading, maybe this one; -1 if refused */
    int letter;               /* of the reading, from 0; -1 if refused */
    int compared;             /* the row that the changes count from; -1 = none */
    timeline_change *changes; /* [changes_count] */
    int changes_count;
    int64_t first_position; /* where a pair is more than 0.01 rad off; -1 = none */
    char verdict[1024];     /* of gyre diff on both rows; "" if nothing is compared */
} timeline_row;

typedef struct timeline {
    const char *path, *layer_type; /* layer_type: NULL = all */
    int64_t length;                /* in use; 0 = the trained length */
    char saved_by[32];             /* transformers_version of the file; "" = it states none */
    int has_code;                  /* 1: the file names code beside it, which its author wrote (auto_map) */
    int has_class;                 /* 1: some version of transformers has a class for the model, or its type is not stated */
    timeline_row rows[TIMELINE_MAX_SPANS];
    int count;
    int default_row; /* that of hf-5, or the first that is read */
} timeline;

/* Fills in a timeline whose path, length and layer_type are set; released with timeline_free whatever comes out.
 * Errors: those of gyre_reading_open under hf-5 if no program reads the file; EUNSUPPORTED for a GGUF; ENOMEM. */
gyre_status timeline_read(timeline *t, gyre_error *err);
void timeline_free(timeline *t);

/* timeline_changes.c: *same = 1 if both rows read the same positions.  With `row`, also fills in its changes from b. */
gyre_status timeline_compare(const timeline *t, const timeline_row *b, timeline_row *row, int list, int *same,
                             gyre_error *err);
/* Writes a reading in one line: "rope+yarn, base 1000000, factor 4, 128 of 128 channels"; groups are separated by
 * semicolons. */
void timeline_summary(const timeline *t, const gyre_reading *reading, char *out, size_t size);
/* Writes "transformers 4.43 to 4.50", "vLLM 2026-05 to 2026-09". */
void timeline_title(const timeline_row *row, char *out, size_t size);
/* The same without the program. */
void timeline_versions(const timeline_row *row, char *out, size_t size);

void timeline_view(const explain_terminal *page, const timeline *t);
int timeline_write_json(const timeline *t, FILE *file);

#endif

/* gyre_angles.h: a table of angles that a program keeps (its cos_sin_cache, or its frequencies) against the positions that a
 * model's config describes.
 *
 *     the table, and readings of one config under several profiles  --gyre_angles_audit-->  which of them it is, in which
 *         precision, and of the others the first position and pair where they differ
 *
 * Part of libgyre_reading.  The conventions of gyre.h hold.  Unstable until 1.0. */
#ifndef GYRE_ANGLES_H
#define GYRE_ANGLES_H
#include "gyre/gyre_reading.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- tables in a file -- */
typedef struct gyre_angle_table {
    const char *name;  /* of the tensor; "" in a .npy */
    const char *dtype; /* as the file names it: "BF16", "<f4" */
    int64_t rank;
    gyre_cview view; /* extents past the rank are 1; of complex numbers the last extent is 2 */
} gyre_angle_table;
/* The library owns it and all it points to. */
typedef struct gyre_angle_tables {
    const gyre_angle_table *tables; /* [count], by name */
    int64_t count;
} gyre_angle_tables;
/* *out = the table of a .npy, or those of a .safetensors: the tensors whose names have "cos", "sin", "freq", "rope" or
 * "rotary", or the only one.  The file is mapped: it must not change until the tables are freed.
 * Errors: EFORMAT (a damaged file, another format); EUNSUPPORTED (a type that is no real or complex number, more than four
 * extents, no such tensor among several); EIO; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_angle_tables_open(gyre_angle_tables **out, const char *path, gyre_error *err);
GYRE_API void gyre_angle_tables_free(gyre_angle_tables *tables); /* NULL is fine */

/* -- what a table is -- */
typedef enum gyre_angle_form {
    GYRE_ANGLE_FORM_FREQUENCIES, /* [pairs]: radians per position, inv_freq */
    GYRE_ANGLE_FORM_COS_SIN,     /* [positions, 2 pairs]: the cos of all pairs, then their sin, as vLLM's cos_sin_cache */
    GYRE_ANGLE_FORM_SIN_COS,     /* the sin first */
    GYRE_ANGLE_FORM_PAIRS,       /* cos and sin of a pair side by side, as the complex freqs_cis of Meta's code */
    GYRE_ANGLE_FORM_COS,         /* [positions, pairs]: one of the two */
    GYRE_ANGLE_FORM_SIN
} gyre_angle_form;
typedef enum gyre_angle_columns {
    GYRE_ANGLE_COLUMNS_ONCE,
    GYRE_ANGLE_COLUMNS_HALVES,     /* each number twice, a b c a b c: for rotations of halves */
    GYRE_ANGLE_COLUMNS_INTERLEAVED /* each number twice, a a b b c c: for interleaved rotations */
} gyre_angle_columns;
/* How the numbers of a table were computed, before they were rounded to its type. */
typedef enum gyre_angle_precision {
    GYRE_ANGLE_PRECISION_EXACT,            /* more exactly than the table can tell */
    GYRE_ANGLE_PRECISION_F32,              /* frequencies and angles in f32 */
    GYRE_ANGLE_PRECISION_BF16_FREQUENCIES, /* frequencies rounded to bf16, angles in f32: a model cast with its buffers */
    GYRE_ANGLE_PRECISION_BF16_ANGLES,      /* positions, frequencies and angles in bf16 */
    GYRE_ANGLE_PRECISION_F16_FREQUENCIES,
    GYRE_ANGLE_PRECISION_F16_ANGLES
} gyre_angle_precision;
/* out = "cos-sin", "halves", "bf16-frequencies", ...; NULL past the last. */
GYRE_API const char *gyre_angle_form_name(gyre_angle_form form);
GYRE_API const char *gyre_angle_columns_name(gyre_angle_columns columns);
GYRE_API const char *gyre_angle_precision_name(gyre_angle_precision precision);

/* The table against the layers of one reading. */
typedef struct gyre_angle_match {
    const gyre_reading *reading;
    const gyre_layer_reading *group;
    int64_t length;                 /* the context length whose frequencies these are; 0 = none is stated */
    double factor;                  /* of cos and sin */
    gyre_angle_precision precision; /* in which the table follows the reading farthest */
    int64_t first_position;         /* -1: the table is this reading's.  Else the first position with a number that its
                                     * precision does not explain; of frequencies, that at which an angle is 0.01 rad off,
                                     * INT64_MAX past 2^31 */
    int64_t inexact_from;           /* of a table of this reading: the first position with an angle 0.01 rad off what the
                                     * reading means, because frequencies or angles were rounded to bf16 or f16; -1 = none */
    int64_t first_pair;             /* at first_position; -1 = the reading rotates another number of pairs */
    int64_t positions_off;          /* positions with such a number; of frequencies, pairs */
    double largest_error;           /* of any number of the table, at any position */
} gyre_angle_match;

/* The library owns it and all it points to.  Readings must live as long. */
typedef struct gyre_angle_audit {
    gyre_angle_form form;
    gyre_angle_columns columns;
    gyre_dtype dtype;   /* of the table */
    gyre_dtype rounded; /* the smallest type that holds all its numbers: BF16 in a table of F32 that was made from one */
    int64_t positions;  /* 0 for frequencies */
    int64_t pairs;
    double factor;                   /* of cos and sin, measured; 1 for frequencies */
    double base;                     /* measured, of the frequencies without a scaling; 0 = they are of no one base */
    const double *frequencies;       /* [pairs] measured, radians per position; NaN where the table does not say */
    const gyre_angle_match *matches; /* [count], one for each group that rotates of each reading, and two where frequencies
                                      * depend on the length; those that agree first, then those that agree longest */
    int64_t count;
    int restarts;        /* 1: at the first position that is off, the best match begins again at position 0, as where
                          * vLLM keeps LongRoPE's two tables one after the other */
    const char *verdict; /* all this in one or two sentences */
} gyre_angle_audit;
/* *out = what a table of angles is.  table: F32, F16, BF16 or F64; any strides; extents of 1 do not count: [pairs], or
 * [positions, columns], [positions, pairs, 2], [positions, 2, pairs] or [2, positions, pairs].  readings[readings_count]: of
 * one config, under several profiles; none is fine.
 * Errors: EINVAL (an argument is missing); ESHAPE (another shape); EDTYPE; ENOMEM; those of
 * gyre_encoding_create. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_angles_audit(gyre_angle_audit **out, const gyre_cview *table,
                                                       const gyre_reading *const *readings, int64_t readings_count,
                                                       gyre_error *err);
GYRE_API void gyre_angle_audit_free(gyre_angle_audit *audit); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* GYRE_ANGLES_H */

/* method_map.h: what a method does to a rotation, as numbers: the angle of each pair of channels at each distance.  For any
 * encoding that rotates, any base, any trained length and any length in use.  method_figures.h draws them. */
#ifndef GYRE_TOOLS_METHOD_MAP_H
#define GYRE_TOOLS_METHOD_MAP_H
#include "tools/common/methods.h"

enum { METHOD_MAP_LABEL = 4 * METHOD_LABEL };

/* What a map shows: the rotation at context length `length`, at `columns` distances from 0 to `longest`, evenly spaced. */
typedef struct method_map_range {
    int64_t length, columns;
    double longest;
} method_map_range;

typedef struct method_map {
    char label[METHOD_MAP_LABEL]; /* of the methods that rotate alike: "by-parts, yarn" */
    int64_t pairs, columns;
    double longest;   /* distance of the last column; that of the first is 0 */
    double *inv_freq; /* [pairs] radians per position, between tokens that are near */
    double *angle;    /* [pairs][columns] radians between a query and a key at the column's distance */
    double *cosine;   /* [pairs][columns] mean of cos(angle) over the nearest distances, near 0 for a faster pair */
} method_map;

/* *out = the map of an encoding; method_map_free frees it.  Errors: EINVAL (columns below 2, longest not above 0),
 * EUNSUPPORTED (the encoding does not rotate), ENOMEM. */
gyre_status method_map_of_encoding(const gyre_encoding *encoding, const char *label, const method_map_range *range,
                                   method_map *out, gyre_error *err);
/* The same for a model with position config `base`, trained on `trained` tokens, under the method.  Errors: those of
 * method_encoding and above. */
gyre_status method_map_of_method(const method *m, const gyre_config *base, int64_t trained, const method_betas *betas,
                                 const method_map_range *range, method_map *out, gyre_error *err);
/* out = 1 if both rotate every pair by the same angle at every distance. */
int method_map_equals(const method_map *a, const method_map *b);
/* Adds the map to maps[0 .. *count - 1]: its label to an equal map's, and then it is freed, or itself. */
void method_maps_add(method_map *maps, int64_t *count, method_map *added);
/* out = how far an angle is past the arc 0 .. `arc` that training showed, up to whole turns and from the nearer end, in
 * shares of the arc; 0 within it.  arc: radians, below a whole turn, else 0 for every angle. */
double method_map_excess(double arc, double angle);
/* out = the length of the mean of e^(i angle) over distances `width` apart in all: 1 where they point alike, 0 where they
 * point all ways. */
double method_map_resultant(double inv_freq, double width);
void method_map_free(method_map *map); /* also for one that is zeroed */

#endif

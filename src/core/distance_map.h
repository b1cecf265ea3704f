/* distance_map.h: from the distance between query and key to a row of a table. */
#ifndef GYRE_CORE_DISTANCE_MAP_H
#define GYRE_CORE_DISTANCE_MAP_H
#include <stdint.h>

/* A key at n and a query at m use row[clamp(n - m, -clip, clip) + clip], clip = clip_distance:
 *
 *     n - m   ... -clip-1  -clip  ...  -1     0     +1  ...  clip   clip+1 ...
 *     index         0        0       clip-1  clip  clip+1   2 clip  2 clip
 *
 * All tables of an encoding that are indexed by distance share one map.  row NULL: the encoding has no such table. */
typedef struct gyre_distance_map {
    int64_t clip_distance;
    int32_t *row; /* [2 clip_distance + 1] */
} gyre_distance_map;

static inline int32_t gyre_distance_map_row(const gyre_distance_map *map, int64_t distance) {
    const int64_t low = distance < -map->clip_distance ? -map->clip_distance : distance,
                  clipped = low > map->clip_distance ? map->clip_distance : low;
    return map->row[clipped + map->clip_distance];
}

#endif

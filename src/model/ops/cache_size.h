/* cache_size.h: the size of the second-level cache, which decides how much is packed at once. */
#ifndef GYRE_MODEL_CACHE_SIZE_H
#define GYRE_MODEL_CACHE_SIZE_H
#include <stdint.h>

/* out = bytes of a core's second-level cache; a usual size where the system does not say. */
int64_t gyre_second_level_cache(void);

#endif

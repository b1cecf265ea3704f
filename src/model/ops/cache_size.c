#include "model/ops/cache_size.h"

#include <unistd.h>

enum { USUAL_BYTES = 512 << 10 };

int64_t gyre_second_level_cache(void) {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const int64_t known = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return known > 0 ? known : USUAL_BYTES;
#else
    return USUAL_BYTES;
#endif
}

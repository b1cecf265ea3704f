#include "core/config/head_part_facts.h"

#include <stddef.h>

#define BEFORE_ROTATION 0
#define FOR_ROTATION    1
#define GYRE_HEAD_PART(name, key, option, acts, channels, note)                                                             \
    const gyre_head_part_facts gyre_head_part_facts_##name = {key, option, note, acts, channels};
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART

static const gyre_head_part_facts *const facts[] = {
#define GYRE_HEAD_PART(name, key, option, acts, channels, note) &gyre_head_part_facts_##name,
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART
};
enum {
    FACTS = 0
#define GYRE_HEAD_PART(name, key, option, acts, channels, note) +1
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART
};

const gyre_head_part_facts *gyre_head_part_facts_at(int i) {
    return i >= 0 && i < FACTS ? facts[i] : NULL;
}

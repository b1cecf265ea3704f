/* head_part_facts.h: the facts of each part of layers that makes queries and keys, by name (gyre_fields.h). */
#ifndef GYRE_CORE_HEAD_PART_FACTS_H
#define GYRE_CORE_HEAD_PART_FACTS_H
#include "gyre/gyre_fields.h"

#define GYRE_HEAD_PART(name, key, option, acts, channels, note)                                                             \
    extern const gyre_head_part_facts gyre_head_part_facts_##name;
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART

#endif

/* gguf_rewrite_positions.h: a copy of a GGUF file with another position encoding in its keys. */
#ifndef GYRE_READING_GGUF_REWRITE_POSITIONS_H
#define GYRE_READING_GGUF_REWRITE_POSITIONS_H
#include "gyre/gyre.h"

/* Writes a copy in which the rotating layers have the scaling, factor, base, lengths and attention factor of `position`,
 * and the model says that it reads `length` tokens.  The copy is read back as llama.cpp reads it at that length.
 * EUNSUPPORTED if llama.cpp has no key for it, or would read something else.  Otherwise as gyre_gguf_rewrite. */
gyre_status gyre_gguf_rewrite_positions(const char *path, const gyre_config *position, int64_t length, const char *target,
                                        gyre_error *err);

#endif

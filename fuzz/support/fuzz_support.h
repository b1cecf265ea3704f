/* fuzz_support.h: what several targets use. */
#ifndef GYRE_FUZZ_SUPPORT_H
#define GYRE_FUZZ_SUPPORT_H
#include "gyre/gyre.h"

#include <stddef.h>
#include <stdint.h>

/* Aborts if `truth` is 0: the library broke a promise. */
void fuzz_require(int truth, const char *what);
/* fuzz_require that a failure has a text, and that success has none that matters. */
void fuzz_require_error(gyre_status status, const gyre_error *err);
/* out = a path at which these bytes are a file, until the next call. */
const char *fuzz_file(const uint8_t *bytes, size_t size);
/* out = a path in a folder of this process, which is removed at its end; valid until the 16th next call. */
const char *fuzz_path(const char *name);
/* Writes a file of that folder. */
void fuzz_write(const char *name, const void *bytes, size_t size);
/* Removes a file of that folder, or a folder with all that it holds, if it is there. */
void fuzz_remove(const char *name);
/* out = memory of at least one byte, zeroed; the run ends where there is none. */
void *fuzz_room(size_t count, size_t size);

typedef struct fuzz_scratch {
    void *memory; /* the caller frees it */
    size_t bytes;
} fuzz_scratch;
/* Scratch of exactly so many bytes, so that one past its end is found, none of them 0.  fuzz_require that bytes > 0. */
fuzz_scratch fuzz_scratch_make(size_t bytes);

#endif

/* read_gguf.c: GGUF. */
#include "reading/family.h"

void gyre_read_gguf(gyre_build *build, const unsigned char *bytes, size_t size) {
    (void)bytes;
    (void)size;
    gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "GGUF: not read yet");
}

/* header_corpus.h: a text that every machine with a C compiler has: the C library's and the kernel's own headers. */
#ifndef GYRE_TOOLS_HEADER_CORPUS_H
#define GYRE_TOOLS_HEADER_CORPUS_H
#include "gyre/gyre_model.h"

/* out = the part `split` of the headers under /usr/include, at least `least` bytes. */
gyre_status header_corpus_open(gyre_text *out, gyre_text_split split, int64_t least, gyre_error *err);

#endif

/* extend_llama_cpp.h: what can be said to llama.cpp on its command line. */
#ifndef GYRE_TOOLS_EXTEND_LLAMA_CPP_H
#define GYRE_TOOLS_EXTEND_LLAMA_CPP_H
#include "tools/extend/extend.h"

enum { EXTEND_MAX_FLAGS = 16 };
typedef struct extend_flags {
    char word[EXTEND_MAX_FLAGS][32];
    int count;
} extend_flags;

/* *flags = the flags under which llama.cpp rotates as wanted, given a GGUF of the unchanged model; is_none: those that leave
 * the model as it is.  *support: what it then computes, with why unless that is the same.  Errors: EIO, ENOMEM. */
gyre_status extend_llama_cpp_flags(const extension *e, const extend_expected *want, int is_none, extend_flags *flags,
                                   extend_support *support, char why[200], gyre_error *err);

#endif

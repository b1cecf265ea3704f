/* tokenizer_info.h: what a tokenizer is. */
#ifndef GYRE_TESTS_TOKENIZER_INFO_H
#define GYRE_TESTS_TOKENIZER_INFO_H
#include "gyre/gyre_model.h"
#include "support.h"

static inline gyre_tokenizer_info tokenizer_info(const gyre_tokenizer *t) {
    gyre_tokenizer_info info = GYRE_INIT(gyre_tokenizer_info);
    assert_ok(gyre_tokenizer_get_info(t, &info));
    return info;
}

#endif

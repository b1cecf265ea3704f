/* search_needles.h: windows with keys hidden in them, of which only the answers count: the needle-driven perplexity of
 * LongRoPE2 (Shang et al. 2025, arXiv 2502.20082).  Most tokens of a text can be predicted from the few before them, so
 * its mean loss hardly depends on finding far tokens. */
#ifndef GYRE_TOOLS_SEARCH_NEEDLES_H
#define GYRE_TOOLS_SEARCH_NEEDLES_H
#include "tools/search/search_windows.h"

enum { SEARCH_MAX_NEEDLES = 8 };

/* Replaces windows->text by the windows alone, one after the other, each with `needles` keys spread over it and asked for at
 * its end; windows->counted marks the digits asked for.  tokenizer NULL or of bytes: keys are those of gyre_passkey, which
 * models of `gyre lab` and `gyre train` know; else sentences, "The red pass key is 48213.", and one of them is asked for.
 * seed: of depths, digits and order.  Errors: EINVAL (no room in a window), ENOMEM, those of gyre_tokenize. */
gyre_status search_needles_hide(search_windows *windows, const gyre_tokenizer *tokenizer, int64_t needles, uint64_t seed,
                                gyre_error *err);

#endif

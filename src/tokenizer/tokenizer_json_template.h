/* tokenizer_json_template.h: the tokens that the post_processor of a tokenizer.json puts around a text. */
#ifndef GYRE_TOKENIZER_JSON_TEMPLATE_H
#define GYRE_TOKENIZER_JSON_TEMPLATE_H
#include <jansson.h>
#include <stdint.h>

typedef struct gyre_json_template {
    int there;          /* 1: some step is a template; then no other file says what is put around a text */
    int before, after;  /* tokens around a text */
    int64_t begin, end; /* the first and the last of them; -1 = none, or no token of the file */
    int pair_differs;   /* 1: two texts get a token that one alone does not */
    char odd[80];       /* what else it does, such as a token within the text; "" = nothing */
} gyre_json_template;

/* out = that of a parsed tokenizer.json. */
gyre_json_template gyre_tokenizer_json_template(const json_t *root);

#endif

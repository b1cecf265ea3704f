/* glossary.h: where the documentation explains a key. */
#ifndef GYRE_TOOLS_GLOSSARY_H
#define GYRE_TOOLS_GLOSSARY_H

enum { GLOSSARY_PLACE = 96 };
/* out = "docs/glossary.md#no_rope_layers" for a key such as "text_config.no_rope_layers"; NULL for NULL and for a key
 * without an entry. */
const char *glossary_place(const char *key, char out[GLOSSARY_PLACE]);

#endif

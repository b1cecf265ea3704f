/* fuzz_reading_laws.h: what gyre_reading.h promises of every reading. */
#ifndef GYRE_FUZZ_READING_LAWS_H
#define GYRE_FUZZ_READING_LAWS_H
#include "gyre/gyre_reading.h"

/* Aborts unless the reading keeps the promises of its header, and each value that a field states is that of the config. */
void fuzz_check_reading(const gyre_reading *reading, const uint8_t *bytes, size_t size);
/* Aborts unless two readings of one text agree in all but their path.  b's text begins with `shift` line feeds more. */
void fuzz_check_same_reading(const gyre_reading *a, const gyre_reading *b, int64_t shift);

#endif

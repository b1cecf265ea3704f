/* fuzz_reading.h: reads bytes as a description of a model's positions and uses the result in every possible way. */
#ifndef GYRE_FUZZ_READING_H
#define GYRE_FUZZ_READING_H
#include <stddef.h>
#include <stdint.h>

/* The low three bits of the first byte are the gyre_profile, the next three select the length; the rest is the file. Inputs
 * that begin with '0' to '7' are read without a length, with '8' to '?' at 131072 tokens.  With the next bit set ('p', 'x')
 * the file is read under every profile in turn. */
void fuzz_reading(const uint8_t *data, size_t size, const char *name);

#endif

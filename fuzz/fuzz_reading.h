/* fuzz_reading.h: bytes as a description of a model's positions, read and then used in every way there is. */
#ifndef GYRE_FUZZ_READING_H
#define GYRE_FUZZ_READING_H
#include <stddef.h>
#include <stdint.h>

/* The first byte says who reads (its low three bits, a gyre_profile) and at what length (the next three); the rest is the
 * file.  What '0' to '7' read has no length, what '8' to '?' read is served at 131072 tokens. */
void fuzz_reading(const uint8_t *data, size_t size, const char *name);

#endif

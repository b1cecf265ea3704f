/* quant_grids.h: tables of values in ggml's types, and the codebooks of its IQ types. */
#ifndef GYRE_KERNELS_QUANT_GRIDS_H
#define GYRE_KERNELS_QUANT_GRIDS_H
#include <stdint.h>

/* Values of four bits: of IQ4_NL and IQ4_XS, and twice those of a float of one sign, two exponent and one fraction bit. */
extern const int8_t gyre_iq4_values[16], gyre_e2m1_values[16];
/* Entries of 4 digits of 3 bits (IQ3) and of 8 digits of 2 bits. */
extern const uint16_t gyre_grid_iq3_s[512], gyre_grid_iq3_xxs[256];
extern const uint16_t gyre_grid_iq2_s[1024], gyre_grid_iq2_xs[512], gyre_grid_iq2_xxs[256], gyre_grid_iq1[2048];

#endif

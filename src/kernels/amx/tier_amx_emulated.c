/* tier_amx_emulated.c: the kernels of tier_amx.c with its operations in plain C, beside those of tier_scalar.c: the bits of
 * AMX on every processor, for tests.  It is chosen by name alone. */
#include "kernels/kernels.h"

#ifndef __wasm__ /* smaller without */
#define TIER       amx_emulated
#define TIER_TEXT  "amx-emulated"
#define TIER_BASE  scalar
#define TIER_BF16  scalar
#define TIER_TILES amx_emulated
#include "kernels/vec_scalar.h"

#include "kernels/amx/tiles_emulated.h"

#include "kernels/amx/amx_matmul_tier.h"
#include "kernels/amx/amx_tier.h"

#include "kernels/tier_kernels.h"
#else
const gyre_kernels *const gyre_tier_amx_emulated = 0;
#endif

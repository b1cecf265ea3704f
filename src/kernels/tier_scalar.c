/* tier_scalar.c: the kernels in portable C. */
#include "kernels/vec_scalar.h"

#include "kernels/amx/bf16_tier.h"
#include "kernels/attend_tier.h"
#include "kernels/decode_rotated_tier.h"
#include "kernels/decode_tier.h"
#include "kernels/dropout_tier.h"
#include "kernels/product_tier.h"
#include "kernels/project_tier.h"
#include "kernels/quants/project_quants_tier.h"
#include "kernels/quants/quants_tier.h"
#include "kernels/tier_kernels.h"

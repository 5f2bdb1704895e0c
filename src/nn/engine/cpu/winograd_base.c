/* Winograd's algorithm for nChw8c on any processor, four floats at a time: NEON on Arm, SSE2 or the
 * compiler's own vectors elsewhere. Where one instruction multiplies and adds, as on Arm, the bits
 * are AVX2's. */
#define BLOCK 8
#define LANES 4
#define CODE  winograd_base
#include "engine/cpu/winograd_body.h"

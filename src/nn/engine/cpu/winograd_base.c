/* Winograd's algorithm for nChw8c by what every processor of its kind has, four floats at a time:
 * NEON on Arm, SSE2 or whatever the compiler makes of vectors elsewhere. Where a multiplication and
 * an addition are one instruction, as on Arm, the bits are AVX2's. */
#define BLOCK 8
#define LANES 4
#define CODE  winograd_base
#include "engine/cpu/winograd_body.h"

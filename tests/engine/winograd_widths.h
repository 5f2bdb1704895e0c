/* Our Winograd's code at other widths of vectors than releases call it with, for tests: by AVX2 and
 * FMA on x86, which has to be there, by the usual instructions elsewhere. What AVX-512 and NEON
 * compute can so be seen on processors without them. */
#ifndef POSEIDON_TESTS_ENGINE_WINOGRAD_WIDTHS_H
#define POSEIDON_TESTS_ENGINE_WINOGRAD_WIDTHS_H

#include "engine/cpu/winograd.h"

/* Blocks of 16 channels, 16 at a time, as AVX-512; blocks of 8, 4 at a time, as NEON. */
extern const struct winograd_code winograd_wide, winograd_narrow;

#endif

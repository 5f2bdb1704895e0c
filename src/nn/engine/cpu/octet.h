/* Vectors of eight numbers, as channels in blocks lie. Spelt out: left alone, compilers make the
 * stores of a running maximum conditional, and know no permutations. */
#ifndef POSEIDON_ENGINE_CPU_OCTET_H
#define POSEIDON_ENGINE_CPU_OCTET_H

#include <stdint.h>

enum { OCTET = 8 };

typedef float floats __attribute__((vector_size(OCTET * sizeof(float)), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(OCTET * sizeof(int32_t)), aligned(4), may_alias));

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ints){__VA_ARGS__})
#endif

#endif

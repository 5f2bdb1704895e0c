/* The engines of this build. Private to src/nn/engine: other code opens engines by name. */
#ifndef POSEIDON_ENGINE_ENGINE_INTERNAL_H
#define POSEIDON_ENGINE_ENGINE_INTERNAL_H

#include "engine/engine.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

extern const struct engine_i engine_cpu, engine_replay;
#ifdef HAVE_CUDA
extern const struct engine_i engine_cuda;
#endif

#endif

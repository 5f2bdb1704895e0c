/* The engines this build knows. Private to src/engine: others open one by name. */
#ifndef POSEIDON_ENGINE_ENGINE_INTERNAL_H
#define POSEIDON_ENGINE_ENGINE_INTERNAL_H

#include "engine/engine.h"

extern const struct engine_i engine_cpu, engine_replay;

#endif

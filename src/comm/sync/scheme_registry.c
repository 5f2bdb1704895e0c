/* The registry of schemes. */
#include "sync/sync.h"

extern const struct scheme scheme_ps, scheme_sfb, scheme_allreduce, scheme_adam, scheme_onebit,
    scheme_lowrank;

const struct scheme *const sync_schemes[] = {
    &scheme_ps, &scheme_sfb, &scheme_allreduce, &scheme_adam, &scheme_onebit, &scheme_lowrank, NULL,
};

/* All schemes. */
#include "plan/scheme.h"

extern const struct scheme scheme_allreduce, scheme_adam, scheme_onebit;

const struct scheme *const scheme_registry[] = {
    &scheme_ps, &scheme_sfb, &scheme_allreduce, &scheme_adam, &scheme_onebit, NULL,
};

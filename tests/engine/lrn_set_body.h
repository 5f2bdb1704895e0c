/* src/nn/engine/cpu/lrn_blocked.c under other names: SET is a suffix, NAME the set's. Included once
 * by each lrn_set_*.c, after what chooses the instructions. */
#define CPU_KERNEL
#define PASTED(name, set)    name##_##set
#define RENAMED(name, set)   PASTED(name, set)
#define lrn_blocked_forward  RENAMED(lrn_blocked_forward, SET)
#define lrn_blocked_backward RENAMED(lrn_blocked_backward, SET)

#include "tests/engine/lrn_set.h"

#include "src/nn/engine/cpu/lrn_blocked.c"

static const struct lrn_set set = {NAME, lrn_blocked_forward, lrn_blocked_backward};

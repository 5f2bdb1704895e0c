/* Sources of kernels under other names: SET is a suffix. Included once by each kernel_set_*.c,
 * after what chooses the instructions. */
#define KERNEL
#define PASTED(name, set)  name##_##set
#define RENAMED(name, set) PASTED(name, set)

#define vector_add          RENAMED(vector_add, SET)
#define vector_add_to       RENAMED(vector_add_to, SET)
#define vector_sumsq        RENAMED(vector_sumsq, SET)
#define tree_sum_open       RENAMED(tree_sum_open, SET)
#define tree_sum_close      RENAMED(tree_sum_close, SET)
#define tree_sum_begin      RENAMED(tree_sum_begin, SET)
#define tree_sum_give       RENAMED(tree_sum_give, SET)
#define tree_sum_give_block RENAMED(tree_sum_give_block, SET)
#define tree_sum_lend       RENAMED(tree_sum_lend, SET)
#define tree_sum_omit       RENAMED(tree_sum_omit, SET)
#define tree_sum_slices     RENAMED(tree_sum_slices, SET)
#define codec_bf16          RENAMED(codec_bf16, SET)
#define bf16_take           RENAMED(bf16_take, SET)
#define bf16_round          RENAMED(bf16_round, SET)
#define bf16_expand         RENAMED(bf16_expand, SET)
#define elements_expand     RENAMED(elements_expand, SET)
#define elements_take       RENAMED(elements_take, SET)
#define codec_onebit        RENAMED(codec_onebit, SET)
#define rule_kind_from_name RENAMED(rule_kind_from_name, SET)
#define rule_kind_name      RENAMED(rule_kind_name, SET)
#define rule_kind_histories RENAMED(rule_kind_histories, SET)
#define rule_kinds_alike    RENAMED(rule_kinds_alike, SET)
#define rule_update         RENAMED(rule_update, SET)
#define rule_describe       RENAMED(rule_describe, SET)

#include "tests/device/kernel_set.h"

#include "src/base/device/codec.c"
#include "src/base/device/rule.c"
#include "src/base/device/tree_sum.c"
#include "src/base/device/vector.c"

#define TEXT_OF(name) #name
#define NAME_OF(set)  TEXT_OF(set)
static const struct kernel_set kernels = {.name = NAME_OF(SET),
                                          .add = vector_add,
                                          .add_to = vector_add_to,
                                          .slices = tree_sum_slices,
                                          .sumsq = vector_sumsq,
                                          .bf16 = &codec_bf16,
                                          .onebit = &codec_onebit,
                                          .update = rule_update};

/* The kernels for the baseline of the compiler flags. */
#define SET plain
#include "tests/device/kernel_set_body.h"

const struct kernel_set *kernel_set_plain(void)
{
    return &kernels;
}

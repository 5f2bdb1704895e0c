/* Linked before the library's own, which then stays out: another build of the same program. */
#include "report/build_info.h"

const struct build_info build_info = {.version = "0.0.9",
                                      .commit = "0123456789ab",
                                      .sources = "ba9876543210",
                                      .compiler = "another compiler",
                                      .flags = "-O1"};

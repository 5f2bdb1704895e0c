/* Facts of this build, in an object of their own: only this object is recompiled when the commit
 * changes, and a test can link the program with another one. */
#include "report/build_info.h"

#include "report/build_values.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

const struct build_info build_info = {.version = PACKAGE_VERSION,
                                      .commit = BUILD_COMMIT,
                                      .sources = BUILD_SOURCES,
                                      .compiler = BUILD_COMPILER,
                                      .flags = BUILD_FLAGS};

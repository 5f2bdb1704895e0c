/* oneDNN's statuses as messages. */
#include "engine/cpu/cpu_internal.h"

#include "util/error.h"

int cpu_status(dnnl_status_t status, const char *call)
{
    static const char *const text[] = {"success",       "out of memory",      "invalid arguments",
                                       "unimplemented", "iterator exhausted", "runtime error",
                                       "not required"};
    size_t i = (size_t)status;

    if (status == dnnl_success)
        return 0;
    return error_set("oneDNN %d.%d: %s (status %d) from %s", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR,
                     i < sizeof text / sizeof text[0] ? text[i] : "error", (int)status, call);
}

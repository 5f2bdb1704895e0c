/* Device memory that an owner frees. */
#include "device/device.h"
#include "util/owner.h"

void *device_own(const struct device *device, struct owner *owner, size_t bytes, const char *what)
{
    void *memory;

    return device->i->alloc(device->context, bytes, what, &memory) ||
                   owner_take(owner, device->i->free, device->context, memory)
               ? NULL
               : memory;
}

void *device_own_host(const struct device *device, struct owner *owner, size_t bytes,
                      const char *what)
{
    void *memory;

    if (!device)
        return owner_array(owner, bytes, 1, what);
    return device->i->copies->host_alloc(device->context, bytes, what, &memory) ||
                   owner_take(owner, device->i->copies->host_free, device->context, memory)
               ? NULL
               : memory;
}

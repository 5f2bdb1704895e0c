/* Finds the GPUs, or says why there are none. */
#include "gpu.h"

#include "cuda_internal.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

int cuda_device_count(int *count)
{
    int driver = 0;
    cudaError_t status = cudaGetDeviceCount(count);

    if (status == cudaSuccess && *count > 0)
        return 0;
    *count = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return error_set(
            "no NVIDIA driver is loaded here (libcuda.so.1 was not found or does not answer)");
    if (driver < CUDART_VERSION / 1000 * 1000)
        return error_set(
            "the NVIDIA driver is too old: it supports CUDA %d.%d, and this program needs %d.%d",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return error_set(
        "the NVIDIA driver (CUDA %d.%d) shows no GPU: %s; is CUDA_VISIBLE_DEVICES empty?",
        driver / 1000, driver % 1000 / 10,
        status == cudaSuccess ? "it found none" : cudaGetErrorString(status));
}

int cuda_device_describe(int device, struct cuda_device *out)
{
    struct cudaDeviceProp prop;
    size_t free_bytes = 0, total = 0;

    memset(out, 0, sizeof *out);
    if (cuda_check(cudaGetDeviceProperties(&prop, device)))
        return -1;
    snprintf(out->name, sizeof out->name, "%s", prop.name);
    for (int i = 0, used = 0; i < 16; i++)
        used += snprintf(out->identity + used, sizeof out->identity - (size_t)used, "%02x",
                         (unsigned char)prop.uuid.bytes[i]);
    out->major = prop.major;
    out->minor = prop.minor;
    out->processors = prop.multiProcessorCount;
    out->bytes = prop.totalGlobalMem;
    out->free_bytes = prop.totalGlobalMem;
    snprintf(out->bus, sizeof out->bus, "%04x:%02x:%02x", (unsigned)prop.pciDomainID,
             (unsigned)prop.pciBusID, (unsigned)prop.pciDeviceID);
    if (cudaSetDevice(device) == cudaSuccess && cudaMemGetInfo(&free_bytes, &total) == cudaSuccess)
        out->free_bytes = free_bytes;
    return 0;
}

int cuda_device_open(struct cuda_engine *engine, int which)
{
    struct cuda_device device;
    int count;

    if (which < 0)
        return error_set("device %d: expected 0 or more", which);
    if (cuda_device_count(&count))
        return -1;
    engine->device = which % count;
    if (cuda_device_describe(engine->device, &device) || cuda_check(cudaSetDevice(engine->device)))
        return -1;
    engine->major = device.major;
    engine->minor = device.minor;
    engine->memory = device.bytes;
    snprintf(engine->words, sizeof engine->words, "%s, device %d", device.name, engine->device);
    snprintf(engine->identity, sizeof engine->identity, "%s", device.identity);
    return 0;
}

int cuda_device_libraries(char *text, size_t size)
{
    struct cuda_libs libs;
    size_t version;

    if (cuda_libs_open(&libs, true))
        return -1;
    version = libs.cudnnGetVersion_();
    snprintf(text, size, "cuDNN %zu.%zu.%zu, cuBLASLt", version / 10000, version / 100 % 100,
             version % 100);
    cuda_libs_close(&libs);
    return 0;
}

void cuda_device_versions(int *run_time, int *driver)
{
    *run_time = CUDART_VERSION;
    if (cudaDriverGetVersion(driver) != cudaSuccess)
        *driver = 0;
}

/* Names the kind of processor on which an op has the same bits. oneDNN chooses code by the
 * instructions and by the sizes of a core's own caches; our own kernels choose by the processor. */
#include "engine/cpu/cpu_internal.h"

#include "util/machine.h"

#include <stdio.h>
#include <unistd.h>

#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
#define CACHE_SIZE(level) sysconf(level)
#else
#define CACHE_SIZE(level) 0L
#endif

static const char *instructions(int isa)
{
    static const struct {
        int isa;
        const char *name;
    } sets[] = {{dnnl_cpu_isa_avx512_core, "AVX-512"},
                {dnnl_cpu_isa_avx2, "AVX2"},
                {dnnl_cpu_isa_avx, "AVX"},
                {dnnl_cpu_isa_sse41, "SSE4.1"}};

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((isa & sets[i].isa) == sets[i].isa)
            return sets[i].name;
    return "instructions";
}

void cpu_processor(char words[ENGINE_PROCESSOR_WORDS])
{
    const dnnl_version_t *version = dnnl_version();
    int isa = (int)dnnl_get_effective_cpu_isa(); /* the environment may allow fewer instructions */
    char name[MACHINE_PROCESSOR_WORDS];

    machine_processor(MACHINE_CPUINFO, name);
    snprintf(words, ENGINE_PROCESSOR_WORDS,
             "%s, %s (0x%x), caches of %ld and %ld KB, oneDNN %d.%d.%d",
             name[0] ? name : "a processor", instructions(isa), (unsigned)isa,
             CACHE_SIZE(_SC_LEVEL1_DCACHE_SIZE) / 1024, CACHE_SIZE(_SC_LEVEL2_CACHE_SIZE) / 1024,
             version->major, version->minor, version->patch);
}

/* Linux tells all of it by files below /proc and /sys. */
#include "util/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* The number behind `key` in lines "KEY NUMBER ..."; 0: none, a missing file, and "max". */
static uint64_t read_key(const char *file, const char *key)
{
    char line[256];
    uint64_t value = 0;
    FILE *in = fopen(file, "r");

    while (in && value == 0 && fgets(line, sizeof line, in))
        if (!strncmp(line, key, strlen(key)))
            value = strtoull(line + strlen(key), NULL, 10);
    if (in)
        fclose(in);
    return value;
}

/* What is left of the control group's limit; UINT64_MAX: it has none. */
static uint64_t left_of_limit(const char *limit_file, const char *used_file)
{
    uint64_t limit = read_key(limit_file, ""), used = read_key(used_file, "");

    if (limit == 0)
        return UINT64_MAX;
    return used < limit ? limit - used : 1;
}

uint64_t machine_free_memory(void)
{
    uint64_t memory = read_key("/proc/meminfo", "MemAvailable:") * 1024;
    uint64_t two = left_of_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
    uint64_t one = left_of_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                 "/sys/fs/cgroup/memory/memory.usage_in_bytes");

    memory = two < memory ? two : memory;
    return one < memory ? one : memory;
}

uint64_t machine_resident(void)
{
    return read_key("/proc/self/status", "VmRSS:") * 1024;
}

void machine_processor(const char *cpuinfo, char words[MACHINE_PROCESSOR_WORDS])
{
    /* of x86 the first three, of Arm the others */
    static const char *const keys[] = {"model name", "cpu family", "model", "CPU implementer",
                                       "CPU part"};
    enum { NAME, FAMILY, MODEL, IMPLEMENTER, PART, KEYS };
    char line[256], values[KEYS][64] = {""};
    FILE *in = fopen(cpuinfo, "r");

    while (in && fgets(line, sizeof line, in) && line[0] != '\n') { /* the next processor's */
        char *colon = strchr(line, ':');

        if (!colon)
            continue;
        *colon = '\0';
        line[strcspn(line, "\t")] = '\0';
        for (int i = 0; i < KEYS; i++)
            if (!strcmp(line, keys[i]))
                sscanf(colon + 1, " %63[^\n]", values[i]);
    }
    if (in)
        fclose(in);
    words[0] = '\0';
    if (values[NAME][0])
        snprintf(words, MACHINE_PROCESSOR_WORDS, "%s (%.12s, %.12s)", values[NAME], values[FAMILY],
                 values[MODEL]);
    else if (values[PART][0])
        snprintf(words, MACHINE_PROCESSOR_WORDS, "processor of %.12s, part %.12s",
                 values[IMPLEMENTER], values[PART]);
}

uint64_t machine_free_disk(const char *path, int *known)
{
    struct statvfs disk;
    char folder[4096];
    char *slash;

    snprintf(folder, sizeof folder, "%s", path);
    while ((*known = statvfs(folder, &disk) == 0) == 0 && (slash = strrchr(folder, '/')) != NULL)
        *(slash == folder && slash[1] ? slash + 1 : slash) = '\0';
    if (!*known)
        *known = statvfs(".", &disk) == 0;
    return *known ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

/* Memory and processors from files below /proc and /sys, interfaces from getifaddrs. */
#include "util/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the number after `key` in lines "KEY NUMBER ..."; 0 for "max", no key or no file. */
static uint64_t read_key(const char *folder, const char *file, const char *key)
{
    char line[PATH_BYTES + 256];
    uint64_t value = 0;
    FILE *in;

    snprintf(line, sizeof line, "%s/%s", folder, file);
    in = fopen(line, "r");
    while (in && value == 0 && fgets(line, sizeof line, in))
        if (!strncmp(line, key, strlen(key)))
            value = strtoull(line + strlen(key), NULL, 10);
    if (in)
        fclose(in);
    return value;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 1;
}

/* Returns what the limit of one control group leaves, UINT64_MAX without a limit. Cached files do
 * not count as used, since the kernel drops them first. two: version 2 of control groups. */
static uint64_t left_of_group(const char *group, bool two)
{
    uint64_t limit = read_key(group, two ? "memory.max" : "memory.limit_in_bytes", "");
    uint64_t used = read_key(group, two ? "memory.current" : "memory.usage_in_bytes", "");
    uint64_t files =
        read_key(group, "memory.stat", two ? "inactive_file " : "total_inactive_file ") +
        read_key(group, "memory.stat", two ? "active_file " : "total_active_file ");

    used -= least(used, files);
    return limit == 0 ? UINT64_MAX : left_of(limit, used);
}

/* Returns the least that a control group of this process or a parent of the group leaves; a group's
 * limit holds for all processes in the group together. */
static uint64_t left_of_groups(const char *root)
{
    char line[PATH_BYTES], group[PATH_BYTES + 128];
    uint64_t left = UINT64_MAX;
    FILE *in;

    snprintf(group, sizeof group, "%s/proc/self/cgroup", root);
    in = fopen(group, "r");
    while (in && fgets(line, sizeof line, in)) { /* a line is NUMBER:CONTROLLERS:PATH */
        char *path = line;
        const char *controllers = (strsep(&path, ":"), strsep(&path, ":\n"));

        if (!path || (*controllers && !strstr(controllers, "memory")))
            continue;
        for (char *end = path + strcspn(path, "\n"); end; end = strrchr(path, '/')) {
            *end = '\0';
            snprintf(group, sizeof group, "%s/sys/fs/cgroup%s%s", root,
                     *controllers ? "/memory" : "", path);
            left = least(left, left_of_group(group, !*controllers));
        }
    }
    if (in)
        fclose(in);
    return left;
}

uint64_t machine_limited_memory(const char *root, int sharers)
{
    uint64_t left = left_of_groups(root), used = read_key("/proc/self", "status", "VmSize:") * 1024;
    struct rlimit limit;

    if (left != UINT64_MAX)
        left /= (uint64_t)sharers;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        left = least(left, left_of(limit.rlim_cur, used));
    return left;
}

uint64_t machine_free_memory(int sharers)
{
    return least(read_key("/proc", "meminfo", "MemAvailable:") * 1024 / (uint64_t)sharers,
                 machine_limited_memory("", sharers));
}

uint64_t machine_resident(void)
{
    return read_key("/proc/self", "status", "VmRSS:") * 1024;
}

void machine_processor(const char *cpuinfo, char words[MACHINE_PROCESSOR_WORDS])
{
    /* x86 has the first three keys, Arm the last two */
    static const char *const keys[] = {"model name", "cpu family", "model", "CPU implementer",
                                       "CPU part"};
    enum { NAME, FAMILY, MODEL, IMPLEMENTER, PART, KEYS };
    char line[256], values[KEYS][64] = {""};
    FILE *in = fopen(cpuinfo, "r");

    while (in && fgets(line, sizeof line, in) && line[0] != '\n') { /* end of the first processor */
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

static struct in_addr address_of(const struct sockaddr *address)
{
    return ((const struct sockaddr_in *)(const void *)address)->sin_addr;
}

/* Adds an interface to the lists. `inside` gets bridges between containers, which have the first
 * address of their network on every host, and 169.254.0.0/16, whose packets are never routed. */
static void put_interface(const struct ifaddrs *card, struct machine_interfaces *out)
{
    struct in_addr address = address_of(card->ifa_addr), mask = address_of(card->ifa_netmask);
    struct in_addr network = {.s_addr = address.s_addr & mask.s_addr};
    uint32_t number = ntohl(address.s_addr), first = ntohl(network.s_addr) + 1;
    int bits = __builtin_popcount(mask.s_addr);
    char folder[64], text[INET_ADDRSTRLEN], item[128];
    int64_t mbit;

    snprintf(folder, sizeof folder, "/sys/class/net/%s/bridge", card->ifa_name);
    if (number >> 16 == 0xa9fe || (number == first && !access(folder, F_OK)))
        buffer_printf(out->inside, sizeof out->inside, ",%s", card->ifa_name);
    else if (!*out->network && inet_ntop(AF_INET, &network, text, sizeof text))
        snprintf(out->network, sizeof out->network, "%s/%d", text, bits);
    *strrchr(folder, '/') = '\0';
    mbit = (int64_t)read_key(folder, "speed", ""); /* speed -1 or 0 means unknown */
    inet_ntop(AF_INET, &address, text, sizeof text);
    snprintf(item, sizeof item, "%s %s/%d", card->ifa_name, text, bits);
    if (mbit > 0)
        buffer_printf(item, sizeof item, " (%g Gbit/s)", (double)mbit / 1000);
    buffer_list(out->all, sizeof out->all, item);
}

void machine_list_interfaces(struct machine_interfaces *out)
{
    struct ifaddrs *cards = NULL;

    *out = (struct machine_interfaces){.all = ""};
    if (getifaddrs(&cards))
        cards = NULL;
    for (struct ifaddrs *card = cards; card; card = card->ifa_next)
        if (card->ifa_addr && card->ifa_addr->sa_family == AF_INET && card->ifa_netmask &&
            (card->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
            put_interface(card, out);
    if (cards)
        freeifaddrs(cards);
    if (!*out->all)
        strcpy(out->all, "no network interface");
}

void machine_put_network_advice(struct strbuf *out)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE"),
               *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const char *chosen = getenv("OMPI_MCA_btl_tcp_if_include");
    struct machine_interfaces interfaces;

    if (!getenv("PMIX_RANK") || (ranks && here && !strcmp(ranks, here)))
        return;
    machine_list_interfaces(&interfaces);
    strbuf_printf(out, "this host has %s", interfaces.all);
    if (chosen)
        strbuf_printf(out, ", and MPI uses those of btl_tcp_if_include=%s", chosen);
    else if (*interfaces.network)
        strbuf_printf(out,
                      "; 'mpirun --mca btl_tcp_if_include %s' uses this network alone (all hosts "
                      "must be in it)",
                      interfaces.network);
    if (*interfaces.inside && !chosen)
        strbuf_printf(out,
                      ", or '--mca btl_tcp_if_exclude lo%s' leaves out interfaces that may have "
                      "the same address on every host",
                      interfaces.inside);
}

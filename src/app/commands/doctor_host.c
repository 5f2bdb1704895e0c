/* Facts about one host, from Linux's files and Open MPI's variables. */
#define _GNU_SOURCE
#include "commands/doctor_internal.h"

#include "util/error.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifdef HAVE_CUDA
#include "cuda/gpu.h"
#endif

/* Reads the first line of a file; "" if there is none. */
static void read_line(const char *path, char *out, size_t size)
{
    FILE *in = fopen(path, "r");

    if (!in || !fgets(out, (int)size, in))
        *out = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (in)
        fclose(in);
}

/* ---- network cards ---- */

void host_list_infiniband(char *out, size_t size)
{
    DIR *devices = opendir("/sys/class/infiniband");
    struct dirent *entry;
    char path[400], rate[64], one[400];

    *out = '\0';
    while (devices && (entry = readdir(devices)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/rate", entry->d_name);
        read_line(path, rate, sizeof rate);
        snprintf(one, sizeof one, "%s (%s)", entry->d_name, rate);
        buffer_list(out, size, one);
    }
    if (devices)
        closedir(devices);
}

/* ---- what MPI has open ---- */

/* Finds the card with the given address; "": none. */
static void find_card(in_addr_t address, char *out, size_t size)
{
    struct ifaddrs *cards = NULL;

    *out = '\0';
    if (getifaddrs(&cards))
        return;
    for (struct ifaddrs *card = cards; card && !*out; card = card->ifa_next)
        if (card->ifa_addr && card->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)(const void *)card->ifa_addr)->sin_addr.s_addr == address)
            snprintf(out, size, "%s", card->ifa_name);
    freeifaddrs(cards);
}

/* Finds the card that connects one of our sockets with another host; "": none. */
static void find_socket(int fd, char *card, size_t size)
{
    struct sockaddr_in local = {.sin_family = AF_UNSPEC}, remote = local;
    socklen_t bytes[2] = {sizeof local, sizeof remote};
    char other[64];

    *card = '\0';
    if (getsockname(fd, (struct sockaddr *)&local, &bytes[0]) || local.sin_family != AF_INET ||
        getpeername(fd, (struct sockaddr *)&remote, &bytes[1]))
        return;
    find_card(remote.sin_addr.s_addr, other, sizeof other);
    if (!*other) /* otherwise both ends are on this host */
        find_card(local.sin_addr.s_addr, card, size);
}

/* Returns a card's MTU, 0: not known. /sys may show another network name space. */
static int find_mtu(const char *card)
{
    struct ifreq request = {.ifr_ifrn = {""}};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    bool known;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", card);
    known = any >= 0 && ioctl(any, SIOCGIFMTU, &request) == 0;
    if (any >= 0)
        close(any);
    return known ? request.ifr_mtu : 0;
}

int host_find_transport(char *out, size_t size)
{
    DIR *files = opendir("/proc/self/fd");
    struct dirent *entry;
    char path[300], target[256], card[64] = "";
    bool verbs = false;
    int mtu;

    while (files && (entry = readdir(files)) != NULL) {
        ssize_t length;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        verbs |= !strncmp(target, "/dev/infiniband/uverbs", 22);
        if (!*card && !strncmp(target, "socket:", 7))
            find_socket(atoi(entry->d_name), card, sizeof card);
    }
    if (files)
        closedir(files);
    *out = '\0';
    if (verbs)
        snprintf(out, size, "InfiniBand verbs");
    if (verbs || !*card)
        return 0;
    mtu = find_mtu(card);
    snprintf(out, size, "TCP over %s (MTU %d)", card, mtu);
    return mtu;
}

void host_count_segments(double *sent, double *resent)
{
    FILE *in = fopen("/proc/self/net/snmp", "r");
    char line[512];

    *sent = *resent = 0;
    /* skips the line of column names; reads OutSegs and RetransSegs */
    while (in && fgets(line, sizeof line, in) &&
           sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %lf %lf", sent, resent) != 2)
        ;
    if (in)
        fclose(in);
}

/* ---- MPI's settings ---- */

void host_put_settings(struct strbuf *out)
{
    static const char *const wanted[] = {"pml", "btl", "mtl", "btl_tcp_if_include",
                                         "btl_tcp_if_exclude"};
    char variable[64];

    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        const char *value;

        snprintf(variable, sizeof variable, "OMPI_MCA_%s", wanted[w]);
        value = getenv(variable);
        if (value && *value)
            strbuf_printf(out, "%s%s %s", out->length ? ", " : "", wanted[w], value);
    }
}

/* ---- GPUs ---- */

void host_describe_gpus(char *words, size_t size)
{
#ifdef HAVE_CUDA
    struct cuda_device device;
    char libraries[256];
    int count = 0;

    if (cuda_device_count(&count) || cuda_device_describe(0, &device)) {
        snprintf(words, size, "none: %s", error_text());
        return;
    }
    snprintf(words, size, "%d, the first %s; %s", count, device.name,
             cuda_device_libraries(libraries, sizeof libraries) ? error_text() : libraries);
#else
    snprintf(words, size, "not used: this build has no CUDA engine (configure with nvcc in PATH)");
#endif
}

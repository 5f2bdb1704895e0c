/* Finds bad hosts and bad links between hosts from measurements of rings over the hosts. Measures
 * and prints nothing itself. Not collective. */
#ifndef POSEIDON_COMMANDS_DOCTOR_LINKS_H
#define POSEIDON_COMMANDS_DOCTOR_LINKS_H

#include <stdbool.h>

#include "util/strbuf.h"

/* A link from one host to another, measured while every host sent to one and received from one. */
struct link {
    int from, to;        /* hosts */
    double Bps;          /* bytes a second received */
    double sent, resent; /* TCP segments that host `from` sent meanwhile, and sent again */
    bool told,
        blamed; /* set by links_judge: a host explains the link's fault; host `from` is to blame */
};

/* Rings connect the hosts in steps of 1 and of about half of all hosts, so that every host sends to
 * two hosts and receives from two. Returns the number of rings of n hosts; their steps in
 * `steps`. */
enum { LINKS_RINGS = 2 };
int links_rings(int n, int steps[LINKS_RINGS]);

/* Returns the rate that a quarter of the links reach. */
double links_usual(const struct link *links, int nlinks);

/* Returns true if a link is slow compared with links_usual. */
bool links_are_uneven(const struct link *links, int nlinks);

/* Judges the links. links: those of the first ring ordered by `from`, then the second's. names: the
 * n hosts. Appends to `wrong` a line for every host, or single link, that is slow or loses packets;
 * to `notes` findings that may be intended. */
void links_judge(struct link *links, int nlinks, const char *const *names, int n,
                 struct strbuf *wrong, struct strbuf *notes);

/* Appends a line to `notes` for every host whose MTU is not the most frequent one. mtu: MTU of the
 * card that a host's messages use, 0: not known. */
void links_judge_mtus(const int *mtu, const char *const *names, int n, struct strbuf *notes);

#endif

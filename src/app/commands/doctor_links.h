/* Finds bad hosts and bad links between hosts from measurements of rings over the hosts. Measures
 * and prints nothing itself. Not collective. */
#ifndef POSEIDON_COMMANDS_DOCTOR_LINKS_H
#define POSEIDON_COMMANDS_DOCTOR_LINKS_H

#include <stdbool.h>

#include "util/strbuf.h"

/* A link between two hosts, measured while every host sends to one host and receives from one. */
struct link {
    int from, to;        /* hosts */
    double Bps;          /* bytes a second received */
    double sent, resent; /* TCP segments sent by host `from` meanwhile; segments sent again */
    bool told,
        blamed; /* set by links_judge. told: fault is reported; blamed: host `from` is at fault */
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

/* Finds bad hosts and links. links: the first ring's, ordered by `from`, then the second ring's.
 * names: names of the n hosts. Appends to `wrong` a line for every host, or single link, that is
 * slow or loses packets; to `notes` findings that may be intended. */
void links_judge(struct link *links, int nlinks, const char *const *names, int n,
                 struct strbuf *wrong, struct strbuf *notes);

/* Appends a line to `notes` for every host whose MTU is not the most frequent one. mtu: MTU of the
 * card that a host's messages use, 0: not known. */
void links_judge_mtus(const int *mtu, const char *const *names, int n, struct strbuf *notes);

#endif

/* Which of the hosts and links between them are bad, judged from what rings over the hosts saw.
 * Nothing here measures or prints. Not collective. */
#ifndef POSEIDON_COMMANDS_DOCTOR_LINKS_H
#define POSEIDON_COMMANDS_DOCTOR_LINKS_H

#include <stdbool.h>

#include "util/strbuf.h"

/* From one host to another, while every host sent to one and received from one. */
struct link {
    int from, to;        /* hosts */
    double Bps;          /* bytes a second that came */
    double sent, resent; /* TCP segments that the host `from` sent meanwhile, and sent again */
    bool told,
        blamed; /* links_judge's: some host explains the link's fault; the host `from` does */
};

/* Rings go round the hosts in steps of one and of about half of all hosts, so that every host has
 * two to send to and two to hear from. Returns how many rings n hosts want; their steps: `steps`.
 */
enum { LINKS_RINGS = 2 };
int links_rings(int n, int steps[LINKS_RINGS]);

/* The rate that a quarter of the links reach. */
double links_usual(const struct link *links, int nlinks);

/* Whether any of them is slow beside that. */
bool links_are_uneven(const struct link *links, int nlinks);

/* links: those of the first ring by their hosts `from`, then the second's. names: of the n hosts.
 * Appends one line to `wrong` for every host, and every link by itself, that is slow or loses
 * packets; to `notes` what may be so on purpose. */
void links_judge(struct link *links, int nlinks, const char *const *names, int n,
                 struct strbuf *wrong, struct strbuf *notes);

/* mtu: of the card by which a host's messages go, 0: not known. Appends a line to `notes` for every
 * host whose MTU is not that of most. */
void links_judge_mtus(const int *mtu, const char *const *names, int n, struct strbuf *notes);

#endif

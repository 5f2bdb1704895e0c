/* Finds the causes of bad links. A host is blamed if all its links are bad. If one
 * host is to blame for a link, the host at the other end is not. */
#include "commands/doctor_links.h"

#include "util/units.h"

#define SLOW_LINK 0.5   /* share of the usual rate */
#define MUCH_LOST 0.001 /* share of segments; healthy networks lost 0.0001 */

enum {
    ANY = -1,        /* any host */
    MANY_LOST = 10,  /* least number of lost segments that counts */
    TWO_SWITCHES = 4 /* least number of hosts: two behind each of two switches */
};

struct judge {
    struct link *links;
    int nlinks, nhosts;
    const char *const *names;
    double usual;
    struct strbuf *wrong;
};

int links_rings(int n, int steps[LINKS_RINGS])
{
    steps[0] = 1;
    steps[1] = n > 3 ? n / 2 : 2;
    return n > 2 ? 2 : 1;
}

double links_usual(const struct link *links, int nlinks)
{
    double usual = 0;

    for (int i = 0; i < nlinks; i++) {
        int reach = 0;
        for (int j = 0; j < nlinks; j++)
            reach += links[j].Bps >= links[i].Bps;
        if (reach >= nlinks - 3 * nlinks / 4 && links[i].Bps > usual)
            usual = links[i].Bps;
    }
    return usual;
}

bool links_are_uneven(const struct link *links, int nlinks)
{
    double usual = links_usual(links, nlinks);
    bool uneven = false;

    for (int i = 0; i < nlinks; i++)
        uneven |= links[i].Bps < SLOW_LINK * usual;
    return uneven;
}

static bool is_slow(const struct judge *j, double Bps)
{
    return Bps < SLOW_LINK * j->usual;
}

/* Returns the share of packets lost, or 0 if few were lost. `sent` does not include `resent`. */
static double share_lost(const struct link *link)
{
    double lost = link->resent / (link->sent + link->resent + 1);

    return link->resent >= MANY_LOST && lost > MUCH_LOST ? lost : 0;
}

static bool is_between(const struct link *link, int from, int to)
{
    return (from == ANY || link->from == from) && (to == ANY || link->to == to);
}

/* Counts the bad links between `from` and `to` that no host explains yet. Returns -1 if one of the
 * links is good. */
static int count_unexplained(const struct judge *j, int from, int to)
{
    int count = 0;

    for (int i = 0; i < j->nlinks; i++) {
        const struct link *link = &j->links[i];
        if (!is_between(link, from, to))
            continue;
        if (!is_slow(j, link->Bps) && share_lost(link) == 0)
            return -1;
        count += !link->told;
    }
    return count;
}

/* ---- messages ---- */

/* Appends the worst faults of the links between `from` and `to`, "sends at 1.16 MB/s, loses 2.3 %
 * of the packets that it sends". Marks these links as explained. Returns true if a link is slow. */
static bool put_faults(const struct judge *j, int from, int to, const char *pace, const char *lossy,
                       struct strbuf *out)
{
    double Bps = j->usual, lost = 0;

    for (int i = 0; i < j->nlinks; i++) {
        struct link *link = &j->links[i];
        if (!is_between(link, from, to))
            continue;
        link->told = true;
        Bps = link->Bps < Bps ? link->Bps : Bps;
        lost = share_lost(link) > lost ? share_lost(link) : lost;
    }
    if (is_slow(j, Bps))
        strbuf_printf(out, "%s%s %s", out->length ? ", " : "", pace, units_rate(Bps).text);
    if (lost > 0)
        strbuf_printf(out, "%sloses %.2g %% of the packets %s", out->length ? ", " : "", 100 * lost,
                      lossy);
    return is_slow(j, Bps);
}

static void put_line(const struct judge *j, const struct strbuf *faults, bool slow,
                     const char *advice)
{
    strbuf_printf(j->wrong, "%s", strbuf_text(faults));
    if (slow)
        strbuf_printf(j->wrong, ", where other links carry %s", units_rate(j->usual).text);
    strbuf_printf(j->wrong, ": look at %s (--exclude, -host)\n", advice);
}

static void blame_host(const struct judge *j, int host, bool sending, bool receiving)
{
    struct strbuf faults = {.data = NULL};
    bool slow = false;

    j->links[host].blamed = true;
    if (sending)
        slow |= put_faults(j, host, ANY, "sends at", "that it sends", &faults);
    if (receiving)
        slow |= put_faults(j, ANY, host, "receives at", "that are sent to it", &faults);
    strbuf_printf(j->wrong, "%s: this host ", j->names[host]);
    put_line(j, &faults, slow, "its card, cable and port of the switch, or leave it out");
    strbuf_free(&faults);
}

/* ---- finding the causes ---- */

/* Blames the host that explains most bad links; returns false if there is none. both: only hosts
 * whose links are all bad, to and from the host. */
static bool blame_worst(const struct judge *j, bool both)
{
    int worst = ANY, most = 1, from_worst = 0, to_worst = 0;

    for (int h = 0; h < j->nhosts; h++) {
        int from = count_unexplained(j, h, ANY), to = count_unexplained(j, ANY, h);
        int count = both ? from + to : from > to ? from : to;
        if ((both && (from < 0 || to < 0)) || count <= most)
            continue;
        worst = h;
        most = count;
        from_worst = from;
        to_worst = to;
    }
    if (worst == ANY)
        return false;
    blame_host(j, worst, both || from_worst > 1, both || to_worst > 1);
    return true;
}

/* Returns true if most links of the second ring are slow and no host explains why: hosts far apart
 * in the list share a narrow connection, which neighbours do not use. */
static bool is_narrow_between(const struct judge *j)
{
    int slow = 0;

    for (int i = j->nhosts; i < j->nlinks; i++)
        slow += !j->links[i].told && is_slow(j, j->links[i].Bps);
    return j->nhosts >= TWO_SWITCHES && 2 * slow > j->nhosts;
}

static void note_switches(const struct judge *j, struct strbuf *notes)
{
    strbuf_printf(notes,
                  "hosts far apart in the list get %s from each other, and neighbours %s: the "
                  "network between the switches is narrower than the hosts' links; ask for hosts "
                  "of one switch (sbatch --switches=1)\n",
                  units_rate(links_usual(j->links + j->nhosts, j->nhosts)).text,
                  units_rate(j->usual).text);
    for (int i = 0; i < j->nlinks; i++)
        j->links[i].told |= is_slow(j, j->links[i].Bps);
}

void links_judge(struct link *links, int nlinks, const char *const *names, int n,
                 struct strbuf *wrong, struct strbuf *notes)
{
    const struct judge j = {.links = links,
                            .nlinks = nlinks,
                            .nhosts = n,
                            .names = names,
                            .usual = links_usual(links, nlinks),
                            .wrong = wrong};

    while (n > 2 && blame_worst(&j, true))
        ;
    if (is_narrow_between(&j))
        note_switches(&j, notes);
    while (n > 2 && blame_worst(&j, false))
        ;
    for (int i = 0; i < nlinks; i++) {
        struct strbuf faults = {.data = NULL};
        int from = links[i].from, to = links[i].to;
        /* acknowledgements that arrive late may slow a good direction of a blamed host's links */
        if (!links[from].blamed && !links[to].blamed && count_unexplained(&j, from, to) > 0) {
            bool slow = put_faults(&j, from, to, "carries", "on the way", &faults);
            strbuf_printf(wrong, "%s -> %s: this link ", names[from], names[to]);
            put_line(&j, &faults, slow,
                     "the cards, cables and ports of both, or leave one of them out");
        }
        strbuf_free(&faults);
    }
}

void links_judge_mtus(const int *mtu, const char *const *names, int n, struct strbuf *notes)
{
    int usual = 0, most = 0;

    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int k = 0; k < n; k++)
            count += mtu[k] == mtu[i];
        if (mtu[i] > 0 && count > most) {
            most = count;
            usual = mtu[i];
        }
    }
    for (int i = 0; i < n; i++)
        if (mtu[i] > 0 && mtu[i] != usual)
            strbuf_printf(notes,
                          "%s: the card's MTU is %d, but %d on other hosts: give all hosts and "
                          "switches the same MTU (ip link set CARD mtu %d)\n",
                          names[i], mtu[i], usual, usual);
}

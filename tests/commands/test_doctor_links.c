/* What doctor says of hosts and links, from made-up figures of its rings. */
#include "commands/doctor_links.h"

#include <string.h>

#include "../suite.h"

enum { MOST = 8 };

static const char *const names[MOST] = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"};

/* A link is as fast as the slower of its hosts; segments are lost by the host that receives. */
struct network {
    int n;
    double Bps[MOST], lost[MOST];
    double between[MOST]; /* hosts with unlike figures here reach each other at this rate, if any */
    struct link links[LINKS_RINGS * MOST];
    int nlinks;
    struct strbuf wrong, notes;
};

static struct network even(int n)
{
    struct network net = {.n = n};

    for (int h = 0; h < n; h++)
        net.Bps[h] = 100e6 + 1e6 * h;
    return net;
}

static void measure(struct network *net)
{
    int steps[LINKS_RINGS], rings = links_rings(net->n, steps);

    net->nlinks = rings * net->n;
    for (int i = 0; i < net->nlinks; i++) {
        int from = i % net->n, to = (from + steps[i / net->n]) % net->n;
        double Bps = net->Bps[from] < net->Bps[to] ? net->Bps[from] : net->Bps[to];

        ck_assert_int_ne(from, to);
        if (net->between[from] != net->between[to])
            Bps = net->between[from] + net->between[to];
        net->links[i] = (struct link){
            .from = from, .to = to, .Bps = Bps, .sent = 50000, .resent = 4 + net->lost[to] * 50000};
    }
}

static void judge(struct network *net)
{
    strbuf_clear(&net->wrong);
    strbuf_clear(&net->notes);
    links_judge(net->links, net->nlinks, names, net->n, &net->wrong, &net->notes);
}

static int lines(const struct strbuf *text)
{
    int count = 0;

    for (const char *c = strbuf_text(text); *c; c++)
        count += *c == '\n';
    return count;
}

/* As many lines, and words in the order given, ended by NULL. */
#define says(text, count, ...) find_words(text, count, (const char *const[]){__VA_ARGS__, NULL})

static void find_words(const struct strbuf *text, int count, const char *const *words)
{
    const char *at = strbuf_text(text);

    ck_assert_msg(lines(text) == count, "%d lines expected: %s", count, at);
    for (; *words; words++) {
        at = strstr(at, *words);
        ck_assert_msg(at, "'%s' expected: %s", *words, strbuf_text(text));
    }
}

static void done(struct network *net)
{
    strbuf_free(&net->wrong);
    strbuf_free(&net->notes);
}

START_TEST(equal_hosts_are_left_in_peace)
{
    for (int n = 2; n <= MOST; n++) {
        struct network net = even(n);

        measure(&net);
        judge(&net);
        says(&net.wrong, 0, "");
        says(&net.notes, 0, "");
        ck_assert(!links_are_uneven(net.links, net.nlinks));
        done(&net);
    }
}
END_TEST

START_TEST(one_slow_host_is_named_once)
{
    for (int n = 3; n <= MOST; n++)
        for (int slow = 0; slow < n; slow++) {
            struct network net = even(n);

            net.Bps[slow] = 1.16e6;
            measure(&net);
            judge(&net);
            says(&net.wrong, 1, names[slow],
                 ": this host sends at 1.16 MB/s, receives at 1.16 MB/s, where other links carry "
                 "10");
            ck_assert_ptr_eq(strstr(strbuf_text(&net.wrong), names[slow]), strbuf_text(&net.wrong));
            says(&net.notes, 0, "");
            ck_assert(links_are_uneven(net.links, net.nlinks));
            done(&net);
        }
}
END_TEST

START_TEST(two_slow_hosts_of_six_are_named)
{
    for (int first = 0; first < 6; first++)
        for (int second = first + 1; second < 6; second++) {
            struct network net = even(6);

            net.Bps[first] = net.Bps[second] = 1e6;
            measure(&net);
            judge(&net);
            says(&net.wrong, 2, names[first], ": this host", names[second], ": this host");
            says(&net.notes, 0, "");
            done(&net);
        }
}
END_TEST

START_TEST(a_host_that_only_sends_slowly_is_told_from_its_neighbours)
{
    struct network net = even(4);

    measure(&net);
    for (int i = 0; i < net.nlinks; i++)
        if (net.links[i].from == 2)
            net.links[i].Bps = 3e6;
    judge(&net);
    says(&net.wrong, 1, "n3: this host sends at 3 MB/s, where other links carry 10");
    ck_assert_ptr_null(strstr(strbuf_text(&net.wrong), "receives"));
    done(&net);
}
END_TEST

START_TEST(a_host_is_named_once_whatever_else_it_does)
{
    struct network net = even(4);

    measure(&net);
    for (int i = 0; i < net.nlinks; i++)
        if (net.links[i].to == 2 || i == 2)
            net.links[i].Bps = 2e6;
    judge(&net);
    says(&net.wrong, 1, "n3: this host receives at 2 MB/s, where other links carry 10");
    done(&net);
}
END_TEST

START_TEST(one_slow_link_blames_no_host)
{
    struct network net = even(5);

    measure(&net);
    net.links[3].Bps = 20e6;
    judge(&net);
    says(&net.wrong, 1, "n4 -> n5: this link carries 20 MB/s, where other links carry 10");
    done(&net);
}
END_TEST

START_TEST(of_two_hosts_the_slow_direction_is_named)
{
    struct network net = even(2);

    measure(&net);
    net.links[1].Bps = 20e6;
    judge(&net);
    says(&net.wrong, 1, "n2 -> n1: this link carries 20 MB/s");
    done(&net);
}
END_TEST

START_TEST(lost_packets_are_named_with_the_host)
{
    struct network net = even(3);

    net.lost[1] = 0.05;
    measure(&net);
    judge(&net);
    says(&net.wrong, 1, "n2: this host loses 4.8 % of the packets that are sent to it: look at");
    says(&net.notes, 0, "");
    net.lost[1] = 0.0005; /* and the four of every sound network */
    measure(&net);
    judge(&net);
    says(&net.wrong, 0, "");
    done(&net);
}
END_TEST

START_TEST(few_segments_prove_no_loss)
{
    struct network net = even(3);

    measure(&net);
    for (int i = 0; i < net.nlinks; i++) {
        net.links[i].sent = 500;
        net.links[i].resent = 6;
    }
    judge(&net);
    says(&net.wrong, 0, "");
    done(&net);
}
END_TEST

/* Half of the hosts each behind a switch, and little between the two. */
START_TEST(narrow_switches_are_no_host_fault)
{
    for (int n = 4; n <= MOST; n++) {
        struct network net = even(n);

        for (int h = n / 2; h < n; h++)
            net.between[h] = 10e6;
        measure(&net);
        judge(&net);
        says(&net.wrong, 0, "");
        says(&net.notes, 1, "hosts far apart in the list get 10 MB/s from each other", "10",
             "sbatch --switches=1");
        done(&net);
    }
}
END_TEST

START_TEST(slow_hosts_suspect_no_switches)
{
    struct network net = even(8);

    net.Bps[1] = net.Bps[2] = 1e6;
    measure(&net);
    judge(&net);
    says(&net.wrong, 2, "n2: this host", "n3: this host");
    says(&net.notes, 0, "");
    done(&net);
}
END_TEST

START_TEST(other_mtus_are_named)
{
    struct strbuf notes = {.data = NULL};

    links_judge_mtus((const int[]){1500, 9000, 1500}, names, 3, &notes);
    says(&notes, 1, "n2: the card's MTU is 9000, but 1500 on other hosts");
    strbuf_clear(&notes);
    links_judge_mtus((const int[]){9000, 9000, 1500, 0, 1400}, names, 5, &notes);
    says(&notes, 2, "n3: the card's MTU is 1500, but 9000 on other hosts", "n5: ");
    strbuf_clear(&notes);
    links_judge_mtus((const int[]){9000, 9000, 0}, names, 3, &notes);
    says(&notes, 0, "");
    strbuf_free(&notes);
}
END_TEST

SUITE("doctor_links")
{
    TCase *tcase = suite_case(suite, "links");

    tcase_add_test(tcase, equal_hosts_are_left_in_peace);
    tcase_add_test(tcase, one_slow_host_is_named_once);
    tcase_add_test(tcase, two_slow_hosts_of_six_are_named);
    tcase_add_test(tcase, a_host_that_only_sends_slowly_is_told_from_its_neighbours);
    tcase_add_test(tcase, a_host_is_named_once_whatever_else_it_does);
    tcase_add_test(tcase, one_slow_link_blames_no_host);
    tcase_add_test(tcase, of_two_hosts_the_slow_direction_is_named);
    tcase_add_test(tcase, lost_packets_are_named_with_the_host);
    tcase_add_test(tcase, few_segments_prove_no_loss);
    tcase_add_test(tcase, narrow_switches_are_no_host_fault);
    tcase_add_test(tcase, slow_hosts_suspect_no_switches);
    tcase_add_test(tcase, other_mtus_are_named);
}

/* The send queue against a list that is searched from end to end, with whatever comes and goes. */
#include <check.h>
#include <string.h>

#include "tests/suite.h"
#include "wire/queue.h"

enum { PEERS = 20 };

static struct owner owner;
static struct queue queue;

struct naive {
    struct queue_options options;
    struct queue_entry *waiting[4096]; /* in order of posting */
    int nwaiting;
    size_t in_flight[PEERS], all;
    size_t silent[PEERS], all_silent; /* of these, what no reply is under way for */
};

/* What it takes of the window. */
static size_t naive_room(const struct naive *naive, size_t bytes)
{
    return bytes < naive->options.window / 2048 ? naive->options.window / 2048 : bytes;
}

static bool naive_fits(size_t room, size_t in_flight, size_t silent, size_t bytes)
{
    return room == 0 || in_flight == silent || in_flight + bytes <= room;
}

/* The one that goes next, taken out; NULL: none. */
static struct queue_entry *naive_take(struct naive *naive)
{
    size_t window = naive->options.window, share = (window + 7) / 8;
    struct queue_entry *best = NULL;
    int place = -1;

    for (int peer = 0; peer < naive->options.peers; peer++) {
        struct queue_entry *first = NULL;
        int at = -1;
        for (int i = 0; i < naive->nwaiting; i++) {
            struct queue_entry *e = naive->waiting[i];
            if (e->peer == peer &&
                (!first || (!naive->options.fifo &&
                            (e->urgency < first->urgency ||
                             (e->urgency == first->urgency && e->weight > first->weight))))) {
                first = e;
                at = i;
            }
        }
        if (!first || !naive_fits(share, naive->in_flight[peer], naive->silent[peer],
                                  naive_room(naive, first->bytes)))
            continue;
        if (best) {
            bool earlier = at < place;
            if (!naive->options.fifo && first->urgency != best->urgency)
                earlier = first->urgency < best->urgency;
            else if (!naive->options.fifo && first->weight != best->weight)
                earlier = first->weight > best->weight;
            if (!earlier)
                continue;
        }
        best = first;
        place = at;
    }
    if (!best || !naive_fits(window, naive->all, naive->all_silent, naive_room(naive, best->bytes)))
        return NULL;
    naive->nwaiting--;
    memmove(naive->waiting + place, naive->waiting + place + 1,
            (size_t)(naive->nwaiting - place) * sizeof *naive->waiting);
    naive->in_flight[best->peer] += naive_room(naive, best->bytes);
    naive->all += naive_room(naive, best->bytes);
    return best;
}

/* Whether the entry that was just taken has a reply of its own; with it comes back *room. */
static bool naive_reply(struct naive *naive, const struct queue_entry *entry, size_t *room)
{
    size_t window = naive->options.window, mine = naive_room(naive, entry->bytes),
           *silent = &naive->silent[entry->peer];

    *room = mine + *silent;
    if (naive->options.shared_replies && entry->bytes < window / 2048 &&
        *silent + mine <= (window + 7) / 8 / 4 && naive->all_silent + mine <= window / 8) {
        *silent += mine;
        naive->all_silent += mine;
        return false;
    }
    naive->all_silent -= *silent;
    *silent = 0;
    return true;
}

static uint64_t chance(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 8;
}

/* A bag of what is on its way, to take out of at random. */
struct flying {
    const struct queue_entry *entry;
    size_t room;
};

START_TEST(agrees_with_a_naive_list_whatever_comes_and_goes)
{
    enum { STEPS = 3000 };
    static struct naive naive;
    static struct queue_entry all[STEPS];
    static struct flying flying[STEPS];
    uint64_t rng = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);
    int nflying = 0, used = 0, taken = 0;

    memset(&naive, 0, sizeof naive);
    naive.options = (struct queue_options){
        .peers = 1 + (int)(chance(&rng) % PEERS),
        .window = chance(&rng) % 4 ? (size_t)(chance(&rng) % 20000) : 0,
        .fifo = chance(&rng) % 5 == 0,
        .shared_replies = chance(&rng) % 2 == 0,
    };
    ck_assert_int_eq(queue_open(&queue, &owner, &naive.options, 0), 0);
    for (int step = 0; step < STEPS; step++) {
        uint64_t what = chance(&rng) % 8, size = chance(&rng);
        if (what < 3) {
            struct queue_entry *entry = &all[used++];
            *entry = (struct queue_entry){
                .peer = (int)(chance(&rng) % (uint64_t)naive.options.peers),
                .urgency = (int)(chance(&rng) % 6) - 3,
                .weight = (double)(chance(&rng) % 3),
                .bytes = size % 16 == 0 ? 4000 : size % (size % 3 == 0 ? 30 : 300),
            };
            naive.waiting[naive.nwaiting++] = entry;
            queue_put(&queue, entry);
        } else if (what < 6) {
            struct queue_entry *expected = naive_take(&naive);
            ck_assert_ptr_eq(queue_take(&queue, 0), expected);
            if (expected) {
                size_t room;
                bool reply = naive_reply(&naive, expected, &room);
                ck_assert_int_eq(expected->needs_ack, reply);
                if (reply)
                    flying[nflying++] = (struct flying){expected, room};
                taken++;
            }
        } else if (nflying > 0) {
            int which = (int)(chance(&rng) % (uint64_t)nflying);
            queue_sent(&queue, flying[which].entry);
            naive.in_flight[flying[which].entry->peer] -= flying[which].room;
            naive.all -= flying[which].room;
            flying[which] = flying[--nflying];
        }
        ck_assert_uint_eq(queue_count(&queue), (size_t)naive.nwaiting);
        ck_assert_uint_eq(queue.in_flight, naive.all);
        ck_assert_uint_eq(queue.unacknowledged, naive.all_silent);
    }
    ck_assert_int_gt(taken, 100);
    owner_free(&owner);
}
END_TEST

SUITE("queue by chance")
{
    TCase *tcase = suite_case(suite, "queue");

    tcase_add_loop_test(tcase, agrees_with_a_naive_list_whatever_comes_and_goes, 0, 100);
}

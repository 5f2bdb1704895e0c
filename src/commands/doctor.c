/* poseidon doctor: what a training would find here, what is wrong with it, and what to do. Every
 * rank fills a card of facts; rank 0 prints them and judges. */
#include "commands/commands.h"
#include "commands/doctor_host.h"
#include "commands/doctor_network.h"
#include "commands/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "plan/probe.h"
#include "snapshot/snapshot.h"
#include "solver/agreement.h"
#include "solver/cores.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/machine.h"
#include "util/median.h"
#include "util/path.h"
#include "util/units.h"

/* Less than that is too little for any net of models/ but the smallest. */
#define LITTLE_SHARED 256e6
#define LITTLE_DISK   1e9
#define LITTLE_MEMORY 1e9
#define SLOW_LINK     0.5  /* of the median link of the ring */
#define SLOW_VERBS    1e9  /* bytes a second: no InfiniBand of this century is slower */
#define FEW_FILES     1024 /* sockets and libraries of a few hundred ranks */

/* Of one rank. */
struct card {
    struct cores cores;
    double memory, shared; /* bytes that its host has left, of /dev/shm too */
    char gpus[256], cards[256], infiniband[256], transport[96];
    bool cache;    /* measurements can be kept */
    double files;  /* that the process may have open */
    double locked; /* bytes that it may lock; RLIM_INFINITY: all */
};

struct doctor {
    const char *prefix, *launcher;
    struct topology topology;
    struct card *cards; /* rank 0: of all ranks */
    struct probe probe;
    double *ring; /* rank 0: per machine */
    struct strbuf text;
    struct strbuf wrong, notes; /* lines; what must and what could be mended */
};

/* ---- looking ---- */

static void fill_card(const struct cores *cores, struct card *card)
{
    struct rlimit files = {.rlim_cur = 0}, locked = {.rlim_cur = 0};
    char *cache = path_in_cache("doctor");
    int known;

    *card = (struct card){.cores = *cores,
                          .memory = (double)machine_free_memory(),
                          .shared = (double)machine_free_disk("/dev/shm", &known),
                          .cache = cache != NULL};
    free(cache);
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MEMLOCK, &locked);
    card->files = (double)files.rlim_cur;
    card->locked = locked.rlim_cur == RLIM_INFINITY ? -1 : (double)locked.rlim_cur;
    host_describe_gpus(card->gpus, sizeof card->gpus);
    host_list_cards(card->cards, sizeof card->cards);
    host_list_infiniband(card->infiniband, sizeof card->infiniband);
    host_find_transport(card->transport, sizeof card->transport);
}

/* The program is the same on all ranks (command_start_mpi); with other libraries it computes other
 * bits. */
static int compare_libraries(void)
{
    struct strbuf list = {.data = NULL}, lines = {.data = NULL};
    int status;

    version_put(&lines);
    for (const char *line = strbuf_text(&lines); *line; line += strcspn(line, "\n") + 1) {
        char name[16], value[512];
        if (sscanf(line, "%15s %511[^\n]", name, value) == 2)
            agreement_put(&list, name, "%s", value);
    }
    status = agreement_check(MPI_COMM_WORLD, &list);
    strbuf_free(&lines);
    strbuf_free(&list);
    return status;
}

/* The network as training measures it; with the card of the CPU's engine. */
static int measure(struct doctor *d)
{
    struct engine_options options = {.threads = 0};
    struct engine engine = {.i = NULL};
    int status = error_agree(MPI_COMM_WORLD, engine_open("cpu", &options, &engine));

    if (!status && d->topology.nmachines > 1)
        status = network_ring(MPI_COMM_WORLD, &d->topology, d->ring);
    if (!status)
        status = probe_measure(MPI_COMM_WORLD, &d->topology, &engine, &d->probe);
    if (engine.i)
        engine_close(&engine);
    return status;
}

static int look(struct doctor *d)
{
    struct topology *t = &d->topology;
    struct cores cores;
    struct card mine;
    size_t room;
    int status;

    if (topology_create(MPI_COMM_WORLD, t) || cores_find(MPI_COMM_WORLD, t, &cores))
        return -1;
    room = t->rank == 0 ? (size_t)t->nranks : 1;
    d->cards = calloc(room, sizeof *d->cards);
    d->ring = calloc((size_t)t->nmachines, sizeof *d->ring);
    status = d->cards && d->ring ? 0 : error_memory(room * sizeof *d->cards, "the ranks' cards");
    if (error_agree(MPI_COMM_WORLD, status) || measure(d))
        return -1;
    fill_card(&cores, &mine); /* connections are open now */
    MPI_TRY(MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, d->cards, (int)sizeof mine, MPI_BYTE, 0,
                       MPI_COMM_WORLD));
    return 0;
fail:
    return -1;
}

/* ---- judging; rank 0 ---- */

static void judge_cores(struct doctor *d, int rank)
{
    const struct card *card = &d->cards[rank];
    const char *host = d->topology.host[rank];

    if (card->cores.sharers > card->cores.allowed)
        strbuf_printf(&d->wrong,
                      "%s: %d ranks share %d core%s: start at most one rank a core (mpirun -np, "
                      "--map-by), or --threads and hosts to match\n",
                      host, card->cores.sharers, card->cores.allowed,
                      card->cores.allowed == 1 ? "" : "s");
    else if (card->cores.allowed == 1 && card->cores.idle > 0)
        strbuf_printf(&d->wrong,
                      "%s: rank %d is bound to core %s alone, and %d core%s %s nobody's: mpirun "
                      "--bind-to none, or --map-by slot:PE=N\n",
                      host, rank, card->cores.list, card->cores.idle,
                      card->cores.idle == 1 ? "" : "s", card->cores.idle == 1 ? "is" : "are");
}

static void judge_host(struct doctor *d, int rank)
{
    const struct card *card = &d->cards[rank];
    const char *host = d->topology.host[rank];
    char cell[UNITS_CELL];

    if (card->shared < LITTLE_SHARED)
        strbuf_printf(&d->wrong,
                      "%s: /dev/shm has %s left, and ranks of one host keep parameters and "
                      "gradients there: enlarge it (docker --shm-size=8g, mount -o remount,size=), "
                      "clear it, or train with --hierarchy=off\n",
                      host, units_print_bytes(card->shared, cell));
    if (card->memory > 0 && card->memory < LITTLE_MEMORY)
        strbuf_printf(&d->wrong, "%s: %s of memory left: end what else runs there\n", host,
                      units_print_bytes(card->memory, cell));
    if (card->files < FEW_FILES)
        strbuf_printf(&d->wrong,
                      "%s: a process may open %.0f files: ulimit -n %d, for connections with many "
                      "ranks\n",
                      host, card->files, FEW_FILES);
    if (card->infiniband[0] && card->locked >= 0 && card->locked < 1e9)
        strbuf_printf(&d->wrong,
                      "%s: InfiniBand needs memory that stays in place, and a process may lock %s: "
                      "ulimit -l unlimited (limits.conf; LimitMEMLOCK of the scheduler's daemon)\n",
                      host, units_print_bytes(card->locked, cell));
    if (!card->cache && rank == 0)
        strbuf_printf(&d->notes,
                      "%s: no folder for what is measured once: every run measures anew; "
                      "POSEIDON_CACHE=FOLDER names one\n",
                      host);
}

static void judge_ring(struct doctor *d)
{
    const struct topology *t = &d->topology;
    double *sorted = malloc((size_t)t->nmachines * sizeof *sorted), median;
    char cell[2][UNITS_CELL];

    if (!sorted)
        return;
    memcpy(sorted, d->ring, (size_t)t->nmachines * sizeof *sorted);
    median = median_upper(sorted, t->nmachines);
    free(sorted);
    for (int m = 0; m < t->nmachines; m++) {
        int from = 0, to = 0;

        while (t->machine[from] != m)
            from++;
        while (t->machine[to] != (m + 1) % t->nmachines)
            to++;
        if (d->ring[m] < SLOW_LINK * median)
            strbuf_printf(&d->wrong,
                          "%s -> %s: %s, where the median of the links is %s: look at the cards, "
                          "cables and ports of both, or leave one of them out (--exclude, -host)\n",
                          t->host[from], t->host[to], units_print_rate(d->ring[m], cell[0]),
                          units_print_rate(median, cell[1]));
    }
    if (t->nmachines > 2 && d->probe.cluster.link_Bps < SLOW_LINK * median)
        strbuf_printf(&d->notes,
                      "all to all a host gets %s, and to its neighbour alone %s: the network "
                      "between the switches is narrower than the hosts' links; ask for hosts of "
                      "one switch (sbatch --switches=1)\n",
                      units_print_rate(d->probe.cluster.link_Bps, cell[0]),
                      units_print_rate(median, cell[1]));
    if (d->cards[0].infiniband[0] && median < SLOW_VERBS)
        strbuf_printf(&d->wrong,
                      "InfiniBand is there (%s), and messages go at %s, by %s: use an Open MPI "
                      "with UCX (ompi_info | grep ucx; mpirun --mca pml ucx)\n",
                      d->cards[0].infiniband, units_print_rate(median, cell[0]),
                      d->cards[0].transport[0] ? d->cards[0].transport : "something else");
}

static void judge_disk(struct doctor *d)
{
    char cell[UNITS_CELL];
    int known;
    double left = (double)machine_free_disk(d->prefix, &known);
    bool writable = snapshot_probe(d->prefix) == 0;

    strbuf_printf(&d->text, "disk        %s: %s\n", d->prefix,
                  !writable ? "cannot be written"
                  : known   ? units_print_bytes(left, cell)
                            : "writable");
    if (!writable)
        strbuf_printf(&d->wrong, "%s (--prefix is the solver's snapshot_prefix)\n", error_text());
    else if (known && left < LITTLE_DISK)
        strbuf_printf(&d->wrong,
                      "%s of disk left under %s: clear it, or give the solver another "
                      "snapshot_prefix\n",
                      units_print_bytes(left, cell), d->prefix);
}

/* ---- saying; rank 0 ---- */

/* Before MPI starts, which sets such variables itself. */
static const char *find_launcher(void)
{
    if (getenv("PMIX_RANK"))
        return getenv("OMPI_COMM_WORLD_SIZE") ? "mpirun, by PMIx" : "srun or another, by PMIx";
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return "mpirun";
    return getenv("PMI_RANK") ? "a launcher of PMI, not PMIx" : "no launcher: one rank";
}

static void put_mpi(struct doctor *d)
{
    static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};
    struct strbuf settings = {.data = NULL};
    int level = MPI_THREAD_SINGLE;

    (void)MPI_Query_thread(&level);
    host_put_settings(&settings);
    strbuf_printf(&d->text, "started by  %s; threads of MPI: %s\n", d->launcher,
                  level == MPI_THREAD_MULTIPLE     ? levels[3]
                  : level == MPI_THREAD_SERIALIZED ? levels[2]
                                                   : levels[level == MPI_THREAD_FUNNELED]);
    strbuf_printf(&d->text, "transports  %s\n",
                  settings.length ? strbuf_text(&settings) : "MPI's own choice");
    strbuf_free(&settings);
}

static void put_machine(struct doctor *d, int machine)
{
    const struct topology *t = &d->topology;
    const struct card *card;
    int first = 0, ranks = 0;
    char cell[2][UNITS_CELL];

    while (t->machine[first] != machine)
        first++;
    for (int r = first; r < t->nranks; r++)
        ranks += t->machine[r] == machine;
    card = &d->cards[first];
    strbuf_printf(&d->text, "host        %s: %d rank%s from rank %d on, cores %s", t->host[first],
                  ranks, ranks == 1 ? "" : "s", first, card->cores.list);
    if (card->cores.sharers > 1)
        strbuf_printf(&d->text, " shared by %d", card->cores.sharers);
    strbuf_printf(&d->text, "; %s of memory left, %s of /dev/shm\n",
                  units_print_bytes(card->memory, cell[0]),
                  units_print_bytes(card->shared, cell[1]));
    strbuf_printf(&d->text, "            network: %s%s%s%s%s\n", card->cards,
                  card->infiniband[0] ? "; InfiniBand " : "", card->infiniband,
                  card->transport[0] ? "; messages go by " : "", card->transport);
    strbuf_printf(&d->text, "            GPUs: %s\n", card->gpus);
    for (int r = first; r < t->nranks; r++) /* ranks may be bound differently: the first that is */
        if (t->machine[r] == machine) {     /* bound badly is enough */
            size_t before = d->wrong.length;
            judge_cores(d, r);
            if (d->wrong.length > before)
                break;
        }
    judge_host(d, first);
}

static void put_network(struct doctor *d)
{
    const struct cost_cluster *c = &d->probe.cluster;
    int n = d->topology.nmachines;
    char cell[3][UNITS_CELL];

    if (d->topology.nranks == 1) {
        strbuf_puts(&d->text, "network     one rank: start under mpirun, in the allocation, to "
                              "measure it\n");
        strbuf_printf(&d->text, "computing   products %.3g GFLOP/s\n", c->gemm_flops * 1e-9);
        return;
    }
    units_print_seconds(c->latency_seconds, cell[0]);
    units_print_rate(c->link_Bps, cell[1]);
    strbuf_printf(&d->text,
                  n > 1 ? "network     latency %s; all to all %s per host and direction\n"
                        : "network     one host: latency %s, %s through memory\n",
                  cell[0], cell[1]);
    if (n > 1) {
        double *sorted = malloc((size_t)n * sizeof *sorted);
        if (sorted) {
            memcpy(sorted, d->ring, (size_t)n * sizeof *sorted);
            double median = median_upper(sorted, n);
            strbuf_printf(&d->text, "            host to next host: median %s, least %s, most %s\n",
                          units_print_rate(median, cell[0]), units_print_rate(sorted[0], cell[1]),
                          units_print_rate(sorted[n - 1], cell[2]));
            free(sorted);
        }
        judge_ring(d);
    }
    strbuf_printf(&d->text, "computing   products %.3g GFLOP/s a rank, at the slowest\n",
                  c->gemm_flops * 1e-9);
}

static void put_findings(struct strbuf *out, const char *title, const struct strbuf *lines)
{
    for (const char *line = strbuf_text(lines); *line; line += strcspn(line, "\n") + 1)
        strbuf_printf(out, "%s %.*s\n", title, (int)strcspn(line, "\n"), line);
}

static int examine(struct doctor *d)
{
    int wrong = 0;

    version_put(&d->text);
    put_mpi(d);
    for (int m = 0; m < d->topology.nmachines; m++)
        put_machine(d, m);
    put_network(d);
    judge_disk(d);
    strbuf_putc(&d->text, '\n');
    put_findings(&d->text, "WRONG:", &d->wrong);
    put_findings(&d->text, "note: ", &d->notes);
    for (const char *c = strbuf_text(&d->wrong); *c; c++)
        wrong += *c == '\n';
    if (wrong == 0)
        strbuf_puts(&d->text, "nothing is wrong here\n");
    printf("%s", strbuf_text(&d->text));
    if (strbuf_status(&d->text))
        return -1;
    return wrong ? error_set("%d thing%s to mend before training, named above", wrong,
                             wrong == 1 ? "" : "s")
                 : 0;
}

int command_doctor(int argc, char **argv)
{
    struct doctor d = {.prefix = "poseidon", .launcher = find_launcher()};
    const struct option options[] = {
        {"prefix", OPTION_TEXT, &d.prefix, "PREFIX",
         "where snapshots are to lie, as the solver's snapshot_prefix (default: here)"},
    };
    const struct command_line line = {
        .command = "doctor",
        .synopsis = "[OPTIONS]",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .example = "  mpirun -np 4 poseidon doctor --prefix=/scratch/alexnet",
        .about = "Examines what a training would find here: MPI and how it was started, libraries, "
                 "cores, memory, /dev/shm and GPUs of every host, the network between them, the "
                 "disk of the snapshots. Says what is wrong and what to do; then the status is 1.\n"
                 "Start it as the training: under mpirun or srun, in the allocation."};
    int nwords, status = options_parse(&line, argc, argv, &nwords);

    if (status > 0)
        return 0;
    if (status || command_start_mpi(&argc, &argv))
        return command_fail("doctor");
    status = compare_libraries() || error_agree(MPI_COMM_WORLD, look(&d)) ? -1 : 0;
    if (!status)
        status = error_agree(MPI_COMM_WORLD, d.topology.rank == 0 ? examine(&d) : 0);
    status = command_end_mpi("doctor", status, false);
    topology_free(&d.topology);
    free(d.cards);
    free(d.ring);
    strbuf_free(&d.text);
    strbuf_free(&d.wrong);
    strbuf_free(&d.notes);
    return status;
}

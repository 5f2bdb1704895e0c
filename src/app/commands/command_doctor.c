/* poseidon doctor: checks an allocation before training, and says how to mend problems. Every rank
 * fills a report of facts; rank 0 judges and prints each part at once, for the next step may
 * hang. */
#include "commands/commands.h"
#include "commands/doctor_internal.h"
#include "commands/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/engine.h"
#include "plan/probe.h"
#include "snapshot/snapshot.h"
#include "util/agreement.h"
#include "job/cores.h"
#include "util/agree.h"
#include "util/machine.h"
#include "util/owner.h"
#include "util/path.h"
#include "util/watchdog.h"
#include "util/units.h"

/* Doctor reports a problem below these limits. Only the smallest nets of models/ work with less. */
#define LITTLE_SHARED 256e6
#define LITTLE_DISK   1e9
#define LITTLE_MEMORY 1e9
#define SLOW_VERBS    1e9  /* least rate of InfiniBand, bytes a second; every card is faster */
#define FEW_FILES     1024 /* enough for the sockets and libraries of a few hundred ranks */

/* Time limits of waits. The first message has the least time: all ranks are ready for it. */
enum { TOUCH_SECONDS = 12, SILENCE_SECONDS = 20, LOST_SECONDS = 40 };

/* Facts that one rank reports. */
struct host_report {
    struct cores cores;
    double memory, shared; /* bytes left on the rank's host: memory, /dev/shm */
    struct machine_interfaces interfaces;
    char gpus[256], infiniband[256], transport[96];
    int mtu;       /* MTU of the card used for other hosts; 0: not known */
    bool cache;    /* true if measurements can be cached */
    double files;  /* limit of open files */
    double locked; /* limit of locked memory, bytes; -1: none */
};

struct doctor {
    struct owner owner; /* owner of the arrays of machines */
    const char *prefix, *launcher;
    struct topology topology;
    const char **names;          /* names of machines */
    int *first;                  /* first rank of each machine */
    struct host_report *reports; /* rank 0: reports of all ranks */
    struct network network;
    struct link *links; /* rank 0: links of the rings */
    double limit;       /* present time limit of waits, seconds */
    struct probe probe;
    int nwrong;                 /* problems printed so far */
    struct strbuf text;         /* report of the present step, printed by tell() */
    struct strbuf wrong, notes; /* lines about problems; about possible improvements */
};

/* ---- limits ---- */

/* Ends the process when a wait has passed its limit. Runs on the watchdog's thread. */
static void give_up(void *context, const char *text)
{
    const struct doctor *d = context;

    if (atomic_load(&d->network.is_missing))
        fprintf(stderr, "poseidon doctor: %s: within %.0f s %s\n",
                d->topology.host[d->topology.rank], d->limit, d->network.missing);
    else if (d->topology.rank == 0)
        fprintf(stderr,
                "poseidon doctor: %s; doctor gives up. Every waiting rank reports how long it has "
                "waited: look at the host of the silent rank, and at the interfaces shown first\n",
                text);
    fflush(stderr);
    sleep((unsigned)d->limit / 4 + 5); /* the first rank to end stops the output of all */
    _exit(1);
}

/* ---- facts of this rank ---- */

static void fill_report(const struct cores *cores, struct host_report *report)
{
    struct rlimit files = {.rlim_cur = 0}, locked = {.rlim_cur = 0};
    char *cache = path_in_cache("doctor");
    int known;

    *report = (struct host_report){.cores = *cores,
                                   .memory = (double)machine_free_memory(1),
                                   .shared = (double)machine_free_disk("/dev/shm", &known),
                                   .cache = cache != NULL};
    free(cache);
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MEMLOCK, &locked);
    report->files = (double)files.rlim_cur;
    report->locked = locked.rlim_cur == RLIM_INFINITY ? -1 : (double)locked.rlim_cur;
    host_describe_gpus(report->gpus, sizeof report->gpus);
    machine_list_interfaces(&report->interfaces);
    host_list_infiniband(report->infiniband, sizeof report->infiniband);
    report->mtu = host_find_transport(report->transport, sizeof report->transport);
}

/* Lists library versions for agree_alike: equal programs with different libraries compute different
 * bits. */
static void list_libraries(struct strbuf *list)
{
    struct strbuf lines = {.data = NULL};

    version_put(&lines);
    for (const char *line = strbuf_text(&lines); *line; line += strcspn(line, "\n") + 1) {
        char name[16], value[512];
        if (sscanf(line, "%15s %511[^\n]", name, value) == 2)
            agreement_put(list, name, "%s", value);
    }
    strbuf_free(&lines);
}

/* Tests that messages arrive at all. */
static int touch(struct doctor *d)
{
    int status;

    watchdog_step("sending a first message from host to host");
    d->limit = TOUCH_SECONDS;
    watchdog_change(0, d->limit, 1);
    status = network_touch(&d->network);
    d->limit = LOST_SECONDS;
    watchdog_change(SILENCE_SECONDS, d->limit, 1);
    return status;
}

static int find_hosts(struct doctor *d)
{
    struct topology *t = &d->topology;
    int status;

    watchdog_step("finding the hosts");
    if (topology_create(MPI_COMM_WORLD, t))
        return -1;
    status = error_status(OWN(&d->owner, d->links, LINKS_RINGS * t->nmachines, "hosts") ||
                          OWN(&d->owner, d->names, t->nmachines, "hosts") ||
                          OWN(&d->owner, d->first, t->nmachines, "hosts"));
    for (int r = t->nranks - 1; r >= 0 && !status; r--) {
        d->names[t->machine[r]] = t->host[r];
        d->first[t->machine[r]] = r;
    }
    if (error_agree(MPI_COMM_WORLD, status))
        return -1;
    return t->nmachines == 1 ? 0 : network_create(MPI_COMM_WORLD, t, d->names, &d->network);
}

static int gather_reports(struct doctor *d)
{
    struct cores cores;
    struct host_report mine;
    void *all = NULL;

    watchdog_step("looking at every host");
    if (cores_find(MPI_COMM_WORLD, &d->topology, &cores))
        return -1;
    fill_report(&cores, &mine); /* after touch(), which opens MPI's connections */
    if (agree_gather(MPI_COMM_WORLD, &mine, sizeof mine, "the ranks' reports", &all))
        return -1;
    d->reports = all;
    return 0;
}

/* Measures the network, and the rate of matrix products on the CPU engine, like training does. */
static int measure(struct doctor *d)
{
    struct engine_options options = {.threads = 0};
    struct engine engine = {.i = NULL};
    int status;

    watchdog_step("measuring all to all");
    status = error_agree(MPI_COMM_WORLD, engine_open("cpu", &options, &engine));
    if (!status)
        status = probe_measure(MPI_COMM_WORLD, &d->topology, &engine.device, &d->probe);
    if (engine.i)
        engine_close(&engine);
    return status;
}

/* ---- finding problems, on rank 0 ---- */

static void judge_cores(struct doctor *d, int rank)
{
    const struct host_report *report = &d->reports[rank];
    const char *host = d->topology.host[rank];

    if (report->cores.sharers > report->cores.allowed)
        strbuf_printf(&d->wrong,
                      "%s: %d ranks share %s: start at most one rank a core (mpirun -np, "
                      "--map-by), or add hosts\n",
                      host, report->cores.sharers, units_count(report->cores.allowed, "core").text);
    else if (report->cores.allowed == 1 && report->cores.idle > 0)
        strbuf_printf(&d->wrong,
                      "%s: rank %d is bound to core %s alone, while %s %s idle: start with mpirun "
                      "--bind-to none, or --map-by slot:PE=N\n",
                      host, rank, report->cores.list, units_count(report->cores.idle, "core").text,
                      report->cores.idle == 1 ? "is" : "are");
}

static void judge_host(struct doctor *d, int rank)
{
    const struct host_report *report = &d->reports[rank];
    const char *host = d->topology.host[rank];

    if (report->shared < LITTLE_SHARED)
        strbuf_printf(
            &d->wrong,
            "%s: /dev/shm has %s left for the ranks' parameters and gradients: enlarge it (docker "
            "--shm-size=8g, mount -o remount,size=), clear it, or train with --hierarchy=off\n",
            host, units_bytes(report->shared).text);
    if (report->memory > 0 && report->memory < LITTLE_MEMORY)
        strbuf_printf(&d->wrong, "%s: %s of memory left: end other programs there\n", host,
                      units_bytes(report->memory).text);
    if (report->files < FEW_FILES)
        strbuf_printf(&d->wrong,
                      "%s: a process may open only %.0f files: set ulimit -n %d for connections "
                      "with many ranks\n",
                      host, report->files, FEW_FILES);
    if (report->infiniband[0] && report->locked >= 0 && report->locked < 1e9)
        strbuf_printf(&d->wrong,
                      "%s: InfiniBand needs locked memory, but a process may lock only %s: set "
                      "ulimit -l unlimited (limits.conf; LimitMEMLOCK of the scheduler's daemon)\n",
                      host, units_bytes(report->locked).text);
    if (!report->cache && rank == 0)
        strbuf_printf(&d->notes,
                      "%s: no cache folder: every run measures the cluster again; set "
                      "POSEIDON_CACHE=FOLDER\n",
                      host);
}

static void judge_mtus(struct doctor *d)
{
    size_t n = (size_t)d->topology.nmachines;
    int *mtu = calloc(n, sizeof *mtu);

    if (!mtu)
        return;
    for (size_t m = 0; m < n; m++)
        mtu[m] = d->reports[d->first[m]].mtu;
    links_judge_mtus(mtu, d->names, (int)n, &d->notes);
    free(mtu);
}

static void judge_links(struct doctor *d, double usual)
{
    int n = d->topology.nmachines, steps[LINKS_RINGS];
    const struct host_report *report = &d->reports[0];

    links_judge(d->links, n * links_rings(n, steps), d->names, n, &d->wrong, &d->notes);
    if (report->infiniband[0] && usual < SLOW_VERBS)
        strbuf_printf(&d->wrong,
                      "InfiniBand found (%s), but messages use %s at %s: use an Open MPI "
                      "with UCX (ompi_info | grep ucx; mpirun --mca pml ucx)\n",
                      report->infiniband,
                      report->transport[0] ? report->transport : "something else",
                      units_rate(usual).text);
}

static void judge_disk(struct doctor *d)
{
    int known;
    double left = (double)machine_free_disk(d->prefix, &known);
    bool writable = snapshot_probe(d->prefix) == 0;

    strbuf_printf(&d->text, "disk        %s: %s\n", d->prefix,
                  !writable ? "cannot be written"
                  : known   ? units_bytes(left).text
                            : "writable");
    if (!writable)
        strbuf_printf(&d->wrong, "%s (--prefix is the solver's snapshot_prefix)\n", error_text());
    else if (known && left < LITTLE_DISK)
        strbuf_printf(&d->wrong,
                      "%s of disk left under %s: clear it, or give the solver another "
                      "snapshot_prefix\n",
                      units_bytes(left).text, d->prefix);
}

/* ---- printing, on rank 0 ---- */

/* Prints rank 0's interfaces before MPI starts, because a first message may never arrive. */
static void tell_interfaces(void)
{
    struct strbuf advice = {0};
    const char *rank = getenv("PMIX_RANK");

    if (rank && atoi(rank) == 0)
        machine_put_network_advice(&advice);
    if (advice.length)
        printf("interfaces  %s\n", strbuf_text(&advice));
    fflush(stdout);
    strbuf_free(&advice);
}

/* Returns the launcher's name. Must run before MPI starts, which sets these variables itself. */
static const char *find_launcher(void)
{
    if (getenv("PMIX_RANK"))
        return getenv("OMPI_COMM_WORLD_SIZE") ? "mpirun, by PMIx"
                                              : "srun or another launcher, by PMIx";
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return "mpirun";
    return getenv("PMI_RANK") ? "a launcher of PMI, not PMIx" : "no launcher: one rank";
}

static void put_mpi(struct doctor *d)
{
    struct strbuf settings = {.data = NULL};
    int level = MPI_THREAD_SINGLE;

    (void)MPI_Query_thread(&level);
    host_put_settings(&settings);
    strbuf_printf(&d->text, "started by  %s; threads of MPI: %s\n", d->launcher,
                  level == MPI_THREAD_MULTIPLE ? "multiple" : "serialized"); /* the minimum level */
    strbuf_printf(&d->text, "transports  %s\n",
                  settings.length ? strbuf_text(&settings) : "MPI's own choice");
    strbuf_free(&settings);
}

static void put_machine(struct doctor *d, int machine)
{
    const struct topology *t = &d->topology;
    const int first = d->first[machine];
    const struct host_report *report = &d->reports[first];
    int ranks = 0;

    for (int r = first; r < t->nranks; r++)
        ranks += t->machine[r] == machine;
    strbuf_printf(&d->text, "host        %s: %s from rank %d on, cores ", t->host[first],
                  units_count(ranks, "rank").text, first);
    cores_list_machine(d->reports->cores.list, sizeof *d->reports, t, machine, &d->text);
    if (report->cores.sharers > 1)
        strbuf_printf(&d->text, " shared by %d", report->cores.sharers);
    strbuf_printf(&d->text, "; %s of memory left, %s of /dev/shm\n",
                  units_bytes(report->memory).text, units_bytes(report->shared).text);
    strbuf_printf(&d->text, "            network: %s%s%s%s%s\n", report->interfaces.all,
                  report->infiniband[0] ? "; InfiniBand " : "", report->infiniband,
                  report->transport[0] ? "; messages go by " : "", report->transport);
    strbuf_printf(&d->text, "            GPUs: %s\n", report->gpus);
    for (int r = first; r < t->nranks; r++) /* ranks may be bound differently */
        if (t->machine[r] == machine) {     /* one bad binding is enough */
            size_t before = d->wrong.length;
            judge_cores(d, r);
            if (d->wrong.length > before)
                break;
        }
    judge_host(d, first);
}

static void put_links(struct doctor *d)
{
    int n = d->topology.nmachines, steps[LINKS_RINGS], nlinks = n * links_rings(n, steps);
    double usual = links_usual(d->links, nlinks), least = usual, most = usual;

    for (int i = 0; i < nlinks; i++) {
        least = d->links[i].Bps < least ? d->links[i].Bps : least;
        most = d->links[i].Bps > most ? d->links[i].Bps : most;
    }
    strbuf_printf(&d->text, "network     host to host: usually %s, least %s, most %s\n",
                  units_rate(usual).text, units_rate(least).text, units_rate(most).text);
    judge_links(d, usual);
}

static void put_probe(struct doctor *d)
{
    const struct cost_cluster *c = &d->probe.cluster;
    bool one = d->topology.nranks == 1;

    if (one)
        strbuf_puts(&d->text, "network     one rank: start under mpirun, in the allocation, to "
                              "measure it\n");
    else
        strbuf_printf(&d->text,
                      d->topology.nmachines > 1
                          ? "            all to all: latency %s, %s per host and direction\n"
                          : "network     one host: latency %s, %s through memory\n",
                      units_seconds(c->latency_seconds).text, units_rate(c->link_Bps).text);
    strbuf_printf(&d->text, "computing   products %.3g GFLOP/s%s\n", c->gemm_flops * 1e-9,
                  one ? "" : " a rank, at the slowest");
}

static void put_findings(struct strbuf *out, const char *title, const struct strbuf *lines)
{
    for (const char *line = strbuf_text(lines); *line; line += strcspn(line, "\n") + 1)
        strbuf_printf(out, "%s %.*s\n", title, (int)strcspn(line, "\n"), line);
}

/* Prints the lines collected so far. */
static void tell(struct doctor *d)
{
    for (const char *c = strbuf_text(&d->wrong); *c; c++)
        d->nwrong += *c == '\n';
    put_findings(&d->text, "WRONG:", &d->wrong);
    put_findings(&d->text, "note: ", &d->notes);
    printf("%s", strbuf_text(&d->text));
    fflush(stdout);
    strbuf_clear(&d->text);
    strbuf_clear(&d->wrong);
    strbuf_clear(&d->notes);
}

/* Prints the verdict, on standard output so that it follows the other lines. */
static int conclude(struct doctor *d)
{
    if (d->nwrong)
        strbuf_printf(&d->text, "\n%s to fix before training, shown above\n",
                      units_count(d->nwrong, "problem").text);
    else
        strbuf_puts(&d->text, "\nnothing is wrong here\n");
    tell(d);
    return error_status(strbuf_status(&d->text) || strbuf_status(&d->wrong) ||
                        strbuf_status(&d->notes));
}

static int examine(struct doctor *d)
{
    const struct topology *t = &d->topology;
    bool several;

    if (find_hosts(d))
        return -1;
    several = t->nmachines > 1;
    if (t->rank == 0) {
        version_put(&d->text);
        put_mpi(d);
        tell(d);
    }
    if ((several && touch(d)) || gather_reports(d))
        return -1;
    if (t->rank == 0) {
        for (int m = 0; m < t->nmachines; m++)
            put_machine(d, m);
        judge_mtus(d);
        judge_disk(d);
        tell(d);
    }
    watchdog_step("measuring from host to host");
    if (several && network_measure(&d->network, d->links))
        return -1;
    if (several && t->rank == 0) {
        put_links(d);
        tell(d);
    }
    if (measure(d))
        return -1;
    if (t->rank == 0)
        put_probe(d);
    if (error_agree(MPI_COMM_WORLD, t->rank == 0 ? conclude(d) : 0))
        return -1;
    return MPI_STATUS(MPI_Bcast(&d->nwrong, 1, MPI_INT, 0, MPI_COMM_WORLD));
}

int command_doctor(int argc, char **argv)
{
    struct doctor d = {.prefix = "poseidon", .launcher = find_launcher(), .limit = LOST_SECONDS};
    const struct watchdog_options watch = {.command = "doctor",
                                           .silence_seconds = SILENCE_SECONDS,
                                           .lost_seconds = LOST_SECONDS,
                                           .status = 1,
                                           .lost = give_up,
                                           .context = &d};
    struct strbuf alike = {.data = NULL}; /* library versions, the same on all ranks */
    const struct option options[] = {
        {"prefix", OPTION_TEXT, &d.prefix, "PREFIX",
         "the run's snapshot_prefix, whose disk is checked (default: the current folder)"},
    };
    const struct command_line line = {
        .command = "doctor",
        .synopsis = "[OPTIONS]",
        OPTION_ROWS(options),
        .example = "  mpirun -np 4 poseidon doctor --prefix=/scratch/alexnet",
        .about = "Checks a cluster before training: MPI and its launcher, libraries, cores, "
                 "memory, /dev/shm and GPUs of every host, the network between them, and the disk "
                 "for snapshots. Names each problem and its remedy; the status is then 1. Start "
                 "doctor as you start training: under mpirun or srun, in the allocation."};
    int status = options_parse(&line, argc, argv, NULL);

    list_libraries(&alike);
    if (status == 0)
        tell_interfaces();
    if (!command_start(&argc, &argv, &status, &alike, &watch))
        return status;
    status = examine(&d);
    network_free(&d.network);
    status = command_end_mpi("doctor", status, false) || d.nwrong ? 1 : 0;
    topology_free(&d.topology);
    free(d.reports);
    owner_free(&d.owner);
    strbuf_free(&d.text);
    strbuf_free(&d.wrong);
    strbuf_free(&d.notes);
    return status;
}

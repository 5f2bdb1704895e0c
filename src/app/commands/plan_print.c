/* Prints a plan in 80 columns: assumptions and the result first, then a line for each number of
 * nodes, other schemes' speed-ups, and the layers. */
#include "commands/command_plan.h"

#include "util/error.h"
#include "util/units.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 26 };

/* Shortens a long name to its end, where the names of a block's layers differ. */
static const char *short_name(const char *name, char out[NAME_WIDTH + 1])
{
    size_t length = strlen(name);

    if (length <= NAME_WIDTH)
        snprintf(out, NAME_WIDTH + 1, "%s", name);
    else
        snprintf(out, NAME_WIDTH + 1, "~%s", name + length - NAME_WIDTH + 1);
    return out;
}

static void print_line(int width)
{
    while (width-- > 0)
        putchar('-');
    putchar('\n');
}

/* ---- assumptions ---- */

static int print_assumptions(const struct plan_request *r, const struct forecast *f)
{
    struct strbuf text = {.data = NULL};
    double alone = f->batch / f->alone_seconds;
    int status;

    if (!f->options->profile && f->options->images_per_second <= 0)
        strbuf_printf(&text, "%.*f images/s a rank: give --images-per-second or --profile; ",
                      alone < 10 ? 2 : 0, alone);
    if (!r->options.exchange.cluster_file && r->link_Bps <= 0)
        strbuf_printf(&text, "links of %s: give --bandwidth; ",
                      units_bits(f->cluster.link_Bps).text);
    if (!r->options.exchange.cluster_file)
        strbuf_puts(&text, "usual latency and hosts: give --cluster-file; ");
    status = strbuf_status(&text);
    if (!status && text.length > 0) {
        struct strbuf all = {.data = NULL};
        strbuf_printf(&all, "Assuming %.*s.", (int)text.length - 2, text.data);
        options_print_text(strbuf_text(&all));
        strbuf_free(&all);
    }
    strbuf_free(&text);
    return status;
}

static void print_result(const struct forecast *f)
{
    char words[2048];

    forecast_result(f, words, sizeof words);
    options_print_text(words);
    putchar('\n');
}

static void print_net(const struct forecast *f)
{
    char text[512];
    const char *name = f->net->def->name;

    snprintf(text, sizeof text, "%s: %s, %s; %s per rank and iteration%s",
             name && *name ? name : f->net->def->file,
             units_count((long long)f->net->nlearnable, "parameter").text,
             units_bytes((double)f->net->nlearnable * sizeof(float)).text,
             units_count(f->batch, "image").text, net_is_assumed(f->net) ? " (assumed input)" : "");
    options_print_text(text);
}

static void print_cluster(const struct forecast *f)
{
    const struct cost_cluster *cluster = &f->cluster;

    printf("link      %s/s per node and direction, latency %s, %s per message\n",
           units_bytes(cluster->link_Bps).text, units_seconds(cluster->latency_seconds).text,
           units_seconds(cluster->message_seconds).text);
    printf("rank      %.4g GFLOP/s in products, copies %s/s, sums %s/s; %d a node\n",
           cluster->gemm_flops / 1e9, units_bytes(cluster->copy_Bps).text,
           units_bytes(cluster->sum_Bps).text, f->options->ranks_per_node);
    if (cluster->device_Bps > 0)
        printf("device    %s/s from and to the host\n", units_bytes(cluster->device_Bps).text);
    if (cluster->core_share > 0)
        printf("          no core to spare: %.0f %% of the communication thread's work\n          "
               "delays the passes\n",
               100 * cluster->core_share);
}

static void print_alone(const struct forecast *f)
{
    printf("one rank  %s per iteration, %.4g images/s%s:\n          forward %s, backward %s\n",
           units_seconds(f->alone_seconds).text, f->batch / f->alone_seconds,
           net_is_assumed(f->net) ? " (assumed input)" : "", units_seconds(f->forward_seconds).text,
           units_seconds(f->backward_seconds).text);
}

/* ---- numbers of nodes ---- */

/* Prints the cost of --sync-bn on the largest number of nodes shown. */
static void print_joins(const struct forecast *f)
{
    const struct forecast_point *last = &f->points[f->options->npoints - 1];
    int sums = 0;

    for (int i = 0; i < 2 * f->work.nlayers && f->work.join; i++)
        sums += f->work.join[i].sums;
    if (sums == 0)
        printf(
            "No BatchNorm of the net makes statistics in training: --sync-bn changes nothing.\n");
    else
        printf("BatchNorm adds up statistics over the ranks %d times an iteration. On %s\n"
               "the passes wait for these sums and for slower ranks %.1f %% of the iteration.\n",
               sums, units_count(last->nodes, "node").text, 100 * last->result.join_share);
}

static void print_points(const struct forecast *f)
{
    const int npoints = f->options->npoints;
    char schemes[128];

    printf("\nSimulated with --comm=%s, --tune=overlap=%s\n", forecast_comm_name(f),
           cost_overlap_words[f->options->exchange.overlap]);
    printf("nodes  iteration speed-up  images/s  MB sent  stalled  layers by scheme\n");
    print_line(80);
    for (int i = 0; i < npoints; i++) {
        const struct forecast_point *p = &f->points[i];
        forecast_schemes(f, p, schemes, sizeof schemes);
        printf("%5d %10s %8.2f %9.1f %8.1f %7.1f%%  %s\n", p->nodes,
               units_seconds(p->result.seconds).text, p->speedup, p->images_per_second,
               p->bytes_sent / 1e6, 100 * p->result.stall_share, schemes);
    }
    printf("MB sent: by a node in an iteration, mean. Stalled: the passes wait for\n"
           "parameters, mean over the workers.\n");
    for (int i = 0; i < npoints; i++)
        if (f->points[i].result.members > 1)
            printf("%d nodes are simulated in blocks of up to %d equal leaders.\n",
                   f->points[i].nodes, f->points[i].result.members);
}

static double speedup_of(const struct forecast *f, const struct forecast_point *p, double seconds)
{
    return p->workers * f->alone_seconds / seconds;
}

static void print_comms(const struct forecast *f)
{
    bool any = false;

    for (int i = 0; i < f->options->npoints; i++) {
        const struct forecast_point *p = &f->points[i];
        if (!p->shape.asks)
            continue;
        if (!any)
            printf("\nSpeed-up by --comm, each with its best merging and window\nnodes       auto");
        for (int k = 0; k < p->answer.nexact_rows && !any; k++)
            if (p->answer.row[k].comm.policy != COMM_AUTO)
                printf(" %10s", p->answer.row[k].name.text);
        printf("%s%5d %10.2f", any ? "" : "\n", p->nodes, speedup_of(f, p, p->answer.seconds));
        for (int k = 0; k < p->answer.nexact_rows; k++)
            if (p->answer.row[k].comm.policy != COMM_AUTO)
                printf(" %10.2f", speedup_of(f, p, p->answer.row[k].seconds));
        putchar('\n');
        any = true;
    }
}

/* ---- layers ---- */

/* The schemes shown, as many as fit into 80 columns: all, or those chosen for a layer. */
struct columns {
    int way[3], n;
};

static struct columns find_columns(const struct forecast *f, const struct forecast_point *point)
{
    struct columns columns = {.n = 0};

    for (int w = 0; w < f->ways.n && columns.n < 3; w++) {
        bool taken = f->ways.n <= 3;
        for (int g = 0; g < f->work.ngroups; g++)
            taken = taken || way_is(point->chosen[g], f->ways.way[w]);
        if (taken)
            columns.way[columns.n++] = w;
    }
    return columns;
}

/* Prints a scheme's cost for one layer. */
static void print_cost(const struct cost *cost, bool trains, bool chosen)
{
    if (cost->possible)
        printf(" %c%8s%8s", chosen ? '*' : ' ', units_bytes(cost->busiest).text,
               units_seconds(cost->seconds).text);
    else
        printf("%18s", trains ? "-" : "frozen");
}

static void print_layer(const struct forecast *f, const struct forecast_point *point,
                        const struct columns *columns, int g)
{
    const struct group *group = &f->groups[g];
    char name[NAME_WIDTH + 1];

    printf("%-*s", NAME_WIDTH, short_name(group->name, name));
    for (int i = 0; i < columns->n; i++) {
        int w = columns->way[i];
        print_cost(&point->table[g * f->ways.n + w], group->trains,
                   way_is(point->chosen[g], f->ways.way[w]));
    }
    putchar('\n');
}

static void print_who(const struct forecast_point *p)
{
    printf("\n%s, %s, ", units_count(p->nodes, "node").text,
           units_count(p->workers, "worker").text);
    if (p->shape.only)
        printf("gradients added up in shared memory: nothing is sent\n");
    else if (p->locals > 1 && p->leaders > 1)
        printf("%d a node add up gradients and %d send, ", p->locals, p->leaders);
    else if (p->locals > 1)
        printf("%d a node add up gradients and one sends, ", p->locals);
    if (p->how.servers > 0)
        printf("%s\n", units_count(p->servers, "dedicated server").text);
    else if (!p->shape.only)
        printf("every %s serves\n", p->locals > 1 ? "node" : "worker");
}

/* Prints a line for each speed of ranks. */
static void print_hosts(const struct forecast *f, const struct forecast_point *p)
{
    if (p->pace)
        printf("speed    ranks  images of a pass\n");
    for (int i = 0; i < f->options->nspeeds; i++) {
        double speed = f->options->speeds[i];
        long long least = LLONG_MAX, most = 0;
        int count = 0;
        bool before = false;
        for (int k = 0; k < i; k++)
            before = before || f->options->speeds[k] == speed;
        for (int r = 0; r < p->workers && !before; r++) {
            long long share = p->share[r];
            if (p->pace[r].speed != speed)
                continue;
            count++;
            least = share < least ? share : least;
            most = share > most ? share : most;
        }
        if (count > 0)
            printf(least < most ? "%5.4g %8d  %lld to %lld\n" : "%5.4g %8d  %lld\n", speed, count,
                   least, most);
    }
}

static void print_layers(const struct forecast *f, const struct forecast_point *point)
{
    const struct columns columns = find_columns(f, point);
    int width = NAME_WIDTH;

    print_who(point);
    print_hosts(f, point);
    printf("%-*s", NAME_WIDTH, "layer");
    for (int i = 0; i < columns.n; i++)
        width += printf("%18s", way_label(f->ways.way[columns.way[i]]).text);
    putchar('\n');
    print_line(width);
    for (int g = 0; g < f->work.ngroups; g++)
        print_layer(f, point, &columns, g);
    printf("Estimates for the layer alone. Bytes: sent or received by the\nbusiest rank, the "
           "larger. Time: from gradient to new parameters. *: chosen.\n");
}

int plan_print(const struct plan_request *r, struct forecast *f)
{
    int last = f->options->npoints - 1;

    if (print_assumptions(r, f))
        return -1;
    print_result(f);
    print_net(f);
    print_cluster(f);
    print_alone(f);
    print_points(f);
    if (r->sync_bn)
        print_joins(f);
    print_comms(f);
    for (int i = r->layers ? 0 : last; i <= last; i++) {
        if (forecast_price(f, &f->points[i]))
            return -1;
        print_layers(f, &f->points[i]);
    }
    return fflush(stdout) || ferror(stdout) ? error_set("the plan could not be written") : 0;
}

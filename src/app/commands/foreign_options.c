/* Maps other programs' options to poseidon's, for error messages. */
#include "commands/options.h"

#include "spec/caffe.pb-c.h"
#include "util/suggest.h"

#include <stdio.h>
#include <string.h>

/* Options of Caffe, PMLS-Caffe, PyTorch, torchrun, Horovod and Lightning. */
static const struct {
    const char *names;   /* names separated by blanks */
    const char *command; /* NULL: any command; rows of one command come first */
    const char *here;
} options[] = {
    {"batch-size", "train", "--batch=N sets samples per rank, --global-batch=N over all ranks"},
    {"lr learning-rate", "train", "--set base_lr=X, or base_lr in the solver"},
    {"resume-from checkpoint", "train", "--snapshot=FILE.solverstate, or --resume for the newest"},
    {"amp fp16 mixed-precision", "train", "--math=bf16"},
    {"fp16-allreduce", "train", "--lossy=bf16"},
    {"iterations iters max-steps", "train", "--max-iter=N sets the last iteration"},
    {"max-epochs epoch num-epochs num-train-epochs", "train",
     "--epochs=N trains N passes over the data"},
    {"log-interval print-freq", "train", "--set display=N"},
    {"gradient-accumulation-steps grad-accum accum-steps", "train", "--set iter_size=N"},
    {"workers num-workers", "train",
     "nothing to set: training chooses the number of reading threads"},
    {"pretrained", "train", "--weights=FILE"},
    {"evaluate eval test-only", "train", "'poseidon test' scores weights"},
    {"model net", "train", "--solver=FILE: the solver names the net"},
    {"gpus", "train", "--engine=cuda; mpirun -np N starts a rank a GPU"},
    {"optimizer optim", "train", "type: \"Adam\" in the solver, or --set type=Adam"},
    {"patience early-stopping", "train",
     "--stop-after=N ends training after N tests without a better score"},
    {"output-dir save-dir", "train", "--snapshot-prefix=FOLDER/NAME"},
    {"csv tensorboard log-dir", "train", "--curves=FILE.csv, or --curves=FOLDER for TensorBoard"},
    {"json", "train", "--summary=- prints the summary as JSON"},
    {"seed", "train", "--set random_seed=N"},
    {"data-dir", "train", "the net's data layer names the data: its source"},
    {"arch", "train", "the solver names the net; models/ has the usual ones"},
    {"wd l2", "train", "--set weight_decay=X, or weight_decay in the solver"},
    {"scheduler lr-scheduler", "train", "lr_policy in the solver, or --set lr_policy=poly"},
    {"warmup warmup-steps", "train", "--set warmup_iter=N"},
    {"save-interval snapshot-interval", "train", "--set snapshot=N, or --snapshot-every=DURATION"},
    {"svb use-sfb", "train", "--comm=sfb; --comm=paper, or auto, decides layer by layer"},
    {"table-staleness consistency-model", "train", "--tune=staleness=S, for parameter servers"},
    {"client-bandwidth-mbps server-bandwidth-mbps", "train", "--tune=bandwidth-mbps=X"},
    {"num-table-threads num-app-threads", "train",
     "mpirun -np N starts the ranks; --threads=N sets the threads of each"},
    {"num-rows-per-table num-comm-channels-per-client block-size", "train",
     "nothing to set: layers are cut into chunks, --tune=chunk=SIZE"},
    {"net-outputs", "train", "--curves=FILE.csv"},
    {"stats-path", "train", "--tune=log=FILE, or --trace=FILE"},
    {"squeeze", "classify", "--resize=WIDTHxHEIGHT of the input"},
    {"draw", "plan", "tools/draw.py draws nets, with the schemes of a plan"},
    {"gpus", "plan", "--nodes=LIST and --ranks-per-node=N set the number of ranks"},
    {"device", NULL, "--engine=cuda, or --engine=cpu"},
    {"batch-size", NULL, "--batch=N if the command has it, else the net's batch_size"},
    {"np n world-size num-clients local-rank client-id master-addr rdzv-endpoint", NULL,
     "the launcher starts, numbers and connects the ranks: mpirun -np N poseidon train ..."},
    {"nproc-per-node", NULL, "the launcher places ranks: mpirun --map-by ppr:N:node"},
    {"nnodes", NULL, "the launcher places ranks: mpirun -np N, or srun -N"},
    {"solver", NULL, "a solver is for train; here --model=FILE names the net"},
    {"backend dist-backend", NULL,
     "Open MPI sends messages; mpirun's --mca options choose its transports"},
    {"hostfile", NULL, "the launcher sets the hosts: mpirun --hostfile FILE poseidon train ..."},
    {"hosts", NULL, "the launcher sets the hosts: mpirun -host A,B poseidon train ..."},
    {"net", NULL, "--model=FILE"},
    {"data", NULL, "the net's data layer names the data: its source"},
};

/* Finds the field of the solver that has the option's name. */
static bool solver_field(const char *name, char *out, size_t room)
{
    char field[48];

    if (strlen(name) >= sizeof field)
        return false;
    strcpy(field, name);
    for (char *c = field; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (!protobuf_c_message_descriptor_get_field_by_name(&caffe__solver_parameter__descriptor,
                                                         field))
        return false;
    snprintf(out, room, "--set %s=X, or %s in the solver", field, field);
    return true;
}

bool foreign_option_find(const char *command, const char *name, char *out, size_t room)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (suggest_lists(options[i].names, name) &&
            (!options[i].command || !strcmp(options[i].command, command))) {
            snprintf(out, room, "%s", options[i].here);
            return true;
        }
    return !strcmp(command, "train") && solver_field(name, out, room);
}

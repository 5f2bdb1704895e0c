/* Command lines by table. */
#include "commands/options.h"

#include "util/suggest.h"
#include "util/error.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELP_WIDTH = 80 };

/* Prints text in lines of at most HELP_WIDTH columns, from column `at` on; lines after the first
 * begin at `indent`. A line break of the text's own stays, and blanks behind it are kept; but in a
 * paragraph (indent 0) the one before a letter is a blank. */
static void print_wrapped(const char *text, int at, int indent)
{
    while (*text) {
        int blanks = (int)strspn(text, " "), word = (int)strcspn(text + blanks, " \n");

        if (*text == '\n' && indent == 0 && text[1] && !strchr(" \n", text[1])) {
            blanks = 1;
            word = (int)strcspn(text + 1, " \n");
            printf(at + 1 + word > HELP_WIDTH ? "\n" : " ");
            at = at + 1 + word > HELP_WIDTH ? 0 : at + 1;
            printf("%.*s", word, text + 1);
            at += word;
            text += 1 + word;
            continue;
        }
        if (*text == '\n') {
            printf("\n%*s", text[1] && text[1] != '\n' ? indent : 0, "");
            at = indent;
            text++;
            text += indent > 0 ? strspn(text, " ") : 0;
            continue;
        }
        if (at > indent && at + blanks + word > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
            text += blanks;
            blanks = 0;
        }
        printf("%.*s", blanks + word, text);
        at += blanks + word;
        text += blanks + word;
    }
    printf("\n");
}

/* between: what stands between name and value, "=", or "[=" where the value may be left out. */
static void print_option(const char *name, const char *between, const char *value, const char *help)
{
    char left[64];
    int width = snprintf(left, sizeof left, "  --%s%s%s%s", name, value ? between : "",
                         value ? value : "", value && *between == '[' ? "]" : "");

    if (width >= OPTIONS_INDENT)
        printf("%s\n%*s", left, OPTIONS_INDENT, "");
    else
        printf("%-*s", OPTIONS_INDENT, left);
    print_wrapped(help, OPTIONS_INDENT, OPTIONS_INDENT);
}

void options_print_entry(const char *name, const char *text)
{
    printf("  %-*s", OPTIONS_INDENT - 2, name);
    print_wrapped(text, OPTIONS_INDENT, OPTIONS_INDENT);
}

static void print_help(const struct command_line *line)
{
    bool grouped = line->noptions > 0 && line->options[0].type == OPTION_GROUP;

    printf("usage: poseidon %s%s%s\n\n", line->command, *line->synopsis ? " " : "", line->synopsis);
    print_wrapped(line->about, 0, 0);
    if (line->noptions > 0 && !grouped)
        printf("\noptions:\n");
    for (int i = 0; i < line->noptions; i++) {
        const struct option *o = &line->options[i];

        if (o->type == OPTION_GROUP)
            printf("\n%s:\n", o->help);
        else
            print_option(o->name, o->type == OPTION_WORD ? "[=" : "=", o->value, o->help);
    }
    print_option("help", "", NULL, "show this help and exit");
    if (line->example)
        printf("\nexample:\n%s\n", line->example);
}

static int parse_number(const char *name, const char *text, long long least, long long most,
                        long long *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE)
        return error_set("--%s expects a whole number, found '%s'", name, text);
    if (*out < least || *out > most)
        return error_set("--%s=%s is out of range: %lld to %lld", name, text, least, most);
    return 0;
}

static int parse_bytes(const char *name, const char *text, size_t *out)
{
    char *end;
    double factor = 1, value;

    errno = 0;
    value = strtod(text, &end);
    if (end != text)
        switch (tolower((unsigned char)*end)) {
        case 'k':
            factor = 1024, end++;
            break;
        case 'm':
            factor = 1024 * 1024, end++;
            break;
        case 'g':
            factor = 1024 * 1024 * 1024, end++;
            break;
        default:
            break;
        }
    if (tolower((unsigned char)*end) == 'b')
        end++;
    if (end == text || *end || errno == ERANGE ||
        !(value == 0 || (value * factor >= 1 && value * factor < 0x1p62)))
        return error_set("--%s expects a size such as 512k or 2m, found '%s'", name, text);
    *out = (size_t)(value * factor);
    return 0;
}

static int parse_real(const char *name, const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0) || *out > 1e12)
        return error_set("--%s expects a number above 0, found '%s'", name, text);
    return 0;
}

/* More threads than cores take turns, and wait for each other where they should compute; many more
 * do not come to an end, or find no memory for their stacks. */
static int parse_threads(const char *name, const char *text, int *out)
{
    enum { PER_CORE = 16 };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    long long number;

    if (parse_number(name, text, 1, INT_MAX, &number))
        return -1;
    if (cores > 0 && number > PER_CORE * cores)
        return error_set("--%s=%lld is too many: this machine has %ld core%s; expected at most one "
                         "thread per core",
                         name, number, cores, cores == 1 ? "" : "s");
    if (cores > 0 && number > cores && (!rank || !strcmp(rank, "0")))
        fprintf(stderr,
                "warning: --%s=%lld is more than this machine's %ld core%s: threads that take "
                "turns are slower than fewer\n",
                name, number, cores, cores == 1 ? "" : "s");
    *out = (int)number;
    return 0;
}

static int add_item(const struct option *o, const char *text)
{
    struct option_list *list = o->target;

    if (list->n == OPTIONS_ITEMS)
        return error_set("--%s was given more than %d times", o->name, list->n);
    list->item[list->n++] = text;
    return 0;
}

static int store(const struct option *o, const char *text)
{
    long long number;

    switch (o->type) {
    case OPTION_TEXT:
        if (!*text && !strncmp(o->value, "FILE", 4))
            return error_set("--%s= names no file: --%s=%s", o->name, o->name, o->value);
        *(const char **)o->target = text;
        return 0;
    case OPTION_THREADS:
        return parse_threads(o->name, text, o->target);
    case OPTION_INT:
    case OPTION_COUNT:
        if (parse_number(o->name, text, o->type == OPTION_COUNT, INT_MAX, &number))
            return -1;
        *(int *)o->target = (int)number;
        return 0;
    case OPTION_SEED:
        return parse_number(o->name, text, 0, LLONG_MAX, (long long *)o->target);
    case OPTION_BYTES:
        return parse_bytes(o->name, text, (size_t *)o->target);
    case OPTION_REAL:
        return parse_real(o->name, text, o->target);
    case OPTION_LIST:
        return add_item(o, text);
    case OPTION_FLAG:
    case OPTION_WORD:
    case OPTION_GROUP:
        break;
    }
    return 0;
}

/* What other programs call it: Caffe, PyTorch, torchrun, Horovod. */
static const struct {
    const char *name, *command; /* NULL: any command */
    const char *here;
} elsewhere[] = {
    {"batch-size", "train", "--batch=N sets samples per rank, --global-batch=N over all ranks"},
    {"batch-size", NULL, "--batch=N sets it where the command has one, else the net's batch_size"},
    {"lr", "train", "--set base_lr=X, or base_lr in the solver"},
    {"learning-rate", "train", "--set base_lr=X, or base_lr in the solver"},
    {"momentum", "train", "--set momentum=X, or momentum in the solver"},
    {"weight-decay", "train", "--set weight_decay=X, or weight_decay in the solver"},
    {"epochs", "train",
     "training is counted in iterations: --max-iter=N, an epoch being records / global batch"},
    {"np", NULL, "the number of ranks is the launcher's: mpirun -np N poseidon train ..."},
    {"n", NULL, "the number of ranks is the launcher's: mpirun -np N poseidon train ..."},
    {"nproc-per-node", NULL, "the launcher places ranks: mpirun --map-by ppr:N:node"},
    {"nnodes", NULL, "the launcher places ranks: mpirun -np N, or srun -N"},
    {"master-addr", NULL, "the launcher connects the ranks: mpirun -np N poseidon train ..."},
    {"resume-from", "train", "--snapshot=FILE.solverstate, or --resume for the newest"},
    {"checkpoint", "train", "--snapshot=FILE.solverstate, or --resume for the newest"},
    {"amp", "train", "--math=bf16 (with --engine=cuda)"},
    {"fp16", "train", "--math=bf16 (with --engine=cuda)"},
    {"fp16-allreduce", "train", "--wire=bf16"},
    {"solver", NULL, "a solver is for train; here --model=FILE names the net"},
    {"iterations", "train", "--max-iter=N sets the last iteration"},
    {"max-epochs", "train",
     "training is counted in iterations: --max-iter=N, an epoch being records / global batch"},
    {"log-interval", "train", "--set display=N"},
    {"print-freq", "train", "--set display=N"},
    {"gradient-accumulation-steps", "train", "--set iter_size=N"},
    {"workers", "train", "nothing to set: data is read ahead by as many threads as it takes"},
    {"num-workers", "train", "nothing to set: data is read ahead by as many threads as it takes"},
    {"pretrained", "train", "--weights=FILE"},
    {"evaluate", "train", "'poseidon test' scores weights"},
    {"backend", NULL, "messages go by Open MPI; its transports are mpirun's --mca options"},
    {"dist-backend", NULL, "messages go by Open MPI; its transports are mpirun's --mca options"},
    {"local-rank", NULL, "the launcher numbers the ranks: mpirun -np N poseidon train ..."},
    {"hostfile", NULL, "hosts are the launcher's: mpirun --hostfile FILE poseidon train ..."},
    {"hosts", NULL, "hosts are the launcher's: mpirun -host A,B poseidon train ..."},
    {"model", "train", "--solver=FILE: the solver names the net"},
    {"net", NULL, "--model=FILE"},
    {"data", NULL, "the net's data layer names the data: its source"},
};

static int unknown(const struct command_line *line, const char *name)
{
    struct suggest suggest = suggest_start(name);

    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(elsewhere[i].name, name) &&
            (!elsewhere[i].command || !strcmp(elsewhere[i].command, line->command)))
            return error_set("unknown option --%s: %s", name, elsewhere[i].here);
    for (int i = 0; i < line->noptions; i++)
        if (line->options[i].type != OPTION_GROUP)
            suggest_offer(&suggest, line->options[i].name);
    if (suggest.nearest)
        return error_set("unknown option --%s; did you mean --%s? (poseidon %s --help lists all)",
                         name, suggest.nearest, line->command);
    return error_set("unknown option --%s (poseidon %s --help lists all)", name, line->command);
}

/* --x, --nox, --x=true, --x=false, of words --x=VALUE. */
static int store_flag(const struct option *o, bool off, const char *value)
{
    bool on = !off && (!value || strcmp(value, "false") != 0);

    if (o->type == OPTION_WORD) {
        *(const char **)o->target = !on ? NULL : !value || !strcmp(value, "true") ? "" : value;
        return 0;
    }
    if (value && strcmp(value, "true") && strcmp(value, "false"))
        return error_set("--%s is a flag: give it alone, or =true or =false", o->name);
    *(bool *)o->target = on;
    return 0;
}

/* One option at argv[*i]; takes the next word as its value where it has none of its own. */
static int parse_option(const struct command_line *line, int argc, char **argv, int *i)
{
    char name[64];
    const char *word = argv[*i] + (argv[*i][1] == '-' ? 2 : 1), *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);

    if (length >= sizeof name)
        return error_set("unknown option %s", argv[*i]);
    memcpy(name, word, length);
    name[length] = '\0';
    for (size_t c = 0; c < length; c++)
        if (name[c] == '_')
            name[c] = '-';
    for (int k = 0; k < line->noptions; k++) {
        const struct option *o = &line->options[k];
        if (o->type == OPTION_GROUP)
            continue;
        bool flag = o->type == OPTION_FLAG || o->type == OPTION_WORD;
        bool off = flag && !strncmp(name, "no", 2) && !strcmp(name + 2, o->name);
        if (strcmp(name, o->name) && !off)
            continue;
        if (flag)
            return store_flag(o, off, equals ? equals + 1 : NULL);
        if (equals)
            return store(o, equals + 1);
        if (*i + 1 >= argc)
            return error_set("--%s needs a value: --%s=%s", o->name, o->name, o->value);
        return store(o, argv[++*i]);
    }
    return unknown(line, name);
}

void options_add(struct option_rows *rows, const struct option *more, int n)
{
    assert(rows->n + n <= OPTIONS_MOST);
    memcpy(rows->row + rows->n, more, (size_t)n * sizeof *more);
    rows->n += n;
}

/* "poseidon train solver.prototxt": what the word was meant to be, or NULL. */
static const char *option_of_word(const struct command_line *line, const char *word)
{
    const char *dot = strrchr(word, '.');

    for (int i = 0; dot && !strcmp(dot, ".prototxt") && i < line->noptions; i++)
        if (line->options[i].name &&
            (!strcmp(line->options[i].name, "solver") || !strcmp(line->options[i].name, "model")))
            return line->options[i].name;
    return NULL;
}

static int refuse_word(const struct command_line *line, const char *word)
{
    const char *option = option_of_word(line, word);

    return error_set("unexpected word '%s': %s%s%s%s%s (usage: poseidon %s %.*s)", word,
                     line->max_words == 0   ? "expected options only"
                     : line->max_words == 1 ? "expected one word besides options"
                                            : "there are too many words besides options",
                     option ? "; did you mean --" : "", option ? option : "", option ? "=" : "",
                     option ? word : "", line->command, (int)strcspn(line->synopsis, "\n"),
                     line->synopsis);
}

int options_parse(const struct command_line *line, int argc, char **argv, int *nwords)
{
    *nwords = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-help") || !strcmp(argv[i], "-h")) {
            print_help(line);
            return 1;
        }
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (parse_option(line, argc, argv, &i))
                return -1;
        } else if (*nwords >= line->max_words) {
            return refuse_word(line, argv[i]);
        } else {
            argv[++*nwords] = argv[i];
        }
    }
    return 0;
}

int options_select_gpus(const char *gpus, const char **engine)
{
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");

    *engine = "cuda";
    if (!strcmp(gpus, "all"))
        return 0;
    if (!*gpus || gpus[strspn(gpus, "0123456789,")])
        return error_set("--gpu=%s: expected all, or the GPUs' numbers such as 0,1", gpus);
    if (seen && strcmp(seen, gpus))
        return error_set("--gpu=%s and CUDA_VISIBLE_DEVICES=%s choose different GPUs; give one of "
                         "them",
                         gpus, seen);
    return setenv("CUDA_VISIBLE_DEVICES", gpus, 1) ? error_memory(strlen(gpus), "GPUs") : 0;
}

/* Blocks of as many threads as a GPU's have; part of emulation.cpp. A block's threads run one after
 * the other, each as far as it comes: one that is held up by a barrier or a vote keeps the stack
 * that it runs on, and a new one takes up those that have not begun. So kernels without either need
 * one stack, and no switch.
 *
 * POSEIDON_EMULATED_BLOCKS: "up", "down" or "mixed", the order in which threads have their turns;
 * without it, blocks have one thread each. A thread that reads what another writes behind the same
 * barrier shows in one of them. A barrier or vote that some threads never come to ends the program
 * with a message. POSEIDON_EMULATED_KERNELS: a file; the names of the kernels that ran are added to
 * it at the end. */
#include <setjmp.h>
#include <ucontext.h>

enum { FIBER_BYTES = 1 << 18, MOST_THREADS = 1024, MOST_KERNELS = 256 };

struct emulated_fiber {
    jmp_buf place;   /* where it goes on; a switch of contexts would ask the system each time */
    char *stack;     /* NULL: it was never begun */
    unsigned thread; /* that it runs */
    bool votes, bit; /* where it is held up: votes; else a barrier */
    uint32_t ballot; /* what came of the vote */
    int line;        /* of the barrier or vote; 0: it is not held up */
};

static struct {
    unsigned threads, begun; /* of this block */
    unsigned held;           /* fibers that are held up */
    const char *kernel;
    void (*run)(void *closure);
    void *closure;
    jmp_buf main;
    struct emulated_fiber fiber[MOST_THREADS], *running;
    struct emulated_fiber *of[MOST_THREADS]; /* by thread; NULL: has not begun, or is over */
} block;

bool emulated_whole;
static const char *fiber_turns;

static unsigned fiber_order(unsigned i)
{
    if (!strcmp(fiber_turns, "down"))
        return block.threads - 1 - i;
    if (!strcmp(fiber_turns, "mixed")) /* block.threads is a power of two */
        return (i * 37 + 11) % block.threads;
    return i;
}

static void fiber_leave(struct emulated_fiber *fiber)
{
    if (!_setjmp(fiber->place))
        _longjmp(block.main, 1);
}

/* Takes up threads until there are no more; then it is idle until there are others. */
static void fiber_main(void)
{
    struct emulated_fiber *fiber = block.running;

    for (;;) {
        while (block.begun < block.threads) {
            fiber->thread = fiber_order(block.begun++);
            threadIdx.x = fiber->thread;
            block.run(block.closure);
            block.of[fiber->thread] = NULL;
        }
        fiber_leave(fiber);
    }
}

static void fiber_begin(struct emulated_fiber *fiber)
{
    ucontext_t context;

    fiber->stack = (char *)malloc(FIBER_BYTES);
    getcontext(&context);
    context.uc_stack.ss_sp = fiber->stack;
    context.uc_stack.ss_size = FIBER_BYTES;
    context.uc_link = NULL;
    makecontext(&context, fiber_main, 0);
    setcontext(&context);
}

/* Until it is held up, or idle. */
static void fiber_resume(struct emulated_fiber *fiber)
{
    block.running = fiber;
    threadIdx.x = fiber->thread;
    if (_setjmp(block.main))
        return;
    if (fiber->stack)
        _longjmp(fiber->place, 1);
    fiber_begin(fiber);
}

static void fiber_hold(int line, bool votes, bool bit)
{
    struct emulated_fiber *fiber = block.running;

    fiber->line = line;
    fiber->votes = votes;
    fiber->bit = bit;
    block.of[fiber->thread] = fiber;
    block.held++;
    fiber_leave(fiber);
}

void emulated_barrier(int line)
{
    if (emulated_whole)
        fiber_hold(line, false, false);
}

uint32_t emulated_vote(int line, bool bit)
{
    if (!emulated_whole)
        return bit;
    fiber_hold(line, true, bit);
    return block.running->ballot;
}

/* Of these threads, which are held up together: NULL is one that is over. */
static void fiber_stuck(unsigned first, unsigned count)
{
    fprintf(stderr, "emulated GPU: kernel %s, block %u of %u threads: ", block.kernel, blockIdx.x,
            block.threads);
    for (unsigned t = first; t < first + count; t++) {
        const struct emulated_fiber *fiber = block.of[t];
        fprintf(stderr, fiber ? "%s%u %s in line %d" : "%s%u is over", t > first ? ", " : "thread ",
                t, fiber && fiber->votes ? "votes" : "waits", fiber ? fiber->line : 0);
    }
    fprintf(stderr, "\n");
    abort();
}

/* Whether they all are where the first is. */
static bool fiber_together(unsigned first, unsigned count)
{
    const struct emulated_fiber *one = block.of[first];

    for (unsigned t = first; t < first + count; t++)
        if (!one || !block.of[t] || block.of[t]->line != one->line ||
            block.of[t]->votes != one->votes)
            return false;
    return true;
}

/* The warp's threads know what all of them said. */
static void fiber_count(unsigned first, unsigned count)
{
    uint32_t ballot = 0;

    for (unsigned t = 0; t < count; t++)
        ballot |= (uint32_t)block.of[first + t]->bit << t;
    for (unsigned t = 0; t < count; t++) {
        block.of[first + t]->ballot = ballot;
        block.of[first + t]->line = 0;
    }
}

/* Lets those go on that have waited for nobody but each other; all fibers are held up. */
static void fiber_release(void)
{
    unsigned released = 0;

    for (unsigned first = 0; first < block.threads; first += 32) {
        unsigned count = block.threads - first < 32 ? block.threads - first : 32;
        bool vote = false;
        for (unsigned t = first; t < first + count; t++)
            vote = vote || (block.of[t] && block.of[t]->votes);
        if (!vote)
            continue;
        if (!fiber_together(first, count))
            fiber_stuck(first, count);
        fiber_count(first, count);
        released += count;
    }
    if (released)
        return;
    if (!fiber_together(0, block.threads))
        fiber_stuck(0, block.threads);
    for (unsigned t = 0; t < block.threads; t++)
        block.of[t]->line = 0;
}

void emulated_block(const char *kernel, unsigned threads, void (*run)(void *), void *closure)
{
    unsigned used = 0;

    if (threads > MOST_THREADS || (threads & (threads - 1))) {
        fprintf(stderr, "emulated GPU: kernel %s: blocks of %u threads\n", kernel, threads);
        abort();
    }
    block.threads = threads;
    block.begun = block.held = 0;
    block.kernel = kernel;
    block.run = run;
    block.closure = closure;
    while (block.begun < threads)
        fiber_resume(&block.fiber[used++]);
    while (block.held > 0) {
        fiber_release();
        for (unsigned i = 0; i < threads; i++) {
            struct emulated_fiber *fiber = block.of[fiber_order(i)];
            if (!fiber || fiber->line)
                continue;
            block.held--;
            fiber_resume(fiber);
        }
    }
}

/* ---- which kernels ran, and what they moved ---- */

size_t emulated_moved;

static struct {
    int count;
    const char *name[MOST_KERNELS];
    size_t moved[MOST_KERNELS];
} kernels;

void emulated_note(const char *kernel)
{
    int i = 0;

    while (i < kernels.count && kernels.name[i] != kernel)
        i++;
    if (i == kernels.count && i < MOST_KERNELS)
        kernels.name[kernels.count++] = kernel;
    if (i < MOST_KERNELS)
        kernels.moved[i] += emulated_moved;
}

static const char *kernel_name(int i)
{
    return kernels.name[i] + (kernels.name[i][0] == '(');
}

/* For tests: the bytes of activations that kernels of such names moved since the last question. */
extern "C" size_t emulated_bytes(const char *prefix)
{
    size_t bytes = 0;

    for (int i = 0; i < kernels.count; i++) {
        if (strncmp(kernel_name(i), prefix, strlen(prefix)))
            continue;
        bytes += kernels.moved[i];
        kernels.moved[i] = 0;
    }
    return bytes;
}

__attribute__((constructor)) static void begin_blocks(void)
{
    fiber_turns = getenv("POSEIDON_EMULATED_BLOCKS");
    emulated_whole = fiber_turns != NULL;
}

__attribute__((destructor)) static void tell_kernels(void)
{
    const char *path = getenv("POSEIDON_EMULATED_KERNELS");
    FILE *file = path ? fopen(path, "a") : NULL;

    for (int i = 0; file && i < kernels.count; i++)
        fprintf(file, "%.*s\n", (int)strcspn(kernel_name(i), "<)"), kernel_name(i));
    if (file)
        fclose(file);
}

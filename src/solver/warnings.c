/* What is well-formed and yet hardly what was meant. */
#include "solver/trainer_internal.h"

#include <string.h>

void trainer_warn(const struct trainer *t)
{
    const Caffe__SolverParameter *solver = t->solver;
    const struct trainer_options *o = t->options;
    bool cpu = !strcmp(o->engine, "cpu"), trains = false;

    for (int g = 0; g < t->net->ngroups; g++)
        trains |= t->net->groups[g].trains;
    if (!trains)
        LOG_WARNING(t->log, "Nothing trains: every lr_mult of the net is 0, or it has no layer "
                            "with parameters");
    if (solver->base_lr <= 0)
        LOG_WARNING(t->log, "%s: base_lr is %g: %s", o->solver, (double)solver->base_lr,
                    solver->base_lr < 0 ? "training climbs the loss" : "nothing trains");
    for (size_t i = 0; i < solver->n_test_iter; i++)
        if (solver->test_iter[i] == 0)
            LOG_WARNING(t->log, "%s: test_iter is 0: test net #%zu is not run", o->solver, i);
    if (cpu && solver->has_solver_mode &&
        solver->solver_mode == CAFFE__SOLVER_PARAMETER__SOLVER_MODE__GPU)
        LOG_WARNING(t->log,
                    "%s: solver_mode is GPU, but training runs on the CPU; --engine=cuda (or "
                    "--gpu=all) trains on GPUs",
                    o->solver);
    if (cpu && engine_math_is_reduced(o->math))
        LOG_WARNING(t->log, "%s", engine_math_unused);
    if (cpu && o->deterministic)
        LOG_WARNING(t->log, "--deterministic has no effect on --engine=cpu, which computes the "
                            "same bits at every run");
}

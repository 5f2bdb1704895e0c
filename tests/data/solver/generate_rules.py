#!/usr/bin/env python3
"""Writes rule_values.h: what each update rule must give after six updates.

Two independent sources: the formulas in numpy, in double precision, with everything varied (rates that
change, multipliers, scale, L1 and L2); and PyTorch's optimisers, in double precision, where they mean
the same (constant rate, L2). Run: python3 generate_rules.py > rule_values.h
"""
import numpy as np
import torch

N, STEPS = 13, 6
TYPES = ["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW"]
rng = np.random.default_rng(1701)


def numpy_rule(case):
    w = case["w0"].astype(np.float64)
    a, b = np.zeros(N), np.zeros(N)
    mu, delta = case["momentum"], case["delta"]
    for t in range(STEPS):
        g = case["grads"][t].astype(np.float64) * case["scale"]
        decay = case["weight_decay"] * case["decay_mult"]
        r = case["rates"][t] * case["lr_mult"]
        kind = case["type"]
        if kind == "AdamW":  # the form of the paper's algorithm 2, as PyTorch documents it
            beta2 = case["momentum2"]
            w = w - r * decay * w
            a = mu * a + (1 - mu) * g
            b = beta2 * b + (1 - beta2) * g**2
            w = w - r * (a / (1 - mu ** (t + 1))) / (np.sqrt(b / (1 - beta2 ** (t + 1))) + delta)
            continue
        g = g + decay * (w if case["regularization"] == "L2" else np.sign(w))
        if kind == "SGD":
            a = mu * a + r * g
            step = a
        elif kind == "Nesterov":
            new = mu * a + r * g
            step = (1 + mu) * new - mu * a
            a = new
        elif kind == "AdaGrad":
            a = a + g**2
            step = r * g / (np.sqrt(a) + delta)
        elif kind == "RMSProp":
            a = case["rms_decay"] * a + (1 - case["rms_decay"]) * g**2
            step = r * g / (np.sqrt(a) + delta)
        elif kind == "AdaDelta":
            a = mu * a + (1 - mu) * g**2
            d = g * np.sqrt((b + delta) / (a + delta))
            b = mu * b + (1 - mu) * d**2
            step = r * d
        else:
            beta2 = case["momentum2"]
            a = mu * a + (1 - mu) * g
            b = beta2 * b + (1 - beta2) * g**2
            correction = np.sqrt(1 - beta2 ** (t + 1)) / (1 - mu ** (t + 1))
            step = r * correction * a / (np.sqrt(b) + delta)
        w = w - step
    return w, a, b


def torch_rule(case):
    w = torch.tensor(case["w0"].astype(np.float64), requires_grad=True)
    r, wd = case["rates"][0] * case["lr_mult"], case["weight_decay"] * case["decay_mult"]
    mu, delta = case["momentum"], case["delta"]
    optimiser = {
        "SGD": lambda: torch.optim.SGD([w], r, momentum=mu, weight_decay=wd),
        "Nesterov": lambda: torch.optim.SGD([w], r, momentum=mu, weight_decay=wd, nesterov=True),
        "AdaGrad": lambda: torch.optim.Adagrad([w], r, weight_decay=wd, eps=delta),
        "RMSProp": lambda: torch.optim.RMSprop([w], r, alpha=case["rms_decay"], eps=delta,
                                               weight_decay=wd),
        "AdaDelta": lambda: torch.optim.Adadelta([w], r, rho=mu, eps=delta, weight_decay=wd),
        "Adam": lambda: torch.optim.Adam([w], r, betas=(mu, case["momentum2"]), eps=delta,
                                         weight_decay=wd),
        "AdamW": lambda: torch.optim.AdamW([w], r, betas=(mu, case["momentum2"]), eps=delta,
                                           weight_decay=wd),
    }[case["type"]]()
    for t in range(STEPS):
        w.grad = torch.tensor(case["grads"][t].astype(np.float64) * case["scale"])
        optimiser.step()
    return w.detach().numpy(), None, None


def make_case(kind, regularization, constant):
    momentum = {"SGD": 0.9, "Nesterov": 0.9, "AdaDelta": 0.95, "Adam": 0.9, "AdamW": 0.9}.get(kind, 0.0)
    w0 = rng.normal(size=N).astype(np.float32)
    w0[5] = 0
    rates = [0.05] * STEPS if constant else [0.05, 0.05, 0.05, 0.005, 0.005, 0.02]
    # Adam's delta stands elsewhere in PyTorch: there the two agree only as it vanishes.
    delta = {"AdaDelta": 1e-6, "Adam": 1e-12 if constant else 1e-2,
             "AdamW": 1e-2}.get(kind, 1e-3)
    return dict(type=kind, regularization=regularization, momentum=momentum, momentum2=0.99,
                rms_decay=0.9, delta=delta, weight_decay=0.0 if regularization == "none" else 0.1,
                lr_mult=2.0, decay_mult=0.5, scale=0.25, rates=rates, w0=w0,
                grads=rng.normal(size=(STEPS, N)).astype(np.float32))


def numbers(values):
    return "{" + ", ".join(f"{v:.9g}" for v in values) + "}"


def write_case(source, case, result):
    w, a, b = result
    head = [case["type"], case["regularization"]]
    print("    {" + ", ".join(f'"{s}"' for s in [source] + head) + ",")
    print("     " + ", ".join(f"{case[k]:.9g}" for k in (
        "momentum", "momentum2", "rms_decay", "delta", "weight_decay", "lr_mult", "decay_mult",
        "scale")) + ",")
    print(f"     {numbers(case['rates'])},\n     {numbers(case['w0'])},")
    print("     {" + ",\n      ".join(numbers(g) for g in case["grads"]) + "},")
    print(f"     {numbers(w)},")
    histories = [h for h in (a, b) if h is not None]
    print(f"     {len(histories)}, {{" + ",\n      ".join(numbers(h) for h in histories) + "}},")


print("/* Made by generate_rules.py; do not edit. */")
print(f"#define CASE_N {N}\n#define CASE_STEPS {STEPS}\n")
print("""static const struct rule_case {
    const char *source, *type, *regularization;
    double momentum, momentum2, rms_decay, delta, weight_decay, lr_mult, decay_mult, scale;
    double rates[CASE_STEPS], w0[CASE_N], grads[CASE_STEPS][CASE_N];
    double w[CASE_N]; /* after the last step */
    int nhistories;   /* 0: not compared */
    double history[2][CASE_N];
} rule_cases[] = {""")
for kind in TYPES:
    for regularization in ("L2", "none") if kind == "AdamW" else ("L2", "L1", "none"):
        case = make_case(kind, regularization, False)
        write_case("numpy", case, numpy_rule(case))
    case = make_case(kind, "L2", True)
    assert np.allclose(numpy_rule(case)[0], torch_rule(case)[0], rtol=1e-9, atol=0), kind
    write_case("torch", case, torch_rule(case))
print("};")
